//! Ordered calls at this node: who owns keys, whether what was ordered is settled, and who waits for that (P79, P83, P86).
//!
//! A plain command and a transaction of one go see what is here. So each waits until all that was ordered on its keys is settled:
//! nobody may come later, anywhere, and be ordered before what they saw. A node asks the others for their clocks only when
//! somebody waits.

use claret_core::message::PeerMessage;
use claret_core::{Ordered, ShardId, Switches};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::ffi::{Ctx, Log};
use crate::node::{Node, settings, ways};

/// How long until the node looks again whether it is settled, in milliseconds.
const AGAIN_MS: u64 = 1;

/// So many times what clocks may be apart may a shard's clock be ahead whose time is right: it may have taken keys over, or have lost
/// its memory.
const CLOCK_SKEWS: u64 = 3;

/// [`Limits::asks_for_timestamps`](claret_core::Limits) as the setting has it.
pub(crate) fn asks_for_timestamps() -> Option<bool> {
    match settings::ORDERING.get() {
        0 => Some(false),
        1 => None,
        _ => Some(true),
    }
}

/// A node alone carries everything out at once, and has nothing to order. In a cluster every node can take timestamps, whatever it
/// orders itself: the others may order.
pub(in crate::node) fn switches(is_clustered: bool, has_secret: bool) -> Switches {
    let ordering = if is_clustered { Ordered::Adaptive } else { Ordered::Never };
    Switches::claret(ordering, false, ways::switches(is_clustered, has_secret))
}

impl Node {
    /// The shards that own keys.
    pub(in crate::node) fn owners(&self) -> Vec<ShardId> {
        self.keyspace.view(|view| view.owners().collect()).unwrap_or_default()
    }

    /// The shard hears who owns keys.
    pub(in crate::node) fn tell_owners(&mut self) {
        let owners = self.owners();
        if let Some(shard) = &mut self.shard {
            shard.know_owners(owners);
        }
    }

    /// All keys are about to vanish, and are still there (P86).
    pub(crate) fn about_to_vanish(&mut self) {
        if let Some(shard) = &mut self.shard {
            let held: Vec<Bytes> = shard.held_keys().cloned().collect();
            shard.vanishing(&(if is_planted(Bug::FlushedUnseen) { Vec::new() } else { held }));
        }
    }

    /// Whoever waits for what was ordered here to be settled goes on, if it is; else the others are asked, soon again. Before what
    /// the shard wants said is carried out.
    pub(in crate::node) fn seek_safe_time(&mut self, ctx: Ctx) {
        if !self.safe_time.is_sought() {
            return;
        }
        let now = self.now();
        let Some(shard) = &mut self.shard else { return };
        let is_sought = shard.seek_safe_time(now);
        let safe_time = shard.safe_time();
        self.with_queue(|queue, now, shard| shard.map(|shard| queue.settle(now, shard)));
        self.one_shots.settle(safe_time, settings::PLAIN_WAIT_MS.get());
        self.release_one_shots();
        self.safe_time.set_sought(is_sought || self.plain.queue.settles() || self.one_shots.settles());
        if self.safe_time.is_sought() {
            self.come_back(ctx, AGAIN_MS);
        }
    }

    /// Another shard asks for the clock, or says its own. Nothing is decided or written, so it is taken also while nothing may be.
    pub(in crate::node) fn hear_of_clocks(&mut self, ctx: Ctx, message: PeerMessage) {
        let now = self.now();
        if let PeerMessage::Clock { from, clock, .. } = &message
            && clock.0
                > now
                    .0
                    .saturating_add(self.lives.limits.ahead_us_max)
                    .saturating_add(CLOCK_SKEWS * self.lives.limits.skew_us_max)
            && self.safe_time.note_behind_others()
        {
            let text = format!(
                "the clock of shard {from} is more than claret.clock-skew-ms ahead of this node's, now or before: calls on hot records are \
                 slow until the time of day has come there"
            );
            ctx.log(Log::Warning, &text);
        }
        let Some(shard) = &mut self.shard else { return };
        shard.handle_peer(now, message);
        self.seek_safe_time(ctx);
        self.say(ctx, None);
        // A clock may wait for the replicas (S17).
        self.tell_replicas(ctx);
    }
}
