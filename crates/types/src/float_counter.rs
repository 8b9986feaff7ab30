//! FloatCounter: a 64-bit float that many clients add to. Native Redis type: string.
//!
//! # Commutativity specification
//!
//! "Exact" means: a whole number of at most 2^53 either way. Sums of such numbers that remain exact are not rounded,
//! so their order does not show. Any other sum may be rounded, so its order shows.
//!
//! | operation | when | claims | draws |
//! |---|---|---|---|
//! | `INCRBYFLOAT x` (void) | value, x and sum exact | `move-float` | x up or down, against the room to 2^53 either way |
//! | `INCRBYFLOAT x` (void) | otherwise | `write` | |
//! | `INCRBYFLOAT.RETURNING x` | | `write` | |
//! | `GET` | | `read` | |
//!
//! | | read | write | move-float |
//! |---|---|---|---|
//! | read | | x | x |
//! | write | x | x | x |
//! | move-float | x | x | |
//!
//! You cannot yet say that rounding does not matter and let inexact additions share the lock. Where a sum is hot, use
//! whole numbers (cents, micro-units).
//!
//! The number is kept as the shortest decimal that reads back as the same float, without an exponent: 3.0 is
//! `3`. Redis itself adds in extended precision and cuts at 17 decimals, so the last digits may differ.
//!
//! No operation is total (P82), as in Counter.
//!
//! Register and Counter work on the same records; `text.rs` says how their modes conflict with these.

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few,
};
use crate::text::{self, MOVE_FLOAT, READ, Text, WRITE};
use crate::{Bytes, Claims, Draw, Modes, OpError, Register, Reply, Room, Scope};

/// A float that many add to. Additions share the lock while nothing is rounded, that is among whole numbers up to 2^53; others
/// run alone.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct FloatCounter;

/// Operations of [`FloatCounter`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum FloatCounterOp {
    Add(f64),
    AddReturning(f64),
    Get,
}

/// A change of a float counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FloatCounterEffect {
    /// Adds. Redis adds otherwise: a host applies it to the content and writes what comes of that, with `SET`.
    Add(f64),
    /// Puts back what was there. Never pending.
    Restore(Text),
}

/// Up to here, either way, every whole number is a float: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

const METHODS: &[Method] = &[
    Method {
        name: "INCRBYFLOAT",
        arguments: "increment",
        summary: "adds to the number",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "INCRBYFLOAT.RETURNING",
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
];

impl DataType for FloatCounter {
    const NAME: &'static str = "float-counter";
    const SUMMARY: &'static str = "a float that many add to";
    const NATIVE: &'static str = "string";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = text::MODES;

    type State = Text;
    type Op = FloatCounterOp;
    type Effect = FloatCounterEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<FloatCounterOp, OpError> {
        let amount = |given: &Bytes| arguments::float(given, "float increment");
        let op = match (method, given) {
            ("INCRBYFLOAT", [given]) => FloatCounterOp::Add(amount(given)?),
            ("INCRBYFLOAT.RETURNING", [given]) => FloatCounterOp::AddReturning(amount(given)?),
            ("GET", []) => FloatCounterOp::Get,
            _ => return Err(OpError::misuse(METHODS, method)),
        };
        Self::check(&op)?;
        Ok(op)
    }

    fn method(op: &FloatCounterOp) -> &'static Method {
        match op {
            FloatCounterOp::Add(_) => &METHODS[0],
            FloatCounterOp::AddReturning(_) => &METHODS[1],
            FloatCounterOp::Get => &METHODS[2],
        }
    }

    fn arguments(op: &FloatCounterOp) -> Few<Bytes> {
        match op {
            FloatCounterOp::Add(amount) | FloatCounterOp::AddReturning(amount) => {
                few([arguments::of_float(*amount)])
            }
            FloatCounterOp::Get => Few::new(),
        }
    }

    fn check(op: &FloatCounterOp) -> Result<(), OpError> {
        match op {
            FloatCounterOp::Add(amount) | FloatCounterOp::AddReturning(amount) => {
                if amount.is_nan() {
                    Err(OpError::NotANumber("float increment".into()))
                } else if amount.is_infinite() {
                    let given = amount.to_string();
                    Err(OpError::Bound { what: "a float increment".into(), given, expected: "finite".into() })
                } else {
                    Ok(())
                }
            }
            FloatCounterOp::Get => Ok(()),
        }
    }

    fn is_absent(state: &Text) -> bool {
        *state == Text::Absent
    }

    fn footprint(op: &FloatCounterOp) -> Claims {
        match op {
            FloatCounterOp::Add(amount) if is_exact(*amount) => {
                Claims::record(MOVE_FLOAT).and(Scope::Record, WRITE).drawing(draw(*amount))
            }
            FloatCounterOp::Add(_) | FloatCounterOp::AddReturning(_) => Claims::record(WRITE),
            FloatCounterOp::Get => Claims::record(READ),
        }
    }

    fn execute(
        state: &Text,
        op: &FloatCounterOp,
        _: Unique,
    ) -> Result<Execution<FloatCounterEffect>, OpError> {
        let value = state.as_float()?;
        let sum = |amount: f64| {
            let sum = value + amount;
            if sum.is_finite() {
                Ok(sum)
            } else {
                Err(OpError::Overflow("the float counter".into(), format!("{value:e} + {amount:e}")))
            }
        };
        match op {
            FloatCounterOp::Add(amount) => {
                let sum = sum(*amount)?;
                let exact = is_exact(value) && is_exact(*amount) && is_exact(sum);
                let claims = if exact {
                    Claims::record(MOVE_FLOAT).drawing(draw(*amount))
                } else {
                    Claims::record(WRITE)
                };
                Ok(Execution::void(FloatCounterEffect::Add(*amount), claims))
            }
            FloatCounterOp::AddReturning(amount) => {
                let reply = Reply::Float(without_sign_of_zero(sum(*amount)?));
                Ok(Execution::returning(reply, FloatCounterEffect::Add(*amount), Claims::record(WRITE)))
            }
            FloatCounterOp::Get => {
                Ok(Execution::read(Reply::Float(without_sign_of_zero(value)), Claims::record(READ)))
            }
        }
    }

    fn room(state: &Text) -> Room {
        match state.as_float() {
            Ok(value) if is_exact(value) => {
                // In integers: in floats the sum rounds at the edge, and admits one too many.
                let (bound, value) = (EXACT_MAX as i64, value as i64);
                Room { down: (bound + value).unsigned_abs(), up: (bound - value).unsigned_abs() }
            }
            // Nothing draws here.
            Ok(_) | Err(_) => Room { down: 0, up: 0 },
        }
    }

    fn apply(state: &mut Text, effect: FloatCounterEffect) -> FloatCounterEffect {
        match effect {
            FloatCounterEffect::Add(amount) => {
                let value = state.as_float().expect("held since it was a number");
                FloatCounterEffect::Restore(std::mem::replace(state, written(value + amount)))
            }
            FloatCounterEffect::Restore(before) => {
                FloatCounterEffect::Restore(std::mem::replace(state, before))
            }
        }
    }
}

fn is_exact(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() <= EXACT_MAX
}

/// Of an exact amount.
fn draw(amount: f64) -> Draw {
    let distance = amount.abs() as u64;
    if amount < 0.0 { Draw { down: distance, up: 0 } } else { Draw { down: 0, up: distance } }
}

/// -0 reads as 0: which of the two a sum is depends on the order.
fn without_sign_of_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

/// One content for each number.
fn written(value: f64) -> Text {
    if is_exact(value) { Text::Int(value as i64) } else { Text::Bytes(value.to_string().into()) }
}

impl Examples for FloatCounter {
    fn states() -> Vec<Text> {
        vec![
            Text::Absent,
            Text::Int(3),
            Text::Bytes("3.0".into()),
            Text::Bytes("-0".into()),
            Text::Bytes("0.1".into()),
            Text::Bytes("a tenth".into()),
            Text::Int(EXACT_MAX as i64 - 2),
            Text::Int(2 - EXACT_MAX as i64),
            Text::Int(EXACT_MAX as i64 + 2),
        ]
    }

    fn operations() -> Vec<FloatCounterOp> {
        vec![
            FloatCounterOp::Get,
            FloatCounterOp::Add(1.0),
            FloatCounterOp::Add(2.0),
            FloatCounterOp::Add(-1.0),
            FloatCounterOp::Add(-2.0),
            FloatCounterOp::Add(-0.0),
            FloatCounterOp::Add(0.1),
            FloatCounterOp::Add(0.2),
            FloatCounterOp::Add(EXACT_MAX),
            FloatCounterOp::Add(1e300),
            FloatCounterOp::AddReturning(1.0),
            FloatCounterOp::AddReturning(0.2),
        ]
    }
}

/// As the content of a [`Register`].
impl BuiltIn for FloatCounter {
    const SHARING: &'static str = "increments that need no rounding";
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
