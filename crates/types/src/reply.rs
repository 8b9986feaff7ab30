//! What an operation answers.
//!
//! All types share one shape, close to RESP, so that transactions, the shell, the wire and the checkers can carry any
//! answer. Typed handles turn it into Rust values through [`FromReply`].

use std::fmt;

use serde::Serialize;

use crate::{Bytes, OpError};

/// The answer of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub enum Reply {
    /// Nothing there (an absent key, field or member).
    #[default]
    Nil,
    /// Done; the answer of every void operation.
    Ok,
    /// An integer; booleans are 0 and 1, as in Redis.
    Int(i64),
    /// A float.
    Float(f64),
    /// A byte string.
    Bytes(Bytes),
    /// Several answers. Pairs (member, score; field, value) lie flat, as in Redis.
    Array(Vec<Reply>),
    /// It cannot be done: the answer of an operation that was [tried](crate::Operation::tried), and of no other.
    Failed(Box<OpError>),
}

impl Reply {
    /// 1 for true, 0 for false.
    pub fn bool(value: bool) -> Self {
        Reply::Int(i64::from(value))
    }

    /// A length or a count.
    pub fn count(value: usize) -> Self {
        Reply::Int(value as i64)
    }

    /// Its approximate size in memory, in bytes. O(parts).
    pub fn size(&self) -> usize {
        let beside = match self {
            Reply::Nil | Reply::Ok | Reply::Int(_) | Reply::Float(_) => 0,
            Reply::Bytes(bytes) => bytes.len(),
            Reply::Array(items) => items.iter().map(Reply::size).sum(),
            Reply::Failed(error) => error.size(),
        };
        size_of::<Reply>() + beside
    }
}

/// As `redis-cli` prints it, on one line.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Nil => write!(f, "(nil)"),
            Reply::Ok => write!(f, "OK"),
            Reply::Int(value) => write!(f, "(integer) {value}"),
            Reply::Float(value) => write!(f, "(float) {value}"),
            Reply::Bytes(bytes) => write!(f, "\"{bytes}\""),
            Reply::Array(items) => {
                write!(f, "[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                write!(f, "]")
            }
            Reply::Failed(error) => write!(f, "(error) {error}"),
        }
    }
}

/// What an operation answers is told as what its answer is read as: `true` as 1, `None` as nothing.
impl From<bool> for Reply {
    fn from(value: bool) -> Self {
        Reply::bool(value)
    }
}

impl From<i64> for Reply {
    fn from(value: i64) -> Self {
        Reply::Int(value)
    }
}

/// A count, an index.
impl From<usize> for Reply {
    fn from(value: usize) -> Self {
        Reply::count(value)
    }
}

impl From<f64> for Reply {
    fn from(value: f64) -> Self {
        Reply::Float(value)
    }
}

impl From<Bytes> for Reply {
    fn from(value: Bytes) -> Self {
        Reply::Bytes(value)
    }
}

impl From<&str> for Reply {
    fn from(value: &str) -> Self {
        Reply::Bytes(value.into())
    }
}

impl From<String> for Reply {
    fn from(value: String) -> Self {
        Reply::Bytes(value.into())
    }
}

impl<T: Into<Reply>> From<Option<T>> for Reply {
    fn from(value: Option<T>) -> Self {
        value.map_or(Reply::Nil, T::into)
    }
}

impl<T: Into<Reply>> From<Vec<T>> for Reply {
    fn from(values: Vec<T>) -> Self {
        Reply::Array(values.into_iter().map(T::into).collect())
    }
}

/// Rust values that a [`Reply`] converts to. `None` if the shape does not fit: that is a mistake in the type, not of
/// its user.
pub trait FromReply: Sized + 'static {
    /// Converts.
    fn from_reply(reply: Reply) -> Option<Self>;
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Option<Self> {
        Some(reply)
    }
}

impl FromReply for () {
    fn from_reply(_: Reply) -> Option<Self> {
        Some(())
    }
}

impl FromReply for bool {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Int(value) => Some(value != 0),
            Reply::Ok => Some(true),
            Reply::Nil => Some(false),
            Reply::Float(_) | Reply::Bytes(_) | Reply::Array(_) | Reply::Failed(_) => None,
        }
    }
}

impl FromReply for i64 {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Int(value) => Some(value),
            _ => None,
        }
    }
}

impl FromReply for u64 {
    fn from_reply(reply: Reply) -> Option<Self> {
        i64::from_reply(reply).and_then(|value| u64::try_from(value).ok())
    }
}

impl FromReply for usize {
    fn from_reply(reply: Reply) -> Option<Self> {
        i64::from_reply(reply).and_then(|value| usize::try_from(value).ok())
    }
}

impl FromReply for f64 {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Float(value) => Some(value),
            Reply::Int(value) => Some(value as f64),
            _ => None,
        }
    }
}

impl FromReply for Bytes {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Of exactly so many bytes.
impl<const N: usize> FromReply for [u8; N] {
    fn from_reply(reply: Reply) -> Option<Self> {
        Bytes::from_reply(reply).and_then(|bytes| bytes[..].try_into().ok())
    }
}

impl FromReply for String {
    fn from_reply(reply: Reply) -> Option<Self> {
        Bytes::from_reply(reply).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
    }
}

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Nil => Some(None),
            other => T::from_reply(other).map(Some),
        }
    }
}

impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Array(items) => items.into_iter().map(T::from_reply).collect(),
            _ => None,
        }
    }
}

/// Two answers, as in `TOPK.MAX`.
impl<A: FromReply, B: FromReply> FromReply for (A, B) {
    fn from_reply(reply: Reply) -> Option<Self> {
        let Reply::Array(items) = reply else { return None };
        let [first, second] = <[Reply; 2]>::try_from(items).ok()?;
        Some((A::from_reply(first)?, B::from_reply(second)?))
    }
}

/// Flat pairs, the way Redis answers `ZRANGE ... WITHSCORES` and `HGETALL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs<A, B>(pub Vec<(A, B)>);

impl<A: FromReply, B: FromReply> FromReply for Pairs<A, B> {
    fn from_reply(reply: Reply) -> Option<Self> {
        let Reply::Array(items) = reply else { return None };
        let mut pairs = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let Some(first) = items.next() {
            pairs.push((A::from_reply(first)?, B::from_reply(items.next()?)?));
        }
        Some(Pairs(pairs))
    }
}
