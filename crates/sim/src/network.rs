//! How long messages take, and which are lost, doubled or overtaken.

use std::collections::BTreeMap;

use claret_core::{SessionId, ShardId, Time};

use crate::config::NetworkConfig;
use crate::random::Random;

/// How many of a thousand messages are held for long, as long as any may be.
const HELD_PERMILLE: u64 = 10;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Endpoint {
    Session(SessionId),
    Shard(ShardId),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Session(session) => write!(f, "c{}", session.0),
            Endpoint::Shard(shard) => write!(f, "{shard}"),
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Network {
    config: NetworkConfig,
    random: Random,
    /// Losses, doubles and delays out of the ordinary happen only until then.
    faults_until: Time,
    /// The last arrival on each link, where order is kept.
    last: BTreeMap<(Endpoint, Endpoint), Time>,
    /// The last arrival over each connection.
    streams: BTreeMap<(Endpoint, Endpoint, u32), Time>,
    /// Pairs of ends that do not see each other until then.
    outages: BTreeMap<(Endpoint, Endpoint), Time>,
    /// Messages lost, doubled or slowed.
    pub(crate) faults: u64,
}

impl Network {
    pub(crate) fn new(config: NetworkConfig, random: Random, faults_until: Time) -> Self {
        Network {
            config,
            random,
            faults_until,
            last: BTreeMap::new(),
            streams: BTreeMap::new(),
            outages: BTreeMap::new(),
            faults: 0,
        }
    }

    /// Cuts two ends off from each other.
    pub(crate) fn cut(&mut self, a: Endpoint, b: Endpoint, until: Time) {
        self.outages.insert((a.min(b), a.max(b)), until);
        self.faults += 1;
    }

    /// When a message that leaves now arrives: never, once, or twice.
    pub(crate) fn arrivals(&mut self, now: Time, from: Endpoint, to: Endpoint) -> Vec<Time> {
        let cut = self.outages.get(&(from.min(to), from.max(to)));
        let faulty = now < self.faults_until;
        if cut.is_some_and(|until| now < *until) || faulty && self.random.chance(self.config.lost_permille) {
            self.faults += 1;
            return Vec::new();
        }
        let mut arrivals = vec![self.arrival(now, from, to, faulty)];
        if faulty && self.random.chance(self.config.doubled_permille) {
            self.faults += 1;
            arrivals.push(self.arrival(now, from, to, faulty));
        }
        arrivals
    }

    /// When what leaves now over a connection arrives: behind all before it. `None`: the ends do not see each other.
    pub(crate) fn stream(
        &mut self,
        now: Time,
        from: Endpoint,
        to: Endpoint,
        connection: u32,
    ) -> Option<Time> {
        if self.outages.get(&(from.min(to), from.max(to))).is_some_and(|until| now < *until) {
            self.faults += 1;
            return None;
        }
        let mut delay = self.random.between(self.config.delay_us_min, self.config.delay_us_max);
        if now < self.faults_until && self.random.chance(self.config.slow_permille) {
            self.faults += 1;
            delay += self.random.below(self.config.slow_us_max);
        }
        let arrival = now.plus(delay);
        let last = self.streams.entry((from, to, connection)).or_insert(arrival);
        *last = arrival.max(*last);
        Some(*last)
    }

    fn arrival(&mut self, now: Time, from: Endpoint, to: Endpoint, faulty: bool) -> Time {
        if faulty && self.config.held > 0 && self.random.chance(HELD_PERMILLE) {
            // In some old buffer: what leaves later is not held up by it.
            self.config.held -= 1;
            self.faults += 1;
            return now.plus(self.config.held_us);
        }
        let mut delay = self.random.between(self.config.delay_us_min, self.config.delay_us_max);
        if faulty && self.random.chance(self.config.slow_permille) {
            self.faults += 1;
            delay += self.random.below(self.config.slow_us_max);
        }
        let arrival = now.plus(delay);
        if !self.config.ordered {
            return arrival;
        }
        let last = self.last.entry((from, to)).or_insert(arrival);
        *last = arrival.max(*last);
        *last
    }
}
