//! What is done to keys of any type: whether they are there, when they expire, their end.

use claret_planted::{Bug, is_planted};
use claret_types::{
    Bytes, CONTENT_BYTES_MAX, CONTENT_ELEMENTS_MAX, Dict, Effect, Expiry, KeyspaceEffect, KeyspaceOp, List,
    Native, OpError, Operation, Register, Set, State, Text, TopK, TypeInfo, check_digestible,
};

use super::{ELEMENT_BYTES, OnServer, OpenKey, Record, Server, removes, strings, whole, zsets};
use crate::ffi::Kind;

/// The partial state of an operation that is one on keys of any type, or whose transaction did such a thing to the key
/// before. `None`: what is known of the operation's own type will do, with the effects of that type.
pub(super) fn partial_state(
    record: &Record<'_, impl Server>,
    op: &Operation,
    own: &[&Effect],
) -> Option<Result<Option<State>, OpError>> {
    let replaces =
        |effect: &&Effect| matches!(effect.keyspace(), Some(KeyspaceEffect::Remove | KeyspaceEffect::Put(_)));
    let kept_until = own.iter().rposition(replaces);
    if op.keyspace().is_none() && kept_until.is_none() {
        return None;
    }
    // Of what is there, only this is seen: what was done to it before it was removed, or all that was done.
    let seen_by = &own[..kept_until.unwrap_or(own.len())];
    let first = seen_by.iter().find(|effect| effect.keyspace().is_none()).map(|effect| effect.type_info());
    let shown = op.keyspace().filter(|op| matches!(op, KeyspaceOp::Content | KeyspaceOp::Digest));
    Some(match first {
        _ if kept_until.is_none() && shown.is_some() => {
            content(record, shown == Some(&KeyspaceOp::Digest), first)
        }
        // What it writes over has to be a string, as what was done to it before shows.
        Some(kind) if matches!(op.keyspace(), Some(KeyspaceOp::SetUntil { .. })) => {
            whole_for_part(record, kind)
        }
        Some(kind) if kept_until.is_some() || may_be_emptied(record, seen_by) => whole_for_part(record, kind),
        Some(_) => Ok(there(record)),
        None => match op.keyspace() {
            Some(KeyspaceOp::SetUntil { .. }) if kept_until.is_none() => string(record),
            _ => Ok(there(record)),
        },
    })
}

/// The whole record, for an operation that answers less of it.
fn whole_for_part(record: &Record<'_, impl Server>, kind: &TypeInfo) -> Result<Option<State>, OpError> {
    record.check_whole(record.open_any())?;
    whole(record, kind)
}

/// That there is something, and when it expires.
fn there(record: &Record<'_, impl Server>) -> Option<State> {
    record.open_any().map(|_| State::opaque())
}

/// The same, of a key that has to be a string.
fn string(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
    Ok(record.open(Kind::String)?.map(|_| State::opaque()))
}

/// All that there is, unless that is more than can be moved, or than a digest is made of: as the type that the transaction has
/// used it as, or else as the Redis value that it is.
fn content(
    record: &Record<'_, impl Server>,
    is_digested: bool,
    used_as: Option<&'static TypeInfo>,
) -> Result<Option<State>, OpError> {
    let Some(key) = record.open_any() else { return Ok(None) };
    let (kind, length) = (key.kind(), key.len());
    drop(key);
    match (is_digested, kind) {
        (true, Kind::String) => check_digestible(1, length)?,
        (true, _) => {
            check_digestible(length, 0)?;
            // As far as that shows without reading it: what elements take besides is left out, and what an allocator rounds up.
            let bytes = record.server.memory(record.name()).saturating_sub(length * ELEMENT_BYTES);
            check_digestible(length, bytes / 5 * 4)?;
        }
        (false, _) => check_size(kind, length)?,
    }
    match (used_as, kind) {
        (Some(kind), _) => whole(record, kind),
        (None, Kind::String) => strings::whole(record),
        (None, Kind::Set) => Set::whole(record),
        (None, Kind::Hash) => Dict::whole(record),
        (None, Kind::List) => List::whole(record),
        (None, Kind::Zset) => zsets::whole_of_either(record, length),
        (None, Kind::Other) if is_digested => Ok(record.read(c"DUMP", []).bytes().map(State::of_foreign)),
        (None, Kind::Other) => Err(record.open_any().map_or_else(
            || record.wrong_type(kind.name(), "record of a built-in type"),
            |key| record.wrong_kind(key, "record of a built-in type"),
        )),
    }
}

/// Whether what has this length can be moved, as far as that shows without reading it.
fn check_size(kind: Kind, length: usize) -> Result<(), OpError> {
    let size_at_least = match kind {
        Kind::String => length,
        _ => length * (CONTENT_BYTES_MAX / CONTENT_ELEMENTS_MAX),
    };
    if size_at_least > CONTENT_BYTES_MAX {
        return Err(OpError::TooLarge {
            what: "record".into(),
            size: size_at_least,
            limit: CONTENT_BYTES_MAX,
        });
    }
    Ok(())
}

/// Whether the key may be gone after these effects. Only what is named can go.
fn may_be_emptied(record: &Record<'_, impl Server>, effects: &[&Effect]) -> bool {
    let named: usize = effects.iter().map(|effect| removes(effect)).sum();
    // One that is not there is as it is whole.
    record.open_any().is_none_or(|key| key.len() <= named) && !is_planted(Bug::EmptiedIsThere)
}

/// Carries effects out.
pub(super) fn apply(record: &Record<'_, impl Server>, effects: &[&Effect]) {
    for effect in effects {
        match effect.keyspace().expect("one on keys of any type") {
            KeyspaceEffect::Remove => record.write(c"DEL", []),
            // It is not over soon.
            KeyspaceEffect::ExpireAt(at) => {
                expire(record, *at, None);
            }
            KeyspaceEffect::Extend(at) => {
                // Only later.
                expire(record, *at, (!is_planted(Bug::ExpiryBroughtForward)).then_some(&b"GT"[..]));
            }
            KeyspaceEffect::Persist => record.write(c"PERSIST", []),
            KeyspaceEffect::Put(state) => put(record, state),
            KeyspaceEffect::Run(_) => unreachable!("commands are carried out by themselves"),
        }
    }
}

/// What ends later is not over while effects are carried out, in milliseconds.
const SOON_MS: i64 = 10_000;

/// Whether the time of the record may be over before all of these are carried out.
pub(super) fn may_end_it(effects: &[&Effect], now_ms: impl Fn() -> i64) -> bool {
    let ends = effects.iter().filter_map(|effect| match effect.keyspace()? {
        KeyspaceEffect::ExpireAt(at) | KeyspaceEffect::Extend(at) => Some(*at),
        KeyspaceEffect::Put(state) => state.expiry(),
        KeyspaceEffect::Remove | KeyspaceEffect::Persist | KeyspaceEffect::Run(_) => None,
    });
    ends.min().is_some_and(|at| is_soon(at, now_ms()))
}

fn is_soon(at: Expiry, now_ms: i64) -> bool {
    i64::try_from(at.ms()).is_ok_and(|at| at <= now_ms.saturating_add(SOON_MS))
}

/// Others may hold the key, whom that concerns: the end is noted. Whether the key is still there.
pub(super) fn expire(record: &Record<'_, impl Server>, at: Expiry, option: Option<&[u8]>) -> bool {
    let at = at.ms().to_string();
    record.write(c"PEXPIREAT", [at.as_bytes()].into_iter().chain(option));
    is_planted(Bug::ExpiryUnnoted) || record.server.expiry_changed(record.key, record.name())
}

/// Nobody else holds it.
pub(super) fn put(record: &Record<'_, impl Server>, state: &State) {
    if let Some(text) = state.downcast::<Register>().and_then(Text::to_bytes) {
        return match state.expiry() {
            Some(at) => record.write(c"SET", [&text[..], b"PXAT", at.ms().to_string().as_bytes()]),
            None => record.write(c"SET", [&text[..]]),
        };
    }
    if !is_planted(Bug::PutOnTop) {
        record.write(c"DEL", []);
    }
    if let Some(best) = state.downcast::<TopK>() {
        zsets::put_capacity(record, best.capacity());
    }
    match state.native().expect("a record of a type that the wire knows") {
        Native::String(text) => record.write(c"SET", text.as_deref()),
        Native::Set(members) => record.write_all(c"SADD", 1, &slices(&members)),
        Native::List(values) => record.write_all(c"RPUSH", 1, &slices(&values)),
        Native::Hash(fields) => {
            let words = fields.iter().flat_map(|(field, value)| [field, value]);
            record.write_all(c"HSET", 2, &slices(words));
        }
        Native::Zset(members) => zsets::put(record, &members),
    }
}

fn slices<'a>(words: impl IntoIterator<Item = &'a Bytes>) -> Vec<&'a [u8]> {
    words.into_iter().map(|word| &word[..]).collect()
}
