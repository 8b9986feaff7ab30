//! Errors, one enum per activity: an operation inside a transaction, and a transaction as a whole (single
//! operations and batches are transactions too). Each variant is retryable or final and says what to do next.
//!
//! No error ever means "it did commit" (P65).

use std::fmt;
use std::time::Duration;

use claret_types::{Bytes, OpError};
use thiserror::Error;

/// Why an operation inside a transaction failed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The operation cannot be done. Final: the transaction is doomed and will be aborted.
    #[error("key '{key}': {error}")]
    Invalid {
        /// The record.
        key: Bytes,
        /// What is wrong.
        error: OpError,
    },
    /// This attempt is over and the transaction will be run again. Return the error from the closure (with `?`);
    /// `Store::transaction` does the rest.
    #[error("this attempt must be run again; return this error from the closure")]
    Restart,
    /// The transaction was already committed or aborted: a handle outlived it. Final.
    #[error("the transaction is over; begin a new one")]
    Finished,
    /// A shard's bound is reached. Retryable, later.
    #[error("too many wait for key '{0}'; try again later, or lower the number of concurrent transactions")]
    Crowded(Bytes),
    /// The server refuses: no permission, or no memory. Final: the transaction is doomed and will be aborted.
    #[error("{0}")]
    Refused(String),
    /// The transaction has too many operations. Final: it is doomed and will be aborted.
    #[error("over {limit} operations in one transaction; split it, or raise `Limits::calls_max`")]
    TooManyCalls {
        /// How many it may have.
        limit: u32,
    },
    /// The store is closed, or the runtime that it was opened on has ended. Final: the transaction is doomed and aborted.
    #[error("the store is closed, or the runtime that it was opened on has ended; open it again")]
    Closed,
    /// The transaction's deadline passed while the operation waited for its answer. Return the error from the closure.
    /// Only the blocking mirror says so: an async closure is dropped at its deadline.
    #[error("not answered within {0:?}, the deadline of the transaction; return this error from the closure")]
    Deadline(Duration),
}

/// What a transaction's closure returns when it does not want to commit.
#[derive(Debug)]
#[non_exhaustive]
pub enum Abort {
    /// An operation failed.
    Operation(OperationError),
    /// The application decided so.
    Because(Box<dyn std::error::Error + Send + Sync>),
}

impl Abort {
    /// The application's own reason; `store.transaction` returns it in [`TransactionError::Aborted`].
    pub fn because(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Abort::Because(reason.into())
    }
}

impl From<OperationError> for Abort {
    fn from(error: OperationError) -> Self {
        Abort::Operation(error)
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Abort::Operation(error) => error.fmt(f),
            Abort::Because(reason) => reason.fmt(f),
        }
    }
}

/// Why a transaction did not commit. Nothing of it was or will be applied, except under
/// [`TransactionError::Unknown`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// An operation cannot be done. Final.
    #[error("key '{key}': {error}")]
    Invalid {
        /// The record.
        key: Bytes,
        /// What is wrong.
        error: OpError,
    },
    /// The closure asked for the abort. Final.
    #[error("aborted by the application: {0}")]
    Aborted(Box<dyn std::error::Error + Send + Sync>),
    /// The deadline passed first. Retryable.
    #[error(
        "not committed within {0:?}; raise the deadline, or look for a transaction that holds its locks long"
    )]
    Deadline(Duration),
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
    /// The server refuses: no permission, or no memory. Final.
    #[error("{0}")]
    Refused(String),
    /// The transaction has too many operations. Final.
    #[error("over {limit} operations in one transaction; split it, or raise `Limits::calls_max`")]
    TooManyCalls {
        /// How many it may have.
        limit: u32,
    },
    /// The handle belongs to a transaction that is over. Final.
    #[error("the transaction is over; begin a new one")]
    Finished,
    /// The store is closed, or the runtime that it was opened on has ended. Final.
    #[error("the store is closed, or the runtime that it was opened on has ended; open it again")]
    Closed,
    /// It may or may not have committed: a node did not answer in time, or lost its memory, while it was committing.
    /// Final: running it again may do it twice. (Never returned by the embedded store, whose shards are a call away.)
    #[error(
        "it is unknown whether the transaction committed; look at what it would have written, \
         or use transaction_once, which can be run again"
    )]
    Unknown,
}

impl TransactionError {
    /// Whether running the same transaction again later may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            TransactionError::Deadline(_)
            | TransactionError::NoAnswer { .. }
            | TransactionError::Attempts { .. }
            | TransactionError::Crowded(_) => true,
            TransactionError::Invalid { .. }
            | TransactionError::Aborted(_)
            | TransactionError::Refused(_)
            | TransactionError::TooManyCalls { .. }
            | TransactionError::Finished
            | TransactionError::Closed
            | TransactionError::Unknown => false,
        }
    }
}

impl From<OperationError> for TransactionError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Invalid { key, error } => TransactionError::Invalid { key, error },
            OperationError::Restart => {
                TransactionError::Attempts { made: 1, last: "the attempt was over".into() }
            }
            OperationError::Finished => TransactionError::Finished,
            OperationError::Crowded(key) => TransactionError::Crowded(key),
            OperationError::Refused(reason) => TransactionError::Refused(reason),
            OperationError::TooManyCalls { limit } => TransactionError::TooManyCalls { limit },
            OperationError::Closed => TransactionError::Closed,
            OperationError::Deadline(after) => TransactionError::Deadline(after),
        }
    }
}

/// The error of [`Replies::get`](crate::Replies::get). The batch has committed all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the ticket is of another batch, or a custom type answers otherwise than it says")]
pub struct OtherTicket;
