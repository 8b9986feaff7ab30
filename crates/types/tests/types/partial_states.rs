//! Operations do the same on a partial state as on the whole record: answer, claims, effect, room and error, for every
//! example state, every example operation, and up to two effects that its owner has there already. The partial states are the
//! smallest that each type's documentation allows ([`BuiltIn::part`]).

use claret_types::{
    Best, BuiltIn, Bytes, Dict, Document, DocumentOp, Effect, End, Examples, Few, List, ListOp, ListState,
    OpError, Operation, Ranking, ScoreBound, ScoredSet, ScoredSetOp, Set, SetOp, SetState, State, TopK,
    TopKOp, Unique, with_types,
};

const UNIQUE: Unique = Unique(1_000_001);

/// What an operation whose owner has effects in `own` comes to, in words that differ when it does.
fn outcome<T: Examples>(state: Option<State>, op: &Operation, own: &[&Effect]) -> (String, Option<Effect>) {
    match op.execute_in_partial(state, own, UNIQUE) {
        Err(error) => (error.to_string(), None),
        Ok((executed, room)) => {
            let effect =
                executed.effect.as_ref().map(|it| it.downcast::<T>().expect("of the operation's type"));
            (format!("{:?} {:?} {room:?} {effect:?}", executed.reply, executed.claims), executed.effect)
        }
    }
}

fn absent_as_none<T: Examples>(state: &T::State) -> Option<State> {
    (!T::is_absent(state)).then(|| State::new::<T>(state.clone()))
}

/// Holds every operation in every state against its partial state; how often it did.
fn check<T: BuiltIn>(states: &[T::State], ops: &[T::Op]) -> usize {
    let ops: Vec<Operation> = ops.iter().map(|op| Operation::new::<T>(op.clone())).collect();
    states.iter().map(|state| deeper::<T>(state, &ops, &mut Vec::new())).sum()
}

fn deeper<T: BuiltIn>(state: &T::State, ops: &[Operation], own: &mut Vec<Effect>) -> usize {
    let mut cases = 0;
    for op in ops {
        let refs: Vec<&Effect> = own.iter().collect();
        let typed: Vec<&T::Effect> = own.iter().map(|it| it.downcast::<T>().expect("its type")).collect();
        let partial = T::part(state, op.downcast::<T>().expect("its type"), &typed);
        let (expected, effect) = outcome::<T>(absent_as_none::<T>(state), op, &refs);
        let (found, _) = outcome::<T>(absent_as_none::<T>(&partial), op, &refs);
        assert_eq!(found, expected, "{op:?} after {own:?}: in {partial:?} and in {state:?}");
        cases += 1;
        if let Some(effect) = effect.filter(|_| own.len() < 2) {
            own.push(effect);
            cases += deeper::<T>(state, ops, own);
            own.pop();
        }
    }
    cases
}

fn examples<T: BuiltIn>() {
    let (states, ops) = (T::states(), T::operations());
    assert!(check::<T>(&states, &ops) > states.len() * ops.len(), "some operation had an effect");
}

#[test]
fn every_type_by_its_examples() {
    macro_rules! each {
        ($($place:literal $kind:ident),* $(,)?) => { $(examples::<claret_types::$kind>();)* };
    }
    with_types!(each);
}

#[test]
fn sets_by_members() {
    let many: SetState = (0..100).map(|n| Bytes::from(n.to_string())).collect();
    let mut ops = Set::operations();
    let few = |list: &[&str]| list.iter().map(|it| Bytes::from(*it)).collect::<Few<Bytes>>();
    ops.extend([SetOp::Add(few(&["1", "z"])), SetOp::RemoveReturning(few(&["1", "2", "z"]))]);
    check::<Set>(&[many.clone(), few(&["1", "2"]).into_iter().collect()], &ops);
    assert_eq!(Set::part(&many, &SetOp::Contains("7".into()), &[]).sorted().len(), 1);
    assert_eq!(Set::part(&many, &SetOp::Contains("seven".into()), &[]).sorted().len(), 0);
    assert_eq!(Set::part(&many, &SetOp::Len, &[]).len(), 100);
}

#[test]
fn dicts_by_fields() {
    let many = |state: &<Dict as claret_types::DataType>::State| {
        let more = (0..20).map(|n| (Bytes::from(format!("f{n}")), "v".into()));
        state.sorted().into_iter().map(|(field, value)| (field.clone(), value.clone())).chain(more).collect()
    };
    let states: Vec<_> = Dict::states().iter().map(many).collect();
    check::<Dict>(&states, &Dict::operations());
}

#[test]
fn documents_by_places() {
    let loaded = |name: &str, path: &str| {
        let whole = &Document::states()[2];
        Document::part(whole, &DocumentOp::new(name, &[path.into()]), &[]).len()
    };
    assert_eq!(
        (loaded("JSON.GET", "$.a.b"), loaded("JSON.TYPE", "$.a"), loaded("JSON.GET", "$.a")),
        (3, 2, 3)
    );
}

fn ranked(names: &str) -> impl Iterator<Item = (Bytes, f64)> {
    names.bytes().enumerate().map(|(at, name)| (Bytes::copy_from(&[name]), at as f64 / 2.0))
}

#[test]
fn scored_sets_by_members_scores_and_positions() {
    let states: [Ranking; 3] = ["abcdefgh", "yx", "abxcdyefg"].map(|names| ranked(names).collect());
    let range = |start, stop, reverse| ScoredSetOp::Range { start, stop, reverse, scores: true };
    let mut ops = ScoredSet::operations();
    for reverse in [false, true] {
        ops.extend([
            range(2, 4, reverse),
            range(-3, -2, reverse),
            range(1, -2, reverse),
            range(7, 99, reverse),
        ]);
    }
    let (min, max) = (ScoreBound::Included(0.5), ScoreBound::Excluded(2.5));
    ops.push(ScoredSetOp::RangeByScore { min, max, scores: true });
    ops.push(ScoredSetOp::Count { min, max });
    ops.extend(["a", "d", "h"].map(|member| ScoredSetOp::Rank(member.into())));
    check::<ScoredSet>(&states, &ops);
    let loaded = |op| ScoredSet::part(&states[0], &op, &[]).iter().count();
    assert_eq!((loaded(range(2, 4, true)), loaded(ScoredSetOp::Rank("d".into()))), (3, 1));
}

#[test]
fn topks_by_both_ends() {
    let of = |capacity, names: &str| Best::new(capacity, ranked(names));
    let states = [of(6, "abcdef"), of(6, "abcd"), of(4, "abcd"), of(1, "a"), of(3, "abc")];
    let mut ops = vec![TopKOp::Max, TopKOp::Count, TopKOp::List { count: 2 }, TopKOp::List { count: 9 }];
    for capacity in [1, 3, 4, 6] {
        for (member, score) in [("a", 9.0), ("b", 1.0), ("x", 0.25), ("y", 0.75), ("z", 7.0)] {
            ops.push(TopKOp::Add { capacity, score, member: member.into() });
        }
    }
    check::<TopK>(&states, &ops);
    let long = Best::new(1000, (0..1000).map(|n| (Bytes::from(n.to_string()), f64::from(n))));
    let offer = TopKOp::Add { capacity: 1000, score: 5.0, member: "7".into() };
    assert_eq!(TopK::part(&long, &offer, &[]).ranking().iter().count(), 3);
}

#[test]
fn lists_by_both_ends() {
    let of = |names: &str| names.bytes().map(|name| Bytes::copy_from(&[name])).collect::<ListState>();
    let mut ops = List::operations();
    for (start, stop) in [(1, 2), (-3, -2), (1, -2), (2, 1), (4, 99), (-99, -6)] {
        ops.push(ListOp::Range { start, stop });
    }
    ops.extend([2, 6, -3, -7].map(ListOp::Index));
    check::<List>(&["abcdefgh", "abcde", "ab"].map(of), &ops);
    let loaded = |op| List::part(&of("abcdefgh"), &op, &[]).iter().count();
    assert_eq!((loaded(ListOp::Len), loaded(ListOp::Pop(End::Back)), loaded(ListOp::Index(-2))), (0, 1, 2));
}

/// A host that loads too little is told so, instead of the user.
#[test]
fn what_a_partial_state_lacks_is_an_error() {
    let fails = |state: State, op: Operation| {
        let error = op.execute_in_partial(Some(state), &[], UNIQUE).expect_err("it lacks something");
        assert!(matches!(error, OpError::Panicked { .. }), "{error}");
    };
    let list = || State::new::<List>(ListState::partial(["a".into()], 3, []));
    for op in [ListOp::Pop(End::Back), ListOp::Index(1), ListOp::Range { start: 0, stop: -1 }] {
        fails(list(), Operation::new::<List>(op));
    }
    let set = State::new::<Set>(SetState::partial(["a".into()], 1));
    fails(set, Operation::new::<Set>(SetOp::Members));
    let ranking = State::new::<ScoredSet>(Ranking::partial(ranked("a"), 1, 2));
    let range = ScoredSetOp::Range { start: 0, stop: 0, reverse: false, scores: false };
    fails(ranking, Operation::new::<ScoredSet>(range));
}

/// Effects of the owner that need what is not there are the host's mistake, too, and no panic of the shard's.
#[test]
fn effects_that_a_partial_state_lacks_are_an_error() {
    let whole = ["a", "b"].map(Bytes::from).into_iter().collect::<ListState>();
    let pop = Operation::new::<List>(ListOp::Pop(End::Front));
    let own = pop.execute(Some(&State::new::<List>(whole)), UNIQUE).expect("a pop").effect.expect("takes");
    let length = Operation::new::<List>(ListOp::Len);
    let lacking = State::new::<List>(ListState::partial([], 2, []));
    let error = length.execute_in_partial(Some(lacking), &[&own], UNIQUE).expect_err("nothing to take");
    assert!(matches!(&error, OpError::Panicked { method, .. } if method == "LLEN"), "{error}");
}

/// When an owner's effects change a record's type, the whole of it is needed, and the type is that of the effects.
#[test]
fn mixed_types_are_loaded_whole() {
    let set = State::new::<Set>(["a".into()].into_iter().collect());
    let remove = Operation::new::<Set>(SetOp::Remove(Few::from_iter([Bytes::from("a")])));
    let own = remove.execute(Some(&set), UNIQUE).expect("it is in").effect.expect("goes");
    let push = Operation::new::<List>(ListOp::Push(End::Back, Few::from_iter([Bytes::from("v")])));
    let partial = set.part(&push, &[&own]);
    assert_eq!(partial, set);
    assert!(push.execute_in_partial(Some(partial.clone()), &[&own], UNIQUE).is_ok());
    let error = push.execute_in_partial(Some(partial), &[], UNIQUE).expect_err("a set");
    assert!(matches!(error, OpError::WrongType { .. }), "{error}");
}
