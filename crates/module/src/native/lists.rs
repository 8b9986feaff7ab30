//! Lists: Redis lists.

use claret_types::{Bytes, Effect, End, List, ListEffect, ListOp, ListState, OpError, Operation, State};

use super::Record;
use crate::ffi::Kind;

pub(super) fn excerpt(
    record: &Record<'_>,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let op = op.downcast::<List>().expect("a list's");
    let Some(key) = record.open(Kind::List)? else { return Ok(None) };
    let length = key.len();
    drop(key);
    let (mut left, mut right) = taken(own);
    match op {
        ListOp::Push(..) | ListOp::PushReturning(..) | ListOp::Len => {}
        ListOp::Pop(End::Front) => left += 1,
        ListOp::Pop(End::Back) => right += 1,
        ListOp::Index(index) if *index >= 0 => left = reach(left, *index),
        ListOp::Range { start: 0.., stop } if *stop >= 0 => left = reach(left, *stop),
        ListOp::Index(index) => right = right.saturating_add(index.unsigned_abs() as usize),
        ListOp::Range { start, stop } if *start < 0 && *stop < 0 => {
            right = right.saturating_add(start.unsigned_abs() as usize);
        }
        ListOp::Range { .. } => return whole(record),
    }
    if left.saturating_add(right) >= length {
        return whole(record);
    }
    let part = |start: i64, stop: i64| {
        let (start, stop) = (start.to_string(), stop.to_string());
        record.read(c"LRANGE", [start.as_bytes(), stop.as_bytes()]).list().collect::<Vec<Bytes>>()
    };
    let front = if left > 0 { part(0, left as i64 - 1) } else { Vec::new() };
    let back = if right > 0 { part(-(right as i64), -1) } else { Vec::new() };
    Ok(Some(State::new::<List>(ListState::excerpt(front, length - left - right, back))))
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

fn reach(taken: usize, position: i64) -> usize {
    taken.saturating_add(position as usize).saturating_add(1)
}

pub(super) fn whole(record: &Record<'_>) -> Result<Option<State>, OpError> {
    if record.open(Kind::List)?.is_none() {
        return Ok(None);
    }
    let values = record.read(c"LRANGE", [&b"0"[..], b"-1"]).list().collect();
    Ok(Some(State::new::<List>(values)))
}

pub(super) fn apply(record: &Record<'_>, effect: &Effect) {
    match effect.downcast::<List>().expect("a list's") {
        ListEffect::Push(end, values) => {
            let command = if *end == End::Front { c"LPUSH" } else { c"RPUSH" };
            record.write(command, values.iter().map(|value| &value[..]));
        }
        ListEffect::Take(end, values) => {
            let command = if *end == End::Front { c"LPOP" } else { c"RPOP" };
            record.write(command, [values.len().to_string().as_bytes()]);
        }
    }
}
