//! What ends a step of a run early: errors that a script can catch, and what it cannot.

use crate::value::{TextId, Value};

/// What no script catches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fatal {
    /// It used all its steps.
    Steps,
    /// It needs more memory than it may have.
    Memory,
    /// It looked at an answer that is not known yet.
    Looked(u32),
    /// The program does what a compiled program does not do.
    Program(&'static str),
}

/// Where an error's message says it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the instruction that runs, if the script and no native function runs.
    Here,
    /// In the function so many levels up: 1 is the one that called the native function.
    Level(u32),
    /// Nowhere.
    None,
}

/// An error on its way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raise {
    /// A message, not yet a value.
    Text { message: String, place: Place },
    /// What an operand of an instruction cannot do. Its name is looked up.
    Operand { action: &'static str, type_name: &'static str, slot: u8 },
    /// An argument of a native function, from 1, and what is wrong with it.
    Argument { index: usize, message: String },
    /// A message of the script, for the function so many levels up.
    Said { text: TextId, level: u32 },
    /// A value that was raised as it is.
    Value(Value),
    /// What no script catches.
    Fatal(Fatal),
}

impl Raise {
    /// What an instruction cannot do.
    pub(crate) fn text(message: impl Into<String>) -> Raise {
        Raise::Text { message: message.into(), place: Place::Here }
    }

    /// What a native function cannot do, said of the place where it was called.
    pub(crate) fn called(message: impl Into<String>) -> Raise {
        Raise::Text { message: message.into(), place: Place::Level(1) }
    }

    /// What a native function cannot do with an argument.
    pub(crate) fn argument(index: usize, message: impl Into<String>) -> Raise {
        Raise::Argument { index, message: message.into() }
    }
}
