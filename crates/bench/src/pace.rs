//! How a client issues the operations of a transaction, and how long the application works in between.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How a transaction goes.
///
/// Time to think is waited for with tokio's timer, which rounds up to its next tick: a think time of 1 ms
/// takes between 1 and 2 ms. Nothing spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Operations known up front are issued together, and what needs no answer first commits in one step.
    Together,
    /// The operations of a stage are issued together inside a transaction; then the application works for so
    /// long, before the next stage and before the commit, while the transaction holds its locks.
    Pause(Duration),
    /// Every operation is awaited by itself inside a transaction. In between other clients run, and the
    /// application works for so long.
    Interactive(Duration),
}

/// Whether the operations of a transaction are issued together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Issue {
    /// All under one lock.
    Together,
    /// One by one, each under the lock.
    Interactive,
}

impl Pace {
    /// How the mode `mutex` issues its operations.
    pub(super) fn on_mutex(self) -> Issue {
        match self {
            Pace::Together => Issue::Together,
            Pace::Pause(_) | Pace::Interactive(_) => Issue::Interactive,
        }
    }
}

/// Application work of this length; none lets other clients run once.
pub(super) async fn think(time: Duration) {
    if time.is_zero() {
        yield_once().await;
    } else {
        tokio::time::sleep(time).await;
    }
}

/// Application work between two stages, where a transaction has some of its own.
pub(super) async fn think_between(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Lets the other tasks of this thread run once. Unlike tokio's `yield_now` it does not ask the operating system
/// for events each time; the runtime does so by itself at intervals.
pub(super) fn yield_once() -> impl Future<Output = ()> {
    YieldOnce { given: false }
}

struct YieldOnce {
    given: bool,
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
