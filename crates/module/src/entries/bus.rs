//! Messages of other shards over the cluster bus (P23 to P25). A client cannot forge one, because the bus connects
//! nodes only.

use std::ffi::c_char;

use redis_module::raw;

use super::{moment, with_node};
use crate::ffi::Ctx;

pub(super) unsafe extern "C" fn received(
    ctx: *mut raw::RedisModuleCtx,
    sender: *const c_char,
    _: u8,
    payload: *const u8,
    length: u32,
) {
    // SAFETY: the server calls with its context, a payload of so many bytes, and an id of as many bytes as ids have, with no
    // zero behind it; all of them live until this returns.
    let (ctx, payload, sender) = unsafe {
        let sender = std::slice::from_raw_parts(sender.cast::<u8>(), raw::REDISMODULE_NODE_ID_LEN as usize);
        (Ctx::new(ctx), std::slice::from_raw_parts(payload, length as usize), sender)
    };
    moment(ctx, "the bus", |ctx| with_node(|node| node.received(ctx, sender, payload)));
}
