//! Clients whose answer waits for the replicas (S2 and S16 of `docs/replication.md`).

use std::ffi::c_int;

use redis_module::raw;

use super::{closed, entry, outcome, with_node};
use crate::ffi::Ctx;
use crate::parts::error::Error;
use crate::parts::questions::Owed;

/// The client waits for the answer to the question of this number.
pub(super) fn wait(ctx: Ctx, number: u64) {
    let client = ctx.block(Some(answer));
    client.on_disconnect(Some(gone));
    with_node(|node| node.question_waits(number, client));
}

/// The replicas have it; or they do not say so.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    let number = ctx.released_with();
    let owed = entry(ctx, "an answer", |_| with_node(|node| node.question_answered(number))).flatten();
    match owed.unwrap_or(Err(Error::NotReady)) {
        Ok(Owed::Told(told)) => outcome::reply(ctx, told),
        Ok(Owed::Taken) => ctx.reply_ok(),
        Err(error) => ctx.reply_error(&error.line()),
    }
    raw::REDISMODULE_OK as c_int
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: they are what the server just called with, and do not leave this call (context rule).
    unsafe { closed(ctx, client, "a closing client", |node, _, client| node.question_left(client)) }
}
