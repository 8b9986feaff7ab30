//! What a client process knows of the shards' clocks: with which timestamps it stamps, and when callers may be told (P73, P78,
//! P79).
//!
//! A suggestion is what the shards' own clocks are going to say when the prepare is looked at there, as far as the process can
//! tell: its own time, how far the shard that is furthest ahead was ahead of it, and how long prepares took lately. One that is too
//! small is lifted at some shards and not at others, which costs a round trip; one that is too large makes its caller wait.

use smallvec::SmallVec;

use crate::ids::{ShardId, Time, Timestamp};
use crate::switches::{Ordered, Switches};

/// How long a prepare is taken to need at first, and at most, in microseconds.
const LEAD_US: u64 = 400;
const LEAD_US_MAX: u64 = 4_000;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Stamps {
    /// As far as each shard said. Few.
    clocks: SmallVec<[(ShardId, Timestamp); 4]>,
    /// How far the time of some shard is ahead of the process's own, in microseconds.
    ahead_us: u64,
    lead_us: u64,
    /// Calls are ordered somewhere.
    pub(super) are_needed: bool,
    /// The largest timestamp that somebody waits for.
    pub(super) want: Timestamp,
}

impl Stamps {
    pub(super) fn new(switches: Switches) -> Self {
        Stamps {
            clocks: SmallVec::new(),
            ahead_us: 0,
            lead_us: LEAD_US,
            are_needed: switches.ordering == Ordered::Always,
            want: Timestamp::default(),
        }
    }

    /// About when a prepare that leaves now is looked at.
    pub(super) fn suggest(&self, now: Time) -> Option<Timestamp> {
        self.are_needed.then(|| Timestamp(now.plus(self.ahead_us + self.lead_us).0))
    }

    /// A shard said what its clock is.
    pub(super) fn hear(&mut self, now: Time, shard: ShardId, clock: Timestamp, its_time: Time) {
        self.ahead_us = self.ahead_us.max(its_time.since(now));
        match self.clocks.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, known)) => *known = clock.max(*known),
            None => self.clocks.push((shard, clock)),
        }
    }

    /// A vote was so far above what was suggested: prepares need longer than was thought, or not as long.
    pub(super) fn learn(&mut self, lifted_us: u64) {
        self.lead_us = match lifted_us {
            0 => self.lead_us - self.lead_us / 1_024,
            some => (self.lead_us + some / 8 + 1).min(LEAD_US_MAX),
        };
    }

    /// The clock of a shard, as far as it said.
    pub(super) fn clock_of(&self, shard: ShardId) -> Timestamp {
        self.clocks.iter().find(|(known, _)| *known == shard).map(|(_, clock)| *clock).unwrap_or_default()
    }

    /// The smallest clock of these shards, which own all keys.
    pub(super) fn horizon(&self, owners: impl Iterator<Item = ShardId>) -> Timestamp {
        owners.map(|shard| self.clock_of(shard)).min().unwrap_or_default()
    }
}
