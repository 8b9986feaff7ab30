//! The records are the user's own keys. Each type of `docs/types.md` is read from, and written to, the Redis value
//! that it is on a cluster.
//!
//! Reading makes a partial state, which holds what one operation needs; nothing of it is kept. Writing runs the plain
//! commands that an effect stands for; what a frame adds to a counter is one command (`adding.rs`). The append-only file
//! and the replicas get these commands: all of one entry (a frame, a timer) in one MULTI.
//!
//! What this does not do: locks, and whether an operation is allowed (`node/rights.rs`).

pub(crate) mod commands;
#[cfg(test)]
mod costs;
mod documents;
mod ends;
mod hashes;
mod held_ends;
mod keyspace;
mod lists;
#[cfg(test)]
mod model;
mod on_server;
mod server;
mod sets;
mod side;
mod strings;
#[cfg(test)]
mod tests;
mod zsets;

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ffi::CStr;

use claret_core::Applied;
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Effect, Expiry, OpError, Operation, State, TypeInfo, is_canonical_integer};
use smallvec::SmallVec;

use crate::ffi::{Answer, Kind};
use crate::parts::equivalent::{Equivalent, on_any};
use crate::parts::stored::Stored;

pub(crate) use ends::{hold_end, let_all_end, let_end};
pub(crate) use held_ends::HeldEnds;
use on_server::OnServer;
pub(crate) use server::{OpenKey, Server};
pub(crate) use side::side_key;

/// [`Records::partial_state`](claret_core::Records::partial_state).
pub(crate) fn partial_state(
    server: &impl Server,
    key: &Bytes,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let record = Record::new(server, key, op.method().name);
    match op.command() {
        Some(command) if op.is_command() => return commands::partial_state(&record, command, own),
        Some(command) => return commands::ask(&record, command, own),
        None => {}
    }
    let state = match own.is_empty() && op.keyspace().is_none() {
        true => content(&record, op, &[])?, // Mostly.
        false => match keyspace::partial_state(&record, op, own) {
            Some(state) => state?,
            None => content(&record, op, &on_content(own))?,
        },
    };
    Ok(state.map(|state| state.expiring(record.expiry())))
}

/// The effects on a key's content; the others are about whether it is there, and until when.
fn on_content<'a>(own: &[&'a Effect]) -> SmallVec<[&'a Effect; 4]> {
    own.iter().copied().filter(|effect| effect.keyspace().is_none()).collect()
}

/// The part of a record's content that an operation of its type needs.
fn content(
    record: &Record<'_, impl Server>,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let kind = op.type_info();
    // Effects of another type: whether the types agree shows in the whole record.
    if let Some(first) = own.first()
        && !all_are_of(kind, own)
    {
        record.check_whole(record.open_any())?;
        return whole(record, first.type_info());
    }
    part_by_type(record, op, own)
}

/// [`Records::partial_state_for_all`](claret_core::Records::partial_state_for_all).
pub(crate) fn partial_state_for_all(
    server: &impl Server,
    key: &Bytes,
    ops: &[&Operation],
    own: &[&Effect],
) -> Result<(Option<State>, usize), OpError> {
    let record = Record::new(server, key, ops[0].method().name);
    let kind = ops[0].type_info();
    if Stored::of(kind) == Stored::Keyspace || !all_are_of(kind, own) {
        return Ok((partial_state(server, key, ops[0], own)?, 1));
    }
    let (state, covered) = part_for_all_by_type(&record, ops, own)?;
    Ok((state.map(|state| state.expiring(record.expiry())), covered))
}

/// [`Records::apply`](claret_core::Records::apply).
pub(crate) fn apply(server: &impl Server, key: &Bytes, effects: &[&Effect]) -> Applied {
    let record = Record::new(server, key, "an effect");
    let effects = if is_planted(Bug::FirstEffectAlone) { &effects[..1] } else { effects };
    if let Some(end) = server.held_ends(|held| held.get(key)) {
        return ends::apply(&record, effects, end);
    }
    if keyspace::may_end_it(effects, || server.now_ms()) {
        return ends::apply_and_end(&record, effects);
    }
    carry_out(&record, effects);
    Applied::Done
}

fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
    if let [_] = effects {
        return carry_out_alike(record, effects); // Mostly.
    }
    for effects in effects.chunk_by(|one, next| one.type_info().id == next.type_info().id) {
        carry_out_alike(record, effects);
    }
}

fn all_are_of(kind: &TypeInfo, effects: &[&Effect]) -> bool {
    effects.iter().all(|effect| effect.type_info().id == kind.id) || is_planted(Bug::OtherTypesUnread)
}

/// Whether an operation can be given its place before it is executed: the record is of its type, or is not there, and does not
/// expire.
pub(crate) fn may_order(server: &impl Server, key: &Bytes, op: &Operation) -> bool {
    let record = Record::new(server, key, op.method().name);
    let stored = Stored::of(op.type_info());
    if matches!(stored, Stored::Keyspace | Stored::Plain) {
        return false;
    }
    let Some(kind) = kind_of(stored) else {
        // Not every hash, sorted set or string is such a record.
        return partial_state(server, key, op, &[])
            .is_ok_and(|state| state.is_none_or(|state| state.expiry().is_none()));
    };
    record.open_any().is_none_or(|opened| opened.kind() == kind) && record.expiry().is_none()
}

/// [`Records::whole`](claret_core::Records::whole).
pub(crate) fn whole_of(server: &impl Server, key: &Bytes, kind: &TypeInfo) -> Option<State> {
    let record = Record::new(server, key, "vanishing");
    match Stored::of(kind) {
        Stored::Keyspace | Stored::Plain => None,
        _ => whole(&record, kind).ok().flatten(),
    }
}

macro_rules! by_type {
    ($($place:literal $type:ident),* $(,)?) => {
        /// [`OnServer::partial_state`].
        fn part_by_type(
            record: &Record<'_, impl Server>,
            op: &Operation,
            own: &[&Effect],
        ) -> Result<Option<State>, OpError> {
            match Stored::of(op.type_info()) {
                $(Stored::$type => claret_types::$type::partial_state(record, op, own),)*
                // It looks itself, once it may.
                Stored::Plain => Ok(None),
                Stored::Keyspace => unreachable!("it is not about content"),
            }
        }

        /// [`OnServer::partial_state_for_all`].
        fn part_for_all_by_type(
            record: &Record<'_, impl Server>,
            ops: &[&Operation],
            own: &[&Effect],
        ) -> Result<(Option<State>, usize), OpError> {
            match Stored::of(ops[0].type_info()) {
                $(Stored::$type => claret_types::$type::partial_state_for_all(record, ops, own),)*
                Stored::Plain => Ok((None, 1)),
                Stored::Keyspace => unreachable!("it is not about content"),
            }
        }

        /// [`OnServer::carry_out`], of effects of one type.
        fn carry_out_alike(record: &Record<'_, impl Server>, effects: &[&Effect]) {
            match Stored::of(effects[0].type_info()) {
                $(Stored::$type => claret_types::$type::carry_out(record, effects),)*
                Stored::Keyspace => keyspace::apply(record, effects),
                Stored::Plain => unreachable!("a plain command has no effect: it is run"),
            }
        }

        /// [`OnServer::whole`].
        fn whole(record: &Record<'_, impl Server>, kind: &TypeInfo) -> Result<Option<State>, OpError> {
            match Stored::of(kind) {
                $(Stored::$type => claret_types::$type::whole(record),)*
                Stored::Keyspace => unreachable!("no content is of this type"),
                Stored::Plain => unreachable!("a plain command has no effects, so none of its record"),
            }
        }

        /// [`OnServer::removes`]; of effects on records of any type none.
        fn removes(effect: &Effect) -> usize {
            fn of<T: OnServer>(effect: &Effect) -> usize {
                effect.downcast::<T>().map_or(0, T::removes)
            }
            match Stored::of(effect.type_info()) {
                $(Stored::$type => of::<claret_types::$type>(effect),)*
                Stored::Keyspace | Stored::Plain => 0,
            }
        }

        /// [`OnServer::equivalent`].
        pub(crate) fn equivalent(kind: &TypeInfo, method: &'static str) -> Equivalent {
            match Stored::of(kind) {
                $(Stored::$type => claret_types::$type::equivalent(method),)*
                Stored::Keyspace => on_any(method),
                Stored::Plain => Equivalent::named(method),
            }
        }

        /// [`OnServer::KIND`].
        fn kind_of(stored: Stored) -> Option<Kind> {
            match stored {
                $(Stored::$type => claret_types::$type::KIND,)*
                Stored::Keyspace | Stored::Plain => None,
            }
        }
    };
}

claret_types::with_types!(by_type);

/// An integer as the server writes one; it does not add to `007` and `+7`.
fn integer_of(bytes: &[u8]) -> Option<i64> {
    let bytes = Some(bytes).filter(|bytes| bytes.len() <= INTEGER_BYTES_MAX)?;
    let number: i64 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (is_canonical_integer(bytes) || is_planted(Bug::PaddedNumbersTaken)).then_some(number)
}

/// No integer is longer, as the server writes one.
const INTEGER_BYTES_MAX: usize = 20;

/// No float is longer that the server adds to.
const FLOAT_BYTES_MAX: usize = 5 * 1024;

/// What an element takes at most besides its bytes, and may have of them where there are as many as may be read at once.
const ELEMENT_BYTES: usize = 256;

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

/// Opens a key, which goes by this name: it, and when it expires in the server. `None` when it is not there.
fn open<S: Server>(server: &S, key: &Bytes, name: &S::Text) -> Option<(S::Key, Option<i64>)> {
    let opened = server.open(name)?;
    let end = opened.expires_at();
    if let Some(end) = end {
        server.note_end(key, end);
    }
    Some((opened, end))
}

/// A key, and who asks for it.
struct Record<'a, S: Server> {
    server: &'a S,
    key: &'a Bytes,
    /// The key, as the server takes it to look at it.
    name: OnceCell<S::Text>,
    /// For errors.
    method: &'static str,
    /// When the key expires, once it was opened.
    end: Cell<Option<i64>>,
}

/// How many portions are written: all.
fn portions_max() -> usize {
    if is_planted(Bug::FirstPortionAlone) { 1 } else { usize::MAX }
}

impl<'a, S: Server> Record<'a, S> {
    fn new(server: &'a S, key: &'a Bytes, method: &'static str) -> Self {
        Record { server, key, name: OnceCell::new(), method, end: Cell::new(None) }
    }

    fn name(&self) -> &S::Text {
        self.name.get_or_init(|| self.server.text(self.key))
    }

    /// Opens it, whatever it is; `None` when it is not there.
    fn open_any(&self) -> Option<S::Key> {
        let (key, end) = open(self.server, self.key, self.name())?;
        self.end.set(end);
        Some(key)
    }

    /// When it expires, as seen when it was opened; if its end is put off, without that.
    fn expiry(&self) -> Option<Expiry> {
        // One whose end is put off has a later one in the server.
        let end = self.end.get().filter(|_| !is_planted(Bug::ExpiryUnseen))?;
        let held = self.server.held_ends(|held| held.get(self.key));
        held.unwrap_or_else(|| Expiry::at_ms(end.try_into().ok()?))
    }

    /// Opens it; `None` when it is not there.
    fn open(&self, expected: Kind) -> Result<Option<S::Key>, OpError> {
        let Some(key) = self.open_any() else { return Ok(None) };
        if key.kind() == expected || is_planted(Bug::AnyKindTaken) {
            Ok(Some(key))
        } else {
            Err(self.wrong_kind(key, expected.name()))
        }
    }

    fn wrong_type(&self, found: impl Into<Cow<'static, str>>, expected: &'static str) -> OpError {
        OpError::WrongType { found: found.into(), expected: expected.into(), method: self.method.into() }
    }

    /// The same of a key that is open: one that a stream or another module has goes by the name that it has in the server.
    fn wrong_kind(&self, key: S::Key, expected: &'static str) -> OpError {
        let kind = key.kind();
        drop(key);
        match kind {
            Kind::Other => match self.read(c"TYPE", []).bytes() {
                Some(name) => self.wrong_type(name.to_string(), expected),
                None => self.wrong_type(kind.name(), expected),
            },
            _ => self.wrong_type(kind.name(), expected),
        }
    }

    /// The bytes of a string, whose key was opened to see that it is one. Of one that is going to be written they are taken
    /// where they lie: that makes an ordinary string of it, and the write makes it compact again.
    fn string(&self, key: S::Key, fate: Upcoming) -> Bytes {
        if key.len() > COMPACT_MAX || fate == Upcoming::Write {
            self.server.note_read(0, key.len());
            return Bytes::from(key.string());
        }
        drop(key);
        self.read(c"GET", []).bytes().unwrap_or_default()
    }

    /// Runs a command that reads: its name, the key, what follows.
    fn read<'b>(&self, command: &CStr, arguments: impl IntoIterator<Item = &'b [u8]>) -> Answer {
        let answer = self.server.read(command, self.name(), arguments);
        let (elements, bytes) = answer.size();
        self.server.note_read(elements, bytes);
        answer
    }

    /// Runs a command that reads, whole; its key takes the place of the empty word.
    fn command_on(&self, words: &[&str]) -> Answer {
        let word = |word: &&str| if word.is_empty() { self.key.clone() } else { Bytes::from(*word) };
        let answer = self.server.command(&words.iter().map(word).collect::<Vec<_>>(), false);
        let (elements, bytes) = answer.size();
        self.server.note_read(elements, bytes);
        answer
    }

    /// The value of a hash's field.
    fn field(&self, key: &S::Key, name: &[u8]) -> Option<<S::Key as OpenKey>::Text> {
        let value = key.field(name);
        self.server.note_read(1, value.as_ref().map_or(0, |value| value.as_ref().len()));
        value
    }

    /// Whether all of a record may be read for an operation that answers less of it. A string is one element, and copied at once.
    fn check_whole(&self, key: Option<S::Key>) -> Result<(), OpError> {
        let Some(elements) = key.filter(|key| key.kind() != Kind::String).map(|key| key.len()) else {
            return Ok(());
        };
        let too_large = |of: &str, size, limit| {
            let what = format!("record that {} has to read as a whole, in {of},", self.method);
            Err(OpError::TooLarge { what: what.into(), size, limit })
        };
        let limit = self.server.whole_elements_max();
        if !(elements <= limit || is_planted(Bug::WholeReadsUnbounded)) {
            return too_large("elements", elements, limit);
        }
        let (bytes, limit) = (self.server.memory(self.name()), limit.saturating_mul(ELEMENT_BYTES));
        match bytes <= limit || is_planted(Bug::WholeReadsUnbounded) {
            true => Ok(()),
            false => too_large("bytes of memory", bytes, limit),
        }
    }

    /// Runs a command that writes.
    fn write<'b>(&self, command: &CStr, arguments: impl IntoIterator<Item = &'b [u8]>) {
        self.is_done(command, self.server.write(command, self.key, arguments));
    }

    /// The same with words that the server keeps as they are.
    fn write_as_is<'b>(&self, command: &CStr, arguments: impl IntoIterator<Item = &'b [u8]>) {
        self.is_done(command, self.server.write_as_is(command, self.key, arguments));
    }

    fn is_done(&self, command: &CStr, answer: Answer) {
        if let Answer::Error(error) = answer
            && !is_planted(Bug::RefusalUntold)
        {
            // It was decided, so there is nobody to tell but the operator: the key was changed under its lock.
            let command = command.to_string_lossy();
            let key = self.key;
            self.server.warn(&format!("{command} of a committed transaction failed on key '{key}': {error}"));
        }
    }

    /// Runs a command that writes as often as so many members need.
    fn write_members(&self, command: &CStr, members: &[Bytes]) {
        if members.len() <= ELEMENTS_MAX {
            // Mostly one, or none.
            if !members.is_empty() {
                self.write(command, members.iter().map(|member| &member[..]));
            }
            return;
        }
        for some in members.chunks(ELEMENTS_MAX).take(portions_max()) {
            self.write(command, some.iter().map(|member| &member[..]));
        }
    }

    /// Runs a command that writes as often as so many elements need, each of `width` arguments.
    fn write_all(&self, command: &CStr, width: usize, arguments: &[&[u8]]) {
        for some in arguments.chunks(ELEMENTS_MAX * width).take(portions_max()) {
            self.write(command, some.iter().copied());
        }
    }
}
