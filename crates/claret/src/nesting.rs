//! Transactions within transactions: what a closure does with its store, and not with its `Tx`, is a transaction of its
//! own. The closure waits for it, so it must not wait for what the closure's own transaction holds.
//!
//! The thread knows which transaction's closure it is in. A transaction that begins there remembers that one as its
//! parent, and asks it about each call that might wait. Who asks holds no lock of a transaction.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};

use claret_types::{Bytes, Operation};
use parking_lot::Mutex;

use crate::backend::Backend;
use crate::call::Call;
use crate::error::{Error, ExecuteError};
use crate::observe::AttemptSpan;
use crate::tx::{Shared, Tx};

thread_local! {
    /// The innermost transaction whose closure runs on this thread.
    static RUNNING: Cell<Option<Tx>> = const { Cell::new(None) };
}

/// Runs a closure's future as a part of its transaction, and within the span of the attempt.
pub(crate) async fn within<F: Future>(tx: &Tx, span: &AttemptSpan, future: F) -> F::Output {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        // For this poll alone: between two, the thread may do anything.
        let _entered = (Entered::new(tx), span.enter());
        future.as_mut().poll(cx)
    })
    .await
}

/// The thread is in the closure of a transaction until this is dropped, also by a panic.
struct Entered {
    outer: Option<Tx>,
}

impl Entered {
    #[inline]
    fn new(tx: &Tx) -> Self {
        // A thread that ends has nothing to remember any more.
        let outer = RUNNING.try_with(|running| running.replace(Some(tx.clone())));
        Entered { outer: outer.ok().flatten() }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        let outer = self.outer.take();
        // What it replaces is dropped when the cell is whole again.
        let _inner = RUNNING.try_with(|running| running.replace(outer));
    }
}

/// The innermost transaction whose closure this thread is in.
#[inline]
pub(crate) fn running() -> Option<Tx> {
    let look = |running: &Cell<Option<Tx>>| {
        let tx = running.take();
        if tx.is_some() {
            running.set(tx.clone());
        }
        tx
    };
    RUNNING.try_with(look).ok().flatten()
}

/// Whether calls that commit together would wait for the transaction whose closure this thread is in.
///
/// # Errors
/// [`ExecuteError::WaitsForItself`](crate::errors::ExecuteError::WaitsForItself).
#[inline]
pub(crate) fn check(backend: &Arc<dyn Backend>, calls: &[Call]) -> Result<(), Error> {
    match running() {
        None => Ok(()),
        Some(tx) => {
            let waits = calls.iter().find(|call| is_in_the_way(tx.clone(), backend, &call.key, &call.op));
            waits.map_or(Ok(()), |call| {
                Err(Error::Execute(ExecuteError::WaitsForItself { key: call.key.clone() }))
            })
        }
    }
}

/// Whether a transaction, or one that waits for it, holds what an operation of another one conflicts with.
fn is_in_the_way(tx: Tx, backend: &Arc<dyn Backend>, key: &Bytes, op: &Operation) -> bool {
    let mut next = Some(tx);
    while let Some(tx) = next {
        if Arc::ptr_eq(&tx.shared.backend, backend) && tx.conflicts_with(key, op) {
            return true;
        }
        next = tx.shared.nested.as_ref().and_then(|nested| nested.parent());
    }
    false
}

/// What a transaction knows that began within another one's closure.
#[derive(Debug)]
pub(crate) struct Nested {
    /// It may have ended: then nothing waits for it.
    parent: (Weak<Shared>, u32),
    /// Operations of this attempt that take their locks later.
    issued: Mutex<Vec<Call>>,
}

impl Nested {
    /// `None`: this thread is in no closure.
    #[inline]
    pub(crate) fn here() -> Option<Box<Self>> {
        let parent = running()?;
        let parent = (Arc::downgrade(&parent.shared), parent.attempt);
        Some(Box::new(Nested { parent, issued: Mutex::default() }))
    }

    fn parent(&self) -> Option<Tx> {
        let (shared, attempt) = &self.parent;
        Some(Tx::of(shared.upgrade()?, *attempt))
    }

    /// Another attempt begins.
    pub(crate) fn begin_again(&self) {
        self.issued.lock().clear();
    }

    /// Operations that take their locks with the next one on their records, or with the commit.
    pub(crate) fn note(&self, calls: &[Call]) {
        self.issued.lock().extend_from_slice(calls);
    }

    /// How many there are.
    pub(crate) fn noted(&self) -> usize {
        self.issued.lock().len()
    }

    /// Those from this one on are undone, and take no locks any more, except those that are checked all the same.
    pub(crate) fn undo(&self, from: usize, checked: Vec<Call>) {
        let mut issued = self.issued.lock();
        issued.truncate(from);
        issued.extend(checked);
    }

    /// An operation that is executed now, and with it what was issued on its record.
    ///
    /// # Errors
    /// [`ExecuteError::WaitsForItself`](crate::errors::ExecuteError::WaitsForItself).
    pub(crate) fn check_execute(
        &self,
        backend: &Arc<dyn Backend>,
        key: &Bytes,
        op: &Operation,
    ) -> Result<(), Error> {
        let Some(parent) = self.parent() else { return Ok(()) };
        let issued = self.issued.lock().clone();
        let issued = issued.iter().filter(|call| call.key == *key).map(|call| &call.op);
        match issued.chain([op]).any(|op| is_in_the_way(parent.clone(), backend, key, op)) {
            true => Err(Error::Execute(ExecuteError::WaitsForItself { key: key.clone() })),
            false => Ok(()),
        }
    }

    /// The commit, which executes all that was issued.
    ///
    /// # Errors
    /// [`ExecuteError::WaitsForItself`](crate::errors::ExecuteError::WaitsForItself).
    pub(crate) fn check_commit(&self, backend: &Arc<dyn Backend>) -> Result<(), Error> {
        let Some(parent) = self.parent() else { return Ok(()) };
        let issued = self.issued.lock().clone();
        let waits = issued.iter().find(|call| is_in_the_way(parent.clone(), backend, &call.key, &call.op));
        waits.map_or(Ok(()), |call| {
            Err(Error::Execute(ExecuteError::WaitsForItself { key: call.key.clone() }))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::observe::TransactionSpan;
    use crate::store::Store;

    fn name(tx: &Tx) -> *const Shared {
        Arc::as_ptr(&tx.shared)
    }

    /// The thread serves others: a task that panicked must not seem to run on.
    #[test]
    fn a_closure_that_panics_or_is_dropped_is_left() {
        let store = Store::in_memory();
        let span = TransactionSpan::begin().attempt(1);
        let begin = || Tx::begin((&store.backend, None), 0, &span);
        let (outer, inner) = (begin(), begin());
        let nested = within(&outer, &span, async {
            let panics =
                AssertUnwindSafe(|| pollster::block_on(within(&inner, &span, async { panic!("at once") })));
            catch_unwind(panics).expect_err("it panics");
            assert_eq!(running().as_ref().map(name), Some(name(&outer)));
            let mut dropped = Box::pin(within(&inner, &span, std::future::pending::<()>()));
            assert!(
                dropped
                    .as_mut()
                    .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
                    .is_pending()
            );
            assert_eq!(running().as_ref().map(name), Some(name(&outer)));
        });
        pollster::block_on(nested);
        assert!(running().is_none());
    }
}
