//! Runs seeds with a bug planted until one fails, and names the check that noticed.

use crate::{Bug, SimOptions, run, run_with};

/// A bug was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catch {
    /// By this seed.
    pub seed: u64,
    /// After so many seeds, this one included.
    pub seeds: u64,
    /// By which check.
    pub check: &'static str,
    /// In its words.
    pub reason: String,
}

/// What a check says, and which it is. The first that fits counts.
const CHECKS: [(&str, &str); 40] = [
    ("an assertion does not hold", "invariant"),
    ("no order explains the results", "results alone"),
    ("no order has both", "results alone"),
    ("which nobody wrote", "results alone"),
    ("and gave up", "results alone"),
    ("does not see its own", "results alone"),
    ("before it writes it", "results alone"),
    ("hears that it committed, and not all have written yes", "user told too early"),
    ("hears that it is void, and it is committed", "told void, is committed"),
    ("its user was told that it is void", "told void, is committed"),
    ("hears that its end is unknown", "told unknown"),
    ("to one who asks", "one who asks is told wrong"),
    ("applies, and not all have written yes", "applied too early"),
    ("commits, and so did", "two attempts commit"),
    ("says no and has written yes", "register written twice"),
    ("says yes and has written no", "register written twice"),
    ("never saw it", "lost operation"),
    ("and then", "answer changed"),
    ("its user heard", "user hears two ends"),
    ("was given out twice", "unique numbers"),
    ("vanished, and it never did", "untrue refusal"),
    ("ended by its time at", "ended early"),
    ("does not know its answers", "answers forgotten early"),
    ("ends as", "final records"),
    ("was refused for", "untrue error"),
    ("cannot be done", "replay"),
    ("should be", "replay"),
    ("ends with", "left behind"),
    ("and no answer to", "answer missing"),
    ("which is dead, beyond the bound", "locks of the dead"),
    ("not done after", "not finished"),
    ("nothing will happen any more", "not finished"),
    ("begins without a heartbeat", "connection begins wrong"),
    ("and it lives", "living taken for over"),
    ("frames, and", "frames miscounted"),
    ("a reply that nobody waits for", "frames miscounted"),
    ("hears that it failed, and no shard", "untrue error"),
    ("and takes", "old connection takes"),
    ("in its name was taken", "taken though over"),
    ("", "other"),
];

/// The first of `limit` seeds from `start` that fails with the bug. One that fails without it shows nothing.
pub fn first_failure(bug: Bug, start: u64, limit: u64) -> Option<Catch> {
    (0..limit).find_map(|at| {
        let options = SimOptions { plant: bug.plant(), ..SimOptions::seed(start + at) };
        let reason = run_with(&options).err().filter(|_| run(options.seed).is_ok())?.reason;
        let (_, check) =
            CHECKS.iter().find(|(part, _)| reason.contains(part)).expect("the last one fits all");
        Some(Catch { seed: start + at, seeds: at + 1, check, reason })
    })
}

/// Runs it without the messages of panics: they are failures that were looked for, and would drown the rest.
pub fn silently<T>(run: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let done = run();
    std::panic::set_hook(hook);
    done
}
