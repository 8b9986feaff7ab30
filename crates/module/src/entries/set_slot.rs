//! `CLUSTER SETSLOT`, where it takes a slot away: it waits until no transaction uses a key of the slot.
//! `node/leaving.rs` explains why.

use std::ffi::c_int;

use redis_module::raw;

use super::{closed, entry, keyspace, with_node};
use crate::ffi::{Answered, Arg, Ctx, Flag};
use crate::node::Taking;
use crate::parts::error::{Error, Outcome};

/// `CLARET.WRITE CLUSTER SETSLOT slot MIGRATING node | NODE node ...`, of a client that may run it.
pub(super) fn set_slot(ctx: Ctx, words: &[Arg<'_>]) -> Outcome {
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.bytes()).collect();
    let (slot, key) = match with_node(|node| node.takes_slot(&bytes)) {
        Some(Taking::Waits { slot, key }) => (slot, key),
        Some(Taking::NotReady) => return Err(Error::NotReady),
        Some(Taking::Runs) | None => return run(ctx, words),
    };
    if [Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag)) {
        return Err(key.map_or(Error::SlotUnconfirmed, Error::SlotInUse));
    }
    let client = ctx.block(Some(answer));
    client.on_disconnect(Some(gone));
    with_node(|node| node.slot_waits(ctx, slot, key, client));
    Ok(())
}

/// Runs the command and looks what came of it.
fn run(ctx: Ctx, words: &[Arg<'_>]) -> Outcome {
    if with_node(|node| node.would_wait(ctx)) != Some(false) {
        return Err(Error::WaitsForReplicas);
    }
    let is_done = ctx.run_for_client(words, None) == Answered::Value;
    keyspace().all_changed();
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.bytes()).collect();
    with_node(|node| node.slot_set(ctx, &bytes, is_done));
    Ok(())
}

/// Nobody uses a key of the slot any more, or the time is over.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: they are what the server just called with, and do not leave this call (context and string rules).
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let number = ctx.released_with();
    let words = arguments.get(1..).unwrap_or_default();
    let done = entry(ctx, "a slot that leaves", |ctx| {
        // The slot is closed until the command has run.
        let _closed = with_node(|node| node.slot_waited(ctx, number)).unwrap_or(Err(Error::NotReady))?;
        run(ctx, words)
    });
    if let Some(Err(error)) = done {
        ctx.reply_error(&error.line());
    }
    raw::REDISMODULE_OK as c_int
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: they are what the server just called with, and do not leave this call (context rule).
    unsafe { closed(ctx, client, "a slot that leaves", |node, ctx, client| node.slot_left(ctx, client)) }
}
