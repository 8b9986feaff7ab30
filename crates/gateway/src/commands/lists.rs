//! Commands on lists.

mod change;
mod pop;
mod position;

use claret_types::{Bytes, End, ListOp};

use crate::answer::Answer;
use crate::commands::Answered;
use crate::commands::direct::{Direct, Directly, Shape};
use crate::commands::steps::{Steps, few_of, list};
use crate::commands::words::{arity, int, integer, is};
use crate::fault::Fault;

/// What this file carries out, beside what is direct.
pub(super) const NAMES: &[&str] = &[
    "LPUSHX",
    "RPUSHX",
    "LPOP",
    "RPOP",
    "LINDEX",
    "LSET",
    "LINSERT",
    "LREM",
    "LTRIM",
    "LPOS",
    "LMOVE",
    "RPOPLPUSH",
    "LMPOP",
];

pub(super) async fn run(steps: Steps<'_>, name: &str, words: &[Bytes]) -> Answered {
    match (name, words) {
        ("LPUSHX" | "RPUSHX", [key, values @ ..]) if !values.is_empty() => {
            // Whether there is one says what it answers, and so does how long it is.
            if steps.lock::<i64>(key, list(ListOp::Len)).await? == 0 {
                return Ok(Answer::Int(0));
            }
            Ok(Answer::Int(steps.read(key, list(ListOp::PushReturning(end_of(name), few_of(values)))).await?))
        }
        ("LPOP" | "RPOP", [key, count]) => pop::many(steps, key, end_of(name), count).await,
        // A place that is no number is no matter where there is no list.
        ("LINDEX", [key, index]) => match steps.read::<i64>(key, list(ListOp::Len)).await? {
            0 => Ok(Answer::Nil),
            _ => Ok(Answer::from(steps.tx.execute(key.clone(), list(ListOp::Index(int(index)?))).await?)),
        },
        ("LSET", [key, index, value]) => change::set(steps, key, index, value).await,
        ("LINSERT", [key, side, pivot, value]) => change::insert(steps, key, side, pivot, value).await,
        ("LREM", [key, count, value]) => change::remove(steps, key, count, value).await,
        ("LTRIM", [key, start, stop]) => change::trim(steps, key, int(start)?, int(stop)?).await,
        ("LPOS", [key, value, options @ ..]) => position::lpos(steps, key, value, options).await,
        ("LMOVE", [from, to, from_end, to_end]) => {
            let (from_end, to_end) = (end(from_end)?, end(to_end)?);
            pop::to_another(steps, from, to, from_end, to_end).await
        }
        ("RPOPLPUSH", [from, to]) => pop::to_another(steps, from, to, End::Back, End::Front).await,
        ("LMPOP", [count, rest @ ..]) => pop::of_first(steps, count, rest).await,
        _ => Err(arity(name)),
    }
}

/// Those that are operations known up front.
pub(super) fn direct(name: &str, words: &[Bytes]) -> Option<Directly> {
    Some(match (name, words) {
        ("LPUSH" | "RPUSH", [key, values @ ..]) if !values.is_empty() => {
            Direct::one(key, list(ListOp::PushReturning(end_of(name), few_of(values))), Shape::First)
        }
        ("LPOP" | "RPOP", [key]) => Direct::one(key, list(ListOp::Pop(end_of(name))), Shape::First),
        ("LLEN", [key]) => Direct::one(key, list(ListOp::Len), Shape::First),
        ("LRANGE", [key, start, stop]) => int(start).and_then(|start| {
            let stop = int(stop)?;
            Direct::one(key, list(ListOp::Range { start, stop }), Shape::First)
        }),
        ("LINDEX", [key, index]) => Direct::one(key, list(ListOp::Index(integer(index)?)), Shape::First),
        _ => return None,
    })
}

/// The end that a command's first letter says.
fn end_of(name: &str) -> End {
    if name.starts_with('L') { End::Front } else { End::Back }
}

/// The end that a word says.
fn end(word: &Bytes) -> Result<End, Fault> {
    match () {
        () if is(word, "LEFT") => Ok(End::Front),
        () if is(word, "RIGHT") => Ok(End::Back),
        () => Err(Fault::syntax()),
    }
}
