//! Errors by what somebody was about: beginning, executing operations, nesting, committing, using handles.

use std::time::Duration;

use claret_core::Cause;
use claret_core::message::Refusal;
use claret_types::{Bytes, OpError};
use thiserror::Error as Describe;

use super::Reason;

/// Why nothing was begun: the store cannot be used, or not like this.
#[derive(Clone, Debug, PartialEq, Describe)]
#[non_exhaustive]
pub enum BeginError {
    /// The store is closed, or the runtime that it was opened on has ended. Final.
    #[error("the store is closed, or the runtime that it was opened on has ended; open it again")]
    Closed,
    /// A blocking call would have to wait on the only thread of a tokio runtime, which has to run what it waits for. Final:
    /// use the async [`Store`](crate::Store) there, or `tokio::task::spawn_blocking`.
    #[error(
        "a blocking call would have to wait here, on the only thread of a tokio runtime, and nothing would end the \
         wait; use the async store, or tokio::task::spawn_blocking"
    )]
    BlocksRuntime,
    /// The transaction with this id was done before, and what it answered is gone. Final: read what it wrote.
    #[error("the transaction '{id}' was done before, and what it answered is gone; read what it wrote")]
    AlreadyDone {
        /// The id that was given to `TxBuilder::once`.
        id: String,
    },
    /// The store cannot say or do this where its records are. Final.
    #[error("a store {host} has no {asked}; {instead}")]
    Unsupported {
        /// What was asked for.
        asked: &'static str,
        /// Where the records of this store are.
        host: &'static str,
        /// What to do there.
        instead: &'static str,
    },
}

/// Why an operation cannot be done. The transaction, the batch or the single operation that it is of does nothing.
#[derive(Clone, Debug, PartialEq, Describe)]
#[non_exhaustive]
pub enum ExecuteError {
    /// An operation cannot be done. Final.
    #[error("key '{key}': {error}")]
    Invalid {
        /// The record.
        key: Bytes,
        /// What is wrong.
        #[source]
        error: OpError,
    },
    /// A value is not of the Rust type that the program asked for, or has no form as bytes. Final. A transaction that read
    /// it may go on; one that was to write it is doomed. Where [`Replies::get`](crate::Replies::get) says so, the batch has
    /// committed all the same.
    #[error("key '{key}': the value is {found}, and {asked} was asked for; ask for another type")]
    Value {
        /// The record.
        key: Bytes,
        /// What kind of value it is.
        found: String,
        /// What it should be, with the Rust type.
        asked: String,
    },
    /// A shard's bound is reached. Retryable, later.
    #[error("too many wait for key '{0}'; try again later, or lower the number of concurrent transactions")]
    Crowded(Bytes),
    /// It would wait for the transaction within whose closure it is called, and so for ever: that one holds the record.
    /// Final: use the handle of the transaction that runs, or call the store when it is over.
    #[error(
        "key '{key}' is held by the transaction whose closure this is called in: it would wait for itself; \
         use that transaction's handle, or call the store after it"
    )]
    WaitsForItself {
        /// The record.
        key: Bytes,
    },
    /// The server refuses: no permission, or no memory. Final.
    #[error("{0}")]
    Refused(String),
    /// The transaction has too many operations. Final.
    #[error("over {limit} operations in one transaction; split it, or raise `Limits::calls_max`")]
    TooManyCalls {
        /// How many it may have.
        limit: u32,
    },
}

/// Why a savepoint or a nested transaction cannot be used like this.
#[derive(Clone, Debug, PartialEq, Describe)]
#[non_exhaustive]
pub enum NestError {
    /// The handle of a transaction was used while one within it is open: that one's closure has a handle of its own. Final: use
    /// that handle, or wait for the nested transaction to end.
    #[error(
        "a nested transaction is open, and this is the handle of the one around it; use the nested closure's own handle, or \
         wait until the nested one has ended"
    )]
    NestedOpen,
    /// Too many savepoints and nested transactions are open at once. Final: release some.
    #[error("over {limit} savepoints and nested transactions open at once; release some, or nest less deep")]
    TooDeep {
        /// How many there may be.
        limit: usize,
    },
    /// The transaction was rolled back to savepoints too often, with calls in between that stand. Final.
    #[error("over {limit} rollbacks to savepoints in one transaction; split it, or roll back more at a time")]
    TooManyRollbacks {
        /// How many there may be.
        limit: usize,
    },
    /// A savepoint that was released or undone, or is of another attempt, of another transaction or of the one around this one.
    /// Final: make another one.
    #[error(
        "the savepoint is not one that is open here: it was released or undone, or is another transaction's; make another"
    )]
    NoSavepoint,
    /// The operation was rolled back, with the savepoint or nested transaction that it was in: it has no answer. Final.
    #[error(
        "the operation was rolled back, with the savepoint or nested transaction that it was in, and has no answer; go by what \
         the transaction did instead"
    )]
    RolledBack,
}

/// Why a transaction that could have been done did not commit: its time or its attempts were used up, or the disk takes nothing.
#[derive(Clone, Debug, PartialEq, Describe)]
#[non_exhaustive]
pub enum CommitError {
    /// The deadline passed first. Retryable.
    #[error("{}", late(*after, blocked_on.as_deref()))]
    Deadline {
        /// The deadline.
        after: Duration,
        /// What it waited for then, if it waited for another transaction and that is known.
        blocked_on: Option<Box<BlockedOn>>,
    },
    /// The deadline passed first, and a node of the cluster does not answer. Retryable.
    #[error("not committed within {after:?}: {reason}")]
    NoAnswer {
        /// The deadline.
        after: Duration,
        /// Which node, and what is known about it.
        #[source]
        reason: Reason,
    },
    /// The attempts are used up. Retryable.
    #[error(
        "not committed in {made} attempts (the last one: {last}); raise the number of attempts, or use get_for_update"
    )]
    Attempts {
        /// How many were made.
        made: u32,
        /// Why the last one failed.
        #[source]
        last: AttemptError,
    },
    /// There is no room on the disk for the store's log. Nothing was done; or it has only read, and what it saw is not on the disk.
    /// Retryable, once there is room.
    #[error("{reason}; make room on the disk: the store goes on then")]
    NoRoom {
        /// What the system said.
        #[source]
        reason: Reason,
    },
    /// The store's log cannot be written any more: a device fails. Nothing was done. Final: look at the device, and open the store
    /// again.
    #[error("the store's log stopped: {reason}; look at the device, and open the store again")]
    LogStopped {
        /// What the system said.
        #[source]
        reason: Reason,
    },
}

/// Why a handle cannot be used any more, or not yet. It is a mistake of the program.
#[derive(Clone, Debug, PartialEq, Describe)]
#[non_exhaustive]
pub enum HandleError {
    /// The transaction was already committed or aborted: a handle outlived it. Final.
    #[error("the transaction is over; begin a new one")]
    Finished,
    /// A ticket that is of another batch, or whose answer a custom type gave otherwise than it says. Final. Only
    /// [`Replies::get`](crate::Replies::get) says so; the batch has committed all the same.
    #[error(
        "the ticket is of another batch, or a custom type answers otherwise than it says; the batch has committed: mend \
         the program"
    )]
    OtherTicket,
    /// Answers that come with the commit ([`AtCommit`](crate::AtCommit)) were asked for before the transaction had committed. Final.
    #[error(
        "its answers come with the commit, and it has not committed yet; ask when the transaction has returned"
    )]
    NotCommitted,
}

/// Why an attempt ended, so that the transaction was to be run again.
#[derive(Clone, Debug, PartialEq, Eq, Describe)]
#[non_exhaustive]
pub enum AttemptError {
    /// An elder transaction waited for what it held.
    #[error("gave way to an elder transaction")]
    GaveWay,
    /// Without phases: a lock was refused too often.
    #[error("a lock was busy too often")]
    Busy,
    /// With combining: it shared locks with transactions that went another way.
    #[error("was taken out of the group it shared locks with")]
    Parted,
    /// What it had seen of the record without a lock is not so any more.
    #[error("what was seen of key '{key}' has changed")]
    Changed {
        /// The record.
        key: Bytes,
    },
    /// A node or a shard refused, in these words.
    #[error("{0}")]
    Refused(String),
}

impl AttemptError {
    pub(crate) fn of(cause: &Cause) -> Self {
        match cause {
            Cause::GaveWay => AttemptError::GaveWay,
            Cause::Busy => AttemptError::Busy,
            Cause::Parted => AttemptError::Parted,
            Cause::Refused(Refusal::Changed { key }) => AttemptError::Changed { key: key.clone() },
            Cause::Refused(refusal) => AttemptError::Refused(refusal.to_string()),
        }
    }
}

/// What a transaction waited for when its deadline passed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedOn {
    /// The record.
    pub key: Bytes,
    /// For how long it had waited.
    pub time: Duration,
    /// A transaction that held the record, as `CLARET.LOCKS` prints it. `None`: it stood behind others who waited, or the
    /// node did not say in time.
    pub holder: Option<String>,
}

fn late(after: Duration, blocked_on: Option<&BlockedOn>) -> String {
    match blocked_on {
        None => format!(
            "not committed within {after:?}; raise the deadline, or look for a transaction that holds its locks long"
        ),
        Some(BlockedOn { key, time, holder }) => {
            let holder = match holder {
                Some(holder) => format!("which transaction {holder} holds"),
                None => "which others hold".into(),
            };
            format!(
                "not committed within {after:?}: it waited {time:?} for key '{key}', {holder}; \
                 raise the deadline, or keep those transactions short"
            )
        }
    }
}
