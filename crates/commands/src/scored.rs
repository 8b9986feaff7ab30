//! Commands on sorted sets.

pub(crate) mod add;
pub(crate) mod combine;
pub(crate) mod pop;
pub(crate) mod range;

use claret_types::{Bytes, Pairs, ScoredSetOp};

use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::scan::{check_cursor, page};
use crate::steps::{Answered, Steps, few_of, scored};
use crate::words::{Words, is, score};

/// All members with their scores.
const ALL: ScoredSetOp = ScoredSetOp::Range { start: 0, stop: -1, reverse: false, scores: true };

pub(crate) fn zrem(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], members) = words.split_before(1)?;
    Ok(Calls::one(key, scored(ScoredSetOp::RemoveReturning(few_of(members))), Shape::First))
}

pub(crate) fn zincrby(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, by, member] = words.exactly()?;
    let op = ScoredSetOp::IncrementReturning { by: score(by)?, member: member.clone() };
    Ok(Calls::one(key, scored(op), Shape::First))
}

pub(crate) fn zscore(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, member] = words.exactly()?;
    Ok(Calls::one(key, scored(ScoredSetOp::Score(member.clone())), Shape::First))
}

pub(crate) fn zmscore(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], members) = words.split_before(1)?;
    let ops = members.iter().map(|member| scored(ScoredSetOp::Score(member.clone())));
    Ok(Calls::chain(key, ops.collect(), Shape::Each))
}

pub(crate) fn zcard(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, scored(ScoredSetOp::Len), Shape::First))
}

pub(crate) async fn zscan(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, cursor], options) = words.split()?;
    check_cursor(cursor)?;
    let Pairs(all) = steps.read::<Pairs<Bytes, f64>>(key, scored(ALL)).await?;
    let scored = |(member, score)| (member, Some(Answer::Score(score)));
    page(steps, words.name, all, scored, options).await
}

/// `ZRANK` without options.
pub(crate) fn place(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let [key, member] = words.exactly().ok()?;
    Some(Ok(Calls::one(key, scored(ScoredSetOp::Rank(member.clone())), Shape::First)))
}

/// `ZRANK`, from the highest as `ZREVRANK`, with the score beside it.
pub(crate) async fn rank(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, member], options) = words.split()?;
    let with_score = match options {
        [] => false,
        [option] if is(option, "WITHSCORE") => true,
        [_] => return Err(Fault::syntax()),
        _ => return Err(words.wrong_number()),
    };
    let place: Option<usize> = steps.read(key, scored(ScoredSetOp::Rank(member.clone()))).await?;
    let Some(mut place) = place else { return Ok(if with_score { Answer::NilArray } else { Answer::Nil }) };
    if words.name == "ZREVRANK" {
        let count: usize = steps.read(key, scored(ScoredSetOp::Len)).await?;
        place = count - 1 - place;
    }
    if !with_score {
        return Ok(Answer::count(place));
    }
    let score: f64 = steps.read(key, scored(ScoredSetOp::Score(member.clone()))).await?;
    Ok(Answer::Array(vec![Answer::count(place), Answer::Double(score)]))
}
