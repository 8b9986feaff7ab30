//! A bag to take an element from. Which one a TAKE gets depends on its number and not on what else is
//! there, so two may take different ones at once: right if the effect names the element, wrong if it
//! chooses again.

use claret_types::{
    Access, Arguments, Bytes, Claims, DataType, Examples, Execution, Few, Method, Mode, Modes, OpError,
    Reply, Scope, Unique, modes,
};

/// `RERUN`: the effect forgets the choice and, at apply, takes from the front.
pub(crate) struct Bag<const RERUN: bool>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BagEffect {
    Remove(u64),
    PopFront,
    Insert(usize, u64),
    Nothing,
}

const TAKE: Mode = Mode(0);
const EMPTY: Mode = Mode(1);

const METHODS: &[Method] = &[Method {
    name: "TAKE",
    arguments: "",
    summary: "takes an element",
    access: Access::Write,
    returns: true,
    complexity: "O(n)",
}];

const MODES: Modes = Modes {
    names: &["take", "empty"],
    conflicts: &[modes(&[TAKE]), modes(&[])],
    removing: modes(&[TAKE]),
    clearing: 0,
};

fn footprint() -> Claims {
    Claims::record(TAKE).and(Scope::Record, EMPTY)
}

/// Takes the element that `preference` likes best.
fn take(state: &[u64], preference: impl Fn(u64) -> u64, rerun: bool) -> Execution<BagEffect> {
    let Some(&chosen) = state.iter().max_by_key(|element| preference(**element)) else {
        return Execution::read(Reply::Nil, Claims::record(EMPTY));
    };
    let claims = Claims::element(&chosen.to_be_bytes(), TAKE);
    let effect = if rerun { BagEffect::PopFront } else { BagEffect::Remove(chosen) };
    Execution::returning(Reply::Int(chosen as i64), effect, claims)
}

fn change(state: &mut Vec<u64>, effect: BagEffect) -> BagEffect {
    let at = match effect {
        BagEffect::Remove(element) => state.iter().position(|held| *held == element),
        BagEffect::PopFront => (!state.is_empty()).then_some(0),
        BagEffect::Insert(at, element) => {
            state.insert(at, element);
            return BagEffect::Remove(element);
        }
        BagEffect::Nothing => None,
    };
    at.map_or(BagEffect::Nothing, |at| BagEffect::Insert(at, state.remove(at)))
}

/// A bag that takes its smallest element, whatever the number: shown with no more than one.
pub(crate) struct One;

macro_rules! bag {
    ([$($generics:tt)*] $type:ty, $execute:expr, $states:expr) => {
        impl $($generics)* DataType for $type {
            const NAME: &'static str = "bag";
            const SUMMARY: &'static str = "elements to take one of";
            const NATIVE: &'static str = "list";
            const METHODS: &'static [Method] = METHODS;
            const MODES: Modes = MODES;

            type State = Vec<u64>;
            type Op = ();
            type Effect = BagEffect;

            fn parse(method: &str, given: Arguments<'_>) -> Result<(), OpError> {
                let is_known = method == METHODS[0].name && given.is_empty();
                if is_known { Ok(()) } else { Err(OpError::misuse(METHODS, method)) }
            }

            fn method((): &()) -> &'static Method {
                &METHODS[0]
            }

            fn arguments((): &()) -> Few<Bytes> {
                Few::new()
            }

            fn is_absent(state: &Vec<u64>) -> bool {
                state.is_empty()
            }

            fn footprint((): &()) -> Claims {
                footprint()
            }

            fn execute(
                state: &Vec<u64>,
                (): &(),
                unique: Unique,
            ) -> Result<Execution<BagEffect>, OpError> {
                let execute: fn(&[u64], Unique) -> Execution<BagEffect> = $execute;
                Ok(execute(state, unique))
            }

            fn apply(state: &mut Vec<u64>, effect: BagEffect) -> BagEffect {
                change(state, effect)
            }
        }

        impl $($generics)* Examples for $type {
            fn states() -> Vec<Vec<u64>> {
                $states
            }

            fn operations() -> Vec<()> {
                vec![()]
            }
        }
    };
}

bag!(
    [<const RERUN: bool>] Bag<RERUN>,
    |state, unique| take(state, |element| (element ^ unique.0) % 4, RERUN),
    vec![vec![], vec![1], vec![0, 1, 2, 3]]
);

bag!([] One, |state, _| take(state, |element| !element, false), vec![vec![], vec![1]]);
