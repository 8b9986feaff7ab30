//! Waiting for a turn, and for the end of locks that a turn of this gateway has (G7 of docs/gateway.md).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use claret_types::Bytes;
use tokio::time::timeout;

use crate::turns::{Id, Turns};

/// A place among those who take turns, which is left when this is dropped.
pub(crate) struct Place {
    turns: Rc<RefCell<Turns>>,
    id: Id,
    since: Instant,
}

impl Place {
    /// Waits for a turn on keys; `hold`: whoever has one that others want has it for no longer. `None`: not within `time`. `true`:
    /// somebody was in the way.
    pub(crate) async fn take(
        turns: &Rc<RefCell<Turns>>,
        (id, since): (Id, Instant),
        keys: Rc<[Bytes]>,
        (hold, time): (Duration, Duration),
    ) -> (Option<Place>, bool) {
        let place = Place { turns: Rc::clone(turns), id, since };
        let asked = turns.borrow_mut().ask(id, since, keys, Instant::now());
        let Some(granted) = asked else { return (Some(place), false) };
        let until = Instant::now() + time;
        while !turns.borrow().has(id) {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return (None, true);
            }
            // Whoever thinks for longer than a turn lasts has none any more.
            if timeout(left.min(hold), granted.notified()).await.is_err() {
                turns.borrow_mut().expire(Instant::now(), hold);
            }
        }
        (Some(place), true)
    }

    /// Whether it is this one's turn still.
    pub(crate) fn is_there(&self) -> bool {
        self.turns.borrow().has(self.id)
    }

    /// Waits until the keys have rested. Whether locks may be taken then; they are as good as taken.
    pub(crate) async fn lock(&self) -> bool {
        loop {
            let asked = self.turns.borrow_mut().lock(self.id, Instant::now());
            match asked {
                Some(Err(until)) => tokio::time::sleep_until(until.into()).await,
                Some(Ok(())) => return true,
                None => return false,
            }
        }
    }

    /// What is called when they are gone.
    pub(crate) fn unlocks(&self) -> impl FnOnce() + use<> {
        let (turns, id) = (Rc::clone(&self.turns), self.id);
        move || turns.borrow_mut().unlock(id, Instant::now())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.turns.borrow_mut().leave(self.id, self.since, Instant::now());
    }
}

/// Waits while another connection of this gateway has locks on one of these keys. `time`: for how long it may have some.
pub(crate) async fn pass<'a, I: Iterator<Item = &'a [u8]>>(
    turns: &RefCell<Turns>,
    id: Id,
    keys: impl Fn() -> I,
    time: Duration,
) {
    let until = Instant::now() + 2 * time;
    loop {
        let Some(end) = turns.borrow().locked(id, keys()) else { return };
        let left = until.saturating_duration_since(Instant::now());
        if timeout(left, end.notified()).await.is_err() {
            return;
        }
    }
}
