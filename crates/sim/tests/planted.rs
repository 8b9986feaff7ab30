//! Every bug that can be planted in the protocol is noticed by the simulator, within a bounded number of seeds.
//!
//! `cargo test --workspace --locked --test planted`

use std::sync::Mutex;

use claret_sim::{Bug, hunt};

/// Some bugs need a rare configuration: `examples/planted.rs` prints how many seeds each takes.
const SEEDS_MAX: u64 = 4_000;

/// Where the search begins, and begins again.
const STARTS: [u64; 3] = [0, 100_000, 200_000];

#[test]
fn every_planted_bug_is_noticed() {
    let bugs = Mutex::new(Bug::all().into_iter());
    let missed = Mutex::new(Vec::new());
    let hunt = || {
        while let Some(bug) = next(&bugs) {
            if STARTS.iter().all(|start| hunt::first_failure(bug, *start, SEEDS_MAX).is_none()) {
                missed.lock().expect("no thread panics").push(bug.name());
            }
        }
    };
    hunt::silently(|| {
        std::thread::scope(|scope| {
            scope.spawn(hunt);
            scope.spawn(hunt);
        });
    });
    let missed = missed.into_inner().expect("no thread panics");
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}

fn next(bugs: &Mutex<std::vec::IntoIter<Bug>>) -> Option<Bug> {
    bugs.lock().expect("no thread panics").next()
}
