//! `CLARET.OUTCOME`: what is written here for an attempt, for somebody who only wants to know what became of it (P89).

use std::ffi::c_int;

use claret_core::Told;
use redis_module::raw;

use super::{closed, entry, keyspace, locks, with_node};
use crate::ffi::{Arg, Ctx, Flag};
use crate::node::Asked;
use crate::parts::error::{Error, Outcome};

/// `CLARET.OUTCOME attempt`
pub(super) fn outcome(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    const USAGE: Error = Error::Usage("CLARET.OUTCOME session.sequence/attempt");
    let [_, attempt] = arguments else { return Err(USAGE) };
    let attempt = attempt.text().and_then(locks::parse).ok_or(USAGE)?;
    let caller = keyspace().caller(ctx);
    let may_wait = !caller.is(Flag::Multi) && !caller.is(Flag::Lua) && !caller.is(Flag::DenyBlocking);
    match with_node(|node| node.tell_written(ctx, attempt, may_wait)).unwrap_or(Err(Error::NotReady))? {
        Asked::Told(told) => reply(ctx, told),
        Asked::Waits(number) => {
            let client = ctx.block(Some(answer));
            client.on_disconnect(Some(gone));
            with_node(|node| node.question_waits(number, client));
        }
    }
    Ok(())
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
    let told = entry(ctx, "an answer", |_| with_node(|node| node.question_answered(number))).flatten();
    match told.unwrap_or(Err(Error::NotReady)) {
        Ok(told) => reply(ctx, told),
        Err(error) => ctx.reply_error(&error.line()),
    }
    raw::REDISMODULE_OK as c_int
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: they are what the server just called with, and do not leave this call (context rule).
    unsafe { closed(ctx, client, "a closing client", |node, _, client| node.question_left(client)) }
}

fn reply(ctx: Ctx, told: Told) {
    ctx.reply_array(3);
    ctx.reply_int(i64::from(told.shard.0));
    // Larger than the server's integers.
    ctx.reply_bytes(told.since.0.to_string().as_bytes());
    ctx.reply_bytes(told.written.word().as_bytes());
}
