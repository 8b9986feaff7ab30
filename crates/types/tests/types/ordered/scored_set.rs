//! ScoredSet: answers as Redis gives them, and which operations share the lock.

use claret_types::{Bytes, DataType, OpError, Reply, ScoreBound, ScoredSet, ScoredSetOp};

use super::record::{execute, granted, run, share, state_of, try_call};

type State = <ScoredSet as DataType>::State;

fn four() -> State {
    state_of::<ScoredSet>(&["ZADD 2 b 1 a 3 c 3 cc"])
}

fn answer(state: &State, line: &str) -> Reply {
    execute::<ScoredSet>(state, line).expect("succeeds").reply
}

fn listed(state: &State, line: &str) -> String {
    let Reply::Array(items) = answer(state, line) else { panic!("a list") };
    let shown = |item: &Reply| match item {
        Reply::Bytes(member) => member.to_string(),
        Reply::Float(score) => score.to_string(),
        other => panic!("{other}"),
    };
    items.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn ranges_by_position_are_those_of_redis() {
    let set = four();
    let cases = [
        ("ZRANGE 0 -1", "a b c cc"),
        ("ZRANGE 0 -1 REV", "cc c b a"),
        ("ZRANGE 0 0", "a"),
        ("ZRANGE 0 0 REV WITHSCORES", "cc 3"),
        ("ZRANGE -2 -1 withscores", "c 3 cc 3"),
        ("ZRANGE 1 2", "b c"),
        ("ZRANGE 1 2 REV", "c b"),
        ("ZRANGE -100 1", "a b"),
        ("ZRANGE 3 100", "cc"),
        ("ZRANGE 4 5", ""),
        ("ZRANGE 2 1", ""),
    ];
    for (line, expected) in cases {
        assert_eq!(listed(&set, line), expected, "{line}");
    }
    assert_eq!(listed(&State::default(), "ZRANGE 0 -1"), "");
}

#[test]
fn ranges_by_score_are_those_of_redis() {
    let set = state_of::<ScoredSet>(&["ZADD 2 b 1 a 3 c inf z -inf m"]);
    let cases = [
        ("ZRANGEBYSCORE -inf +inf", "m a b c z"),
        ("ZRANGEBYSCORE (-inf (inf", "a b c"),
        ("ZRANGEBYSCORE 1 2", "a b"),
        ("ZRANGEBYSCORE (1 2 WITHSCORES", "b 2"),
        ("ZRANGEBYSCORE 2 1", ""),
        ("ZRANGEBYSCORE (2 (2", ""),
    ];
    for (line, expected) in cases {
        assert_eq!(listed(&set, line), expected, "{line}");
    }
    assert_eq!(answer(&set, "ZCOUNT (1 inf"), Reply::Int(3));
}

#[test]
fn members_are_counted_and_found() {
    let mut set = four();
    assert_eq!(answer(&set, "ZADD.RETURNING 9 a 1 x 2 x"), Reply::Int(1));
    assert_eq!(run::<ScoredSet>(&mut set, &["ZADD 9 a 1 x 2 x", "ZSCORE x"]), Reply::Float(2.0));
    assert_eq!(answer(&set, "ZCARD"), Reply::Int(5));
    assert_eq!(answer(&set, "ZRANK a"), Reply::Int(4));
    assert_eq!(answer(&set, "ZRANK nobody"), Reply::Nil);
    assert_eq!(answer(&set, "ZREM.RETURNING a nobody a"), Reply::Int(1));
    assert_eq!(run::<ScoredSet>(&mut set, &["ZREM a nobody", "ZSCORE a"]), Reply::Nil);
    assert_eq!(
        run::<ScoredSet>(&mut set, &["ZINCRBY 2 new", "ZINCRBY.RETURNING -0.5 new"]),
        Reply::Float(1.5)
    );
}

#[test]
fn nan_is_refused_by_name() {
    assert_eq!(try_call::<ScoredSet>("ZADD nan x"), Err(OpError::NotANumber("score".into())));
    assert_eq!(try_call::<ScoredSet>("ZINCRBY nan x"), Err(OpError::NotANumber("increment".into())));
    let member = Bytes::from("x");
    let built = ScoredSetOp::Add([(member.clone(), 1.0), (member.clone(), f64::NAN)].into_iter().collect());
    assert_eq!(ScoredSet::check(&built), Err(OpError::NotANumber("score".into())));
    let built = ScoredSetOp::IncrementReturning { by: f64::NAN, member };
    assert_eq!(ScoredSet::check(&built), Err(OpError::NotANumber("increment".into())));
    let (min, max) = (ScoreBound::Included(0.0), ScoreBound::Excluded(f64::NAN));
    assert!(ScoredSet::check(&ScoredSetOp::Count { min, max }).is_err());
    let infinite = state_of::<ScoredSet>(&["ZADD inf x"]);
    let sum = execute::<ScoredSet>(&infinite, "ZINCRBY -inf x").map(|execution| execution.reply);
    assert!(matches!(sum, Err(OpError::NotANumber(_))), "{sum:?}");
}

#[test]
fn wrong_arguments_are_named() {
    let message = |line| try_call::<ScoredSet>(line).expect_err("refused").to_string();
    assert!(message("ZADD high x").contains("'high'"));
    assert!(message("ZRANGE 0 -1 BYLEX").contains("'BYLEX' is not REV or WITHSCORES"));
    assert!(message("ZRANGEBYSCORE (low 3").contains("'(low'"));
    assert!(message("ZADD 1 x 2").contains("score member [score member ...]"));
    assert!(message("ZFOO 1").contains("'ZFOO'"));
}

#[test]
fn a_zero_has_one_sign() {
    let set = state_of::<ScoredSet>(&["ZADD -0 x"]);
    assert_eq!(set, state_of::<ScoredSet>(&["ZADD 0 x"]));
    assert!(share::<ScoredSet>(&set, &["ZADD 0 x", "ZADD -0 x", "ZSCORE x"]));
}

#[test]
fn different_members_do_not_conflict() {
    let set = four();
    assert!(share::<ScoredSet>(
        &set,
        &["ZADD 5 x", "ZADD 6 y", "ZADD 9 a", "ZREM b", "ZSCORE c", "ZINCRBY 1 cc"]
    ));
}

#[test]
fn scores_of_one_member_conflict_unless_pinned() {
    let set = four();
    assert!(!share::<ScoredSet>(&set, &["ZADD 5 x", "ZADD 6 x"]));
    assert!(!share::<ScoredSet>(&set, &["ZADD 5 a", "ZADD 6 a"]));
    assert!(!share::<ScoredSet>(&set, &["ZADD 5 a", "ZSCORE a"]));
    assert!(share::<ScoredSet>(&set, &["ZADD 1 a", "ZADD.RETURNING 1 a", "ZSCORE a", "ZRANGE 0 -1"]));
    assert!(share::<ScoredSet>(&set, &["ZREM a", "ZREM a"]));
    assert!(!share::<ScoredSet>(&set, &["ZREM a", "ZREM.RETURNING a"]));
}

#[test]
fn the_cardinality_commutes_with_new_scores() {
    let set = four();
    assert!(share::<ScoredSet>(
        &set,
        &["ZCARD", "ZADD 9 a", "ZINCRBY 1 b", "ZINCRBY.RETURNING 1 c", "ZREM x"]
    ));
    for line in ["ZADD 9 x", "ZREM a", "ZINCRBY 1 x", "ZREM.RETURNING a"] {
        assert!(!share::<ScoredSet>(&set, &["ZCARD", line]), "{line}");
    }
    for line in ["ZADD 9 a", "ZINCRBY 1 b"] {
        assert!(!share::<ScoredSet>(&set, &["ZRANGE 0 0", line]), "{line}");
    }
}

#[test]
fn increments_of_one_member_share_while_exact() {
    let set = state_of::<ScoredSet>(&["ZADD 1 x 0.5 h"]);
    assert!(share::<ScoredSet>(&set, &["ZINCRBY 1 x", "ZINCRBY -2 x", "ZINCRBY 1 x"]));
    assert!(share::<ScoredSet>(&set, &["ZINCRBY 1 n", "ZINCRBY 2 n"]));
    assert!(!share::<ScoredSet>(&set, &["ZINCRBY 0.1 x", "ZINCRBY 1 x"]));
    assert!(!share::<ScoredSet>(&set, &["ZINCRBY 1 h", "ZINCRBY 1 h"]));
    assert!(!share::<ScoredSet>(&set, &["ZINCRBY.RETURNING 1 x", "ZINCRBY 1 x"]));
    assert!(share::<ScoredSet>(&set, &["ZINCRBY 0.1 x", "ZINCRBY 0.1 h"]));
}

#[test]
fn three_increments_that_fit_in_pairs_do_not_fit_together() {
    let set = state_of::<ScoredSet>(&["ZADD 1 x"]);
    let half = "ZINCRBY 2251799813685248 x";
    assert_eq!(granted::<ScoredSet>(&set, &[half, half, half]), [true, true, false]);
}
