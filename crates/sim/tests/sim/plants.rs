//! Faults planted on purpose: a check that cannot fail proves nothing.

use claret_sim::{Plant, SimOptions, run_with};

/// The reasons for which seeds fail under a plant, and how many seeds were run.
fn reasons(plant: Plant, seeds: u64) -> Vec<String> {
    let run = |seed| run_with(&SimOptions { plant, ..SimOptions::seed(seed) });
    (0..seeds).filter_map(|seed| run(seed).err()).map(|failure| failure.reason).collect()
}

fn count(reasons: &[String], part: &str) -> usize {
    reasons.iter().filter(|reason| reason.contains(part)).count()
}

/// Effects of a committed transaction that are lost show in a later answer or in the records at the end; where
/// recovery comes in time it mends them, so not every seed fails.
#[test]
fn a_lost_apply_is_noticed() {
    let reasons = reasons(Plant::ForgeApplied, 60);
    let signs = ["should be", "has written yes", "never saw it"];
    let seen: usize = signs.iter().map(|sign| count(&reasons, sign)).sum();
    assert!(seen >= 5, "{reasons:?}");
}

#[test]
fn a_forged_vote_is_noticed() {
    let reasons = reasons(Plant::ForgeVote, 30);
    assert!(count(&reasons, "not all have written yes") >= 10, "{reasons:?}");
}

#[test]
fn a_wrong_answer_is_noticed() {
    let reasons = reasons(Plant::AlterAnswers, 30);
    assert!(count(&reasons, "should be") >= 8, "{reasons:?}");
}

#[test]
fn a_wrong_model_is_noticed() {
    let reasons = reasons(Plant::ForgetEffects, 30);
    assert!(count(&reasons, "should be") >= 20, "{reasons:?}");
}

#[test]
fn a_shard_that_never_answers_is_noticed() {
    // Two of them have hardly anything there.
    let reasons = reasons(Plant::SilenceShard, 6);
    assert!(reasons.len() >= 4, "{reasons:?}");
}
