//! What a primary tells its replicas, and what a replica is told that comes too early (`docs/replication.md`).

use claret_planted::{Bug, is_planted};

use super::with_node;
use crate::ffi::{Arg, Ctx, Flag};
use crate::parts::error::{Error, Outcome};
use crate::parts::seals::Position;

/// `CLARET.CHANGES form node incarnation batch changes`
///
/// Whoever is no primary of this node, and no file of its own, could make it forget what it knows.
pub(super) fn changes(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    if !(ctx.is(Flag::Replicated) || ctx.is(Flag::Loading) || is_planted(Bug::ClientsTellChanges)) {
        return Err(Error::NotForClients);
    }
    const USAGE: Error = Error::Usage("CLARET.CHANGES form node incarnation batch changes");
    let [_, form, node, incarnation, batch, changes] = arguments else { return Err(USAGE) };
    let form = form.number().ok_or(USAGE)?;
    let (incarnation, batch) = (incarnation.number().ok_or(USAGE)?, batch.number().ok_or(USAGE)?);
    let position = Position::of(incarnation, batch).ok_or(USAGE)?;
    let taken = with_node(|it| it.take_changes(ctx, form, (node.bytes(), position), changes.bytes()));
    taken.unwrap_or(Err(Error::NotReady))?;
    ctx.reply_ok();
    Ok(())
}

/// `CLARET.UNPROVEN [word ...]`
pub(super) fn unproven(_: Ctx, _: &[Arg<'_>]) -> Outcome {
    Err(Error::Unproven)
}
