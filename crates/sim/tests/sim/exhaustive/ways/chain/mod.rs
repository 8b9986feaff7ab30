//! Chains (`docs/chains.md`).

use claret_core::Bug;
use claret_core::ways::WaySwitches;
use claret_core::ways::chain::{self, Switch};
use claret_types::CounterOp::{Add, AddReturning, Get};
use claret_types::{Bytes, End, List, ListOp, Operation};

use super::super::plan::{Faults, How, Plan, Step, X, Y, Z, later, looked, now};
use super::super::plans::{DEATH, DOUBLE, EARLY_TIMEOUT, LOSS, NONE, RESTART, with_records};

const CHAIN: WaySwitches = chain::ways(Switch::Always);

/// Pushes to a list: two of these differ in nothing but their order.
fn push(shard: usize, value: &'static str) -> Step {
    let op = ListOp::Push(End::Back, [Bytes::from(value)].into_iter().collect());
    Step { shard, op: Operation::new::<List>(op), how: How::Later }
}

/// Asks for all that is in a list.
fn items(shard: usize) -> Step {
    let op = ListOp::Range { start: 0, stop: -1 };
    Step { shard, op: Operation::new::<List>(op), how: How::Later }
}

/// Adds at all three shards, and answers with the sum at one of them.
fn all_three(answers: usize, amount: i64) -> Vec<Step> {
    let step = |at| later(at, if at == answers { AddReturning(amount) } else { Add(amount) });
    [X, Y, Z].map(step).into()
}

/// Chains: one over three shards, one over the last two of them, and one that locks before it commits at both ends.
fn chains(name: &'static str, faults: Faults) -> Plan {
    let programs = vec![all_three(Y, 1), vec![later(Y, AddReturning(2)), later(Z, Add(2))]];
    Plan { faults, ways: CHAIN, ..Plan::new(name, programs) }
}

/// The same beside one that locks as it goes, from the other end.
fn chains_beside_locks(name: &'static str, faults: Faults) -> Plan {
    let programs = vec![all_three(Z, 1), vec![now(Z, AddReturning(2)), later(X, AddReturning(2))]];
    Plan { faults, ways: CHAIN, ..Plan::new(name, programs) }
}

/// One chain over three shards.
fn one_chain(name: &'static str, faults: Faults) -> Plan {
    Plan { faults, ways: CHAIN, ..Plan::new(name, vec![all_three(Y, 1), vec![later(Z, Add(2))]]) }
}

/// Two over the same shards in opposite orders: each has another one last.
fn hot_chains(name: &'static str, faults: Faults) -> Plan {
    let looks = vec![looked(X, Get), later(Y, AddReturning(2)), later(Z, Add(2))];
    Plan { faults, ways: CHAIN, hot: Some(X), ..Plan::new(name, vec![all_three(X, 1), looks]) }
}

/// Two chains that push to the lists of both shards, so that one follows the other; and who reads both once one was told.
fn followers(name: &'static str, faults: Faults) -> Plan {
    let pushes = |value| vec![push(X, value), push(Y, value)];
    let programs = vec![pushes("a"), pushes("b"), vec![items(X), items(Y)]];
    let after = if faults.deaths > 0 { Vec::new() } else { vec![(2, 1)] };
    Plan { faults, ways: CHAIN, after, ..Plan::new(name, programs) }
}

/// The same over three shards: one of the two passes by the first one, and which comes first at the second one is open.
fn followers_of_three(name: &'static str, faults: Faults) -> Plan {
    let programs = vec![[X, Y, Z].map(|at| push(at, "a")).into(), [Y, Z].map(|at| push(at, "b")).into()];
    Plan { faults, ways: CHAIN, ..Plan::new(name, programs) }
}

/// A follower beside one that locks as it goes, from the other end.
fn followers_beside_a_lock(name: &'static str, faults: Faults) -> Plan {
    let pushes = |value| vec![push(X, value), push(Y, value)];
    let reads = vec![Step { how: How::Now, ..items(Y) }, push(X, "c")];
    Plan { faults, ways: CHAIN, ..Plan::new(name, vec![pushes("a"), pushes("b"), reads]) }
}

/// Chains, as far as a test has time for them.
pub(in super::super) fn small() -> Vec<Plan> {
    vec![
        one_chain("chain, a death and a loss", Faults { losses: 1, ..DEATH }),
        one_chain("chain, a double", DOUBLE),
        one_chain("chain, a restart with votes", RESTART),
        with_records(one_chain("chain, a restart with records", RESTART)),
        chains("chains", NONE),
        chains("chains, a death", DEATH),
        chains("chains, a loss", LOSS),
        chains_beside_locks("chains beside locks", NONE),
        chains_beside_locks("chains beside locks, a death", DEATH),
        followers("followers", NONE),
        followers("followers, a death", DEATH),
        followers("followers, a loss", LOSS),
        followers("followers, a double", DOUBLE),
        followers_of_three("followers of three, a death and a loss", Faults { losses: 1, ..DEATH }),
        followers_of_three("followers of three, a restart with votes", RESTART),
        with_records(followers_of_three("followers of three, a restart with records", RESTART)),
        followers_beside_a_lock("followers beside a lock", NONE),
        hot_chains("hot chains", NONE),
        hot_chains("hot chains, a death", DEATH),
    ]
}

/// Chains that take longer.
pub(in super::super) fn large() -> Vec<Plan> {
    vec![
        chains("chains, a death and a loss", Faults { losses: 1, ..DEATH }),
        chains("chains, a double", DOUBLE),
        followers("followers, a death and a loss", Faults { losses: 1, ..DEATH }),
        followers_beside_a_lock("followers beside a lock, a death", DEATH),
        chains("chains, an early timeout", EARLY_TIMEOUT),
        chains("chains, a restart with votes", RESTART),
    ]
}

/// Bugs of chains, and where the search finds each.
pub(in super::super) fn broken() -> Vec<Plan> {
    let with = |bug, plan: Plan| Plan { bug: Some(bug), ..plan };
    vec![
        with(Bug::LocksWithoutToken, one_chain("chain", NONE)),
        with(Bug::TokenSentOnce, one_chain("chain, a loss", LOSS)),
        with(Bug::LastAnswersForAll, one_chain("chain", NONE)),
        with(Bug::FollowedUnnamed, followers("followers", NONE)),
        with(Bug::FollowerFirst, followers("followers", NONE)),
        with(Bug::ResentToUnvoted, one_chain("chain, a loss", LOSS)),
    ]
}
