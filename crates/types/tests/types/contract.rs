//! What every type promises, checked on its examples: the effect that undoes, footprints, void answers, and that
//! everything one lock admits commutes.
//!
//! Small histories only: two or three owners, up to three operations. An owner may act twice, so that it acts on its
//! own earlier changes while another holds a claim.

use claret_types::{
    Access, Bounded, BoundedCounter, Claims, Counter, DataType, Dict, Document, Effect, Examples,
    FloatCounter, Held, Modes, OpError, Operation, Register, Reply, Set, State, Text, Unique,
};

struct Cases {
    name: &'static str,
    modes: Modes,
    states: Vec<Option<State>>,
    operations: Vec<Operation>,
}

fn states<T: Examples>() -> Vec<Option<State>> {
    T::states().into_iter().map(|state| (!T::is_absent(&state)).then(|| State::new::<T>(state))).collect()
}

fn operations<T: Examples>() -> Vec<Operation> {
    T::operations().into_iter().map(Operation::new::<T>).collect()
}

fn cases<T: Examples>() -> Cases {
    Cases { name: T::NAME, modes: T::MODES, states: states::<T>(), operations: operations::<T>() }
}

/// The three types that share a record, on it together.
fn strings() -> Cases {
    let mut operations = operations::<Register>();
    operations.truncate(8);
    operations.extend(self::operations::<Counter>());
    operations.extend(self::operations::<FloatCounter>().into_iter().take(2));
    let setnx = Register::parse("SETNX.RETURNING", &["a".into()]).map(Operation::new::<Register>);
    operations.push(setnx.expect("well-formed"));
    let states = [Text::Absent, Text::Int(5), Text::Bytes("5".into())]
        .map(|text| (text != Text::Absent).then(|| State::new::<Register>(text)));
    Cases { name: "strings", modes: Register::MODES, states: states.into(), operations }
}

/// One granted operation.
struct Granted {
    owner: usize,
    operation: Operation,
    reply: Reply,
    effect: Option<Effect>,
    claims: Claims,
}

/// Executes on what the owner sees and asks the lock. `None` when it refuses or the operation fails.
fn grant(
    modes: &Modes,
    committed: &Option<State>,
    pending: &[Granted],
    owner: usize,
    operation: &Operation,
) -> Option<Granted> {
    let mut seen = committed.clone();
    let mut held = Held::default();
    for granted in pending {
        held.add(&granted.claims);
        if let (true, Some(effect)) = (granted.owner == owner, &granted.effect) {
            effect.clone().apply(&mut seen);
        }
    }
    let executed = operation.execute(seen.as_ref(), Unique(0)).ok()?;
    let own = pending.iter().filter(|granted| granted.owner == owner).map(|granted| &granted.claims);
    held.admits(modes, &executed.claims, operation.room(seen.as_ref()), own).then(|| Granted {
        owner,
        operation: operation.clone(),
        reply: executed.reply,
        effect: executed.effect,
        claims: executed.claims,
    })
}

/// Runs the owners one after the other and checks every answer; the state they leave.
fn serial(name: &str, start: &Option<State>, order: &[usize], pending: &[Granted]) -> Option<State> {
    let (mut state, mut deferred) = (start.clone(), start.clone());
    for owner in order {
        for granted in pending.iter().filter(|granted| granted.owner == *owner) {
            let executed = granted.operation.execute(state.as_ref(), Unique(0));
            let reply = executed.as_ref().map(|executed| &executed.reply);
            assert_eq!(reply, Ok(&granted.reply), "{name}: {}", told(start, order, pending));
            if let Some(effect) = executed.expect("compared").effect {
                effect.apply(&mut state);
            }
            if let Some(effect) = &granted.effect {
                effect.clone().apply(&mut deferred);
            }
        }
    }
    assert_eq!(state, deferred, "{name}: {}", told(start, order, pending));
    state
}

fn told(start: &Option<State>, order: &[usize], pending: &[Granted]) -> String {
    let list: Vec<String> = pending
        .iter()
        .map(|granted| format!("{}: {:?} -> {}", granted.owner, granted.operation, granted.reply))
        .collect();
    format!("from {start:?} granted {list:?}, in the order {order:?}")
}

/// Every order of every subset of what is pending gives the same answers, and each subset one state.
fn check_orders(name: &str, start: &Option<State>, pending: &[Granted]) {
    const SUBSETS: &[&[&[usize]]] = &[
        &[&[0], &[0]],
        &[&[1], &[1]],
        &[&[0, 1], &[1, 0]],
        &[&[0, 2], &[2, 0]],
        &[&[1, 2], &[2, 1]],
        &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]],
    ];
    for orders in SUBSETS {
        let first = serial(name, start, orders[0], pending);
        for order in &orders[1..] {
            let state = serial(name, start, order, pending);
            assert_eq!(state, first, "{name}: {}", told(start, order, pending));
        }
    }
}

/// Histories of three operations by these owners. Returns how many the lock admitted.
fn histories(cases: &Cases, owners: [usize; 3]) -> usize {
    let mut admitted = 0;
    for start in &cases.states {
        for a in &cases.operations {
            let Some(first) = grant(&cases.modes, start, &[], owners[0], a) else { continue };
            let mut pending = vec![first];
            for b in &cases.operations {
                pending.truncate(1);
                let Some(second) = grant(&cases.modes, start, &pending, owners[1], b) else { continue };
                pending.push(second);
                for c in &cases.operations {
                    pending.truncate(2);
                    let Some(third) = grant(&cases.modes, start, &pending, owners[2], c) else { continue };
                    pending.push(third);
                    check_orders(cases.name, start, &pending);
                    admitted += 1;
                }
            }
        }
    }
    admitted
}

/// The first of two is applied before the third is granted beside the second.
fn histories_with_apply(cases: &Cases) -> usize {
    let mut admitted = 0;
    for start in &cases.states {
        for (a, b) in cases.operations.iter().flat_map(|a| cases.operations.iter().map(move |b| (a, b))) {
            let Some(first) = grant(&cases.modes, start, &[], 0, a) else { continue };
            let mut pending = vec![first];
            let Some(second) = grant(&cases.modes, start, &pending, 1, b) else { continue };
            let mut state = start.clone();
            if let Some(effect) = pending.remove(0).effect {
                effect.apply(&mut state);
            }
            pending.push(second);
            for c in &cases.operations {
                pending.truncate(1);
                let Some(third) = grant(&cases.modes, &state, &pending, 2, c) else { continue };
                pending.push(third);
                check_orders(cases.name, &state, &pending);
                admitted += 1;
            }
        }
    }
    admitted
}

fn check_commuting(cases: &Cases) {
    let admitted = histories(cases, [0, 1, 2]);
    assert!(admitted > 0, "{}: the lock admits nothing beside anything", cases.name);
    for owners in [[0, 0, 1], [0, 1, 0], [1, 0, 0]] {
        assert!(histories(cases, owners) > 0, "{}: owners {owners:?}", cases.name);
    }
    assert!(histories_with_apply(cases) > 0, "{}", cases.name);
}

fn check_contract<T: Examples>() {
    assert!(T::MODES.is_symmetric(), "{}", T::NAME);
    for op in T::operations() {
        let method = T::method(&op);
        let footprint = T::footprint(&op);
        for before in T::states() {
            let Ok(executed) = T::execute(&before, &op, Unique(0)) else { continue };
            for claim in &executed.claims.list {
                assert!(footprint.list.contains(claim), "{op:?} in {before:?} claims {claim:?}");
            }
            let draw = executed.claims.draw;
            assert!(draw.down <= footprint.draw.down && draw.up <= footprint.draw.up, "{op:?} in {before:?}");
            assert!(!executed.claims.list.is_empty(), "{op:?} in {before:?} claims nothing");
            let room = T::room(&before);
            let alone = Held::default().admits(&T::MODES, &executed.claims, room, std::iter::empty());
            assert!(alone, "{op:?} in {before:?} could never be granted");
            assert!(method.returns || executed.reply == Reply::Ok, "{op:?} is void");
            assert!(method.access == Access::Write || executed.effect.is_none(), "{op:?} only reads");
            if let Some(effect) = executed.effect {
                let mut state = before.clone();
                let inverse = T::apply(&mut state, effect);
                let after = state.clone();
                let forward = T::apply(&mut state, inverse);
                assert_eq!(state, before, "undoing {op:?}");
                T::apply(&mut state, forward);
                assert_eq!(state, after, "redoing {op:?}");
            }
        }
    }
}

/// Each operation stands in the table under the name that it is parsed from.
fn check_names<T: Examples>(calls: &[&str]) {
    let mut names: Vec<&str> = Vec::new();
    for call in calls {
        let mut words = call.split(' ');
        let name = words.next().expect("a name");
        let given: Vec<_> = words.map(Into::into).collect();
        let op = T::parse(name, &given).unwrap_or_else(|error| panic!("{call}: {error}"));
        assert_eq!(T::method(&op).name, name, "{call}");
        names.push(name);
    }
    for op in T::operations() {
        assert!(names.contains(&T::method(&op).name), "{op:?} is not among the calls");
    }
    for method in T::METHODS {
        let excess = vec!["1".into(); 9];
        if !method.arguments.contains("...") {
            let usage = method.arguments;
            let refused = OpError::Arity { method: method.name.into(), usage: usage.into() };
            assert_eq!(T::parse(method.name, &excess), Err(refused), "{}", method.name);
        }
    }
    assert_eq!(T::parse("NOPE", &[]), Err(OpError::UnknownMethod("NOPE".into())));
}

#[test]
fn every_type_keeps_its_contract() {
    macro_rules! each {
        ($($place:literal $kind:ident),* $(,)?) => { $(check_contract::<claret_types::$kind>();)* };
    }
    claret_types::with_types!(each);
}

#[test]
fn set() {
    check_commuting(&cases::<Set>());
}

#[test]
fn counter() {
    check_commuting(&cases::<Counter>());
    check_names::<Counter>(&["INCRBY 2", "INCRBY.RETURNING 2", "GET"]);
}

#[test]
fn register() {
    check_commuting(&cases::<Register>());
    let calls = ["SET v", "GETSET v", "GET", "APPEND v", "STRLEN", "SETNX v", "SETNX.RETURNING v"];
    check_names::<Register>(&calls);
}

#[test]
fn float_counter() {
    check_commuting(&cases::<FloatCounter>());
    check_names::<FloatCounter>(&["INCRBYFLOAT 1.5", "INCRBYFLOAT.RETURNING -1e3", "GET"]);
}

#[test]
fn strings_of_three_types() {
    check_commuting(&strings());
}

#[test]
fn bounded_counter() {
    check_commuting(&cases::<BoundedCounter>());
    let calls = ["BCREATE 1 0 9", "BINCRBY 1", "BINCRBY.RETURNING 1", "BDECRBY 1", "BDECRBY.RETURNING 1"];
    check_names::<BoundedCounter>(
        &[&calls[..], &["BGET", "BBOUNDS", "BRESIZE 0 5", "BDECRBY.WRAP 7"]].concat(),
    );
}

#[test]
fn dict() {
    check_commuting(&cases::<Dict>());
    let writes = ["HSET f v", "HSET.RETURNING f v g w", "HDEL f", "HDEL.RETURNING f g"];
    let adds = ["HINCRBY f 1", "HINCRBY.RETURNING f -1"];
    let reads = ["HGET f", "HMGET f g", "HEXISTS f", "HLEN", "HKEYS", "HGETALL"];
    check_names::<Dict>(&[&writes[..], &adds, &reads].concat());
}

#[test]
fn document() {
    check_commuting(&cases::<Document>());
    let changes =
        ["JSON.SET $.a {\"b\":[1]}", "JSON.DEL $.a", "JSON.DEL.RETURNING $", "JSON.MERGE $ {\"a\":null}"];
    let adds = ["JSON.NUMINCRBY $.a 1", "JSON.NUMINCRBY.RETURNING $.a 0.5"];
    let appends =
        ["JSON.STRAPPEND $.a \"x\"", "JSON.STRAPPEND.RETURNING $.a \"x\"", "JSON.ARRAPPEND $.a 1 2"];
    let reads =
        ["JSON.GET $.a", "JSON.TYPE $", "JSON.OBJKEYS $[\"a.b\"]", "JSON.ARRAPPEND.RETURNING $.a null"];
    check_names::<Document>(&[&changes[..], &adds, &appends, &reads].concat());
}

/// The check itself can fail: it finds the overdraft of three withdrawals when the draws are left out.
#[test]
#[should_panic(expected = "bounded-counter: from Some(")]
fn without_draws_three_withdrawals_overdraw() {
    let mut cases = cases::<BoundedCounter>();
    cases.states = vec![Some(State::new::<BoundedCounter>(Some(Bounded { value: 2, min: 0, max: 9 })))];
    let take = BoundedCounter::parse("BDECRBY.RETURNING", &["1".into()]).expect("well-formed");
    let take = Operation::new::<BoundedCounter>(take);
    let mut pending = Vec::new();
    for owner in 0..3 {
        let mut granted = grant(&cases.modes, &cases.states[0], &pending, owner, &take).expect("admitted");
        granted.claims.draw = claret_types::Draw::default();
        pending.push(granted);
    }
    check_orders(cases.name, &cases.states[0], &pending);
}
