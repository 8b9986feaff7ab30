//! Transactions do the same to records on a model of a server as in memory: answers, errors, and what is left.

use claret_core::{Applied, HeldEnd};
use claret_types::{
    BUILTIN, BoundedCounter, Bytes, Counter, DataType, Document, Effect, Examples, Expiry, FloatCounter,
    KeyspaceOp, List, Moment, Operation, Register, RegisterOp, Reply, ScoredSet, Set, SetOp, State, TopK,
    TopKOp, TypeInfo, UidGenerator, Unique, builtin_examples,
};

use claret_types::oracle::Living;

use super::model::{Model, Value};
use super::{
    ELEMENTS_MAX, OnServer, Record, apply, hold_end, let_all_end, let_end, partial_state,
    partial_state_for_all, whole,
};

const KEY: &str = "k";
const UNIQUE: Unique = Unique(1_000_001);

/// So many different states of a type are looked at, at most.
const STATES_MAX: usize = 40;

fn key() -> Bytes {
    Bytes::from(KEY)
}

/// What an operation comes to: its answer, or why it cannot be done; and its effect.
type Answered = (Result<Reply, String>, Option<Effect>);

fn told(executed: Result<(claret_types::Executed, claret_types::Room), claret_types::OpError>) -> Answered {
    match executed {
        Ok((executed, _)) => (Ok(executed.reply), executed.effect),
        Err(error) => (Err(error.to_string()), None),
    }
}

fn in_memory(state: Option<&State>, op: &Operation, own: &[&Effect]) -> Answered {
    told(op.execute_in_partial(state.cloned(), own, UNIQUE))
}

/// The whole record, as a state of a type.
fn left(model: &Model, kind: &TypeInfo) -> Option<State> {
    let state = whole(&Record::new(model, &key(), "a test"), kind).expect("of its type");
    let end = model.expires_at(KEY).and_then(|end| Expiry::at_ms(end.unsigned_abs()));
    assert!(state.is_some() || end.is_none(), "what is not there does not expire");
    state.map(|state| state.expiring(end))
}

/// Strings are the same whether they are kept as numbers or as text.
fn is_same(left: Option<&State>, right: Option<&State>) -> bool {
    let text = |state: &State| state.downcast::<Register>().map(claret_types::Text::to_bytes);
    let expiry = |state: Option<&State>| state.and_then(State::expiry);
    match (left.and_then(text), right.and_then(text)) {
        (Some(one), Some(other)) => one == other && expiry(left) == expiry(right),
        _ => left == right,
    }
}

/// States that a few operations lead to, in memory and on the model, each once.
fn reached(ops: &[Operation]) -> Vec<(Option<State>, Model)> {
    let mut all = vec![(None, Model::default())];
    let mut at = 0;
    while at < all.len() && all.len() < STATES_MAX {
        let (state, model): (Option<State>, Model) = all[at].clone();
        for op in ops {
            let (_, Some(effect)) = in_memory(state.as_ref(), op, &[]) else { continue };
            let (mut state, model) = (state.clone(), model.clone());
            apply(&model, &key(), &[&effect]);
            effect.apply(&mut state);
            if all.len() < STATES_MAX && all.iter().all(|(known, _)| *known != state) {
                all.push((state, model));
            }
        }
        at += 1;
    }
    all
}

/// Each operation alone, and each pair of them as one transaction, in each state.
fn check<T: OnServer>() {
    let kind = TypeInfo::of::<T>();
    // With those on keys of any type; a string is written where the record may be one. Some types look like another.
    let is_text = State::new::<T>(T::State::default()).downcast::<Register>().is_some();
    let is_known = T::KIND.is_some() || T::NAME == TopK::NAME;
    let is_fit = |op: &Operation| match op.keyspace() {
        Some(KeyspaceOp::SetUntil { .. }) => is_text,
        Some(KeyspaceOp::Content | KeyspaceOp::Digest) => is_known,
        // The host tells it, past all this.
        Some(KeyspaceOp::Version) => false,
        _ => true,
    };
    let ops: Vec<Operation> = Living::<T>::operations().into_iter().filter(is_fit).collect();
    let states = reached(&ops);
    assert!(states.len() > 2, "{}: operations lead somewhere", kind.name);
    for (state, model) in &states {
        let found = left(model, kind);
        assert!(is_same(found.as_ref(), state.as_ref()), "{found:?}, {state:?}: {:?}", model.written);
        for first in &ops {
            let one = partial_state(model, &key(), first, &[]).expect("of its type");
            let (answer, effect) = told(first.execute_in_partial(one, &[], UNIQUE));
            assert_eq!(answer, in_memory(state.as_ref(), first, &[]).0, "{first:?} in {state:?}");
            let own: Vec<&Effect> = effect.iter().collect();
            for second in &ops {
                let expected = in_memory(state.as_ref(), second, &own).0;
                let part = partial_state(model, &key(), second, &own).expect("of its type");
                let (found, further) = told(second.execute_in_partial(part, &own, UNIQUE));
                assert_eq!(found, expected, "{second:?} after {first:?} in {state:?}");
                if first.type_info().id == second.type_info().id
                    && let (all, 2) =
                        partial_state_for_all(model, &key(), &[first, second], &[]).expect("of its type")
                {
                    let found = told(first.execute_in_partial(all.clone(), &[], UNIQUE)).0;
                    assert_eq!(found, answer, "{first:?} before {second:?} in {state:?}");
                    let found = told(second.execute_in_partial(all, &own, UNIQUE)).0;
                    assert_eq!(found, expected, "{second:?} behind {first:?} in {state:?}");
                }
                carry_out(state, model, kind, &own.iter().copied().chain(&further).collect::<Vec<_>>());
            }
        }
    }
}

/// Effects of one transaction, all at once; the same while the end of the record is held.
fn carry_out(before: &Option<State>, model: &Model, kind: &TypeInfo, effects: &[&Effect]) {
    let mut state = before.clone();
    effects.iter().for_each(|effect| drop((*effect).clone().apply(&mut state)));
    for is_held in [false, true] {
        let model = model.clone();
        let is_held = is_held && hold_end(&model, &key()) == HeldEnd::Held;
        apply(&model, &key(), effects);
        if is_held {
            assert_eq!(let_end(&model, &key()), Applied::Done);
        }
        let found = left(&model, kind);
        let is_same = is_same(found.as_ref(), state.as_ref());
        assert!(is_same, "held: {is_held}: {found:?}, {state:?}: {effects:?}: {:?}", model.written);
        assert_eq!(*model.told.borrow(), [] as [String; 0]);
    }
}

/// All types whose records are this in Redis; documents apart.
fn check_all(native: &str) {
    macro_rules! each {
        ($($place:literal $type:ident),* $(,)?) => {
            $(if claret_types::$type::NATIVE == native && claret_types::$type::NAME != Document::NAME {
                check::<claret_types::$type>();
            })*
        };
    }
    claret_types::with_types!(each);
}

#[test]
fn strings_are_as_in_memory() {
    check_all("string");
}

#[test]
fn hashes_are_as_in_memory() {
    check_all("hash");
}

#[test]
fn documents_are_as_in_memory() {
    check::<Document>();
}

#[test]
fn sets_are_as_in_memory() {
    check_all("set");
}

#[test]
fn lists_are_as_in_memory() {
    check_all("list");
}

#[test]
fn sorted_sets_are_as_in_memory() {
    check_all("zset");
}

/// No type is left out of the tests above.
#[test]
fn every_type_is_one_of_five_kinds_of_values() {
    for kind in BUILTIN.iter().filter(|kind| !kind.is_of_any()) {
        assert!(["string", "hash", "set", "list", "zset"].contains(&kind.native), "{}", kind.name);
    }
}

/// Both are decided before either is carried out, and share the lock. None of the times is over soon.
#[test]
fn an_expiry_that_two_put_off_is_the_later_one() {
    let model = Model::default();
    model.put_value(KEY, Value::List(["a"].map(Bytes::from).into()));
    model.expire(KEY, 100_000);
    let put_off_to = |ms| {
        let op = KeyspaceOp::Expire { at: Moment::At(ms), only_later: true, returning: false };
        let op = Operation::from(op);
        let part = partial_state(&model, &key(), &op, &[]).expect("of any type");
        told(op.execute_in_partial(part, &[], UNIQUE)).1.expect("it is later")
    };
    let (later, sooner) = (put_off_to(300_000), put_off_to(200_000));
    apply(&model, &key(), &[&later]);
    apply(&model, &key(), &[&sooner]);
    assert_eq!(model.expires_at(KEY), Some(300_000));
}

#[test]
fn a_key_of_another_type_is_refused_by_both_names() {
    let model = Model::default();
    model.put_value(KEY, Value::List(["a"].map(Bytes::from).into()));
    let add = Operation::new::<Set>(SetOp::Contains(Bytes::from("a")));
    let error = partial_state(&model, &key(), &add, &[]).expect_err("it is a list");
    assert!(error.to_string().starts_with("WRONGTYPE the key holds a list, and SISMEMBER"), "{error}");
}

/// A JSON module has documents of its own, in keys that are no hashes.
#[test]
fn a_key_of_another_module_is_refused_by_its_name() {
    let model = Model::default();
    model.put_value(KEY, Value::Foreign("ReJSON-RL"));
    for (name, words) in
        [("JSON.GET", &["$"][..]), ("JSON.SET", &["$", "1"]), ("JSON.NUMINCRBY", &["$.a", "1"])]
    {
        let words: Vec<Bytes> = words.iter().map(|word| Bytes::from(*word)).collect();
        let op = Operation::new::<Document>(Document::parse(name, &words).expect("well-formed"));
        let error = partial_state(&model, &key(), &op, &[]).expect_err("it is another module's").to_string();
        assert!(error.starts_with(&format!("WRONGTYPE the key holds a ReJSON-RL, and {name}")), "{error}");
    }
    let content = Operation::from(KeyspaceOp::Content);
    let error = partial_state(&model, &key(), &content, &[]).expect_err("no words for it").to_string();
    assert!(error.contains("the key holds a ReJSON-RL"), "{error}");
}

/// What another module keeps has a digest all the same, of what the server would dump.
#[test]
fn a_key_of_another_module_has_a_digest() {
    let digest = |kept: &'static str, end: Option<i64>| {
        let model = Model::default();
        model.put_value(KEY, Value::Foreign(kept));
        end.into_iter().for_each(|end| model.expire(KEY, end));
        let op = Operation::from(KeyspaceOp::Digest);
        let part = partial_state(&model, &key(), &op, &[]).expect("there is one");
        match told(op.execute_in_partial(part, &[], UNIQUE)).0 {
            Ok(Reply::Bytes(digest)) if digest.len() == 32 => digest,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(digest("stream", None), digest("stream", None));
    assert_ne!(digest("stream", None), digest("ReJSON-RL", None));
    assert_ne!(digest("stream", None), digest("stream", Some(9_000_000_000_000)), "the expiry is in it");
}

#[test]
fn effects_of_other_types_are_looked_at_in_the_whole_record() {
    let model = Model::default();
    let set = Operation::new::<Register>(RegisterOp::Set("5".into()));
    let (_, effect) = in_memory(None, &set, &[]);
    let own = effect.expect("it writes");
    let incr = Operation::new::<Counter>(claret_types::CounterOp::AddReturning(2));
    let part = partial_state(&model, &key(), &incr, &[&own]).expect("both are strings");
    assert_eq!(told(incr.execute_in_partial(part, &[&own], UNIQUE)).0, Ok(Reply::Int(7)));
}

/// What a transaction did as one type, and does then as any other.
#[test]
fn records_that_are_used_as_two_types_are_as_in_memory() {
    let all: Vec<Vec<Operation>> = builtin_examples().map(|(_, operations)| operations).collect();
    let mut agreed = 0;
    for firsts in &all {
        for (state, model) in reached(firsts).into_iter().take(3) {
            for (first, second) in
                firsts.iter().flat_map(|first| all.iter().flatten().map(move |it| (first, it)))
            {
                let Some(effect) = in_memory(state.as_ref(), first, &[]).1 else { continue };
                let own = [&effect];
                let wanted = in_memory(state.as_ref(), second, &own).0;
                let part = partial_state(&model, &key(), second, &own);
                let found = part.map(|part| told(second.execute_in_partial(part, &own, UNIQUE)).0);
                let found = found.unwrap_or_else(|error| Err(error.to_string()));
                assert_eq!(
                    found.is_ok(),
                    wanted.is_ok(),
                    "{second:?} after {first:?} in {state:?}: {found:?}, {wanted:?}"
                );
                if wanted.is_ok() {
                    assert_eq!(found, wanted, "{second:?} after {first:?} in {state:?}");
                    agreed += usize::from(first.type_info().id != second.type_info().id);
                }
            }
        }
    }
    assert!(agreed > 100, "{agreed}");
}

#[test]
fn what_follows_each_other_is_written_with_one_command() {
    let effects = |ops: &[Operation]| {
        let mut state = None;
        let effect = |op: &Operation| {
            let (_, effect) = in_memory(state.as_ref(), op, &[]);
            let effect = effect.expect("it changes something");
            effect.clone().apply(&mut state);
            effect
        };
        ops.iter().map(effect).collect::<Vec<Effect>>()
    };
    let written = |ops: &[Operation]| {
        let (model, effects) = (Model::default(), effects(ops));
        apply(&model, &key(), &effects.iter().collect::<Vec<_>>());
        model.written.into_inner()
    };
    let add = |members: &[&str]| {
        Operation::new::<Set>(SetOp::Add(members.iter().map(|it| Bytes::from(*it)).collect()))
    };
    assert_eq!(written(&[add(&["a"]), add(&["b", "c"])]), ["SADD k a b c"]);
    let incr = |by| Operation::new::<Counter>(claret_types::CounterOp::AddReturning(by));
    assert_eq!(written(&[incr(2), incr(3)]), ["INCRBY k 5"]);
}

#[test]
fn of_the_best_no_more_are_kept_than_count() {
    let (model, mut state) = (Model::default(), None);
    let mut offer = |score, member: &str| {
        let op = TopKOp::Add { capacity: 2, score, member: Bytes::from(member) };
        let (_, effect) = in_memory(state.as_ref(), &Operation::new::<TopK>(op), &[]);
        let effect = effect.expect("it is offered");
        apply(&model, &key(), &[&effect]);
        effect.apply(&mut state);
        let Some(Value::Zset(best)) = model.get(KEY) else { panic!("a sorted set") };
        best.keys().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([offer(1.0, "a"), offer(2.0, "b")], ["a", "a b"]);
    assert_eq!(offer(3.0, "c"), "b c");
    assert_eq!(model.get("{k}:k"), Some(Value::Text(b"2".to_vec())), "how many count stands beside it");
    // One that was offered when there were fewer, and comes to nothing by now.
    let late = TopKOp::Add { capacity: 2, score: 0.5, member: Bytes::from("z") };
    let (_, late) = in_memory(None, &Operation::new::<TopK>(late), &[]);
    let written = model.written.borrow().len();
    apply(&model, &key(), &[&late.expect("it was one of the best")]);
    assert_eq!(model.written.borrow().len(), written, "nothing is written for it");
}

#[test]
fn an_effect_that_the_server_refuses_is_told_to_the_operator() {
    let model = Model::default();
    let add = Operation::new::<Set>(SetOp::Add([Bytes::from("a")].into_iter().collect()));
    let effect = in_memory(None, &add, &[]).1.expect("it adds");
    model.put_value(KEY, Value::List(["x"].map(Bytes::from).into()));
    apply(&model, &key(), &[&effect]);
    let told = model.told.borrow();
    assert!(
        told.len() == 1 && told[0].starts_with("SADD of a committed transaction failed on key 'k'"),
        "{told:?}"
    );
    assert_eq!(model.get(KEY), Some(Value::List(["x"].map(Bytes::from).into())), "nothing is overwritten");
}

// --- what small examples do not show ---

/// An operation by its name.
fn op<T: DataType>(name: &str, arguments: &[&str]) -> Operation {
    let arguments: Vec<Bytes> = arguments.iter().map(|word| Bytes::from(*word)).collect();
    Operation::new::<T>(T::parse(name, &arguments).expect("well-formed"))
}

/// What an operation is answered, over the model.
fn asked(model: &Model, op: &Operation) -> Answered {
    match partial_state(model, &key(), op, &[]) {
        Ok(part) => told(op.execute_in_partial(part, &[], UNIQUE)),
        Err(error) => (Err(error.to_string()), None),
    }
}

/// The same, and its effect is carried out.
fn done(model: &Model, op: &Operation) -> Result<Reply, String> {
    let (answer, effect) = asked(model, op);
    apply(model, &key(), &effect.iter().collect::<Vec<_>>());
    answer
}

#[test]
fn more_elements_than_one_command_takes_are_all_written() {
    const COUNT: usize = 2 * ELEMENTS_MAX + 1;
    let names: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (set, list) = (Model::default(), Model::default());
    done(&set, &op::<Set>("SADD", &names)).expect("added");
    done(&list, &op::<List>("RPUSH", &names)).expect("pushed");
    assert_eq!(asked(&set, &op::<Set>("SCARD", &[])).0, Ok(Reply::Int(COUNT as i64)));
    assert_eq!(asked(&list, &op::<List>("LLEN", &[])).0, Ok(Reply::Int(COUNT as i64)));
    done(&set, &op::<Set>("SREM", &names)).expect("removed");
    assert_eq!((set.get(KEY), set.written.borrow().len()), (None, 6));
}

#[test]
fn what_is_added_keeps_the_time_to_live() {
    for add in [
        op::<Counter>("INCRBY", &["2"]),
        op::<FloatCounter>("INCRBYFLOAT", &["0.5"]),
        op::<Register>("APPEND", &["1"]),
        op::<Register>("SET", &["9"]),
    ] {
        let model = Model::default();
        model.put_value(KEY, Value::Text(b"1".to_vec()));
        model.expire(KEY, 5);
        done(&model, &add).expect("added");
        assert_eq!(model.expires_at(KEY).is_some(), add.method().name != "SET", "{:?}", model.written);
    }
}

#[test]
fn scores_and_sums_are_written_to_the_last_bit() {
    let sum = 0.1 + 0.2;
    let model = Model::default();
    done(&model, &op::<ScoredSet>("ZADD", &[&format!("{sum:?}"), "a"])).expect("added");
    let score = asked(&model, &op::<ScoredSet>("ZSCORE", &["a"])).0;
    assert_eq!(score, Ok(Reply::Float(sum)));
    let model = Model::default();
    for by in ["0.1", "0.2"] {
        done(&model, &op::<FloatCounter>("INCRBYFLOAT", &[by])).expect("added");
    }
    assert_eq!(model.get(KEY), Some(Value::Text(format!("{sum:?}").into_bytes())));
}

#[test]
fn what_is_read_of_a_long_list_is_all_that_is_asked_for() {
    let model = Model::default();
    let values: Vec<Bytes> = (0..50).map(|number| Bytes::from(number.to_string())).collect();
    model.put_value(KEY, Value::List(values.iter().cloned().collect()));
    let range = |name: &str, arguments: &[&str]| asked(&model, &op::<List>(name, arguments)).0;
    for (start, stop) in [("0", "3"), ("2", "9"), ("-4", "-1"), ("-9", "-3"), ("0", "-1"), ("48", "99")] {
        let whole = op::<List>("LRANGE", &[start, stop]);
        let state = left(&model, TypeInfo::of::<List>());
        assert_eq!(
            range("LRANGE", &[start, stop]),
            in_memory(state.as_ref(), &whole, &[]).0,
            "{start} {stop}"
        );
    }
    for at in [0_i64, 7, 49, -1, -50] {
        let value = values[at.rem_euclid(50) as usize].clone();
        assert_eq!(range("LINDEX", &[&at.to_string()]), Ok(Reply::Bytes(value)), "{at}");
    }
}

#[test]
fn numbers_that_the_server_does_not_add_to_are_refused() {
    for text in ["007", "+7", " 7", "7.0", "-0"] {
        let model = Model::default();
        model.put_value(KEY, Value::Text(text.into()));
        assert!(asked(&model, &op::<UidGenerator>("UID.NEXT", &[])).0.is_err(), "{text}");
        let fields = [("value", text), ("min", "0"), ("max", "9")];
        let hash = fields.map(|(field, value)| (Bytes::from(field), Bytes::from(value)));
        model.put_value(KEY, Value::Hash(hash.into_iter().collect()));
        assert!(asked(&model, &op::<BoundedCounter>("BINCRBY", &["1"])).0.is_err(), "{text}");
    }
}

#[test]
fn a_counter_that_is_out_of_its_bounds_is_refused() {
    for (value, is_taken) in [("-1", false), ("0", true), ("9", true), ("10", false)] {
        let model = Model::default();
        let fields = [("value", value), ("min", "0"), ("max", "9")];
        let hash = fields.map(|(field, value)| (Bytes::from(field), Bytes::from(value)));
        model.put_value(KEY, Value::Hash(hash.into_iter().collect()));
        assert_eq!(asked(&model, &op::<BoundedCounter>("BGET", &[])).0.is_ok(), is_taken, "{value}");
    }
}

#[test]
fn what_would_be_too_long_is_refused_before_it_is_promised() {
    const LIMIT: usize = 2 << 20;
    let mut model = Model::default();
    model.append_max = Some(LIMIT);
    model.put_value(KEY, Value::Text(vec![b'x'; LIMIT - 3]));
    let (fits, long) = (op::<Register>("APPEND", &["abc"]), op::<Register>("APPEND", &["abcd"]));
    assert!(partial_state(&model, &key(), &fits, &[]).is_ok());
    let refused = asked(&model, &long).0.expect_err("one byte too many");
    assert!(refused.contains(&LIMIT.to_string()), "{refused}");
    let own = asked(&model, &op::<Register>("APPEND", &["a"])).1.expect("it appends");
    assert!(partial_state(&model, &key(), &fits, &[&own]).is_err(), "with what it did before");
}

/// A key with such an end would seem to have none, and lose it when its value is written again.
#[test]
fn a_key_that_ends_after_the_year_10889_has_an_end() {
    for end in [(1 << 48) + 1, i64::MAX] {
        let model = expiring();
        model.expire(KEY, end);
        let seen = partial_state(&model, &key(), &op::<Register>("GET", &[]), &[]).expect("a string");
        assert_eq!(seen.and_then(|state| state.expiry()).map(Expiry::ms), Some(end.unsigned_abs()));
    }
}

/// A record that expires at 100 ms.
fn expiring() -> Model {
    let model = Model::default();
    model.put_value(KEY, Value::Text(b"old".to_vec()));
    model.expire(KEY, 100);
    model
}

fn until(model: &Model) -> Option<u64> {
    left(model, TypeInfo::of::<Register>()).and_then(|state| state.expiry()).map(Expiry::ms)
}

fn effect_of(op: &Operation) -> Effect {
    let mut old = None;
    in_memory(None, &self::op::<Register>("SET", &["old"]), &[]).1.expect("an effect").apply(&mut old);
    let old = old.map(|old| old.expiring(Expiry::at_ms(100)));
    in_memory(old.as_ref(), op, &[]).1.expect("an effect")
}

/// From the vote until it is carried out the record reads as ever, and ends neither in the server nor by what is asked of it.
#[test]
fn an_end_that_is_held_is_the_same_to_who_asks() {
    let model = expiring();
    let seen =
        |model: &Model| partial_state(model, &key(), &op::<Register>("GET", &[]), &[]).expect("a string");
    assert_eq!(hold_end(&model, &key()), HeldEnd::Held);
    assert!(model.expires_at(KEY).expect("an end") > 100_000, "in the server it is put off");
    assert_eq!(seen(&model).and_then(|state| state.expiry()).map(Expiry::ms), Some(100));
    model.now.set(5_000);
    assert_eq!(seen(&model).and_then(|state| state.expiry()).map(Expiry::ms), Some(100));
    assert_eq!(*model.written.borrow(), [] as [String; 0], "replicas hear of nothing");
}

#[test]
fn an_end_comes_in_time_when_nothing_was_carried_out() {
    let model = expiring();
    hold_end(&model, &key());
    assert_eq!((let_end(&model, &key()), until(&model)), (Applied::Done, Some(100)));
    hold_end(&model, &key());
    model.now.set(100);
    assert_eq!((let_end(&model, &key()), left(&model, TypeInfo::of::<Register>())), (Applied::Ended, None));
    assert_eq!(*model.written.borrow(), ["PEXPIREAT k 100", "DEL k"]);
}

/// What was there has ended by then, and what takes its place has not.
#[test]
fn what_is_put_in_place_of_a_record_outlives_its_end() {
    let at = |ms: u64, only_later| KeyspaceOp::Expire { at: Moment::At(ms), only_later, returning: false };
    for (op, end) in [
        (op::<Register>("SET", &["new"]), None),
        (Operation::from(KeyspaceOp::Persist { returning: false }), None),
        (Operation::from(KeyspaceOp::SetUntil { value: "new".into(), at: Moment::At(9_000) }), Some(9_000)),
        (Operation::from(at(9_000, false)), Some(9_000)),
        (Operation::from(at(9_000, true)), Some(9_000)),
    ] {
        let model = expiring();
        assert_eq!(hold_end(&model, &key()), HeldEnd::Held);
        model.now.set(5_000);
        assert_eq!(apply(&model, &key(), &[&effect_of(&op)]), Applied::Done);
        assert_eq!(let_end(&model, &key()), Applied::Done);
        assert!(left(&model, TypeInfo::of::<Register>()).is_some(), "{op:?}");
        assert_eq!(until(&model), end, "{op:?}");
    }
}

/// Two put the end off; it comes when both are done, as late as either says.
#[test]
fn the_last_of_several_lets_an_end_come() {
    let model = expiring();
    let later = |ms| KeyspaceOp::Expire { at: Moment::At(ms), only_later: true, returning: false };
    assert_eq!([hold_end(&model, &key()), hold_end(&model, &key())], [HeldEnd::Held; 2]);
    model.now.set(5_000);
    apply(&model, &key(), &[&effect_of(&Operation::from(later(9_000)))]);
    assert_eq!(let_end(&model, &key()), Applied::Done);
    assert!(model.expires_at(KEY).expect("an end") > 100_000, "the other one is not done");
    assert_eq!(
        *model.written.borrow(),
        ["PEXPIREAT k 9000"],
        "what is carried out is not lost with this server"
    );
    apply(&model, &key(), &[&effect_of(&Operation::from(later(7_000)))]);
    assert_eq!((let_end(&model, &key()), until(&model)), (Applied::Done, Some(9_000)));
}

#[test]
fn ends_that_are_far_off_or_over_are_not_held() {
    let model = expiring();
    model.expire(KEY, 600_001);
    assert_eq!(hold_end(&model, &key()), HeldEnd::Free);
    model.expire(KEY, 600_000);
    assert_eq!(hold_end(&model, &key()), HeldEnd::Held);
    assert_eq!(hold_end(&Model::default(), &key()), HeldEnd::Free, "nothing is there");
    let gone = Model::default();
    gone.expire(KEY, 100);
    gone.now.set(100);
    assert_eq!(hold_end(&gone, &key()), HeldEnd::Over);
}

/// A flush takes the record, and somebody writes another one of its name before that is told.
#[test]
fn what_came_in_place_of_a_held_record_stays() {
    let model = expiring();
    hold_end(&model, &key());
    model.lose(KEY);
    model.put_value(KEY, Value::Text(b"another".to_vec()));
    model.now.set(5_000);
    assert_eq!(let_end(&model, &key()), Applied::Done);
    assert_eq!((model.get(KEY), until(&model)), (Some(Value::Text(b"another".to_vec())), None));
}

/// One vote after the other is about the end, and always one is not decided: the end stays put off.
#[test]
fn each_vote_puts_an_end_off_anew() {
    let model = expiring();
    hold_end(&model, &key());
    for now in [599_999, 1_199_998, 1_799_997] {
        model.now.set(now);
        assert_eq!(hold_end(&model, &key()), HeldEnd::Held);
        assert_eq!(let_end(&model, &key()), Applied::Done);
        assert_eq!(model.expires_at(KEY), Some(now + 600_000));
    }
    assert_eq!(let_end(&model, &key()), Applied::Ended);
}

#[test]
fn a_shard_that_begins_lets_all_records_end() {
    let model = expiring();
    hold_end(&model, &key());
    let_all_end(&model);
    assert_eq!(until(&model), Some(100));
    assert_eq!(let_end(&model, &key()), Applied::Done, "nobody holds it");
}
