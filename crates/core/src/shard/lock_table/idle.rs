//! Locks not in use, with their memory, for the next records that somebody holds.
//!
//! Invariant ([`IdleLocks::check`]): none of them remembers anything of the record that had it.

use super::lock::Lock;

/// So many are kept.
const IDLE_MAX: usize = 1024;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct IdleLocks {
    /// Boxed, so that handing one out moves a pointer.
    #[allow(clippy::vec_box)]
    locks: Vec<Box<Lock>>,
}

impl IdleLocks {
    #[inline]
    pub(super) fn take(&mut self) -> Box<Lock> {
        self.locks.pop().unwrap_or_default()
    }

    /// Keeps a lock for another record, unless there are enough or it is large.
    #[inline]
    pub(super) fn put(&mut self, lock: Box<Lock>) {
        if self.locks.len() < IDLE_MAX && lock.is_small() {
            self.locks.push(lock);
        }
    }

    /// # Panics
    /// When the invariant does not hold.
    pub(super) fn check(&self) {
        assert!(self.locks.iter().all(|lock| lock.is_blank()), "an idle lock remembers something");
    }
}
