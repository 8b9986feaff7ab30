//! Events of the server: clients that disconnect, roles that change, the server's cron, and keys that vanish (trap
//! 18).
//!
//! Most events come in the middle of the server's own work, where nothing may be read or written. What they cause
//! waits for a timer or for the next entry.

use std::ffi::{c_char, c_int, c_void};

use claret_planted::{Bug, is_planted};
use redis_module::raw;

use super::{entry, files, keyspace, with_node};
use crate::ffi::{Arg, Ctx, Rejected, api};
use crate::node::Node;
use crate::parts::vanished::Change;

/// Asks to be told.
pub(super) fn subscribe(ctx: Ctx) -> Result<(), Rejected> {
    let kinds = raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    // SAFETY: the context is that of loading; the function is never unloaded, since the module refuses that.
    Ctx::accepted(unsafe {
        api!(RedisModule_SubscribeToKeyspaceEvents)(ctx.raw(), kinds, Some(key_vanished))
    })?;
    let events: [(u64, raw::RedisModuleEventCallback); 8] = [
        (raw::REDISMODULE_EVENT_CLIENT_CHANGE, Some(client_changed)),
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, Some(role_changed)),
        (raw::REDISMODULE_EVENT_CRON_LOOP, Some(looked_around)),
        (raw::REDISMODULE_EVENT_FLUSHDB, Some(flushed)),
        (raw::REDISMODULE_EVENT_SWAPDB, Some(swapped)),
        (raw::REDISMODULE_EVENT_REPLICA_CHANGE, Some(replica_changed)),
        (raw::REDISMODULE_EVENT_LOADING, Some(loading)),
        (raw::REDISMODULE_EVENT_FORK_CHILD, Some(files::forked)),
    ];
    for (id, callback) in events {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: as above; each function reads the data of its own event alone.
        Ctx::accepted(unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.raw(), event, callback) })?;
    }
    Ok(())
}

/// Asks to be told of every change of a key: once, when it first matters.
pub(super) fn subscribe_to_keys(ctx: Ctx) -> bool {
    // Not of keys that are missed or loaded. What is set by hand `notify-keyspace-events` does not matter for modules.
    let kinds = raw::REDISMODULE_NOTIFY_GENERIC
        | raw::REDISMODULE_NOTIFY_STRING
        | raw::REDISMODULE_NOTIFY_LIST
        | raw::REDISMODULE_NOTIFY_SET
        | raw::REDISMODULE_NOTIFY_HASH
        | raw::REDISMODULE_NOTIFY_ZSET
        | raw::REDISMODULE_NOTIFY_EXPIRED
        | raw::REDISMODULE_NOTIFY_EVICTED
        | raw::REDISMODULE_NOTIFY_STREAM
        | raw::REDISMODULE_NOTIFY_MODULE
        | raw::REDISMODULE_NOTIFY_NEW;
    // SAFETY: context rule; the function is never unloaded, since the module refuses that.
    let status = unsafe { api!(RedisModule_SubscribeToKeyspaceEvents)(ctx.raw(), kinds, Some(key_changed)) };
    Ctx::accepted(status).is_ok()
}

unsafe extern "C" fn key_changed(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    _: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server calls with its context and the key's name, both of which live until this returns.
    let (ctx, key) = unsafe { (Ctx::new(ctx), Arg::new(key)) };
    if keyspace().has_hearers() && ctx.database() == 0 {
        entry(ctx, "a changed key", |ctx| {
            keyspace().has_changed(key.bytes());
            if keyspace().is_awaited(key.bytes()) && !is_planted(Bug::AwaitedUntold) {
                note(ctx, Change::Awaited(key.to_bytes()));
            }
        });
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn client_changed(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    what: u64,
    client: *mut c_void,
) {
    if what != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: with this event the server hands over what it says of a client, which lives until this returns, as the context.
    let (ctx, client) = unsafe { (Ctx::new(ctx), (*client.cast::<raw::RedisModuleClientInfo>()).id) };
    entry(ctx, "a closing client", |ctx| with_node(|node| node.closed(ctx, client)));
}

/// The shard begins or ends soon, from a timer: in the midst of a change of roles nothing may be written.
unsafe extern "C" fn role_changed(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    role: u64,
    _: *mut c_void,
) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    let is_replica = role == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA;
    entry(ctx, "a change of roles", |ctx| with_node(|node| node.role_changed(ctx, is_replica)));
}

/// A replica is there, and receives what is written from now on.
unsafe extern "C" fn replica_changed(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    what: u64,
    _: *mut c_void,
) {
    if what != raw::REDISMODULE_SUBEVENT_REPLICA_CHANGE_ONLINE {
        return;
    }
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    entry(ctx, "a replica that comes", |ctx| with_node(|node| node.replica_came(ctx)));
}

/// All that this node has is replaced by what its primary, or a file, has.
unsafe extern "C" fn loading(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    what: u64,
    _: *mut c_void,
) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    entry(ctx, "loading", |_| keyspace().all_changed());
    match what {
        raw::REDISMODULE_SUBEVENT_LOADING_REPL_START => {
            entry(ctx, "a sync", |_| with_node(Node::forget_backup));
        }
        raw::REDISMODULE_SUBEVENT_LOADING_RDB_START | raw::REDISMODULE_SUBEVENT_LOADING_AOF_START => {
            entry(ctx, "loading", |ctx| with_node(|node| node.begins_to_load(ctx)));
        }
        _ => {}
    }
}

/// Here, too, nothing may be written.
unsafe extern "C" fn looked_around(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    entry(ctx, "the server's round", |ctx| with_node(|node| node.server_looked_around(ctx)));
}

/// Notes a change, and sees that the shard hears of it soon if nothing else happens. A node that is at work looks for itself
/// before it is done.
fn note(ctx: Ctx, change: Change) {
    keyspace().note(change);
    with_node(|node| node.come_back(ctx, if is_planted(Bug::IdleNodeUntold) { 3_600_000 } else { 0 }));
}

unsafe extern "C" fn key_vanished(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    _: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server calls with its context and the key's name, both of which live until this returns.
    let (ctx, key) = unsafe { (Ctx::new(ctx), Arg::new(key)) };
    entry(ctx, "a vanishing key", |ctx| {
        let key = key.to_bytes();
        if ctx.database() == 0 && !keyspace().is_found_gone(&key) {
            note(ctx, Change::Record(key));
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn flushed(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    phase: u64,
    what: *mut c_void,
) {
    // SAFETY: with this event the server hands over what it says of a flush, which lives until this returns, as the context.
    let (ctx, database) = unsafe { (Ctx::new(ctx), (*what.cast::<raw::RedisModuleFlushInfo>()).dbnum) };
    // A negative number is all of them.
    if database > 0 || is_planted(Bug::FlushUnheard) {
        return;
    }
    entry(ctx, "a flush", |ctx| {
        keyspace().all_changed();
        if phase == raw::REDISMODULE_SUBEVENT_FLUSHDB_START {
            with_node(Node::about_to_vanish);
        }
        note(ctx, Change::Everything);
    });
}

unsafe extern "C" fn swapped(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    what: *mut c_void,
) {
    // SAFETY: with this event the server hands over what it says of a swap, which lives until this returns, as the context.
    let (ctx, swap) = unsafe { (Ctx::new(ctx), &*what.cast::<raw::RedisModuleSwapDbInfo>()) };
    if swap.dbnum_first == 0 || swap.dbnum_second == 0 {
        entry(ctx, "a swap of databases", |ctx| {
            keyspace().all_changed();
            note(ctx, Change::Everything);
        });
    }
}
