//! `CLARET.POLL`: later responses, for clients that cannot receive pushes.
//!
//! A second connection of the process waits here, one for each session. Nothing is lost when its time is over or it
//! closes: the outbox is emptied only when an answer is written.

use std::ffi::c_int;

use claret_core::{SessionId, wire};
use redis_module::raw;

use super::{closed, entry, keyspace, with_node};
use crate::ffi::{Arg, Ctx, Flag};
use crate::node::{Polled, settings};
use crate::parts::error::{Error, Outcome};

/// `CLARET.POLL session milliseconds`
pub(super) fn poll(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    const USAGE: Error = Error::Usage("CLARET.POLL session milliseconds");
    let [_, session, millis] = arguments else { return Err(USAGE) };
    let session = SessionId(session.number().ok_or(USAGE)?);
    let millis: u64 = millis.number().ok_or(USAGE)?;
    let millis = millis.min(settings::POLL_MS_MAX.get());
    let caller = keyspace().caller(ctx);
    let may_wait = millis > 0 && !caller.is(Flag::Multi) && !caller.is(Flag::DenyBlocking);
    let polled = with_node(|node| node.poll(ctx.client(), session, &caller, may_wait));
    match polled.unwrap_or(Err(Error::NotReady))? {
        Polled::There(waiting) => ctx.reply_bytes(&wire::encode_responses(&waiting)),
        Polled::Waits => {
            let poller = ctx.block(Some(answer));
            poller.on_disconnect(Some(gone));
            with_node(|node| node.poller_waits(ctx, session, poller, millis));
        }
    }
    Ok(())
}

/// There is something; or the session is over, or the time.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    let session = SessionId(ctx.released_with());
    let waiting = entry(ctx, "a poll", |_| with_node(|node| node.polled(session)));
    ctx.reply_bytes(&wire::encode_responses(&waiting.flatten().unwrap_or_default()));
    raw::REDISMODULE_OK as c_int
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: they are what the server just called with, and do not leave this call (context rule).
    unsafe { closed(ctx, client, "a poll", |node, _, client| node.poller_left(client)) }
}
