//! What a shard knows of the others' clocks, and so whether all that was ordered here is settled (P79, P87).
//!
//! Shards believe each other only. One asks the others when a client wants to know whether it still has to stamp, and answers
//! are counted only from those who know the same owners of keys: a shard that gave keys to one that the asker does not know
//! may be further ahead than that one.

use std::collections::BTreeMap;

use claret_types::Operation;

use super::{Link, PeerMessage, Response, Shard, ShardId, Time, key_hash, rules};
use crate::ids::Timestamp;
use crate::message::{Output, owners_digest};
use crate::switches::{Delivery, Ordered};

/// How long a shard waits for answers before it asks the others again for their clocks, in microseconds: some hosts' words to each
/// other take that long.
const ASKED_US_MIN: u64 = 20_000;

/// The clocks of the shards that own keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Horizon {
    /// This shard's own is not among them, though it may own keys.
    others: BTreeMap<ShardId, Timestamp>,
    /// The smallest of theirs.
    least: Timestamp,
    owners: u64,
    /// When the others were asked, and for what, as long as one of them has not said that much.
    asked: Option<(Time, Timestamp)>,
    /// Up to here no vote comes any more, whoever owns keys: it is long ago by the shard's own time (P79).
    passed: Timestamp,
}

impl Horizon {
    fn find_least(&mut self) {
        self.least = self.others.values().copied().min().unwrap_or(Timestamp::MAX);
    }
}

impl Shard {
    /// The host says which shards own keys. Whoever is new among them has a clock above that of whoever gave it keys, or hears of
    /// that before it serves any ([`Self::take_over`]).
    pub fn know_owners(&mut self, owners: impl IntoIterator<Item = ShardId>) {
        let known = std::mem::take(&mut self.horizon.others);
        let mut owners: Vec<ShardId> = owners.into_iter().collect();
        owners.sort_unstable();
        owners.dedup();
        self.horizon.owners = owners_digest(owners.iter().copied());
        let others = owners.into_iter().filter(|owner| *owner != self.id);
        self.horizon.others =
            others.map(|owner| (owner, known.get(&owner).copied().unwrap_or_default())).collect();
        self.horizon.find_least();
    }

    /// Whether calls can be ordered here at all.
    #[inline]
    pub(super) fn can_order(&self) -> bool {
        self.switches.ordering != Ordered::Never && self.switches.delivery == Delivery::Network
    }

    /// Whether clients have to stamp: calls on some records are ordered, or what has a timestamp is not settled.
    pub(super) fn orders(&self) -> bool {
        match self.switches.ordering {
            Ordered::Never => false,
            Ordered::Hot => self.can_order() && (self.table.heat.has_any() || !self.is_settled()),
            Ordered::Always => self.can_order(),
        }
    }

    /// Whether nothing with a timestamp is present, and the clocks of all shards that own keys have passed what was.
    pub fn is_settled(&self) -> bool {
        self.stamped == 0 && self.table.clocks.used <= self.horizon()
    }

    /// The smallest clock of the shards that own keys, as far as they said, and as time tells.
    pub fn horizon(&self) -> Timestamp {
        let Horizon { least, owners, passed, .. } = self.horizon;
        match owners {
            0 => passed, // Nobody knows who they are.
            _ => self.clock.min(least).max(passed),
        }
    }

    /// Whether something that begins and ends at once, and may use all of a record, comes behind all that was ordered there as far
    /// as others in time are concerned (P83): all of it is settled.
    #[inline]
    pub fn is_settled_on(&self, key: &[u8]) -> bool {
        self.is_settled() || self.table.latest_clock(key_hash(key)) <= self.horizon()
    }

    /// The same for an operation: what conflicts with it is settled.
    pub fn is_settled_for(&self, key: &[u8], op: &Operation) -> bool {
        self.is_settled() || self.table.clock_before_op(key_hash(key), op) <= self.horizon()
    }

    /// Time passes.
    pub(super) fn pass(&mut self, now: Time) {
        let passed = Timestamp(now.0.saturating_sub(self.limits.passed_us));
        self.horizon.passed = passed.max(self.horizon.passed);
    }

    /// Somebody waits until all that was ordered here is settled: raises the own clock, and asks the others for theirs, if they were
    /// not asked just now. Whether there is something to wait for.
    pub fn seek_horizon(&mut self, now: Time) -> bool {
        if !self.can_order() || self.is_settled() {
            return false;
        }
        self.raise_clock(now, self.table.clocks.used);
        self.ask_clocks(now);
        !self.is_settled()
    }

    /// Raises the clock to the shard's own time and to what somebody waits for, and forgets what it has passed. What is to be said.
    fn raise_clock(&mut self, now: Time, want: Timestamp) -> Timestamp {
        self.pass(now);
        let clock = self.clock.max(Timestamp(now.0)).max(want.min(self.far_ahead(now)));
        let horizon = self.horizon();
        let clock = clock.max(self.table.clocks.forget(clock, horizon));
        self.clock = rules::clock_after(self.clock, clock);
        clock
    }

    /// A client process wants the clock (P79).
    pub(super) fn tick(&mut self, now: Time, link: Link, want: Timestamp) {
        let clock = self.raise_clock(now, want);
        self.table.heat.roll(now, &self.limits);
        let orders = self.orders();
        if orders && self.stamped == 0 && !self.table.heat.has_any() {
            self.ask_clocks(now);
        }
        let Horizon { owners, passed, .. } = self.horizon;
        let response = Response::Ticked { clock, now, passed, orders, owners };
        self.outputs.push_back(Output::Respond { session: link.session, response });
    }

    /// Asks the others how far they are: is all settled that was here? Where every call is ordered that does not matter.
    pub(super) fn ask_clocks(&mut self, now: Time) {
        let is_early = |(asked, _): (Time, Timestamp)| now < asked.plus(ASKED_US_MIN);
        if self.switches.ordering != Ordered::Hot || self.horizon.asked.is_some_and(is_early) {
            return;
        }
        let (from, want) = (self.id, self.table.clocks.used);
        self.horizon.asked = Some((now, want));
        for (shard, clock) in &self.horizon.others {
            if *clock < want {
                let message = PeerMessage::AskClock { from, want };
                self.outputs.push_back(Output::Tell { shard: *shard, message });
            }
        }
    }

    /// Another shard wants the clock.
    pub(super) fn tell_clock(&mut self, now: Time, asking: ShardId, want: Timestamp) {
        if !self.can_order() {
            return;
        }
        let clock = self.raise_clock(now, want);
        let message = PeerMessage::Clock { from: self.id, clock, owners: self.horizon.owners };
        self.outputs.push_back(Output::Tell { shard: asking, message });
    }

    /// Another shard said its clock.
    pub(super) fn hear_clock(&mut self, from: ShardId, clock: Timestamp, owners: u64) {
        let is_same = owners == self.horizon.owners;
        if let Some(known) = self.horizon.others.get_mut(&from).filter(|_| is_same) {
            *known = clock.max(*known);
            self.horizon.find_least();
            let least = self.horizon.least;
            self.horizon.asked = self.horizon.asked.filter(|(_, want)| least < *want);
        }
    }
}
