//! Runs seeds with a bug planted until one fails, and names the check that noticed.

use claret_core::Bug;

use crate::{Plant, SimOptions, run_with};

/// A bug was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catch {
    /// After so many seeds, the failing one included.
    pub seeds: u64,
    /// By which check.
    pub check: &'static str,
    /// In its words.
    pub reason: String,
}

/// What a check says, and which it is. The first that fits counts.
const CHECKS: [(&str, &str); 16] = [
    ("an assertion does not hold", "invariant"),
    ("hears that it committed, and not all have written yes", "user told too early"),
    ("hears that it is void, and it is committed", "user told a committed attempt is void"),
    ("two attempts commit", "two attempts commit"),
    ("says no and has written yes", "register written twice"),
    ("says yes and has written no", "register written twice"),
    ("and then", "answer changed"),
    ("its user heard", "user heard another answer"),
    ("was given out twice", "unique numbers"),
    ("cannot be done", "replay of answers"),
    ("was answered", "replay of answers"),
    ("ends as", "final records"),
    ("ends with", "left behind"),
    ("not done after", "not finished"),
    ("nothing will happen any more", "not finished"),
    ("", "other"),
];

/// The first of `limit` seeds from `start` that fails with the bug.
pub fn first_failure(bug: Bug, start: u64, limit: u64) -> Option<Catch> {
    (0..limit).find_map(|at| {
        let options = SimOptions { plant: Plant::Bug(bug), ..SimOptions::seed(start + at) };
        let reason = run_with(&options).err()?.reason;
        let (_, check) =
            CHECKS.iter().find(|(part, _)| reason.contains(part)).expect("the last one fits all");
        Some(Catch { seeds: at + 1, check, reason })
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
