//! State that the module keeps between calls. Only the server's main thread reaches it, one caller at a time.

use std::cell::{Cell, UnsafeCell};

/// A value of the main thread's.
pub(crate) struct OnMainThread<T> {
    busy: Cell<bool>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: thread rule: no second thread ever comes to the cells.
unsafe impl<T> Sync for OnMainThread<T> {}

struct Busy<'a>(&'a Cell<bool>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<T> OnMainThread<T> {
    pub(crate) const fn new() -> Self {
        OnMainThread { busy: Cell::new(false), value: UnsafeCell::new(None) }
    }

    /// Puts a value in place, or takes it away.
    pub(crate) fn set(&self, value: Option<T>) {
        drop(self.replace(value));
    }

    /// The same; what was there before.
    pub(crate) fn replace(&self, value: Option<T>) -> Option<T> {
        assert!(!self.busy.get(), "nobody replaces what is in use");
        // SAFETY: no reference to the value lives: `with` alone makes one, and `busy` is set as long as it does; and between the
        // assertion and this nobody comes, since there is one thread.
        std::mem::replace(unsafe { &mut *self.value.get() }, value)
    }

    /// Runs with the value. `None` when there is none, or when somebody further up the stack is at it: the server
    /// calls back from within its own functions (an expired key's event, for one).
    #[inline]
    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.busy.replace(true) {
            return None;
        }
        let _busy = Busy(&self.busy);
        // SAFETY: no other reference to the value lives: `busy` was not set, and is until this returns or unwinds.
        let value = unsafe { &mut *self.value.get() };
        value.as_mut().map(run)
    }
}

#[cfg(test)]
mod tests {
    use super::OnMainThread;

    #[test]
    fn one_caller_at_a_time_and_free_again_after_a_panic() {
        let cell = OnMainThread::new();
        assert_eq!(cell.with(|value: &mut u32| *value), None);
        cell.set(Some(1));
        assert_eq!(cell.with(|value| cell.with(|inner| *inner).unwrap_or(*value + 10)), Some(11));
        let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cell.with(|_| panic!("in use"));
        }));
        assert!(thrown.is_err());
        assert_eq!(cell.with(|value| *value), Some(1));
        assert_eq!((cell.replace(None), cell.replace(Some(2)), cell.replace(None)), (Some(1), None, Some(2)));
    }
}
