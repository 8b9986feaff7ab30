//! A key that another node gives away, in the durability `strict`: that one removes it when it hears that it is here, and hears that
//! when the replicas have it, too (S16 of `docs/replication.md`).

use super::{owed, with_node};
use crate::ffi::{Answered, Arg, Ctx, Flag};
use crate::node::settings::is_strict;
use crate::parts::error::{Error, Outcome};

/// `CLARET.TAKE RESTORE-ASKING key ttl payload [argument ...]`
///
/// It names no keys to the server, which would send its client elsewhere: the slot is not this node's yet. The server looks at them when
/// the command behind it runs.
pub(super) fn take(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let words = arguments.get(1..).unwrap_or_default();
    let [name, key, ..] = words else { return Err(Error::NoCommand) };
    if !name.is("RESTORE-ASKING") {
        return Err(Error::NotWaiting(name.to_bytes()));
    }
    if !is_strict() {
        ctx.run_for_client(words, None);
        return Ok(());
    }
    if [Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag)) {
        return Err(Error::WaitsForAnswer);
    }
    with_node(|node| node.may_take(ctx, key.bytes())).unwrap_or(Err(Error::NotReady))?;
    if ctx.run_for_client(words, Some(Answered::Value)) != Answered::Value {
        return Ok(());
    }
    let number = with_node(|node| node.record_taken(ctx)).ok_or(Error::NotReady)?;
    owed::wait(ctx, number);
    Ok(())
}
