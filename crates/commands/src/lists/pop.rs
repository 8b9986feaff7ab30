//! Taking several values, or one to another list.

use claret_types::{Bytes, End, ListOp, few};

use super::{end, end_of};
use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::steps::{Answered, Steps, delete, list};
use crate::words::{Words, is, key_count, positive};

/// Takes at most so many at an end, the outermost first.
async fn take(steps: Steps<'_>, key: &Bytes, at: End, count: i64) -> Result<Vec<Bytes>, Fault> {
    let range = match at {
        End::Front => ListOp::Range { start: 0, stop: count - 1 },
        End::Back => ListOp::Range { start: -count, stop: -1 },
    };
    let mut taken: Vec<Bytes> = steps.lock(key, list(range)).await?;
    let length: i64 = steps.read(key, list(ListOp::Len)).await?;
    if length > 0 && length == taken.len() as i64 {
        steps.write(key, delete())?;
    } else {
        steps.write_times(key, &list(ListOp::Pop(at)), taken.len()).await?;
    }
    if at == End::Back {
        taken.reverse();
    }
    Ok(taken)
}

/// `LPOP` and `RPOP` of one value.
pub(crate) fn one(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let [key] = words.exactly().ok()?;
    Some(Ok(Calls::one(key, list(ListOp::Pop(end_of(words.name))), Shape::First)))
}

/// `LPOP` and `RPOP` with a count.
pub(crate) async fn many(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, count] = words.exactly()?;
    let (at, count) = (end_of(words.name), positive(count)?);
    if count == 0 {
        let length: i64 = steps.read(key, list(ListOp::Len)).await?;
        return Ok(if length == 0 { Answer::NilArray } else { Answer::Array(Vec::new()) });
    }
    let taken = take(steps, key, at, count).await?;
    if taken.is_empty() {
        return Ok(Answer::NilArray);
    }
    Ok(steps.runner.over(taken.len(), || Answer::strings(taken)).await)
}

pub(crate) async fn lmove(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [from, to, from_end, to_end] = words.exactly()?;
    let (from_end, to_end) = (end(from_end)?, end(to_end)?);
    to_another(steps, from, to, from_end, to_end).await
}

pub(crate) async fn rpoplpush(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [from, to] = words.exactly()?;
    to_another(steps, from, to, End::Back, End::Front).await
}

async fn to_another(steps: Steps<'_>, from: &Bytes, to: &Bytes, from_end: End, to_end: End) -> Answered {
    if from == to {
        return around(steps, from, from_end, to_end).await;
    }
    let taken: Option<Bytes> = steps.read(from, list(ListOp::Pop(from_end))).await?;
    let Some(value) = taken else { return Ok(Answer::Nil) };
    steps.write(to, list(ListOp::Push(to_end, few([value.clone()]))))?;
    Ok(Answer::Bulk(value))
}

/// Within one list. The last value stays where it is: without it there would be no list for a moment, and no expiry after that.
async fn around(steps: Steps<'_>, key: &Bytes, from_end: End, to_end: End) -> Answered {
    let at = if from_end == End::Front { 0 } else { -1 };
    let value: Option<Bytes> = steps.lock(key, list(ListOp::Index(at))).await?;
    let Some(value) = value else { return Ok(Answer::Nil) };
    if from_end != to_end && steps.read::<i64>(key, list(ListOp::Len)).await? > 1 {
        steps.write(key, list(ListOp::Pop(from_end)))?;
        steps.write(key, list(ListOp::Push(to_end, few([value.clone()]))))?;
    }
    Ok(Answer::Bulk(value))
}

/// Of the first list that is there.
pub(crate) async fn lmpop(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([count], words) = words.split()?;
    let count = key_count(count, "ERR numkeys should be greater than 0")?;
    if count >= words.len() {
        return Err(Fault::syntax());
    }
    let (keys, rest) = words.split_at(count);
    let at = end(&rest[0])?;
    let many = match &rest[1..] {
        [] => 1,
        [option, count] if is(option, "COUNT") => key_count(count, "ERR count should be greater than 0")?,
        _ => return Err(Fault::syntax()),
    };
    for key in keys {
        let taken = take(steps, key, at, many as i64).await?;
        if !taken.is_empty() {
            let taken = steps.runner.over(taken.len(), || Answer::strings(taken)).await;
            return Ok(Answer::Array(vec![Answer::Bulk(key.clone()), taken]));
        }
    }
    Ok(Answer::NilArray)
}
