//! TopK: it keeps the best in whatever order they come, and adds share the lock.

use claret_types::{Bytes, DataType, OpError, Reply, TopK, TopKOp};

use super::record::{execute, run, share, state_of, try_call};

fn full() -> <TopK as DataType>::State {
    state_of::<TopK>(&["TOPK.ADD 3 5 a", "TOPK.ADD 3 7 b", "TOPK.ADD 3 9 c"])
}

fn pairs(list: &[(&str, f64)]) -> Reply {
    let pair = |(member, score): &(&str, f64)| [Reply::Bytes(Bytes::from(*member)), Reply::Float(*score)];
    Reply::Array(list.iter().flat_map(pair).collect())
}

#[test]
fn the_best_are_kept_best_first() {
    let mut best = full();
    assert_eq!(run::<TopK>(&mut best, &["TOPK.LIST 10"]), pairs(&[("c", 9.0), ("b", 7.0), ("a", 5.0)]));
    assert_eq!(run::<TopK>(&mut best, &["TOPK.ADD 3 6 d", "TOPK.LIST 2"]), pairs(&[("c", 9.0), ("b", 7.0)]));
    assert_eq!(run::<TopK>(&mut best, &["TOPK.ADD 3 5 e", "TOPK.COUNT"]), Reply::Int(3));
    assert_eq!(run::<TopK>(&mut best, &["TOPK.ADD 3 11 d", "TOPK.MAX"]), pairs(&[("d", 11.0)]));
    assert_eq!(
        run::<TopK>(&mut best, &["TOPK.ADD 3 1 d", "TOPK.LIST 3"]),
        pairs(&[("d", 11.0), ("c", 9.0), ("b", 7.0)])
    );
    assert_eq!(run::<TopK>(&mut Default::default(), &["TOPK.MAX"]), Reply::Nil);
}

#[test]
fn equal_scores_fall_out_bytewise() {
    let lines = ["TOPK.ADD 2 5 x", "TOPK.ADD 2 5 z", "TOPK.ADD 2 5 y"];
    let expected = state_of::<TopK>(&lines);
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(state_of::<TopK>(&order.map(|i| lines[i])), expected);
    }
    let best = run::<TopK>(&mut expected.clone(), &["TOPK.LIST 2"]);
    assert_eq!(best, pairs(&[("z", 5.0), ("y", 5.0)]));
}

#[test]
fn all_adds_share_the_lock() {
    let adds = ["TOPK.ADD 3 6 d", "TOPK.ADD 3 8 d", "TOPK.ADD 3 99 e", "TOPK.ADD 3 1 a", "TOPK.ADD 3 6 a"];
    assert!(share::<TopK>(&full(), &adds));
    assert!(share::<TopK>(&Default::default(), &adds));
}

#[test]
fn creations_with_different_capacities_conflict() {
    for other in [1, 2, 4, 7, 259, 65_535] {
        let line = format!("TOPK.ADD {other} 1 a");
        assert!(!share::<TopK>(&Default::default(), &["TOPK.ADD 3 1 a", &line]), "{other}");
    }
}

#[test]
fn another_capacity_is_refused_naming_both() {
    let Err(OpError::Mismatch(message)) = execute::<TopK>(&full(), "TOPK.ADD 20 1 a") else {
        panic!("refused")
    };
    assert!(message.contains('3') && message.contains("20"), "{message}");
}

#[test]
fn what_changes_nothing_commutes_with_all_reads() {
    let best = full();
    let reads = ["TOPK.LIST 3", "TOPK.MAX", "TOPK.COUNT"];
    for inert in ["TOPK.ADD 3 5 a", "TOPK.ADD 3 2 a", "TOPK.ADD 3 4 z", "TOPK.ADD 3 9 c"] {
        assert!(share::<TopK>(&best, &[inert, reads[0], reads[1], reads[2]]), "{inert}");
    }
}

#[test]
fn reads_conflict_with_what_they_see() {
    let best = full();
    assert!(share::<TopK>(&best, &["TOPK.MAX", "TOPK.LIST 1", "TOPK.ADD 3 8 d", "TOPK.COUNT"]));
    assert!(!share::<TopK>(&best, &["TOPK.MAX", "TOPK.ADD 3 10 d"]));
    assert!(!share::<TopK>(&best, &["TOPK.MAX", "TOPK.ADD 3 9 d"]), "a tie goes to the greater member");
    assert!(share::<TopK>(&best, &["TOPK.MAX", "TOPK.ADD 3 9 a"]), "a tie goes to the greater member");
    assert!(!share::<TopK>(&best, &["TOPK.LIST 2", "TOPK.ADD 3 6 d"]));
    let open = state_of::<TopK>(&["TOPK.ADD 3 5 a"]);
    assert!(!share::<TopK>(&open, &["TOPK.COUNT", "TOPK.ADD 3 1 d"]));
    assert!(share::<TopK>(&open, &["TOPK.COUNT", "TOPK.ADD 3 8 a"]));
    assert!(!share::<TopK>(&Default::default(), &["TOPK.COUNT", "TOPK.ADD 3 8 a"]));
    assert!(!share::<TopK>(&Default::default(), &["TOPK.MAX", "TOPK.ADD 3 8 a"]));
}

#[test]
fn arguments_are_checked_by_name() {
    let message = |line| try_call::<TopK>(line).expect_err("refused").to_string();
    assert!(message("TOPK.ADD 0 1 a").contains("a capacity cannot be 0"));
    assert!(message("TOPK.ADD 65536 1 a").contains("65536"));
    assert!(message("TOPK.ADD ten 1 a").contains("'ten'"));
    assert_eq!(try_call::<TopK>("TOPK.ADD 3 nan a"), Err(OpError::NotANumber("score".into())));
    let built = TopKOp::Add { capacity: 3, score: f64::NAN, member: "a".into() };
    assert_eq!(TopK::check(&built), Err(OpError::NotANumber("score".into())));
}
