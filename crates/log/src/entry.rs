//! What the log says: one entry for each transaction, and little else.

use crate::format::{put_bytes, put_number, take_bytes, take_number};

/// See the module's text. Effects are as a shard's journal wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A transaction is committed. Some of its effects took place with that; parts take place where the log says so (D4).
    Commit { done: &'a [u8], parts: Vec<Part<'a>> },
    /// A shard's part of the commit at this position took place here.
    Applied { commit: u64, shard: u32 },
    /// A record of this shard vanished by itself. Parts that have not taken place do nothing to it (D5).
    Vanished { shard: u32, key: &'a [u8] },
    /// Unique numbers below this count may have been given (D9).
    Unique { count: u64 },
    /// The store was opened as this life, when the log ended at this position (D13).
    Opened { life: u64, at: u64 },
}

/// What a transaction does at one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) shard: u32,
    pub(crate) effects: &'a [u8],
    /// Records that vanished after it had voted: it does nothing to them.
    pub(crate) vanished: Vec<&'a [u8]>,
}

const COMMIT: u8 = 1;
const APPLIED: u8 = 2;
const VANISHED: u8 = 3;
const UNIQUE: u8 = 4;
const OPENED: u8 = 5;

/// Adds a transaction that is committed.
pub(crate) fn put_commit<'a>(out: &mut Vec<u8>, done: &[u8], parts: impl ExactSizeIterator<Item = Part<'a>>) {
    out.push(COMMIT);
    put_bytes(out, done);
    put_number(out, parts.len() as u64);
    for Part { shard, effects, vanished } in parts {
        put_number(out, u64::from(shard));
        put_bytes(out, effects);
        put_number(out, vanished.len() as u64);
        vanished.into_iter().for_each(|key| put_bytes(out, key));
    }
}

/// Adds that a part took place.
pub(crate) fn put_applied(out: &mut Vec<u8>, commit: u64, shard: u32) {
    out.push(APPLIED);
    put_number(out, commit);
    put_number(out, u64::from(shard));
}

/// Adds that a record vanished by itself.
pub(crate) fn put_vanished(out: &mut Vec<u8>, shard: u32, key: &[u8]) {
    out.push(VANISHED);
    put_number(out, u64::from(shard));
    put_bytes(out, key);
}

/// Adds up to which count unique numbers may be given from now on.
pub(crate) fn put_unique(out: &mut Vec<u8>, count: u64) {
    out.push(UNIQUE);
    put_number(out, count);
}

/// Adds that the store was opened when the log ended there.
pub(crate) fn put_opened(out: &mut Vec<u8>, life: u64, at: u64) {
    out.push(OPENED);
    put_number(out, life);
    put_number(out, at);
}

/// Takes an entry off the front; `None` if there is none.
pub(crate) fn take_entry<'a>(bytes: &mut &'a [u8]) -> Option<Entry<'a>> {
    let (tag, rest) = bytes.split_first()?;
    *bytes = rest;
    match *tag {
        COMMIT => {
            let done = take_bytes(bytes)?;
            let mut parts = Vec::new();
            for _ in 0..take_number(bytes)? {
                parts.push(take_part(bytes)?);
            }
            Some(Entry::Commit { done, parts })
        }
        APPLIED => Some(Entry::Applied { commit: take_number(bytes)?, shard: take_shard(bytes)? }),
        VANISHED => Some(Entry::Vanished { shard: take_shard(bytes)?, key: take_bytes(bytes)? }),
        UNIQUE => Some(Entry::Unique { count: take_number(bytes)? }),
        OPENED => Some(Entry::Opened { life: take_number(bytes)?, at: take_number(bytes)? }),
        _ => None,
    }
}

fn take_part<'a>(bytes: &mut &'a [u8]) -> Option<Part<'a>> {
    let (shard, effects) = (take_shard(bytes)?, take_bytes(bytes)?);
    let mut vanished = Vec::new();
    for _ in 0..take_number(bytes)? {
        vanished.push(take_bytes(bytes)?);
    }
    Some(Part { shard, effects, vanished })
}

fn take_shard(bytes: &mut &[u8]) -> Option<u32> {
    take_number(bytes)?.try_into().ok()
}
