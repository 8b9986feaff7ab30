//! SummaryBag: what is kept, and which adds share the lock with which reads.

use claret_types::{DataType, OpError, Reply, SummaryBag, SummaryBagOp};

use super::record::{execute, granted, run, share, state_of, try_call};

#[test]
fn the_summary_is_that_of_the_values() {
    let mut bag = state_of::<SummaryBag>(&["BAG.ADD 4", "BAG.ADD -1.5", "BAG.ADD 2"]);
    let parts = vec![Reply::Int(3), Reply::Float(4.5), Reply::Float(-1.5), Reply::Float(4.0)];
    assert_eq!(run::<SummaryBag>(&mut bag, &["BAG.SUMMARY"]), Reply::Array(parts));
    assert_eq!(run::<SummaryBag>(&mut bag, &["BAG.MEAN"]), Reply::Float(1.5));
}

#[test]
fn an_empty_bag_has_no_least_and_no_mean() {
    let answer = |line| execute::<SummaryBag>(&Default::default(), line).expect("succeeds").reply;
    assert_eq!(answer("BAG.COUNT"), Reply::Int(0));
    assert_eq!(answer("BAG.SUM"), Reply::Float(0.0));
    for line in ["BAG.MEAN", "BAG.MIN", "BAG.MAX"] {
        assert_eq!(answer(line), Reply::Nil, "{line}");
    }
}

#[test]
fn integers_are_added_together_and_fractions_one_by_one() {
    let whole = state_of::<SummaryBag>(&["BAG.ADD 5"]);
    assert!(share::<SummaryBag>(&whole, &["BAG.ADD 1", "BAG.ADD 9", "BAG.ADD -3", "BAG.ADD 9"]));
    assert!(share::<SummaryBag>(&Default::default(), &["BAG.ADD 1", "BAG.ADD 9"]));
    assert!(!share::<SummaryBag>(&whole, &["BAG.ADD 0.1", "BAG.ADD 0.2"]));
    assert!(!share::<SummaryBag>(&whole, &["BAG.ADD 0.1", "BAG.ADD 1"]));
    let fraction = state_of::<SummaryBag>(&["BAG.ADD 0.1"]);
    assert!(!share::<SummaryBag>(&fraction, &["BAG.ADD 1", "BAG.ADD 2"]));
    let half = "BAG.ADD 2251799813685248";
    assert_eq!(granted::<SummaryBag>(&whole, &[half, half, half]), [true, true, false]);
}

#[test]
fn reads_conflict_with_what_they_see() {
    let bag = state_of::<SummaryBag>(&["BAG.ADD 1", "BAG.ADD 5"]);
    assert!(share::<SummaryBag>(&bag, &["BAG.MIN", "BAG.MAX", "BAG.ADD 1", "BAG.ADD 3", "BAG.ADD 5"]));
    assert!(share::<SummaryBag>(&bag, &["BAG.MIN", "BAG.ADD 9"]));
    assert!(share::<SummaryBag>(&bag, &["BAG.MAX", "BAG.ADD 0"]));
    assert!(!share::<SummaryBag>(&bag, &["BAG.MIN", "BAG.ADD 0"]));
    assert!(!share::<SummaryBag>(&bag, &["BAG.MAX", "BAG.ADD 9"]));
    for read in ["BAG.COUNT", "BAG.SUM", "BAG.MEAN", "BAG.SUMMARY"] {
        assert!(!share::<SummaryBag>(&bag, &[read, "BAG.ADD 3"]), "{read}");
        assert!(!share::<SummaryBag>(&bag, &[read, "BAG.ADD 3.5"]), "{read}");
    }
    assert!(!share::<SummaryBag>(&Default::default(), &["BAG.MIN", "BAG.ADD 3"]));
}

#[test]
fn values_that_have_no_sum_are_refused() {
    assert_eq!(try_call::<SummaryBag>("BAG.ADD nan"), Err(OpError::NotANumber("value".into())));
    assert_eq!(SummaryBag::check(&SummaryBagOp::Add(f64::NAN)), Err(OpError::NotANumber("value".into())));
    assert!(SummaryBag::check(&SummaryBagOp::Add(f64::NEG_INFINITY)).is_err());
    assert!(try_call::<SummaryBag>("BAG.ADD many").expect_err("refused").to_string().contains("'many'"));
    let huge = state_of::<SummaryBag>(&["BAG.ADD 1.7e308"]);
    let sum = execute::<SummaryBag>(&huge, "BAG.ADD 1.7e308").map(|execution| execution.reply);
    assert!(matches!(&sum, Err(OpError::Overflow(what, _)) if what == "the sum"), "{sum:?}");
}
