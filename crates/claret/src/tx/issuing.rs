//! Operations that a transaction issues: let in, and kept for the commit, or under way to their shards.

use claret_types::{Access, Bytes, Claims, Command, KeyspaceOp, Mode as LockMode, OpError, Operation, Reply};

use super::{State, Tx};
use crate::answer::{Answer, Started};
use crate::backend::{Backend, InstantOutcome};
use crate::call::Call;
use crate::decode::{Decode, Keys};
use crate::error::{BeginError, Error, ExecuteError};

/// Operations.
impl Tx {
    /// Runs an operation whose answer the transaction needs now. An operation that returns nothing is kept for the
    /// commit, as by [`Tx::issue`], and answered `Ok`.
    pub fn execute(&self, key: impl Into<Bytes>, op: Operation) -> Answer<Reply> {
        self.execute_as(key.into(), op, Decode::plain())
    }

    /// Asks the server of a key by a command that only reads and is no operation of a type (`XLEN`, `GEOSEARCH`): what it answers of
    /// what is committed, under the record's lock. What writes is refused by name ([`Tx::at_commit`] carries it out), and so is a
    /// key that the transaction has changed. A store in this process has no server. A round trip, and what the command costs.
    pub fn ask<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Answer<Reply> {
        self.execute(key, asking(words))
    }

    /// Runs a reading operation and takes the record's lock exclusively, so that a later write of this
    /// transaction to it neither waits nor restarts.
    pub fn execute_for_update(&self, key: impl Into<Bytes>, op: Operation) -> Answer<Reply> {
        self.execute_for_update_as(key.into(), op, Decode::plain())
    }

    /// Adds an operation that runs at commit. It costs no message; its answer, if any, is dropped.
    ///
    /// # Errors
    /// Bad arguments and an ended transaction are refused here; errors that depend on the record come at commit. A
    /// refused operation dooms the transaction, even if the closure ignores the error.
    pub fn issue(&self, key: impl Into<Bytes>, op: Operation) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        let call = self.admit(&mut state, key.into(), op)?;
        if let Some(nested) = &self.shared.nested {
            nested.note(std::slice::from_ref(&call));
        }
        if self.shared.backend.applies_at_once() {
            return match self.shared.backend.instant(&[call]) {
                InstantOutcome::Failed { key, error } => Err(Error::invalid(key, error)),
                InstantOutcome::Done(_) | InstantOutcome::Blocked => Ok(()),
            };
        }
        state.keep(call);
        Ok(())
    }

    #[inline]
    pub(crate) fn execute_as<R>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Answer<R> {
        let keys = read.keys_of(&key);
        Answer { started: self.start(key, op, None), read, keys }
    }

    pub(crate) fn execute_for_update_as<R>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Answer<R> {
        let keys = read.keys_of(&key);
        Answer { started: self.start(key, op, Some(Claims::record(LockMode::EXCLUSIVE))), read, keys }
    }

    /// Runs operations together; their answer is an array of theirs.
    pub(crate) fn execute_many<R>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Answer<R> {
        let keys = Keys::Many(calls.iter().map(|(key, _)| key.clone()).collect());
        let parts: Vec<_> = calls.into_iter().map(|(key, op)| self.start(key, op, None)).collect();
        let replies = Vec::with_capacity(parts.len());
        Answer { started: Started::Many { parts: parts.into_iter(), replies }, read, keys }
    }

    fn start(&self, key: Bytes, op: Operation, reserve: Option<Claims>) -> Started {
        if op.is_command() {
            return Started::Ready(Err(self.fail(Error::invalid(key, answers_later(&op)))));
        }
        if let Some(nested) = &self.shared.nested {
            // A look waits for nobody; its check does.
            if self.looks_at(&key, &op, reserve.as_ref()) {
                nested.note(&[Call { key: key.clone(), op: op.clone() }]);
            } else if let Err(error) = nested.check_execute(&self.shared.backend, &key, &op) {
                return Started::Ready(Err(self.fail(error)));
            }
        }
        let mut state = self.shared.state.lock();
        let call = match self.admit(&mut state, key, op) {
            Ok(call) => call,
            Err(error) => return Started::Ready(Err(error)),
        };
        if self.shared.backend.applies_at_once() {
            return Started::Ready(match self.shared.backend.instant(&[call]) {
                InstantOutcome::Done(mut replies) => Ok(replies.pop().expect("one call")),
                InstantOutcome::Failed { key, error } => Err(Error::invalid(key, error)),
                InstantOutcome::Blocked => unreachable!("without locks nothing blocks"),
            });
        }
        let call = match self.start_looking(&mut state, call, reserve.as_ref()) {
            Ok(started) => return started,
            Err(call) => call,
        };
        if !call.op.returns() {
            // Nothing to wait for: its lock is taken at commit (P66).
            if let Some(nested) = &self.shared.nested {
                nested.note(std::slice::from_ref(&call));
            }
            state.buffered.push(call);
            return Started::Ready(Ok(Reply::Ok));
        }
        state.issued.note_sent();
        let Ok(no) = self.execute_call(&mut state, call, reserve) else {
            return Started::Ready(Err(self.closed(&mut state)));
        };
        self.shared.pump(&mut state);
        match state.answer(no) {
            Some(answer) => Started::Ready(answer),
            None => Started::Waits { tx: self.clone(), no, timer: None },
        }
    }

    /// Lets an operation in: the attempt runs, the operation is well-formed, and there are not too many.
    pub(super) fn admit(&self, state: &mut State, key: Bytes, mut op: Operation) -> Result<Call, Error> {
        self.check_open(state)?;
        if op.is_timed() || op.is_command() {
            self.shared.backend.resolve(&mut op);
        }
        let limit = self.shared.backend.limits().calls_max;
        let error = match check(&*self.shared.backend, &key, &op) {
            _ if self.shared.backend.is_closed() => Error::Begin(BeginError::Closed),
            Ok(()) if state.issued.add(limit, writes(&op)) => return Ok(Call { key, op }),
            Ok(()) => Error::Execute(ExecuteError::TooManyCalls { limit }),
            Err(error) => Error::invalid(key, error),
        };
        self.shared.doom(state, error.clone());
        Err(error)
    }
}

impl State {
    /// Keeps a call for the commit.
    pub(super) fn keep(&mut self, call: Call) {
        match &mut self.optimistic {
            Some(optimistic) if !optimistic.observations.is_locked_alone(&call.key) => {
                optimistic.observations.add(call.key, call.op);
            }
            _ => self.buffered.push(call),
        }
    }
}

/// Whether an operation may change its record. What only reads leaves nothing that could be unknown (P65).
pub(crate) fn writes(op: &Operation) -> bool {
    op.method().access == Access::Write
}

/// Checks an operation and its key before anything is locked.
pub(crate) fn check(backend: &dyn Backend, key: &Bytes, op: &Operation) -> Result<(), OpError> {
    if key.is_empty() {
        return Err(OpError::EmptyKey);
    }
    let limits = backend.limits();
    if key.len() > limits.key_bytes_max {
        return Err(OpError::TooLarge { what: "key".into(), size: key.len(), limit: limits.key_bytes_max });
    }
    backend.knows(op)?;
    op.check(limits.value_bytes_max)?;
    backend.schema().map_or(Ok(()), |schema| schema.check(key, op))
}

/// A command of the server that is asked now.
pub(crate) fn asking<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Operation {
    let words: Vec<Bytes> = words.into_iter().map(|word| Bytes::copy_from(word.as_ref())).collect();
    Operation::from(KeyspaceOp::Ask(Command::new(Access::Read, &words)))
}

/// A command of the server is asked for its answer before the commit (A22).
fn answers_later(op: &Operation) -> OpError {
    let name = op.command().and_then(|it| it.words().first()).map(Bytes::to_string).unwrap_or_default();
    OpError::Custom(
        format!("{name} is carried out with the commit, and answers then: issue it with Tx::at_commit, and ask its ticket; what only reads is asked with Tx::ask").into(),
    )
}
