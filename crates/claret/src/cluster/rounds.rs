//! Rounds: whoever has a deadline that is far away is woken at the end of the round, to look again. Most are over by
//! then, and never need a timer of their own.

use std::future::Future;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::wrong;

/// How long a round is.
pub(crate) const ROUND: Duration = Duration::from_millis(100);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    inner: Mutex<Inner>,
    /// Somebody waits for the end of the round.
    begun: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    number: u64,
    waiting: Vec<Waker>,
    is_over: bool,
}

impl Rounds {
    /// Wakes this task at the end of the round, whose number this is. `None`: nobody ends rounds any more.
    pub(super) fn join(&self, waker: &Waker) -> Option<u64> {
        let mut inner = self.inner.lock();
        if inner.is_over {
            return None;
        }
        if inner.waiting.is_empty() {
            self.begun.notify_one();
        }
        // One task often asks again before any other does.
        if !inner.waiting.last().is_some_and(|last| last.will_wake(waker)) {
            inner.waiting.push(waker.clone());
        }
        Some(inner.number)
    }

    /// Ends rounds, while somebody waits for it. Dropped, even before it runs, it ends the last one.
    pub(super) fn keep(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        let keeper = Keeper(self);
        async move {
            loop {
                keeper.0.begun.notified().await;
                sleep(ROUND).await;
                keeper.0.end(false);
            }
        }
    }

    /// Whether nobody ends rounds any more: the store is closed, or its runtime has ended.
    pub(super) fn is_over(&self) -> bool {
        self.inner.lock().is_over
    }

    fn end(&self, is_over: bool) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.number += 1;
            inner.is_over = is_over;
            wrong::woken(std::mem::take(&mut inner.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

struct Keeper(Arc<Rounds>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.end(true);
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
    async fn whoever_joined_is_woken_at_the_end_of_the_round() {
        let (rounds, one, other) =
            (Arc::<Rounds>::default(), Arc::<Woken>::default(), Arc::<Woken>::default());
        let keeper = tokio::spawn(Arc::clone(&rounds).keep());
        let count = || [&one, &other].map(|woken| woken.0.load(Ordering::Relaxed));
        let first = rounds.join(&Waker::from(Arc::clone(&one))).expect("they are kept");
        assert_eq!(rounds.join(&Waker::from(Arc::clone(&other))), Some(first));
        assert_eq!(count(), [0, 0]);
        sleep(ROUND * 2).await;
        assert_eq!(count(), [1, 1], "each once");
        let second = rounds.join(&Waker::from(Arc::clone(&one)));
        assert!(second > Some(first), "it is another round");
        keeper.abort();
        assert!(keeper.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(count(), [2, 1], "the last round ends with its keeper");
        assert!(rounds.is_over() && rounds.join(Waker::noop()).is_none());
    }
}
