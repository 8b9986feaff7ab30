//! Register: a byte string that is written as a whole. Native Redis type: string.
//!
//! # Commutativity specification
//!
//! | operation | when | claims |
//! |---|---|---|
//! | `SET v` (void), `GETSET v` | | `write` |
//! | `APPEND v` (void) | | `write` |
//! | `SETNX v` (void), `SETNX.RETURNING v` | there is none: 1 | `write` |
//! | `SETNX v` (void), `SETNX.RETURNING v` | there is a record: 0 | `present` |
//! | `GET`, `STRLEN` | | `read` |
//!
//! | | read | write |
//! |---|---|---|
//! | read | | x |
//! | write | x | x |
//!
//! A write does not depend on what was there, but the last write stays, so two writes do not commute. A refused `SETNX`
//! commutes with a write, because it only claims that there is a record. Appended pieces show their order. `SET` and
//! `GETSET` clear the record's expiry, also where the value is the same.
//!
//! Counter and FloatCounter work on the same records; `text.rs` says how their modes conflict with these.

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, few};
use crate::text::{self, READ, Text, WRITE};
use crate::{Bytes, Claims, Mode, Modes, OpError, Reply, Scope};

/// A byte string that is written as a whole. Reads share the lock; writes exclude each other.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct Register;

/// Operations of [`Register`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum RegisterOp {
    Set(Bytes),
    GetSet(Bytes),
    Get,
    Append(Bytes),
    Len,
    SetIfAbsent(Bytes),
    SetIfAbsentReturning(Bytes),
}

/// A change of a register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RegisterEffect {
    /// Puts this in place of what is there: `SET`; absent where it undoes one.
    Replace(Text),
    /// Adds to the end: `APPEND`.
    Append(Bytes),
    /// Cuts to this length: undoes an append. Never pending.
    Truncate(usize),
}

const METHODS: &[Method] = &[
    Method {
        name: "SET",
        arguments: "value",
        summary: "writes the value",
        access: Access::Write,
        returns: false,
        complexity: "O(length)",
    },
    Method {
        name: "GETSET",
        arguments: "value",
        summary: "writes the value; the old one",
        access: Access::Write,
        returns: true,
        complexity: "O(length)",
    },
    Method {
        name: "GET",
        arguments: "",
        summary: "the value",
        access: Access::Read,
        returns: true,
        complexity: "O(length)",
    },
    Method {
        name: "APPEND",
        arguments: "value",
        summary: "writes at the end of the value",
        access: Access::Write,
        returns: false,
        complexity: "O(length of the argument)",
    },
    Method {
        name: "STRLEN",
        arguments: "",
        summary: "how many bytes the value has",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "SETNX",
        arguments: "value",
        summary: "writes the value if there is none",
        access: Access::Write,
        returns: false,
        complexity: "O(length)",
    },
    Method {
        name: "SETNX.RETURNING",
        arguments: "value",
        summary: "writes the value if there is none; 1 if it did, else 0",
        access: Access::Write,
        returns: true,
        complexity: "O(length)",
    },
];

impl DataType for Register {
    const NAME: &'static str = "register";
    const SUMMARY: &'static str = "a byte string that is written as a whole";
    const NATIVE: &'static str = "string";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = text::MODES;

    type State = Text;
    type Op = RegisterOp;
    type Effect = RegisterEffect;

    fn parse(method: &str, arguments: Arguments<'_>) -> Result<RegisterOp, OpError> {
        match (method, arguments) {
            ("SET", [value]) => Ok(RegisterOp::Set(value.clone())),
            ("GETSET", [value]) => Ok(RegisterOp::GetSet(value.clone())),
            ("GET", []) => Ok(RegisterOp::Get),
            ("APPEND", [value]) => Ok(RegisterOp::Append(value.clone())),
            ("STRLEN", []) => Ok(RegisterOp::Len),
            ("SETNX", [value]) => Ok(RegisterOp::SetIfAbsent(value.clone())),
            ("SETNX.RETURNING", [value]) => Ok(RegisterOp::SetIfAbsentReturning(value.clone())),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn method(op: &RegisterOp) -> &'static Method {
        match op {
            RegisterOp::Set(_) => &METHODS[0],
            RegisterOp::GetSet(_) => &METHODS[1],
            RegisterOp::Get => &METHODS[2],
            RegisterOp::Append(_) => &METHODS[3],
            RegisterOp::Len => &METHODS[4],
            RegisterOp::SetIfAbsent(_) => &METHODS[5],
            RegisterOp::SetIfAbsentReturning(_) => &METHODS[6],
        }
    }

    fn arguments(op: &RegisterOp) -> Few<Bytes> {
        match op {
            RegisterOp::Set(value)
            | RegisterOp::GetSet(value)
            | RegisterOp::Append(value)
            | RegisterOp::SetIfAbsent(value)
            | RegisterOp::SetIfAbsentReturning(value) => few([value.clone()]),
            RegisterOp::Get | RegisterOp::Len => Few::new(),
        }
    }

    fn size(op: &RegisterOp) -> usize {
        match op {
            RegisterOp::Set(value)
            | RegisterOp::GetSet(value)
            | RegisterOp::Append(value)
            | RegisterOp::SetIfAbsent(value)
            | RegisterOp::SetIfAbsentReturning(value) => value.len(),
            RegisterOp::Get | RegisterOp::Len => 0,
        }
    }

    fn is_absent(state: &Text) -> bool {
        *state == Text::Absent
    }

    fn is_total(op: &RegisterOp) -> bool {
        // Hosts limit how long a value grows.
        !matches!(op, RegisterOp::Append(_))
    }

    fn is_blind(op: &RegisterOp) -> bool {
        matches!(op, RegisterOp::Set(_))
    }

    fn footprint(op: &RegisterOp) -> Claims {
        match op {
            RegisterOp::Set(_) | RegisterOp::GetSet(_) | RegisterOp::Append(_) => Claims::record(WRITE),
            RegisterOp::SetIfAbsent(_) | RegisterOp::SetIfAbsentReturning(_) => {
                Claims::record(WRITE).and(Scope::Record, Mode::PRESENT)
            }
            RegisterOp::Get | RegisterOp::Len => Claims::record(READ),
        }
    }

    fn execute(state: &Text, op: &RegisterOp, _: Unique) -> Result<Execution<RegisterEffect>, OpError> {
        let execution = match op {
            RegisterOp::Set(value) => write(value, Reply::Ok),
            // The answer tells what was there, and `write` conflicts with all that may change it.
            RegisterOp::GetSet(value) => write(value, content(state)),
            RegisterOp::Get => Execution::read(content(state), Claims::record(READ)),
            RegisterOp::Append(tail) => {
                Execution::void(RegisterEffect::Append(tail.clone()), Claims::record(WRITE))
            }
            RegisterOp::Len => {
                let length = match state {
                    Text::Bytes(bytes) => Reply::count(bytes.len()),
                    Text::Length(length) => Reply::count(*length),
                    Text::Int(_) | Text::Absent => length(&content(state)),
                };
                Execution::read(length, Claims::record(READ))
            }
            RegisterOp::SetIfAbsent(value) => Execution { reply: Reply::Ok, ..write_if_absent(state, value) },
            RegisterOp::SetIfAbsentReturning(value) => write_if_absent(state, value),
        };
        Ok(execution)
    }

    fn apply(state: &mut Text, effect: RegisterEffect) -> RegisterEffect {
        match (effect, state) {
            (RegisterEffect::Append(tail), Text::Bytes(bytes)) => {
                let before = bytes.len();
                bytes.extend(&tail);
                RegisterEffect::Truncate(before)
            }
            (RegisterEffect::Truncate(len), Text::Bytes(bytes)) => {
                let tail = Bytes::copy_from(&bytes[len..]);
                bytes.truncate(len);
                RegisterEffect::Append(tail)
            }
            (RegisterEffect::Append(tail), state) => {
                let mut bytes = state.to_bytes().unwrap_or_default();
                bytes.extend(&tail);
                RegisterEffect::Replace(std::mem::replace(state, Text::Bytes(bytes)))
            }
            (RegisterEffect::Truncate(_), _) => unreachable!("only undoes an append to bytes"),
            (RegisterEffect::Replace(content), state) => {
                RegisterEffect::Replace(std::mem::replace(state, content))
            }
        }
    }

    fn clears_expiry(effect: &RegisterEffect) -> bool {
        matches!(effect, RegisterEffect::Replace(_))
    }

    fn combine(held: &RegisterOp, answer: &Reply, op: &RegisterOp) -> Option<Reply> {
        match (held, op) {
            (RegisterOp::Get, RegisterOp::Len) => Some(length(answer)),
            _ if held == op => Some(answer.clone()),
            _ => None,
        }
    }
}

fn content(state: &Text) -> Reply {
    state.to_bytes().map_or(Reply::Nil, Reply::Bytes)
}

fn length(content: &Reply) -> Reply {
    match content {
        Reply::Bytes(bytes) => Reply::count(bytes.len()),
        _ => Reply::Int(0),
    }
}

fn write(value: &Bytes, reply: Reply) -> Execution<RegisterEffect> {
    let effect = RegisterEffect::Replace(Text::Bytes(value.clone()));
    Execution::returning(reply, effect, Claims::record(WRITE))
}

fn write_if_absent(state: &Text, value: &Bytes) -> Execution<RegisterEffect> {
    match state {
        Text::Absent => {
            let effect = RegisterEffect::Replace(Text::Bytes(value.clone()));
            Execution::returning(Reply::Int(1), effect, Claims::record(WRITE))
        }
        Text::Int(_) | Text::Bytes(_) | Text::Length(_) => {
            Execution::read(Reply::Int(0), Claims::record(Mode::PRESENT))
        }
    }
}

impl Examples for Register {
    fn states() -> Vec<Text> {
        vec![Text::Absent, Text::Bytes("".into()), Text::Bytes("a".into()), Text::Int(5)]
    }

    fn operations() -> Vec<RegisterOp> {
        let mut operations = vec![RegisterOp::Get, RegisterOp::Len];
        for value in ["a", "b", "5"] {
            operations.push(RegisterOp::Set(value.into()));
            operations.push(RegisterOp::GetSet(value.into()));
        }
        for value in ["a", "b"] {
            operations.push(RegisterOp::Append(value.into()));
            operations.push(RegisterOp::SetIfAbsent(value.into()));
            operations.push(RegisterOp::SetIfAbsentReturning(value.into()));
        }
        operations
    }
}

impl BuiltIn for Register {
    const SHARING: &'static str = "reads";
    const READS_ALL: &'static [&'static str] = &["GET"];

    fn native(text: &Text) -> Native {
        Native::String(text.to_bytes())
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Text>, OpError> {
        Ok(if let [text] = words { Some(Text::Bytes(text.clone())) } else { None })
    }

    fn bytes(text: &Text) -> usize {
        if let Text::Bytes(bytes) = text { bytes.len() } else { 0 }
    }
}
