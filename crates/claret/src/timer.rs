//! Timers. In the process they are exact and of no runtime; on a cluster they are the runtime's own, which cost a
//! tenth and are exact to a millisecond. A transaction may wait elsewhere than on the runtime of its store's
//! connections, and outlive that: its timer then ends at once, since nobody is left to answer.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_timer::Delay;

use crate::host::Host;

/// A future that is ready after some time.
#[derive(Debug)]
pub(crate) enum Timer {
    Exact(Delay),
    #[cfg(feature = "cluster")]
    Coarse(Pin<Box<tokio::time::Sleep>>),
    #[cfg(feature = "cluster")]
    Away(Away),
}

/// A timer on another runtime than that of whoever waits, perhaps. To poll one of a runtime that has ended is an error
/// that cannot be caught; to wait for a task of it is none.
#[cfg(feature = "cluster")]
#[derive(Debug)]
pub(crate) struct Away(tokio::task::JoinHandle<()>);

#[cfg(feature = "cluster")]
impl Away {
    pub(crate) fn new(runtime: &tokio::runtime::Handle, after: Duration) -> Self {
        Away(runtime.spawn(async move { tokio::time::sleep(after).await }))
    }
}

#[cfg(feature = "cluster")]
impl Drop for Away {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Timer {
    pub(crate) fn exact(after: Duration) -> Self {
        Timer::Exact(Delay::new(after))
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            Timer::Exact(delay) => Pin::new(delay).poll(cx),
            #[cfg(feature = "cluster")]
            Timer::Coarse(sleep) => sleep.as_mut().poll(cx),
            #[cfg(feature = "cluster")]
            Timer::Away(Away(task)) => Pin::new(task).poll(cx).map(|_| ()),
        }
    }
}

/// The end of a time. The clock is asked only when something has to wait, and a timer made only when it has waited
/// for a while, where the host can wake it then.
pub(crate) struct Deadline<'a> {
    host: &'a Host,
    after: Duration,
    /// The round in which it began to wait, and when that was.
    round: Option<(u64, Instant)>,
    timer: Option<Timer>,
}

impl<'a> Deadline<'a> {
    pub(crate) fn new(host: &'a Host, after: Duration) -> Self {
        Deadline { host, after, round: None, timer: None }
    }

    /// The future's output; `None` when the time is over first.
    pub(crate) async fn race<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if self.timer.is_none() && self.is_early(cx.waker()) {
                return Poll::Pending;
            }
            let waited = self.round.map_or(Duration::ZERO, |(_, since)| since.elapsed());
            let left = self.after.saturating_sub(waited);
            let timer = self.timer.get_or_insert_with(|| self.host.timer(left));
            Pin::new(timer).poll(cx).map(|()| None)
        })
        .await
    }

    /// Whether the round in which it began to wait is not over: then that wakes the task before the time is near.
    fn is_early(&mut self, waker: &Waker) -> bool {
        let joined = self.host.join_round(self.after, waker);
        joined.is_some_and(|number| self.round.get_or_insert_with(|| (number, Instant::now())).0 == number)
    }
}
