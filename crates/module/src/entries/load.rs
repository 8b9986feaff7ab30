//! Loading: what the server must have, and which callbacks are registered.

use std::ffi::{c_char, c_int};

use claret_core::SessionId;
use claret_identity::PeerSecret;
use redis_module::raw;
use thiserror::Error;

use super::{bus, commands, config, events, files, filter, info, requirements, timers};
use crate::ffi::{Ctx, Flag, Log, Rejected, api, guarded};
use crate::node::{Node, settings};

/// Its name and its version, as the server lists them: 0.1.0 is 100.
const NAME: &std::ffi::CStr = c"claret";
const VERSION: c_int = 100;

/// Why the module does not load.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Unfit {
    #[error("claret needs the command {0}, which rename-command has taken away here; {USE_ACL}")]
    Missing(&'static str),
    #[error("claret knows commands by their names, and rename-command has changed {0}; {USE_ACL}")]
    Renamed(String),
    /// A registration.
    #[error("claret cannot register with this server, which refused {0}")]
    Rejected(&'static str),
    #[error("claret.peer-secret-file: cannot read '{file}': {why}")]
    SecretUnread { file: String, why: String },
    #[error(
        "claret.peer-secret-file: '{0}' has fewer than 16 bytes; write a longer secret, the same on all nodes"
    )]
    SecretShort(String),
    #[error(
        "claret.durability strict needs a cluster, and this server is none: set cluster-enabled yes, or claret.durability async"
    )]
    StrictAlone,
    #[error(
        "claret.durability strict needs claret.peer-secret-file, a file with a secret that all nodes have: whoever reaches the \
         port of the cluster bus could speak for a node"
    )]
    StrictWithoutSecret,
}

const USE_ACL: &str = "say with access control lists (ACL SETUSER) who may run what instead";

/// The server loads the module.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: the context is the one that the server just called with, and the name ends in a zero. This writes the pointers to
    // the server's functions, and nothing reads them before: it is the first call into the module.
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
    // SAFETY: the context is the server's and is used within this call alone; the pointer was written above, and is read for
    // whether the server has the youngest function that is needed.
    let (ctx, youngest) = unsafe { (Ctx::new(ctx), raw::RedisModule_PublishMessageShard) };
    if youngest.is_none() {
        ctx.log(Log::Warning, "claret needs Redis 7.0, Valkey 7.2, or a later one");
        return raw::REDISMODULE_ERR as c_int;
    }
    let loaded = guarded(ctx, "loading", |_| {}, load);
    if let Some(Err(unfit)) = &loaded {
        ctx.log(Log::Warning, &unfit.to_string());
    }
    let status = if loaded == Some(Ok(())) { raw::REDISMODULE_OK } else { raw::REDISMODULE_ERR };
    status as c_int
}

fn load(ctx: Ctx) -> Result<(), Unfit> {
    // A broken dump of a module's value then fails to load, and the server lives. And a replica may go on answering from
    // the old records while new ones come (`repl-diskless-load swapdb`): a replica has no shard.
    // And whoever watches a key does not hear of an end that is put off for a vote.
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
    // SAFETY: the context is that of loading, and valid until this returns.
    unsafe { api!(RedisModule_SetModuleOptions)(ctx.raw(), options as c_int) };
    requirements::check(ctx)?;
    let accepted = |what, status: Result<(), Rejected>| status.map_err(|Rejected| Unfit::Rejected(what));
    accepted("a command", commands::register(ctx))?;
    accepted("a setting", config::register(ctx))?;
    let secret = secret()?;
    if settings::is_strict() {
        check_strict(ctx, secret.is_some())?;
    }
    accepted("an event", events::subscribe(ctx))?;
    accepted("a part of RDB files", files::register(ctx))?;
    accepted("a section of INFO", info::register(ctx))?;
    ctx.receive(bus::received);
    let own = SessionId(ctx.random());
    super::begin(|keyspace| Node::new(ctx, keyspace, timers::PROCS, events::subscribe_to_keys, own, secret));
    // In the first turn of the server's loop, before it reads any command of a client: the shard begins.
    super::with_node(|node| node.check_again(ctx, 0));
    accepted("the filter", ctx.filter(filter::filter))?;
    ctx.log(Log::Notice, &format!("claret {} is here", env!("CARGO_PKG_VERSION")));
    Ok(())
}

/// With what nodes sign what they tell each other. Blanks around it are no part of it.
fn secret() -> Result<Option<PeerSecret>, Unfit> {
    let file = settings::PEER_SECRET_FILE.get();
    if file.is_empty() {
        return Ok(None);
    }
    let file = String::from_utf8_lossy(&file).into_owned();
    let bytes = std::fs::read(&file)
        .map_err(|why| Unfit::SecretUnread { file: file.clone(), why: why.to_string() })?;
    match PeerSecret::new(bytes.trim_ascii()) {
        Some(secret) => Ok(Some(secret)),
        None => Err(Unfit::SecretShort(file)),
    }
}

fn check_strict(ctx: Ctx, has_secret: bool) -> Result<(), Unfit> {
    if !ctx.is(Flag::Cluster) {
        return Err(Unfit::StrictAlone);
    }
    if !has_secret {
        return Err(Unfit::StrictWithoutSecret);
    }
    requirements::check_strict(ctx)
}

/// The server would like to unload the module. It stays: what is held would be forgotten, and the server keeps calling
/// back. Another version comes with a restart, one node after the other.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn RedisModule_OnUnload(_: *mut raw::RedisModuleCtx) -> c_int {
    raw::REDISMODULE_ERR as c_int
}
