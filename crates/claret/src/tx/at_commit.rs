//! Operations that run at the commit, behind all others, and whose answers come with it (P90).
//!
//! They are kept apart until the commit begins, so that nothing else of the transaction sees them or takes them along. Then they
//! are the last calls of all. So their answers are found by number: that of the first of them, and how many are before it.

use claret_core::CallNo;
use claret_types::{Bytes, FromReply, OpError, Operation, Reply};

use super::{End, State, Tx, strange};
use crate::batch::{Replies, Ticket};
use crate::call::Call;
use crate::error::Error;
use crate::read::Read;
use crate::records::{Scope, Ticketed};
use crate::value::ValueError;

/// The last operations of a transaction: they run at its commit, behind all others, and their answers come with it. They cost no
/// round trip of their own, and take their locks with the commit and not before it.
///
/// So whatever many want belongs here: a number of the next order, what is left in stock. What the closure needs to know before it
/// ends does not. It is a [`Scope`](crate::Scope), as a [`Batch`](crate::Batch) is, and gives [`Ticket`]s.
///
/// ```
/// # pollster::block_on(async {
/// use claret::{Records, Store};
/// let store = Store::in_memory();
/// store.register("price").set(12).await?;
/// let (last, number) = store.transaction(async |tx| {
///     let price: Option<i64> = tx.register("price").get().await?;
///     let last = tx.at_commit();
///     let number = last.list("orders").push_back_returning(price.unwrap_or_default());
///     Ok((last, number))
/// }).await?;
/// assert_eq!(last.replies()?.get(number)?, 1);
/// # Ok::<_, claret::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct AtCommit {
    tx: Tx,
}

/// Of one attempt.
#[derive(Debug, Default)]
pub(super) struct Last {
    calls: Vec<Kept>,
    /// The keys of calls whose answers may be values of another type, in their order.
    keys: Vec<(usize, Bytes)>,
    /// The number of the first that is not undone, once the commit has begun.
    first: Option<CallNo>,
}

#[derive(Debug)]
struct Kept {
    /// `None`: it is undone, or is on its way with the commit.
    call: Option<Call>,
    is_undone: bool,
    answers: bool,
}

impl Tx {
    /// Where operations are issued that run at the commit, behind all others of the transaction, and whose answers come with it.
    /// O(1).
    pub fn at_commit(&self) -> AtCommit {
        AtCommit { tx: self.clone() }
    }
}

impl AtCommit {
    /// Adds an operation. O(1), and no message.
    ///
    /// One that is refused (bad arguments, or the transaction is over) ends the innermost nested transaction, or the transaction; then
    /// the ticket stands for nothing. Errors that depend on the record come at the commit.
    pub fn push<R: FromReply>(&self, key: impl Into<Bytes>, op: Operation) -> Ticket<R> {
        self.push_as(key.into(), op, Read::plain())
    }

    fn push_as<R>(&self, key: Bytes, op: Operation, read: Read<R>) -> Ticket<R> {
        match self.keep(key, op, read.may_fail()) {
            Ok(at) => Ticket::at(at, read),
            Err(_) => Ticket::of_nothing(),
        }
    }

    /// Its place among the others.
    fn keep(&self, key: Bytes, op: Operation, names_key: bool) -> Result<usize, Error> {
        let shared = &self.tx.shared;
        let mut state = shared.state.lock();
        let call = self.tx.admit(&mut state, key, op)?;
        if let Some(nested) = &shared.nested {
            nested.note(std::slice::from_ref(&call));
        }
        let (last, answers) = (&mut state.last, call.op.returns());
        let at = last.calls.len();
        if names_key {
            last.keys.push((at, call.key.clone()));
        }
        last.calls.push(Kept { call: Some(call), is_undone: false, answers });
        Ok(at)
    }

    /// The answers, once the transaction has committed; of one that was rolled back, none. O(operations here).
    ///
    /// # Errors
    /// [`Error::NotCommitted`] before that; what ended it, if that was no commit.
    pub fn replies(&self) -> Result<Replies, Error> {
        let state = self.tx.shared.state.lock();
        if state.attempt != self.tx.attempt {
            return Err(Error::Finished);
        }
        match &state.end {
            Some(End::Committed) => state.last.replies(&state.committed),
            Some(end) => Err(self.tx.shared.after(end)),
            None => Err(Error::NotCommitted),
        }
    }
}

impl Last {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Those from this one on are undone.
    pub(super) fn undo(&mut self, from: usize) {
        for kept in self.calls.iter_mut().skip(from) {
            kept.is_undone = true;
            kept.call = None;
        }
    }

    fn replies(&self, committed: &[(CallNo, Reply)]) -> Result<Replies, Error> {
        let first = self.first.map_or(0, |no| no.0);
        let mut came = vec![None; self.calls.len()];
        for (no, reply) in committed {
            // A shard may name calls that nobody made.
            let place = no.0.checked_sub(first).and_then(|at| came.get_mut(at as usize));
            place.into_iter().for_each(|place| *place = Some(reply));
        }
        let mut came = came.into_iter();
        let mut all = Vec::with_capacity(self.calls.len());
        for kept in &self.calls {
            if kept.is_undone {
                let error = OpError::Custom("it was rolled back".into());
                all.push(Reply::Failed(Box::new(error)));
                continue;
            }
            match came.next().flatten() {
                Some(reply) => all.push(reply.clone()),
                None if kept.answers => return Err(strange(true)), // A server lies.
                None => all.push(Reply::Ok),
            }
        }
        Ok(Replies::of(all, self.keys.clone()))
    }
}

impl State {
    /// The commit begins: brings them to the calls that it takes along, behind all others.
    pub(super) fn gather_last(&mut self) {
        let State { last, buffered, levels, .. } = self;
        last.first = Some(CallNo(levels.next_call + buffered.len() as u32));
        buffered.extend(last.calls.iter_mut().filter_map(|kept| kept.call.take()));
    }
}

impl Scope for AtCommit {
    type Void = Result<(), Error>;
    type Answers = Ticketed;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        self.keep(key, op, false).map(drop)
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) -> Self::Void {
        calls.into_iter().try_for_each(|(key, op)| self.void(key, op))
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Read<R>) -> Ticket<R> {
        self.push_as(key, op, read)
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Read<R>) -> Ticket<R> {
        let first = self.tx.shared.state.lock().last.len();
        let count = calls.len();
        for (key, op) in calls {
            if self.keep(key, op, read.may_fail()).is_err() {
                return Ticket::of_nothing();
            }
        }
        Ticket::from(first, count, read)
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) -> Self::Void {
        Err(self.tx.fail(error.at(key)))
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Ticket<R> {
        self.tx.fail(error.at(key));
        Ticket::of_nothing()
    }
}
