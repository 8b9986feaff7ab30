//! What a transaction does with operations that run at its commit (P90): it keeps them, takes them along, and answers.

use claret_core::CallNo;
use claret_types::{Bytes, Operation};

use super::last::Answered;
use super::{End, State, Tx, strange};
use crate::error::{Error, HandleError};

impl Tx {
    /// Whether what it commits is still to be made durable: until then its answers are not told.
    pub(crate) fn keep_unconfirmed(&self, is_unconfirmed: bool) {
        self.shared.state.lock().answers.keep_unconfirmed(is_unconfirmed);
    }

    /// Keeps operations. The place of the first among all that are kept. O(1) each.
    pub(crate) fn keep_last(
        &self,
        calls: impl IntoIterator<Item = (Bytes, Operation)>,
        names_key: bool,
    ) -> Result<usize, Error> {
        let mut state = self.shared.state.lock();
        let first = state.last.len();
        for (key, op) in calls {
            let call =
                self.admit(&mut state, key, op).inspect_err(|error| self.note_missing(&mut state, error))?;
            if let Some(nested) = &self.shared.nested {
                nested.note(std::slice::from_ref(&call));
            }
            state.last.keep(call, names_key);
        }
        Ok(first)
    }

    /// One of them has no form as bytes.
    pub(crate) fn refuse_last(&self, error: Error) -> Error {
        let error = self.fail(error);
        self.note_missing(&mut self.shared.state.lock(), &error);
        error
    }

    /// A handle of a nested transaction that is over takes nothing, and who gets a ticket does not hear that: the transaction must
    /// not commit without it, as long as it can be ended. Other refusals have ended the innermost nested transaction.
    fn note_missing(&self, state: &mut State, error: &Error) {
        let runs = state.attempt == self.attempt && state.end.is_none() && !state.committing;
        if runs && matches!(error, Error::Handle(HandleError::Finished)) {
            self.shared.doom_all(state, error.clone());
        }
    }

    /// The answers, once it has committed.
    pub(crate) fn answered_last(&self) -> Result<Answered, Error> {
        let state = self.shared.state.lock();
        if state.attempt != self.attempt {
            return Err(Error::Handle(HandleError::Finished));
        }
        match &state.end {
            Some(End::Committed) => match state.answers.told() {
                // A server lies.
                Some(committed) => state.last.replies(committed).ok_or_else(|| strange(true)),
                None => Err(Error::Handle(HandleError::NotCommitted)),
            },
            Some(end) => Err(self.shared.after(end)),
            None => Err(Error::Handle(HandleError::NotCommitted)),
        }
    }
}

impl State {
    /// The commit begins: brings them to the calls that it takes along, behind all others.
    pub(super) fn gather_last(&mut self) {
        let State { last, buffered, levels, .. } = self;
        let first = CallNo(levels.next_call + buffered.len() as u32);
        buffered.extend(last.take(first));
    }
}
