//! UidGenerator: unique numbers, and how many were issued. Native Redis type: string.
//!
//! The store gives each execution a number that no other execution on the record ever gets; the record only counts.
//! So ids are unique but unordered, and those of aborted transactions are lost. Nothing that is kept depends on the
//! order of commits.
//!
//! # Commutativity specification
//!
//! | operation | claims |
//! |---|---|
//! | `UID.NEXT` | `next` |
//! | `UID.ISSUED` | `read` |
//!
//! | | next | read |
//! |---|---|---|
//! | next | | x |
//! | read | x | |

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments};
use crate::words::positive;
use crate::{Bytes, Claims, Mode, Modes, OpError, Reply, modes};

/// Unique numbers without order. All who draw share the lock.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct UidGenerator;

/// Operations of [`UidGenerator`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum UidOp {
    Next,
    Issued,
}

/// How many ids committed transactions took; 0 when the record is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issued(pub u64);

/// A change of the count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum UidEffect {
    /// One more id was taken: `INCR`.
    Take,
    /// Undoes [`UidEffect::Take`]. Never pending.
    GiveBack,
}

const NEXT: Mode = Mode(0);
const READ: Mode = Mode(1);

const METHODS: &[Method] = &[
    Method {
        name: "UID.NEXT",
        arguments: "",
        summary: "a number that nobody else gets",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "UID.ISSUED",
        arguments: "",
        summary: "how many ids were taken by transactions that committed",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
];

impl DataType for UidGenerator {
    const NAME: &'static str = "uid-generator";
    const SUMMARY: &'static str = "unique numbers without order";
    const NATIVE: &'static str = "string";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &["next", "read"],
        conflicts: &[modes(&[READ]), modes(&[NEXT])],
        removing: 0,
        clearing: 0,
    };

    type State = Issued;
    type Op = UidOp;
    type Effect = UidEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<UidOp, OpError> {
        match (method, given) {
            ("UID.NEXT", []) => Ok(UidOp::Next),
            ("UID.ISSUED", []) => Ok(UidOp::Issued),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn method(op: &UidOp) -> &'static Method {
        match op {
            UidOp::Next => &METHODS[0],
            UidOp::Issued => &METHODS[1],
        }
    }

    fn arguments(op: &UidOp) -> Few<Bytes> {
        match op {
            UidOp::Next | UidOp::Issued => Few::new(),
        }
    }

    fn is_absent(state: &Issued) -> bool {
        state.0 == 0
    }

    fn is_total(_: &UidOp) -> bool {
        true
    }

    fn footprint(op: &UidOp) -> Claims {
        match op {
            UidOp::Next => Claims::record(NEXT),
            UidOp::Issued => Claims::record(READ),
        }
    }

    fn execute(state: &Issued, op: &UidOp, unique: Unique) -> Result<Execution<UidEffect>, OpError> {
        let claims = Self::footprint(op);
        Ok(match op {
            // Numbers over 2^63 turn negative, one to one.
            UidOp::Next => Execution::returning(Reply::Int(unique.0 as i64), UidEffect::Take, claims),
            UidOp::Issued => Execution::read(Reply::Int(state.0 as i64), claims),
        })
    }

    fn apply(state: &mut Issued, effect: UidEffect) -> UidEffect {
        match effect {
            UidEffect::Take => {
                state.0 += 1;
                UidEffect::GiveBack
            }
            UidEffect::GiveBack => {
                state.0 -= 1;
                UidEffect::Take
            }
        }
    }

    /// Only the count is shared: an id is for one.
    fn combine(held: &UidOp, answer: &Reply, op: &UidOp) -> Option<Reply> {
        match (held, op) {
            (UidOp::Issued, UidOp::Issued) => Some(answer.clone()),
            (UidOp::Next, _) | (_, UidOp::Next) => None,
        }
    }
}

impl Examples for UidGenerator {
    fn states() -> Vec<Issued> {
        vec![Issued(0), Issued(1), Issued(7)]
    }

    fn operations() -> Vec<UidOp> {
        vec![UidOp::Next, UidOp::Issued]
    }
}

impl BuiltIn for UidGenerator {
    const SHARING: &'static str = "drawing numbers";

    fn native(Issued(count): &Issued) -> Native {
        Native::String((*count > 0).then(|| arguments::of_unsigned(*count)))
    }

    fn words(Issued(count): &Issued) -> Vec<Bytes> {
        vec![arguments::of_unsigned(*count)]
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Issued>, OpError> {
        let [count] = words else { return Ok(None) };
        Ok(Some(Issued(positive(count)?)))
    }
}
