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
    let named: &[Bytes] = match op {
        SetOp::Add(list) | SetOp::AddReturning(list) | SetOp::Remove(list) | SetOp::RemoveReturning(list) => {
            list
        }
        SetOp::Contains(member) => std::slice::from_ref(member),
        SetOp::Len => &[],
        SetOp::Members => return whole(record),
    };
    let Some(key) = record.open(Kind::Set)? else { return Ok(None) };
    let all = key.len();
    drop(key);
    let own = own.iter().filter_map(|effect| effect.downcast::<Set>());
    let touched = own.flat_map(|effect| effect.added().iter().chain(effect.removed()));
    let members: Vec<&Bytes> = named.iter().chain(touched).collect();
    let mut found: Vec<Bytes> = present(record, &members).into_iter().cloned().collect();
    found.sort_unstable();
    found.dedup();
    let elsewhere = all - found.len();
    Ok(Some(State::new::<Set>(SetState::excerpt(found, elsewhere))))
}

/// Those that are in.
fn present<'a>(record: &Record<'_>, members: &[&'a Bytes]) -> Vec<&'a Bytes> {
    if members.is_empty() {
        return Vec::new();
    }
    let answers = record.read(c"SMISMEMBER", members.iter().map(|member| &member[..])).items();
    let is_in = answers.into_iter().map(|answer| answer == Answer::Int(1));
    members.iter().zip(is_in).filter_map(|(member, is_in)| is_in.then_some(*member)).collect()
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
