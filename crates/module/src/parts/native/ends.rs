//! Ends of keys that votes are about (P71). From the vote until it is carried out the key must not end by its time: the server
//! would remove what a transaction that is committed already writes there. So its end is put off in the server, which replicas and
//! the append-only file do not hear of, and the end that the key has for transactions is noted here.
//!
//! A node that dies meanwhile leaves nothing behind but, in a snapshot that was made just then, a later end.

use std::collections::BTreeMap;

use claret_core::{Applied, HeldEnd};
use claret_types::{Bytes, Effect, Expiry, KeyspaceEffect};

use super::keyspace::{expire, put};
use super::{OpenKey, Record, Server, carry_out, keyspace};
use crate::parts::planted::records as planted;

/// What ends later than in so many milliseconds is not put off: votes are decided sooner. What is put off is so by as many. Of
/// an attempt that is in doubt for longer, effects on a key that ends come to nothing.
const HELD_MS: i64 = 600_000;

/// The keys whose ends are put off.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldEnds(BTreeMap<Bytes, Held>);

#[derive(Clone, Copy, Debug)]
struct Held {
    /// Of so many votes.
    holders: u32,
    /// When the key ends for transactions; `None`: no more.
    end: Option<Expiry>,
}

impl HeldEnds {
    /// When a key ends for transactions, if its end is put off.
    pub(crate) fn get(&self, key: &Bytes) -> Option<Option<Expiry>> {
        if self.0.is_empty() {
            return None; // Nearly always.
        }
        self.0.get(key).map(|held| held.end)
    }

    /// One more vote is about it. Whether others were.
    fn join(&mut self, key: &Bytes) -> bool {
        self.0.get_mut(key).map(|held| held.holders += 1).is_some()
    }

    /// One is over. With the last one: when the key ends.
    fn leave(&mut self, key: &Bytes) -> Option<Option<Expiry>> {
        let held = self.0.get_mut(key)?;
        held.holders -= 1;
        if held.holders > 0 {
            return None;
        }
        self.0.remove(key).map(|held| held.end)
    }
}

/// [`Records::hold_end`](claret_core::Records::hold_end).
pub(crate) fn hold_end(server: &impl Server, key: &Bytes) -> HeldEnd {
    if !planted::holds_ends() {
        return HeldEnd::Far;
    }
    if server.held_ends(|held| held.join(key)) {
        return HeldEnd::Held;
    }
    let (name, now) = (server.text(key), server.now_ms());
    let Some(end) = server.open(key, &name).map(|opened| opened.expires_at()) else {
        return if server.was_to_end(key) { HeldEnd::Over } else { HeldEnd::Far };
    };
    let Some(end) = end.filter(|end| *end <= now.saturating_add(HELD_MS)) else { return HeldEnd::Far };
    if !server.put_end_off(&name, end.max(now).saturating_add(HELD_MS)) {
        return HeldEnd::Over;
    }
    let end = u64::try_from(end).ok().and_then(Expiry::at_ms);
    server.held_ends(|held| held.0.insert(key.clone(), Held { holders: 1, end }));
    HeldEnd::Held
}

/// [`Records::let_end`](claret_core::Records::let_end).
pub(crate) fn let_end(server: &impl Server, key: &Bytes) -> Applied {
    let record = Record::new(server, key, "the end of a record");
    match server.held_ends(|held| held.leave(key)) {
        // A snapshot, or a replica that came just now, may have the later end: so all are told.
        Some(Some(end)) if record.open_any().is_some() => come_to_its_end(&record, planted::end_after(end)),
        Some(_) | None => Applied::Done,
    }
}

/// Carries effects out on a key whose end is put off.
pub(super) fn apply(record: &Record<'_, impl Server>, effects: &[&Effect], end: Option<Expiry>) -> Applied {
    let end = apply_within(record, effects, end);
    record.server.held_ends(|held| held.0.get_mut(record.key).map(|held| held.end = end));
    Applied::Done
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
    if i64::try_from(end.ms()).is_ok_and(|end| end <= record.server.now_ms()) {
        record.write(c"DEL", []);
        return Applied::Ended;
    }
    match expire(record, end, None) {
        true => Applied::Done,
        false => Applied::Ended,
    }
}
