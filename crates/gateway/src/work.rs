//! What a command makes, reads and answers, and where long work is done: bytes are charged to the client's connection and bounded, and
//! whatever goes over many bytes or elements is done by another thread, so that no other client waits for it (G10).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use claret_planted::{Bug, is_planted};
use tokio::runtime::Handle;

use crate::fault::Fault;
use crate::limits::ELEMENT_BYTES;
use crate::memory::{Account, Charge};
use crate::metrics::Metrics;

/// What the thread of all clients does for one of them at once, in bytes.
pub(crate) const AT_ONCE_BYTES_MAX: usize = 256 << 10;

/// Operations that are sent before others get their turn.
pub(crate) const OPERATIONS_AT_ONCE_MAX: usize = 1_024;

tokio::task_local! {
    static WORK: Work;
}

/// See the module's text. Each client's task has one; where there is none, in tests, nothing is bounded.
#[derive(Clone, Default)]
pub(crate) struct Work(Option<Rc<Inner>>);

struct Inner {
    charge: RefCell<Charge>,
    /// By the command that runs.
    bytes: Cell<usize>,
    /// What it began with: its own words.
    first_bytes: Cell<usize>,
    /// The attempt of the transaction to which the rest belongs.
    attempt: Cell<u32>,
    metrics: Arc<Metrics>,
}

impl Work {
    pub(crate) fn of(account: &Account, metrics: Arc<Metrics>) -> Self {
        Work(Some(Rc::new(Inner {
            charge: RefCell::new(account.charge()),
            bytes: Cell::new(0),
            first_bytes: Cell::new(0),
            attempt: Cell::new(0),
            metrics,
        })))
    }

    /// That of this task.
    pub(crate) fn current() -> Self {
        WORK.try_with(Clone::clone).unwrap_or_default()
    }

    /// What this does is charged here.
    pub(crate) fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        WORK.scope(self, work)
    }

    /// A command begins, which has so many bytes itself; with 0 it is over.
    pub(crate) fn begin(&self, bytes: usize) {
        let Some(inner) = &self.0 else { return };
        inner.first_bytes.set(bytes);
        self.begin_attempt(0);
    }

    /// What an earlier attempt of its transaction made and read is let go.
    pub(crate) fn begin_attempt(&self, attempt: u32) {
        let Some(inner) = &self.0 else { return };
        inner.attempt.set(attempt);
        inner.bytes.set(inner.first_bytes.get());
        inner.charge.borrow_mut().set(inner.bytes.get());
    }

    /// The same, if it is another attempt than the one before.
    pub(crate) fn go_on(&self, attempt: u32) {
        if self.0.as_ref().is_some_and(|inner| inner.attempt.get() != attempt) {
            self.begin_attempt(attempt);
        }
    }

    /// So many bytes are made, read or answered.
    ///
    /// # Errors
    /// They are too many: the command cannot be done.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Fault> {
        let Some(inner) = &self.0 else { return Ok(()) };
        let all = inner.bytes.get().saturating_add(bytes);
        let mut charge = inner.charge.borrow_mut();
        if let Err(why) = charge.try_set(all) {
            Metrics::count(&inner.metrics.refused_for_bytes);
            return Err(Fault::Told(format!(
                "ERR what this makes, reads and answers is too much ({why}; at most {}): ask for less at once, or raise --client-bytes",
                charge.client_bytes_max()
            )));
        }
        inner.bytes.set(all);
        Ok(())
    }

    /// Does something that goes over so many bytes: at once if they are few, otherwise on another thread.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        // Without a runtime nobody waits.
        let elsewhere = Handle::try_current()
            .ok()
            .filter(|_| bytes >= AT_ONCE_BYTES_MAX && !is_planted(Bug::AllWorkOnOneThread));
        let Some(elsewhere) = elsewhere else { return work() };
        if let Some(inner) = &self.0 {
            Metrics::count(&inner.metrics.work_aside);
        }
        match elsewhere.spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// The same for so many elements.
    pub(crate) async fn over<T: Send + 'static>(
        &self,
        elements: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.aside(elements.saturating_mul(ELEMENT_BYTES), work).await
    }
}

/// Others get their turn after each so many operations. `count`: those before this one.
pub(crate) async fn rest_after(count: usize) {
    // Without a runtime nobody waits.
    if count % OPERATIONS_AT_ONCE_MAX == OPERATIONS_AT_ONCE_MAX - 1 && Handle::try_current().is_ok() {
        tokio::task::yield_now().await;
    }
}
