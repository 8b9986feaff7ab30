//! The guide "Write a type" shows what is checked here: the type, its report, and the counterexample of a mistake.

use std::process::Command;

use claret::types::oracle::{self, Bounds};
use claret::types::{
    Arguments, Bytes, Claims, DataType, Examples, Execution, Few, Method, Modes, OpError, Unique,
};

use crate::high_water::{HighWater, HighWaterEffect, HighWaterOp};

const GUIDE: &str = include_str!("../../../../docs/howto/write-a-type.md");

/// The mistake of the guide: an effect that says what the mark is, and not what to do with it.
struct Overwriting;

impl DataType for Overwriting {
    const NAME: &'static str = HighWater::NAME;
    const SUMMARY: &'static str = HighWater::SUMMARY;
    const NATIVE: &'static str = HighWater::NATIVE;
    const MODES: Modes = HighWater::MODES;
    const METHODS: &'static [Method] = HighWater::METHODS;

    type State = Option<i64>;
    type Op = HighWaterOp;
    type Effect = HighWaterEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<HighWaterOp, OpError> {
        HighWater::parse(method, given)
    }

    fn method(op: &HighWaterOp) -> &'static Method {
        HighWater::method(op)
    }

    fn arguments(op: &HighWaterOp) -> Few<Bytes> {
        HighWater::arguments(op)
    }

    fn is_absent(mark: &Option<i64>) -> bool {
        HighWater::is_absent(mark)
    }

    fn footprint(op: &HighWaterOp) -> Claims {
        HighWater::footprint(op)
    }

    fn execute(
        mark: &Option<i64>,
        op: &HighWaterOp,
        unique: Unique,
    ) -> Result<Execution<HighWaterEffect>, OpError> {
        HighWater::execute(mark, op, unique)
    }

    fn apply(mark: &mut Option<i64>, effect: HighWaterEffect) -> HighWaterEffect {
        let before = *mark;
        *mark = match effect {
            HighWaterEffect::Raise(number) => Some(number),
            HighWaterEffect::Restore(mark) => mark,
        };
        HighWaterEffect::Restore(before)
    }
}

impl Examples for Overwriting {
    fn states() -> Vec<Option<i64>> {
        HighWater::states()
    }

    fn operations() -> Vec<HighWaterOp> {
        HighWater::operations()
    }
}

/// What the guide shows between these fences.
fn blocks(fence: &str) -> Vec<&'static str> {
    let mut blocks = GUIDE.split(&format!("\n{fence}\n")).collect::<Vec<_>>();
    blocks.remove(0);
    blocks.into_iter().map(|block| block.split("\n```").next().expect("the end of the block")).collect()
}

#[test]
fn the_guide_shows_every_line_of_the_type() {
    let source = include_str!("../../src/commands/high_water.rs");
    let shown: String = blocks("```rust,ignore").join("\n");
    let in_tables = |line: &str| GUIDE.contains(line.trim_start_matches("//! ").trim_start_matches("//!"));
    for line in source.lines().filter(|line| !line.trim().is_empty()) {
        let is_import = source
            .find("use claret")
            .is_some_and(|from| source[from..source.find("/// The type.").expect("the type")].contains(line));
        let is_shown = shown.contains(line)
            || is_import
            || (line.starts_with("//!") && !line.contains('|'))
            || in_tables(line);
        assert!(is_shown, "the guide lacks: {line}");
    }
    let in_use = include_str!("high_water_in_use.rs");
    for block in blocks("```rust,ignore") {
        let is_a_test = block.contains("#[test]");
        assert!(is_a_test || source.contains(block) || in_use.contains(block), "nobody compiles:\n{block}");
    }
}

#[test]
fn check_type_shows_the_report_of_the_guide() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_claret")).args(["check-type", "--example"]).output().expect("run");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{said}");
    let report = blocks("```text")[0];
    assert!(said.contains(report), "the guide has another report than:\n{said}");
}

#[test]
fn a_mistake_shows_the_counterexample_of_the_guide() {
    let report = oracle::check::<Overwriting>(Bounds::default()).to_string();
    assert!(report.contains("REFUSED"), "{report}");
    assert_eq!(blocks("```text")[1], report, "the guide has another counterexample");
}
