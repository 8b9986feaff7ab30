//! Ends of keys that votes are about (P71). From the vote until it is carried out the key must not end by its time: the server
//! would remove what a transaction that is committed already writes there. So its end is put off in the server, which replicas and
//! the append-only file do not hear of, and the end that the key has for transactions is noted here.
//!
//! A node that ends or dies meanwhile leaves no more behind than a later end: in its memory, which the next shard here brings back,
//! or in a snapshot that was made just then.

use claret_core::{Applied, HeldEnd};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Effect, Expiry, KeyspaceEffect};

use super::held_ends::Held;
use super::keyspace::{expire, put};
use super::{Record, Server, carry_out, keyspace, open};

/// What ends later than in so many milliseconds is not put off: votes are decided sooner. What is put off is so by as many. When
/// an attempt is in doubt for longer and nobody else votes about the end, the key ends, and its effects on it come to nothing.
const HELD_MS: i64 = 600_000;

/// [`Records::hold_end`](claret_core::Records::hold_end).
pub(crate) fn hold_end(server: &impl Server, key: &Bytes) -> HeldEnd {
    if is_planted(Bug::EndsPassVotes) {
        return HeldEnd::Free;
    }
    let (name, now) = (server.text(key), server.now_ms());
    let before = server.held_ends(|held| held.0.get(key).copied());
    let found = open(server, key, &name).map(|(_, end)| end);
    if let Some(before) = before {
        // The latest vote may be in doubt for as long as the first.
        let is_it = found.flatten() == Some(before.put_off);
        let put_off = Some(later(before.put_off, now)).filter(|at| is_it && server.set_end_here(&name, *at));
        let held = Held { holders: before.holders + 1, put_off: put_off.unwrap_or(before.put_off), ..before };
        server.held_ends(|all| all.0.insert(key.clone(), held));
        return HeldEnd::Held;
    }
    let Some(end) = found else {
        // It may as well have been removed since; then somebody runs once more than he has to.
        return if server.has_come_to_its_end(key) { HeldEnd::Over } else { HeldEnd::Free };
    };
    let Some(end) = end.filter(|end| *end <= now.saturating_add(HELD_MS)) else { return HeldEnd::Free };
    let put_off = later(end, now);
    if !server.set_end_here(&name, put_off) {
        return HeldEnd::Over;
    }
    let end = u64::try_from(end).ok().and_then(Expiry::at_ms);
    server.held_ends(|held| held.0.insert(key.clone(), Held { holders: 1, end, put_off }));
    HeldEnd::Held
}

/// To when an end is put off that is at this time.
pub(super) fn later(end: i64, now: i64) -> i64 {
    end.max(now + HELD_MS)
}

/// [`Records::let_end`](claret_core::Records::let_end).
pub(crate) fn let_end(server: &impl Server, key: &Bytes) -> Applied {
    let record = Record::new(server, key, "the end of a record");
    let Some(Held { end: Some(end), put_off, .. }) = server.held_ends(|held| held.leave(key)) else {
        return Applied::Done;
    };
    // It may be gone by itself, and another one be there.
    let is_it = open(server, key, record.name()).and_then(|(_, end)| end) == Some(put_off);
    if !(is_it || is_planted(Bug::HeldEndsOfOthers)) || i64::try_from(end.ms()) == Ok(put_off) {
        return Applied::Done;
    }
    let stays = is_planted(Bug::HeldEndsStay).then(|| Expiry::at_ms(end.ms() + 600_000)).flatten();
    let end = stays.unwrap_or(end);
    // Here whatever becomes of the write. And a snapshot, or a replica that came just now, may have the later end: all are told.
    if let Ok(end) = i64::try_from(end.ms()) {
        server.set_end_here(record.name(), end);
    }
    come_to_its_end(&record, end)
}

/// All votes are forgotten: keys that are there end by their time again.
pub(crate) fn let_all_end(server: &impl Server) {
    for (key, Held { end, put_off, .. }) in server.held_ends(|held| std::mem::take(&mut held.0)) {
        let name = server.text(&key);
        let is_it = open(server, &key, &name).and_then(|(_, end)| end) == Some(put_off);
        if let Some(end) = end.filter(|_| is_it).and_then(|end| i64::try_from(end.ms()).ok()) {
            server.set_end_here(&name, end);
        }
    }
}

/// Carries effects out on a key whose end is put off. Another end is written at once, for replicas and the append-only file, and
/// then put off again: others may hold it for long.
pub(super) fn apply(
    record: &Record<'_, impl Server>,
    effects: &[&Effect],
    before: Option<Expiry>,
) -> Applied {
    let (server, now) = (record.server, record.server.now_ms());
    let end = apply_within(record, effects, before);
    let mut put_off = None;
    if let Some(end) = end.filter(|_| effects.iter().any(|effect| effect.keyspace().is_some())) {
        if !is_over(end, now) && !is_planted(Bug::HeldEndsUnwritten) {
            expire(record, end, None);
        }
        let at = i64::try_from(end.ms()).map_or(i64::MAX, |end| later(end, now));
        put_off = Some(at).filter(|at| server.set_end_here(record.name(), *at));
    }
    server.held_ends(|all| {
        if let Some(held) = all.0.get_mut(record.key) {
            *held = Held { end, put_off: put_off.unwrap_or(held.put_off), ..*held };
        }
    });
    Applied::Done
}

fn is_over(end: Expiry, now: i64) -> bool {
    i64::try_from(end.ms()).is_ok_and(|end| end <= now)
}

/// Carries effects out, and only then lets the key end: if its time is over, it ends behind all of them.
pub(super) fn apply_and_end(record: &Record<'_, impl Server>, effects: &[&Effect]) -> Applied {
    let end = record.open_any().and_then(|_| record.expiry());
    match apply_within(record, effects, end) {
        Some(end) => come_to_its_end(record, end),
        None => Applied::Done,
    }
}

/// Carries effects out on a key as if it ended then by its time. When it ends after that; the server is not told.
fn apply_within(
    record: &Record<'_, impl Server>,
    effects: &[&Effect],
    mut end: Option<Expiry>,
) -> Option<Expiry> {
    for effect in effects {
        let is_there = || record.open_any().is_some();
        match effect.keyspace() {
            Some(KeyspaceEffect::ExpireAt(at)) => end = Some(*at).filter(|_| is_there()),
            Some(KeyspaceEffect::Extend(at)) => end = end.filter(|_| is_there()).map(|end| end.max(*at)),
            Some(KeyspaceEffect::Put(state)) => {
                end = state.expiry();
                put(record, &state.clone().expiring(None));
            }
            Some(KeyspaceEffect::Run(_)) => unreachable!("commands are carried out by themselves"),
            Some(KeyspaceEffect::Remove | KeyspaceEffect::Persist) => {
                end = None;
                keyspace::apply(record, &[*effect]);
            }
            None => {
                carry_out(record, &[*effect]);
                end = end.filter(|_| !effect.clears_expiry() && is_there());
            }
        }
    }
    end
}

/// A key that is there ends then, or now.
fn come_to_its_end(record: &Record<'_, impl Server>, end: Expiry) -> Applied {
    if is_over(end, record.server.now_ms()) {
        record.write(c"DEL", []);
        return Applied::Ended;
    }
    match expire(record, end, None) {
        true => Applied::Done,
        false => Applied::Ended,
    }
}
