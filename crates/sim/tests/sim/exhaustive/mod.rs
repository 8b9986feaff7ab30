//! Small configurations of the protocol, explored completely: every state that any order of messages, faults and
//! timeouts can lead to. The simulator draws some of these orders; this takes all of them.
//!
//! The model (`world.rs`) is made of the real machines of `claret-core`: two or three shards with a record each, a coordinator
//! for each of three clients, and a network that is a bag. `stateright` keeps the book: which states were seen, and
//! the shortest way to one in which a property does not hold. `check.rs` has the properties, `plans.rs` the
//! configurations, `step.rs` single steps of machines, `client.rs` the programs that they run.
//!
//! # What can happen
//!
//! Any message under way arrives. A blocked client that knows of an elder gives way. Where nothing else can happen,
//! leases of clients that died run out and participants in doubt ask; where something was lost, clients send again
//! and their heartbeats arrive. Besides that a plan has a budget of faults, each at any moment: a client dies, a shard
//! restarts (with its votes, with its records alone, or with nothing), a message arrives twice, a message is lost,
//! and *early timeout*: the time of one attempt at one shard is over, though its client lives and messages are under way.
//!
//! # How it is kept small, and why that is sound
//!
//! - *Time stands still.* Clocks serve liveness only, so whatever waits for time is a step of its own that may come at
//!   any moment, and no state holds a time. A coordinator sends again only where nothing else can happen: a resend
//!   that was not needed is a message that arrives twice.
//! - *All begin at once.* A transaction that begins later is one whose messages take longer. A program goes on at once
//!   when it is answered, for the same reason. Real time between transactions is left to the simulator, but for one that begins
//!   when another was told ([`plan::Plan::after`]): the order that explains the answers must agree with that.
//! - *Clocks of shards* (ordered calls) come further in a step of their own, to where a caller waits for them. Callers hear how
//!   far all have come in another step: to hear less is to hear it earlier. Suggestions are those of the plan.
//! - *Looks take no time* (optimistic transactions): the answer goes to the program in the step in which the shard is asked. A look leaves
//!   the shard as it is, and what the program sends then may be as late as it likes. Looks do not wait for who has voted (O2), which
//!   only adds states.
//! - *States by digest* (`Shard::digest`, `Coordinator::digest`): left out is what has no say in what comes next, such
//!   as counts, places in slabs and the order of hash maps. States are told apart by 64 bits, as `stateright` does it;
//!   with ten million states the chance that two were taken for one is about one in a million.
//! - *Steps are remembered.* Machines are deterministic, so a machine's step is taken once and then looked up.
//! - *Some messages arrive at once* (`World::hurried`): those that nobody hears, acknowledgements, and those that find
//!   a shard's last word on an attempt. Any other order of them leads to the same states, or to one that is reached
//!   with less.
//! - *Few heartbeats.* They renew leases, which here run out only early while a client lives; they repeat what a
//!   shard has told of elders, so where a message may be lost they arrive when nothing else can happen; they raise the
//!   low-water mark, and that is left to the simulator: nothing is forgotten here.
//! - *No bound on attempts.* That there are finitely many states shows that restarts come to an end. A property notes
//!   when an attempt has a number that none should need, so that a search without an end tells why.
//!
//! # What is shown
//!
//! The properties of `check.rs` in every state; and, by `ends.rs`, that from every state there is a way to an end with
//! everybody done and nothing locked. Where nothing is lost and nothing restarts every step uses up a message or ends
//! an attempt, so there are no circles, and all ways lead there: no deadlock, no livelock.
//!
//! A shard that restarts without its votes may tear a transaction for which it had written yes (P25). The properties
//! except these attempts, and no other.
//!
//! The larger configurations are run by
//! `cargo run --release -p claret-sim --example exhaustive`, which prints the table of `SEARCH.md`.

mod check;
mod client;
mod ends;
mod plan;
mod plans;
mod search;
mod step;
mod ways;
mod world;

use std::collections::BTreeSet;

use check::{LEFT, SERIAL, TOLD, TORN};
use plan::{Plan, Plant};

/// Explores a plan on both cores and checks everything.
fn holds(plan: &Plan) {
    let found = search::search(plan, 2);
    println!("{found}");
    if let Some((property, way)) = found.violations.first_key_value() {
        panic!("{}: not true: {property}\n{way}", plan.name);
    }
    assert!(found.unique > 500, "{found}: hardly anything happened");
    if let Some(way) = ends::dead_end(plan) {
        panic!("{}: no way leads on from here\n{way}", plan.name);
    }
}

/// The search must find what is broken on purpose, by one of these properties.
fn is_found(plant: Plant, properties: &[&str]) {
    let plan = plans::broken().into_iter().find(|plan| plan.plant == plant).expect("it is planted");
    let found = search::search(&plan, 1);
    let Some((property, way)) = found.violations.iter().find(|(name, _)| properties.contains(name)) else {
        panic!("{plant:?} was not noticed: {found:?}");
    };
    println!("{plant:?}: not true: {property}\n{way}");
    assert!(way.lines().count() > 3, "the way to it is shown");
}

#[test]
fn two_rounds_and_recovery_keep_every_promise() {
    plans::small_commits().iter().for_each(holds);
}

#[test]
fn everybody_commits_in_the_end() {
    plans::small_phases().iter().for_each(holds);
}

#[test]
fn ordered_calls_keep_every_promise() {
    plans::small_ordered().iter().for_each(holds);
}

#[test]
fn transactions_that_look_keep_every_promise() {
    plans::small_looking().iter().for_each(holds);
}

#[test]
fn other_ways_keep_every_promise() {
    ways::small().iter().for_each(holds);
}

#[test]
fn bugs_of_other_ways_are_found() {
    are_found(&ways::broken());
}

#[test]
fn bugs_of_ordered_calls_are_found() {
    are_found(&plans::broken_ordered());
}

fn are_found(plans: &[Plan]) {
    let mut missed = Vec::new();
    for plan in plans {
        let found = search::search(plan, 1);
        let steps = found.violations.values().map(|way| way.lines().count() - 1).min();
        println!("{:?}, {}: {} states, {steps:?} steps", plan.bug, plan.name, found.unique);
        // Some break no promise, and go on no further.
        if steps.is_none() && ends::dead_end(plan).is_none() {
            missed.push(plan.bug);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn an_abort_that_invents_a_refusal_is_found() {
    is_found(Plant::RefusalInvented, &[TOLD, TORN]);
}

#[test]
fn a_forged_vote_is_found() {
    is_found(Plant::VoteForged, &[TOLD]);
}

#[test]
fn a_lease_that_ends_what_has_voted_is_found() {
    is_found(Plant::LeaseEndsVoted, &[TOLD, TORN]);
}

#[test]
fn an_elder_that_nobody_hears_of_is_found() {
    is_found(Plant::EldersUnheard, &[LEFT]);
}

#[test]
fn a_refusal_that_is_denied_is_found() {
    is_found(Plant::RefusalDenied, &[TOLD, TORN]);
}

#[test]
fn what_was_seen_and_is_not_checked_is_found() {
    is_found(Plant::SeenForgotten, &[SERIAL]);
}

/// P26: a no that died with its shard is followed by a yes, unless the list names the incarnation. That nothing is
/// wrong where it does is among the small configurations.
#[test]
fn an_incarnation_that_nobody_learned_is_found() {
    is_found(Plant::IncarnationUnmet, &[TOLD, TORN]);
}

/// The example picks configurations by name.
#[test]
fn no_two_configurations_share_a_name() {
    let plans = plans::all();
    let names: BTreeSet<&str> = plans.iter().map(|plan| plan.name).collect();
    assert_eq!(names.len(), plans.len());
}
