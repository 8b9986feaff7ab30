//! Sets: Redis sets.

use claret_types::{Bytes, Effect, OpError, Operation, Set, SetOp, SetState, State};

use super::Record;
use crate::ffi::{Answer, Kind};

pub(super) fn excerpt(
    record: &Record<'_>,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let op = op.downcast::<Set>().expect("a set's");
    if matches!(op, SetOp::Members) {
        return whole(record);
    }
    let Some(all) = record.open(Kind::Set)?.map(|key| key.len()) else { return Ok(None) };
    let found = match op {
        // Nobody hears what was in, and looking would cost as much as the change: it claims more than it may need.
        SetOp::Add(_) => Vec::new(),
        SetOp::Remove(list) => list.to_vec(),
        SetOp::AddReturning(list) | SetOp::RemoveReturning(list) => present(record, list, own),
        SetOp::Contains(member) => present(record, std::slice::from_ref(member), own),
        SetOp::Len | SetOp::Members => present(record, &[], own),
    };
    let elsewhere = all.saturating_sub(found.len());
    Ok(Some(State::new::<Set>(SetState::excerpt(found, elsewhere))))
}

/// Of the members that the operation and its owner's effects name, those that are in.
fn present(record: &Record<'_>, named: &[Bytes], own: &[&Effect]) -> Vec<Bytes> {
    let own = own.iter().filter_map(|effect| effect.downcast::<Set>());
    let touched = own.flat_map(|effect| effect.added().iter().chain(effect.removed()));
    let mut members: Vec<&Bytes> = named.iter().chain(touched).collect();
    if members.is_empty() {
        return Vec::new();
    }
    members.sort_unstable();
    members.dedup();
    let answers = record.read(c"SMISMEMBER", members.iter().map(|member| &member[..])).items();
    let is_in = answers.into_iter().map(|answer| answer == Answer::Int(1));
    members.into_iter().zip(is_in).filter(|(_, is_in)| *is_in).map(|(member, _)| member.clone()).collect()
}

pub(super) fn whole(record: &Record<'_>) -> Result<Option<State>, OpError> {
    if record.open(Kind::Set)?.is_none() {
        return Ok(None);
    }
    let members = record.read(c"SMEMBERS", []).list();
    Ok(Some(State::new::<Set>(SetState::excerpt(members, 0))))
}

pub(super) fn apply(record: &Record<'_>, effect: &Effect) {
    let effect = effect.downcast::<Set>().expect("a set's");
    if !effect.removed().is_empty() {
        record.write(c"SREM", effect.removed().iter().map(|member| &member[..]));
    }
    if !effect.added().is_empty() {
        record.write(c"SADD", effect.added().iter().map(|member| &member[..]));
    }
}
