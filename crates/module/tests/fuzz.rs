//! A few seconds of each fuzzer of the module's edge; `examples/fuzz_server.rs` runs them for longer.

mod common;
mod fuzzing;

use fuzzing::{Options, Target};

/// Fuzzes a little.
fn a_share(target: Target, executions: u64, nodes: usize) {
    let options = Options { seed: 1, executions, server: None, nodes, is_loud: false };
    let (progress, found) = fuzzing::run(target, &options);
    if let Some(finding) = found {
        panic!("after {} executions: {}", progress.done, finding.text());
    }
    assert!(progress.done >= executions, "{progress:?}");
}

#[test]
fn commands_of_a_user_with_few_rights_harm_nobody() {
    a_share(Target::Commands, 30_000, 1);
}

#[test]
fn nor_do_they_where_a_second_node_votes() {
    a_share(Target::Commands, 20_000, 2);
}
