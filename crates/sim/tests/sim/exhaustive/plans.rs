//! The configurations.

use claret_core::{Bug, Survives};
use claret_types::CounterOp::{Add, AddReturning, Get};

use super::plan::{Faults, Plan, Plant, Step, X, Y, Z, add, later, looked, now, size};
use super::ways;

pub(super) const NONE: Faults = Faults { deaths: 0, restarts: 0, doubles: 0, losses: 0, early_timeouts: 0 };
pub(super) const DEATH: Faults = Faults { deaths: 1, ..NONE };
pub(super) const EARLY_TIMEOUT: Faults = Faults { early_timeouts: 1, ..NONE };
pub(super) const DOUBLE: Faults = Faults { doubles: 1, ..NONE };
pub(super) const LOSS: Faults = Faults { losses: 1, ..NONE };
pub(super) const RESTART: Faults = Faults { restarts: 1, ..NONE };

/// Adds at both shards and answers with the sums, in one prepare each: whoever does it conflicts with all others.
fn both(amount: i64) -> Vec<Step> {
    vec![later(X, AddReturning(amount)), later(Y, AddReturning(amount))]
}

/// The same, call by call.
fn in_turn(first: usize, amount: i64) -> Vec<Step> {
    vec![now(first, AddReturning(amount)), now(1 - first, AddReturning(amount))]
}

/// Reads one record, then adds to the other.
fn skewed(read: usize, amount: i64) -> Vec<Step> {
    vec![now(read, Get), later(1 - read, Add(amount))]
}

/// Reads a record, then adds to it: two of these cannot both go on.
fn upgrading(record: usize, amount: i64) -> Vec<Step> {
    vec![now(record, Get), now(record, AddReturning(amount))]
}

/// Two rounds and recovery: two transactions over both shards that conflict, and a third one at one of them.
fn commits(name: &'static str, faults: Faults) -> Plan {
    let programs = vec![both(1), both(2), vec![later(X, Add(4))]];
    Plan { faults, ..Plan::new(name, programs) }
}

/// The same, where the first transaction holds a lock before its prepare leaves.
fn open_commits(name: &'static str, faults: Faults) -> Plan {
    let programs = vec![vec![now(X, AddReturning(1)), later(Y, Add(1))], both(2), vec![later(X, Add(4))]];
    Plan { faults, ..Plan::new(name, programs) }
}

/// One shard is asked last.
fn hot(name: &'static str, shard: usize, plan: Plan) -> Plan {
    Plan { name, hot: Some(shard), ..plan }
}

/// Only the two that conflict.
fn pairs(name: &'static str, faults: Faults) -> Plan {
    Plan { faults, ..Plan::new(name, vec![both(1), both(2)]) }
}

/// One client and much that goes wrong.
fn alone(name: &'static str, program: Vec<Step>, doubles: u8, restarts: u8) -> Plan {
    Plan { faults: Faults { doubles, restarts, early_timeouts: 2, ..NONE }, ..Plan::new(name, vec![program]) }
}

pub(super) fn with_records(plan: Plan) -> Plan {
    Plan { survives: Survives::Records, ..plan }
}

/// Nobody may join a phase that others wait for.
fn capped(name: &'static str, programs: Vec<Vec<Step>>) -> Plan {
    Plan { joins_max: 0, ..Plan::new(name, programs) }
}

/// Two rounds and recovery, as far as a test has time for it.
pub(crate) fn small_commits() -> Vec<Plan> {
    vec![
        commits("commit", NONE),
        commits("commit, a death", DEATH),
        commits("commit, a double", DOUBLE),
        commits("commit, a loss", LOSS),
        open_commits("open commit, a death", DEATH),
        pairs("pair, a restart with votes", RESTART),
        with_records(pairs("pair, a restart with records", RESTART)),
        forgetful(),
        with_records(alone("alone, a restart with records, two early timeouts", both(1), 0, 1)),
        hot("hot commit, a death", X, commits("", DEATH)),
        hot("hot commit, the other, a death", Y, commits("", DEATH)),
        hot("hot commit, a double", X, commits("", DOUBLE)),
        hot("hot commit, a loss", X, commits("", LOSS)),
        hot("hot open commit, a death", Y, open_commits("", DEATH)),
        hot("hot pair, a restart with votes", X, pairs("", RESTART)),
        with_records(hot("hot commit, a restart with records", X, commits("", RESTART))),
    ]
}

/// Phases and giving way, as far as a test has time for it.
pub(crate) fn small_phases() -> Vec<Plan> {
    let crossing = vec![in_turn(X, 1), in_turn(Y, 2)];
    vec![
        Plan::new("crossing", crossing),
        Plan::new("upgrades, one joins", upgrades()),
        capped("upgrades, capped", upgrades()),
        capped("reads and writes, capped", mixed()),
    ]
}

/// Looks at one record, then adds to the other (trap 29).
fn looks(seen: usize, amount: i64) -> Vec<Step> {
    vec![looked(seen, Get), later(1 - seen, Add(amount))]
}

/// Two that look at what the other adds to.
fn looking(name: &'static str, faults: Faults) -> Plan {
    Plan { faults, ..Plan::new(name, vec![looks(X, 1), looks(Y, 2)]) }
}

/// Who looks at both records beside who adds to both.
fn looking_at_both(name: &'static str, faults: Faults) -> Plan {
    let both_seen = vec![looked(X, Get), looked(Y, Get)];
    Plan { faults, ..Plan::new(name, vec![both_seen, vec![later(X, Add(1)), later(Y, Add(2))]]) }
}

/// Two that look and add to what they saw, one that locks what it does.
fn looking_beside_a_lock(name: &'static str, faults: Faults) -> Plan {
    let counted = |record, amount| vec![looked(record, AddReturning(amount)), later(1 - record, Add(amount))];
    let programs = vec![counted(X, 1), counted(Y, 2), vec![now(X, AddReturning(4))]];
    Plan { faults, ..Plan::new(name, programs) }
}

/// Optimistic transactions, as far as a test has time for them.
pub(crate) fn small_looking() -> Vec<Plan> {
    vec![
        looking("looks", NONE),
        looking("looks, a death", DEATH),
        looking("looks, a double", DOUBLE),
        looking("looks, a loss", LOSS),
        looking("looks, an early timeout", EARLY_TIMEOUT),
        with_records(looking("looks, a restart with records", RESTART)),
        looking_at_both("looks at both", NONE),
        looking_at_both("looks at both, a death", DEATH),
        looking_at_both("looks at both, a double", DOUBLE),
        looking_beside_a_lock("looks beside a lock", NONE),
    ]
}

/// All that are well.
pub(crate) fn all() -> Vec<Plan> {
    [small_commits(), small_phases(), small_ordered(), small_looking(), ways::small(), large(), ways::large()]
        .concat()
}

/// What takes longer.
pub(crate) fn large() -> Vec<Plan> {
    vec![
        commits("commit, an early timeout", EARLY_TIMEOUT),
        commits("commit, a death and a double", Faults { doubles: 1, ..DEATH }),
        commits("commit, a death and a loss", Faults { losses: 1, ..DEATH }),
        commits("commit, a death and an early timeout", Faults { early_timeouts: 1, ..DEATH }),
        hot("hot commit, an early timeout", X, commits("", EARLY_TIMEOUT)),
        hot(
            "hot commit, a death and an early timeout",
            X,
            commits("", Faults { early_timeouts: 1, ..DEATH }),
        ),
        hot("hot commit, a death and a double", X, commits("", Faults { doubles: 1, ..DEATH })),
        hot("hot commit, a restart with votes", Y, commits("", RESTART)),
        open_commits("open commit, a double", DOUBLE),
        open_commits("open commit, an early timeout", EARLY_TIMEOUT),
        pairs("pair, a death and an early timeout", Faults { early_timeouts: 1, ..DEATH }),
        pairs("pair, an early timeout and a double", Faults { early_timeouts: 1, ..DOUBLE }),
        pairs("pair, a death, a double, a loss", Faults { doubles: 1, losses: 1, ..DEATH }),
        looking("looks, a restart with votes", RESTART),
        looking_beside_a_lock("looks beside a lock, a death", DEATH),
        pairs("pair, a restart with votes and a death", Faults { deaths: 1, ..RESTART }),
        commits("commit, a restart with votes", RESTART),
        with_records(commits("commit, a restart with records", RESTART)),
        alone("alone, a restart with votes, two early timeouts, a double", both(1), 1, 1),
        Plan {
            survives: Survives::Nothing,
            ..alone("alone, a restart with nothing, two early timeouts", both(1), 0, 1)
        },
        Plan::new("three prepares", vec![both(1), both(2), both(4)]),
        Plan::new("opposite orders", vec![in_turn(X, 1), in_turn(Y, 2), in_turn(X, 4)]),
        Plan::new("reads and writes, one joins", mixed()),
        capped("skewed writes, capped", vec![skewed(X, 1), skewed(Y, 2), skewed(X, 4)]),
    ]
}

fn mixed() -> Vec<Vec<Step>> {
    vec![skewed(X, 1), in_turn(Y, 2), skewed(Y, 4)]
}

fn upgrades() -> Vec<Vec<Step>> {
    vec![upgrading(X, 1), upgrading(X, 2), vec![now(Y, Get), now(X, Get), later(Y, Add(4))]]
}

/// Ordered calls: two that meet in both orders.
fn crossed(name: &'static str, faults: Faults) -> Plan {
    let read = |at| size(at, false);
    let programs = vec![vec![read(X), add(Y, "a")], vec![add(X, "b"), read(Y)]];
    Plan { faults, suggested: Some(vec![5, 3]), ..Plan::new(name, programs) }
}

/// The same on counters, whose operations are lasting (P82).
fn counted(name: &'static str, faults: Faults) -> Plan {
    let programs =
        vec![vec![later(X, Get), later(Y, AddReturning(1))], vec![later(X, Add(2)), later(Y, Get)]];
    Plan { faults, suggested: Some(vec![5, 3]), ..Plan::new(name, programs) }
}

/// Ordered calls: one reads two records, the other writes both.
fn torn(name: &'static str, faults: Faults) -> Plan {
    let programs = vec![vec![size(X, false), size(Y, false)], vec![add(X, "a"), add(Y, "a")]];
    Plan { faults, suggested: Some(vec![5, 3]), ..Plan::new(name, programs) }
}

/// Ordered calls: a reader of two records, a writer of one of them and a third, and one that begins after the writer was told.
fn chain(name: &'static str, faults: Faults) -> Plan {
    let reader = vec![size(X, false), size(Y, false)];
    let writer = vec![add(Y, "a"), add(Z, "a")];
    let plan = Plan::new(name, vec![reader, writer, vec![add(X, "b")]]);
    Plan { faults, suggested: Some(vec![1, 4, 1]), after: vec![(2, 1)], ..plan }
}

/// Ordered calls beside one that locks a record before it commits.
fn beside_a_lock(name: &'static str, faults: Faults) -> Plan {
    let programs = vec![vec![size(X, true), add(Y, "a")], vec![add(X, "b"), size(Y, false)]];
    Plan { faults, suggested: Some(vec![1, 3]), ..Plan::new(name, programs) }
}

/// Ordered calls, as far as a test has time for it.
pub(crate) fn small_ordered() -> Vec<Plan> {
    vec![
        crossed("ordered, crossed", NONE),
        crossed("ordered, crossed, a death", DEATH),
        crossed("ordered, crossed, a double", DOUBLE),
        counted("ordered, counters", NONE),
        counted("ordered, counters, a death", DEATH),
        torn("ordered, a reader and a writer, a death", DEATH),
        chain("ordered, chain", NONE),
        chain("ordered, chain, a double", DOUBLE),
        beside_a_lock("ordered, a lock beside", NONE),
        beside_a_lock("ordered, a lock beside, a death", DEATH),
    ]
}

/// Bugs of ordered calls, and where the search finds each.
pub(crate) fn broken_ordered() -> Vec<Plan> {
    let with = |bug, plan: Plan| Plan { bug: Some(bug), ..plan };
    vec![
        with(Bug::ToldBeforeSafeTime, chain("chain", NONE)),
        with(Bug::PresentIsSettled, chain("chain", NONE)),
        with(Bug::VoteBelowClock, chain("chain", NONE)),
        with(Bug::PassesVoted, crossed("crossed", NONE)),
        with(Bug::TentativeCounts, crossed("crossed", NONE)),
        with(Bug::VoteBelowRecords, crossed("crossed", NONE)),
        with(Bug::SmallestVoteIsFinal, crossed("crossed", NONE)),
        with(Bug::OwnVoteAfterDeath, torn("a reader and a writer, a death", DEATH)),
        with(Bug::OrderedPassesLocks, beside_a_lock("a lock beside", NONE)),
        with(Bug::LocksPassOrdered, beside_a_lock("a lock beside", NONE)),
    ]
}

/// Something is broken on purpose in each of these.
pub(crate) fn broken() -> Vec<Plan> {
    let pair = |plant, faults| Plan { plant, ..pairs("pair", faults) };
    vec![
        pair(Plant::RefusalInvented, NONE),
        pair(Plant::VoteForged, NONE),
        pair(Plant::LeaseEndsVoted, EARLY_TIMEOUT),
        pair(Plant::EldersUnheard, NONE),
        pair(Plant::RefusalDenied, DEATH),
        Plan { plant: Plant::SeenForgotten, ..looking_at_both("looks that nobody checks", NONE) },
        Plan { plant: Plant::IncarnationUnmet, ..forgetful() },
    ]
}

/// A refusal is lost with the shard that wrote it, and the prepare that it was about comes late.
pub(crate) fn forgetful() -> Plan {
    let plan = Plan::new("a lost refusal", vec![both(1), vec![later(Y, Add(2))]]);
    with_records(Plan { faults: Faults { early_timeouts: 1, ..RESTART }, ..plan })
}
