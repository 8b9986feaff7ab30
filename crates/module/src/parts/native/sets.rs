//! Sets: Redis sets.

use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Effect, OpError, Operation, Set, SetEffect, SetOp, SetState, State};

use super::{OnServer, OpenKey, Record, Server};
use crate::ffi::{Answer, Kind};

impl OnServer for Set {
    const KIND: Option<Kind> = Some(Kind::Set);

    fn partial_state(
        record: &Record<'_, impl Server>,
        op: &Operation,
        own: &[&Effect],
    ) -> Result<Option<State>, OpError> {
        let op = op.downcast::<Set>().expect("a set's");
        if matches!(op, SetOp::Members) {
            return Self::whole(record);
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
        let elsewhere = if is_planted(Bug::OthersUncounted) { 0 } else { all.saturating_sub(found.len()) };
        Ok(Some(State::new::<Set>(SetState::partial(found, elsewhere))))
    }

    /// For calls one after the other: what is in of all that they name.
    fn partial_state_for_all(
        record: &Record<'_, impl Server>,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        let ops: Vec<&SetOp> = ops.iter().map(|op| op.downcast::<Set>().expect("a set's")).collect();
        if ops.iter().any(|op| matches!(op, SetOp::Members)) {
            return Ok((Self::whole(record)?, ops.len()));
        }
        let Some(all) = record.open(Kind::Set)?.map(|key| key.len()) else { return Ok((None, ops.len())) };
        let only_adds = ops.iter().all(|op| matches!(op, SetOp::Add(_)));
        let named = |op: &SetOp| match op {
            SetOp::Add(list)
            | SetOp::Remove(list)
            | SetOp::AddReturning(list)
            | SetOp::RemoveReturning(list) => list.to_vec(),
            SetOp::Contains(member) => vec![member.clone()],
            SetOp::Len | SetOp::Members => Vec::new(),
        };
        let found = match only_adds {
            true => Vec::new(),
            false => present(record, &ops.iter().flat_map(|op| named(op)).collect::<Vec<_>>(), own),
        };
        let elsewhere = if is_planted(Bug::OthersUncounted) { 0 } else { all.saturating_sub(found.len()) };
        Ok((Some(State::new::<Set>(SetState::partial(found, elsewhere))), ops.len()))
    }

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        if record.open(Kind::Set)?.is_none() {
            return Ok(None);
        }
        let members = record.read(c"SMEMBERS", []).list();
        Ok(Some(State::new::<Set>(SetState::partial(members, 0))))
    }

    /// Effects that only add, or only remove, go together.
    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        if let [effect] = effects {
            let effect = effect.downcast::<Set>().expect("a set's");
            record.write_members(c"SREM", effect.removed());
            record.write_members(c"SADD", effect.added());
            return;
        }
        let effects: Vec<_> = effects.iter().map(|it| it.downcast::<Set>().expect("a set's")).collect();
        let alike = |one: &&SetEffect, next: &&SetEffect| {
            let (adds, removes) =
                (|it: &SetEffect| !it.added().is_empty(), |it: &SetEffect| !it.removed().is_empty());
            adds(one) == adds(next) && removes(one) == removes(next) && adds(one) != removes(one)
        };
        for effects in effects.chunk_by(alike) {
            let removed: Vec<&[u8]> = effects.iter().flat_map(|it| it.removed()).map(|it| &it[..]).collect();
            let added: Vec<&[u8]> = effects.iter().flat_map(|it| it.added()).map(|it| &it[..]).collect();
            record.write_all(c"SREM", 1, &removed);
            record.write_all(c"SADD", 1, &added);
        }
    }

    fn removes(effect: &SetEffect) -> usize {
        effect.removed().len()
    }
}

/// Of the members that the operation and its owner's effects name, those that are in.
fn present(record: &Record<'_, impl Server>, named: &[Bytes], own: &[&Effect]) -> Vec<Bytes> {
    let own = own.iter().filter_map(|effect| effect.downcast::<Set>());
    let touched = own.flat_map(|effect| effect.added().iter().chain(effect.removed()));
    let touched = touched.filter(|_| !is_planted(Bug::OwnUnseen));
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
