//! What a command makes, reads and answers, and where long work is done: bytes are charged to the client's connection and bounded, and
//! whatever goes over many bytes or elements is done by another thread, so that no other client waits for it (G10).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use claret_commands::{Answer, Later, Made, Runner};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::memory::{Account, Charge};
use crate::metrics::Metrics;

/// What the thread of all clients does for one of them at once, in bytes.
pub(crate) const AT_ONCE_BYTES_MAX: usize = 256 << 10;

/// See the module's text. Each client has one.
#[derive(Clone)]
pub(crate) struct Work(Rc<Inner>);

struct Inner {
    charge: RefCell<Charge>,
    /// By the command that runs.
    bytes: Cell<usize>,
    /// What it began with: its own words.
    first_bytes: Cell<usize>,
    /// The attempt of the transaction to which the rest belongs.
    attempt: Cell<u32>,
    /// Messages that leave with the commit.
    messages: RefCell<Vec<Vec<Bytes>>>,
    /// Who asks nodes for scripts.
    finder: RefCell<Option<Rc<dyn Finds>>>,
    metrics: Arc<Metrics>,
}

/// Asks nodes which keys there are, for the scripts of a client.
pub(crate) trait Finds {
    /// What a command of this name finds.
    fn for_script(
        &self,
        name: &'static str,
        words: Vec<Bytes>,
    ) -> Later<'_, Result<Answer, claret_commands::Fault>>;
}

impl Work {
    pub(crate) fn of(account: &Account, metrics: Arc<Metrics>) -> Self {
        Work(Rc::new(Inner {
            charge: RefCell::new(account.charge()),
            bytes: Cell::new(0),
            first_bytes: Cell::new(0),
            attempt: Cell::new(0),
            messages: RefCell::default(),
            finder: RefCell::default(),
            metrics,
        }))
    }

    /// A command begins, which has so many bytes itself; with 0 it is over.
    pub(crate) fn begin(&self, bytes: usize) {
        self.0.first_bytes.set(bytes);
        self.begin_attempt(0);
    }

    /// The messages that are to leave now that the transaction has committed.
    pub(crate) fn take_messages(&self) -> Vec<Vec<Bytes>> {
        self.0.messages.take()
    }

    /// Nodes are asked for scripts by this one from now on.
    pub(crate) fn finds_by(&self, finder: Rc<dyn Finds>) {
        self.0.finder.replace(Some(finder));
    }

    /// So many bytes are kept until the command is over, whatever attempts it makes.
    ///
    /// # Errors
    /// They are too many.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), claret_commands::Fault> {
        self.take(bytes)?;
        self.0.first_bytes.set(self.0.first_bytes.get() + bytes);
        Ok(())
    }
}

impl Runner for Work {
    fn begin_attempt(&self, attempt: u32) {
        let inner = &self.0;
        inner.attempt.set(attempt);
        inner.messages.borrow_mut().clear();
        inner.bytes.set(inner.first_bytes.get());
        inner.charge.borrow_mut().set(inner.bytes.get());
    }

    fn go_on(&self, attempt: u32) {
        if self.0.attempt.get() != attempt {
            self.begin_attempt(attempt);
        }
    }

    fn take(&self, bytes: usize) -> Result<(), claret_commands::Fault> {
        let inner = &self.0;
        let all = inner.bytes.get().saturating_add(bytes);
        let mut charge = inner.charge.borrow_mut();
        if let Err(why) = charge.try_set(all) {
            Metrics::count(&inner.metrics.refused_for_bytes);
            return Err(claret_commands::Fault::Told(format!(
                "ERR what this makes, reads and answers is too much ({why}; at most {}): ask for less at once, or raise --client-bytes",
                charge.client_bytes_max()
            )));
        }
        inner.bytes.set(all);
        Ok(())
    }

    fn is_long(&self, bytes: usize) -> bool {
        bytes >= AT_ONCE_BYTES_MAX && !is_planted(Bug::AllWorkOnOneThread)
    }

    fn elsewhere(&self, work: Box<dyn FnOnce() -> Made + Send>) -> Later<'_, Made> {
        Metrics::count(&self.0.metrics.work_aside);
        Box::pin(async move {
            match tokio::task::spawn_blocking(work).await {
                Ok(made) => made,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn publish(&self, message: Vec<Bytes>) -> Result<(), claret_commands::Fault> {
        self.take(message.iter().map(|word| word.len()).sum())?;
        self.0.messages.borrow_mut().push(message);
        Ok(())
    }

    fn find(
        &self,
        name: &'static str,
        words: Vec<Bytes>,
    ) -> Later<'_, Result<Answer, claret_commands::Fault>> {
        let finder = self.0.finder.borrow().clone().expect("who runs scripts can find keys");
        Box::pin(async move { finder.for_script(name, words).await })
    }

    fn rest(&self) -> Later<'_, ()> {
        Box::pin(tokio::task::yield_now())
    }
}
