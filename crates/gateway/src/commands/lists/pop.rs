//! Taking several values, or one to another list.

use claret_types::{Bytes, End, ListOp, few};

use super::end;
use crate::answer::Answer;
use crate::commands::Answered;
use crate::commands::steps::{Steps, delete, list};
use crate::commands::words::{is, key_count, positive};
use crate::fault::Fault;

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

/// `LPOP` and `RPOP` with a count.
pub(super) async fn many(steps: Steps<'_>, key: &Bytes, at: End, count: &Bytes) -> Answered {
    let count = positive(count)?;
    if count == 0 {
        let length: i64 = steps.read(key, list(ListOp::Len)).await?;
        return Ok(if length == 0 { Answer::NilArray } else { Answer::Array(Vec::new()) });
    }
    let taken = take(steps, key, at, count).await?;
    if taken.is_empty() {
        return Ok(Answer::NilArray);
    }
    Ok(steps.work.over(taken.len(), || Answer::strings(taken)).await)
}

/// `LMOVE` and `RPOPLPUSH`.
pub(super) async fn to_another(
    steps: Steps<'_>,
    from: &Bytes,
    to: &Bytes,
    from_end: End,
    to_end: End,
) -> Answered {
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

/// `LMPOP`: of the first list that is there.
pub(super) async fn of_first(steps: Steps<'_>, count: &Bytes, words: &[Bytes]) -> Answered {
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
            let taken = steps.work.over(taken.len(), || Answer::strings(taken)).await;
            return Ok(Answer::Array(vec![Answer::Bulk(key.clone()), taken]));
        }
    }
    Ok(Answer::NilArray)
}
