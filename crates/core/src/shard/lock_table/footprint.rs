//! What calls may claim of their records, whatever the state, and what one claims along for those behind it (P48).

use claret_types::{Claims, Mode, Modes};
use smallvec::SmallVec;

use crate::message::Call;
use crate::switches::Switches;

/// What a call may claim, whatever the state. On a record that expires what may empty it claims it alone: a waiter that
/// queued for less would be passed by those that do not conflict with the less, for ever.
pub(super) fn footprint(switches: &Switches, call: &Call, expires: bool) -> Claims {
    let own = match switches.discipline().is_abstract() {
        true if expires => call.op.footprint_with_expiry(),
        true => call.op.footprint(),
        false => call.op.reader_writer(),
    };
    match &call.reserve {
        Some(reserve) => union(own, reserve),
        None => own,
    }
}

pub(super) fn union(mut claims: Claims, more: &Claims) -> Claims {
    for claim in &more.list {
        claims.push(claim.scope, claim.mode);
    }
    claims
}

/// Calls on one record that are all known: where two of them conflict, the first takes along what all claim (P48).
/// Many, or large ones, are left as they are: comparing them would take longer than giving way.
pub(super) fn reserve_for_all(switches: &Switches, calls: &mut [Call]) {
    const CALLS_MAX: usize = 8;
    const CLAIMS_MAX: usize = 64;
    if calls.len() < 2 || calls.len() > CALLS_MAX {
        return;
    }
    let Some(modes) = common_modes(calls) else {
        calls[0].reserve = Some(Box::new(Claims::record(Mode::EXCLUSIVE)));
        return;
    };
    let mut footprints: SmallVec<[Claims; 4]> = SmallVec::new();
    for call in calls.iter() {
        let mut claims = footprint(switches, call, false);
        if claims.list.len() > CLAIMS_MAX {
            return;
        }
        if call.op.keyspace().is_some() {
            // What it claims where there is no record: mostly there is one, or an earlier call makes it.
            claims.list.retain(|claim| claim.mode != Mode::SHARED);
        }
        footprints.push(claims);
    }
    let conflicts = |(at, one): (usize, &Claims)| {
        footprints[at + 1..].iter().any(|other| one.conflict_with(other, modes))
    };
    if !footprints.iter().enumerate().any(conflicts) {
        return;
    }
    let first = &mut calls[0];
    if first.op.type_info().is_of_any() {
        // It has not the modes of the others.
        first.reserve = Some(Box::new(Claims::record(Mode::EXCLUSIVE)));
        return;
    }
    let reserve = first.reserve.get_or_insert_default();
    for claims in &footprints[1..] {
        claims.list.iter().for_each(|claim| reserve.push(claim.scope, claim.mode));
    }
}

/// The modes by which claims of all these calls, on one record, are held against each other.
fn common_modes(calls: &[Call]) -> Option<&Modes> {
    let mut kinds = calls.iter().map(|call| call.op.type_info());
    let first = kinds.next()?;
    let kind = kinds.try_fold(first, |kind, next| {
        let is_next = kind.is_of_any();
        kind.common_modes(next).map(|_| if is_next { next } else { kind })
    })?;
    Some(&kind.modes)
}
