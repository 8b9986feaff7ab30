//! The records are the user's own keys: each type of `docs/types.md` read from, and written to, the Redis value that
//! it is in a cluster.
//!
//! Reading makes an excerpt, a state that holds what one operation needs; nothing of it is kept. Writing runs the plain
//! commands that an effect stands for, which go to the append-only file and to the replicas as such: all of one entry
//! (a frame, a timer) in one MULTI.
//!
//! What this does not do: locks, and whether an operation is allowed (`admission`).

mod hashes;
mod lists;
mod sets;
mod side;
mod strings;
mod zsets;

use std::ffi::CStr;

use claret_core::Records;
use claret_core::message::Refusal;
use claret_types::{Bytes, Effect, OpError, Operation, State, TypeInfo};
use smallvec::SmallVec;

use crate::ffi::{Answer, Ctx, Key, Kind, Log, Text};
use crate::node::admission;
use crate::node::vanish;
use crate::parts::slots;

pub(crate) use side::side_key;

/// The server's keys, as the shard sees them.
pub(crate) struct Keyspace;

impl Records for Keyspace {
    /// Its lowest slot: no other node has it, and one that gets it begins later.
    fn tag(&self) -> u16 {
        slots::view(|view| view.lowest()).flatten().unwrap_or_default()
    }

    fn admit(&self, key: &Bytes, op: &Operation) -> Result<(), Refusal> {
        assert!(!is_planted(key), "planted");
        admission::admit(key, op)
    }

    fn excerpt(&self, key: &Bytes, op: &Operation, own: &[&Effect]) -> Result<Option<State>, OpError> {
        let record = Record::new(Ctx::current(), key, op.method().name);
        let kind = op.type_info();
        // Effects of another type: whether the types agree shows in the whole record.
        if let Some(first) = own.first()
            && own.iter().any(|effect| effect.type_info().name != kind.name)
        {
            return whole(&record, first.type_info());
        }
        match kind.name {
            "register" | "counter" | "float-counter" => strings::excerpt(&record, op, own),
            "set" => sets::excerpt(&record, op, own),
            "dict" => hashes::excerpt(&record, op, own),
            "scored-set" => zsets::excerpt(&record, op, own),
            "topk" => zsets::excerpt_topk(&record, op, own),
            "list" => lists::excerpt(&record, op, own),
            // A plain command: it looks itself, once it may.
            "plain" => Ok(None),
            _ => whole(&record, kind),
        }
    }

    fn excerpt_for_all(
        &self,
        key: &Bytes,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        let record = Record::new(Ctx::current(), key, ops[0].method().name);
        let kind = ops[0].type_info();
        if own.iter().any(|effect| effect.type_info().name != kind.name) {
            return Ok((self.excerpt(key, ops[0], own)?, 1));
        }
        match kind.name {
            "register" | "counter" | "float-counter" => strings::excerpt_for_all(&record, ops, own),
            "set" => sets::excerpt_for_all(&record, ops, own),
            "dict" => hashes::excerpt_for_all(&record, ops, own),
            "scored-set" => zsets::excerpt_for_all(&record, ops, own),
            "topk" => zsets::excerpt_topk_for_all(&record, ops, own),
            "list" => lists::excerpt_for_all(&record, ops, own),
            "bounded-counter" | "summary-bag" | "uid-generator" => Ok((whole(&record, kind)?, ops.len())),
            _ => Ok((self.excerpt(key, ops[0], own)?, 1)),
        }
    }

    fn apply(&self, key: &Bytes, effects: &[&Effect]) {
        let record = Record::new(Ctx::current(), key, "an effect");
        for effects in effects.chunk_by(|one, next| one.type_info().name == next.type_info().name) {
            match effects[0].type_info().name {
                "register" | "counter" | "float-counter" | "uid-generator" => {
                    strings::apply(&record, effects)
                }
                "set" => sets::apply(&record, effects),
                "dict" | "bounded-counter" | "summary-bag" => hashes::apply(&record, effects),
                "scored-set" => zsets::apply(&record, effects),
                "topk" => effects.iter().for_each(|effect| zsets::apply_topk(&record, effect)),
                "list" => lists::apply(&record, effects),
                other => unreachable!("operations come through the wire, which knows no type '{other}'"),
            }
        }
    }
}

/// Whether to panic at this key, so that a test sees what becomes of it: the environment names it, in builds for tests.
fn is_planted(key: &Bytes) -> bool {
    let planted = || std::env::var("CLARET_PLANTED_PANIC");
    cfg!(debug_assertions) && planted().is_ok_and(|planted| *planted.as_bytes() == **key)
}

/// The whole record, as a state of this type.
fn whole(record: &Record<'_>, kind: &TypeInfo) -> Result<Option<State>, OpError> {
    match kind.name {
        "register" | "counter" | "float-counter" => strings::whole(record),
        "uid-generator" => strings::whole_uid(record),
        "bounded-counter" => hashes::whole_bounded(record),
        "dict" => hashes::whole(record),
        "summary-bag" => hashes::whole_bag(record),
        "set" => sets::whole(record),
        "scored-set" => zsets::whole(record),
        "topk" => zsets::whole_topk(record),
        "list" => lists::whole(record),
        other => unreachable!("operations come through the wire, which knows no type '{other}'"),
    }
}

/// An integer as the server writes one; it does not add to `007` and `+7`.
fn integer_of(bytes: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == bytes).then_some(number)
}

/// So many elements are written with one command.
const ELEMENTS_MAX: usize = 1024;

/// Longer strings are not kept in a compact way, as a number or in one piece with what the server notes of them.
const COMPACT_MAX: usize = 44;

/// What becomes of a string that is read, unless the transaction ends without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upcoming {
    /// Another value is written.
    Write,
    /// It may stay as it is.
    Nothing,
}

/// A key, and who asks for it.
struct Record<'a> {
    ctx: Ctx,
    key: &'a Bytes,
    /// The key, as the server takes it.
    name: Text,
    /// For errors.
    method: &'static str,
}

impl<'a> Record<'a> {
    fn new(ctx: Ctx, key: &'a Bytes, method: &'static str) -> Self {
        Record { ctx, key, name: Text::new(key), method }
    }

    /// Opens it; `None` when it is not there.
    fn open(&self, expected: Kind) -> Result<Option<Key>, OpError> {
        let Some(key) = vanish::look(|| self.ctx.open(&self.name)) else { return Ok(None) };
        if let Some(end) = key.expires_at() {
            vanish::note_mortal(self.key, end);
        }
        if key.kind() == expected {
            Ok(Some(key))
        } else {
            Err(self.wrong(key.kind().name(), expected.name()))
        }
    }

    fn wrong(&self, found: &'static str, expected: &'static str) -> OpError {
        OpError::WrongType { found, expected, method: self.method }
    }

    /// The bytes of a string, whose key was opened to see that it is one. Of one that is going to be written they are taken
    /// where they lie: that makes an ordinary string of it, and the write makes it compact again.
    fn string(&self, key: Key, fate: Upcoming) -> Bytes {
        if key.len() > COMPACT_MAX || fate == Upcoming::Write {
            return Bytes::from(key.string());
        }
        drop(key);
        self.read(c"GET", []).bytes().unwrap_or_default()
    }

    /// Runs a command that reads: its name, the key, what follows.
    fn read<'b>(&self, command: &CStr, arguments: impl IntoIterator<Item = &'b [u8]>) -> Answer {
        self.run(command, c"Ev", arguments)
    }

    /// Runs a command that writes, and passes it on to the replicas and the append-only file.
    fn write<'b>(&self, command: &CStr, arguments: impl IntoIterator<Item = &'b [u8]>) {
        self.is_done(command, self.run(command, c"!Ev", arguments));
    }

    /// The same with a value that is kept as it is.
    fn put(&self, command: &CStr, value: &[u8]) {
        self.is_done(command, self.ctx.call_with_value(command, &self.name, value));
    }

    fn is_done(&self, command: &CStr, answer: Answer) {
        if let Answer::Error(error) = answer {
            // It was decided, so there is nobody to tell but the operator: the key was changed under its lock.
            let command = command.to_string_lossy();
            let text = format!("{command} of a committed transaction failed on key '{}': {error}", self.key);
            self.ctx.log(Log::Warning, &text);
        }
    }

    /// Runs a command that writes as often as so many members need.
    fn write_members(&self, command: &CStr, members: &[Bytes]) {
        for some in members.chunks(ELEMENTS_MAX) {
            self.write(command, some.iter().map(|member| &member[..]));
        }
    }

    /// Runs a command that writes as often as so many elements need, each of `width` arguments.
    fn write_all(&self, command: &CStr, width: usize, arguments: &[&[u8]]) {
        for some in arguments.chunks(ELEMENTS_MAX * width) {
            self.write(command, some.iter().copied());
        }
    }

    fn run<'b>(&self, command: &CStr, flags: &CStr, arguments: impl IntoIterator<Item = &'b [u8]>) -> Answer {
        let arguments: SmallVec<[Text; 4]> = arguments.into_iter().map(Text::new).collect();
        self.ctx.call(command, flags, std::iter::once(&self.name).chain(&arguments))
    }
}
