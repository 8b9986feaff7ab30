//! `CLARET.OUTCOME`: what is written here for an attempt, for somebody who only wants to know what became of it (P89).

use claret_core::Told;

use super::{keyspace, locks, pending_replies, with_node};
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
        Asked::Waits(number) => pending_replies::wait(ctx, number),
    }
    Ok(())
}

/// What `CLARET.OUTCOME` answers.
pub(super) fn reply(ctx: Ctx, told: Told) {
    ctx.reply_array(3);
    ctx.reply_int(i64::from(told.shard.0));
    // Larger than the server's integers.
    ctx.reply_bytes(told.since.0.to_string().as_bytes());
    ctx.reply_bytes(told.written.word().as_bytes());
}
