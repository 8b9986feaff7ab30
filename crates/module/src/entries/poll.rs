//! `CLARET.POLL`: what arises later, for clients that cannot be pushed to.
//!
//! A second connection of the process waits here, one for each session. It takes nothing with it when its time is over
//! or its connection closes: the outbox is emptied only when an answer is written.

use std::ffi::c_int;

use claret_core::{SessionId, wire};
use redis_module::raw;

use crate::entries::config;
use crate::ffi::{Arg, Blocked, Ctx, Flag, guarded};
use crate::node::admission::Caller;
use crate::node::{HOST, mend};
use crate::parts::error::{Error, Outcome};

/// `CLARET.POLL session milliseconds`
pub(crate) fn poll(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    const USAGE: Error = Error::Usage("CLARET.POLL session milliseconds");
    let [_, session, millis] = arguments else { return Err(USAGE) };
    let session = SessionId(session.number().ok_or(USAGE)?);
    let millis: u64 = millis.number().ok_or(USAGE)?;
    let millis = millis.min(config::POLL_MS_MAX.get());
    let caller = Caller::of(ctx);
    let waits = HOST.with(|host| {
        host.sessions.may_poll(ctx.client(), session, caller.name())?;
        host.counts.polls += 1;
        let waiting = host.sessions.take(session);
        if !waiting.is_empty() || millis == 0 || caller.is(Flag::Multi) || caller.is(Flag::DenyBlocking) {
            ctx.reply_bytes(&wire::encode_responses(&waiting));
            return Ok(());
        }
        let poller = ctx.block(Some(answer));
        poller.on_disconnect(Some(gone));
        let until = host.now().plus(millis * 1_000);
        if let Some(before) = host.sessions.wait(session, poller, until) {
            before.release(session.0);
        }
        host.look_after(ctx);
        Ok(())
    });
    waits.unwrap_or(Err(Error::NotReady))
}

/// There is something; or the session is over, or the time.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let session = SessionId(ctx.released_with());
    let waiting = guarded(ctx, "a poll", mend, |_| HOST.with(|host| host.sessions.take(session)));
    ctx.reply_bytes(&wire::encode_responses(&waiting.flatten().unwrap_or_default()));
    raw::REDISMODULE_OK as c_int
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, poller: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let poller = Blocked::from_raw(poller);
    let waited = guarded(ctx, "a poll", mend, |_| HOST.with(|host| host.sessions.stop_waiting(poller)));
    // It may have been let go already.
    if waited.flatten() == Some(true) {
        poller.release(0);
    }
}
