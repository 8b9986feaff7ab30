//! What a shard's inputs changed, for a host that keeps a log of it (`docs/durability.md`).
//!
//! A host that wants it calls [`Shard::keep_journal`](crate::Shard::keep_journal), and takes what was noted after each input,
//! before anybody else has the shard. Effects are noted as bytes, in the order in which they are or will be carried out; the log
//! need not understand them. [`read_effects`] and [`read_records`] do, when the log is read again.

use std::ops::Range;

use claret_types::{Bytes, Effect, State};
use serde::Deserialize;
use thiserror::Error;

use crate::ids::AttemptId;

/// Bytes that a journal did not write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("these bytes are no effects and no records: {0}")]
pub struct Malformed(String);

/// Something that a log has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// These effects were carried out by an instant transaction.
    Done(Range<usize>),
    /// The attempt has voted here, and these are its effects. They are carried out if it commits.
    Voted(AttemptId, Range<usize>),
    /// This was the last participant (P9): the attempt is committed, and these effects of it here were carried out.
    Committed(AttemptId, Range<usize>),
    /// What the attempt had voted was carried out.
    Applied(AttemptId),
    /// The record vanished by itself (P36). What those have voted on it who have voted comes to nothing.
    Vanished(Bytes),
    /// What the attempt had voted is dropped.
    Dropped(AttemptId),
}

/// What a shard noted since the host took it last: what its inputs changed, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Effects, each behind its key.
    bytes: Vec<u8>,
    notes: Vec<Noted>,
    /// From here on they belong to no note yet.
    from: usize,
    /// Effects that are carried out are noted, and not only that they are.
    pub(crate) writes: bool,
    /// Keys of records that went while somebody walks through the records.
    pub(crate) gone: Option<Vec<Bytes>>,
}

impl Journal {
    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Everything that was noted since the last time, in order, with its effects as bytes.
    pub fn notes(&self) -> impl Iterator<Item = (&Noted, &[u8])> {
        self.notes.iter().map(|note| match note {
            Noted::Done(range) | Noted::Voted(_, range) | Noted::Committed(_, range) => {
                (note, &self.bytes[range.clone()])
            }
            Noted::Applied(_) | Noted::Dropped(_) | Noted::Vanished(_) => (note, &[][..]),
        })
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.notes.clear();
        self.from = 0;
    }

    /// The effect is carried out, or will be.
    pub(crate) fn write(&mut self, key: &Bytes, effect: &Effect) {
        write_effect(&mut self.bytes, key, effect);
    }

    /// What was written since the last note belongs to this one.
    pub(crate) fn note(&mut self, note: impl FnOnce(Range<usize>) -> Noted) {
        let range = self.from..self.bytes.len();
        self.from = self.bytes.len();
        self.notes.push(note(range));
    }

    /// Whether effects were written and belong to no note.
    pub(crate) fn has_more(&self) -> bool {
        self.from < self.bytes.len()
    }

    /// What was written since the last note did not happen.
    pub(crate) fn take_back(&mut self) {
        self.bytes.truncate(self.from);
    }
}

/// Adds a key and an effect on its record, as a journal does.
///
/// # Panics
/// If the effect is of a type that is not built in: a host that keeps a log takes no operations of others.
pub fn write_effect(out: &mut Vec<u8>, key: &Bytes, effect: &Effect) {
    *out = postcard::to_extend(&(key, effect), std::mem::take(out)).expect("it is of a built-in type");
}

/// Adds a key and its record, or that there is none.
///
/// # Panics
/// If the record is of a type that is not built in.
pub fn write_record(out: &mut Vec<u8>, key: &Bytes, state: Option<&State>) {
    *out = postcard::to_extend(&(key, state), std::mem::take(out)).expect("it is of a built-in type");
}

/// Reads effects that a journal wrote, one after another, each behind the key of its record. After an error there is nothing.
pub fn read_effects(bytes: &[u8]) -> impl Iterator<Item = Result<(Bytes, Effect), Malformed>> {
    read_all(bytes)
}

/// Reads records that [`write_record`] wrote.
pub fn read_records(bytes: &[u8]) -> impl Iterator<Item = Result<(Bytes, Option<State>), Malformed>> {
    read_all(bytes)
}

fn read_all<'a, T: Deserialize<'a>>(mut bytes: &'a [u8]) -> impl Iterator<Item = Result<T, Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        match postcard::take_from_bytes(bytes) {
            Ok((item, rest)) => {
                bytes = rest;
                Some(Ok(item))
            }
            Err(error) => {
                bytes = &[];
                Some(Err(Malformed(error.to_string())))
            }
        }
    })
}
