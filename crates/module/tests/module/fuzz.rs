//! A few seconds of each fuzzer of the module's edge; `examples/fuzz_server.rs` runs them for longer.

use crate::fuzzing::{Options, Target};

/// Fuzzes a little.
fn a_share(target: Target, executions: u64, nodes: usize) {
    let options = Options { seed: 1, executions, server: None, nodes, is_loud: false };
    let (progress, found) = crate::fuzzing::run(target, &options);
    if let Some(finding) = found {
        panic!("after {} executions: {}", progress.done, finding.text());
    }
    assert!(progress.done >= executions, "{progress:?}");
}

#[test]
fn commands_of_a_user_with_few_rights_harm_nobody() {
    a_share(Target::Commands, 20_000, 1);
}

#[test]
fn nor_do_they_where_a_second_node_votes() {
    a_share(Target::Commands, 10_000, 2);
}

#[test]
fn dumps_that_mean_nothing_are_refused_or_used() {
    a_share(Target::Dumps, 20_000, 1);
}

#[test]
fn a_damaged_file_of_a_strict_node_is_loaded_or_refused() {
    a_share(Target::Files, 10_000, 1);
}
