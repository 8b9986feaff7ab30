//! Where the server calls in: commands, the filter, timers, events and the bus. Each gets the node and calls it.
//!
//! No panic unwinds out of an entry: [`guarded`](crate::ffi::guarded) catches it, and the node begins another
//! incarnation of its shard. If the server calls in while the node is at work further up the stack, the entry finds
//! the node busy ([`with_node`] returns `None`) and does without it; see the text of [`node`](crate::node).

mod bus;
mod commands;
mod config;
mod events;
mod exec;
mod files;
mod filter;
mod frame;
mod info;
mod key_import;
mod load;
mod locks;
mod outcome;
mod pending_replies;
mod plain;
mod poll;
mod pops;
mod replicas;
mod requirements;
mod set_slot;
mod timers;
mod top;
mod ways;

use claret_planted::{Bug, is_planted};
use redis_module::raw;

use crate::ffi::{Arg, Blocked, Ctx, OnMainThread, guarded};
use crate::node::Node;
use crate::node::keyspace::Keyspace;
use crate::parts::error::{Error, Outcome};

/// The node of this process.
static NODE: OnMainThread<Node> = OnMainThread::new();

/// The server's keys. They stand beside the node, since they are asked from within.
static KEYSPACE: Keyspace = Keyspace::new();

/// The node is there from now on.
fn begin(node: impl FnOnce(&'static Keyspace) -> Node) {
    NODE.set(Some(node(&KEYSPACE)));
}

/// Gives the node to an entry, and to one at a time. `None` while nothing is loaded, or the node is at work.
#[inline]
fn with_node<R>(run: impl FnOnce(&mut Node) -> R) -> Option<R> {
    NODE.with(run)
}

/// The keyspace, also while the node is at work.
fn keyspace() -> &'static Keyspace {
    &KEYSPACE
}

/// Runs an entry of this name: nothing unwinds out of it, and after a panic nothing in the node's memory is trusted.
fn entry<R>(ctx: Ctx, name: &str, run: impl FnOnce(Ctx) -> R) -> Option<R> {
    let restart = |ctx| {
        with_node(|node| node.restart_after_panic(ctx));
    };
    guarded(ctx, name, restart, run)
}

/// The same outside of a command: no key ends meanwhile, and so what is decided within is carried out as it was decided.
fn moment<R>(ctx: Ctx, name: &str, run: impl FnOnce(Ctx) -> R) -> Option<R> {
    if is_planted(Bug::TimeGoesOn) {
        return entry(ctx, name, run);
    }
    ctx.at_one_moment(|ctx| entry(ctx, name, run)).flatten()
}

/// `CLARET.DUE`
fn due(ctx: Ctx, _: &[Arg<'_>]) -> Outcome {
    if !ctx.run_waiting() {
        return Err(Error::NotForClients);
    }
    ctx.reply_ok();
    Ok(())
}

/// The connection of a client closed that waits. `left` says whether it still did: it may have been let go already.
///
/// # Safety
/// They are what the server just called with, and do not leave this call (context rule).
unsafe fn closed(
    ctx: *mut raw::RedisModuleCtx,
    client: *mut raw::RedisModuleBlockedClient,
    name: &str,
    left: impl FnOnce(&mut Node, Ctx, Blocked) -> bool,
) {
    // SAFETY: the caller's.
    let ctx = unsafe { Ctx::new(ctx) };
    let client = Blocked::from_raw(client);
    let waited = moment(ctx, name, |ctx| with_node(|node| left(node, ctx, client)));
    if waited.flatten() == Some(true) {
        client.release(0);
    }
}
