//! A high-water mark: the greatest number that anybody has given. Native Redis type: string.
//!
//! # Commutativity specification
//!
//! | operation | when | claims |
//! |---|---|---|
//! | `RAISE n` (void) | n is above the mark | `raise` |
//! | `RAISE n` (void) | n is not above the mark | nothing: the mark never falls |
//! | `MARK` | | `read` |
//!
//! | | raise | read |
//! |---|---|---|
//! | raise | | x |
//! | read | x | |
//!
//! Of several raises the greatest counts, in whatever order they come, so they share the lock.

use claret::types::{
    Access, Arguments, Bytes, Claims, DataType, Examples, Execution, Few, Method, Mode, Modes, OpError,
    Reply, Unique, arguments, few, modes,
};

/// The type.
pub struct HighWater;

/// Its operations.
#[derive(Clone, Debug, PartialEq)]
pub enum HighWaterOp {
    /// Raises the mark to this number, if it is lower.
    Raise(i64),
    /// The mark, or nil.
    Mark,
}

/// What an operation has decided, and what undoes it.
#[derive(Clone, Debug, PartialEq)]
pub enum HighWaterEffect {
    /// Raises the mark to this number, if it is lower.
    Raise(i64),
    /// Puts back what was there.
    Restore(Option<i64>),
}

const RAISE: Mode = Mode(0);
const READ: Mode = Mode(1);

const METHODS: &[Method] = &[
    Method {
        name: "RAISE",
        arguments: "number",
        summary: "raises the mark, if it is lower",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "MARK",
        arguments: "",
        summary: "the mark, or nil",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
];

impl DataType for HighWater {
    const NAME: &'static str = "high-water";
    const SUMMARY: &'static str = "the greatest number that anybody has given";
    const NATIVE: &'static str = "string";
    const MODES: Modes = Modes {
        names: &["raise", "read"],
        conflicts: &[modes(&[READ]), modes(&[RAISE])],
        removing: 0,
        clearing: 0,
    };
    const METHODS: &'static [Method] = METHODS;

    type State = Option<i64>;
    type Op = HighWaterOp;
    type Effect = HighWaterEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<HighWaterOp, OpError> {
        match (method, given) {
            ("RAISE", [number]) => Ok(HighWaterOp::Raise(arguments::int(number)?)),
            ("MARK", []) => Ok(HighWaterOp::Mark),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn method(op: &HighWaterOp) -> &'static Method {
        match op {
            HighWaterOp::Raise(_) => &METHODS[0],
            HighWaterOp::Mark => &METHODS[1],
        }
    }

    fn arguments(op: &HighWaterOp) -> Few<Bytes> {
        match op {
            HighWaterOp::Raise(number) => few([arguments::of_int(*number)]),
            HighWaterOp::Mark => Few::new(),
        }
    }

    fn is_absent(mark: &Option<i64>) -> bool {
        mark.is_none()
    }

    fn footprint(op: &HighWaterOp) -> Claims {
        match op {
            HighWaterOp::Raise(_) => Claims::record(RAISE),
            HighWaterOp::Mark => Claims::record(READ),
        }
    }

    fn execute(
        mark: &Option<i64>,
        op: &HighWaterOp,
        _: Unique,
    ) -> Result<Execution<HighWaterEffect>, OpError> {
        Ok(match op {
            HighWaterOp::Raise(number) if Some(*number) <= *mark => {
                Execution::read(Reply::Ok, Claims::default())
            }
            HighWaterOp::Raise(number) => {
                Execution::void(HighWaterEffect::Raise(*number), Claims::record(RAISE))
            }
            HighWaterOp::Mark => Execution::read(mark.map_or(Reply::Nil, Reply::Int), Claims::record(READ)),
        })
    }

    fn apply(mark: &mut Option<i64>, effect: HighWaterEffect) -> HighWaterEffect {
        let before = *mark;
        *mark = match effect {
            HighWaterEffect::Raise(number) => before.max(Some(number)),
            HighWaterEffect::Restore(mark) => mark,
        };
        HighWaterEffect::Restore(before)
    }
}

impl Examples for HighWater {
    fn states() -> Vec<Option<i64>> {
        vec![None, Some(1), Some(2)]
    }

    fn operations() -> Vec<HighWaterOp> {
        let raises = [0, 1, 2, 3].map(HighWaterOp::Raise);
        raises.into_iter().chain([HighWaterOp::Mark]).collect()
    }
}
