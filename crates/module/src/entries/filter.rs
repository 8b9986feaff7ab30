//! The command filter: it sees every command of every client before the server does. For most commands it only finds
//! that none of their keys is held.

use redis_module::raw;

use super::{entry, with_node};
use crate::ffi::{Ctx, Filtered, caught};
use crate::node::settings::is_strict;

/// What the module runs for itself it does not look at. What it runs for a client may be a script: the commands of that it looks
/// at, and finds nobody at the node, since such a command is run between two visits there.
pub(super) unsafe extern "C" fn filter(filtered: *mut raw::RedisModuleCommandFilterCtx) {
    if !Ctx::filters_for_client() {
        return;
    }
    // SAFETY: it is what the server just called the filter with, and is used within this call alone.
    let filtered = unsafe { Filtered::new(filtered) };
    if is_strict() {
        see_node(&filtered);
    }
    // Nothing unwinds out of the module from here either; where nothing panics that costs nothing.
    let row = match caught(|| with_node(|node| node.fast_path(&filtered)).flatten()) {
        Ok(Some(row)) => Ok(row),
        Ok(None) => return,
        Err(said) => Err(said),
    };
    let Some(ctx) = with_node(|node| node.detached()) else { return };
    entry(ctx, "the filter", |ctx| match row {
        Ok(row) => {
            with_node(|node| node.look(ctx, &filtered, row));
        }
        Err(said) => panic!("{said}"),
    });
}

/// Among the clients are other nodes: replicas, which say how much they have, and who gives a key away.
fn see_node(filtered: &Filtered) {
    let Some(ctx) = with_node(|node| node.detached()) else { return };
    entry(ctx, "the filter", |ctx| with_node(|node| node.sees_node(ctx, filtered)));
}
