//! Counter: a 64-bit integer that many clients add to. Native Redis type: string.
//!
//! # Commutativity specification
//!
//! | operation | claims | draws |
//! |---|---|---|
//! | `INCRBY n`, `DECRBY n`, `INCR`, `DECR` (void) | `move` | n up or down, against the room to the 64-bit bounds |
//! | the same with `.RETURNING` | `move-seen` | the same |
//! | `GET` | `read` | |
//!
//! | | move | move-seen | read |
//! |---|---|---|---|
//! | move | | x | x |
//! | move-seen | x | x | x |
//! | read | x | x | |
//!
//! Near the bounds two increments that each fit may not fit together (P4, trap 15). The draws of all pending
//! increments are summed against the room, so the second waits, and is then refused or done. An increment that does
//! not fit in the committed state at all is refused with an overflow error.
//!
//! No operation is total (P82): `SET` on the same key may leave what is no number, and then `GET` fails too. But where there is a number
//! operations of this type leave one: so all are lasting but those that draw much.
//!
//! Register and FloatCounter work on the same records; `text.rs` says how their modes conflict with these.

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few,
};
use crate::text::{self, MOVE, MOVE_SEEN, READ, Text};
use crate::{Bytes, Claims, Draw, Modes, OpError, Register, Reply, Room};

/// An integer that many add to. All void additions share the lock; those that answer the sum, and reads, wait for them.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct Counter;

/// Operations of [`Counter`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum CounterOp {
    Add(i64),
    AddReturning(i64),
    Get,
}

/// A change of a counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CounterEffect {
    /// Adds: `INCRBY`.
    Add(i64),
    /// Puts back what was there: undoes an increment. Never pending.
    Restore(Text),
}

const METHODS: &[Method] = &[
    Method {
        name: "INCRBY",
        arguments: "increment",
        summary: "adds to the number",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "INCRBY.RETURNING",
        arguments: "increment",
        summary: "adds to the number; the sum",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "GET",
        arguments: "",
        summary: "the number, 0 if there is none",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "INCR",
        arguments: "",
        summary: "adds 1 to the number",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "DECR",
        arguments: "",
        summary: "subtracts 1 from the number",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "DECRBY",
        arguments: "decrement",
        summary: "subtracts from the number",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "INCR.RETURNING",
        arguments: "",
        summary: "adds 1 to the number; the sum",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "DECR.RETURNING",
        arguments: "",
        summary: "subtracts 1 from the number; the difference",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "DECRBY.RETURNING",
        arguments: "decrement",
        summary: "subtracts from the number; the difference",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
];

impl DataType for Counter {
    const NAME: &'static str = "counter";
    const SUMMARY: &'static str = "a 64-bit integer that many add to";
    const NATIVE: &'static str = "string";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = text::MODES;

    type State = Text;
    type Op = CounterOp;
    type Effect = CounterEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<CounterOp, OpError> {
        let negated = |given: &Bytes| {
            let amount = arguments::int(given)?;
            amount.checked_neg().ok_or_else(|| OpError::Overflow("the decrement".into(), amount.to_string()))
        };
        match (method, given) {
            ("INCR", []) => Ok(CounterOp::Add(1)),
            ("DECR", []) => Ok(CounterOp::Add(-1)),
            ("INCRBY", [amount]) => Ok(CounterOp::Add(arguments::int(amount)?)),
            ("DECRBY", [amount]) => Ok(CounterOp::Add(negated(amount)?)),
            ("INCR.RETURNING", []) => Ok(CounterOp::AddReturning(1)),
            ("DECR.RETURNING", []) => Ok(CounterOp::AddReturning(-1)),
            ("INCRBY.RETURNING", [amount]) => Ok(CounterOp::AddReturning(arguments::int(amount)?)),
            ("DECRBY.RETURNING", [amount]) => Ok(CounterOp::AddReturning(negated(amount)?)),
            ("GET", []) => Ok(CounterOp::Get),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn method(op: &CounterOp) -> &'static Method {
        // The first three; the others are further names of the first two.
        match op {
            CounterOp::Add(_) => &METHODS[0],
            CounterOp::AddReturning(_) => &METHODS[1],
            CounterOp::Get => &METHODS[2],
        }
    }

    fn arguments(op: &CounterOp) -> Few<Bytes> {
        match op {
            CounterOp::Add(amount) | CounterOp::AddReturning(amount) => few([arguments::of_int(*amount)]),
            CounterOp::Get => Few::new(),
        }
    }

    fn is_absent(state: &Text) -> bool {
        *state == Text::Absent
    }

    fn footprint(op: &CounterOp) -> Claims {
        match op {
            CounterOp::Add(amount) => Claims::record(MOVE).drawing(draw(*amount)),
            CounterOp::AddReturning(amount) => Claims::record(MOVE_SEEN).drawing(draw(*amount)),
            CounterOp::Get => Claims::record(READ),
        }
    }

    fn is_lasting(op: &CounterOp) -> bool {
        Self::footprint(op).draw.is_small()
    }

    fn execute(state: &Text, op: &CounterOp, _: Unique) -> Result<Execution<CounterEffect>, OpError> {
        let value = state.as_int()?;
        let claims = Self::footprint(op);
        let sum = |amount: i64| {
            value
                .checked_add(amount)
                .ok_or_else(|| OpError::Overflow("the counter".into(), format!("{value} + {amount}")))
        };
        match op {
            CounterOp::Add(amount) => {
                sum(*amount)?;
                Ok(Execution::void(CounterEffect::Add(*amount), claims))
            }
            CounterOp::AddReturning(amount) => {
                Ok(Execution::returning(Reply::Int(sum(*amount)?), CounterEffect::Add(*amount), claims))
            }
            CounterOp::Get => Ok(Execution::read(Reply::Int(value), claims)),
        }
    }

    fn room(state: &Text) -> Room {
        let value = state.as_int().unwrap_or(0);
        Room { down: value.abs_diff(i64::MIN), up: i64::MAX.abs_diff(value) }
    }

    fn apply(state: &mut Text, effect: CounterEffect) -> CounterEffect {
        match effect {
            CounterEffect::Add(amount) => {
                let value = state.as_int().expect("held since it was an integer");
                let sum = Text::Int(value.checked_add(amount).expect("the draw kept the room"));
                CounterEffect::Restore(std::mem::replace(state, sum))
            }
            CounterEffect::Restore(before) => CounterEffect::Restore(std::mem::replace(state, before)),
        }
    }
}

fn draw(amount: i64) -> Draw {
    match amount {
        0.. => Draw { down: 0, up: amount.unsigned_abs() },
        _ => Draw { down: amount.unsigned_abs(), up: 0 },
    }
}

impl Examples for Counter {
    fn states() -> Vec<Text> {
        vec![
            Text::Absent,
            Text::Int(0),
            Text::Int(7),
            Text::Bytes("7".into()),
            Text::Bytes("seven".into()),
            Text::Int(i64::MAX - 2),
            Text::Int(i64::MIN + 2),
        ]
    }

    fn operations() -> Vec<CounterOp> {
        vec![
            CounterOp::Get,
            CounterOp::Add(1),
            CounterOp::Add(2),
            CounterOp::Add(-1),
            CounterOp::Add(-2),
            CounterOp::AddReturning(1),
            CounterOp::AddReturning(-2),
        ]
    }
}

/// As the content of a [`Register`].
impl BuiltIn for Counter {
    const SHARING: &'static str = "increments";
    const READS_ALL: &'static [&'static str] = &["GET"];
    const DESCRIBED_AS: &'static str = Register::NAME;

    fn native(text: &Text) -> Native {
        Register::native(text)
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Text>, OpError> {
        Register::of_words(words)
    }

    fn bytes(text: &Text) -> usize {
        Register::bytes(text)
    }
}
