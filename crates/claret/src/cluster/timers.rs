//! The timers of a store on a cluster, on the runtime that its connections live on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_timer::Delay;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::sleep;

use super::ticks::Ticks;

/// See the module's text. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Timers {
    runtime: Handle,
    ticks: Arc<Ticks>,
    ticking: AbortHandle,
}

impl Timers {
    /// Starts the coarse timer, and beside it something else that keeps time.
    pub(super) fn start(runtime: Handle, beside: impl Future<Output = ()> + Send + 'static) -> Self {
        let ticks = Arc::<Ticks>::default();
        let run = Arc::clone(&ticks).run();
        let ticking = runtime.spawn(async { tokio::join!(beside, run) }).abort_handle();
        Timers { runtime, ticks, ticking }
    }

    pub(super) fn stop(&self) {
        self.ticking.abort();
    }

    /// Whether they have stopped: the store is closed, or its runtime has ended.
    pub(super) fn are_over(&self) -> bool {
        self.ticks.is_over()
    }

    /// Wakes this task at the next tick, whose number this is. `None`: the time is too short for ticks, or there are none.
    pub(super) fn join_tick(&self, time: Duration, waker: &Waker) -> Option<u64> {
        self.ticks.join(time, waker)
    }

    /// Ends after some time, or with the runtime. A task of its own: few wait for so long that they need one. To poll a
    /// timer of a runtime that has ended is a panic, and to wait for a task of it is none.
    pub(super) fn after(&self, time: Duration) -> impl Future<Output = ()> + Send + use<> {
        Running(self.runtime.spawn(async move { sleep(time).await })).ended()
    }

    /// Runs something on the runtime, and waits until it has ended, for so long at most: nobody may drive that runtime.
    pub(super) fn run<F>(&self, most: Duration, task: F) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        run(&self.runtime, most, task)
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run<F>(runtime: &Handle, most: Duration, task: F) -> impl Future<Output = ()> + Send + use<F>
where
    F: Future<Output = ()> + Send + 'static,
{
    let running = Running(runtime.spawn(task));
    async move {
        let mut ended = Box::pin(running.ended());
        let mut bound = Delay::new(most);
        poll_fn(|cx| match ended.as_mut().poll(cx) {
            Poll::Pending => Pin::new(&mut bound).poll(cx),
            Poll::Ready(()) => Poll::Ready(()),
        })
        .await;
    }
}

/// A task that ends when nobody waits for it any more.
struct Running(JoinHandle<()>);

impl Running {
    /// Ends with the task, or with its runtime.
    async fn ended(mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: whoever closed a store on the thread that drove its runtime waited for ever.
    #[test]
    fn what_nobody_drives_is_waited_for_so_long() {
        let undriven = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        pollster::block_on(run(undriven.handle(), Duration::from_millis(10), std::future::pending()));
    }
}
