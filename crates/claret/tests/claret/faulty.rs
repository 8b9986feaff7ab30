//! A custom type with a mistake in it: a number that can be added to and read, and an operation whose code
//! panics. Everything conflicts with everything.

use claret::types::{
    Access, Arguments, Claims, Execution, Few, Method, Mode, Modes, OpError, Unique, arguments, few, modes,
};
use claret::{Bytes, DataType, Reply};

pub(crate) struct Faulty;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FaultyOp {
    Add(i64),
    Get,
    Panic,
    Refuse,
}

const ALL: Mode = Mode(0);

const fn method(name: &'static str, returns: bool) -> Method {
    Method { name, arguments: "", summary: "for a test", access: Access::Write, returns, complexity: "O(1)" }
}

const METHODS: &[Method] =
    &[method("ADD", false), method("GET", true), method("FAULT", false), method("REFUSE", false)];

impl DataType for Faulty {
    const NAME: &'static str = "faulty";
    const SUMMARY: &'static str = "a number, and a mistake";
    const NATIVE: &'static str = "string";
    const MODES: Modes = Modes { names: &["all"], conflicts: &[modes(&[ALL])], removing: 0, clearing: 0 };
    const METHODS: &'static [Method] = METHODS;

    type State = i64;
    type Op = FaultyOp;
    type Effect = i64;

    fn parse(method: &str, _: Arguments<'_>) -> Result<FaultyOp, OpError> {
        Err(OpError::misuse(METHODS, method))
    }

    fn method(op: &FaultyOp) -> &'static Method {
        match op {
            FaultyOp::Add(_) => &METHODS[0],
            FaultyOp::Get => &METHODS[1],
            FaultyOp::Panic => &METHODS[2],
            FaultyOp::Refuse => &METHODS[3],
        }
    }

    fn arguments(op: &FaultyOp) -> Few<Bytes> {
        match op {
            FaultyOp::Add(amount) => few([arguments::of_int(*amount)]),
            FaultyOp::Get | FaultyOp::Panic | FaultyOp::Refuse => Few::new(),
        }
    }

    fn is_absent(state: &i64) -> bool {
        *state == 0
    }

    fn footprint(_: &FaultyOp) -> Claims {
        Claims::record(ALL)
    }

    fn execute(state: &i64, op: &FaultyOp, _: Unique) -> Result<Execution<i64>, OpError> {
        match op {
            FaultyOp::Add(amount) => Ok(Execution::void(*amount, Claims::record(ALL))),
            FaultyOp::Get => Ok(Execution::read(Reply::Int(*state), Claims::record(ALL))),
            FaultyOp::Panic => panic!("no such case: {state}"),
            FaultyOp::Refuse => Err(OpError::Custom("not today; come again tomorrow".into())),
        }
    }

    fn apply(state: &mut i64, amount: i64) -> i64 {
        *state += amount;
        -amount
    }
}
