//! The deadline of a transaction: a time, and the caller that has left.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_timer::Delay;

use crate::backend::{Backend, Task};
use crate::caller::Caller;

/// See the module's text. The clock is asked only when something has to wait, and a timer made only when it has waited
/// for a while, where the backend can wake it then.
pub(crate) struct Deadline<'a> {
    backend: &'a dyn Backend,
    after: Duration,
    /// The tick before which it began to wait, and when that was.
    tick: Option<(u64, Instant)>,
    timer: Option<Timer>,
    is_over: bool,
    /// For whom it is, where that is known.
    caller: Option<&'a Caller>,
}

enum Timer {
    /// Exact, and of no runtime.
    Own(Delay),
    OfBackend(Task<'static>),
}

impl Timer {
    fn new(backend: &dyn Backend, after: Duration) -> Self {
        backend.timer(after).map_or_else(|| Timer::Own(Delay::new(after)), Timer::OfBackend)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Timer::Own(delay) => Pin::new(delay).poll(cx),
            Timer::OfBackend(task) => task.as_mut().poll(cx),
        }
    }
}

impl<'a> Deadline<'a> {
    pub(crate) fn new(backend: &'a dyn Backend, after: Duration) -> Self {
        Deadline { backend, after, tick: None, timer: None, is_over: false, caller: None }
    }

    /// The same of something that ends when it waits for others and its caller has left.
    pub(crate) fn of(self, caller: Option<&'a Caller>) -> Self {
        Deadline { caller, ..self }
    }

    /// The future's output; `None` when the time is over first, or was before.
    pub(crate) async fn race<F: Future>(&mut self, future: F) -> Option<F::Output> {
        self.race_while(future, || false).await
    }

    /// The same; `None`, too, when the caller has left and the future waits for others.
    pub(crate) async fn race_while<F: Future>(
        &mut self,
        future: F,
        waits: impl Fn() -> bool,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if self.is_over {
                // Its timer has ended, and is not to be asked again.
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if self.is_in_vain(cx, &waits) {
                self.is_over = true;
                return Poll::Ready(None);
            }
            if self.timer.is_none() && self.is_early(cx.waker()) {
                return Poll::Pending;
            }
            let waited = self.tick.map_or(Duration::ZERO, |(_, since)| since.elapsed());
            let left = self.after.saturating_sub(waited);
            let timer = self.timer.get_or_insert_with(|| Timer::new(self.backend, left));
            timer.poll(cx).map(|()| {
                self.is_over = true;
                None
            })
        })
        .await
    }

    /// Whether nobody is there who would hear of what is waited for. What does not wait now may wait soon: then this task is woken.
    fn is_in_vain(&mut self, cx: &mut Context<'_>, waits: &impl Fn() -> bool) -> bool {
        let Some(caller) = self.caller.filter(|caller| caller.has_left(cx.waker())) else { return false };
        let is_in_vain = waits();
        if !is_in_vain {
            caller.look_again(cx);
        }
        is_in_vain
    }

    /// Whether the tick before which it began to wait is to come: that wakes the task before the time is near.
    fn is_early(&mut self, waker: &Waker) -> bool {
        let joined = self.backend.join_tick(self.after, waker);
        joined.is_some_and(|number| self.tick.get_or_insert_with(|| (number, Instant::now())).0 == number)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use claret_core::Limits;

    use super::*;
    use crate::embedded::Embedded;
    use crate::mode::Mode;

    /// Bug: the timer was polled again after its end, which is a panic of a timer that is a task.
    #[test]
    fn a_time_that_is_over_stays_over() {
        let backend = Embedded::new(1, Mode::default(), Limits::default(), None);
        let mut deadline = Deadline::new(&backend, Duration::ZERO);
        pollster::block_on(async {
            assert_eq!(deadline.race(ready(1)).await, Some(1), "it is asked only when something has to wait");
            assert_eq!(deadline.race(pending::<u8>()).await, None);
            assert_eq!(deadline.race(ready(2)).await, None);
        });
    }
}
