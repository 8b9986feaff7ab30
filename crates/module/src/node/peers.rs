//! Other shards, over the cluster bus: recovery of attempts in doubt (P23 to P25). A message that the server accepted
//! can still be lost; the protocol then asks again.

use std::ffi::CString;

use claret_core::message::PeerMessage;
use claret_core::{ShardId, wire};

use super::Node;
use super::keyspace::Keyspace;
use crate::ffi::Ctx;
use crate::parts::planted::sessions as planted;
use crate::parts::slots::Bearer;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    No,
    /// Whoever would have to answer has no memory to answer from, and never will.
    ToNobody,
}

/// Sends.
pub(super) fn send(ctx: Ctx, keyspace: &Keyspace, shard: ShardId, message: &PeerMessage) -> Sent {
    let id = keyspace.view(|view| match view.bearer(shard) {
        Bearer::Primary(node) if !node.myself => CString::new(node.id.as_str()).map_err(|_| Sent::No),
        Bearer::Primary(_) | Bearer::Unheard => Err(Sent::No),
        Bearer::Gone => Err(Sent::ToNobody),
    });
    match id.unwrap_or(Err(Sent::No)) {
        Ok(id) if ctx.send_to_node(&id, &wire::encode_peer(message)) => Sent::Yes,
        Ok(_) => Sent::No,
        Err(sent) => sent,
    }
}

impl Node {
    /// Something came over the bus, from the node of this id. What is not of a primary that `CLUSTER NODES` lists, or does not
    /// say that it is of that one's shard, is dropped.
    pub(crate) fn received(&mut self, ctx: Ctx, sender: &[u8], payload: &[u8]) {
        let sender = self.keyspace.view(|view| view.shard_of(sender)).flatten();
        match wire::decode_peer(payload) {
            Ok(message @ (PeerMessage::AskClock { .. } | PeerMessage::Clock { .. }))
                if planted::is_senders(Some(message.from()) == sender) =>
            {
                self.counts.peer_messages_in += 1;
                self.hear_of_clocks(ctx, message);
            }
            // An answer may apply, and nothing may be written now: it is as lost on the way, and asked for again.
            _ if self.keyspace.is_barred(ctx) => self.counts.peer_messages_refused += 1,
            Ok(message) if planted::is_senders(Some(message.from()) == sender) => self.peer(ctx, message),
            Ok(_) | Err(_) => self.counts.peer_messages_refused += 1,
        }
    }
}
