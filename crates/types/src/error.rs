//! Errors of operations. Every variant is final: the same operation on the same state fails again. Each says what
//! helps instead of a retry.
//!
//! The store adds the key; it is not known here.

use thiserror::Error;

/// Why an operation cannot be done.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum OpError {
    /// The key holds another type.
    #[error("WRONGTYPE the key holds a {found}, and {method} works on a {expected}; use another key")]
    WrongType {
        /// What the key holds.
        found: &'static str,
        /// What the operation works on.
        expected: &'static str,
        /// The operation.
        method: &'static str,
    },
    /// No such operation.
    #[error("unknown operation '{0}'; HELP lists them")]
    UnknownMethod(String),
    /// The wrong number of arguments.
    #[error("wrong number of arguments for '{method}'; usage: {usage}")]
    Arity {
        /// The operation.
        method: &'static str,
        /// Its argument shape.
        usage: &'static str,
    },
    /// An argument of the wrong form.
    #[error("'{given}' is not {expected}")]
    Argument {
        /// What was given.
        given: String,
        /// What was expected, with its article.
        expected: &'static str,
    },
    /// A NaN, which has no place in an order or a sum.
    #[error("a {0} cannot be NaN; pass a number")]
    NotANumber(&'static str),
    /// The value held cannot take part in arithmetic.
    #[error("the value '{0}' is not {1}; SET it to a number first")]
    NotNumeric(String, &'static str),
    /// The result would not fit.
    #[error("{0} would overflow: {1}; nothing was changed")]
    Overflow(&'static str, String),
    /// A bound, a capacity or an amount out of its range.
    #[error("{what} cannot be {given}; it must be {expected}")]
    Bound {
        /// What it is.
        what: &'static str,
        /// What was given.
        given: String,
        /// What it must be.
        expected: &'static str,
    },
    /// An amount that would take the value out of its bounds.
    #[error(
        "insufficient: {method} {amount} would take the value {value} out of its bounds {min} to {max}; \
         nothing was changed; {method}.RETURNING answers 0 instead"
    )]
    Insufficient {
        /// The operation.
        method: &'static str,
        /// What it asked for.
        amount: i64,
        /// The value held.
        value: i64,
        /// Its lower bound.
        min: i64,
        /// Its upper bound.
        max: i64,
    },
    /// The record must be created explicitly, and it does not exist.
    #[error("{method} works on a record that exists; create it first: {create}")]
    Missing {
        /// The operation.
        method: &'static str,
        /// The call that creates one.
        create: &'static str,
    },
    /// The record exists with other parameters.
    #[error("{0}")]
    Mismatch(String),
    /// A value over the limit.
    #[error("a {what} of {size} bytes is over the limit of {limit} bytes; split it over several keys")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The code of a custom type panicked while it executed the operation.
    #[error("{method} panicked: {message}; nothing was changed; mend the type")]
    Panicked {
        /// The operation.
        method: &'static str,
        /// What the panic said.
        message: String,
    },
    /// The empty key.
    #[error("a key cannot be empty; name one")]
    EmptyKey,
    /// An error of another process, as text.
    #[error("{0}")]
    Told(String),
}

impl OpError {
    /// The error for a call that matches no pattern of a type's `parse`: the name is unknown, or the number of
    /// arguments is wrong.
    pub fn misuse(methods: &'static [crate::Method], name: &str) -> Self {
        match methods.iter().find(|method| method.name == name) {
            Some(method) => OpError::Arity { method: method.name, usage: method.arguments },
            None => OpError::UnknownMethod(name.to_owned()),
        }
    }
}
