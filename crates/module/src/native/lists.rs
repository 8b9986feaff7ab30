//! Lists: Redis lists.

use claret_types::{Effect, End, List, ListEffect, OpError, Operation, State};

use super::Record;
use crate::ffi::Kind;

pub(super) fn excerpt(
    record: &Record<'_>,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let _ = (op, own);
    whole(record)
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
