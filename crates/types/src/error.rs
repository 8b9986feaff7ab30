//! Errors of operations. Every variant is final: the same operation on the same state fails again. Each says what
//! helps instead of a retry.
//!
//! The store adds the key; it is not known here.
//!
//! An error travels between processes as it is (derived serde; the order of the variants and of their fields is that of
//! the wire), so it is the same on every host. A text of another process may be anything: it is read as one line that
//! can be shown ([`one_line`]).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bounded_serde::one_line;
use crate::method::Method;
use crate::reply::{Reply, found};

/// Words of an error: those of this program, or what another process sent.
type Words = Cow<'static, str>;

/// Why an operation cannot be done. The same variant on every host.
#[derive(Clone, Debug, PartialEq, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OpError {
    /// The key holds another type.
    #[error("WRONGTYPE the key holds a {found}, and {method} works on a {expected}; use another key")]
    WrongType {
        /// What the key holds, as the host names it: on a cluster a `zset`, in the embedded store a `scored-set`.
        #[serde(deserialize_with = "one_line")]
        found: Words,
        /// What the operation works on.
        #[serde(deserialize_with = "one_line")]
        expected: Words,
        /// The operation.
        #[serde(deserialize_with = "one_line")]
        method: Words,
    },
    /// No such operation.
    #[error("unknown operation '{0}'; HELP lists them")]
    UnknownMethod(#[serde(deserialize_with = "one_line")] String),
    /// The wrong number of arguments.
    #[error("wrong number of arguments for '{method}'; usage: {usage}")]
    Arity {
        /// The operation.
        #[serde(deserialize_with = "one_line")]
        method: Words,
        /// Its argument shape.
        #[serde(deserialize_with = "one_line")]
        usage: Words,
    },
    /// An argument of the wrong form.
    #[error("'{given}' is not {expected}")]
    Argument {
        /// What was given.
        #[serde(deserialize_with = "one_line")]
        given: String,
        /// What was expected, with its article.
        #[serde(deserialize_with = "one_line")]
        expected: Words,
    },
    /// A NaN, which has no place in an order or a sum.
    #[error("a {0} cannot be NaN; pass a number")]
    NotANumber(#[serde(deserialize_with = "one_line")] Words),
    /// The value held cannot take part in arithmetic: the value, as far as it is known, and what it should be.
    #[error("the value {held} is not {1}; SET it to a number first", held = quoted(.0))]
    NotNumeric(#[serde(deserialize_with = "one_line")] String, #[serde(deserialize_with = "one_line")] Words),
    /// The result would not fit.
    #[error("{0} would overflow: {1}; nothing was changed")]
    Overflow(#[serde(deserialize_with = "one_line")] Words, #[serde(deserialize_with = "one_line")] String),
    /// A bound, a capacity or an amount out of its range.
    #[error("{what} cannot be {given}; it must be {expected}")]
    Bound {
        /// What it is.
        #[serde(deserialize_with = "one_line")]
        what: Words,
        /// What was given.
        #[serde(deserialize_with = "one_line")]
        given: String,
        /// What it must be.
        #[serde(deserialize_with = "one_line")]
        expected: Words,
    },
    /// An amount that would take the value out of its bounds.
    #[error(
        "insufficient: {method} {amount} would take the value {value} out of its bounds {min} to {max}; \
         nothing was changed; {method}.RETURNING answers 0 instead"
    )]
    Insufficient {
        /// The operation.
        #[serde(deserialize_with = "one_line")]
        method: Words,
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
        #[serde(deserialize_with = "one_line")]
        method: Words,
        /// The call that creates one.
        #[serde(deserialize_with = "one_line")]
        create: Words,
    },
    /// The record exists with other parameters.
    #[error("{0}")]
    Mismatch(#[serde(deserialize_with = "one_line")] String),
    /// A value over the limit.
    #[error("a {what} of {size} bytes is over the limit of {limit} bytes; split it over several keys")]
    TooLarge {
        /// What it is.
        #[serde(deserialize_with = "one_line")]
        what: Words,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The code of a custom type panicked while it executed the operation.
    #[error("{method} panicked: {message}; nothing was changed; mend the type")]
    Panicked {
        /// The operation.
        #[serde(deserialize_with = "one_line")]
        method: Words,
        /// What the panic said.
        #[serde(deserialize_with = "one_line")]
        message: String,
    },
    /// The empty key.
    #[error("a key cannot be empty; name one")]
    EmptyKey,
    /// What a type of one's own says in its own words.
    #[error("{0}")]
    Custom(#[serde(deserialize_with = "one_line")] Words),
    /// A type of one's own, on a cluster.
    #[error(
        "the type '{kind}' is not on the cluster of {nodes}: its servers have the built-in types alone; use an embedded \
         store (Store::in_memory) for types of your own"
    )]
    NotOnCluster {
        /// The type.
        #[serde(deserialize_with = "one_line")]
        kind: Words,
        /// The cluster's nodes.
        #[serde(deserialize_with = "one_line")]
        nodes: String,
    },
    /// In mode `none`: no plain command comes near the operation. A rename consists of two such ones.
    #[error(
        "{method} has no plain Redis command of its own; use a mode other than none, or RENAME to move a record"
    )]
    NoPlainCommand {
        /// The operation.
        #[serde(deserialize_with = "one_line")]
        method: Words,
    },
    /// What a server said in words of its own, where no other variant says the same.
    #[error("{0}")]
    Told(#[serde(deserialize_with = "one_line")] String),
    /// It was to give a certain answer, and would give another one.
    #[error("{method} would answer {found}, which is not what was demanded; nothing was changed")]
    Unexpected {
        /// The operation.
        #[serde(deserialize_with = "one_line")]
        method: Words,
        /// What it would answer.
        #[serde(deserialize_with = "found")]
        found: Box<Reply>,
    },
    /// It would not answer any more what an optimistic transaction has seen.
    #[error("its answer has changed since it was seen")]
    Changed,
    /// The schema of the client or of the node says otherwise of keys with this prefix, or of this field there.
    #[error(
        "{method} breaks the schema: a key with the prefix '{prefix}' holds {expected}, and this is {found}; use another \
         key, or change the schema"
    )]
    AgainstSchema {
        /// The longest prefix of the key in the schema.
        #[serde(deserialize_with = "one_line")]
        prefix: Box<str>,
        /// What the schema has there: a type, or what is in a field.
        #[serde(deserialize_with = "one_line")]
        expected: Box<str>,
        /// What the operation is of, or would put there.
        #[serde(deserialize_with = "one_line")]
        found: Box<str>,
        /// The operation.
        #[serde(deserialize_with = "one_line")]
        method: Words,
    },
}

impl OpError {
    /// The error for a call that matches no pattern of a type's `parse`: the name is unknown, or the number of
    /// arguments is wrong.
    pub fn misuse(methods: &'static [Method], name: &str) -> Self {
        match methods.iter().find(|method| method.name == name) {
            Some(method) => OpError::Arity { method: method.name.into(), usage: method.arguments.into() },
            None => OpError::UnknownMethod(name.to_owned()),
        }
    }

    /// About how much memory its texts take, in bytes.
    pub fn size(&self) -> usize {
        let of = |words: &Words| if let Cow::Owned(text) = words { text.len() } else { 0 };
        match self {
            OpError::WrongType { found, expected, method } => of(found) + of(expected) + of(method),
            OpError::Unexpected { method, found } => of(method) + found.size(),
            OpError::Arity { method, usage: other } | OpError::Missing { method, create: other } => {
                of(method) + of(other)
            }
            OpError::Argument { given: text, expected: words }
            | OpError::NotNumeric(text, words)
            | OpError::Overflow(words, text)
            | OpError::NotOnCluster { kind: words, nodes: text }
            | OpError::Panicked { method: words, message: text } => text.len() + of(words),
            OpError::Bound { what, given, expected } => of(what) + given.len() + of(expected),
            OpError::NotANumber(words)
            | OpError::Custom(words)
            | OpError::Insufficient { method: words, .. }
            | OpError::TooLarge { what: words, .. }
            | OpError::NoPlainCommand { method: words } => of(words),
            OpError::UnknownMethod(text) | OpError::Mismatch(text) | OpError::Told(text) => text.len(),
            OpError::AgainstSchema { prefix, expected, found, method } => {
                prefix.len() + expected.len() + found.len() + of(method)
            }
            OpError::EmptyKey | OpError::Changed => 0,
        }
    }
}

/// The value that a record holds, if it is known.
fn quoted(value: &str) -> String {
    if value.is_empty() { "held".to_owned() } else { format!("'{value}'") }
}
