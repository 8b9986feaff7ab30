//! Timers of transactions, in the order in which they are due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::ids::Time;

/// See the module's text. Most timers are set for the same time from now, so that they come in order: those wait in a
/// queue, and the rest in a heap. A timer that was set too often is harmless: whoever owns it looks whether it counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    queue: VecDeque<(Time, u64)>,
    heap: BinaryHeap<Reverse<(Time, u64)>>,
}

impl Timers {
    /// Sets a timer of a transaction. O(1), or O(log timers) out of order.
    pub(super) fn set(&mut self, due: Time, tx: u64) {
        match self.queue.back().is_none_or(|last| *last <= (due, tx)) {
            true => self.queue.push_back((due, tx)),
            false => self.heap.push(Reverse((due, tx))),
        }
    }

    /// The first that is due.
    pub(super) fn first(&self) -> Option<(Time, u64)> {
        match (self.queue.front(), self.heap.peek()) {
            (Some(queued), Some(Reverse(other))) => Some(*queued.min(other)),
            (Some(first), None) | (None, Some(Reverse(first))) => Some(*first),
            (None, None) => None,
        }
    }

    /// Takes the first, if it is due by now.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Time, u64)> {
        let first = self.first().filter(|(due, _)| *due <= now)?;
        match self.queue.front() == Some(&first) {
            true => self.queue.pop_front(),
            false => self.heap.pop().map(|Reverse(first)| first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_the_order_in_which_they_are_due() {
        let mut timers = Timers::default();
        for (due, tx) in [(5, 1), (9, 2), (7, 3), (9, 1), (3, 4), (11, 5)] {
            timers.set(Time(due), tx);
        }
        assert_eq!(timers.pop(Time(2)), None);
        let mut order = Vec::new();
        while let Some((due, tx)) = timers.pop(Time(10)) {
            assert!(timers.first().is_none_or(|(next, _)| next >= due));
            order.push((due.0, tx));
        }
        assert_eq!(order, [(3, 4), (5, 1), (7, 3), (9, 1), (9, 2)]);
        assert_eq!(timers.first(), Some((Time(11), 5)));
    }
}
