//! What a transaction does with operations that run at its commit (P90): it keeps them, takes them along, and answers.

use claret_core::CallNo;
use claret_types::{Bytes, Operation};

use super::last::Answered;
use super::{End, State, Tx, strange};
use crate::error::Error;

impl Tx {
    /// Keeps an operation. Its place among them. O(1).
    pub(crate) fn keep_last(&self, key: Bytes, op: Operation, names_key: bool) -> Result<usize, Error> {
        let mut state = self.shared.state.lock();
        let call = self.admit(&mut state, key, op)?;
        if let Some(nested) = &self.shared.nested {
            nested.note(std::slice::from_ref(&call));
        }
        Ok(state.last.keep(call, names_key))
    }

    /// How many are kept, those that are undone as well.
    pub(crate) fn kept_last(&self) -> usize {
        self.shared.state.lock().last.len()
    }

    /// The answers, once it has committed.
    pub(crate) fn answered_last(&self) -> Result<Answered, Error> {
        let state = self.shared.state.lock();
        if state.attempt != self.attempt {
            return Err(Error::Finished);
        }
        match &state.end {
            // A server lies.
            Some(End::Committed) => state.last.replies(&state.committed).ok_or_else(|| strange(true)),
            Some(end) => Err(self.shared.after(end)),
            None => Err(Error::NotCommitted),
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
