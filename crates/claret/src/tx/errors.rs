//! What a transaction's user hears of a refusal.

use claret_core::Cause;
use claret_core::message::Refusal;
use claret_types::Bytes;

use crate::error::{Error, ExecuteError};
use crate::outcome::OutcomeId;

/// The error that a refusal is to an operation.
pub(crate) fn as_error(refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Operation { key, error }
        | Refusal::OperationBehind { key, error, .. }
        | Refusal::AgainstSchema { key, error } => {
            Error::Execute(ExecuteError::Invalid { key: key.clone(), error: (**error).clone() })
        }
        Refusal::Crowded(key) => Error::Execute(ExecuteError::Crowded(key.clone())),
        Refusal::Denied { .. } | Refusal::NoMemory { .. } | Refusal::Resolved | Refusal::TooMuch { .. } => {
            Error::Execute(ExecuteError::Refused(refusal.to_string()))
        }
        Refusal::Elsewhere { .. }
        | Refusal::ReadOnly
        | Refusal::Vanished { .. }
        | Refusal::Withdrawn
        | Refusal::Recovered
        | Refusal::LeaseExpired
        | Refusal::LostLocks
        | Refusal::Unknown
        | Refusal::Unlisted
        | Refusal::Unstamped
        | Refusal::OnlyRounds
        | Refusal::Changed { .. }
        | Refusal::Stale => Error::Restart,
    }
}

const STRANGE: &str = "the answer is of no kind that the operation has";

/// What a committed transaction answers whose answer is of no kind that the operation has: a mistake of the type's author,
/// or of a server.
pub(crate) fn strange(writes: bool) -> Error {
    if writes {
        Error::Unknown(OutcomeId::nobody())
    } else {
        Error::Execute(ExecuteError::Refused(STRANGE.into()))
    }
}

/// The key for which an attempt is run again, if a shard has named it.
pub(crate) fn key_of(cause: &Cause) -> Option<Bytes> {
    match cause {
        Cause::Refused(Refusal::Changed { key } | Refusal::Vanished { key } | Refusal::Crowded(key)) => {
            Some(key.clone())
        }
        _ => None,
    }
}
