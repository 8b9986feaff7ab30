//! Why nothing can be written to a log.

use std::sync::atomic::{AtomicBool, Ordering};

use claret_planted::{Bug, is_planted};
use parking_lot::Mutex;

use crate::error::Reason;

/// Why nothing can be written.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// For now.
    Full(Reason),
    /// It failed.
    Stopped(Reason),
    /// All is written, and the store was closed.
    Closed,
}

impl Trouble {
    /// Nothing is written any more, whatever comes.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Trouble::Stopped(_) | Trouble::Closed)
    }
}

/// A log's trouble, if it has one. To see that it has none takes no lock.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    what: Mutex<Option<Trouble>>,
    /// Set after `what`, and never while that is locked.
    is_some: AtomicBool,
}

impl Troubles {
    pub(super) fn set(&self, trouble: Option<Trouble>) {
        let is_some = trouble.is_some();
        *self.what.lock() = trouble;
        self.is_some.store(is_some, Ordering::Release);
    }

    pub(super) fn is_some(&self) -> bool {
        self.is_some.load(Ordering::Acquire)
    }

    pub(super) fn get(&self) -> Option<Trouble> {
        self.what.lock().clone()
    }

    /// Whether nothing is written any more.
    pub(super) fn has_stopped(&self) -> bool {
        !is_planted(Bug::EndUntold)
            && self.is_some()
            && self.what.lock().as_ref().is_some_and(Trouble::is_end)
    }
}
