//! The coarse timer of a store on a cluster, which ticks on the store's runtime.

use std::future::Future;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::coarse_timer::{CoarseTimer, TICK};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    timer: CoarseTimer,
    /// Somebody waits for the next tick.
    asked: Notify,
}

impl Ticks {
    /// [`CoarseTimer::join`].
    pub(super) fn join(&self, time: Duration, waker: &Waker) -> Option<u64> {
        self.timer.join(time, waker, || self.asked.notify_one())
    }

    /// Ticks, while somebody waits for it. Dropped, even before it runs, it ticks for the last time.
    pub(super) fn run(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        let ticks = LastTick(self);
        async move {
            loop {
                ticks.0.asked.notified().await;
                sleep(TICK).await;
                ticks.0.timer.tick(false);
            }
        }
    }

    /// [`CoarseTimer::is_over`].
    pub(super) fn is_over(&self) -> bool {
        self.timer.is_over()
    }
}

struct LastTick(Arc<Ticks>);

impl Drop for LastTick {
    fn drop(&mut self) {
        self.0.timer.tick(true);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    /// Far away.
    const FAR: Duration = Duration::from_secs(9);

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_joined_is_woken_at_the_next_tick() {
        let (timer, one, other) = (Arc::<Ticks>::default(), Arc::<Woken>::default(), Arc::<Woken>::default());
        let ticking = tokio::spawn(Arc::clone(&timer).run());
        let count = || [&one, &other].map(|woken| woken.0.load(Ordering::Relaxed));
        let first = timer.join(FAR, &Waker::from(Arc::clone(&one))).expect("it ticks");
        assert_eq!(timer.join(FAR, &Waker::from(Arc::clone(&other))), Some(first));
        assert_eq!(count(), [0, 0]);
        sleep(TICK * 2).await;
        assert_eq!(count(), [1, 1], "each once");
        let second = timer.join(FAR, &Waker::from(Arc::clone(&one)));
        assert!(second > Some(first), "it is another tick");
        ticking.abort();
        assert!(ticking.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(count(), [2, 1], "it ticks for the last time");
        assert!(timer.is_over() && timer.join(FAR, Waker::noop()).is_none());
    }
}
