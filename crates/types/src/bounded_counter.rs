//! BoundedCounter: an integer that never leaves its bounds: stock, seats, an account. Native Redis type:
//! hash, with the fields `value`, `min` and `max`.
//!
//! # Commutativity specification
//!
//! Escrow: withdrawals draw on the value down to the minimum, deposits on the rest up to the maximum. The draws of
//! all pending operations are summed, each direction by itself: withdrawals never count on pending deposits, which
//! may abort.
//!
//! | operation | when | claims | draws |
//! |---|---|---|---|
//! | `BINCRBY n` (void), `BINCRBY.RETURNING n` | n fits: 1 | `move-up` | n up |
//! | `BINCRBY.RETURNING n` | n does not fit: 0 | `short-up` | |
//! | `BDECRBY n` (void), `BDECRBY.RETURNING n` | n fits: 1 | `move-down` | n down |
//! | `BDECRBY.RETURNING n` | n does not fit: 0 | `short-down` | |
//! | `BDECRBY.WRAP n` (void) | | `turn` | |
//! | `BGET` | | `read` | |
//! | `BBOUNDS` | | `pin-bounds` | |
//! | `BCREATE v min max` (void) | there is none | `create` | |
//! | `BCREATE v min max` (void) | it is there, with these bounds | `pin-bounds` | |
//! | `BRESIZE min max` (void) | the bounds are others | `create` | |
//! | `BRESIZE min max` (void) | they are these | `pin-bounds` | |
//!
//! | | move-down | move-up | short-down | short-up | read | pin-bounds | create | turn |
//! |---|---|---|---|---|---|---|---|---|
//! | move-down | | | | x | x | | x | x |
//! | move-up | | | x | | x | | x | x |
//! | short-down | | x | | | | | x | x |
//! | short-up | x | | | | | | x | x |
//! | read | x | x | | | | | x | x |
//! | pin-bounds | | | | | | | x | |
//! | create | x | x | x | x | x | x | x | x |
//! | turn | x | x | x | x | x | | x | |
//!
//! The `.RETURNING` variants answer whether, not how much is left, so they commute like the void ones. "Not
//! enough" stays true while others take, and may become false when others add: hence `short-down`.
//!
//! `BDECRBY.WRAP` takes the bounds as a ring: below the minimum it goes on from the maximum, which is subtraction modulo
//! `max - min + 1`. It always fits and any two of them commute. Its effect names the amount and not the value that it
//! leads to (P4), for others may turn the ring in between. All that asks how much room there is waits for it.
//!
//! A void operation that does not fit is an error and dooms its transaction. So is every operation on an absent
//! record, except `BCREATE` and `BGET`.

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few,
};
use crate::{Bytes, Claims, Draw, Mode, Modes, OpError, Reply, Room, Scope, modes};

/// An integer that never leaves its bounds. Withdrawals share the lock as long as all pending ones fit together, and so do
/// deposits.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct BoundedCounter;

/// Operations of [`BoundedCounter`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum BoundedCounterOp {
    Create(Bounded),
    Add(i64),
    AddReturning(i64),
    Take(i64),
    TakeReturning(i64),
    Get,
    Bounds,
    Resize { min: i64, max: i64 },
    TakeWrapping(i64),
}

/// The content of a record of [`BoundedCounter`]. Invariant: `min <= value <= max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounded {
    /// The value.
    pub value: i64,
    /// Its lower bound.
    pub min: i64,
    /// Its upper bound.
    pub max: i64,
}

/// A change of a bounded counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BoundedCounterEffect {
    /// Adds; takes when negative. Never `i64::MIN`. `HINCRBY` of the field `value`.
    Move(i64),
    /// Replaces the record: `HSET` of the three fields. Writing nothing only ever undoes.
    Replace(Option<Bounded>),
    /// Takes around the ring of the bounds; adds when negative. Never `i64::MIN`. `HSET` of the field `value`.
    Turn(i64),
}

const MOVE_DOWN: Mode = Mode(0);
const MOVE_UP: Mode = Mode(1);
const SHORT_DOWN: Mode = Mode(2);
const SHORT_UP: Mode = Mode(3);
const READ: Mode = Mode(4);
const PIN_BOUNDS: Mode = Mode(5);
const CREATE: Mode = Mode(6);
const TURN: Mode = Mode(7);

const METHODS: &[Method] = &[
    Method {
        name: "BCREATE",
        arguments: "value min max",
        summary: "creates the record; leaves it alone if it is there with these bounds",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "BINCRBY",
        arguments: "amount",
        summary: "adds; an error if the sum would exceed the maximum",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "BINCRBY.RETURNING",
        arguments: "amount",
        summary: "adds and answers 1 if there is room, else 0",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "BDECRBY",
        arguments: "amount",
        summary: "takes; an error if there is not enough",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "BDECRBY.RETURNING",
        arguments: "amount",
        summary: "takes and answers 1 if there is enough, else 0",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "BGET",
        arguments: "",
        summary: "the value",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "BBOUNDS",
        arguments: "",
        summary: "the minimum and the maximum",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "BRESIZE",
        arguments: "min max",
        summary: "gives it other bounds; an error if the value is outside of them",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "BDECRBY.WRAP",
        arguments: "amount",
        summary: "takes; below the minimum it goes on from the maximum",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
];

impl DataType for BoundedCounter {
    const NAME: &'static str = "bounded-counter";
    const SUMMARY: &'static str = "an integer that never leaves its bounds";
    const NATIVE: &'static str = "hash";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &["move-down", "move-up", "short-down", "short-up", "read", "pin-bounds", "create", "turn"],
        conflicts: &[
            modes(&[SHORT_UP, READ, CREATE, TURN]),
            modes(&[SHORT_DOWN, READ, CREATE, TURN]),
            modes(&[MOVE_UP, CREATE, TURN]),
            modes(&[MOVE_DOWN, CREATE, TURN]),
            modes(&[MOVE_DOWN, MOVE_UP, CREATE, TURN]),
            modes(&[CREATE]),
            modes(&[MOVE_DOWN, MOVE_UP, SHORT_DOWN, SHORT_UP, READ, PIN_BOUNDS, CREATE, TURN]),
            modes(&[MOVE_DOWN, MOVE_UP, SHORT_DOWN, SHORT_UP, READ, CREATE]),
        ],
        removing: 0,
        clearing: 0,
    };

    type State = Option<Bounded>;
    type Op = BoundedCounterOp;
    type Effect = BoundedCounterEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<BoundedCounterOp, OpError> {
        let int = arguments::int;
        let op = match (method, given) {
            ("BCREATE", [value, min, max]) => {
                BoundedCounterOp::Create(Bounded { value: int(value)?, min: int(min)?, max: int(max)? })
            }
            ("BINCRBY", [amount]) => BoundedCounterOp::Add(int(amount)?),
            ("BINCRBY.RETURNING", [amount]) => BoundedCounterOp::AddReturning(int(amount)?),
            ("BDECRBY", [amount]) => BoundedCounterOp::Take(int(amount)?),
            ("BDECRBY.RETURNING", [amount]) => BoundedCounterOp::TakeReturning(int(amount)?),
            ("BGET", []) => BoundedCounterOp::Get,
            ("BBOUNDS", []) => BoundedCounterOp::Bounds,
            ("BDECRBY.WRAP", [amount]) => BoundedCounterOp::TakeWrapping(int(amount)?),
            ("BRESIZE", [min, max]) => BoundedCounterOp::Resize { min: int(min)?, max: int(max)? },
            _ => return Err(OpError::misuse(METHODS, method)),
        };
        Self::check(&op)?;
        Ok(op)
    }

    fn method(op: &BoundedCounterOp) -> &'static Method {
        match op {
            BoundedCounterOp::Create(_) => &METHODS[0],
            BoundedCounterOp::Add(_) => &METHODS[1],
            BoundedCounterOp::AddReturning(_) => &METHODS[2],
            BoundedCounterOp::Take(_) => &METHODS[3],
            BoundedCounterOp::TakeReturning(_) => &METHODS[4],
            BoundedCounterOp::Get => &METHODS[5],
            BoundedCounterOp::Bounds => &METHODS[6],
            BoundedCounterOp::Resize { .. } => &METHODS[7],
            BoundedCounterOp::TakeWrapping(_) => &METHODS[8],
        }
    }

    fn arguments(op: &BoundedCounterOp) -> Few<Bytes> {
        match op {
            BoundedCounterOp::Create(Bounded { value, min, max }) => {
                [*value, *min, *max].map(arguments::of_int).into_iter().collect()
            }
            BoundedCounterOp::Add(amount)
            | BoundedCounterOp::AddReturning(amount)
            | BoundedCounterOp::Take(amount)
            | BoundedCounterOp::TakeReturning(amount)
            | BoundedCounterOp::TakeWrapping(amount) => few([arguments::of_int(*amount)]),
            BoundedCounterOp::Resize { min, max } => {
                [*min, *max].map(arguments::of_int).into_iter().collect()
            }
            BoundedCounterOp::Get | BoundedCounterOp::Bounds => Few::new(),
        }
    }

    fn check(op: &BoundedCounterOp) -> Result<(), OpError> {
        match op {
            BoundedCounterOp::Create(Bounded { value, min, max }) if min > max => Err(OpError::Bound {
                what: "bounds".into(),
                given: format!("min {min}, max {max} (with value {value})"),
                expected: "min <= max".into(),
            }),
            BoundedCounterOp::Resize { min, max } if min > max => Err(OpError::Bound {
                what: "bounds".into(),
                given: format!("min {min}, max {max}"),
                expected: "min <= max".into(),
            }),
            BoundedCounterOp::Create(Bounded { value, min, max }) if value < min || value > max => {
                Err(OpError::Bound {
                    what: "the value of a bounded counter".into(),
                    given: format!("{value} (with min {min}, max {max})"),
                    expected: "within its bounds, min <= value <= max".into(),
                })
            }
            BoundedCounterOp::Add(amount) | BoundedCounterOp::AddReturning(amount) if *amount < 0 => {
                Err(negative(amount, "zero or more; use BDECRBY to take"))
            }
            BoundedCounterOp::Take(amount) | BoundedCounterOp::TakeReturning(amount) if *amount < 0 => {
                Err(negative(amount, "zero or more; use BINCRBY to add"))
            }
            BoundedCounterOp::TakeWrapping(amount) if *amount < 0 => Err(negative(amount, "zero or more")),
            _ => Ok(()),
        }
    }

    fn is_absent(state: &Option<Bounded>) -> bool {
        state.is_none()
    }

    fn is_total(op: &BoundedCounterOp) -> bool {
        // All others fail where there is no record, or where its bounds are in the way.
        matches!(op, BoundedCounterOp::Get)
    }

    fn footprint(op: &BoundedCounterOp) -> Claims {
        match op {
            BoundedCounterOp::Create(_) | BoundedCounterOp::Resize { .. } => {
                Claims::record(CREATE).and(Scope::Record, PIN_BOUNDS)
            }
            BoundedCounterOp::Add(amount) => moving_up(*amount),
            BoundedCounterOp::AddReturning(amount) => moving_up(*amount).and(Scope::Record, SHORT_UP),
            BoundedCounterOp::Take(amount) => moving_down(*amount),
            BoundedCounterOp::TakeReturning(amount) => moving_down(*amount).and(Scope::Record, SHORT_DOWN),
            BoundedCounterOp::TakeWrapping(_) => Claims::record(TURN),
            BoundedCounterOp::Get => Claims::record(READ),
            BoundedCounterOp::Bounds => Claims::record(PIN_BOUNDS),
        }
    }

    fn execute(
        state: &Option<Bounded>,
        op: &BoundedCounterOp,
        _: Unique,
    ) -> Result<Execution<BoundedCounterEffect>, OpError> {
        let method = Self::method(op).name;
        let Some(bounded) = state else {
            return match op {
                BoundedCounterOp::Create(new) => {
                    Ok(Execution::void(BoundedCounterEffect::Replace(Some(*new)), Claims::record(CREATE)))
                }
                BoundedCounterOp::Get => Ok(Execution::read(Reply::Nil, Claims::record(READ))),
                _ => Err(OpError::Missing { method: method.into(), create: "BCREATE value min max".into() }),
            };
        };
        let room = bounded.room();
        let refused = |amount: &i64| {
            let Bounded { value, min, max } = *bounded;
            Err(OpError::Insufficient { method: method.into(), amount: *amount, value, min, max })
        };
        let up = |reply: Reply, amount: i64| {
            Ok(Execution::returning(reply, BoundedCounterEffect::Move(amount), moving_up(amount)))
        };
        let down = |reply: Reply, amount: i64| {
            Ok(Execution::returning(reply, BoundedCounterEffect::Move(-amount), moving_down(amount)))
        };
        let short = |mode: Mode| Ok(Execution::read(Reply::Int(0), Claims::record(mode)));
        match op {
            BoundedCounterOp::Create(new) => bounded.recreate(new),
            BoundedCounterOp::Resize { min, max } => bounded.resize(*min, *max),
            BoundedCounterOp::Add(amount) if amount.unsigned_abs() > room.up => refused(amount),
            BoundedCounterOp::Add(amount) => up(Reply::Ok, *amount),
            BoundedCounterOp::AddReturning(amount) if amount.unsigned_abs() > room.up => short(SHORT_UP),
            BoundedCounterOp::AddReturning(amount) => up(Reply::Int(1), *amount),
            BoundedCounterOp::Take(amount) if amount.unsigned_abs() > room.down => refused(amount),
            BoundedCounterOp::Take(amount) => down(Reply::Ok, *amount),
            BoundedCounterOp::TakeReturning(amount) if amount.unsigned_abs() > room.down => short(SHORT_DOWN),
            BoundedCounterOp::TakeReturning(amount) => down(Reply::Int(1), *amount),
            BoundedCounterOp::TakeWrapping(amount) => {
                Ok(Execution::void(BoundedCounterEffect::Turn(*amount), Claims::record(TURN)))
            }
            BoundedCounterOp::Get => Ok(Execution::read(Reply::Int(bounded.value), Claims::record(READ))),
            BoundedCounterOp::Bounds => {
                let reply = Reply::Array(vec![Reply::Int(bounded.min), Reply::Int(bounded.max)]);
                Ok(Execution::read(reply, Claims::record(PIN_BOUNDS)))
            }
        }
    }

    fn room(state: &Option<Bounded>) -> Room {
        // Nothing draws on an absent record.
        state.map_or(Room { down: 0, up: 0 }, |bounded| bounded.room())
    }

    fn apply(state: &mut Option<Bounded>, effect: BoundedCounterEffect) -> BoundedCounterEffect {
        match effect {
            BoundedCounterEffect::Move(amount) => {
                let bounded = state.as_mut().expect("held since it was there");
                let value = bounded.value.checked_add(amount).expect("the draw kept the room");
                assert!(bounded.min <= value && value <= bounded.max, "the draw kept the room");
                bounded.value = value;
                BoundedCounterEffect::Move(-amount)
            }
            BoundedCounterEffect::Turn(amount) => {
                let bounded = state.as_mut().expect("held since it was there");
                *bounded = bounded.turned(amount);
                BoundedCounterEffect::Turn(-amount)
            }
            BoundedCounterEffect::Replace(content) => {
                BoundedCounterEffect::Replace(std::mem::replace(state, content))
            }
        }
    }
}

impl Bounded {
    /// Itself with `amount` taken around the ring of its bounds: subtraction modulo `max - min + 1`, on `min..=max`. O(1).
    #[must_use]
    pub fn turned(&self, amount: i64) -> Self {
        let Bounded { value, min, max } = *self;
        let [at, low, high, by] = [value, min, max, amount].map(i128::from);
        let value = low + (at - low - by).rem_euclid(high - low + 1);
        Bounded { value: i64::try_from(value).expect("between two bounds that fit"), min, max }
    }

    fn room(&self) -> Room {
        Room { down: self.value.abs_diff(self.min), up: self.max.abs_diff(self.value) }
    }

    fn recreate(&self, new: &Bounded) -> Result<Execution<BoundedCounterEffect>, OpError> {
        if (self.min, self.max) == (new.min, new.max) {
            return Ok(Execution::read(Reply::Ok, Claims::record(PIN_BOUNDS)));
        }
        Err(OpError::Mismatch(format!(
            "the bounded counter exists with bounds {} to {}, and BCREATE asks for {} to {}; use another key",
            self.min, self.max, new.min, new.max
        )))
    }
}

impl Bounded {
    fn resize(&self, min: i64, max: i64) -> Result<Execution<BoundedCounterEffect>, OpError> {
        let Bounded { value, .. } = *self;
        if (self.min, self.max) == (min, max) {
            return Ok(Execution::read(Reply::Ok, Claims::record(PIN_BOUNDS)));
        }
        if value < min || value > max {
            return Err(OpError::Bound {
                what: "the bounds of a bounded counter".into(),
                given: format!("min {min}, max {max} (its value is {value})"),
                expected: "such that min <= value <= max; take or add first".into(),
            });
        }
        let resized = Bounded { value, min, max };
        Ok(Execution::void(BoundedCounterEffect::Replace(Some(resized)), Claims::record(CREATE)))
    }
}

fn negative(amount: &i64, expected: &'static str) -> OpError {
    OpError::Bound { what: "an amount".into(), given: amount.to_string(), expected: expected.into() }
}

fn moving_up(amount: i64) -> Claims {
    Claims::record(MOVE_UP).drawing(Draw { down: 0, up: amount.unsigned_abs() })
}

fn moving_down(amount: i64) -> Claims {
    Claims::record(MOVE_DOWN).drawing(Draw { down: amount.unsigned_abs(), up: 0 })
}

impl Examples for BoundedCounter {
    fn states() -> Vec<Option<Bounded>> {
        let bounded = |value, min, max| Some(Bounded { value, min, max });
        vec![
            None,
            bounded(0, 0, 3),
            bounded(2, 0, 3),
            bounded(3, 0, 3),
            bounded(-1, -3, 2),
            bounded(i64::MAX - 1, i64::MIN, i64::MAX),
        ]
    }

    fn operations() -> Vec<BoundedCounterOp> {
        let mut operations = vec![
            BoundedCounterOp::Get,
            BoundedCounterOp::Bounds,
            BoundedCounterOp::Create(Bounded { value: 2, min: 0, max: 3 }),
            BoundedCounterOp::Create(Bounded { value: 0, min: -3, max: 2 }),
            BoundedCounterOp::Resize { min: 0, max: 3 },
            BoundedCounterOp::Resize { min: -1, max: 2 },
        ];
        for amount in 0..=2 {
            operations.push(BoundedCounterOp::Add(amount));
            operations.push(BoundedCounterOp::AddReturning(amount));
            operations.push(BoundedCounterOp::Take(amount));
            operations.push(BoundedCounterOp::TakeReturning(amount));
        }
        // Within the range, the whole range of one state, and more than any.
        operations.extend([1, 4, 7].map(BoundedCounterOp::TakeWrapping));
        operations
    }
}

impl BuiltIn for BoundedCounter {
    const SHARING: &'static str = "withdrawals and deposits that all fit";

    fn native(state: &Option<Bounded>) -> Native {
        let fields = |Bounded { value, min, max }: Bounded| [("value", value), ("min", min), ("max", max)];
        let fields = state.iter().copied().flat_map(fields);
        Native::Hash(fields.map(|(name, number)| (name.into(), arguments::of_int(number))).collect())
    }

    fn words(state: &Option<Bounded>) -> Vec<Bytes> {
        let numbers = |Bounded { value, min, max }: Bounded| [value, min, max].map(arguments::of_int).into();
        state.map(numbers).unwrap_or_default()
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Option<Bounded>>, OpError> {
        let [value, min, max] = words else { return Ok(None) };
        let [value, min, max] = [value, min, max].map(arguments::int);
        let bounded = Bounded { value: value?, min: min?, max: max? };
        Self::check(&BoundedCounterOp::Create(bounded))?;
        Ok(Some(Some(bounded)))
    }
}
