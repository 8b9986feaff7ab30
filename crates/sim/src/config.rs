//! The configuration of a run, drawn from its seed (swarm testing: each run switches a random set of features
//! and faults on, so that rare combinations come up). `settings.rs` names every part of it.

use claret_core::{Discipline, Limits, Ordered, Pacing, Survives, Switches};

use crate::random::{Random, Stream};
use crate::ways::{DrawnWays, Others};

/// Pauses of users one after the other, at most, that keep a run from its end: most are side by side.
const PAUSES_MAX: u64 = 60;

/// Everything about a run that is not decided step by step.
#[derive(Clone, Debug)]
pub struct Config {
    /// Shards.
    pub shards: u32,
    /// Client processes at the start.
    pub sessions: u32,
    /// Transactions that one session has open at once.
    pub workers: u32,
    /// Transactions of one worker, one after the other.
    pub transactions: u32,
    /// Keys.
    pub keys: u32,
    /// How many of the type families in `workload.rs` the keys are spread over.
    pub families: u32,
    /// How many of a thousand keys are of types that were added since seeds are drawn (`workload.rs`).
    pub added_permille: u64,
    /// How many of a thousand operations that wait for the commit become commands of the server, where one fits (`commands.rs`).
    pub commands_permille: u64,
    /// How many of a thousand programs first wait until a list has something (`sleeping.rs`).
    pub sleeping_permille: u64,
    /// How many of a thousand keys are records for the judge of observed results instead (`observed.rs`).
    pub probes_permille: u64,
    /// Reader/writer instead of abstract locks.
    pub reader_writer: bool,
    /// Waiters queue in phases.
    pub phasing: bool,
    /// Whether one-shot transactions leave in batches.
    pub batching: bool,
    /// Calls instead of a network.
    pub direct: bool,
    /// The records are in an external store, and may vanish; where shards are called they have their
    /// own.
    pub external: bool,
    /// The protocol's bounds, small enough that runs meet them.
    pub limits: Limits,
    /// How messages travel.
    pub network: NetworkConfig,
    /// What goes wrong.
    pub faults: FaultConfig,
    /// What transactions do.
    pub programs: ProgramConfig,
    /// How long everything may take once faults have stopped, in microseconds of virtual time.
    pub finish_us_max: u64,
    /// Whether calls are ordered, as `claret.ordering` says it: 0 never, 1 while that carries out more, 2 always.
    pub ordering: u32,
    /// Whether shards have replicas, one of which is promoted where a shard would restart. Not with direct delivery.
    pub replicated: bool,
    /// Which transactions commit in other ways than in two rounds.
    pub ways: DrawnWays,
    /// When frames leave: 0 as in a store, 1 at once, 2 so late that all is met.
    pub pacing: u32,
    /// Transactions whose programs are empty, by session * 2^32 + place: left out while shrinking.
    pub skip: Vec<u64>,
}

/// How messages travel.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The shortest way, in microseconds.
    pub delay_us_min: u64,
    /// The longest ordinary way, in microseconds.
    pub delay_us_max: u64,
    /// How many of a thousand messages are slow.
    pub slow_permille: u64,
    /// The longest that a slow one takes, in microseconds.
    pub slow_us_max: u64,
    /// How many of a thousand are lost.
    pub lost_permille: u64,
    /// How many of a thousand come twice.
    pub doubled_permille: u64,
    /// How many messages at most are held somewhere for `held_us`.
    pub held: u32,
    /// How long those are held, in microseconds.
    pub held_us: u64,
    /// Whether messages between two ends arrive in the order in which they left.
    pub ordered: bool,
    /// Whether what goes over a connection goes in frames, in order, and is lost only with the connection. Otherwise each
    /// message goes its own way.
    pub framed: bool,
}

/// What goes wrong, until `until_us`.
#[derive(Clone, Debug)]
pub struct FaultConfig {
    /// When faults stop, in microseconds of virtual time.
    pub until_us: u64,
    /// Safety mode: the run ends when faults would stop, and nothing is asked of what is not done by then.
    pub endless: bool,
    /// For each death: after how many messages sent by all sessions the one that sends the next dies.
    pub deaths: Vec<u64>,
    /// How many of a thousand attempts of a dead session somebody asks about.
    pub asks_permille: u64,
    /// How many pairs of ends lose sight of each other for a while.
    pub outages: u32,
    /// How many times a session connects anew to a shard.
    pub reconnects: u32,
    /// How many sessions or shards stand still for a while.
    pub pauses: u32,
    /// How many times a shard restarts.
    pub restarts: u32,
    /// What the restarts of this run leave: 0 votes, 1 records, 2 nothing.
    pub survives: u32,
    /// Clocks run at different rates.
    pub clocks: bool,
    /// The longest outage or pause, in microseconds.
    pub span_us_max: u64,
    /// How many times a shard refuses all that has not voted, as when rights change.
    pub refusals: u32,
    /// How many times records expire, where they are external.
    pub expiries: u32,
    /// How many times all records of a shard are flushed, where they are external.
    pub flushes: u32,
    /// How many times a slot moves to another shard, where records are external.
    pub moves: u32,
    /// A node gives all its slots away and leaves, where records are external.
    pub leaves: bool,
    /// How many of a thousand frames of several requests are refused as a whole.
    pub refused_frames_permille: u64,
}

/// What transactions do.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// Steps in one, at most.
    pub steps_max: u64,
    /// How many of a thousand are a single operation.
    pub single_permille: u64,
    /// How many of a thousand steps are executed at once; the others wait for the commit.
    pub interactive_permille: u64,
    /// How many of a thousand are aborted by their user.
    pub abort_permille: u64,
    /// How many of a thousand executions reserve what a later write needs.
    pub reserve_permille: u64,
    /// How many of a thousand steps use the type of another key: WRONGTYPE.
    pub mistaken_permille: u64,
    /// The longest pause between two steps, in microseconds.
    pub think_us_max: u64,
    /// The longest that a user does something else in the first run of a program, between any two steps or before the
    /// commit, in microseconds; now and then.
    pub pause_us_max: u64,
    /// How many of a thousand users go on with a run that is over, and know it or not.
    pub stale_permille: u64,
    /// How many of a thousand users leave a transaction, at any time.
    pub abandon_permille: u64,
    /// How many of a thousand transactions ask a shard for something that it cannot read, where there are frames, and
    /// no way gives transactions other places.
    pub unreadable_permille: u64,
    /// How many of a thousand operations are on records of any type: whether they are there, when they expire, their end.
    pub keyspace_permille: u64,
    /// How many of a thousand transactions look without locks.
    pub optimistic_permille: u64,
    /// How many of a thousand transactions set savepoints, and roll back to some.
    pub savepoints_permille: u64,
    /// How many of a thousand operations that answer something demand an answer, which may be another one.
    pub demands_permille: u64,
}

/// Clocks that run at different rates are not as far apart as that by the end of any run, in microseconds.
const SKEW_US_MAX: u64 = 3_600_000_000;

/// How many numbers the ways to commit draw, at first and last: a seed that does not go a way draws the same of everything else without it.
const WAYS_DRAW: (u32, u32) = (1, 2);

impl Config {
    /// The configuration that belongs to a seed.
    pub fn random(seed: u64) -> Config {
        let random = &mut Random::new(seed, Stream::Config);
        let direct = random.chance(150);
        let faulty = !direct && random.chance(700);
        let limits = random_limits(random);
        let ways = DrawnWays::draw(&random.apart(WAYS_DRAW.0));
        let mut config = Config {
            shards: random.between(1, 5) as u32,
            sessions: random.between(1, 5) as u32,
            workers: random.between(1, 4) as u32,
            transactions: random.between(2, 12) as u32,
            keys: random.between(1, 10) as u32,
            families: random.between(1, 5) as u32,
            added_permille: 0,
            commands_permille: 0,
            sleeping_permille: 0,
            probes_permille: *random.pick(&[0, 0, 300, 1000, 1000]),
            reader_writer: random.chance(250),
            phasing: random.chance(800),
            ways,
            batching: false,
            direct,
            external: false,
            network: random_network(random, faulty, direct),
            faults: random_faults(random, faulty, limits.lease_us),
            programs: random_programs(random),
            limits,
            finish_us_max: 20_000_000,
            pacing: 0,
            ordering: 0,
            replicated: false,
            skip: Vec::new(),
        };
        // After all others: what a seed draws besides stays as it was.
        config.limits.hot_waits_min = *random.pick(&[0, 1, 2, u32::MAX]);
        config.programs.pause_us_max = *random.pick(&[0, 0, 20_000, 1_000_000]);
        config.programs.stale_permille = *random.pick(&[0, 300, 1000]);
        config.faults.refusals = if faulty { *random.pick(&[0, 0, 2, 5]) } else { 0 };
        config.external = random.chance(500);
        config.faults.expiries = *random.pick(&[0, 3, 10, 40]);
        config.faults.flushes = *random.pick(&[0, 0, 1, 5]);
        config.limits.answers_bytes_max = *random.pick(&[0, 64, 1 << 20, 1 << 20]);
        config.limits.again_bytes_max = *random.pick(&[1, 64, 1 << 20, 1 << 20]);
        config.finish_us_max += PAUSES_MAX * config.programs.pause_us_max;
        config.network.framed = !direct && random.chance(600);
        config.faults.moves = *random.pick(&[0, 0, 3, 12]);
        config.faults.leaves = faulty && random.chance(400);
        config.faults.refused_frames_permille = if faulty { *random.pick(&[0, 0, 30, 200]) } else { 0 };
        config.programs.abandon_permille = *random.pick(&[0, 0, 50, 300]);
        config.programs.unreadable_permille =
            if config.ways.renumber() { 0 } else { *random.pick(&[0, 0, 20]) };
        config.pacing = *random.pick(&[0, 1, 2]);
        // A few seeds are given to what needs much to come together.
        let devoted = random.below(100);
        match devoted {
            0..5 => config.devote_to_leaving(),
            5 => config.devote_to_crowds(),
            _ => {}
        }
        config.programs.keyspace_permille = *random.pick(&[0, 0, 100, 400]);
        config.draw_ordering(random);
        if (6..14).contains(&devoted) {
            config.devote_to_timestamps();
        }
        config.draw_latest(random);
        config
    }

    /// Ordered calls.
    fn draw_ordering(&mut self, random: &mut Random) {
        self.ordering = *random.pick(&[0, 0, 0, 2, 1]);
        // Of those that ask as they find it, few carry out much within a run: so a quarter of them always do.
        self.limits.asks_for_timestamps = *random.pick(&[Some(true), None, None, None]);
        self.limits.order_trial_us = *random.pick(&[2_000, 20_000, 200_000]);
        self.limits.order_trial_calls_min = 0;
        self.limits.skew_us_max = *random.pick(&[0, 10_000_000]);
        if self.faults.clocks {
            self.limits.skew_us_max = SKEW_US_MAX;
        }
    }

    /// What came last: of what a seed draws before, nothing changes.
    fn draw_latest(&mut self, random: &mut Random) {
        // All clocks have to show the same, or it would be a lie.
        let passed_us = *random.pick(&[u64::MAX, 0, 2_000]);
        self.limits.passed_us = if self.faults.clocks { u64::MAX } else { passed_us };
        self.batching = random.chance(500);
        let keeps_votes = self.faults.restarts > 0 && self.survives() == Survives::Votes;
        self.replicated = random.chance(800) && keeps_votes && !self.direct;
        self.limits.told_ahead_us = *random.pick(&[0, 0, 300, 20_000, 1_000_000]);
        self.programs.optimistic_permille = *random.pick(&[0, 0, 0, 400, 1_000]);
        self.programs.savepoints_permille = *random.pick(&[0, 0, 0, 600]);
        self.draw_ways(random);
        self.programs.demands_permille = *random.pick(&[0, 0, 0, 0, 100, 500]);
        self.added_permille = *random.pick(&[0, 0, 0, 300, 1_000]);
        self.commands_permille = *random.pick(&[0, 0, 0, 400]);
        self.sleeping_permille = *random.pick(&[0, 0, 0, 300]);
    }

    /// What ways draw last, and have the rest be like.
    fn draw_ways(&mut self, random: &mut Random) {
        let Config { ways, programs, shards, keys, reader_writer, phasing, direct, ordering, .. } = self;
        let ProgramConfig { steps_max, single_permille, interactive_permille, .. } = programs;
        let others = Others {
            shards,
            keys,
            reader_writer,
            phasing,
            direct,
            ordering,
            steps_max,
            single_permille,
            interactive_permille,
        };
        ways.draw_latest(others, &random.apart(WAYS_DRAW.1));
    }

    /// A node leaves under load, often with the answer to a commit that is on its way.
    fn devote_to_leaving(&mut self) {
        (self.shards, self.keys) = (2, self.keys.min(4));
        (self.sessions, self.workers, self.transactions) = (self.sessions.clamp(2, 3), 2, 12);
        (self.direct, self.external, self.phasing, self.network.framed) = (false, true, true, true);
        (self.faults.moves, self.faults.leaves, self.faults.restarts) = (0, true, 0);
        (self.faults.until_us, self.faults.endless) = (50_000, false);
        self.programs.steps_max = self.programs.steps_max.min(2);
        (self.programs.interactive_permille, self.programs.think_us_max) = (1_000, 5_000);
    }

    /// Many who read and write the same few records, one after the other, under locks that only readers share.
    fn devote_to_crowds(&mut self) {
        (self.sessions, self.workers, self.transactions) = (4, 4, 10);
        (self.keys, self.families, self.probes_permille) = (5, 5, 1_000);
        (self.shards, self.direct, self.ways) = (5, false, DrawnWays::default());
        (self.phasing, self.reader_writer) = (true, true);
        (self.programs.steps_max, self.programs.interactive_permille) = (6, 1_000);
        (self.programs.think_us_max, self.programs.pause_us_max) = (100, 0);
        (self.network.delay_us_min, self.network.delay_us_max) = (200, 2_200);
    }

    /// Ordered calls between clocks that are far apart: many short transactions over a few records, now and then one that is very
    /// late somewhere. Placed early at one shard and late at another, it shows who was told too soon.
    fn devote_to_timestamps(&mut self) {
        (self.direct, self.reader_writer, self.phasing) = (false, false, true);
        self.ways = DrawnWays::default();
        (self.ordering, self.faults.clocks, self.limits.skew_us_max) = (2, true, SKEW_US_MAX);
        (self.shards, self.keys, self.families) = (self.shards.clamp(3, 4), self.keys.clamp(3, 4), 2);
        (self.sessions, self.workers, self.transactions) = (4, 2, 25);
        self.probes_permille = 1_000 - self.probes_permille / 2;
        (self.network.delay_us_min, self.network.delay_us_max, self.network.framed) = (10, 300, false);
        (self.network.slow_permille, self.network.slow_us_max, self.network.lost_permille) = (50, 50_000, 0);
        (self.faults.outages, self.faults.pauses, self.faults.restarts) = (0, 0, 0);
        (self.faults.expiries, self.faults.flushes) = (self.faults.expiries.min(10), 0);
        (self.programs.steps_max, self.programs.single_permille) = (2 + self.programs.steps_max % 2, 100);
        self.programs.interactive_permille = self.programs.interactive_permille.min(300);
        (self.programs.think_us_max, self.programs.pause_us_max, self.programs.abort_permille) = (0, 0, 0);
    }

    /// The same, cut down to what a thousand of can be run in a second.
    pub fn small(seed: u64) -> Config {
        let mut config = Config::random(seed);
        config.shards = config.shards.min(2);
        config.sessions = config.sessions.min(2);
        config.workers = config.workers.min(2);
        config.transactions = config.transactions.min(3);
        config.keys = config.keys.min(4);
        config.programs.steps_max = config.programs.steps_max.min(4);
        config.faults.deaths.iter_mut().for_each(|at| *at /= 8);
        config
    }

    /// The same for a [`Scenario`](crate::Scenario): nothing is lost of its records, nobody else works on them, and the run comes to
    /// an end. A transaction has many calls on few records, so there are fewer of them, with more time.
    pub fn for_scenario(mut self) -> Config {
        (self.faults.survives, self.faults.expiries, self.faults.flushes) = (0, 0, 0);
        self.faults.endless = false;
        (self.sessions, self.workers) = (self.sessions.min(3), self.workers.min(3));
        self.transactions = self.transactions.min(6);
        self.finish_us_max *= 10;
        self.programs.savepoints_permille = 0;
        self
    }

    /// The protocol's switches. What cannot be combined with the locks, or with how messages travel, stays off.
    pub fn switches(&self) -> Switches {
        let ordering = match self.ordering {
            _ if !self.is_ordered() => Ordered::Never,
            1 => Ordered::Adaptive,
            _ => Ordered::Always,
        };
        let (ways, process_way) = (self.ways.switches(), self.ways.process_way());
        match (self.direct, discipline(self.reader_writer, self.phasing), process_way) {
            (true, Discipline::AbstractPhased, Some(way)) => Switches::in_process_by(way),
            (true, discipline, _) => Switches::in_process(discipline),
            (false, Discipline::AbstractPhased, Some(way)) => Switches::over_network_by(way, ordering, ways),
            (false, Discipline::AbstractPhased, None) => Switches::claret(ordering, self.batching, ways),
            (false, discipline, _) => Switches::over_network(discipline),
        }
    }

    /// Whether calls may be ordered.
    pub fn is_ordered(&self) -> bool {
        self.ordering > 0 && !self.direct && !self.reader_writer && self.phasing
    }

    /// Whether shards have replicas.
    pub fn is_replicated(&self) -> bool {
        self.replicated && !self.direct
    }

    /// When frames leave.
    pub fn pacing(&self) -> Pacing {
        let (frames_in_flight_max, frame_requests_worth, frame_requests_max) = match self.pacing {
            0 => return Pacing::default(),
            1 => (usize::MAX, 1, 512),
            _ => (1, 2, 3),
        };
        // Few enough that low-water marks pass in between heartbeats.
        Pacing { frames_in_flight_max, frame_requests_worth, frame_requests_max, over_worth: 4 }
    }

    /// Whether the records are a host's.
    pub fn is_external(&self) -> bool {
        self.external && !self.direct
    }

    /// What a restart leaves.
    pub fn survives(&self) -> Survives {
        match self.faults.survives {
            0 => Survives::Votes,
            1 => Survives::Records,
            _ => Survives::Nothing,
        }
    }

    /// Until when everything must be done, in microseconds of virtual time.
    pub(crate) fn deadline_us(&self) -> u64 {
        let held = if self.network.held > 0 { self.network.held_us } else { 0 };
        self.faults.until_us + held + self.finish_us_max
    }

    /// When the last fault is over: slow messages hold up those behind them, in microseconds of virtual time.
    pub(crate) fn calm_us(&self) -> u64 {
        let slow = if self.network.slow_permille > 0 { self.network.slow_us_max } else { 0 };
        self.faults.until_us + slow
    }

    /// Within how much time, once faults have stopped and nothing of it is under way, shards are done with a session
    /// that died, in microseconds: its lease, and asking each other twice, with clocks as slow as they get.
    pub(crate) fn release_us_max(&self) -> u64 {
        let slowest = if self.faults.clocks { crate::clock::RATE_MAX } else { 1 };
        slowest * (self.limits.lease_us + 2 * self.limits.inquire_us_max) + 6 * self.network.delay_us_max
    }
}

/// The discipline with such locks, and with phases or without.
pub(crate) fn discipline(reader_writer: bool, phasing: bool) -> Discipline {
    match (reader_writer, phasing) {
        (true, false) => Discipline::ReaderWriter,
        (true, true) => Discipline::ReaderWriterPhased,
        (false, false) => Discipline::Abstract,
        (false, true) => Discipline::AbstractPhased,
    }
}

fn random_limits(random: &mut Random) -> Limits {
    Limits {
        at_once_max: *random.pick(&[1, 2, 1 << 10, 1 << 10]),
        phase_joins_max: random.between(0, 8) as u32,
        phase_us_max: *random.pick(&[100, 1_000, 5_000]),
        waiters_max: *random.pick(&[2, 1 << 20, 1 << 20, 1 << 20]),
        settle_misses_max: random.between(0, 8) as u32,
        lease_us: *random.pick(&[20_000, 100_000, 400_000]),
        inquire_us: *random.pick(&[5_000, 20_000]),
        inquire_us_max: 40_000,
        give_way_us: *random.pick(&[0, 200, 2_000]),
        resend_us: *random.pick(&[3_000, 10_000, 50_000]),
        lock_tries_max: random.between(2, 12) as u32,
        group_members_max: *random.pick(&[2, 4, 32]),
        combine_misses_max: *random.pick(&[1, 16]),
        group_wait_us_max: *random.pick(&[0, 200, 1_000, 20_000]),
        // In the end nothing is to be remembered any more.
        outcome_us: 0,
        ..Limits::default()
    }
}

fn random_network(random: &mut Random, faulty: bool, direct: bool) -> NetworkConfig {
    let (lost, doubled) = (*random.pick(&[0, 0, 10, 100]), *random.pick(&[0, 0, 20, 200]));
    let delay_us_min = random.between(0, 200);
    NetworkConfig {
        delay_us_min,
        delay_us_max: delay_us_min + *random.pick(&[0, 20, 200, 2_000]),
        slow_permille: if faulty { *random.pick(&[0, 5, 50]) } else { 0 },
        slow_us_max: *random.pick(&[5_000, 50_000, 500_000]),
        lost_permille: if faulty { lost } else { 0 },
        doubled_permille: if faulty { doubled } else { 0 },
        held: if faulty { *random.pick(&[0, 0, 1, 3]) } else { 0 },
        held_us: 60_000_000,
        ordered: direct || random.chance(500),
        framed: false,
    }
}

fn random_faults(random: &mut Random, faulty: bool, lease_us: u64) -> FaultConfig {
    let deaths = (0..*random.pick(&[0, 0, 1, 2, 4])).map(|_| random.below(600)).collect();
    let mut count = |most: u64| if faulty { random.below(most + 1) as u32 } else { 0 };
    FaultConfig {
        outages: count(3),
        reconnects: count(4),
        pauses: count(3),
        restarts: if faulty { *random.pick(&[0, 0, 1, 3]) } else { 0 },
        survives: *random.pick(&[0, 0, 1, 2]),
        clocks: faulty && random.chance(300),
        until_us: *random.pick(&[10_000, 50_000, 300_000]),
        endless: faulty && random.chance(200),
        deaths: if faulty { deaths } else { Vec::new() },
        asks_permille: *random.pick(&[0, 300]),
        span_us_max: lease_us * 3,
        refusals: 0,
        expiries: 0,
        flushes: 0,
        moves: 0,
        leaves: false,
        refused_frames_permille: 0,
    }
}

fn random_programs(random: &mut Random) -> ProgramConfig {
    ProgramConfig {
        steps_max: random.between(1, 8),
        single_permille: *random.pick(&[0, 200, 500]),
        interactive_permille: *random.pick(&[0, 300, 700, 1000]),
        abort_permille: *random.pick(&[0, 50, 200]),
        reserve_permille: *random.pick(&[0, 200]),
        mistaken_permille: *random.pick(&[0, 20, 100]),
        think_us_max: *random.pick(&[0, 100, 5_000]),
        pause_us_max: 0,
        stale_permille: 0,
        abandon_permille: 0,
        unreadable_permille: 0,
        keyspace_permille: 0,
        optimistic_permille: 0,
        savepoints_permille: 0,
        demands_permille: 0,
    }
}
