//! Why a command was not done, in the words that clients of Redis know.

use claret::{Caller, Error, OpError};
use claret::{
    cluster::ConnectError,
    errors::{BeginError, CommitError, ExecuteError},
};
use claret_types::Bytes;

use crate::answer::Answer;

/// Why a command cannot be done, or is not done now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// What the client is told: a code and a text, as `ERR syntax error`.
    Told(String),
    /// The same, where it waited for as long as a client may wait.
    Late(String),
    /// What the store says.
    Store(Error),
    /// What was watched has changed.
    Changed(Bytes),
    /// The turn on hot keys was over before.
    TurnOver,
    /// None: a node has answered for all of it.
    Done(Box<Answer>),
}

impl Fault {
    pub(crate) fn told(text: impl Into<String>) -> Self {
        Fault::Told(text.into())
    }

    pub(crate) fn syntax() -> Self {
        Fault::told("ERR syntax error")
    }

    pub(crate) fn not_an_integer() -> Self {
        Fault::told("ERR value is not an integer or out of range")
    }

    pub(crate) fn not_a_float() -> Self {
        Fault::told("ERR value is not a valid float")
    }

    pub(crate) fn wrong_type() -> Self {
        Fault::told("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    /// Whether it waited for as long as a client may wait.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Fault::Late(_) | Fault::Store(Error::Commit(CommitError::Deadline { .. })))
    }

    /// As a server tells it.
    pub(crate) fn text(&self) -> String {
        match self {
            Fault::Told(text) | Fault::Late(text) => text.clone(),
            Fault::Store(error) => of_store(error),
            Fault::Changed(key) => format!("ERR key '{key}' has changed"),
            Fault::Done(_) => "ERR a node has answered".to_owned(),
            Fault::TurnOver => "TRYAGAIN the turn is over; nothing was done".to_owned(),
        }
    }
}

/// Nothing is begun for who has gone while it waited.
pub(crate) fn still_there(caller: &Caller) -> Result<(), Fault> {
    match caller.is_gone() {
        true => Err(Fault::told("TRYAGAIN nothing was done: its client has gone")),
        false => Ok(()),
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Store(error)
    }
}

impl From<Fault> for Answer {
    fn from(fault: Fault) -> Self {
        if let Fault::Done(answer) = fault {
            return *answer;
        }
        Answer::Error(fault.text())
    }
}

/// The line for a connection to a node that cannot be had. Where the nodes let the client's user in no more, it can log in again; the
/// URL, of which the error speaks, is not the client's.
pub(crate) fn no_connection(error: &ConnectError) -> String {
    let ConnectError::Denied { reason, .. } = error else { return format!("CLUSTERDOWN {error}") };
    match reason.split(' ').next() {
        Some("NOAUTH") => "NOAUTH Authentication required.".to_owned(),
        Some("WRONGPASS") => "WRONGPASS this needs a new connection to a node, where the password of this connection's user has changed, or \
                              the user is off: AUTH again"
            .to_owned(),
        Some("NOPERM") => reason.clone(),
        _ => format!("NOPERM {reason}"),
    }
}

/// The line for an error of the store. What may be tried again says so by its code, as servers do: `TRYAGAIN`.
pub(crate) fn of_store(error: &Error) -> String {
    match error {
        Error::Execute(ExecuteError::Invalid { error, .. }) => of_operation(error),
        Error::Unknown(id) => {
            format!("UNKNOWN it is not known whether it was done; ask with GATEWAY OUTCOME {id}")
        }
        Error::Execute(ExecuteError::Refused(reason)) => match reason.split_once(' ') {
            Some((code, _)) if code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                reason.clone()
            }
            _ => format!("ERR {reason}"),
        },
        Error::Begin(BeginError::Closed) => "ERR the gateway is closing".to_owned(),
        error if error.is_retryable() => format!("TRYAGAIN {error}"),
        error => format!("ERR {error}"),
    }
}

/// The line for an operation that cannot be done: the server's own, where it has one.
pub(crate) fn of_operation(error: &OpError) -> String {
    match error {
        OpError::WrongType { .. } => Fault::wrong_type().text(),
        OpError::NotNumeric(_, what) if what.contains("integer") => Fault::not_an_integer().text(),
        OpError::NotNumeric(..) => Fault::not_a_float().text(),
        OpError::Overflow(what, _) if what.contains("float") || what.contains("score") => {
            "ERR increment would produce NaN or Infinity".to_owned()
        }
        OpError::Overflow(..) => "ERR increment or decrement would overflow".to_owned(),
        OpError::NotANumber(_) => "ERR resulting score is not a number (NaN)".to_owned(),
        error => format!("ERR {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It told a client to look into a URL that is the gateway's.
    #[test]
    fn who_is_let_in_no_more_is_told_to_log_in() {
        let denied =
            |reason: &str| no_connection(&ConnectError::Denied { node: "h:1".into(), reason: reason.into() });
        assert_eq!(denied("NOAUTH HELLO must be called"), "NOAUTH Authentication required.");
        assert!(denied("WRONGPASS invalid username-password pair").ends_with(": AUTH again"));
        assert_eq!(denied("NOPERM this user has no permissions"), "NOPERM this user has no permissions");
        let away = ConnectError::Unreachable { node: "h:1".into(), reason: "refused".into() };
        assert!(no_connection(&away).starts_with("CLUSTERDOWN h:1 cannot be reached: refused"));
    }
}
