//! Many small runs, and that a seed means the same run every time.

use crate::ways;
use claret_sim::{Config, Plant, SimOptions, Totals, run, run_many, run_with};

/// How many seeds are run: 400, or more as `CLARET_SIM_SEEDS` says.
fn seeds() -> u64 {
    let more =
        std::env::var("CLARET_SIM_SEEDS").map(|count| count.parse().expect("CLARET_SIM_SEEDS is a number"));
    more.unwrap_or(0).max(400)
}

#[test]
fn hundreds_of_seeds_keep_every_promise() {
    let totals = run_many(0..seeds(), |_, _| ()).unwrap_or_else(|failure| panic!("{failure}"));
    // The seeds are worth running only if they get somewhere and meet everything on the way.
    assert!(totals.committed > 5_000, "{totals:?}");
    assert!(totals.restarts > 1_000 && totals.aborted > 100 && totals.failed > 100, "{totals:?}");
    assert!(totals.faults > 1_000 && totals.recoveries > 20, "{totals:?}");
    assert!(totals.shard_restarts > 100 && totals.unknown > 20 && totals.torn > 2, "{totals:?}");
    assert!(totals.vanished > 500, "{totals:?}");
    ways::assert_met(&totals);
    assert!(totals.judged > 5_000 && totals.edges > 50_000, "{totals:?}");
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (first, second) = (run(seed), run(seed));
        let (first, second) = (first.expect("it passes"), second.expect("it passes"));
        assert_eq!(first, second, "seed {seed}");
        hashes.insert(first.trace_hash);
    }
    assert_eq!(hashes.len(), 20, "different seeds are different runs");
}

#[test]
fn keeping_the_timeline_changes_nothing() {
    let options = SimOptions { timeline: true, ..SimOptions::seed(3) };
    let (outcome, timeline) = run_with(&options).expect("it passes");
    assert_eq!(outcome, run(3).expect("it passes"));
    assert!(timeline.iter().any(|line| line.contains("committed") || line.contains("voted")));
}

/// Configurations reach both readings of every switch; otherwise whole parts of the protocol go untested.
#[test]
fn configurations_cover_the_switches() {
    let configs: Vec<Config> = (0..200).map(Config::random).collect();
    let both = |property: fn(&Config) -> bool| {
        let count = configs.iter().filter(|config| property(config)).count();
        assert!((10..190).contains(&count), "{count} of 200");
    };
    both(|config| config.phasing);
    both(|config| !config.reader_writer);
    both(|config| !config.direct);
    both(|config| config.network.ordered);
    both(|config| config.network.lost_permille > 0);
    both(|config| config.network.doubled_permille > 0);
    both(|config| !config.faults.deaths.is_empty());
    both(|config| config.faults.pauses > 0);
    both(|config| config.network.framed);
    both(|config| config.programs.savepoints_permille > 0);
    both(|config| config.programs.demands_permille > 0);
    both(|config| config.commands_permille > 0);
    both(|config| config.sleeping_permille > 0);
    both(|config| config.added_permille > 0 && config.probes_permille < 1_000);
    both(|config| config.is_external() && config.faults.moves > 0);
    both(|config| config.is_external() && config.faults.leaves);
    both(|config| config.network.framed && config.faults.refused_frames_permille > 0);
    both(|config| config.network.framed && config.programs.unreadable_permille > 0);
    both(|config| config.programs.abandon_permille > 0);
    both(|config| config.probes_permille > 0);
    both(|config| config.network.held > 0);
    both(|config| config.faults.clocks);
    both(|config| config.faults.endless);
    both(Config::is_external);
    both(|config| config.is_external() && config.faults.expiries > 0);
    both(|config| config.is_external() && config.faults.flushes > 0);
    both(|config| config.faults.restarts > 0 && config.faults.survives == 0);
    both(|config| config.faults.restarts > 0 && config.faults.survives == 1);
    both(|config| config.faults.restarts > 0 && config.faults.survives == 2);
}

/// The user of one in the middle of a batch leaves, and the batch is sent again: its calls keep their places.
#[test]
fn those_in_a_batch_keep_their_order_when_one_of_their_users_leaves() {
    for seed in [29356, 77662] {
        let mut config = without_added_types(seed);
        // There are batches with abstract locks and phases alone.
        config.set("ordering=2,reader_writer=false,phasing=true").expect("settings");
        assert!(
            config.switches().batches() && config.programs.abandon_permille > 0,
            "seed {seed} draws something else"
        );
        let options = SimOptions { config: Some(config), ..SimOptions::seed(seed) };
        run_with(&options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Conditional batches, and single operations that demand an answer: some get it, and some do not.
#[test]
fn demands_are_met_or_not() {
    let (mut totals, mut without) = (Totals::default(), Totals::default());
    for seed in 0..100 {
        for (permille, totals) in [(500, &mut totals), (0, &mut without)] {
            let mut config = Config::small(seed);
            config.set(&format!("demands_permille={permille}")).expect("a setting");
            let options = SimOptions { config: Some(config), ..SimOptions::seed(seed) };
            let (outcome, _) = run_with(&options).unwrap_or_else(|failure| panic!("{failure}"));
            totals.add(&outcome);
        }
    }
    assert!(totals.failed > without.failed + 20 && totals.committed > 100, "{totals:?} {without:?}");
}

/// The configuration of a seed that a test names, as it was when that was written.
fn without_added_types(seed: u64) -> Config {
    let mut config = Config::random(seed);
    for later in ["added_permille=0", "commands_permille=0", "sleeping_permille=0"] {
        config.set(later).expect("a setting");
    }
    config
}

/// Runs seeds as they drew themselves when they failed.
fn all_pass(seeds: &[u64]) {
    for seed in seeds {
        let options = SimOptions { config: Some(without_added_types(*seed)), ..SimOptions::seed(*seed) };
        run_with(&options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Bug of the simulator: a primary that was cut off took the place of the one that was cut off before it. Consequence: what was on its
/// way over a connection to the older one reached the shard, which knows nothing of that connection. Mend: each is there until it is
/// found to be gone.
#[test]
fn a_shard_may_have_two_stale_primaries() {
    all_pass(&[1_259_431]);
}

/// Bug: see `a_prepare_that_comes_again_after_a_refusal_does_not_commit` in `crates/core/tests/core/traps/simulated.rs`.
#[test]
fn what_is_refused_does_not_commit_without_phases() {
    all_pass(&[1_176_572, 1_288_787]);
}

/// Bug of the checker: see `what_vanishes_under_one_that_is_given_up_does_not_come_behind_it` in `crates/sim/src/check/tests.rs`.
#[test]
fn who_finds_nothing_comes_behind_nobody_who_was_given_up() {
    all_pass(&[1_276_944]);
}

/// Bug of the checker: a call was undone before its answer came, and came to its shard behind the prepare. Consequence: when the record
/// vanished, that was taken to come behind the transaction, and who found nothing was called wrong. Mend: what is undone and was not
/// answered uses no record.
#[test]
fn what_vanishes_does_not_come_behind_a_call_that_is_undone_and_late() {
    all_pass(&[26_243]);
}

/// Bug: a slot left as soon as nobody used a key of it, though its shard's replicas did not have what had been committed on it last.
/// Consequence: one of them was promoted, and what nobody had been told of was run again at the new owner, which had it. Mend: a
/// record goes when all that its shard has written is confirmed (S16).
#[test]
fn what_moves_between_shards_with_replicas_is_confirmed_before() {
    let mut moved = 0;
    for seed in [11, 271, 691, 807, 823] {
        let mut config = without_added_types(seed);
        let both = "replicated=true,external=true,direct=false,phasing=true,moves=12,restarts=3,survives=0";
        config.set(both).expect("settings");
        let options = SimOptions { config: Some(config), ..SimOptions::seed(seed) };
        moved += run_with(&options).unwrap_or_else(|failure| panic!("{failure}")).0.moved;
    }
    assert!(moved > 20, "{moved} slots moved");
}

/// Bug: a shard that had learned from the others that a transaction was final was silent when its coordinator, which had heard of no vote
/// there, asked again: it would be done soon. But it stood behind one that waited for a lock of the very transaction elsewhere, where
/// nobody knew that it was final. Consequence: all three waited for ever. Mend: it says its vote (P84).
#[test]
fn who_is_final_says_its_vote_when_it_is_asked_again() {
    all_pass(&[602_123]);
}

/// Bug: see `who_is_refused_until_others_must_have_stopped_stamps_again` in `crates/core/src/client/ways/ordered/mod.rs`.
#[test]
fn beside_a_shard_whose_clock_is_ahead_a_process_goes_on_with_timestamps() {
    all_pass(&[27_543]);
}

/// What is left of a failure fails in the same words, and its settings replay it.
#[test]
fn a_failure_is_made_small() {
    let config = Some(without_added_types(1));
    let options = SimOptions { plant: Plant::ForgeVote, shrink: true, config, ..SimOptions::seed(1) };
    let failure = run_with(&options).expect_err("a forged vote is caught");
    assert!(failure.reason.contains("not all have written yes"), "{}", failure.reason);
    assert!(failure.timeline.len() < 60, "{} lines", failure.timeline.len());
    let text = failure.to_string();
    let set = text.split(" --set ").nth(1).expect("it is another configuration than the seed's");
    let mut config = Config::random(1);
    config.set(set).expect("settings");
    let again = SimOptions { plant: Plant::ForgeVote, config: Some(config), ..SimOptions::seed(1) };
    assert_eq!(run_with(&again).expect_err("the same").reason, failure.reason);
}

#[test]
fn totals_are_sums() {
    let mut expected = Totals::default();
    let mut heard = Vec::new();
    let totals = run_many(5..8, |seed, outcome| {
        expected.add(outcome);
        heard.push(seed);
    });
    assert_eq!(totals.expect("they pass"), expected);
    assert_eq!(heard, [5, 6, 7]);
}

#[test]
fn a_failure_says_how_to_see_it_again() {
    let options = SimOptions { plant: Plant::ForgetEffects, ..SimOptions::seed(0) };
    let failure = run_with(&options).expect_err("a model that forgets is caught");
    let text = failure.to_string();
    assert!(text.contains("claret sim --seed 0") && text.contains("configuration"), "{text}");
    assert!(!failure.timeline.is_empty());
}

/// An optimistic transaction that undid what it has seen checks that, and a batch knows nothing of it.
#[test]
fn what_is_only_checked_leaves_in_no_batch() {
    all_pass(&[138]);
}

/// Bug: see `what_was_answered_and_cannot_be_done_any_more_has_changed` in `crates/core/tests/core/optimistic.rs`.
#[test]
fn a_look_says_that_what_was_answered_meanwhile_cannot_be_done() {
    for seed in [41_355, 41_977] {
        let mut config = without_added_types(seed);
        config.set("demands_permille=0").expect("a setting");
        let options = SimOptions { config: Some(config), ..SimOptions::seed(seed) };
        run_with(&options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
