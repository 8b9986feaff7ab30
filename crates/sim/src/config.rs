//! The configuration of a run, drawn from its seed (swarm testing: each run switches a random set of features
//! and faults on, so that rare combinations come up).

use claret_core::{Delivery, Limits, Locks, Switches};

use crate::random::{Random, Stream};

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
    /// The protocol's switches.
    pub switches: Switches,
    /// The protocol's bounds, small enough that runs meet them.
    pub limits: Limits,
    /// How messages travel.
    pub network: NetworkConfig,
    /// What goes wrong.
    pub faults: FaultConfig,
    /// What transactions do.
    pub programs: ProgramConfig,
    /// How often sessions say that they live, in microseconds.
    pub heartbeat_us: u64,
    /// How long everything may take once faults have stopped, in microseconds of virtual time.
    pub finish_us_max: u64,
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
    /// Whether messages between two ends arrive in the order in which they left.
    pub ordered: bool,
}

/// What goes wrong, until `until_us`.
#[derive(Clone, Debug)]
pub struct FaultConfig {
    /// When faults stop, in microseconds of virtual time.
    pub until_us: u64,
    /// For each death: after how many messages sent by all sessions the one that sends the next dies.
    pub deaths: Vec<u64>,
    /// How many pairs of ends lose sight of each other for a while.
    pub outages: u32,
    /// How many times a session connects anew to a shard.
    pub reconnects: u32,
    /// How many sessions or shards stand still for a while.
    pub pauses: u32,
    /// The longest outage or pause, in microseconds.
    pub span_us_max: u64,
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
}

impl Config {
    /// The configuration that belongs to a seed.
    pub fn random(seed: u64) -> Config {
        let random = &mut Random::new(seed, Stream::Config);
        let switches = random_switches(random);
        let direct = switches.delivery == Delivery::Direct;
        let faulty = !direct && random.chance(700);
        let sessions = random.between(1, 5) as u32;
        let workers = random.between(1, 4) as u32;
        let limits = random_limits(random);
        Config {
            shards: random.between(1, 5) as u32,
            sessions,
            workers,
            transactions: random.between(2, 12) as u32,
            keys: random.between(1, 10) as u32,
            families: random.between(1, 5) as u32,
            switches,
            network: random_network(random, faulty, direct),
            faults: random_faults(random, faulty, limits.lease_us),
            programs: random_programs(random),
            heartbeat_us: limits.lease_us / 4,
            limits,
            finish_us_max: 20_000_000,
        }
    }
}

fn random_switches(random: &mut Random) -> Switches {
    Switches {
        locks: if random.chance(250) { Locks::ReaderWriter } else { Locks::Abstract },
        phasing: random.chance(800),
        combining: false,
        delivery: if random.chance(150) { Delivery::Direct } else { Delivery::Network },
    }
}

fn random_limits(random: &mut Random) -> Limits {
    Limits {
        phase_joins_max: random.between(0, 8) as u32,
        phase_us_max: *random.pick(&[100, 1_000, 5_000]),
        waiters_max: *random.pick(&[2, 1 << 20, 1 << 20, 1 << 20]),
        settle_misses_max: random.between(0, 8) as u32,
        lease_us: *random.pick(&[20_000, 100_000, 400_000]),
        inquire_us: *random.pick(&[5_000, 20_000]),
        give_way_us: *random.pick(&[0, 200, 2_000]),
        resend_us: *random.pick(&[3_000, 10_000, 50_000]),
        lock_tries_max: random.between(2, 12) as u32,
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
        ordered: direct || random.chance(500),
    }
}

fn random_faults(random: &mut Random, faulty: bool, lease_us: u64) -> FaultConfig {
    let deaths = (0..*random.pick(&[0, 0, 1, 2, 4])).map(|_| random.below(600)).collect();
    let mut count = |most: u64| if faulty { random.below(most + 1) as u32 } else { 0 };
    FaultConfig {
        outages: count(3),
        reconnects: count(4),
        pauses: count(3),
        until_us: *random.pick(&[10_000, 50_000, 300_000]),
        deaths: if faulty { deaths } else { Vec::new() },
        span_us_max: lease_us * 3,
    }
}

fn random_programs(random: &mut Random) -> ProgramConfig {
    ProgramConfig {
        steps_max: random.between(1, 8),
        single_permille: *random.pick(&[0, 200, 500]),
        interactive_permille: *random.pick(&[0, 300, 700, 1000]),
        abort_permille: *random.pick(&[0, 50, 200]),
        reserve_permille: *random.pick(&[0, 200]),
        mistaken_permille: *random.pick(&[0, 0, 20]),
        think_us_max: *random.pick(&[0, 100, 5_000]),
    }
}
