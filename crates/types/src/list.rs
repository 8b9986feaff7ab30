//! List: values in order, with two ends. Native Redis type: list.
//!
//! Two uses have names of their own: a **Queue** is `RPUSH` with `LPOP`, a **Stack** is `LPUSH` with `LPOP`. They are
//! the same type on the same record.
//!
//! # Commutativity specification
//!
//! For the left end ("front"); the right end ("back") is its mirror image.
//!
//! | operation | when | claims, on the record | draws |
//! |---|---|---|---|
//! | `LPUSH` (void) | | `push-front` | |
//! | `LPUSH.RETURNING` | | `push-front`, `read-all` | |
//! | `LPOP` | a value is left | `pop-front` | 1 down, against the length |
//! | | nothing is left: Nil | `pin-empty` | |
//! | `LINDEX`, `LRANGE` | all positions count from the front and are there | `read-front` | |
//! | | any other | `read-all` | |
//! | `LLEN` | | `read-all` | |
//!
//! | | push-front | push-back | pop-front | pop-back | pin-empty | read-front | read-back | read-all |
//! |---|---|---|---|---|---|---|---|---|
//! | push-front | x | | x | | x | x | | x |
//! | push-back | | x | | x | x | | x | x |
//! | pop-front | x | | x | | | x | x | x |
//! | pop-back | | x | | x | | x | x | x |
//! | pin-empty | x | x | | | | | | |
//! | read-front | x | | x | x | | | | |
//! | read-back | | x | x | x | | | | |
//! | read-all | x | x | x | x | | | | |
//!
//! Two pushes at one end conflict, because their order shows. The ends are independent as long as enough values lie
//! between them. Each pending pop draws one from the length, so pops at both ends share the lock while each can have
//! its own value; a pop that would need the last value a second time waits (P67). Pending pushes are not counted. An
//! effect names the values that it takes (P4, trap 16). A pop that finds an empty list pins it against pushes only:
//! nobody else can have a pop pending there, because that pop would have drawn on a value.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few, method_named,
};
use crate::span::{span, within};
use crate::{Bytes, Claims, Draw, Mode, Modes, OpError, Reply, Room, Scope, modes};

/// Values in order, with two ends. One end shares the lock with the other, while there are values enough for all that take.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct List;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The left end: position 0.
    Front,
    /// The right end: position -1.
    Back,
}

/// Operations of [`List`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ListOp {
    Push(End, Few<Bytes>),
    PushReturning(End, Few<Bytes>),
    Pop(End),
    Len,
    Range { start: i64, stop: i64 },
    Index(i64),
}

/// A change of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ListEffect {
    /// Pushes values at an end, one after another: `LPUSH`, `RPUSH`.
    Push(End, Few<Bytes>),
    /// Pops these values from an end, one after another: `LPOP`, `RPOP` of as many.
    Take(End, Few<Bytes>),
}

type Op = ListOp;
type Effect = ListEffect;
type Values = ListState;

/// The content of a list, or a partial state of it.
///
/// Invariant: a whole list is all in `front`; `back` holds values only where there is a hole before them.
#[derive(Clone, Default, PartialEq)]
pub struct ListState {
    /// How many values at the left are not here, where only those are that an operation reads.
    skipped: usize,
    front: VecDeque<Bytes>,
    /// How many values are between the two and not here.
    hole: usize,
    back: VecDeque<Bytes>,
}

impl ListState {
    /// A part of a list: values at its left end, how many follow that are not here, and values at its right end.
    ///
    /// What it must hold, where effects of the operation's owner take `l` values from the left end and `r` from the
    /// right one:
    ///
    /// | operation | left | right |
    /// |---|---|---|
    /// | `LPUSH`, `RPUSH` and their variants, `LLEN` | l | r |
    /// | `LPOP` / `RPOP` | l + 1 / l | r / r + 1 |
    /// | `LINDEX`, `LRANGE` to `stop`, counted from the left, both not negative | l + stop + 1 | r |
    /// | `LINDEX`, `LRANGE` from `start`, counted from the right, both negative | l | r - start |
    /// | any other `LRANGE` | all | |
    ///
    /// Where that is more than there is, or the two parts meet, it is the whole list, with no hole.
    pub fn partial(
        front: impl IntoIterator<Item = Bytes>,
        hole: usize,
        back: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        let mut state = ListState { front: front.into_iter().collect(), hole, ..ListState::default() };
        state.end_mut(End::Back).extend(back);
        state
    }

    /// The part for one `LINDEX` or `LRANGE` of an owner without effects: the values at its positions, how many are before them, and
    /// how many behind.
    pub fn slice(before: usize, values: impl IntoIterator<Item = Bytes>, behind: usize) -> Self {
        let front = values.into_iter().collect();
        ListState { skipped: before, front, hole: behind, ..ListState::default() }
    }

    /// How many values. O(1).
    pub fn len(&self) -> usize {
        self.skipped + self.front.len() + self.hole + self.back.len()
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values that are here, from left to right.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.front.iter().chain(&self.back)
    }

    /// Values by position.
    ///
    /// # Panics
    /// When one of them is not here.
    fn range(&self, span: Range<usize>) -> impl Iterator<Item = &Bytes> {
        let wanted = span.len();
        let span = span.start.saturating_sub(self.skipped)..span.end.saturating_sub(self.skipped);
        let (front, beyond) = (self.front.len(), self.front.len() + self.hole);
        let in_front = span.start.min(front)..span.end.min(front);
        let in_back = span.start.saturating_sub(beyond)..span.end.saturating_sub(beyond);
        assert_eq!(in_front.len() + in_back.len(), wanted, "the partial state holds these positions");
        self.front.range(in_front).chain(self.back.range(in_back))
    }

    /// Where values come and go at an end.
    fn end_mut(&mut self, end: End) -> &mut VecDeque<Bytes> {
        match end {
            End::Back if self.hole > 0 => &mut self.back,
            End::Front | End::Back => &mut self.front,
        }
    }
}

impl FromIterator<Bytes> for ListState {
    fn from_iter<I: IntoIterator<Item = Bytes>>(values: I) -> Self {
        ListState { front: values.into_iter().collect(), ..ListState::default() }
    }
}

impl fmt::Debug for ListState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_list();
        if self.skipped > 0 {
            shown.entry(&format_args!("{} elsewhere", self.skipped));
        }
        shown.entries(&self.front);
        if self.hole > 0 {
            shown.entry(&format_args!("{} elsewhere", self.hole));
        }
        shown.entries(&self.back).finish()
    }
}

const PUSH_FRONT: Mode = Mode(0);
const PUSH_BACK: Mode = Mode(1);
const POP_FRONT: Mode = Mode(2);
const POP_BACK: Mode = Mode(3);
const PIN_EMPTY: Mode = Mode(4);
const READ_FRONT: Mode = Mode(5);
const READ_BACK: Mode = Mode(6);
const READ_ALL: Mode = Mode(7);

impl End {
    fn push_mode(self) -> Mode {
        match self {
            End::Front => PUSH_FRONT,
            End::Back => PUSH_BACK,
        }
    }

    fn pop_mode(self) -> Mode {
        match self {
            End::Front => POP_FRONT,
            End::Back => POP_BACK,
        }
    }

    fn push(self, values: &mut Values, value: Bytes) {
        match self {
            End::Front => values.end_mut(self).push_front(value),
            End::Back => values.end_mut(self).push_back(value),
        }
    }

    fn pop(self, values: &mut Values) -> Option<Bytes> {
        match self {
            End::Front => values.end_mut(self).pop_front(),
            End::Back => values.end_mut(self).pop_back(),
        }
    }

    fn peek(self, values: &Values) -> Option<&Bytes> {
        let found = match self {
            End::Front => values.front.front(),
            End::Back if values.hole > 0 => values.back.back(),
            End::Back => values.front.back(),
        };
        assert!(found.is_some() || values.hole == 0, "the partial state holds the value at this end");
        found
    }
}

const fn push_method(name: &'static str, summary: &'static str, returns: bool) -> Method {
    Method {
        name,
        arguments: "value [value ...]",
        summary,
        access: Access::Write,
        returns,
        complexity: "O(values)",
    }
}

const fn pop_method(name: &'static str, summary: &'static str) -> Method {
    Method { name, arguments: "", summary, access: Access::Write, returns: true, complexity: "O(1)" }
}

const METHODS: &[Method] = &[
    push_method("LPUSH", "puts values at the left end, one after the other", false),
    push_method("RPUSH", "puts values at the right end, one after the other", false),
    push_method("LPUSH.RETURNING", "puts values at the left end; the new length", true),
    push_method("RPUSH.RETURNING", "puts values at the right end; the new length", true),
    pop_method("LPOP", "takes the value at the left end"),
    pop_method("RPOP", "takes the value at the right end"),
    Method {
        name: "LLEN",
        arguments: "",
        summary: "how many values",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "LRANGE",
        arguments: "start stop",
        summary: "values by position, negative ones from the end",
        access: Access::Read,
        returns: true,
        complexity: "O(results)",
    },
    Method {
        name: "LINDEX",
        arguments: "index",
        summary: "the value at a position, negative ones from the end",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
];

impl DataType for List {
    const NAME: &'static str = "list";
    const SUMMARY: &'static str = "values in order, with two ends; a queue or a stack";
    const NATIVE: &'static str = "list";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &[
            "push-front",
            "push-back",
            "pop-front",
            "pop-back",
            "pin-empty",
            "read-front",
            "read-back",
            "read-all",
        ],
        conflicts: &[
            modes(&[PUSH_FRONT, POP_FRONT, PIN_EMPTY, READ_FRONT, READ_ALL]),
            modes(&[PUSH_BACK, POP_BACK, PIN_EMPTY, READ_BACK, READ_ALL]),
            modes(&[PUSH_FRONT, POP_FRONT, READ_FRONT, READ_BACK, READ_ALL]),
            modes(&[PUSH_BACK, POP_BACK, READ_FRONT, READ_BACK, READ_ALL]),
            modes(&[PUSH_FRONT, PUSH_BACK]),
            modes(&[PUSH_FRONT, POP_FRONT, POP_BACK]),
            modes(&[PUSH_BACK, POP_FRONT, POP_BACK]),
            modes(&[PUSH_FRONT, PUSH_BACK, POP_FRONT, POP_BACK]),
        ],
        removing: modes(&[POP_FRONT, POP_BACK]),
        clearing: 0,
    };

    type State = Values;
    type Op = Op;
    type Effect = Effect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<Op, OpError> {
        let op = match (method, given) {
            ("LPUSH", [_, ..]) => Op::Push(End::Front, given.into()),
            ("RPUSH", [_, ..]) => Op::Push(End::Back, given.into()),
            ("LPUSH.RETURNING", [_, ..]) => Op::PushReturning(End::Front, given.into()),
            ("RPUSH.RETURNING", [_, ..]) => Op::PushReturning(End::Back, given.into()),
            ("LPOP", []) => Op::Pop(End::Front),
            ("RPOP", []) => Op::Pop(End::Back),
            ("LLEN", []) => Op::Len,
            ("LRANGE", [start, stop]) => {
                Op::Range { start: arguments::int(start)?, stop: arguments::int(stop)? }
            }
            ("LINDEX", [index]) => Op::Index(arguments::int(index)?),
            _ => return Err(OpError::misuse(METHODS, method)),
        };
        Ok(op)
    }

    fn method(op: &Op) -> &'static Method {
        let name = match op {
            Op::Push(End::Front, _) => "LPUSH",
            Op::Push(End::Back, _) => "RPUSH",
            Op::PushReturning(End::Front, _) => "LPUSH.RETURNING",
            Op::PushReturning(End::Back, _) => "RPUSH.RETURNING",
            Op::Pop(End::Front) => "LPOP",
            Op::Pop(End::Back) => "RPOP",
            Op::Len => "LLEN",
            Op::Range { .. } => "LRANGE",
            Op::Index(_) => "LINDEX",
        };
        method_named(METHODS, name)
    }

    fn arguments(op: &Op) -> Few<Bytes> {
        match op {
            Op::Push(_, values) | Op::PushReturning(_, values) => values.clone(),
            Op::Pop(_) | Op::Len => Few::new(),
            Op::Range { start, stop } => few([arguments::of_int(*start), arguments::of_int(*stop)]),
            Op::Index(index) => few([arguments::of_int(*index)]),
        }
    }

    fn size(op: &Op) -> usize {
        match op {
            Op::Push(_, list) | Op::PushReturning(_, list) => {
                list.iter().map(|value| value.len()).max().unwrap_or(0)
            }
            Op::Pop(_) | Op::Len | Op::Range { .. } | Op::Index(_) => 0,
        }
    }

    fn is_absent(state: &Values) -> bool {
        state.is_empty()
    }

    fn is_total(op: &Op) -> bool {
        // Pops draw.
        !matches!(op, Op::Pop(_))
    }

    fn is_blind(op: &Op) -> bool {
        matches!(op, Op::Push(..))
    }

    fn footprint(op: &Op) -> Claims {
        let also_all = |mode| {
            if mode == READ_ALL {
                Claims::record(READ_ALL)
            } else {
                Claims::record(mode).and(Scope::Record, READ_ALL)
            }
        };
        match op {
            Op::Push(end, _) => Claims::record(end.push_mode()),
            Op::PushReturning(end, _) => also_all(end.push_mode()),
            Op::Pop(end) => Claims::record(end.pop_mode()).and(Scope::Record, PIN_EMPTY).drawing(ONE),
            Op::Len => Claims::record(READ_ALL),
            Op::Range { start, stop } => also_all(reach(*start, *stop, usize::MAX)),
            Op::Index(index) => also_all(reach(*index, *index, usize::MAX)),
        }
    }

    fn execute(state: &Values, op: &Op, _: Unique) -> Result<Execution<Effect>, OpError> {
        let execution = match op {
            Op::Push(end, list) => {
                Execution::void(Effect::Push(*end, list.clone()), Claims::record(end.push_mode()))
            }
            Op::PushReturning(end, list) => Execution::returning(
                Reply::count(state.len() + list.len()),
                Effect::Push(*end, list.clone()),
                Self::footprint(op),
            ),
            Op::Pop(end) => match end.peek(state) {
                Some(value) => Execution::returning(
                    Reply::Bytes(value.clone()),
                    Effect::Take(*end, Few::from_iter([value.clone()])),
                    Claims::record(end.pop_mode()).drawing(ONE),
                ),
                None => Execution::read(Reply::Nil, Claims::record(PIN_EMPTY)),
            },
            Op::Len => Execution::read(Reply::count(state.len()), Claims::record(READ_ALL)),
            Op::Range { start, stop } => {
                let found = state.range(span(*start, *stop, state.len()));
                let reply = Reply::Array(found.cloned().map(Reply::Bytes).collect());
                Execution::read(reply, Claims::record(reach(*start, *stop, state.len())))
            }
            Op::Index(index) => {
                let found = state.range(span(*index, *index, state.len())).next();
                let reply = found.cloned().map_or(Reply::Nil, Reply::Bytes);
                Execution::read(reply, Claims::record(reach(*index, *index, state.len())))
            }
        };
        Ok(execution)
    }

    fn room(state: &Values) -> Room {
        Room { down: state.len() as u64, up: u64::MAX }
    }

    fn apply(state: &mut Values, effect: Effect) -> Effect {
        match effect {
            Effect::Push(end, mut values) => {
                for value in &values {
                    end.push(state, value.clone());
                }
                values.reverse();
                Effect::Take(end, values)
            }
            Effect::Take(end, mut values) => {
                for value in &values {
                    let taken = end.pop(state);
                    assert_eq!(taken.as_ref(), Some(value), "held since the value was at this end");
                }
                values.reverse();
                Effect::Push(end, values)
            }
        }
    }

    /// A narrower range from a wider one, a value from a range that holds its position, and the length from
    /// all values.
    fn combine(held: &Op, answer: &Reply, op: &Op) -> Option<Reply> {
        if held == op {
            let is_read = matches!(op, Op::Len | Op::Range { .. } | Op::Index(_));
            return is_read.then(|| answer.clone());
        }
        let (Op::Range { start, stop }, Reply::Array(items)) = (held, answer) else { return None };
        match op {
            Op::Range { start: from, stop: to } => {
                let part = within((*start, *stop), (*from, *to))?;
                let clamp = |position: usize| position.min(items.len());
                Some(Reply::Array(items[clamp(part.start)..clamp(part.end)].to_vec()))
            }
            Op::Index(index @ 0..) => {
                let part = within((*start, *stop), (*index, *index))?;
                Some(items.get(part.start).cloned().unwrap_or(Reply::Nil))
            }
            Op::Len if (*start, *stop) == (0, -1) => Some(Reply::count(items.len())),
            _ => None,
        }
    }
}

const ONE: Draw = Draw { down: 1, up: 0 };

/// What reading `start..=stop` depends on in a list of `len`: one end of it, as far as the positions reach, or
/// all of it.
fn reach(start: i64, stop: i64, len: usize) -> Mode {
    let is_there = |index: i64| index.unsigned_abs() <= len as u64;
    if start >= 0 && stop >= 0 && (stop as u64) < len as u64 {
        READ_FRONT
    } else if start < 0 && stop < 0 && is_there(start) && is_there(stop) {
        READ_BACK
    } else {
        READ_ALL
    }
}

impl Examples for List {
    fn states() -> Vec<Values> {
        [&[][..], &["a"], &["a", "b"], &["a", "b", "c"]]
            .iter()
            .map(|list| list.iter().map(|value| Bytes::from(*value)).collect())
            .collect()
    }

    fn operations() -> Vec<Op> {
        let few = |list: &[&str]| list.iter().map(|value| Bytes::from(*value)).collect::<Few<Bytes>>();
        vec![
            Op::Push(End::Front, few(&["x"])),
            Op::Push(End::Back, few(&["y"])),
            Op::Push(End::Back, few(&["z", "x"])),
            Op::PushReturning(End::Front, few(&["x"])),
            Op::PushReturning(End::Back, few(&["y"])),
            Op::Pop(End::Front),
            Op::Pop(End::Back),
            Op::Len,
            Op::Range { start: 0, stop: -1 },
            Op::Range { start: 0, stop: 1 },
            Op::Range { start: -2, stop: -1 },
            Op::Index(0),
            Op::Index(1),
            Op::Index(-1),
        ]
    }
}

impl BuiltIn for List {
    const SHARING: &'static str = "one end and the other";
    const READS_ALL: &'static [&'static str] = &["LRANGE", "0", "-1"];

    fn native(state: &ListState) -> Native {
        Native::List(state.iter().cloned().collect())
    }

    fn of_words(words: &[Bytes]) -> Result<Option<ListState>, OpError> {
        Ok((!words.is_empty()).then(|| words.iter().cloned().collect()))
    }

    fn elements(state: &ListState) -> usize {
        state.len()
    }

    fn part(whole: &ListState, op: &ListOp, own: &[&ListEffect]) -> ListState {
        let len = whole.len();
        let (mut left, mut right) = (0, 0);
        for effect in own {
            match effect {
                ListEffect::Take(End::Front, values) => left += values.len(),
                ListEffect::Take(End::Back, values) => right += values.len(),
                ListEffect::Push(..) => {}
            }
        }
        match op {
            ListOp::Push(..) | ListOp::PushReturning(..) | ListOp::Len => {}
            ListOp::Pop(End::Front) => left += 1,
            ListOp::Pop(End::Back) => right += 1,
            ListOp::Index(stop @ 0..) | ListOp::Range { start: 0.., stop: stop @ 0.. } => {
                left += *stop as usize + 1;
            }
            ListOp::Index(start) | ListOp::Range { start: start @ ..0, stop: ..0 } => {
                right += start.unsigned_abs() as usize;
            }
            ListOp::Range { .. } => left = len,
        }
        let left = left.min(len);
        let right = right.min(len - left);
        let values = || whole.iter().cloned();
        ListState::partial(values().take(left), len - left - right, values().skip(len - right))
    }
}
