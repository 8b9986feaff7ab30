//! What the shard remembers, in RDB files (S15 of `docs/replication.md`), and when the server begins to rewrite its append-only file.

use std::ffi::{c_int, c_void};

use redis_module::raw;

use super::{entry, with_node};
use crate::ffi::{Ctx, Loaded, Rejected, Saved};
use crate::node::{Node, settings};

/// What the part is called in files.
const NAME: &std::ffi::CStr = c"claretmem";

/// A node of the durability `async` writes nothing: a server without the module loads its files.
pub(super) fn register(ctx: Ctx) -> Result<(), Rejected> {
    ctx.keep_in_files(NAME, settings::is_strict().then_some(save), load)
}

/// Mostly in a process of its own, that the server has just forked.
unsafe extern "C" fn save(file: *mut raw::RedisModuleIO, _: c_int) {
    // SAFETY: it is what the server just called with, and does not leave this call.
    let file = unsafe { Saved::new(file) };
    entry(file.ctx(), "saving", |_| {
        // While the node is at work nothing is saved; whoever loads such a file asks the others.
        if with_node(|node| node.save(&file)).is_none() {
            Node::save_nothing(&file);
        }
    });
}

unsafe extern "C" fn load(file: *mut raw::RedisModuleIO, _: c_int, _: c_int) -> c_int {
    // SAFETY: it is what the server just called with, and does not leave this call.
    let file = unsafe { Loaded::new(file) };
    let loaded =
        entry(file.ctx(), "loading", |ctx| with_node(|node| node.load(ctx, &file)).flatten()).flatten();
    let status = if loaded.is_some() { raw::REDISMODULE_OK } else { raw::REDISMODULE_ERR };
    status as c_int
}

/// The server has forked a process, which may write a file.
pub(super) unsafe extern "C" fn forked(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    what: u64,
    _: *mut c_void,
) {
    if what != raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN {
        return;
    }
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    entry(ctx, "a fork", |ctx| with_node(|node| node.forked(ctx)));
}
