//! Future events, ordered by (time, number): nothing else orders anything in a run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use claret_core::Time;

use crate::event::SimEvent;

/// See the module's text. What is kept does not move while the order is kept up: it is large.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    number: u64,
    order: BinaryHeap<Reverse<(Time, u64, usize)>>,
    kept: Vec<Option<SimEvent>>,
    free: Vec<usize>,
    awaited: u64,
}

impl Queue {
    /// Behind everything that happens at the same time. O(log n).
    pub(crate) fn push(&mut self, at: Time, event: SimEvent) {
        self.number += 1;
        self.push_as(self.number, at, event);
    }

    /// Puts off what was taken: at its new time it comes before what was pushed after it.
    pub(crate) fn put_off(&mut self, number: u64, at: Time, event: SimEvent) {
        self.push_as(number, at, event);
    }

    fn push_as(&mut self, number: u64, at: Time, event: SimEvent) {
        self.awaited += u64::from(event.is_awaited());
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        self.kept[place] = Some(event);
        self.order.push(Reverse((at, number, place)));
    }

    /// The next, with its number. O(log n).
    pub(crate) fn pop(&mut self) -> Option<(Time, u64, SimEvent)> {
        let Reverse((at, number, place)) = self.order.pop()?;
        let event = self.kept[place].take().expect("each place is in the order once");
        self.free.push(place);
        self.awaited -= u64::from(event.is_awaited());
        Some((at, number, event))
    }

    /// Messages and audits that a run waits for.
    pub(crate) fn awaited(&self) -> u64 {
        self.awaited
    }
}
