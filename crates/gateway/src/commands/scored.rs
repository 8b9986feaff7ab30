//! Commands on sorted sets.

mod add;
mod combine;
mod pop;
mod range;

use claret_types::{Bytes, Pairs, ScoredSetOp};

use crate::answer::Answer;
use crate::commands::Answered;
use crate::commands::direct::{Direct, Directly, Shape};
use crate::commands::scan::{check_cursor, page};
use crate::commands::steps::{Steps, few_of, scored};
use crate::commands::words::{arity, is, score};
use crate::fault::Fault;

/// What this file carries out, beside what is direct.
pub(super) const NAMES: &[&str] = &[
    "ZADD",
    "ZLEXCOUNT",
    "ZRANGE",
    "ZRANGESTORE",
    "ZREVRANGE",
    "ZRANGEBYSCORE",
    "ZREVRANGEBYSCORE",
    "ZRANGEBYLEX",
    "ZREVRANGEBYLEX",
    "ZRANK",
    "ZREVRANK",
    "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE",
    "ZREMRANGEBYLEX",
    "ZPOPMIN",
    "ZPOPMAX",
    "ZMPOP",
    "ZRANDMEMBER",
    "ZUNION",
    "ZINTER",
    "ZDIFF",
    "ZUNIONSTORE",
    "ZINTERSTORE",
    "ZDIFFSTORE",
    "ZINTERCARD",
    "ZSCAN",
];

/// All members with their scores.
const ALL: ScoredSetOp = ScoredSetOp::Range { start: 0, stop: -1, reverse: false, scores: true };

pub(super) async fn run(steps: Steps<'_>, name: &str, words: &[Bytes]) -> Answered {
    match (name, words) {
        ("ZADD", [key, rest @ ..]) => add::zadd(steps, key, rest).await,
        ("ZLEXCOUNT", [key, min, max]) => range::zlexcount(steps, key, min, max).await,
        ("ZRANGESTORE", [target, source, range @ ..]) if range.len() >= 2 => {
            range::store(steps, target, source, range).await
        }
        ("ZREMRANGEBYRANK" | "ZREMRANGEBYSCORE" | "ZREMRANGEBYLEX", [key, range @ ..])
            if range.len() == 2 =>
        {
            range::remove(steps, name, key, range).await
        }
        ("ZRANK" | "ZREVRANK", [key, member, options @ ..]) => rank(steps, name, key, member, options).await,
        ("ZPOPMIN" | "ZPOPMAX", [key, count @ ..]) => pop::zpop(steps, key, name == "ZPOPMAX", count).await,
        ("ZMPOP", [count, rest @ ..]) => pop::zmpop(steps, count, rest).await,
        ("ZRANDMEMBER", [key, options @ ..]) => pop::zrandmember(steps, key, options).await,
        ("ZUNION" | "ZINTER" | "ZDIFF" | "ZINTERCARD", [_, ..]) => combine::answer(steps, name, words).await,
        ("ZUNIONSTORE" | "ZINTERSTORE" | "ZDIFFSTORE", [target, rest @ ..]) if !rest.is_empty() => {
            combine::store(steps, name, target, rest).await
        }
        ("ZSCAN", [key, cursor, options @ ..]) => {
            check_cursor(cursor)?;
            let Pairs(all) = steps.read::<Pairs<Bytes, f64>>(key, scored(ALL)).await?;
            let scored = |(member, score)| (member, Some(Answer::Score(score)));
            page(steps, name, all, scored, options).await
        }
        (_, [key, rest @ ..]) if rest.len() >= 2 && range::RANGES.contains(&name) => {
            range::answer(steps, name, key, rest).await
        }
        _ => Err(arity(name)),
    }
}

/// Those that are operations known up front.
pub(super) fn direct(name: &str, words: &[Bytes]) -> Option<Directly> {
    let one = |key: &Bytes, op: ScoredSetOp| Direct::one(key, scored(op), Shape::First);
    Some(match (name, words) {
        ("ZADD", [key, rest @ ..]) => add::direct(key, rest)?,
        ("ZREM", [key, members @ ..]) if !members.is_empty() => {
            one(key, ScoredSetOp::RemoveReturning(few_of(members)))
        }
        ("ZINCRBY", [key, by, member]) => score(by).and_then(|by| {
            let member = member.clone();
            one(key, ScoredSetOp::IncrementReturning { by, member })
        }),
        ("ZSCORE", [key, member]) => one(key, ScoredSetOp::Score(member.clone())),
        ("ZMSCORE", [key, members @ ..]) if !members.is_empty() => {
            let ops = members.iter().map(|member| scored(ScoredSetOp::Score(member.clone())));
            Ok(Direct::chain(key, ops.collect(), Shape::Each))
        }
        ("ZCARD", [key]) => one(key, ScoredSetOp::Len),
        ("ZRANK", [key, member]) => one(key, ScoredSetOp::Rank(member.clone())),
        ("ZCOUNT", [key, min, max]) => {
            range::scores(min, max).and_then(|(min, max)| one(key, ScoredSetOp::Count { min, max }))
        }
        (_, [key, rest @ ..]) if rest.len() >= 2 && range::RANGES.contains(&name) => {
            range::direct(name, key, rest)?
        }
        _ => return None,
    })
}

/// `ZRANK`, from the highest as `ZREVRANK`, with the score beside it.
async fn rank(steps: Steps<'_>, name: &str, key: &Bytes, member: &Bytes, options: &[Bytes]) -> Answered {
    let with_score = match options {
        [] => false,
        [option] if is(option, "WITHSCORE") => true,
        [_] => return Err(Fault::syntax()),
        _ => return Err(arity(name)),
    };
    let place: Option<usize> = steps.read(key, scored(ScoredSetOp::Rank(member.clone()))).await?;
    let Some(mut place) = place else { return Ok(if with_score { Answer::NilArray } else { Answer::Nil }) };
    if name == "ZREVRANK" {
        let count: usize = steps.read(key, scored(ScoredSetOp::Len)).await?;
        place = count - 1 - place;
    }
    if !with_score {
        return Ok(Answer::count(place));
    }
    let score: f64 = steps.read(key, scored(ScoredSetOp::Score(member.clone()))).await?;
    Ok(Answer::Array(vec![Answer::count(place), Answer::Double(score)]))
}
