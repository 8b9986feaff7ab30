//! What a shard knows of the others' clocks, and so whether all that was ordered here is settled (P79, P87).
//!
//! Shards believe each other only. One asks the others when a client wants to know whether it still has to stamp, and answers
//! are counted only from those who know the same owners of keys: a shard that gave keys to one that the asker does not know
//! may be further ahead than that one.
//!
//! Who lost its memory asks them, too: it may have been further ahead than its own time shows (P85).

use std::collections::{BTreeMap, BTreeSet};

use claret_types::Operation;

use super::{Incarnation, Link, PeerMessage, Response, Shard, ShardId, Time, key_hash};
use crate::ids::Timestamp;
use crate::message::{Output, owners_digest};
use crate::planted::{Bug, is_planted};
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
    /// The largest that another shard named, if that was further ahead than clocks that agree allow (P88).
    vouched: Timestamp,
    doubt: Option<Doubt>,
}

/// The shard lost its memory, and does not know yet how far it was (P85).
#[derive(Clone, Debug)]
struct Doubt {
    /// Shards that own keys and have not said what was used there.
    unheard: BTreeSet<ShardId>,
    asks_at: Time,
    /// By then its own time is beyond all that was.
    until: Time,
}

impl Horizon {
    fn find_least(&mut self) {
        self.least = self.others.values().copied().min().unwrap_or(Timestamp::MAX);
    }

    /// When [`Shard::see_to_doubt`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.doubt.as_ref().map(|doubt| doubt.asks_at.min(doubt.until))
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
        if let Some(doubt) = &mut self.horizon.doubt {
            // Who gave all its keys away says nothing any more; who has them may have been heard before it got them.
            doubt.unheard = self.horizon.others.keys().copied().collect();
            doubt.asks_at = self.latest;
        }
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
            Ordered::Hot => self.can_order() && (self.table.orders_any() || !self.is_settled()),
            Ordered::Always => self.can_order(),
        }
    }

    /// Whether nothing with a timestamp is present, and the clocks of all shards that own keys have passed what was.
    pub fn is_settled(&self) -> bool {
        self.stamped == 0 && self.table.clocks().used() <= self.horizon()
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
        self.is_settled() || self.table.clocks().latest(key_hash(key)) <= self.horizon()
    }

    /// The same for an operation: what conflicts with it is settled.
    pub fn is_settled_for(&self, key: &[u8], op: &Operation) -> bool {
        self.is_settled() || self.table.clock_before_op(key_hash(key), op) <= self.horizon()
    }

    /// Time passes, and what is long ago is settled. To be said now and then; inputs about timestamps say it, too.
    pub fn pass(&mut self, now: Time) {
        // Who votes now may have this very microsecond.
        let passed = Timestamp(now.0.saturating_sub(self.limits.passed_us).saturating_sub(1));
        self.horizon.passed = passed.max(self.horizon.passed);
        self.clock = self.clock.max(passed);
    }

    /// Somebody waits until all that was ordered here is settled: raises the own clock, and asks the others for theirs, if they were
    /// not asked just now. Whether there is something to wait for.
    pub fn seek_horizon(&mut self, now: Time) -> bool {
        if !self.can_order() || self.is_settled() {
            return false;
        }
        self.raise_clock(now, self.table.clocks().used());
        self.ask_clocks(now, false);
        !self.is_settled()
    }

    /// Raises the clock to the shard's own time and to what somebody waits for, and forgets what it has passed. What is to be said.
    fn raise_clock(&mut self, now: Time, want: Timestamp) -> Timestamp {
        self.pass(now);
        let most = self.far_ahead(now).max(self.table.clocks().used());
        let clock = self.clock.max(Timestamp(now.0)).max(want.min(most));
        let horizon = self.horizon();
        let clock = clock.max(self.table.clocks_mut().forget(clock, horizon));
        // No later vote is that small (P79).
        if !is_planted(Bug::ClockNotKept) {
            self.clock = clock;
        }
        clock
    }

    /// A client process wants the clock (P79).
    pub(super) fn tick(&mut self, now: Time, link: Link, want: Timestamp) {
        let clock = self.raise_clock(now, want);
        self.table.roll_heat(now);
        let orders = self.orders();
        if orders && self.stamped == 0 && !self.table.orders_any() || clock < want {
            self.ask_clocks(now, clock < want);
        }
        let Horizon { owners, passed, .. } = self.horizon;
        let response = Response::Ticked { clock, now, passed, orders, owners };
        self.outputs.push_back(Output::Respond { session: link.session, response });
    }

    /// Asks the others how far they are: is all settled that was here? Where every call is ordered that does not matter. If
    /// `is_beyond`, somebody wants more than the shard's own time allows, and any of them may be that far.
    pub(super) fn ask_clocks(&mut self, now: Time, is_beyond: bool) {
        let is_early = |(asked, _): (Time, Timestamp)| now < asked.plus(ASKED_US_MIN);
        // As long as it is in doubt, whatever others say to this incarnation is said to that.
        let is_asking = self.is_in_doubt() || self.horizon.asked.is_some_and(is_early);
        let matters = self.switches.ordering == Ordered::Hot || is_beyond && self.can_order();
        if !matters || is_asking {
            return;
        }
        let (from, want) = (self.id, self.table.clocks().used());
        self.horizon.asked = Some((now, if is_beyond { Timestamp::MAX } else { want }));
        for (shard, clock) in &self.horizon.others {
            if is_beyond || *clock < want {
                let message = PeerMessage::AskClock { from, incarnation: self.incarnation, want };
                self.outputs.push_back(Output::Tell { shard: *shard, message });
            }
        }
    }

    /// Another shard wants the clock.
    pub(super) fn tell_clock(
        &mut self,
        now: Time,
        asking: ShardId,
        incarnation: Incarnation,
        want: Timestamp,
    ) {
        if !self.can_order() {
            return;
        }
        let (clock, owners) = match want {
            // It lost its memory. What it had from here, or from where this one had it, is no further ahead. That is no clock.
            Timestamp::MAX => {
                let used = self.clock.max(self.table.clocks().used()).max(self.told_used());
                (self.far_ahead(now).max(used), 0)
            }
            want => {
                self.vouch(now, want);
                (self.raise_clock(now, want), self.horizon.owners)
            }
        };
        let message = PeerMessage::Clock { from: self.id, incarnation, clock, owners };
        self.outputs.push_back(Output::Tell { shard: asking, message });
    }

    /// Another shard is so far. One whose time was wrong is beyond what this one's own time allows, and remembers that with its
    /// votes: everybody follows it, or nothing that it ordered would be settled before the time of day has come there (P88).
    fn vouch(&mut self, now: Time, at: Timestamp) {
        if self.was_a_clock_wrong(now, at) {
            self.horizon.vouched = at;
        }
    }

    /// See [`vouch`](Self::vouch).
    pub(super) fn vouched(&self) -> Timestamp {
        self.horizon.vouched
    }

    /// Another shard said its clock.
    pub(super) fn hear_clock(
        &mut self,
        now: Time,
        from: ShardId,
        incarnation: Incarnation,
        clock: Timestamp,
        owners: u64,
    ) {
        // Without owners it is no clock (P85).
        if owners != 0 {
            self.vouch(now, clock);
        }
        let counts = owners == self.horizon.owners || is_planted(Bug::OtherOwnersCount);
        if let Some(known) = self.horizon.others.get_mut(&from).filter(|_| counts) {
            *known = clock.max(*known);
            self.horizon.find_least();
            let least = self.horizon.least;
            self.horizon.asked = self.horizon.asked.filter(|(_, want)| least < *want);
        }
        let Some(doubt) = &mut self.horizon.doubt else { return };
        // What an earlier incarnation asked for was said before the end of that one.
        if incarnation == self.incarnation && doubt.unheard.remove(&from) {
            let is_over = doubt.unheard.is_empty();
            self.begin_at(clock);
            if is_over {
                self.horizon.doubt = None;
            }
        }
    }

    // --- after a loss of memory (P85) ---

    /// Whether nobody is let in yet: the shard may have been further ahead than it knows.
    pub fn is_in_doubt(&self) -> bool {
        self.horizon.doubt.is_some()
    }

    /// The shard lost its memory: the others know how far it may have been.
    pub(super) fn doubt(&mut self, now: Time) {
        let unheard: BTreeSet<ShardId> = self.horizon.others.keys().copied().collect();
        if !unheard.is_empty() && self.limits.skew_us_max > 0 {
            let until = now.plus(self.limits.skew_us_max);
            self.horizon.doubt = Some(Doubt { unheard, asks_at: now, until });
            self.see_to_doubt(now);
        }
    }

    /// Asks those who have said nothing yet, again and again, or goes on without them.
    pub(super) fn see_to_doubt(&mut self, now: Time) {
        let Some(doubt) = &mut self.horizon.doubt else { return };
        if doubt.until <= now || doubt.unheard.is_empty() {
            self.horizon.doubt = None;
            return self.begin_at(self.far_ahead(now));
        }
        if doubt.asks_at > now {
            return;
        }
        doubt.asks_at = now.plus(self.limits.inquire_us.max(1));
        for shard in &doubt.unheard {
            let (from, incarnation, want) = (self.id, self.incarnation, Timestamp::MAX);
            let message = PeerMessage::AskClock { from, incarnation, want };
            self.outputs.push_back(Output::Tell { shard: *shard, message });
        }
    }
}
