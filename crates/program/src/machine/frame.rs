//! Frames: functions that have begun and not ended.

use crate::value::{ClosureId, TableId, Value};

use super::sort::Sort;
use super::substitute::Substitution;

/// What becomes of the results of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deliver {
    /// So many go to the stack from here on.
    Registers { to: usize, count: u8 },
    /// The first decides a comparison of the function that made the call.
    Compare { when: bool },
    /// They are not needed.
    Nowhere,
    /// The native function that made the call takes them.
    Native,
    /// They are the results of the run.
    Caller,
}

/// A function of the script.
#[derive(Debug)]
pub(crate) struct ScriptFrame {
    pub function: u32,
    pub closure: ClosureId,
    /// The next instruction.
    pub at: usize,
    /// Its first register.
    pub base: usize,
    /// Where the function itself is on the stack. Its arguments follow.
    pub place: usize,
    pub varargs: usize,
    /// Behind the last of the values whose count is only now known.
    pub top: usize,
    pub deliver: Deliver,
    /// A comparison was decided so that the jump behind it is not taken.
    pub skips: bool,
    /// Whether it took the place of the function that called it.
    pub is_tail: bool,
}

/// A native function that calls functions of the script.
#[derive(Debug)]
pub(crate) struct NativeFrame {
    pub state: NativeState,
    /// Where its own values are on the stack.
    pub place: usize,
    pub deliver: Deliver,
}

/// Which entries `table.foreach` goes through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Visit {
    /// All of them: the key that was visited.
    All(Value),
    /// The elements: the index that was visited, and the last.
    Elements(usize, usize),
}

/// How far a native function is.
#[derive(Debug)]
pub(crate) enum NativeState {
    /// It is at work: its state is in hand.
    Busy,
    /// `pcall`, and with a handler `xpcall`.
    Try { handler: Option<Value>, is_handling: bool },
    /// `tostring` of a table with a function for it.
    Text,
    /// A concatenation with a function for it: so many parts are left, from this place on.
    Concat { first: usize, left: usize },
    /// `table.sort`.
    Sort(Box<Sort>),
    /// `string.gsub`.
    Substitute(Box<Substitution>),
    /// `table.foreach`, `table.foreachi`.
    Visit { table: TableId, function: Value, visit: Visit, is_first: bool },
}

/// A function that has begun.
#[derive(Debug)]
pub(crate) enum Frame {
    Script(ScriptFrame),
    Native(NativeFrame),
}

impl Frame {
    /// What it refers to besides its registers.
    pub(crate) fn each(&self, mut mark: impl FnMut(Value)) {
        match self {
            Frame::Script(frame) => mark(Value::Closure(frame.closure)),
            Frame::Native(frame) => match &frame.state {
                NativeState::Try { handler, .. } => mark(handler.unwrap_or_default()),
                NativeState::Sort(sort) => sort.each(mark),
                NativeState::Substitute(substitution) => substitution.each(mark),
                NativeState::Visit { table, function, visit, .. } => {
                    mark(Value::Table(*table));
                    mark(*function);
                    if let Visit::All(key) = visit {
                        mark(*key);
                    }
                }
                NativeState::Busy | NativeState::Text | NativeState::Concat { .. } => {}
            },
        }
    }

    /// Where its part of the stack begins.
    pub(crate) fn place(&self) -> usize {
        match self {
            Frame::Script(frame) => frame.place,
            Frame::Native(frame) => frame.place,
        }
    }
}
