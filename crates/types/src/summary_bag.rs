//! SummaryBag: count, sum, least and greatest of the numbers that were added. Native Redis type: hash with the fields
//! `count`, `sum`, `min` and `max`.
//!
//! # Commutativity specification
//!
//! *Exact* means an integer of at most 2^52 either way (`exact.rs`). An add claims several modes, one for each part
//! that it may change:
//!
//! | operation | when | claims, on the record | draws |
//! |---|---|---|---|
//! | `BAG.ADD v` (void) | v exact | `add` | v up or down, or all the room when the sum is not exact |
//! | | v not exact | `add-inexact` | |
//! | | v below the least, or the first | and `lower` | |
//! | | v above the greatest, or the first | and `raise` | |
//! | `BAG.COUNT`, `BAG.SUM`, `BAG.MEAN` | | `read-total` | |
//! | `BAG.MIN` | | `read-min` | |
//! | `BAG.MAX` | | `read-max` | |
//! | `BAG.SUMMARY` | | all three reads | |
//!
//! | | add | add-inexact | lower | raise | read-total | read-min | read-max |
//! |---|---|---|---|---|---|---|---|
//! | add | | x | | | x | | |
//! | add-inexact | x | x | | | x | | |
//! | lower | | | | | | x | |
//! | raise | | | | | | | x |
//! | read-total | x | x | | | | | |
//! | read-min | | | x | | | | |
//! | read-max | | | | x | | | |
//!
//! Sums of floats depend on the order unless they are exact. So adds of integers commute, and adds of fractions run
//! one by one. While the sum has a fraction, each add of an integer draws the whole room and also runs alone. The
//! least only falls and the greatest only rises, so an add between them stays between them, whatever else is applied.

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few,
};
use crate::exact::{EXACT_DRAW, EXACT_ROOM, exact_draw, is_exact, one_zero};
use crate::words::{finite, malformed, positive};
use crate::{Bytes, Claims, FromReply, Mode, Modes, OpError, Reply, Room, Scope, modes};

/// Count, sum, least and greatest of many numbers. Additions of whole numbers share the lock.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct SummaryBag;

/// Operations of [`SummaryBag`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum SummaryBagOp {
    Add(f64),
    Count,
    Sum,
    Mean,
    Min,
    Max,
    Summary,
}

/// What is kept of a bag. All zero when the record is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values were added.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least; meaningless when there are none.
    pub min: f64,
    /// The greatest; meaningless when there are none.
    pub max: f64,
}

/// A change of a bag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SummaryBagEffect {
    /// Adds a value: a host applies it to the summary and writes that, with `HSET`.
    Add(f64),
    /// Puts back what was there: undoes an add. Never pending.
    Restore(Summary),
}

type Op = SummaryBagOp;
type Effect = SummaryBagEffect;

const ADD: Mode = Mode(0);
const ADD_INEXACT: Mode = Mode(1);
const LOWER: Mode = Mode(2);
const RAISE: Mode = Mode(3);
const READ_TOTAL: Mode = Mode(4);
const READ_MIN: Mode = Mode(5);
const READ_MAX: Mode = Mode(6);

const fn read(name: &'static str, summary: &'static str) -> Method {
    Method { name, arguments: "", summary, access: Access::Read, returns: true, complexity: "O(1)" }
}

const METHODS: &[Method] = &[
    Method {
        name: "BAG.ADD",
        arguments: "value",
        summary: "adds a number",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    read("BAG.COUNT", "how many numbers were added"),
    read("BAG.SUM", "their sum, 0 if there are none"),
    read("BAG.MEAN", "their mean, if there are any"),
    read("BAG.MIN", "the least, if there are any"),
    read("BAG.MAX", "the greatest, if there are any"),
    read("BAG.SUMMARY", "count, sum, least and greatest"),
];

impl Summary {
    fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn with(&self, value: f64) -> Summary {
        Summary {
            count: self.count + 1,
            sum: one_zero(self.sum + value),
            min: self.min().map_or(value, |min| min.min(value)),
            max: self.max().map_or(value, |max| max.max(value)),
        }
    }

    fn answer(&self, op: &Op) -> Reply {
        let maybe = |value: Option<f64>| value.map_or(Reply::Nil, Reply::Float);
        match op {
            Op::Add(_) => Reply::Ok,
            Op::Count => Reply::Int(self.count as i64),
            Op::Sum => Reply::Float(self.sum),
            Op::Mean => maybe(self.mean()),
            Op::Min => maybe(self.min()),
            Op::Max => maybe(self.max()),
            Op::Summary => {
                let parts = [Op::Count, Op::Sum, Op::Min, Op::Max];
                Reply::Array(parts.iter().map(|part| self.answer(part)).collect())
            }
        }
    }
}

/// The answer of `BAG.SUMMARY`.
impl FromReply for Summary {
    fn from_reply(reply: Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else { return None };
        let [count, sum, min, max] = <[Reply; 4]>::try_from(parts).ok()?;
        Some(Summary {
            count: u64::from_reply(count)?,
            sum: f64::from_reply(sum)?,
            min: Option::from_reply(min)?.unwrap_or_default(),
            max: Option::from_reply(max)?.unwrap_or_default(),
        })
    }
}

impl DataType for SummaryBag {
    const NAME: &'static str = "summary-bag";
    const SUMMARY: &'static str = "numbers of which count, sum, least and greatest are kept";
    const NATIVE: &'static str = "hash";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &["add", "add-inexact", "lower", "raise", "read-total", "read-min", "read-max"],
        conflicts: &[
            modes(&[ADD_INEXACT, READ_TOTAL]),
            modes(&[ADD, ADD_INEXACT, READ_TOTAL]),
            modes(&[READ_MIN]),
            modes(&[READ_MAX]),
            modes(&[ADD, ADD_INEXACT]),
            modes(&[LOWER]),
            modes(&[RAISE]),
        ],
        removing: 0,
        clearing: 0,
    };

    type State = Summary;
    type Op = Op;
    type Effect = Effect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<Op, OpError> {
        match (method, given) {
            ("BAG.ADD", [value]) => {
                let op = Op::Add(arguments::float(value, "value")?);
                Self::check(&op)?;
                Ok(op)
            }
            ("BAG.COUNT", []) => Ok(Op::Count),
            ("BAG.SUM", []) => Ok(Op::Sum),
            ("BAG.MEAN", []) => Ok(Op::Mean),
            ("BAG.MIN", []) => Ok(Op::Min),
            ("BAG.MAX", []) => Ok(Op::Max),
            ("BAG.SUMMARY", []) => Ok(Op::Summary),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn method(op: &Op) -> &'static Method {
        match op {
            Op::Add(_) => &METHODS[0],
            Op::Count => &METHODS[1],
            Op::Sum => &METHODS[2],
            Op::Mean => &METHODS[3],
            Op::Min => &METHODS[4],
            Op::Max => &METHODS[5],
            Op::Summary => &METHODS[6],
        }
    }

    fn arguments(op: &Op) -> Few<Bytes> {
        match op {
            Op::Add(value) => few([arguments::of_float(*value)]),
            Op::Count | Op::Sum | Op::Mean | Op::Min | Op::Max | Op::Summary => Few::new(),
        }
    }

    fn check(op: &Op) -> Result<(), OpError> {
        match op {
            Op::Add(value) if value.is_nan() => Err(OpError::NotANumber("value".into())),
            Op::Add(value) if value.is_infinite() => Err(OpError::Bound {
                what: "a value".into(),
                given: value.to_string(),
                expected: "finite".into(),
            }),
            Op::Add(_) | Op::Count | Op::Sum | Op::Mean | Op::Min | Op::Max | Op::Summary => Ok(()),
        }
    }

    fn is_absent(state: &Summary) -> bool {
        state.count == 0
    }

    fn is_total(op: &Op) -> bool {
        // A sum may be too large; where it cannot be, an add draws.
        !matches!(op, Op::Add(_))
    }

    fn footprint(op: &Op) -> Claims {
        match op {
            Op::Add(value) => {
                let claims = if is_exact(*value) {
                    Claims::record(ADD).drawing(EXACT_DRAW)
                } else {
                    Claims::record(ADD_INEXACT)
                };
                claims.and(Scope::Record, LOWER).and(Scope::Record, RAISE)
            }
            Op::Count | Op::Sum | Op::Mean => Claims::record(READ_TOTAL),
            Op::Min => Claims::record(READ_MIN),
            Op::Max => Claims::record(READ_MAX),
            Op::Summary => {
                Claims::record(READ_TOTAL).and(Scope::Record, READ_MIN).and(Scope::Record, READ_MAX)
            }
        }
    }

    fn execute(state: &Summary, op: &Op, _: Unique) -> Result<Execution<Effect>, OpError> {
        match op {
            Op::Add(value) => add(state, *value),
            Op::Count | Op::Sum | Op::Mean | Op::Min | Op::Max | Op::Summary => {
                Ok(Execution::read(state.answer(op), Self::footprint(op)))
            }
        }
    }

    fn room(_: &Summary) -> Room {
        EXACT_ROOM
    }

    fn apply(state: &mut Summary, effect: Effect) -> Effect {
        let after = match effect {
            Effect::Add(value) => state.with(value),
            Effect::Restore(before) => before,
        };
        Effect::Restore(std::mem::replace(state, after))
    }

    /// Any part of a summary from all of it.
    fn combine(held: &Op, answer: &Reply, op: &Op) -> Option<Reply> {
        if held == op {
            return Some(answer.clone());
        }
        let (Op::Summary, Reply::Array(parts)) = (held, answer) else { return None };
        let [count, sum, min, max] = parts.as_slice() else { return None };
        match op {
            Op::Count => Some(count.clone()),
            Op::Sum => Some(sum.clone()),
            Op::Min => Some(min.clone()),
            Op::Max => Some(max.clone()),
            Op::Mean => match (count, sum) {
                (Reply::Int(0), _) => Some(Reply::Nil),
                (Reply::Int(count), Reply::Float(sum)) => Some(Reply::Float(sum / *count as f64)),
                _ => None,
            },
            Op::Add(_) | Op::Summary => None,
        }
    }
}

fn add(state: &Summary, value: f64) -> Result<Execution<Effect>, OpError> {
    let value = one_zero(value);
    let after = state.with(value);
    if after.sum.is_infinite() {
        return Err(OpError::Overflow("the sum".into(), format!("{} + {value}", state.sum)));
    }
    let mut claims = if is_exact(value) {
        let draw = if is_exact(state.sum) { exact_draw(value) } else { EXACT_DRAW };
        Claims::record(ADD).drawing(draw)
    } else {
        Claims::record(ADD_INEXACT)
    };
    if state.min().is_none_or(|min| value < min) {
        claims.push(Scope::Record, LOWER);
    }
    if state.max().is_none_or(|max| value > max) {
        claims.push(Scope::Record, RAISE);
    }
    Ok(Execution::void(Effect::Add(value), claims))
}

impl Examples for SummaryBag {
    fn states() -> Vec<Summary> {
        let of = |values: &[f64]| values.iter().fold(Summary::default(), |bag, value| bag.with(*value));
        let bound = (1_u64 << 52) as f64;
        vec![of(&[]), of(&[3.0]), of(&[1.0, 5.0]), of(&[0.5, 4.0]), of(&[bound - 1.0]), of(&[bound, bound])]
    }

    fn operations() -> Vec<Op> {
        vec![
            Op::Add(1.0),
            Op::Add(3.0),
            Op::Add(-7.0),
            Op::Add(9.0),
            Op::Add(0.1),
            Op::Add((1_u64 << 52) as f64),
            Op::Count,
            Op::Sum,
            Op::Mean,
            Op::Min,
            Op::Max,
            Op::Summary,
        ]
    }
}

impl BuiltIn for SummaryBag {
    const SHARING: &'static str = "adds of integers";

    fn native(summary: &Summary) -> Native {
        let Summary { count, sum, min, max } = summary;
        let numbers = [("sum", sum), ("min", min), ("max", max)];
        let numbers = numbers.map(|(name, number)| (name.into(), number.to_string().into()));
        let count = ("count".into(), arguments::of_unsigned(*count));
        Native::Hash([count].into_iter().chain(numbers).filter(|_| summary.count > 0).collect())
    }

    fn words(summary: &Summary) -> Vec<Bytes> {
        let Summary { count, sum, min, max } = summary;
        let numbers = [*sum, *min, *max].map(arguments::of_float);
        [arguments::of_unsigned(*count)].into_iter().chain(numbers).collect()
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Summary>, OpError> {
        let [count, sum, least, greatest] = words else { return Ok(None) };
        let [sum, min, max] = [sum, least, greatest].map(finite);
        let summary = Summary { count: positive(count)?, sum: sum?, min: min?, max: max? };
        if summary.min > summary.max {
            return Err(malformed(format_args!("a least of {least} and a greatest of {greatest}")));
        }
        Ok(Some(summary))
    }
}
