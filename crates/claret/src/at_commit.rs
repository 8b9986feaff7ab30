//! Operations that run at the commit of a transaction, behind all others, and whose answers come with it (P90).

use claret_types::{Access, Bytes, FromReply, Operation, Reply};

use crate::batch::{Replies, Ticket, command};
use crate::decode::Decode;
use crate::error::Error;
use crate::records::{Scope, Ticketed};
use crate::tx::Tx;
use crate::value::ValueError;

/// The last operations of a transaction: they run at its commit, behind all others, and their answers come with it. They cost no
/// round trip of their own, and take their locks with the commit and not before it.
///
/// So whatever many want belongs here: a number of the next order, what is left in stock. What the closure needs to know before it
/// ends does not. It has [`Records`](crate::Records), as a [`Batch`](crate::Batch) does, and gives [`Ticket`]s.
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
    /// One that is refused (bad arguments) ends the innermost nested transaction, or the transaction; then the ticket stands for
    /// nothing. The handle of a nested transaction that is over takes nothing, and ends the transaction. Errors that depend on the
    /// record come at the commit.
    pub fn push<R: FromReply>(&self, key: impl Into<Bytes>, op: Operation) -> Ticket<R> {
        self.push_as(key.into(), op, Decode::plain())
    }

    /// As [`Batch::command`](crate::Batch::command): carried out with the commit, behind all else that the transaction does. After it, the
    /// transaction has further commands alone on this key.
    pub fn command<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Ticket<Reply> {
        self.push(key, command(Access::Write, words))
    }

    /// The same of a command that only reads.
    pub fn command_ro<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Ticket<Reply> {
        self.push(key, command(Access::Read, words))
    }

    fn push_as<R>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Ticket<R> {
        match self.tx.keep_last([(key, op)], read.may_fail()) {
            Ok(at) => Ticket::at(at, read),
            Err(_) => Ticket::of_nothing(),
        }
    }

    /// The answers, once the transaction has committed; of one that was rolled back, [`NestError::RolledBack`](crate::errors::NestError::RolledBack). O(operations here).
    ///
    /// # Errors
    /// [`HandleError::NotCommitted`](crate::errors::HandleError::NotCommitted) before that, and, where the store has a log, before it is durable; what ended it, if that was no commit.
    pub fn replies(&self) -> Result<Replies, Error> {
        self.tx.answered_last().map(|(all, keys, undone)| Replies::of(all, keys, undone))
    }
}

impl Scope for AtCommit {
    type Void = Result<(), Error>;
    type Answers = Ticketed;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        self.tx.keep_last([(key, op)], false).map(drop)
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) -> Self::Void {
        self.tx.keep_last(calls, false).map(drop)
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Ticket<R> {
        self.push_as(key, op, read)
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Ticket<R> {
        let count = calls.len();
        match self.tx.keep_last(calls, read.may_fail()) {
            Ok(first) => Ticket::from(first, count, read),
            Err(_) => Ticket::of_nothing(),
        }
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) -> Self::Void {
        Err(self.tx.refuse_last(error.at(key)))
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Ticket<R> {
        self.tx.refuse_last(error.at(key));
        Ticket::of_nothing()
    }
}
