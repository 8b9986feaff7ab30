//! What goes wrong: one type for operations, batches and transactions, so that `?` leads through all of them. Each
//! variant is retryable or final, and says what to do next.
//!
//! No error but [`Error::Unknown`] leaves open whether the transaction committed, and none means that it did (P65).

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use claret_types::{Bytes, OpError};
use thiserror::Error as Describe;

use crate::outcome::OutcomeId;

/// The reason that an application gave for an abort: an error of its own, as in
/// `reason.downcast_ref::<SoldOut>()`. Clones share it, and it equals nothing but its clones.
#[derive(Clone)]
pub struct Reason(Arc<dyn StdError + Send + Sync>);

impl Deref for Reason {
    type Target = dyn StdError + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Why an operation, a batch or a transaction was not done. Nothing of it was or will be applied, except under
/// [`Error::Unknown`].
///
/// An operation within a transaction answers it as well. There every variant but [`Error::Restart`] means that the
/// transaction is doomed: return the error from the closure with `?`. `docs/errors.md` has them all in one table.
#[derive(Clone, Debug, PartialEq, Describe)]
#[non_exhaustive]
pub enum Error {
    /// An operation cannot be done. Final.
    #[error("key '{key}': {error}")]
    Invalid {
        /// The record.
        key: Bytes,
        /// What is wrong.
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
    /// The closure asked for the abort by [`Abort::because`]. Final.
    #[error("aborted by the application: {0}")]
    Aborted(Reason),
    /// The deadline passed first. Retryable.
    #[error("{}", late(*after, wait.as_deref()))]
    Deadline {
        /// The deadline.
        after: Duration,
        /// What it waited for then, if it waited for another transaction and that is known.
        wait: Option<Box<BlockedOn>>,
    },
    /// The deadline passed first, and a node of the cluster does not answer. Retryable.
    #[error("not committed within {after:?}: {reason}")]
    NoAnswer {
        /// The deadline.
        after: Duration,
        /// Which node, and what is known about it.
        reason: String,
    },
    /// The attempts are used up. Retryable.
    #[error(
        "not committed in {made} attempts (the last one: {last}); raise the number of attempts, or use get_for_update"
    )]
    Attempts {
        /// How many were made.
        made: u32,
        /// Why the last one failed.
        last: String,
    },
    /// A shard's bound is reached. Retryable, later.
    #[error("too many wait for key '{0}'; try again later, or lower the number of concurrent transactions")]
    Crowded(Bytes),
    /// This attempt is over, and the store runs the transaction again: return the error from the closure. Retryable,
    /// for whoever takes it out of the closure.
    #[error("this attempt must be run again; return this error from the closure")]
    Restart,
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
    /// There is no room on the disk for the store's log. Nothing was done; or it has only read, and what it saw is not on the disk.
    /// Retryable, once there is room.
    #[error("{reason}; make room on the disk: the store goes on then")]
    NoRoom {
        /// What the system said.
        reason: String,
    },
    /// The store's log cannot be written any more: a device fails. Nothing was done. Final: look at the device, and open the store
    /// again.
    #[error("the store's log stopped: {reason}; look at the device, and open the store again")]
    LogStopped {
        /// What the system said.
        reason: String,
    },
    /// The transaction has too many operations. Final.
    #[error("over {limit} operations in one transaction; split it, or raise `Limits::calls_max`")]
    TooManyCalls {
        /// How many it may have.
        limit: u32,
    },
    /// The transaction was already committed or aborted: a handle outlived it. Final.
    #[error("the transaction is over; begin a new one")]
    Finished,
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
    /// It may or may not have committed: a node did not answer in time, or lost its memory, while it was committing; or the
    /// log of a store in this process could not be written in time. Final: running it again may do it twice. (Never returned by
    /// a store in memory, whose shards are a call away.)
    ///
    /// [`Store::outcome`](crate::Store::outcome) can be asked later what became of it, also by another process.
    #[error(
        "it is unknown whether the transaction committed ({0}); ask Store::outcome with this id, look at what it would have \
         written, or use Store::tx().once(id), which can be run again"
    )]
    Unknown(OutcomeId),
}

impl Error {
    /// Whether running the same transaction again later may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Deadline { .. }
            | Error::NoAnswer { .. }
            | Error::Attempts { .. }
            | Error::Crowded(_)
            | Error::NoRoom { .. }
            | Error::Restart => true,
            Error::Invalid { .. }
            | Error::Value { .. }
            | Error::Aborted(_)
            | Error::WaitsForItself { .. }
            | Error::Refused(_)
            | Error::LogStopped { .. }
            | Error::TooManyCalls { .. }
            | Error::Finished
            | Error::NestedOpen
            | Error::TooDeep { .. }
            | Error::TooManyRollbacks { .. }
            | Error::NoSavepoint
            | Error::RolledBack
            | Error::AlreadyDone { .. }
            | Error::Unsupported { .. }
            | Error::Closed
            | Error::BlocksRuntime
            | Error::OtherTicket
            | Error::NotCommitted
            | Error::Unknown(_) => false,
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

fn late(after: Duration, wait: Option<&BlockedOn>) -> String {
    match wait {
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

/// What the closure of a transaction returns when it does not want to commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Abort {
    /// The store said so: an operation failed.
    Store(Error),
    /// The application decided so.
    Because(Reason),
}

impl Abort {
    /// The application's own reason; `store.transaction` returns it in [`Error::Aborted`].
    pub fn because(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Abort::Because(Reason(reason.into().into()))
    }
}

impl From<Error> for Abort {
    fn from(error: Error) -> Self {
        Abort::Store(error)
    }
}

impl From<Abort> for Error {
    fn from(abort: Abort) -> Self {
        match abort {
            Abort::Store(error) => error,
            Abort::Because(reason) => Error::Aborted(reason),
        }
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Abort::Store(error) => error.fmt(f),
            Abort::Because(reason) => reason.fmt(f),
        }
    }
}
