//! Taking members at an end of a sorted set, and choosing some by chance.

use claret_types::{Bytes, Pairs, Reply, ScoredSetOp};

use super::ALL;
use super::range::with_scores_of;
use crate::answer::Answer;
use crate::fault::Fault;
use crate::random::chosen;
use crate::steps::{Answered, Steps, scored};
use crate::words::{Words, int, is, key_count, positive};

/// Takes at most so many, the outermost first.
async fn take(steps: Steps<'_>, key: &Bytes, from_top: bool, count: i64) -> Result<Vec<(Bytes, f64)>, Fault> {
    let range = ScoredSetOp::Range { start: 0, stop: count - 1, reverse: from_top, scores: true };
    let Pairs(found) = steps.lock::<Pairs<Bytes, f64>>(key, scored(range)).await?;
    let count = found.len();
    if !found.is_empty() {
        let remove = move || {
            let members = found.iter().map(|(member, _)| member.clone()).collect();
            (scored(ScoredSetOp::Remove(members)), found)
        };
        let (op, found) = steps.runner.over(count, remove).await;
        steps.write(key, op)?;
        return Ok(found);
    }
    Ok(found)
}

/// `ZPOPMIN` and `ZPOPMAX`.
pub(crate) async fn zpop(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], count) = words.split()?;
    let from_top = words.name.ends_with("MAX");
    let count = match count {
        [] => None,
        [count] => Some(positive(count)?),
        _ => return Err(Fault::syntax()),
    };
    match count {
        // The count of a set says whether it is one.
        Some(0) => {
            let _: i64 = steps.read(key, scored(ScoredSetOp::Len)).await?;
            Ok(Answer::Array(Vec::new()))
        }
        Some(count) => with_scores_of(steps, take(steps, key, from_top, count).await?).await,
        None => {
            let found = take(steps, key, from_top, 1).await?.into_iter();
            let words = found.flat_map(|(member, score)| [Answer::Bulk(member), Answer::Double(score)]);
            Ok(Answer::Array(words.collect()))
        }
    }
}

/// `ZMPOP`: of the first sorted set that is there.
pub(crate) async fn zmpop(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([count], words) = words.split()?;
    let count = key_count(count, "ERR numkeys should be greater than 0")?;
    if count >= words.len() {
        return Err(Fault::syntax());
    }
    let (keys, rest) = words.split_at(count);
    let from_top = match () {
        () if is(&rest[0], "MIN") => false,
        () if is(&rest[0], "MAX") => true,
        () => return Err(Fault::syntax()),
    };
    let many = match &rest[1..] {
        [] => 1,
        [option, count] if is(option, "COUNT") => key_count(count, "ERR count should be greater than 0")?,
        _ => return Err(Fault::syntax()),
    };
    for key in keys {
        let found = take(steps, key, from_top, many as i64).await?;
        if !found.is_empty() {
            let count = found.len();
            let pair = |(member, score)| Answer::Array(vec![Answer::Bulk(member), Answer::Double(score)]);
            let pairs = move || found.into_iter().map(pair).collect();
            let members = steps.runner.over(count, pairs).await;
            return Ok(Answer::Array(vec![Answer::Bulk(key.clone()), Answer::Array(members)]));
        }
    }
    Ok(Answer::NilArray)
}

pub(crate) async fn zrandmember(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], options) = words.split()?;
    let without = ScoredSetOp::Range { start: 0, stop: -1, reverse: false, scores: false };
    let [count, rest @ ..] = options else {
        let members: Vec<Bytes> = steps.read(key, scored(without)).await?;
        return Ok(chosen(steps, 1, 1, members, Answer::Bulk).await?.pop().unwrap_or(Answer::Nil));
    };
    let count = match int(count)? {
        i64::MIN => {
            let (min, max) = (-i64::MAX, i64::MAX);
            return Err(Fault::Told(format!(
                "ERR value is out of range, value must between {min} and {max}"
            )));
        }
        count => count,
    };
    let scores = match rest {
        [] => false,
        [option] if is(option, "WITHSCORES") => true,
        _ => return Err(Fault::syntax()),
    };
    if scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Fault::told("ERR value is out of range"));
    }
    let all: Vec<Reply> = steps.read(key, scored(if scores { ALL } else { without })).await?;
    let width = if scores { 2 } else { 1 };
    let words = chosen(steps, count, width, all, Answer::from).await?;
    Ok(if scores { Answer::Pairs(words) } else { Answer::Array(words) })
}
