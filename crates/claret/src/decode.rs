//! How answers are read: the Rust value that a reply is.

use claret_types::{Bytes, FromReply, Pairs, Reply};

use crate::error::Error;
use crate::value::{FromValue, ValueError};

/// How the answer of an operation becomes an `R`. Handles make it; a scope passes it on to what it gives
/// back.
#[derive(Debug)]
pub struct Decode<R> {
    /// Whether the reply has the shape that the operation answers in. It runs no code of users.
    fits: fn(&Reply) -> bool,
    read: fn(Reply) -> Result<R, Misread>,
    /// Whether it has values that may be of another type: then its errors name the key.
    has_values: bool,
}

impl<R> Clone for Decode<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Decode<R> {}

/// Why a reply is no `R`.
#[derive(Debug)]
struct Misread {
    /// The place among several replies.
    at: usize,
    /// `None`: it has another shape than the operation answers in.
    error: Option<ValueError>,
}

const SHAPE: Misread = Misread { at: 0, error: None };

/// The keys of the calls that an answer is of, as far as an error needs them.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    None,
    One(Bytes),
    Many(Vec<Bytes>),
}

impl Keys {
    fn get(&self, at: usize) -> Bytes {
        match self {
            Keys::None => Bytes::default(),
            Keys::One(key) => key.clone(),
            Keys::Many(keys) => keys.get(at).cloned().unwrap_or_default(),
        }
    }
}

impl<R: FromReply> Decode<R> {
    /// As it is.
    pub(crate) fn plain() -> Self {
        Decode {
            fits: |reply| R::from_reply(reply.clone()).is_some(),
            read: |reply| R::from_reply(reply).ok_or(SHAPE),
            has_values: false,
        }
    }
}

impl<R> Decode<R> {
    /// Of no answer.
    pub(crate) fn nothing() -> Self {
        Decode { fits: |_| false, read: |_| Err(SHAPE), has_values: false }
    }

    /// An answer with values of this type in it. `read` runs code of users.
    fn of<V: FromValue, Shape: FromReply>(read: fn(Reply) -> Result<R, Misread>) -> Self {
        Decode { fits: |reply| Shape::from_reply(reply.clone()).is_some(), read, has_values: !V::ACCEPTS_ALL }
    }

    /// What an error of this answer needs to know of the key.
    #[inline]
    pub(crate) fn keys_of(&self, key: &Bytes) -> Keys {
        if self.has_values { Keys::One(key.clone()) } else { Keys::None }
    }

    /// Whether the value may turn out to be of another type.
    pub(crate) fn may_fail(&self) -> bool {
        self.has_values
    }

    pub(crate) fn fits(&self) -> fn(&Reply) -> bool {
        self.fits
    }

    /// Reads the answer; `strange` is the error of one that has another shape than the operation answers in.
    #[inline]
    pub(crate) fn read(
        &self,
        keys: &Keys,
        reply: Reply,
        strange: impl FnOnce() -> Error,
    ) -> Result<R, Error> {
        (self.read)(reply).map_err(|misread| match misread {
            Misread { error: None, .. } => strange(),
            Misread { at, error: Some(error) } => error.at(keys.get(at)),
        })
    }
}

fn value<V: FromValue>(at: usize, bytes: Bytes) -> Result<V, Misread> {
    V::from_value(bytes).map_err(|error| Misread { at, error: Some(error) })
}

fn shape<S: FromReply>(reply: Reply) -> Result<S, Misread> {
    S::from_reply(reply).ok_or(SHAPE)
}

/// A value, if there is one.
pub(crate) fn optional<V: FromValue>() -> Decode<Option<V>> {
    Decode::of::<V, Option<Bytes>>(|reply| match reply {
        Reply::Nil => Ok(None),
        other => value(0, shape(other)?).map(Some),
    })
}

/// A value of JSON, if there is one.
#[cfg(feature = "json")]
pub(crate) fn optional_json<V: serde::de::DeserializeOwned + 'static>() -> Decode<Option<V>> {
    Decode::of::<crate::value::Json<V>, Option<Bytes>>(|reply| match reply {
        Reply::Nil => Ok(None),
        other => value(0, shape(other)?).map(|crate::value::Json(value)| Some(value)),
    })
}

/// A value.
pub(crate) fn one<V: FromValue>() -> Decode<V> {
    Decode::of::<V, Bytes>(|reply| value(0, shape(reply)?))
}

/// Values, if there are any.
pub(crate) fn optional_each<V: FromValue>() -> Decode<Option<Vec<V>>> {
    Decode::of::<V, Option<Vec<Bytes>>>(|reply| {
        let all = shape::<Option<Vec<Bytes>>>(reply)?;
        all.map(|all| all.into_iter().enumerate().map(|(at, bytes)| value(at, bytes)).collect()).transpose()
    })
}

/// Values.
pub(crate) fn each<V: FromValue>() -> Decode<Vec<V>> {
    Decode::of::<V, Vec<Bytes>>(|reply| {
        shape::<Vec<Bytes>>(reply)?.into_iter().enumerate().map(|(at, bytes)| value(at, bytes)).collect()
    })
}

/// How many of what was given there were; of nothing, none.
pub(crate) fn count() -> Decode<u64> {
    fn count(reply: &Reply) -> Option<u64> {
        match reply {
            Reply::Int(count) => u64::try_from(*count).ok(),
            Reply::Array(items) if items.is_empty() => Some(0),
            _ => None,
        }
    }
    Decode {
        fits: |reply| count(reply).is_some(),
        read: |reply| count(&reply).ok_or(SHAPE),
        has_values: false,
    }
}

/// Values where there are any.
pub(crate) fn each_optional<V: FromValue>() -> Decode<Vec<Option<V>>> {
    Decode::of::<V, Vec<Option<Bytes>>>(|reply| {
        let all = shape::<Vec<Option<Bytes>>>(reply)?.into_iter().enumerate();
        all.map(|(at, bytes)| bytes.map(|bytes| value(at, bytes)).transpose()).collect()
    })
}

/// Fields and values.
pub(crate) fn fields<F: FromValue, V: FromValue>() -> Decode<Pairs<F, V>> {
    let read = Decode::of::<V, Pairs<Bytes, Bytes>>(|reply| {
        let Pairs(all) = shape::<Pairs<Bytes, Bytes>>(reply)?;
        let read = all.into_iter().map(|(field, of)| Ok((value(0, field)?, value(0, of)?)));
        read.collect::<Result<_, _>>().map(Pairs)
    });
    Decode { has_values: read.has_values || !F::ACCEPTS_ALL, ..read }
}

/// Members and their scores.
pub(crate) fn scored<V: FromValue>() -> Decode<Pairs<V, f64>> {
    Decode::of::<V, Pairs<Bytes, f64>>(|reply| {
        let Pairs(all) = shape::<Pairs<Bytes, f64>>(reply)?;
        let read = all.into_iter().map(|(member, score)| Ok((value(0, member)?, score)));
        read.collect::<Result<_, _>>().map(Pairs)
    })
}

/// A member and its score, if there is one.
pub(crate) fn first_scored<V: FromValue>() -> Decode<Option<(V, f64)>> {
    Decode::of::<V, Option<(Bytes, f64)>>(|reply| {
        let first = shape::<Option<(Bytes, f64)>>(reply)?;
        first.map(|(member, score)| Ok((value(0, member)?, score))).transpose()
    })
}
