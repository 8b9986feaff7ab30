//! Why a command was not done, in the words that clients of Redis know.

use claret::{Error, OpError, errors::ExecuteError};
use claret_types::Bytes;

use crate::answer::Answer;

/// Why a command cannot be done, or is not done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// What whoever asked is told: a code and a text, as `ERR syntax error`.
    Told(String),
    /// What the store says.
    Store(Error),
    /// What a plan expected of this key is not so.
    Changed(Bytes),
}

impl Fault {
    /// A fault with this text, which begins with its code.
    pub fn told(text: impl Into<String>) -> Self {
        Fault::Told(text.into())
    }

    /// A word is none that the command has there.
    pub fn syntax() -> Self {
        Fault::told("ERR syntax error")
    }

    /// A word, or what a record holds, is no integer.
    pub fn not_an_integer() -> Self {
        Fault::told("ERR value is not an integer or out of range")
    }

    pub(crate) fn not_a_float() -> Self {
        Fault::told("ERR value is not a valid float")
    }

    pub(crate) fn wrong_type() -> Self {
        Fault::told("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    /// As a server tells it.
    pub fn text(&self) -> String {
        match self {
            Fault::Told(text) => text.clone(),
            Fault::Store(error) => of_store(error),
            Fault::Changed(key) => of_changed(key),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Store(error)
    }
}

impl From<Fault> for Answer {
    fn from(fault: Fault) -> Self {
        Answer::Error(fault.text())
    }
}

/// The line for a key that has changed.
pub fn of_changed(key: &Bytes) -> String {
    format!("ERR key '{key}' has changed")
}

/// The line for an error of the store. What may be tried again says so by its code, as servers do: `TRYAGAIN`.
pub fn of_store(error: &Error) -> String {
    match error {
        Error::Execute(ExecuteError::Invalid { error, .. }) => of_operation(error),
        Error::Unknown(id) => format!("UNKNOWN it is not known whether {id} was done"),
        Error::Execute(ExecuteError::Refused(reason)) if has_code(reason) => reason.clone(),
        Error::Execute(ExecuteError::Refused(reason)) => format!("ERR {reason}"),
        error if error.is_retryable() => format!("TRYAGAIN {error}"),
        error => format!("ERR {error}"),
    }
}

/// Whether a line begins with a code, as servers write it.
fn has_code(line: &str) -> bool {
    let code = line.split_once(' ').map_or("", |(code, _)| code);
    code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase())
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
        // The server's words begin with a code, mostly.
        OpError::Told(text) if has_code(text) => text.clone(),
        error => format!("ERR {error}"),
    }
}
