//! What an operation answers.
//!
//! All types share one shape, close to RESP, so that transactions, the shell, the wire and the checkers can carry any
//! answer. Typed handles turn it into Rust values through [`FromReply`].
//!
//! Whatever bytes an answer is read from, reading them ends and does not panic, in memory in proportion to the bytes that are there.

use std::fmt;

use serde::de::{DeserializeSeed, EnumAccess, Error as _, SeqAccess, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounded_serde::AWAITED_MAX;
use crate::{Bytes, OpError};

/// How deep answers may be nested; those of the built-in types are nested once.
const NESTING_MAX: u8 = 16;

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

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Nested { deeper: NESTING_MAX, may_fail: true }.deserialize(deserializer)
    }
}

/// Reads the answer that is in an error: that one is no error.
pub(crate) fn found<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Reply>, D::Error> {
    Nested { deeper: NESTING_MAX, may_fail: false }.deserialize(deserializer).map(Box::new)
}

/// Reads an answer that may contain others.
#[derive(Clone, Copy)]
struct Nested {
    /// To this depth.
    deeper: u8,
    /// It may be an error. None of those in it may: or one could be in the other for ever.
    may_fail: bool,
}

/// Reads the answers in an answer.
struct Items(Nested);

#[derive(Deserialize)]
enum ReplyKind {
    Nil,
    Ok,
    Int,
    Float,
    Bytes,
    Array,
    Failed,
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = Reply;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Reply, D::Error> {
        deserializer.deserialize_enum(
            "Reply",
            &["Nil", "Ok", "Int", "Float", "Bytes", "Array", "Failed"],
            self,
        )
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = Reply;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<Reply, A::Error> {
        let (kind, content) = variant.variant()?;
        match kind {
            ReplyKind::Nil => content.unit_variant().map(|()| Reply::Nil),
            ReplyKind::Ok => content.unit_variant().map(|()| Reply::Ok),
            ReplyKind::Int => content.newtype_variant().map(Reply::Int),
            ReplyKind::Float => content.newtype_variant().map(Reply::Float),
            ReplyKind::Bytes => content.newtype_variant().map(Reply::Bytes),
            ReplyKind::Failed if self.may_fail => content.newtype_variant().map(Reply::Failed),
            ReplyKind::Failed => Err(A::Error::custom("an error in an answer")),
            ReplyKind::Array => match self.deeper.checked_sub(1) {
                Some(deeper) => {
                    let items = Items(Nested { deeper, may_fail: false });
                    content.newtype_variant_seed(items).map(Reply::Array)
                }
                None => Err(A::Error::custom("an answer is nested too deep")),
            },
        }
    }
}

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<Reply>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Reply>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Reply>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("answers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Reply>, A::Error> {
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or(0).min(AWAITED_MAX.0));
        while let Some(item) = items.next_element_seed(self.0)? {
            list.push(item);
        }
        Ok(list)
    }
}
