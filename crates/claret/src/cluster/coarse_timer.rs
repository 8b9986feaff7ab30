//! A timer for deadlines that are far away. Waiters are woken at the next tick and check their deadline themselves. Most
//! have their answer by then, and never need a timer of their own.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::planted;

/// The time between two ticks.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct CoarseTimer {
    inner: Mutex<Waiters>,
    /// Somebody waits for the next tick.
    asked: Notify,
    /// Set while `inner` is locked.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiters {
    number: u64,
    waiting: Vec<Waker>,
}

impl CoarseTimer {
    /// Wakes this task at the next tick, whose number this is. `None`: it ticks no more.
    pub(super) fn join(&self, waker: &Waker) -> Option<u64> {
        let mut inner = self.inner.lock();
        if self.is_over() {
            return None;
        }
        if inner.waiting.is_empty() {
            self.asked.notify_one();
        }
        // One task often asks again before any other does.
        if !inner.waiting.last().is_some_and(|last| last.will_wake(waker)) {
            inner.waiting.push(waker.clone());
        }
        Some(inner.number)
    }

    /// Ticks, while somebody waits for it. Dropped, even before it runs, it ticks for the last time.
    pub(super) fn run(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        let ticks = LastTick(self);
        async move {
            loop {
                ticks.0.asked.notified().await;
                sleep(TICK).await;
                ticks.0.tick(false);
            }
        }
    }

    /// Whether it ticks no more: the store is closed, or its runtime has ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn tick(&self, is_over: bool) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.number += 1;
            self.is_over.store(is_over, Ordering::Release);
            planted::woken(std::mem::take(&mut inner.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

struct LastTick(Arc<CoarseTimer>);

impl Drop for LastTick {
    fn drop(&mut self) {
        self.0.tick(true);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_joined_is_woken_at_the_next_tick() {
        let (timer, one, other) =
            (Arc::<CoarseTimer>::default(), Arc::<Woken>::default(), Arc::<Woken>::default());
        let ticking = tokio::spawn(Arc::clone(&timer).run());
        let count = || [&one, &other].map(|woken| woken.0.load(Ordering::Relaxed));
        let first = timer.join(&Waker::from(Arc::clone(&one))).expect("it ticks");
        assert_eq!(timer.join(&Waker::from(Arc::clone(&other))), Some(first));
        assert_eq!(count(), [0, 0]);
        sleep(TICK * 2).await;
        assert_eq!(count(), [1, 1], "each once");
        let second = timer.join(&Waker::from(Arc::clone(&one)));
        assert!(second > Some(first), "it is another tick");
        ticking.abort();
        assert!(ticking.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(count(), [2, 1], "it ticks for the last time");
        assert!(timer.is_over() && timer.join(Waker::noop()).is_none());
    }
}
