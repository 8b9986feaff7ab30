//! A key that another node gives away, in the durability `strict`: that one removes it when it hears that it is here, and hears that
//! when the replicas have it, too (S16 of `docs/replication.md`).

use super::{keyspace, pending_replies, with_node};
use crate::ffi::{Answered, Arg, Ctx, Flag, Text};
use crate::node::settings::is_strict;
use crate::parts::error::{Error, Outcome};

/// `CLARET.TAKE RESTORE-ASKING key ttl payload [argument ...]`; before `MIGRATE` it refuses.
///
/// It names no keys to the server, which would send its client elsewhere: the slot is not this node's yet. The server looks at them when
/// the command behind it runs.
pub(super) fn take(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let words = arguments.get(1..).unwrap_or_default();
    let Some(name) = words.first() else { return Err(Error::NoCommand) };
    let takes = is_strict() && name.is("RESTORE-ASKING");
    let (true, Some(key)) = (takes, words.get(1)) else {
        return Err(if name.is("MIGRATE") { Error::Takes } else { Error::NotWaiting(name.to_bytes()) });
    };
    if [Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag)) {
        return Err(Error::WaitsForAnswer);
    }
    let texts: Vec<Text> = words.iter().map(|word| Text::of(*word)).collect();
    // Who may not is refused by the server, and does not learn what is held.
    if keyspace().caller(ctx).may(&texts) {
        with_node(|node| node.may_take(ctx, key.bytes())).unwrap_or(Err(Error::NotReady))?;
    }
    if ctx.run_for_client(words, Some(Answered::Value)) != Answered::Value {
        return Ok(());
    }
    let number = with_node(|node| node.record_taken(ctx)).ok_or(Error::NotReady)?;
    pending_replies::wait(ctx, number);
    Ok(())
}
