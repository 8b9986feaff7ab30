//! Whether a thread that waits here stops the very tasks that it waits for.
//!
//! The only thread of a tokio runtime of the flavor `current_thread` runs all its tasks: the holder of a lock, the connections
//! of a store. If one of its tasks blocks the thread, they all stop, and nobody ends the wait.

/// Whether the caller is a task of such a runtime.
#[cfg(feature = "cluster")]
pub(crate) fn stops_by_waiting() -> bool {
    use tokio::runtime::{Handle, RuntimeFlavor};

    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
        && is_polled()
}

/// Without tokio nothing is known of runtimes.
#[cfg(not(feature = "cluster"))]
pub(crate) fn stops_by_waiting() -> bool {
    false
}

/// Whether tokio polls a task on this thread. Threads of `spawn_blocking`, and those that have entered the runtime by its
/// handle, know the same runtime, and are free to wait.
///
/// tokio gives each poll of a task a budget, so that no task keeps its thread to itself. Those threads have no bound. So this
/// spends the budget: if it ever ends, there is one. That costs the task no more than that it yields at its next wait.
#[cfg(feature = "cluster")]
fn is_polled() -> bool {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// tokio's is 128.
    const BUDGET_MAX: u32 = 1024;

    let mut cx = Context::from_waker(Waker::noop());
    (0..BUDGET_MAX).any(|_| pin!(tokio::task::coop::consume_budget()).poll(&mut cx).is_pending())
}

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use tokio::runtime::Builder;
    use tokio::task::{spawn_blocking, yield_now};

    use super::*;

    #[test]
    fn tasks_of_the_only_thread_stop_it_and_nobody_else_does() {
        assert!(!stops_by_waiting(), "no runtime");
        let one = Builder::new_current_thread().build().expect("a runtime");
        one.block_on(async {
            assert!(stops_by_waiting());
            assert!(stops_by_waiting(), "still");
            yield_now().await;
            assert!(tokio::spawn(async { stops_by_waiting() }).await.expect("no panic"));
            let aside = spawn_blocking(stops_by_waiting);
            assert!(!aside.await.expect("no panic"), "a thread for blocking");
        });
        let entered = one.enter();
        assert!(!stops_by_waiting(), "the runtime is entered, and not driven by this thread");
        drop(entered);
        let several = Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        several.block_on(async {
            assert!(!stops_by_waiting());
            assert!(!tokio::spawn(async { stops_by_waiting() }).await.expect("no panic"));
        });
    }
}
