//! The clocks: the shard's own, what it knows of the others', and so whether all that was ordered here is settled (P73, P79, P87).
//!
//! Shards believe each other only. One asks the others when a client wants to know whether it still has to stamp, and answers
//! are counted only from those who know the same owners of keys: a shard that gave keys to one that the asker does not know
//! may be further ahead than that one.
//!
//! Who lost its memory asks them, too: it may have been further ahead than its own time shows (P85).

use std::collections::{BTreeMap, BTreeSet};

use claret_types::{Bytes, OpError};

use crate::ids::{Incarnation, ShardId, Time, Timestamp};
use crate::message::{PeerMessage, Refusal, owners_digest};
use crate::planted::{Bug, is_planted};
use crate::shard::config::Config;
use crate::shard::key_hash;
use crate::shard::lock_table::LockTable;
use crate::shard::outputs::Outputs;
use crate::switches::Ordered;

/// How long a shard waits for answers before it asks the others again for their clocks, in microseconds: some hosts' words to each
/// other take that long.
const ASKED_US_MIN: u64 = 20_000;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::shard) struct SafeTime {
    /// No later vote has a timestamp that is not larger (P73).
    clock: Timestamp,
    /// Attempts here that have voted with a timestamp and are not carried out.
    stamped: usize,
    /// The clocks of the shards that own keys. This shard's own is not among them, though it may own keys.
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
    unanswered: BTreeSet<ShardId>,
    asks_at: Time,
    /// By then its own time is beyond all that was.
    until: Time,
}

/// What is settled.
impl SafeTime {
    /// No later vote has a timestamp that is not larger.
    pub(in crate::shard) fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Up to here no vote comes any more by the shard's own time, and a digest of the owners of keys.
    pub(in crate::shard) fn passed_and_owners(&self) -> (Timestamp, u64) {
        (self.passed, self.owners)
    }

    /// The smallest clock of the shards that own keys, as far as they said, and as time tells.
    pub(in crate::shard) fn of_all(&self) -> Timestamp {
        match self.owners {
            0 => self.passed, // Nobody knows who they are.
            _ => self.clock.min(self.least).max(self.passed),
        }
    }

    /// Whether nothing with a timestamp is present, and the clocks of all shards that own keys have passed what was.
    pub(in crate::shard) fn is_settled(&self, table: &LockTable) -> bool {
        self.stamped == 0 && table.clocks().used() <= self.of_all()
    }

    /// Whether an attempt is here that has voted with a timestamp.
    pub(in crate::shard) fn has_stamped(&self) -> bool {
        self.stamped > 0
    }

    /// An attempt has voted with a timestamp.
    pub(in crate::shard) fn note_vote(&mut self) {
        self.stamped += 1;
    }

    /// One that may have voted with a timestamp is over.
    pub(in crate::shard) fn note_end(&mut self, is_stamped: bool) {
        self.stamped -= usize::from(is_stamped);
    }

    /// Whether a prepare without a timestamp may vote: all that has one is settled (P87).
    #[inline]
    pub(in crate::shard) fn may_vote_unstamped(&self, config: &Config, table: &LockTable) -> bool {
        !config.can_order() || self.is_settled(table)
    }

    /// That an operation cannot be done. Where calls are ordered, that tells of a state that may not be settled (P78), and whoever
    /// comes now was not seen.
    pub(in crate::shard) fn fails(
        &self,
        config: &Config,
        table: &mut LockTable,
        key: Bytes,
        error: OpError,
    ) -> Refusal {
        if error == OpError::Changed {
            return Refusal::Changed { key };
        }
        let error = Box::new(error);
        if !config.can_order() || config.switches().ordering() == Ordered::Adaptive && self.is_settled(table)
        {
            return Refusal::Operation { key, error };
        }
        let behind = table.clocks().latest(key_hash(&key));
        // It tells of all of the record: whoever votes from now on has a larger timestamp than what it tells of (P78).
        if !is_planted(Bug::ErrorUnnoted) {
            table.clocks_mut().seal(key_hash(&key));
        }
        Refusal::OperationBehind { key, error, behind }
    }
}

/// The own clock.
impl SafeTime {
    /// Time passes, and what is long ago is settled.
    pub(in crate::shard) fn pass(&mut self, now: Time, config: &Config) {
        // Who votes now may have this very microsecond.
        let passed = Timestamp(now.0.saturating_sub(config.limits().passed_us).saturating_sub(1));
        self.passed = passed.max(self.passed);
        self.clock = self.clock.max(passed);
    }

    /// Raises the clock to the shard's own time and to what somebody waits for, and forgets what it has passed. What is to be said.
    pub(in crate::shard) fn raise_clock(
        &mut self,
        now: Time,
        config: &Config,
        table: &mut LockTable,
        want: Timestamp,
    ) -> Timestamp {
        self.pass(now, config);
        let most = self.far_ahead(now, config).max(table.clocks().used());
        let clock = self.clock.max(Timestamp(now.0)).max(want.min(most));
        let safe_time = self.of_all();
        let clock = clock.max(table.clocks_mut().forget(clock, safe_time));
        // No later vote is that small (P79).
        if !is_planted(Bug::ClockNotKept) {
            self.clock = clock;
        }
        clock
    }

    /// A vote has used a timestamp, which the records know. Forgets what the clock has passed.
    pub(in crate::shard) fn keep_up(&mut self, table: &mut LockTable) {
        let safe_time = self.of_all();
        self.clock = self.clock.max(table.clocks_mut().forget(self.clock, safe_time));
    }

    /// Up to here anything may have been used, and none of it is known to be settled.
    pub(in crate::shard) fn begin_at(&mut self, table: &mut LockTable, at: Timestamp) {
        self.clock = self.clock.max(at);
        table.clocks_mut().begin_at(self.clock);
    }

    /// Keys came from another shard, on which timestamps were used up to this one. Whether that is settled is not known.
    pub(in crate::shard) fn take_over(&mut self, table: &mut LockTable, used: Timestamp) {
        let stays = is_planted(Bug::TakerStaysLow);
        self.begin_at(table, if stays { Timestamp::default() } else { used });
    }

    /// The timestamp of a vote: not below what is suggested, and above the shard's clock and those of its records (P73). Nobody votes
    /// before the own time: so what is long ago is settled, whoever is silent (P79).
    pub(in crate::shard) fn vote_after(
        &self,
        now: Time,
        config: &Config,
        suggested: Timestamp,
        before: Timestamp,
    ) -> Timestamp {
        // How far ahead of now a suggestion may be (P88).
        let ahead = Timestamp(now.plus(config.limits().ahead_us_max).0);
        let suggested = suggested.min(ahead);
        let least = if is_planted(Bug::VotesInThePast) { suggested } else { suggested.max(Timestamp(now.0)) };
        let clock = if is_planted(Bug::VoteBelowClock) { Timestamp::default() } else { self.clock };
        let before = if is_planted(Bug::VoteBelowRecords) { Timestamp::default() } else { before };
        least.max(clock.next()).max(before.next())
    }

    /// So many times what clocks may be apart beyond a suggestion, or what another shard named if that is more (P88). Nothing is added to
    /// that, or two liars would take everybody ever further.
    pub(in crate::shard) fn ahead_by(&self, now: Time, config: &Config, skews: u64) -> Timestamp {
        let limits = config.limits();
        let far = limits.ahead_us_max.saturating_add(limits.skew_us_max.saturating_mul(skews));
        Timestamp(now.plus(far).0).max(self.vouched)
    }

    /// How far ahead of now another node may be with a suggestion that it took: its clock may go before this one's (P88).
    pub(in crate::shard) fn far_ahead(&self, now: Time, config: &Config) -> Timestamp {
        self.ahead_by(now, config, 1)
    }

    /// Whether a coordinator is believed what the final timestamp is: one further ahead is no node's that began anew just now, and no
    /// other shard said that it is there.
    pub(in crate::shard) fn is_likely(&self, now: Time, config: &Config, at: Timestamp) -> bool {
        at <= self.ahead_by(now, config, 2) || is_planted(Bug::AnyFinalBelieved)
    }
}

/// The others.
impl SafeTime {
    /// The host says which shards own keys.
    pub(in crate::shard) fn know_owners(
        &mut self,
        now: Time,
        config: &Config,
        owners: impl IntoIterator<Item = ShardId>,
    ) {
        let known = std::mem::take(&mut self.others);
        let mut owners: Vec<ShardId> = owners.into_iter().collect();
        owners.sort_unstable();
        owners.dedup();
        self.owners = owners_digest(owners.iter().copied());
        let others = owners.into_iter().filter(|owner| *owner != config.id());
        self.others = others.map(|owner| (owner, known.get(&owner).copied().unwrap_or_default())).collect();
        self.find_least();
        if let Some(doubt) = &mut self.doubt {
            // Who gave all its keys away says nothing any more; who has them may have been heard before it got them.
            doubt.unanswered = self.others.keys().copied().collect();
            doubt.asks_at = now;
        }
    }

    fn find_least(&mut self) {
        self.least = self.smallest();
    }

    fn smallest(&self) -> Timestamp {
        self.others.values().copied().min().unwrap_or(Timestamp::MAX)
    }

    /// Asks the others how far they are: is all settled that was used here? Where every call is ordered that does not matter. If
    /// `is_beyond`, somebody wants more than the shard's own time allows, and any of them may be that far.
    pub(in crate::shard) fn ask_clocks(
        &mut self,
        now: Time,
        config: &Config,
        used: Timestamp,
        is_beyond: bool,
        out: &mut Outputs,
    ) {
        let is_early = |(asked, _): (Time, Timestamp)| now < asked.plus(ASKED_US_MIN);
        // As long as it is in doubt, whatever others say to this incarnation is said to that.
        let is_asking = self.is_in_doubt() || self.asked.is_some_and(is_early);
        let matters = config.switches().ordering() == Ordered::Adaptive || is_beyond && config.can_order();
        if !matters || is_asking {
            return;
        }
        self.asked = Some((now, if is_beyond { Timestamp::MAX } else { used }));
        let (from, incarnation) = (config.id(), config.incarnation());
        for (shard, clock) in &self.others {
            if is_beyond || *clock < used {
                out.tell(*shard, PeerMessage::AskClock { from, incarnation, want: used });
            }
        }
    }

    /// Another shard is so far. One whose time was wrong is beyond what this one's own time allows, and remembers that with its
    /// votes: everybody follows it, or nothing that it ordered would be settled before the time of day has come there (P88).
    pub(in crate::shard) fn vouch(&mut self, now: Time, config: &Config, at: Timestamp) {
        // No node is so far ahead while clocks agree: with one that began anew, and gave keys to another that took more for used.
        if at > self.ahead_by(now, config, 4) {
            self.vouched = at;
        }
    }

    /// Another shard said its clock.
    pub(in crate::shard) fn hear_clock(
        &mut self,
        now: Time,
        config: &Config,
        from: ShardId,
        clock: Timestamp,
        owners: u64,
    ) {
        // Without owners it is no clock (P85).
        if owners != 0 {
            self.vouch(now, config, clock);
        }
        let counts = owners == self.owners || is_planted(Bug::OtherOwnersCount);
        if let Some(known) = self.others.get_mut(&from).filter(|_| counts) {
            *known = clock.max(*known);
            self.find_least();
            let least = self.least;
            self.asked = self.asked.filter(|(_, want)| least < *want);
        }
    }
}

/// After a loss of memory (P85).
impl SafeTime {
    /// Another life begins without what was used and who had voted. What others said stays.
    pub(in crate::shard) fn forget_own(&mut self) {
        (self.clock, self.stamped) = (Timestamp::default(), 0);
    }

    /// Whether nobody is let in yet: the shard may have been further ahead than it knows.
    pub(in crate::shard) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Begins behind all that an earlier incarnation may have published, voted or carried out. How far it may have been the others know.
    pub(in crate::shard) fn begin_anew(
        &mut self,
        now: Time,
        config: &Config,
        table: &mut LockTable,
        out: &mut Outputs,
    ) {
        if !config.can_order() {
            return;
        }
        let restarts_low = is_planted(Bug::RestartsAtOwnTime);
        let at = if restarts_low { Timestamp(now.0) } else { self.far_ahead(now, config) };
        self.begin_at(table, at);
        let unanswered: BTreeSet<ShardId> = self.others.keys().copied().collect();
        let skew_us_max = config.limits().skew_us_max;
        if !unanswered.is_empty() && skew_us_max > 0 {
            self.doubt = Some(Doubt { unanswered, asks_at: now, until: now.plus(skew_us_max) });
            self.see_to_doubt(now, config, table, out);
        }
    }

    /// When [`Self::see_to_doubt`] has something to do.
    pub(in crate::shard) fn poll_timeout(&self) -> Option<Time> {
        self.doubt.as_ref().map(|doubt| doubt.asks_at.min(doubt.until))
    }

    /// Asks those who have said nothing yet, again and again, or goes on without them.
    pub(in crate::shard) fn see_to_doubt(
        &mut self,
        now: Time,
        config: &Config,
        table: &mut LockTable,
        out: &mut Outputs,
    ) {
        let Some(doubt) = &mut self.doubt else { return };
        if doubt.until <= now || doubt.unanswered.is_empty() {
            self.doubt = None;
            return self.begin_at(table, self.far_ahead(now, config));
        }
        if doubt.asks_at > now {
            return;
        }
        doubt.asks_at = now.plus(config.limits().inquire_us.max(1));
        for shard in &doubt.unanswered {
            let (from, incarnation, want) = (config.id(), config.incarnation(), Timestamp::MAX);
            out.tell(*shard, PeerMessage::AskClock { from, incarnation, want });
        }
    }

    /// Another shard said how far the one in doubt may have been. What an earlier incarnation of that asked for was said before its end.
    pub(in crate::shard) fn hear_in_doubt(
        &mut self,
        config: &Config,
        table: &mut LockTable,
        from: ShardId,
        incarnation: Incarnation,
        clock: Timestamp,
    ) {
        let Some(doubt) = &mut self.doubt else { return };
        if incarnation == config.incarnation() && doubt.unanswered.remove(&from) {
            let is_over = doubt.unanswered.is_empty();
            self.begin_at(table, clock);
            if is_over {
                self.doubt = None;
            }
        }
    }

    /// # Panics
    /// When an invariant does not hold. `stamped`: how many attempts are here that have voted with a timestamp.
    pub(in crate::shard) fn check(&self, stamped: usize) {
        assert_eq!(self.stamped, stamped, "who has voted with a timestamp");
        let is_known = self.owners == 0 || self.least == self.smallest();
        assert!(is_known, "the smallest clock of the others");
    }
}
