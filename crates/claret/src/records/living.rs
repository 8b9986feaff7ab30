//! What every record has, whatever its type: whether it is there, when it expires, its end.

use std::time::{Duration, SystemTime};

use claret_types::{Bytes, Content, DataType, ExpiresAt, FromReply, KeyspaceOp, Moment, Operation, Ttl};

use super::{AnswerIn, Record, RegisterRecord, Scope};
use crate::decode::Decode;
use crate::value::IntoValue;

/// A record of whatever type: [`Records::key`](crate::Records::key), or `as_key` of a typed record.
///
/// A record expires by the clock of its shard: of the process, or of the node. A relative time counts from when the shard
/// hears of it: on a cluster that is the commit, for an operation that answers nothing; in the process it is the call.
#[derive(Clone, Debug)]
pub struct KeyRecord<S> {
    pub(super) scope: S,
    pub(super) key: Bytes,
}

impl<S: Scope> KeyRecord<S> {
    fn issue(&self, op: KeyspaceOp) -> S::Void {
        self.scope.void(self.key.clone(), Operation::from(op))
    }

    fn ask<R: FromReply>(&self, op: KeyspaceOp) -> AnswerIn<S, R> {
        self.scope.answer(self.key.clone(), Operation::from(op), Decode::plain())
    }

    /// `DEL`: removes the record. It needs the record alone.
    pub fn delete(&self) -> S::Void {
        self.issue(KeyspaceOp::Delete { returning: false })
    }

    /// `DEL.RETURNING`: removes the record; whether there was one.
    pub fn delete_returning(&self) -> AnswerIn<S, bool> {
        self.ask(KeyspaceOp::Delete { returning: true })
    }

    /// `EXISTS`: whether there is a record.
    pub fn exists(&self) -> AnswerIn<S, bool> {
        self.ask(KeyspaceOp::Exists)
    }

    /// `PEXPIRE`: the record expires after this time, in whole milliseconds, rounded up; at once if it is zero. Does nothing
    /// if there is no record. Shares the record with operations that neither remove it nor clear its expiry: counting,
    /// adding, reading.
    pub fn expire_in(&self, time: Duration) -> S::Void {
        self.expire(Moment::In(millis(time)), false)
    }

    /// The same; whether there was a record.
    pub fn expire_in_returning(&self, time: Duration) -> AnswerIn<S, bool> {
        self.expire_returning(Moment::In(millis(time)))
    }

    /// `PEXPIREAT`: the record expires at this time, in whole milliseconds, rounded up; at once if it is over.
    pub fn expire_at(&self, time: SystemTime) -> S::Void {
        self.expire(Moment::At(unix_millis(time)), false)
    }

    /// The same; whether there was a record.
    pub fn expire_at_returning(&self, time: SystemTime) -> AnswerIn<S, bool> {
        self.expire_returning(Moment::At(unix_millis(time)))
    }

    /// `PEXPIRE GT`: puts the record's expiry off, so that it lives for this time at least. A record that does not expire stays
    /// so. Any number of transactions may do this at once.
    pub fn extend_expiry(&self, time: Duration) -> S::Void {
        self.expire(Moment::In(millis(time)), true)
    }

    fn expire(&self, at: Moment, only_later: bool) -> S::Void {
        self.issue(KeyspaceOp::Expire { at, only_later, returning: false })
    }

    fn expire_returning(&self, at: Moment) -> AnswerIn<S, bool> {
        self.ask(KeyspaceOp::Expire { at, only_later: false, returning: true })
    }

    /// `PERSIST`: the record does not expire any more.
    pub fn persist(&self) -> S::Void {
        self.issue(KeyspaceOp::Persist { returning: false })
    }

    /// The same; whether it would have expired.
    pub fn persist_returning(&self) -> AnswerIn<S, bool> {
        self.ask(KeyspaceOp::Persist { returning: true })
    }

    /// `PTTL`: how long the record still lives.
    pub fn ttl(&self) -> AnswerIn<S, Ttl> {
        self.ask(KeyspaceOp::TimeLeft { in_seconds: false, now: None })
    }

    /// `PEXPIRETIME`: when the record expires.
    pub fn expires_at(&self) -> AnswerIn<S, ExpiresAt> {
        self.ask(KeyspaceOp::ExpiryTime)
    }

    /// `RECORD.CONTENT`: all that is in a record of a built-in type, so that [`KeyRecord::put`] can make another of it; `None`
    /// if there is no record. Shares the record with itself alone. O(size); an error if that is over 1 MiB.
    pub fn content(&self) -> AnswerIn<S, Option<Content>> {
        self.ask(KeyspaceOp::Content)
    }

    /// `RECORD.DIGEST`: SHA-256 over the record's type, content and expiry, which two records have in common only if they are alike;
    /// `None` if there is no record. On a cluster a key of any other type has one as well. Shares the record with itself and
    /// [`content`](Self::content) alone. O(size); an error if that is over 65,536 elements or 4 MiB.
    pub fn digest(&self) -> AnswerIn<S, Option<[u8; 32]>> {
        self.ask(KeyspaceOp::Digest)
    }

    /// `RECORD.VERSION`: a value that is another one after every change of the record, be it there or not: two that are equal say
    /// that nothing changed it in between, not even to what it had been. What the transaction itself does counts once it has
    /// committed. A record may get another version though nothing changed it. Shares the record with what only reads all of it.
    pub fn version(&self) -> AnswerIn<S, Bytes> {
        self.ask(KeyspaceOp::Version)
    }

    /// `RECORD.PUT`: puts a record of this content in place of what there is, of whatever type. It does not expire. Needs the
    /// record alone. O(size).
    pub fn put(&self, content: Content) -> S::Void {
        self.issue(KeyspaceOp::Put(content))
    }
}

impl<S: Scope> RegisterRecord<S> {
    /// `PSETEX`: writes the value, which expires after this time. Needs the record alone.
    pub fn set_for(&self, value: impl IntoValue, time: Duration) -> S::Void {
        self.set_until_moment(value, Moment::In(millis(time)))
    }

    /// `SET` with `PXAT`: writes the value, which expires at this time. Needs the record alone.
    pub fn set_until(&self, value: impl IntoValue, time: SystemTime) -> S::Void {
        self.set_until_moment(value, Moment::At(unix_millis(time)))
    }

    fn set_until_moment(&self, value: impl IntoValue, at: Moment) -> S::Void {
        let Record { scope, key, .. } = &self.0;
        match value.into_value() {
            Ok(value) => scope.void(key.clone(), Operation::from(KeyspaceOp::SetUntil { value, at })),
            Err(error) => scope.refuse_void(key.clone(), error),
        }
    }
}

fn millis(time: Duration) -> u64 {
    time.as_micros().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

/// A time before 1970 is over, as any other in the past.
fn unix_millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis)
}

/// Gives handles these methods: their names, and the field of each that is a [`Record`].
macro_rules! living {
    ($($record:ident.$inner:tt),*) => {$(
        impl<S: $crate::records::Scope> $record<S> {
            /// `DEL`: removes the record. It needs the record alone.
            pub fn delete(&self) -> S::Void {
                self.$inner.delete()
            }

            /// The same record as one of whatever type: whether it is there, when it expires, its end.
            pub fn as_key(&self) -> $crate::records::KeyRecord<S> {
                self.$inner.as_key()
            }
        }
    )*};
}

pub(super) use living;

impl<S: Scope, T: DataType> Record<S, T> {
    /// `DEL`: removes the record. It needs the record alone.
    pub fn delete(&self) -> S::Void {
        self.as_key().delete()
    }

    /// The same record as one of whatever type: whether it is there, when it expires, its end.
    pub fn as_key(&self) -> KeyRecord<S> {
        KeyRecord { scope: self.scope.clone(), key: self.key.clone() }
    }
}
