//! Rounds: whoever has a deadline that is far away is woken at the end of the round, to look again. Most are over by
//! then, and never need a timer of their own.

use std::future::Future;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

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
            std::mem::take(&mut inner.waiting)
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
