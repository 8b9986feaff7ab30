//! The module for Redis and Valkey: hosts the shard state machine of `claret-core` on the server's own thread, over the
//! server's own keys. `docs/commands.md` has the commands, `ARCHITECTURE.md` where to look for what.
//!
//! One way through it: a `CLARET.FRAME` arrives ([`entries::commands`], [`entries::frame`]), its requests go into the shard ([`node`]),
//! which asks whether each may be done ([`node::admission`]), reads the records that it decides about and writes those that
//! are committed ([`parts::native`]); answers go back, or to other sessions' outboxes ([`parts::sessions`]).
//!
//! `unsafe` is in [`ffi`] and where the server calls in. Nothing unwinds out of the module.

// The server loads this; nothing of it is public, and its text leads to where things are.
#![allow(rustdoc::private_intra_doc_links)]

mod entries;
mod ffi;
mod node;
mod parts;

use std::ffi::{c_char, c_int};

use claret_core::SessionId;
use redis_module::raw;

use crate::ffi::{Ctx, Log, api, guarded};
use crate::node::{HOST, Host};

#[global_allocator]
static MEMORY: ffi::alloc::Counted = ffi::alloc::Counted;

/// Its name and its version, as the server lists them: 0.1.0 is 100.
const NAME: &std::ffi::CStr = c"claret";
const VERSION: c_int = 100;

/// The server loads the module.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: the server's context; this fills in its functions, which everything else needs.
    let status = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            NAME.as_ptr().cast::<c_char>(),
            VERSION,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if status != raw::REDISMODULE_OK as c_int {
        return status;
    }
    // SAFETY: the server's context, for the time of this call; the youngest function that is needed.
    let (ctx, youngest) = unsafe { (Ctx::new(ctx), raw::RedisModule_PublishMessageShard) };
    if youngest.is_none() {
        ctx.log(Log::Warning, "claret needs Redis 7.0, Valkey 7.2, or a later one");
        return raw::REDISMODULE_ERR as c_int;
    }
    let loaded = guarded(ctx, "loading", |_| {}, load);
    let status = if loaded == Some(Ok(())) { raw::REDISMODULE_OK } else { raw::REDISMODULE_ERR };
    status as c_int
}

fn load(ctx: Ctx) -> Result<(), ()> {
    // A broken dump of a module's value then fails to load, and the server lives. And a replica may go on answering from
    // the old records while new ones come (`repl-diskless-load swapdb`): a replica has no shard.
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    // SAFETY: the context is valid.
    unsafe { api!(RedisModule_SetModuleOptions)(ctx.raw(), options as c_int) };
    entries::needs::check(ctx)?;
    entries::commands::register(ctx)?;
    entries::config::register(ctx)?;
    entries::events::subscribe(ctx)?;
    node::admission::begin();
    node::vanish::subscribe(ctx)?;
    entries::info::register(ctx)?;
    entries::bus::listen(ctx);
    HOST.set(Some(Host::new(SessionId(ctx.random()))));
    ctx.timer(1, node::patrol);
    entries::plain::begin(ctx)?;
    ctx.log(Log::Notice, &format!("claret {} is here", env!("CARGO_PKG_VERSION")));
    Ok(())
}

/// The server would like to unload the module. It stays: what is held would be forgotten, and the server keeps calling
/// back. Another version comes with a restart, one node after the other.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnUnload(_: *mut raw::RedisModuleCtx) -> c_int {
    raw::REDISMODULE_ERR as c_int
}
