//! A transaction whose operations are all known and commit together, in its first attempt.
//!
//! Where others bring about what becomes of it, it waits for one event, and mostly that is its commit. Then it never needs
//! what a transaction in progress has: no handles, nothing that is executed, no closure. Whatever else happens, it goes on as
//! a [`Tx`] that is committing.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use claret_core::{CallNo, Closed, Time};
use claret_types::Reply;
use parking_lot::Mutex;

use super::{State, Tx, writes};
use crate::backend::{Backend, Driver};
use crate::call::Call;
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::observe::AttemptSpan;

/// See the module's text. Dropped in mid-flight, the transaction is given up if that is still possible.
#[derive(Debug)]
pub(crate) struct OneShot {
    mailbox: Arc<Mailbox>,
    /// Until it is over, or handed over.
    driver: Mutex<Option<Box<dyn Driver>>>,
}

impl OneShot {
    /// Commits calls.
    ///
    /// # Errors
    /// [`Closed`] when they were not taken: nothing was done.
    pub(crate) fn begin(
        backend: &Arc<dyn Backend>,
        since: Option<Time>,
        calls: &[Call],
    ) -> Result<Self, Closed> {
        let mailbox = Arc::default();
        let driver = Arc::clone(backend).begin(&mailbox, since);
        let mut one_shot = OneShot { mailbox, driver: Mutex::new(Some(driver)) };
        one_shot.driver.get_mut().as_mut().ok_or(Closed)?.commit_all(1, calls)?;
        Ok(one_shot)
    }

    /// The answers of the commit; `None`: something else came of it, or the store is closed, and it is to go on as a [`Tx`].
    pub(crate) async fn committed(&self, backend: &dyn Backend) -> Option<Vec<(CallNo, Reply)>> {
        poll_fn(|cx| match self.mailbox.poll_committed(cx.waker()) {
            Poll::Pending if backend.is_closed() => Poll::Ready(None),
            polled => polled,
        })
        .await
    }

    /// Whether it waits for other transactions.
    pub(crate) fn is_blocked(&self) -> bool {
        self.driver.lock().as_ref().is_some_and(|driver| driver.is_blocked())
    }

    /// It has committed, and its answers are taken.
    pub(crate) fn end(mut self) {
        if let Some(mut driver) = self.driver.get_mut().take() {
            driver.end(true);
        }
    }

    /// The transaction in progress that it goes on as: it is committing these calls.
    pub(crate) fn go_on(mut self, backend: &Arc<dyn Backend>, calls: &[Call], span: &AttemptSpan) -> Tx {
        // Its driver knows how old it is.
        let tx = Tx::with_mailbox((backend, None), 0, span, Arc::clone(&self.mailbox));
        {
            let mut state = tx.shared.state.lock();
            state.note_writes(calls);
            state.driver = self.driver.get_mut().take();
            state.committing = true;
        }
        tx
    }
}

impl Drop for OneShot {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.get_mut() {
            driver.end(false);
        }
    }
}

impl Tx {
    /// Adds calls whose answers come with the commit. One that is committing has them already.
    pub(crate) fn buffer(&self, calls: &[Call]) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        if state.committing {
            return Ok(());
        }
        self.check_open(&mut state)?;
        state.note_writes(calls);
        if let Some(nested) = &self.shared.nested {
            nested.note(calls);
        }
        state.buffered.extend_from_slice(calls);
        Ok(())
    }

    /// Whether its commit has begun. How it ends may be known.
    pub(crate) fn is_committing(&self) -> bool {
        self.shared.state.lock().committing
    }

    /// The answers of a committed transaction all of whose calls were buffered, in their order.
    pub(crate) fn committed_replies(&self, calls: usize) -> Vec<Reply> {
        in_order(self.shared.state.lock().answers.take_committed(), calls)
    }
}

impl State {
    fn note_writes(&mut self, calls: &[Call]) {
        self.issued.note_writes(calls.iter().any(|call| writes(&call.op)));
    }
}

/// The answers of so many calls, in their order. Those that answer nothing are done.
pub(crate) fn in_order(answers: Vec<(CallNo, Reply)>, calls: usize) -> Vec<Reply> {
    let mut replies: Vec<Reply> = std::iter::repeat_with(|| Reply::Ok).take(calls).collect();
    for (no, reply) in answers {
        // A shard may name calls that nobody made.
        if let Some(place) = replies.get_mut(no.0 as usize) {
            *place = reply;
        }
    }
    replies
}
