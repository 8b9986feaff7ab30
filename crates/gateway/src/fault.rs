//! Why a command was not done, in the words that clients of Redis know.

use claret::{Caller, Error};
use claret::{
    cluster::ConnectError,
    errors::{BeginError, CommitError},
};
use claret_commands::{Answer, of_changed};
use claret_types::Bytes;

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

/// How a transaction of commands ended: the answers, or why nothing was done.
pub(crate) type Ended = Result<Vec<Answer>, Fault>;

impl Fault {
    pub(crate) fn told(text: impl Into<String>) -> Self {
        Fault::Told(text.into())
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
            Fault::Changed(key) => of_changed(key),
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

/// What commands say is one of the reasons that the gateway has.
impl From<claret_commands::Fault> for Fault {
    fn from(fault: claret_commands::Fault) -> Self {
        match fault {
            claret_commands::Fault::Told(text) => Fault::Told(text),
            claret_commands::Fault::Store(error) => Fault::Store(error),
            claret_commands::Fault::Changed(key) => Fault::Changed(key),
        }
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

/// The line for an error of the store, as the gateway says it.
fn of_store(error: &Error) -> String {
    match error {
        Error::Unknown(id) => {
            format!("UNKNOWN it is not known whether it was done; ask with GATEWAY OUTCOME {id}")
        }
        Error::Begin(BeginError::Closed) => "ERR the gateway is closing".to_owned(),
        error => claret_commands::of_store(error),
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
