//! Register, Counter, FloatCounter, BoundedCounter and Dict: the answers, the refusals and the locks that users meet,
//! case by case. `contract.rs` has what holds for all types.

use claret_types::{
    Bounded, BoundedCounter, BoundedCounterOp, Bytes, Counter, DataType, Dict, DictOp, DictValue, Execution,
    FloatCounter, FloatCounterOp, Held, OpError, Register, Reply, Room, Text, Unique,
};

fn parse<T: DataType>(call: &str) -> Result<T::Op, OpError> {
    let mut words = call.split(' ').map(Bytes::from);
    let name = words.next().expect("a name");
    T::parse(name.as_str().expect("text"), &words.collect::<Vec<_>>())
}

fn execute<T: DataType>(state: &T::State, call: &str) -> Result<Execution<T::Effect>, OpError> {
    T::execute(state, &parse::<T>(call).expect("well-formed"), Unique(0))
}

/// Executes, applies and answers.
fn call<T: DataType>(state: &mut T::State, call: &str) -> Reply {
    let executed = execute::<T>(state, call).unwrap_or_else(|error| panic!("{call}: {error}"));
    if let Some(effect) = executed.effect {
        T::apply(state, effect);
    }
    executed.reply
}

fn error<T: DataType>(state: &T::State, call: &str) -> String
where
    T::Effect: std::fmt::Debug,
{
    execute::<T>(state, call).expect_err(call).to_string()
}

/// How many of the calls, each of an owner of its own, the lock of a record in `state` grants in a row.
fn granted<T: DataType>(state: &T::State, calls: &[&str]) -> usize {
    let mut held = Held::default();
    for (count, call) in calls.iter().enumerate() {
        let claims = execute::<T>(state, call).expect(call).claims;
        if !held.admits(&T::MODES, &claims, T::room(state), std::iter::empty()) {
            return count;
        }
        held.add(&claims);
    }
    calls.len()
}

/// Whether two calls share the lock, whichever comes first.
fn share<T: DataType>(state: &T::State, a: &str, b: &str) -> bool {
    let shared = granted::<T>(state, &[a, b]) == 2;
    assert_eq!(shared, granted::<T>(state, &[b, a]) == 2, "{a} and {b}, by order");
    shared
}

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.into())
}

#[test]
fn register_answers_as_redis_does() {
    let mut state = Text::Absent;
    assert_eq!(call::<Register>(&mut state, "GET"), Reply::Nil);
    assert_eq!(call::<Register>(&mut state, "STRLEN"), Reply::Int(0));
    assert_eq!(call::<Register>(&mut state, "GETSET a"), Reply::Nil);
    assert_eq!(call::<Register>(&mut state, "SETNX.RETURNING b"), Reply::Int(0));
    assert_eq!(call::<Register>(&mut state, "APPEND bc"), Reply::Ok);
    assert_eq!(call::<Register>(&mut state, "STRLEN"), Reply::Int(3));
    assert_eq!(call::<Register>(&mut state, "GETSET x"), bytes("abc"));
    state = Text::Absent;
    assert_eq!(call::<Register>(&mut state, "SETNX.RETURNING b"), Reply::Int(1));
    assert_eq!(call::<Register>(&mut state, "SETNX c"), Reply::Ok);
    assert_eq!(call::<Register>(&mut state, "GET"), bytes("b"));
}

#[test]
fn register_appends_to_what_was_counted_and_undoes_it() {
    let mut state = Text::Int(12);
    let effect = execute::<Register>(&state, "APPEND 3").unwrap().effect.unwrap();
    let inverse = Register::apply(&mut state, effect);
    assert_eq!(call::<Register>(&mut state, "GET"), bytes("123"));
    Register::apply(&mut state, inverse);
    assert_eq!(state, Text::Int(12));

    let mut long = Text::Bytes("long ".repeat(20).into());
    let before = long.clone();
    let effect = execute::<Register>(&long, "APPEND tail").unwrap().effect.unwrap();
    let inverse = Register::apply(&mut long, effect);
    assert_eq!(call::<Register>(&mut long, "STRLEN"), Reply::Int(104));
    Register::apply(&mut long, inverse);
    assert_eq!(long, before);
}

#[test]
fn register_shares_what_changes_nothing() {
    let state = Text::Bytes("a".into());
    assert!(share::<Register>(&state, "GET", "STRLEN"));
    assert!(share::<Register>(&state, "SETNX b", "SET c"));
    // It may clear an expiry.
    assert!(!share::<Register>(&state, "SET a", "GET"));
    assert!(!share::<Register>(&state, "SET b", "SET c"));
    assert!(!share::<Register>(&state, "SET a", "SET c"));
    assert!(!share::<Register>(&state, "APPEND b", "APPEND b"));
    assert!(!share::<Register>(&Text::Absent, "SETNX b", "GET"));
}

#[test]
fn register_counts_the_bytes_of_its_argument() {
    assert_eq!(Register::size(&parse::<Register>("SET abc").unwrap()), 3);
    assert_eq!(Register::size(&parse::<Register>("SETNX.RETURNING abcd").unwrap()), 4);
    assert_eq!(Register::size(&parse::<Register>("GET").unwrap()), 0);
}

#[test]
fn register_answers_the_length_from_a_content_read_by_another() {
    let (get, len) = (parse::<Register>("GET").unwrap(), parse::<Register>("STRLEN").unwrap());
    assert_eq!(Register::combine(&get, &bytes("abc"), &len), Some(Reply::Int(3)));
    assert_eq!(Register::combine(&get, &Reply::Nil, &len), Some(Reply::Int(0)));
    assert_eq!(Register::combine(&len, &Reply::Int(3), &get), None);
}

#[test]
fn counter_has_all_of_rediss_names() {
    let mut state = Text::Bytes("5".into());
    for (name, sum) in [("INCR", 6), ("DECR", 5), ("INCRBY 4", 9), ("DECRBY 2", 7)] {
        call::<Counter>(&mut state, name);
        assert_eq!(state, Text::Int(sum), "{name}");
    }
    assert_eq!(call::<Counter>(&mut state, "INCR.RETURNING"), Reply::Int(8));
    assert_eq!(call::<Counter>(&mut state, "DECR.RETURNING"), Reply::Int(7));
    assert_eq!(call::<Counter>(&mut state, "DECRBY.RETURNING 9"), Reply::Int(-2));
    let refused = parse::<Counter>("DECRBY").unwrap_err();
    assert_eq!(refused, OpError::Arity { method: "DECRBY".into(), usage: "decrement".into() });
    assert!(error::<Counter>(&Text::Int(i64::MAX), "INCR").contains(&i64::MAX.to_string()));
}

#[test]
fn float_counter_writes_numbers_as_redis_shows_them() {
    let shown = |start: &str, calls: &[&str]| {
        let mut state = if start.is_empty() { Text::Absent } else { Text::Bytes(start.into()) };
        for increment in calls {
            call::<FloatCounter>(&mut state, &format!("INCRBYFLOAT {increment}"));
        }
        let reply = call::<FloatCounter>(&mut state, "GET");
        let text = call::<Register>(&mut state, "GET");
        let Reply::Bytes(text) = text else { panic!("{text:?}") };
        let read: f64 = text.as_str().unwrap().parse().unwrap();
        assert_eq!(Reply::Float(read), reply, "round trip");
        text.to_string()
    };
    assert_eq!(shown("", &["3.0"]), "3");
    assert_eq!(shown("3.0", &["1e2"]), "103");
    assert_eq!(shown("10.5", &["0.1"]), "10.6");
    assert_eq!(shown("0.1", &["0.2"]), "0.30000000000000004");
    assert_eq!(shown("-0", &["-0"]), "0");
    assert_eq!(shown("1.5", &["-1.5"]), "0");
    assert_eq!(shown("", &["1e22"]), "10000000000000000000000");
    assert_eq!(shown("", &["1e-7"]), "0.0000001");
}

#[test]
fn float_counter_refuses_what_is_not_a_finite_number() {
    for given in ["inf", "-inf", "infinity"] {
        let refused = parse::<FloatCounter>(&format!("INCRBYFLOAT {given}")).unwrap_err().to_string();
        assert!(refused.contains("inf") && refused.contains("finite"), "{refused}");
    }
    assert_eq!(parse::<FloatCounter>("INCRBYFLOAT nan"), Err(OpError::NotANumber("float increment".into())));
    let given = "three".to_owned();
    let refused = OpError::Argument { given, expected: "a number".into() };
    assert_eq!(parse::<FloatCounter>("INCRBYFLOAT three"), Err(refused));
    assert!(FloatCounter::check(&FloatCounterOp::Add(f64::NAN)).is_err());
    assert!(FloatCounter::check(&FloatCounterOp::AddReturning(f64::INFINITY)).is_err());
    assert!(FloatCounter::check(&FloatCounterOp::Add(f64::MAX)).is_ok());
    assert!(error::<FloatCounter>(&Text::Bytes("abc".into()), "INCRBYFLOAT 1").contains("abc"));
}

#[test]
fn float_counter_refuses_an_overflow_to_infinity() {
    let state = Text::Bytes(f64::MAX.to_string().into());
    for name in ["INCRBYFLOAT", "INCRBYFLOAT.RETURNING"] {
        let refused = error::<FloatCounter>(&state, &format!("{name} 1.7e308"));
        assert!(refused.contains("overflow") && refused.contains("1.7e308"), "{refused}");
    }
}

#[test]
fn float_counter_shares_exact_sums_alone() {
    let exact = Text::Int(3);
    assert!(share::<FloatCounter>(&exact, "INCRBYFLOAT 1", "INCRBYFLOAT -2.0"));
    assert!(!share::<FloatCounter>(&exact, "INCRBYFLOAT 1", "INCRBYFLOAT 0.5"));
    assert!(!share::<FloatCounter>(&exact, "INCRBYFLOAT 1", "INCRBYFLOAT.RETURNING 1"));
    assert!(!share::<FloatCounter>(&exact, "INCRBYFLOAT 1", "GET"));
    let rounded = Text::Bytes("0.1".into());
    assert!(!share::<FloatCounter>(&rounded, "INCRBYFLOAT 1", "INCRBYFLOAT 2"));
    assert!(share::<FloatCounter>(&rounded, "GET", "GET"));
}

#[test]
fn float_counter_stops_sharing_where_sums_start_to_round() {
    let near = Text::Int((1 << 53) - 2);
    let one = "INCRBYFLOAT 1";
    assert!(share::<FloatCounter>(&near, one, one));
    assert_eq!(granted::<FloatCounter>(&near, &[one, one, one]), 2);
    assert_eq!(granted::<FloatCounter>(&near, &[one, one, "INCRBYFLOAT -1"]), 3);
    let far = Text::Int((1 << 53) + 2);
    assert!(!share::<FloatCounter>(&far, one, one));
}

#[test]
fn three_types_meet_in_one_lock() {
    let state = Text::Int(3);
    let counted = execute::<Counter>(&state, "INCRBY 1").unwrap().claims;
    let admitted = |claims| {
        let mut held = Held::default();
        held.add(&counted);
        held.admits(&Register::MODES, &claims, Room::UNBOUNDED, std::iter::empty())
    };
    assert!(admitted(execute::<Register>(&state, "SETNX 9").unwrap().claims));
    assert!(!admitted(execute::<Register>(&state, "GET").unwrap().claims));
    assert!(!admitted(execute::<Register>(&state, "SET 9").unwrap().claims));
    assert!(!admitted(execute::<FloatCounter>(&state, "INCRBYFLOAT 1").unwrap().claims));
}

fn bounded(value: i64, min: i64, max: i64) -> Option<Bounded> {
    Some(Bounded { value, min, max })
}

#[test]
fn bounded_counter_stays_within_its_bounds() {
    let mut state = None;
    assert_eq!(call::<BoundedCounter>(&mut state, "BGET"), Reply::Nil);
    call::<BoundedCounter>(&mut state, "BCREATE 5 0 9");
    assert_eq!(call::<BoundedCounter>(&mut state, "BDECRBY.RETURNING 6"), Reply::Int(0));
    assert_eq!(call::<BoundedCounter>(&mut state, "BDECRBY.RETURNING 5"), Reply::Int(1));
    assert_eq!(call::<BoundedCounter>(&mut state, "BGET"), Reply::Int(0));
    assert_eq!(call::<BoundedCounter>(&mut state, "BINCRBY 9"), Reply::Ok);
    assert_eq!(call::<BoundedCounter>(&mut state, "BINCRBY.RETURNING 1"), Reply::Int(0));
    let bounds = Reply::Array(vec![Reply::Int(0), Reply::Int(9)]);
    assert_eq!(call::<BoundedCounter>(&mut state, "BBOUNDS"), bounds);
    assert_eq!(state, bounded(9, 0, 9));

    let widest = bounded(i64::MIN, i64::MIN, i64::MAX);
    assert_eq!(BoundedCounter::room(&widest), Room { down: 0, up: u64::MAX });
    let refused = error::<BoundedCounter>(&bounded(i64::MAX, 0, i64::MAX), "BINCRBY 1");
    assert!(refused.starts_with("insufficient"), "{refused}");
}

/// The rule of TPC-C's stock (clause 2.4.2.2): at least 10 are left, or 91 come.
#[test]
fn bounded_counter_wraps_as_tpcc_asks_of_stock() {
    for stock in 10..=100 {
        for ordered in 1..=10 {
            let mut state = bounded(stock, 10, 100);
            assert_eq!(call::<BoundedCounter>(&mut state, &format!("BDECRBY.WRAP {ordered}")), Reply::Ok);
            let left = if stock - ordered >= 10 { stock - ordered } else { stock - ordered + 91 };
            assert_eq!(state, bounded(left, 10, 100), "{stock} less {ordered}");
        }
    }
}

#[test]
fn bounded_counter_wraps_around_any_range() {
    let after = |mut state: Option<Bounded>, amount: i64| {
        call::<BoundedCounter>(&mut state, &format!("BDECRBY.WRAP {amount}"));
        state.expect("it is there").value
    };
    assert_eq!(after(bounded(12, 10, 100), 91), 12);
    assert_eq!(after(bounded(12, 10, 100), 91 * 1_000_000 + 3), 100);
    assert_eq!(after(bounded(-1, -3, 2), 3), 2);
    assert_eq!(after(bounded(7, 7, 7), i64::MAX), 7);
    // The widest ring has 2^64 places.
    assert_eq!(after(bounded(i64::MIN, i64::MIN, i64::MAX), 1), i64::MAX);
    assert_eq!(after(bounded(i64::MAX, i64::MIN, i64::MAX), i64::MAX), 0);
    assert_eq!(after(bounded(i64::MIN, i64::MIN, i64::MAX), i64::MAX), 1);
    assert_eq!(after(bounded(0, 0, i64::MAX), i64::MAX), 1);
}

#[test]
fn turns_of_the_ring_share_and_all_that_asks_for_room_waits() {
    let (state, turn) = (bounded(2, 0, 9), "BDECRBY.WRAP 3");
    assert_eq!(granted::<BoundedCounter>(&state, &[turn, "BDECRBY.WRAP 8", "BDECRBY.WRAP 25", turn]), 4);
    assert!(share::<BoundedCounter>(&state, turn, "BBOUNDS"));
    for other in
        ["BDECRBY 1", "BDECRBY.RETURNING 9", "BINCRBY 1", "BINCRBY.RETURNING 9", "BGET", "BRESIZE 0 5"]
    {
        assert!(!share::<BoundedCounter>(&state, turn, other), "{other}");
    }
}

#[test]
fn bounded_counter_names_what_it_refuses() {
    let refused = error::<BoundedCounter>(&bounded(3, 1, 9), "BDECRBY 5");
    for part in ["insufficient", "BDECRBY 5", "value 3", "1 to 9"] {
        assert!(refused.contains(part), "'{part}' in: {refused}");
    }
    let bound = |call: &str, parts: &[&str]| {
        let refused = parse::<BoundedCounter>(call).unwrap_err();
        assert!(matches!(refused, OpError::Bound { .. }), "{refused:?}");
        for part in parts {
            assert!(refused.to_string().contains(part), "'{part}' in: {refused}");
        }
    };
    bound("BDECRBY -3", &["-3", "BINCRBY"]);
    bound("BINCRBY.RETURNING -4", &["-4", "BDECRBY"]);
    bound("BDECRBY.WRAP -5", &["-5", "zero or more"]);
    bound("BCREATE 5 9 1", &["min 9", "max 1"]);
    bound("BCREATE -1 0 9", &["-1", "min 0", "max 9"]);
    bound("BCREATE 10 0 9", &["10", "max 9"]);
    assert!(parse::<BoundedCounter>("BCREATE -3 -5 -1").is_ok());
    assert!(BoundedCounter::check(&BoundedCounterOp::Take(i64::MIN)).is_err());
    assert!(parse::<BoundedCounter>("BINCRBY x").unwrap_err().to_string().contains("'x'"));
}

#[test]
fn bounded_counter_asks_to_be_created_first() {
    let takes = ["BDECRBY 1", "BDECRBY.RETURNING 1", "BDECRBY.WRAP 1"];
    for method in ["BINCRBY 1", "BINCRBY.RETURNING 1", "BBOUNDS"].into_iter().chain(takes) {
        let refused = error::<BoundedCounter>(&None, method);
        let name = method.split(' ').next().unwrap();
        assert!(refused.starts_with(name) && refused.contains("BCREATE value min max"), "{refused}");
    }
    let mut state = bounded(3, 0, 9);
    assert_eq!(call::<BoundedCounter>(&mut state, "BCREATE 7 0 9"), Reply::Ok);
    assert_eq!(state, bounded(3, 0, 9));
    let refused = error::<BoundedCounter>(&state, "BCREATE 7 0 8");
    assert!(refused.contains("0 to 9") && refused.contains("0 to 8"), "{refused}");
}

#[test]
fn withdrawals_that_fit_pairwise_do_not_overdraw_together() {
    let state = bounded(2, 0, 9);
    let take = "BDECRBY.RETURNING 1";
    assert!(share::<BoundedCounter>(&state, take, take));
    assert!(share::<BoundedCounter>(&state, take, "BDECRBY 1"));
    assert_eq!(granted::<BoundedCounter>(&state, &[take, take, take]), 2);
    // A pending deposit may be given up: nobody draws on it.
    assert_eq!(granted::<BoundedCounter>(&state, &["BINCRBY 5", take, take, take]), 3);
    assert_eq!(granted::<BoundedCounter>(&state, &["BINCRBY 4", "BINCRBY 3", "BINCRBY 1"]), 2);
}

#[test]
fn insufficiency_lasts_while_others_take() {
    let state = bounded(2, 0, 9);
    assert!(share::<BoundedCounter>(&state, "BDECRBY.RETURNING 3", "BDECRBY 2"));
    assert!(share::<BoundedCounter>(&state, "BDECRBY.RETURNING 3", "BGET"));
    assert!(!share::<BoundedCounter>(&state, "BDECRBY.RETURNING 3", "BINCRBY 1"));
    assert!(share::<BoundedCounter>(&state, "BINCRBY.RETURNING 8", "BINCRBY 7"));
    assert!(!share::<BoundedCounter>(&state, "BINCRBY.RETURNING 8", "BDECRBY 1"));
    assert!(share::<BoundedCounter>(&state, "BINCRBY.RETURNING 8", "BDECRBY.RETURNING 3"));
    assert!(!share::<BoundedCounter>(&state, "BGET", "BDECRBY 1"));
    assert!(share::<BoundedCounter>(&state, "BBOUNDS", "BDECRBY 1"));
}

#[test]
fn dict_answers_as_redis_does() {
    let mut state = Default::default();
    assert_eq!(call::<Dict>(&mut state, "HSET.RETURNING b 1 a x b 2"), Reply::Int(2));
    assert_eq!(call::<Dict>(&mut state, "HSET.RETURNING b 3 c 4"), Reply::Int(1));
    assert_eq!(call::<Dict>(&mut state, "HINCRBY.RETURNING b -5"), Reply::Int(-2));
    assert_eq!(call::<Dict>(&mut state, "HINCRBY d 7"), Reply::Ok);
    let all = ["a", "x", "b", "-2", "c", "4", "d", "7"].map(bytes);
    assert_eq!(call::<Dict>(&mut state, "HGETALL"), Reply::Array(all.into()));
    assert_eq!(call::<Dict>(&mut state, "HDEL.RETURNING a a z"), Reply::Int(1));
    assert_eq!(call::<Dict>(&mut state, "HKEYS"), Reply::Array(["b", "c", "d"].map(bytes).into()));
    let many = Reply::Array(vec![bytes("7"), Reply::Nil, bytes("4")]);
    assert_eq!(call::<Dict>(&mut state, "HMGET d a c"), many);
    assert_eq!(call::<Dict>(&mut state, "HLEN"), Reply::Int(3));
    assert_eq!(call::<Dict>(&mut state, "HEXISTS a"), Reply::Int(0));
    call::<Dict>(&mut state, "HDEL b c d");
    assert!(Dict::is_absent(&state));
    assert_eq!(call::<Dict>(&mut state, "HGETALL"), Reply::Array(vec![]));
}

#[test]
fn dict_names_what_it_refuses() {
    let mut state = Default::default();
    call::<Dict>(&mut state, "HSET f abc g 9223372036854775807");
    assert!(error::<Dict>(&state, "HINCRBY f 1").contains("'abc' is not an integer"));
    for name in ["HINCRBY", "HINCRBY.RETURNING"] {
        let refused = error::<Dict>(&state, &format!("{name} g 1"));
        assert!(refused.contains("overflow") && refused.contains("'g'"), "{refused}");
    }
    assert!(parse::<Dict>("HINCRBY f 1.5").unwrap_err().to_string().contains("'1.5'"));
    let usage = "field value [field value ...]";
    assert_eq!(
        parse::<Dict>("HSET f v g"),
        Err(OpError::Arity { method: "HSET".into(), usage: usage.into() })
    );
    assert_eq!(Dict::size(&parse::<Dict>("HSET f v field value-").unwrap()), 6);
}

#[test]
fn dict_values_are_equal_when_they_read_the_same() {
    assert_eq!(DictValue::Int(5), DictValue::from("5"));
    assert_eq!(DictValue::from("5"), DictValue::Int(5));
    assert_ne!(DictValue::Int(5), DictValue::from("05"));
    assert_ne!(DictValue::Int(5), DictValue::from("five"));
}

#[test]
fn dict_conflicts_by_field_and_presence() {
    let mut state = Default::default();
    call::<Dict>(&mut state, "HSET f 1 g 2");
    let share = |a, b| share::<Dict>(&state, a, b);
    assert!(share("HSET f 5", "HSET g 5"));
    assert!(!share("HSET f 5", "HSET f 6"));
    assert!(share("HSET f 1", "HSET f 1"));
    assert!(!share("HSET f 1", "HSET f 6"));
    assert!(share("HINCRBY f 5", "HINCRBY f 6"));
    assert!(share("HINCRBY new 5", "HINCRBY new 6"));
    assert!(!share("HINCRBY f 5", "HINCRBY.RETURNING f 6"));
    assert!(share("HLEN", "HSET f 5"));
    assert!(share("HLEN", "HINCRBY f 5"));
    assert!(!share("HLEN", "HINCRBY new 5"));
    assert!(!share("HLEN", "HSET new 5"));
    assert!(!share("HGETALL", "HSET f 5"));
    assert!(share("HEXISTS f", "HSET f 5"));
    assert!(!share("HGET f", "HSET f 5"));
    assert!(!share("HEXISTS f", "HDEL f"));
    assert!(share("HDEL f", "HDEL f"));
    assert!(!share("HDEL f", "HDEL.RETURNING f"));
    assert!(share("HDEL new", "HGET new"));
}

#[test]
fn dict_increments_near_the_bounds_wait_for_each_other() {
    let far: &str = &format!("HSET f {} g 0", i64::MAX - 2);
    let mut state = Default::default();
    call::<Dict>(&mut state, far);
    assert!(!share::<Dict>(&state, "HINCRBY f 1", "HINCRBY f 2"));
    assert!(!share::<Dict>(&state, "HINCRBY f 1", "HINCRBY g -1"));
    assert!(share::<Dict>(&state, "HINCRBY g 1", "HINCRBY g 2"));

    // Each fits alone, two do as well, three would not: so large ones go one by one.
    let part: &str = &format!("HINCRBY g {}", i64::MAX / 5 * 2);
    let giant: &str = &format!("HINCRBY g {}", i64::MAX);
    assert_eq!(granted::<Dict>(&state, &[part, part, part]), 1);
    assert!(!share::<Dict>(&state, giant, "HINCRBY g 1"));
    assert!(share::<Dict>(&state, giant, "HINCRBY g -1"));
}

#[test]
fn dict_answers_from_what_another_has_read() {
    let mut state = Default::default();
    call::<Dict>(&mut state, "HSET f 1 g 2");
    let all = call::<Dict>(&mut state, "HGETALL");
    for op in ["HGET f", "HGET z", "HMGET z g", "HEXISTS f", "HEXISTS z", "HLEN", "HKEYS"] {
        let own = call::<Dict>(&mut state, op);
        assert_eq!(Dict::combine(&DictOp::All, &all, &parse::<Dict>(op).unwrap()), Some(own), "{op}");
    }
    let (get, exists) = (parse::<Dict>("HGET z").unwrap(), parse::<Dict>("HEXISTS z").unwrap());
    assert_eq!(Dict::combine(&get, &Reply::Nil, &exists), Some(Reply::Int(0)));
    let other = parse::<Dict>("HEXISTS f").unwrap();
    assert_eq!(Dict::combine(&get, &Reply::Nil, &other), None);
}
