//! What changes behind the shard's back: records that expire, are evicted or flushed (trap 18), and rights that change.
//!
//! It is noted at once and told to the shard before anything else goes into it: the server calls in the midst of its own
//! work, where nothing may be read or written. Until then nobody has seen more of the shard than before.

use std::ffi::{c_char, c_int, c_void};

use claret_core::message::Refusal;
use claret_core::{Shard, Time};
use claret_types::Bytes;
use redis_module::raw;

use crate::ffi::{Arg, Ctx, OnMainThread, api, guarded};
use crate::host::{HOST, mend};

/// Something that the shard has to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// This record is gone.
    Record(Bytes),
    /// All are.
    Everything,
    /// An access control list changes: whatever has not voted is tried again, and asked again.
    Rights,
}

/// What the shard was not told yet. `None` where nothing ever happened.
static NOTED: OnMainThread<Vec<Change>> = OnMainThread::new();

/// Asks to be told.
pub(crate) fn subscribe(ctx: Ctx) -> Result<(), ()> {
    NOTED.set(Some(Vec::new()));
    let kinds = raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    let first_version = |id| raw::RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the functions stay as long as the module.
    unsafe {
        Ctx::accepted(api!(RedisModule_SubscribeToKeyspaceEvents)(ctx.raw(), kinds, Some(key_vanished)))?;
        for event in [raw::REDISMODULE_EVENT_FLUSHDB, raw::REDISMODULE_EVENT_SWAPDB] {
            let event = first_version(event);
            Ctx::accepted(api!(RedisModule_SubscribeToServerEvent)(ctx.raw(), event, Some(all_vanished)))?;
        }
    }
    Ok(())
}

/// Notes a change, and sees that the shard hears of it soon if nothing else happens.
pub(crate) fn note(ctx: Ctx, change: Change) {
    NOTED.with(|noted| {
        if !noted.contains(&change) {
            noted.push(change);
        }
    });
    // Where the host is busy it looks for itself before it is done.
    HOST.with(|host| host.come_back(ctx, 0));
}

/// Tells the shard what has changed.
pub(crate) fn tell(now: Time, shard: &mut Shard) {
    while let Some(noted) = NOTED.with(|noted| (!noted.is_empty()).then(|| std::mem::take(noted))).flatten() {
        for change in noted {
            match change {
                Change::Record(key) => shard.gone(now, &key),
                Change::Everything => {
                    let held: Vec<Bytes> = shard.held_keys().cloned().collect();
                    held.iter().for_each(|key| shard.gone(now, key));
                }
                Change::Rights => shard.refuse_unvoted(now, &Refusal::LostLocks),
            }
        }
    }
}

unsafe extern "C" fn key_vanished(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    _: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server's context and the key, for the time of this call.
    let (ctx, key) = unsafe { (Ctx::new(ctx), Arg::new(key)) };
    guarded(ctx, "a vanishing key", mend, |ctx| {
        if ctx.database() == 0 {
            note(ctx, Change::Record(key.to_bytes()));
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn all_vanished(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded(ctx, "a flush", mend, |ctx| note(ctx, Change::Everything));
}
