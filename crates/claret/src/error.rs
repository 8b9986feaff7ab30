//! What goes wrong: one type for operations, batches and transactions, so that `?` leads through all of them. Each
//! variant is retryable or final, and says what to do next.
//!
//! No error but [`Error::Unknown`] leaves open whether the transaction committed, and none means that it did (P65).

mod activities;

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use claret_types::{Bytes, OpError};
use thiserror::Error as Describe;

pub use activities::{
    AttemptError, BeginError, BlockedOn, CommitError, ExecuteError, HandleError, NestError,
};

use crate::outcome::OutcomeId;

/// An error that is the reason of another one: the application's own of an abort, as in `reason.downcast_ref::<SoldOut>()`, a
/// [`ConnectError`](./cluster/enum.ConnectError.html) of a node that does not answer, a [`LogError`](crate::durability::LogError) of a
/// log that stopped. Clones share it, and it equals nothing but its clones.
#[derive(Clone)]
pub struct Reason(Arc<dyn StdError + Send + Sync>);

impl Reason {
    pub(crate) fn new(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Reason(reason.into().into())
    }
}

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
/// transaction is doomed: return the error from the closure with `?`. `docs/errors.md` has them all in tables.
#[derive(Clone, Debug, PartialEq, Describe)]
#[non_exhaustive]
pub enum Error {
    /// The closure asked for the abort by [`Abort::because`]. Final.
    #[error("aborted by the application: {0}")]
    Aborted(#[source] Reason),
    /// This attempt is over, and the store runs the transaction again: return the error from the closure. Retryable,
    /// for whoever takes it out of the closure.
    #[error("this attempt must be run again; return this error from the closure")]
    Restart,
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
    /// Nothing was begun: the store cannot be used, or not like this.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// An operation cannot be done.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A savepoint or a nested transaction cannot be used like this.
    #[error(transparent)]
    Nest(#[from] NestError),
    /// It could have been done, and did not commit.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A handle cannot be used any more, or not yet.
    #[error(transparent)]
    Handle(#[from] HandleError),
}

impl Error {
    /// An operation on this record cannot be done.
    pub(crate) fn invalid(key: Bytes, error: OpError) -> Self {
        Error::Execute(ExecuteError::Invalid { key, error })
    }

    /// Whether running the same transaction again later may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Restart => true,
            Error::Aborted(_) | Error::Unknown(_) => false,
            Error::Begin(error) => match error {
                BeginError::Closed
                | BeginError::BlocksRuntime
                | BeginError::AlreadyDone { .. }
                | BeginError::Unsupported { .. } => false,
            },
            Error::Execute(error) => match error {
                ExecuteError::Crowded(_) => true,
                ExecuteError::Invalid { .. }
                | ExecuteError::Value { .. }
                | ExecuteError::WaitsForItself { .. }
                | ExecuteError::Refused(_)
                | ExecuteError::TooManyCalls { .. } => false,
            },
            Error::Nest(error) => match error {
                NestError::NestedOpen
                | NestError::TooDeep { .. }
                | NestError::TooManyRollbacks { .. }
                | NestError::NoSavepoint
                | NestError::RolledBack => false,
            },
            Error::Commit(error) => match error {
                CommitError::Deadline { .. }
                | CommitError::NoAnswer { .. }
                | CommitError::Attempts { .. }
                | CommitError::NoRoom { .. } => true,
                CommitError::LogStopped { .. } => false,
            },
            Error::Handle(error) => match error {
                HandleError::Finished | HandleError::OtherTicket | HandleError::NotCommitted => false,
            },
        }
    }

    /// What is wrong with an operation, if that is why.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{OpError, Records, Store};
    /// let store = Store::in_memory();
    /// store.set("tags").add("red").await?;
    /// let error = store.counter("tags").add(1).await.unwrap_err();
    /// assert!(matches!(error.op_error(), Some(OpError::WrongType { .. })));
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn op_error(&self) -> Option<&OpError> {
        match self {
            Error::Execute(ExecuteError::Invalid { error, .. }) => Some(error),
            _ => None,
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
        Abort::Because(Reason::new(reason))
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
