//! Other nodes, over the cluster bus: recovery of attempts in doubt (P23 to P25), and who bears which shard (S13). A message that the
//! server accepted can still be lost; the protocol then asks again. With a secret everything is sealed (`parts/seals.rs`).

use std::ffi::CString;

use claret_core::message::PeerMessage;
use claret_core::{ShardId, wire};
use claret_planted::{Bug, is_planted};

use super::{BARRED_MS, Node, settings};
use crate::ffi::{Ctx, Flag, Log};
use crate::parts::mail::Mail;
use crate::parts::seals::{Envelope, Greeting, Refused};
use crate::parts::slots::Bearer;

/// A node greets all others each so many checks: what a greeting says, they may have missed.
const GREETS_ALL_EACH: u64 = 30;

/// And those whom it does not know yet, or of whom it wants to know something.
const GREETS_EACH: u64 = 10;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    No,
    /// Whoever would have to answer has no memory to answer from, and never will.
    ToNobody,
}

impl Node {
    /// Sends a message to a shard.
    pub(super) fn send(&mut self, ctx: Ctx, shard: ShardId, message: &PeerMessage) -> Sent {
        self.peers.note_said();
        if !self.peers.were_looked_at() {
            self.quicken_links(ctx);
        }
        let id = self.keyspace.view(|view| match view.bearer(shard) {
            Bearer::Primary(node) if !node.myself => Ok(node.id.clone()),
            Bearer::Primary(_) | Bearer::Unknown => Err(Sent::No),
            Bearer::Gone => Err(Sent::ToNobody),
        });
        match id.unwrap_or(Err(Sent::No)) {
            Ok(id) if self.peers.may_wait(message) => {
                if self.peers.put(id, message) {
                    self.send_mail_soon(ctx);
                }
                Sent::Yes
            }
            Ok(id) if self.send_envelope(ctx, &id, &Envelope::Peer(wire::encode_peer(message))) => Sent::Yes,
            Ok(_) => Sent::No,
            Err(sent) => sent,
        }
    }

    /// Links over which shards speak are made quick, as soon as one does, and again when the server made new ones.
    pub(super) fn quicken_links(&mut self, ctx: Ctx) {
        let ports = self.keyspace.view(|view| view.bus_ports()).unwrap_or_default();
        if !self.peers.quicken(&ports, self.counts.checks) {
            let text = "links to other nodes are slow: the files that the server has open cannot be listed in /proc/self/fd";
            ctx.log(Log::Warning, text);
        }
    }

    /// How many.
    pub(crate) fn quick_links(&self) -> usize {
        self.peers.quick()
    }

    /// In this turn of the server's loop, behind what clients sent.
    pub(super) fn send_mail_soon(&mut self, ctx: Ctx) {
        self.timers.set_mail(ctx);
    }

    /// The timer for what goes to other nodes together.
    pub(crate) fn mail_fired(&mut self, ctx: Ctx) {
        self.timers.mail_fired();
        // Who is let in writes.
        match self.plain.errands.is_any() && self.keyspace.is_barred(ctx) {
            true => self.come_back(ctx, BARRED_MS),
            false => self.write_letters(ctx),
        }
        self.send_letters(ctx);
        for (node, envelope) in self.peers.take_mail() {
            let is_sent = self.send_envelope(ctx, &node, &Envelope::Peers(envelope));
            self.counts.peer_envelopes_out += u64::from(is_sent);
            // What was in it comes again (K8, P23).
            self.counts.peer_messages_unsent += u64::from(!is_sent);
        }
    }

    /// Mail has left. What came to be due meanwhile leaves with the next, unless nothing can be written: then it is tried again later.
    pub(crate) fn mail_left(&mut self, ctx: Ctx) {
        self.timers.mail_left();
        let is_due = self.plain.errands.is_any() && self.plain.errands.is_due(self.now());
        // Of a turn that panicked mail is still there.
        if self.peers.has_mail() || is_due && !self.keyspace.is_barred(ctx) {
            self.send_mail_soon(ctx);
        }
    }

    /// Whether the server took it.
    pub(super) fn send_envelope(&mut self, ctx: Ctx, to: &str, envelope: &Envelope) -> bool {
        let Ok(id) = CString::new(to) else { return false };
        let own = self.own();
        let sealed = self.peers.seal(&own, to, envelope);
        sealed.is_some_and(|sealed| ctx.send_to_node(&id, &sealed))
    }

    /// Something came over the bus, from the node of this id. With a secret, what is not sealed with it is dropped.
    pub(crate) fn received(&mut self, ctx: Ctx, sender: &[u8], payload: &[u8]) {
        let (own, id) = (self.own(), String::from_utf8_lossy(sender).into_owned());
        let Some(seals) = &mut self.peers.seals else { return self.hear_peer(ctx, sender, payload) };
        let sender = id;
        let (envelope, is_news) = match seals.open(&own, &sender, payload) {
            Ok(opened) => opened,
            Err(refused) => return self.note_refused(ctx, &sender, refused),
        };
        if is_news {
            self.greet_node(ctx, &sender);
            // Those of its life before are over (E8).
            let now = self.now();
            self.sessions.end_helpers(now, &sender, None);
            self.come_back(ctx, 0);
        }
        match envelope {
            Envelope::Greeting(greeting) => {
                self.keyspace.learn(&sender, greeting.bears);
                self.heed_successor(ctx);
                if let Some((primary, envelope)) =
                    self.position_envelope(ctx, greeting.asks).filter(|(primary, _)| *primary == sender)
                {
                    self.send_envelope(ctx, &primary, &envelope);
                }
            }
            Envelope::Peer(message) => self.hear_peer(ctx, sender.as_bytes(), &message),
            Envelope::Peers(messages) => self.hear_peers(ctx, &sender, &messages),
            Envelope::Knows { position, asked } => self.hear_position(&sender, position, asked),
            Envelope::TakeOver => self.take_over(ctx, &sender),
            Envelope::Letter(letter) => self.open_letter(ctx, &sender, &letter),
        }
    }

    fn note_refused(&mut self, ctx: Ctx, sender: &str, refused: Refused) {
        self.counts.peer_messages_refused += 1;
        let is_foreign = matches!(refused, Refused::Form | Refused::Signature);
        if is_foreign && self.peers.note_forged() {
            let text = format!(
                "what node {sender} sends is not signed with the secret in claret.peer-secret-file: all nodes need the same one \
                 ({refused:?})"
            );
            ctx.log(Log::Warning, &text);
        }
    }

    /// A message of a shard. What is not of a primary that `CLUSTER NODES` lists, or does not say that it is of that one's shard, is
    /// dropped.
    fn hear_peer(&mut self, ctx: Ctx, sender: &[u8], payload: &[u8]) {
        let sender = self.keyspace.view(|view| view.shard_of(sender)).flatten();
        match wire::decode_peer(payload) {
            Ok(message @ (PeerMessage::AskClock { .. } | PeerMessage::Clock { .. }))
                if Some(message.from()) == sender || is_planted(Bug::SenderUnchecked) =>
            {
                self.counts.peer_messages_in += 1;
                self.hear_of_clocks(ctx, message);
            }
            // An answer may apply, and nothing may be written now: it is as lost on the way, and asked for again.
            _ if self.keyspace.is_barred(ctx) => self.counts.peer_messages_refused += 1,
            Ok(message) if Some(message.from()) == sender || is_planted(Bug::SenderUnchecked) => {
                self.peer(ctx, message)
            }
            Ok(_) | Err(_) => self.counts.peer_messages_refused += 1,
        }
    }

    /// Messages of one node's shard that came together: answers, and what ways to commit say.
    fn hear_peers(&mut self, ctx: Ctx, sender: &str, payload: &[u8]) {
        let sender = self.keyspace.view(|view| view.shard_of(sender.as_bytes())).flatten();
        let are_senders = |messages: &[PeerMessage]| {
            messages.iter().all(|message| {
                Mail::may_wait(message)
                    && (Some(message.from()) == sender || is_planted(Bug::SenderUnchecked))
            })
        };
        match wire::decode_peers(payload) {
            Ok(messages) if are_senders(&messages) && !self.keyspace.is_barred(ctx) => {
                self.peers(ctx, messages)
            }
            Ok(_) | Err(_) => self.counts.peer_messages_refused += 1,
        }
    }

    // --- greetings ---

    /// Greets other nodes when it is time, or all of them `now`.
    pub(super) fn greet_nodes(&mut self, ctx: Ctx, now: bool) {
        let is_time = |each: u64| self.counts.checks.is_multiple_of(each);
        if !self.peers.have_secret() || !now && !is_time(GREETS_EACH) {
            return;
        }
        let asks = settings::is_strict() && self.shard.is_none() && !ctx.is(Flag::Replica);
        let greets_all = now || asks || is_time(GREETS_ALL_EACH);
        let others = self.keyspace.view(|view| view.members().others.clone()).unwrap_or_default();
        if let Some(seals) = &mut self.peers.seals {
            seals.keep(|id| others.iter().any(|other| other == id));
        }
        for other in &others {
            let is_known = self.peers.seals.as_ref().is_some_and(|seals| seals.greeting_of(other).is_some());
            if greets_all || !is_known {
                self.greet_node(ctx, other);
            }
        }
    }

    fn greet_node(&mut self, ctx: Ctx, node: &str) {
        let bears = self.shard.as_ref().map(|shard| (shard.id(), shard.incarnation()));
        let (is_strict, takes_errands) = (settings::is_strict(), self.takes_errands());
        let greeting = Greeting { is_strict, bears, takes_errands, asks: self.strict.following.asks };
        self.send_envelope(ctx, node, &Envelope::Greeting(greeting));
    }
}
