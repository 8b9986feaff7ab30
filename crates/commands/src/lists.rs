//! Commands on lists.

pub(crate) mod change;
pub(crate) mod pop;
pub(crate) mod position;

use claret_types::{Bytes, End, ListOp};

use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::steps::{Answered, Steps, few_of, list};
use crate::words::{Words, int, integer, is};

/// `LPUSH` and `RPUSH`.
pub(crate) fn push(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], values) = words.split_before(1)?;
    Ok(Calls::one(key, list(ListOp::PushReturning(end_of(words.name), few_of(values))), Shape::First))
}

/// `LPUSHX` and `RPUSHX`.
pub(crate) async fn push_if_there(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], values) = words.split_before(1)?;
    // Whether there is one says what it answers, and so does how long it is.
    if steps.lock::<i64>(key, list(ListOp::Len)).await? == 0 {
        return Ok(Answer::Int(0));
    }
    let push = list(ListOp::PushReturning(end_of(words.name), few_of(values)));
    Ok(Answer::Int(steps.read(key, push).await?))
}

pub(crate) fn llen(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, list(ListOp::Len), Shape::First))
}

pub(crate) fn lrange(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, start, stop] = words.exactly()?;
    let (start, stop) = (int(start)?, int(stop)?);
    Ok(Calls::one(key, list(ListOp::Range { start, stop }), Shape::First))
}

/// `LINDEX` in a place that is a number.
pub(crate) fn element(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let [key, index] = words.exactly().ok()?;
    Some(Ok(Calls::one(key, list(ListOp::Index(integer(index)?)), Shape::First)))
}

/// `LINDEX`: a place that is no number is no matter where there is no list.
pub(crate) async fn element_if_there(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, index] = words.exactly()?;
    match steps.read::<i64>(key, list(ListOp::Len)).await? {
        0 => Ok(Answer::Nil),
        _ => Ok(Answer::from(steps.tx.execute(key.clone(), list(ListOp::Index(int(index)?))).await?)),
    }
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
