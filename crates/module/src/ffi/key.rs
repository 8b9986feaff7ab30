//! An open key: its type, its length, and what can be read without running a command.

use std::ffi::c_int;
use std::ptr::null_mut;

use claret_types::Bytes;
use redis_module::raw;

use super::{Ctx, Text, api};

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    List,
    Hash,
    Set,
    Zset,
    /// A stream, or a module's own.
    Other,
}

impl Kind {
    /// As `TYPE` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Other => "other",
        }
    }
}

/// Where a sorted set begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Lowest,
    Highest,
}

/// An open key that is there: made by [`Ctx::open`] alone, of a pointer that is not null, and closed by `Drop` alone. It does not
/// leave the entry in which it was opened, and the functions here answer no for a value of another type.
pub(crate) struct Key(*mut raw::RedisModuleKey);

impl Ctx {
    /// Opens a key to read it; `None` when it is not there. No check of slots or permissions.
    pub(crate) fn open(self, name: &Text) -> Option<Key> {
        // SAFETY: context and string rules; the key keeps a count of its own of the name.
        let raw =
            unsafe { api!(RedisModule_OpenKey)(self.raw(), name.raw(), raw::REDISMODULE_READ as c_int) };
        (!raw.is_null()).then(|| Key(raw.cast()))
    }

    /// Gives a key that is there another end, a millisecond of the day's time, which replicas and the append-only file do not
    /// hear of. Whether it is there.
    pub(crate) fn set_end_here(self, name: &Text, end: i64) -> bool {
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int;
        // SAFETY: context and string rules; the key keeps a count of its own of the name. Opened to write, one is handed out for a
        // key that is not there, too, for which the end is refused.
        unsafe {
            let opened = api!(RedisModule_OpenKey)(self.raw(), name.raw(), mode);
            if opened.is_null() {
                return false;
            }
            let key = Key(opened.cast());
            api!(RedisModule_SetAbsExpire)(key.0, end) == raw::REDISMODULE_OK as c_int
        }
    }
}

impl Key {
    /// At which millisecond of the day's time it expires, if it does.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        // SAFETY: `self` is open (see `Key`). Negative is never.
        Some(unsafe { api!(RedisModule_GetAbsExpire)(self.0) }).filter(|end| *end >= 0)
    }

    pub(crate) fn kind(&self) -> Kind {
        // SAFETY: `self` is open (see `Key`).
        match unsafe { api!(RedisModule_KeyType)(self.0) } as isize {
            raw::REDISMODULE_KEYTYPE_STRING => Kind::String,
            raw::REDISMODULE_KEYTYPE_LIST => Kind::List,
            raw::REDISMODULE_KEYTYPE_HASH => Kind::Hash,
            raw::REDISMODULE_KEYTYPE_SET => Kind::Set,
            raw::REDISMODULE_KEYTYPE_ZSET => Kind::Zset,
            _ => Kind::Other,
        }
    }

    /// Elements, or bytes of a string.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: `self` is open (see `Key`).
        unsafe { api!(RedisModule_ValueLength)(self.0) }
    }

    /// The bytes of a string. One that the server keeps in a compact way it makes an ordinary one of, to have bytes to show:
    /// of those a command is to be asked.
    pub(crate) fn string(&self) -> &[u8] {
        debug_assert_eq!(self.kind(), Kind::String);
        let mut length = 0;
        // SAFETY: `self` is open (see `Key`). What comes back is null for another type, or so many bytes, which stay where they are
        // until somebody writes to the key; whoever borrows them copies them before anything is run.
        unsafe {
            let start = api!(RedisModule_StringDMA)(self.0, &mut length, raw::REDISMODULE_READ as c_int);
            if start.is_null() { &[] } else { std::slice::from_raw_parts(start.cast::<u8>(), length) }
        }
    }

    /// The value of a hash's field.
    pub(crate) fn field(&self, name: &Text) -> Option<Text> {
        debug_assert_eq!(self.kind(), Kind::Hash);
        let mut value: *mut raw::RedisModuleString = null_mut();
        let end: *mut raw::RedisModuleString = null_mut();
        // SAFETY: `self` is open (see `Key`); the words after the flags are one pair of field and place, and the null that ends them. The
        // place is left null, or gets a count of the value that is the caller's (string rule).
        unsafe {
            api!(RedisModule_HashGet)(
                self.0,
                raw::REDISMODULE_HASH_NONE as c_int,
                name.raw(),
                &mut value,
                end,
            );
            Text::take(value)
        }
    }

    /// The score of a sorted set's member.
    pub(crate) fn score(&self, member: &Text) -> Option<f64> {
        debug_assert_eq!(self.kind(), Kind::Zset);
        let mut score = 0.0;
        // SAFETY: `self` is open (see `Key`); the member lives (string rule); the score is written only if it is there.
        let status = unsafe { api!(RedisModule_ZsetScore)(self.0, member.raw(), &mut score) };
        (status == raw::REDISMODULE_OK as c_int).then_some(score)
    }

    /// So many members of a sorted set with their scores, from an end of it. For a few: each is a call; `ZRANGE` costs
    /// more to begin with, and less a member.
    pub(crate) fn outermost(&self, end: Side, count: usize) -> Vec<(Bytes, f64)> {
        debug_assert_eq!(self.kind(), Kind::Zset);
        let mut list = Vec::with_capacity(count);
        // SAFETY: `self` is open (see `Key`); a range that cannot be begun is not walked, nothing is written to the key while one is,
        // and it is ended. Members are counts that are the caller's, or null (string rule).
        unsafe {
            let (begin, next) = match end {
                Side::Lowest => (api!(RedisModule_ZsetFirstInScoreRange), api!(RedisModule_ZsetRangeNext)),
                Side::Highest => (api!(RedisModule_ZsetLastInScoreRange), api!(RedisModule_ZsetRangePrev)),
            };
            if begin(self.0, f64::NEG_INFINITY, f64::INFINITY, 0, 0) != raw::REDISMODULE_OK as c_int {
                return list;
            }
            while list.len() < count && api!(RedisModule_ZsetRangeEndReached)(self.0) == 0 {
                let mut score = 0.0;
                let member = Text::take(api!(RedisModule_ZsetRangeCurrentElement)(self.0, &mut score));
                list.extend(member.map(|member| (Bytes::copy_from(member.bytes()), score)));
                next(self.0);
            }
            api!(RedisModule_ZsetRangeStop)(self.0);
        }
        list
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: `self` is open (see `Key`), and is not used after this.
        unsafe { api!(RedisModule_CloseKey)(self.0) }
    }
}
