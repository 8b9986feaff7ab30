//! When a record expires, as callers say it and as they are told.

use std::time::Duration;

use crate::{Expiry, FromReply, Reply};

/// A moment, as a caller says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So many milliseconds from when the shard hears of it.
    In(u64),
    /// At so many milliseconds since 1970.
    At(u64),
}

/// How long a record still lives: the answer of `PTTL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// There is no record.
    NoRecord,
    /// It does not expire.
    Forever,
    /// It expires after this time.
    In(Duration),
}

impl Moment {
    /// Before any other.
    pub const OVER: Moment = Moment::At(0);
}

impl FromReply for Ttl {
    fn from_reply(reply: Reply) -> Option<Self> {
        match i64::from_reply(reply)? {
            -2 => Some(Ttl::NoRecord),
            -1 => Some(Ttl::Forever),
            ms => u64::try_from(ms).ok().map(|ms| Ttl::In(Duration::from_millis(ms))),
        }
    }
}

/// When a record expires: the answer of `PEXPIRETIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiresAt {
    /// There is no record.
    NoRecord,
    /// It does not expire.
    Never,
    /// It expires then.
    At(Expiry),
}

impl FromReply for ExpiresAt {
    fn from_reply(reply: Reply) -> Option<Self> {
        match i64::from_reply(reply)? {
            -2 => Some(ExpiresAt::NoRecord),
            -1 => Some(ExpiresAt::Never),
            ms => u64::try_from(ms).ok().and_then(Expiry::at_ms).map(ExpiresAt::At),
        }
    }
}
