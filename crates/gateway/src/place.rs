//! Waiting for a turn, and for the end of locks that a turn of this gateway has (G7 of docs/gateway.md).

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use claret::Caller;
use claret_types::Bytes;
use tokio::time::timeout;

use crate::fault::{Fault, still_there};
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

/// Waits while another connection of this gateway has locks on one of these keys; for so long at most, and only as long as somebody is
/// there for whom it waits. Whether it had to.
///
/// # Errors
/// That one has left: nothing is begun for it.
pub(crate) async fn pass<'a, I: Iterator<Item = &'a [u8]>>(
    turns: &RefCell<Turns>,
    (id, caller): (Id, &Caller),
    keys: impl Fn() -> I,
    time: Duration,
) -> Result<bool, Fault> {
    let began = Instant::now();
    let mut has_waited = false;
    loop {
        let Some(end) = turns.borrow().locked(id, keys()) else { break };
        has_waited = true;
        let mut ended = pin!(timeout(time.saturating_sub(began.elapsed()), end.notified()));
        let is_over = poll_fn(|cx| match caller.is_gone() {
            true => Poll::Ready(true),
            false => ended.as_mut().poll(cx).map(|ended| ended.is_err()),
        });
        if is_over.await {
            break;
        }
    }
    if has_waited {
        still_there(caller)?;
    }
    Ok(has_waited)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// Bug: whoever had gone went on to wait for a turn's end, and its connection was counted as long.
    #[test]
    fn who_has_gone_waits_for_no_end_and_is_served_by_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _within = runtime.enter();
        let turns = RefCell::new(Turns::default());
        let (now, hour, key) = (Instant::now(), Duration::from_secs(3_600), Bytes::from("k"));
        assert!(turns.borrow_mut().ask(1, now, Rc::from([key.clone()]), now).is_none());
        assert_eq!(turns.borrow_mut().lock(1, now), Some(Ok(())));
        let cx = &mut Context::from_waker(Waker::noop());
        for ends in [false, true] {
            let caller = Caller::new();
            let mut pass = pin!(pass(&turns, (2, &caller), || [&key[..]].into_iter(), hour));
            assert!(pass.as_mut().poll(cx).is_pending());
            if ends {
                turns.borrow_mut().leave(1, now, now);
            }
            caller.leave();
            assert!(matches!(pass.poll(cx), Poll::Ready(Err(Fault::Told(_)))));
        }
        let caller = Caller::new();
        let mut pass = pin!(pass(&turns, (2, &caller), || [&key[..]].into_iter(), hour));
        assert_eq!(pass.as_mut().poll(cx), Poll::Ready(Ok(false)), "nobody is in the way");
    }
}
