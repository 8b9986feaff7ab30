//! Other shards, over the cluster bus: recovery of attempts in doubt (R14).
//!
//! A client cannot forge a message: the bus is between nodes. What comes is dropped unless it is of a primary that
//! `CLUSTER NODES` lists, and says that it is of that one's shard. A send that the server took can still be lost, and the
//! protocol asks again.

use std::ffi::{CString, c_char};

use claret_core::message::PeerMessage;
use claret_core::{ShardId, wire};
use redis_module::raw;

use crate::ffi::{Ctx, api, guarded};
use crate::node::{HOST, is_barred, mend};
use crate::parts::slots::{self, Bearer};

/// The kind of message on the bus that is Claret's.
const KIND: u8 = 67;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    No,
    /// Whoever would have to answer has no memory to answer from, and never will.
    ToNobody,
}

/// Sends.
pub(crate) fn tell(ctx: Ctx, shard: ShardId, message: &PeerMessage) -> Sent {
    let id = slots::view(|view| match view.bearer(shard) {
        Bearer::Node(node) if !node.myself => CString::new(node.id.as_str()).map_err(|_| Sent::No),
        Bearer::Node(_) | Bearer::Unheard => Err(Sent::No),
        Bearer::Gone => Err(Sent::ToNobody),
    });
    let id = match id.unwrap_or(Err(Sent::No)) {
        Ok(id) => id,
        Err(sent) => return sent,
    };
    let bytes = wire::encode_peer(message);
    // SAFETY: the id is a C string, the message so many bytes; both are copied.
    let status = unsafe {
        api!(RedisModule_SendClusterMessage)(
            ctx.raw(),
            id.as_ptr(),
            KIND,
            bytes.as_ptr().cast::<c_char>(),
            bytes.len() as u32,
        )
    };
    if Ctx::accepted(status).is_ok() { Sent::Yes } else { Sent::No }
}

/// Asks the server to hand over what arrives.
pub(crate) fn listen(ctx: Ctx) {
    // SAFETY: the function stays as long as the module.
    unsafe { api!(RedisModule_RegisterClusterMessageReceiver)(ctx.raw(), KIND, Some(received)) }
}

unsafe extern "C" fn received(
    ctx: *mut raw::RedisModuleCtx,
    sender: *const c_char,
    _: u8,
    payload: *const u8,
    length: u32,
) {
    // SAFETY: the server's context, a payload of so many bytes and an id of as many as ids have, with no zero behind it; for
    // the time of this call.
    let (ctx, payload, sender) = unsafe {
        let sender = std::slice::from_raw_parts(sender.cast::<u8>(), raw::REDISMODULE_NODE_ID_LEN as usize);
        (Ctx::new(ctx), std::slice::from_raw_parts(payload, length as usize), sender)
    };
    guarded(ctx, "the bus", mend, |ctx| {
        let sender = slots::view(|view| view.shard_of(sender)).flatten();
        HOST.with(|host| match wire::decode_peer(payload) {
            // An answer may apply, and nothing may be written now: it is as lost on the way, and asked for again.
            _ if is_barred(ctx) => host.counts.peer_messages_refused += 1,
            Ok(message) if Some(message.from()) == sender => host.peer(ctx, message),
            Ok(_) | Err(_) => host.counts.peer_messages_refused += 1,
        })
    });
}
