//! Lists: Redis lists.

use std::ops::Range;

use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Effect, End, List, ListEffect, ListOp, ListState, OpError, Operation, State};

use super::{OnServer, OpenKey, Record, Server};
use crate::ffi::Kind;

impl OnServer for List {
    const KIND: Option<Kind> = Some(Kind::List);

    fn partial_state(
        record: &Record<'_, impl Server>,
        op: &Operation,
        own: &[&Effect],
    ) -> Result<Option<State>, OpError> {
        Ok(Self::partial_state_for_all(record, &[op], own)?.0)
    }

    /// For calls one after the other: what all pops take, and what lies in the furthest reach of the others behind that.
    fn partial_state_for_all(
        record: &Record<'_, impl Server>,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        let Some(key) = record.open(Kind::List)? else { return Ok((None, ops.len())) };
        let length = key.len();
        drop(key);
        let ops = &ops[..ops.len().min(TOGETHER_MAX)];
        let (mut left, mut right) = taken(own);
        let (mut reach_left, mut reach_right) = (0, 0);
        for op in ops.iter().map(|op| op.downcast::<List>().expect("a list's")) {
            let reach = |position: i64| {
                (position as usize).saturating_add(1) - usize::from(is_planted(Bug::ReachTooShort))
            };
            match op {
                ListOp::Push(..) | ListOp::PushReturning(..) | ListOp::Len => {}
                ListOp::Pop(End::Front) => left += 1,
                ListOp::Pop(End::Back) => right += 1,
                ListOp::Index(index) if *index >= 0 => reach_left = reach(*index).max(reach_left),
                ListOp::Range { start: 0.., stop } if *stop >= 0 => reach_left = reach(*stop).max(reach_left),
                ListOp::Index(index) => reach_right = (index.unsigned_abs() as usize).max(reach_right),
                ListOp::Range { start, stop } if *start < 0 && *stop < 0 => {
                    reach_right = (start.unsigned_abs() as usize).max(reach_right);
                }
                ListOp::Range { .. } => reach_left = usize::MAX,
            }
        }
        let (left, right) = (left.saturating_add(reach_left), right.saturating_add(reach_right));
        if let Some(span) = span_of(ops[0].downcast::<List>(), length).filter(|_| own.is_empty())
            && span.len().saturating_mul(ops.len()) < left.saturating_add(right).min(length)
        {
            return Ok((Some(State::new::<List>(slice(record, span, length))), 1));
        }
        if left.saturating_add(right) >= length {
            return Ok((Self::whole(record)?, ops.len()));
        }
        let part = |start: i64, stop: i64| {
            let (start, stop) = (start.to_string(), stop.to_string());
            record.read(c"LRANGE", [start.as_bytes(), stop.as_bytes()]).list().collect::<Vec<Bytes>>()
        };
        let front = if left > 0 { part(0, left as i64 - 1) } else { Vec::new() };
        let back = if right > 0 { part(-(right as i64), -1) } else { Vec::new() };
        Ok((Some(State::new::<List>(ListState::partial(front, length - left - right, back))), ops.len()))
    }

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        if record.open(Kind::List)?.is_none() {
            return Ok(None);
        }
        let values = record.read(c"LRANGE", [&b"0"[..], b"-1"]).list().collect();
        Ok(Some(State::new::<List>(values)))
    }

    /// Pushes at one end that follow each other go together, and so do pops.
    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        let effects: Vec<_> = effects.iter().map(|it| it.downcast::<List>().expect("a list's")).collect();
        let alike = |one: &&ListEffect, next: &&ListEffect| match (one, next) {
            (ListEffect::Push(one, _), ListEffect::Push(next, _)) => one == next,
            (ListEffect::Take(one, _), ListEffect::Take(next, _)) => one == next,
            (ListEffect::Push(..), ListEffect::Take(..)) | (ListEffect::Take(..), ListEffect::Push(..)) => {
                false
            }
        };
        for effects in effects.chunk_by(alike) {
            let values = effects.iter().flat_map(|effect| match effect {
                ListEffect::Push(_, values) | ListEffect::Take(_, values) => values,
            });
            match effects[0] {
                ListEffect::Push(end, _) => {
                    let mut values: Vec<&[u8]> = values.map(|value| &value[..]).collect();
                    if is_planted(Bug::PushesTurned) {
                        values.reverse();
                    }
                    let command = if *end == End::Front { c"LPUSH" } else { c"RPUSH" };
                    record.write_all(command, 1, &values);
                }
                ListEffect::Take(end, _) => {
                    let command = if *end == End::Front { c"LPOP" } else { c"RPOP" };
                    let count = if is_planted(Bug::PopsOne) { 1 } else { values.count() };
                    record.write(command, [count.to_string().as_bytes()]);
                }
            }
        }
    }

    fn removes(effect: &ListEffect) -> usize {
        match effect {
            ListEffect::Take(_, values) => values.len(),
            ListEffect::Push(..) => 0,
        }
    }
}

/// So many operations are looked at for what they read: of very many, each would be looked at again for those before it.
const TOGETHER_MAX: usize = 32;

/// The positions that an operation reads, in a list of this length: none, if it asks for the length alone.
fn span_of(op: Option<&ListOp>, length: usize) -> Option<Range<usize>> {
    let (start, stop) = match op? {
        ListOp::Index(index) => (*index, *index),
        ListOp::Range { start, stop } => (*start, *stop),
        ListOp::Push(..) | ListOp::PushReturning(..) | ListOp::Len => return Some(0..0),
        ListOp::Pop(_) => return None,
    };
    let length = length as i64;
    let from_front = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(length - 1));
    Some(if start > stop { 0..0 } else { start as usize..stop as usize + 1 })
}

/// The values at these positions, as the server reads them.
fn slice(record: &Record<'_, impl Server>, span: Range<usize>, length: usize) -> ListState {
    if span.is_empty() {
        return ListState::slice(0, [], length);
    }
    let (start, stop) = (span.start.to_string(), (span.end - 1).to_string());
    let values = record.read(c"LRANGE", [start.as_bytes(), stop.as_bytes()]).list();
    ListState::slice(span.start, values, length - span.end)
}

/// How many values effects take from the left end and from the right.
fn taken(own: &[&Effect]) -> (usize, usize) {
    let mut ends = (0, 0);
    for effect in own.iter().filter_map(|effect| effect.downcast::<List>()) {
        match effect {
            ListEffect::Take(End::Front, values) => ends.0 += values.len(),
            ListEffect::Take(End::Back, values) => ends.1 += values.len(),
            ListEffect::Push(..) => {}
        }
    }
    ends
}
