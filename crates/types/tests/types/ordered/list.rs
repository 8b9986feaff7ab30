//! List: answers as Redis gives them, and how the two ends share the lock.

use claret_types::{DataType, List, Reply};

use super::record::{execute, granted, run, share, state_of, try_call};

type State = <List as DataType>::State;

fn list(values: &str) -> State {
    values.split_whitespace().map(|value| value.into()).collect()
}

fn listed(state: &State, line: &str) -> String {
    let Reply::Array(items) = execute::<List>(state, line).expect("succeeds").reply else { panic!("a list") };
    items.into_iter().map(|item| item.to_string().replace('"', "")).collect()
}

#[test]
fn values_go_in_and_out_at_both_ends() {
    let mut values = State::default();
    assert_eq!(run::<List>(&mut values, &["RPUSH b c", "LPUSH.RETURNING a z"]), Reply::Int(4));
    assert_eq!(values, list("z a b c"));
    assert_eq!(run::<List>(&mut values, &["LPOP"]), Reply::Bytes("z".into()));
    assert_eq!(run::<List>(&mut values, &["RPOP"]), Reply::Bytes("c".into()));
    assert_eq!(run::<List>(&mut values, &["LLEN"]), Reply::Int(2));
    assert_eq!(run::<List>(&mut values, &["LPOP", "LPOP", "LPOP"]), Reply::Nil);
    assert!(List::is_absent(&values));
}

#[test]
fn positions_are_those_of_redis() {
    let values = list("a b c d");
    let cases = [
        ("LRANGE 0 -1", "abcd"),
        ("LRANGE 1 2", "bc"),
        ("LRANGE -3 -2", "bc"),
        ("LRANGE -100 100", "abcd"),
        ("LRANGE 3 1", ""),
        ("LRANGE 4 9", ""),
        ("LRANGE 0 -5", ""),
    ];
    for (line, expected) in cases {
        assert_eq!(listed(&values, line), expected, "{line}");
    }
    for (index, expected) in
        [(0, Some("a")), (3, Some("d")), (4, None), (-1, Some("d")), (-4, Some("a")), (-5, None)]
    {
        let reply = execute::<List>(&values, &format!("LINDEX {index}")).expect("succeeds").reply;
        assert_eq!(reply, expected.map_or(Reply::Nil, |value| Reply::Bytes(value.into())), "{index}");
    }
}

#[test]
fn two_ends_pop_while_values_are_left_for_both() {
    assert!(share::<List>(&list("a b"), &["LPOP", "RPOP"]));
    assert!(!share::<List>(&list("a"), &["LPOP", "RPOP"]));
    assert!(!share::<List>(&list("a b c"), &["LPOP", "LPOP"]));
    assert!(!share::<List>(&list("a b c"), &["RPOP", "RPOP"]));
}

#[test]
fn a_pending_push_gives_nothing_to_pop() {
    assert_eq!(granted::<List>(&list("a"), &["RPUSH b", "LPOP", "LPOP"]), [true, true, false]);
    assert!(!share::<List>(&list(""), &["RPUSH b", "LPOP"]));
    assert!(share::<List>(&list(""), &["LPOP", "RPOP", "LLEN"]));
}

#[test]
fn producers_and_consumers_share_a_queue_that_is_not_empty() {
    assert!(share::<List>(&list("a"), &["RPUSH b", "LPOP"]));
    assert!(!share::<List>(&list("a b"), &["LPUSH b", "LPOP"]), "a stack has one end");
    assert!(!share::<List>(&list("a"), &["RPUSH b", "RPUSH c"]), "their order shows");
    assert!(share::<List>(&list(""), &["LPUSH b", "RPUSH c"]));
    assert!(!share::<List>(&list("a"), &["LPUSH.RETURNING b", "RPUSH c"]));
}

#[test]
fn reads_of_one_end_ignore_pushes_at_the_other() {
    let values = list("a b");
    assert!(share::<List>(&values, &["LINDEX 0", "LRANGE 0 1", "RPUSH c"]));
    assert!(share::<List>(&values, &["LINDEX -1", "LRANGE -2 -1", "LPUSH c"]));
    assert!(!share::<List>(&values, &["LRANGE 0 2", "RPUSH c"]));
    assert!(!share::<List>(&values, &["LINDEX 2", "RPUSH c"]));
    assert!(!share::<List>(&values, &["LINDEX -3", "LPUSH c"]));
    assert!(!share::<List>(&values, &["LRANGE 0 -1", "RPUSH c"]));
    assert!(!share::<List>(&values, &["LINDEX 0", "LPUSH c"]));
    assert!(!share::<List>(&values, &["LINDEX 1", "RPOP"]));
    for change in ["LPUSH c", "RPUSH c", "LPOP", "RPOP"] {
        assert!(!share::<List>(&values, &["LLEN", change]), "{change}");
    }
}

#[test]
fn an_effect_names_what_it_takes() {
    let mut values = list("a b");
    let pop = execute::<List>(&values, "LPOP").expect("succeeds").effect.expect("takes");
    run::<List>(&mut values, &["RPOP", "RPUSH c"]);
    let undo = List::apply(&mut values, pop);
    assert_eq!(values, list("c"));
    List::apply(&mut values, undo);
    assert_eq!(values, list("a c"));
}

#[test]
#[should_panic(expected = "held since the value was at this end")]
fn a_value_that_is_not_there_is_never_taken_for_another() {
    let mut values = list("a b");
    let pop = execute::<List>(&values, "LPOP").expect("succeeds").effect.expect("takes");
    run::<List>(&mut values, &["LPOP"]);
    List::apply(&mut values, pop);
}

#[test]
fn several_values_are_undone_in_order() {
    for line in ["LPUSH x y z", "RPUSH x y z"] {
        let mut values = list("a b");
        let push = execute::<List>(&values, line).expect("succeeds").effect.expect("puts");
        let undo = List::apply(&mut values, push);
        let pushed = values.clone();
        let redo = List::apply(&mut values, undo);
        assert_eq!(values, list("a b"), "{line}");
        List::apply(&mut values, redo);
        assert_eq!(values, pushed, "{line}");
    }
    assert_eq!(state_of::<List>(&["LPUSH x y z"]), list("z y x"));
}

#[test]
fn wrong_arguments_are_named() {
    let message = |line| try_call::<List>(line).expect_err("refused").to_string();
    assert!(message("LRANGE 0 end").contains("'end'"));
    assert!(message("LINDEX first").contains("'first'"));
    assert!(message("RPUSH").contains("value [value ...]"));
    assert!(message("LPOP 2").contains("'LPOP'"));
}
