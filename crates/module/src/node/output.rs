//! Carries out the shard's outputs, and sets timers for what is due next.

use claret_core::message::{Output, PeerMessage, Request, Response, Status};
use claret_core::{SessionId, Shard, ShardId, wire};
use claret_planted::{Bug, is_planted};

use super::peers::Sent;
use super::{BARRED_MS, Node, settings};
use crate::ffi::Ctx;
use crate::parts::one_shots::Next;
use crate::parts::queue::OWN;
use crate::parts::sessions::{Delivery, OutboxBounds};

impl Node {
    /// Carries out what the shard wants, and sets the timer. Answers to `own` go where it says, those to others into
    /// their outboxes, and from there to whoever listens.
    pub(crate) fn carry_out(&mut self, ctx: Ctx, own: Option<(SessionId, &mut Vec<Response>)>) {
        if own.is_none() {
            self.plain.blocked.stir();
        }
        let now = self.now();
        self.refuse_late(now);
        if let Some(shard) = &mut self.shard {
            self.keyspace.tell(ctx, now, shard);
        }
        self.seek_safe_time(ctx);
        self.say(ctx, own);
        // Some have got what they waited for, and now wait for that to be settled.
        if !self.safe_time.is_sought() && (self.plain.queue.settles() || self.one_shots.settles()) {
            self.safe_time.seek_if(true);
            self.seek_safe_time(ctx);
            self.say(ctx, None);
        }
        self.tell_replicas(ctx);
        self.set_timer(ctx);
    }

    /// Says what the shard wants said.
    pub(super) fn say(&mut self, ctx: Ctx, mut own: Option<(SessionId, &mut Vec<Response>)>) {
        while let Some(output) = self.shard.as_mut().and_then(Shard::poll_output) {
            match output {
                Output::Respond { session, response } if session == self.one_shots.session() => {
                    self.hear(ctx, response);
                }
                Output::Respond { session, response } => {
                    self.counts.elders_told += u64::from(matches!(response, Response::Elder { .. }));
                    match &mut own {
                        Some((asking, reply)) if *asking == session => reply.push(response),
                        _ if session == OWN => self.hear_own(response),
                        _ => self.sessions.put(session, response, outbox_bounds()),
                    }
                }
                Output::Tell { shard, message } => self.tell_peer(ctx, shard, &message),
            }
        }
        while let Some((session, delivery)) = self.sessions.next_delivery() {
            match delivery {
                Delivery::Wake(poller) => poller.release(session.0),
                Delivery::Push(channel, responses) => {
                    self.counts.pushes += 1;
                    if ctx.publish(&channel, &wire::encode_responses(&responses)) == 0 {
                        self.counts.pushes_unheard += 1;
                        let is_lost = is_planted(Bug::UnheardPushLost);
                        let unheard = if is_lost { Vec::new() } else { responses };
                        self.sessions.put_back(session, unheard);
                    }
                }
            }
        }
    }

    fn tell_peer(&mut self, ctx: Ctx, shard: ShardId, message: &PeerMessage) {
        match self.send(ctx, shard, message) {
            Sent::Yes => self.counts.peer_messages_out += 1,
            Sent::No => self.counts.peer_messages_unsent += 1,
            Sent::ToNobody => self.answer_for_the_gone(shard, message),
        }
    }

    /// A shard whose memory is gone would say so, if there was one (P56).
    fn answer_for_the_gone(&mut self, from: ShardId, message: &PeerMessage) {
        let now = self.now();
        if let (Some(shard), PeerMessage::Inquire { attempt, .. }) = (&mut self.shard, message) {
            shard.handle_peer(now, PeerMessage::Answer { attempt: *attempt, from, status: Status::Lost });
        }
    }

    /// A response to one of the node's own attempts: a plain command that waits.
    fn hear_own(&mut self, response: Response) {
        self.with_queue(|queue, now, shard| {
            if let Some(shard) = shard {
                queue.hear(now, shard, response);
            }
        });
    }

    /// An answer to a transaction of one go.
    fn hear(&mut self, ctx: Ctx, response: Response) {
        let safe_time = self.shard.as_ref().map(Shard::safe_time).unwrap_or_default();
        let next = self.one_shots.hear(response, safe_time, settings::PLAIN_WAIT_MS.get());
        self.safe_time.seek_if(self.one_shots.settles());
        self.release_one_shots();
        match next {
            None => {}
            Some(Next::Prepare(number)) => self.prepare_one(ctx, number),
            Some(Next::Withdraw(attempt)) => {
                let (now, link) = (self.now(), self.one_shots.link());
                if let Some(shard) = &mut self.shard {
                    shard.handle(now, link, Request::Withdraw { attempt });
                }
            }
        }
        if self.one_shots.is_low_water_due() {
            self.beat();
        }
    }

    /// The heartbeat of the module's own session.
    pub(super) fn beat(&mut self) {
        let (now, link) = (self.now(), self.one_shots.link());
        if let Some(shard) = &mut self.shard
            && let Some(request) = self.one_shots.heartbeat()
        {
            shard.handle(now, link, request);
        }
    }

    /// Sets the timer for what is due next.
    pub(super) fn set_timer(&mut self, ctx: Ctx) {
        self.check_again(ctx, settings::TOPOLOGY_MS.get());
        let Some(due) = self.shard.as_ref().and_then(Shard::poll_timeout) else { return };
        self.timers.set_deadline(ctx, due, || self.clock.now());
    }

    pub(crate) fn come_back(&mut self, ctx: Ctx, millis: u64) {
        self.timers.set_soon(ctx, millis);
    }

    /// The timer for the shard's next deadline.
    pub(crate) fn deadline_fired(&mut self, ctx: Ctx) {
        self.timers.deadline_fired();
        self.due_unless_barred(ctx);
    }

    /// The timer for what an event left to do.
    pub(crate) fn soon_fired(&mut self, ctx: Ctx) {
        self.timers.soon_fired();
        self.write_backup(ctx);
        self.due_unless_barred(ctx);
    }

    /// While nothing can be written: later, then.
    fn due_unless_barred(&mut self, ctx: Ctx) {
        if self.keyspace.is_barred(ctx) { self.come_back(ctx, BARRED_MS) } else { self.due(ctx) }
    }

    /// Lets clients go whose transactions of one go have ended.
    pub(super) fn release_one_shots(&mut self) {
        while let Some((client, number)) = self.one_shots.poll_released() {
            client.release(number);
        }
    }
}

fn outbox_bounds() -> OutboxBounds {
    OutboxBounds {
        count_max: settings::OUTBOX_MAX.get(),
        bytes_max: settings::OUTBOX_BYTES_MAX.get(),
        all_bytes_max: settings::OUTBOXES_BYTES_MAX.get(),
    }
}
