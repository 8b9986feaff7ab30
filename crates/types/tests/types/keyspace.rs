//! Records of any type: what is answered of them, what becomes of their expiry, and who waits for whom.

use claret_types::{
    BUILTIN, Bytes, Expiry, Held, Modes, OpError, Operation, Register, Reply, Room, Set, State, TypeInfo,
    Unique, builtin_types,
};

fn named(line: &str) -> Operation {
    let mut words = line.split(' ');
    let name = words.next().expect("a name");
    let arguments: Vec<Bytes> = words.map(Bytes::from).collect();
    let known = |kind: &&&TypeInfo| kind.methods.iter().any(|method| method.name == name);
    let kind = builtin_types().iter().find(known).expect("a known operation");
    let mut op = (kind.parse)(name, &arguments).expect("well-formed");
    op.resolve(|| NOW);
    op
}

/// In milliseconds since 1970.
const NOW: u64 = 1_000_000;

/// Executes and applies it, and shows that its inverse restores the record.
fn call(slot: &mut Option<State>, line: &str) -> Reply {
    let executed = named(line).execute(slot.as_ref(), Unique(1)).expect("it can be done");
    if let Some(effect) = executed.effect {
        let before = slot.clone();
        let inverse = effect.clone().apply(slot);
        let mut undone = slot.clone();
        let again = inverse.apply(&mut undone);
        assert_eq!(undone, before, "{line} is undone");
        again.apply(&mut undone);
        assert_eq!(undone, *slot, "{line} is done again");
    }
    executed.reply
}

fn calls(slot: &mut Option<State>, lines: &[&str]) -> Vec<Reply> {
    lines.iter().map(|line| call(slot, line)).collect()
}

#[test]
fn it_answers_as_redis_does() {
    let mut slot = None;
    assert_eq!(
        calls(
            &mut slot,
            &[
                "EXISTS",
                "TTL",
                "PTTL",
                "PEXPIRETIME",
                "DEL.RETURNING",
                "EXPIRE.RETURNING 5",
                "PERSIST.RETURNING"
            ]
        ),
        [0, -2, -2, -2, 0, 0, 0].map(Reply::Int)
    );
    assert_eq!(slot, None);
    call(&mut slot, "SADD a b");
    assert_eq!(
        calls(
            &mut slot,
            &[
                "EXISTS",
                "TTL",
                "PERSIST.RETURNING",
                "EXPIRE.RETURNING 5",
                "TTL",
                "PTTL",
                "PEXPIRETIME",
                "PERSIST.RETURNING",
                "PTTL"
            ]
        ),
        [1, -1, 0, 1, 5, 5000, 1_005_000, 1, -1].map(Reply::Int)
    );
    assert_eq!(calls(&mut slot, &["PEXPIREAT 1000001", "PTTL"]), [Reply::Ok, Reply::Int(1)]);
    assert_eq!(calls(&mut slot, &["DEL.RETURNING", "EXISTS", "SCARD"]), [1, 0, 0].map(Reply::Int));
}

#[test]
fn gt_puts_an_expiry_off_and_gives_none_to_what_has_none() {
    let mut slot = None;
    call(&mut slot, "SADD a");
    assert_eq!(calls(&mut slot, &["PEXPIRE.RETURNING 10 GT", "PTTL"]), [0, -1].map(Reply::Int));
    call(&mut slot, "PEXPIRE 10");
    assert_eq!(calls(&mut slot, &["PEXPIRE.RETURNING 5 GT", "PTTL"]), [0, 10].map(Reply::Int));
    assert_eq!(calls(&mut slot, &["PEXPIRE.RETURNING 20 GT", "PTTL"]), [1, 20].map(Reply::Int));
    assert_eq!(calls(&mut slot, &["PEXPIRE 15 gt", "PTTL"]), [Reply::Ok, Reply::Int(20)]);
    assert_eq!(calls(&mut slot, &["PEXPIREAT 1 GT", "PTTL"]), [Reply::Ok, Reply::Int(20)]);
}

#[test]
fn a_time_that_is_over_removes_the_record() {
    for line in ["EXPIRE 0", "PEXPIRE 0", "PEXPIREAT 0", "PEXPIREAT 1000000"] {
        let mut slot = None;
        call(&mut slot, "RPUSH a");
        assert_eq!(calls(&mut slot, &[line, "EXISTS"]), [Reply::Ok, Reply::Int(0)], "{line}");
    }
    let mut slot = None;
    call(&mut slot, "INCRBY 5");
    assert_eq!(calls(&mut slot, &["PEXPIREAT.RETURNING 7", "EXISTS"]), [1, 0].map(Reply::Int));
}

#[test]
fn set_clears_an_expiry_and_counting_keeps_it() {
    let mut slot = None;
    calls(&mut slot, &["SET 5", "EXPIRE 10"]);
    assert_eq!(calls(&mut slot, &["INCR", "APPEND 1", "TTL"])[2], Reply::Int(10));
    assert_eq!(calls(&mut slot, &["SET 61", "TTL"])[1], Reply::Int(-1), "the same value, too");
    assert_eq!(calls(&mut slot, &["EXPIRE 10", "GETSET 7", "TTL"])[2], Reply::Int(-1));
    assert_eq!(
        calls(&mut slot, &["SETEX 10 x", "TTL", "GET"])[1..],
        [Reply::Int(10), Reply::Bytes("x".into())]
    );
    assert_eq!(calls(&mut slot, &["SETNX y", "TTL"])[1], Reply::Int(10), "it was not written");
    assert_eq!(
        calls(&mut slot, &["PSETEX 70000 z", "PTTL", "GET"])[1..],
        [Reply::Int(70_000), Reply::Bytes("z".into())]
    );
}

#[test]
fn what_is_emptied_loses_its_expiry() {
    let mut slot = None;
    calls(&mut slot, &["SADD a", "EXPIRE 10"]);
    assert_eq!(
        calls(&mut slot, &["SREM a", "TTL", "SADD b", "TTL"])[1..],
        [Reply::Int(-2), Reply::Ok, Reply::Int(-1)]
    );
}

/// Who shares a record's lock with whom. The oracle checks all of it; this is what users are told.
#[test]
fn an_expiry_claims_that_the_record_is_there_and_when_it_ends() {
    let set = &TypeInfo::of::<Set>().modes;
    let string = &TypeInfo::of::<Register>().modes;
    let members = Some(State::new::<Set>(claret_types::SetState::from_iter(["a".into(), "b".into()])));
    let share = |modes: &Modes, slot: &Option<State>, one: &str, other: &str| {
        let claims = |line: &str| named(line).execute(slot.as_ref(), Unique(1)).expect("possible").claims;
        let mut held = Held::default();
        held.add(&claims(one));
        let admits = held.admits(modes, &claims(other), Room::UNBOUNDED, std::iter::empty());
        let mut held = Held::default();
        held.add(&claims(other));
        assert_eq!(
            admits,
            held.admits(modes, &claims(one), Room::UNBOUNDED, std::iter::empty()),
            "{one}, {other}"
        );
        admits
    };
    for (one, other, shared) in [
        ("EXPIRE 5", "SADD c", true),
        ("EXPIRE 5", "SMEMBERS", true),
        ("EXPIRE 5", "EXISTS", true),
        ("EXPIRE 5", "SREM a", false),
        ("EXPIRE 5", "TTL", false),
        ("EXPIRE 5", "EXPIRE 6", false),
        ("EXPIRE 5 GT", "EXPIRE 6 GT", true),
        ("EXPIRE 5 GT", "TTL", false),
        ("TTL", "TTL", true),
        ("EXISTS", "SADD c", true),
        ("EXISTS", "SREM a", false),
        ("DEL", "SMEMBERS", false),
        ("DEL", "EXISTS", false),
        ("DEL", "DEL", false),
    ] {
        assert_eq!(share(set, &members, one, other), shared, "{one} beside {other}");
    }
    let expiring = members.clone().map(|members| members.expiring(Expiry::at_ms(NOW + 5)));
    assert!(share(set, &members, "SREM a", "SADD c") && !share(set, &expiring, "SREM a", "SADD c"));
    assert!(share(set, &expiring, "SADD d", "SADD c"));
    let text = Some(State::new::<Register>(claret_types::Text::Int(5)));
    assert!(!share(string, &text, "SET 1", "TTL") && !share(string, &text, "SET 1", "EXPIRE 5 GT"));
    assert!(share(string, &text, "SETNX 1", "TTL") && share(string, &text, "EXISTS", "SET 1"));
    assert!(share(string, &None, "EXISTS", "TTL") && !share(string, &None, "EXISTS", "SET 1"));
}

/// An operation of a type that claims nothing, as of a closed book, would pass a `DEL`.
#[test]
fn every_operation_claims_at_least_that_there_is_a_record() {
    let mut tried = 0;
    for method in BUILTIN.iter().flat_map(|kind| kind.methods.iter().map(move |method| (kind, method))) {
        let (kind, method) = method;
        let words = method.arguments.split_whitespace().filter(|word| !word.starts_with('['));
        let given: Vec<Bytes> = words.map(|_| Bytes::from("1")).collect();
        let Ok(mut op) = (kind.parse)(method.name, &given) else { continue };
        op.resolve(|| NOW);
        assert!(!op.footprint_with_expiry().list.is_empty(), "{}", method.name);
        if let Ok(executed) = op.execute(None, Unique(1)) {
            assert!(!executed.claims.list.is_empty(), "{}", method.name);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn bad_times_are_named() {
    let keyspace = BUILTIN.iter().find(|kind| kind.name == "keyspace").expect("it is built in");
    for (name, given, says) in [
        ("EXPIRE", "-1", "a time to live cannot be -1; it must be zero or more; DEL removes a record"),
        ("EXPIRE", "1.5", "'1.5' is not"),
        ("EXPIRE", "99999999999999999", "ends at most 9223372036854775807 milliseconds after 1970"),
        ("PEXPIREAT", "9223372036854775808", "9223372036854775808 ms"),
        ("EXPIRE", "18446744073709551615", "18446744073709551615"),
    ] {
        let error = (keyspace.parse)(name, &[given.into()]).expect_err("refused");
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = (keyspace.parse)("EXPIRE", &["1".into(), "XX".into()]).expect_err("refused");
    assert!(error.to_string().contains("'XX' is not GT"), "{error}");
    let error = (keyspace.parse)("TTL", &["1".into()]).expect_err("refused");
    assert!(matches!(error, OpError::Arity { .. }), "{error}");
    let unresolved = (keyspace.parse)("PEXPIRE", &["5".into()]).expect("well-formed");
    let text = State::new::<Register>(claret_types::Text::Int(5));
    unresolved.execute(Some(&text), Unique(1)).expect_err("no host has made it absolute");
    // Each is in range, and their sum is not.
    let mut late = (keyspace.parse)("PEXPIRE", &[Expiry::MAX.ms().to_string().into()]).expect("well-formed");
    late.resolve(|| NOW);
    for state in [Some(&text), None] {
        let error = late.execute(state, Unique(1)).expect_err("too late");
        assert!(error.to_string().contains("ends at most 9223372036854775807 milliseconds"), "{error}");
    }
}
