//! What the server tells of itself: clients that go, roles that change, its own rounds.

use std::ffi::c_void;

use redis_module::raw;

use crate::ffi::{Ctx, api, guarded};
use crate::node::{HOST, mend};

/// Asks to be told.
pub(crate) fn subscribe(ctx: Ctx) -> Result<(), ()> {
    let first_version = |id| raw::RedisModuleEvent { id, dataver: 1 };
    let clients = first_version(raw::REDISMODULE_EVENT_CLIENT_CHANGE);
    let role = first_version(raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED);
    let rounds = first_version(raw::REDISMODULE_EVENT_CRON_LOOP);
    // SAFETY: the functions stay as long as the module.
    unsafe {
        Ctx::accepted(api!(RedisModule_SubscribeToServerEvent)(ctx.raw(), clients, Some(client_changed)))?;
        Ctx::accepted(api!(RedisModule_SubscribeToServerEvent)(ctx.raw(), role, Some(role_changed)))?;
        Ctx::accepted(api!(RedisModule_SubscribeToServerEvent)(ctx.raw(), rounds, Some(looked_around)))
    }
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
    // SAFETY: the server's context and what it says of the client, for the time of this call.
    let (ctx, client) = unsafe { (Ctx::new(ctx), (*client.cast::<raw::RedisModuleClientInfo>()).id) };
    guarded(ctx, "a closing client", mend, |ctx| HOST.with(|host| host.closed(ctx, client)));
}

/// The shard begins or ends soon, from a timer: in the midst of a change of roles nothing may be written.
unsafe extern "C" fn role_changed(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded(ctx, "a change of roles", mend, |ctx| HOST.with(|host| host.role_changed(ctx)));
}

/// Here, too, nothing may be written.
unsafe extern "C" fn looked_around(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded(ctx, "the server's round", mend, |ctx| HOST.with(|host| host.server_looked_around(ctx)));
}
