//! Scored sets and the best k of many: Redis sorted sets.

use claret_types::{
    Best, Bytes, Effect, OpError, Operation, Ranking, ScoredSet, ScoredSetEffect, State, TopK, TopKEffect,
};

use super::{Record, side_key};
use crate::ffi::{Kind, Text};

// --- scored set ---

pub(super) fn excerpt(
    record: &Record<'_>,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let _ = (op, own);
    whole(record)
}

pub(super) fn whole(record: &Record<'_>) -> Result<Option<State>, OpError> {
    if record.open(Kind::Zset)?.is_none() {
        return Ok(None);
    }
    let ranking: Ranking = range(record, "0", "-1").collect();
    Ok(Some(State::new::<ScoredSet>(ranking)))
}

/// Members by position, the lowest first.
fn range(record: &Record<'_>, start: &str, stop: &str) -> impl Iterator<Item = (Bytes, f64)> {
    let arguments = [start.as_bytes(), stop.as_bytes(), b"WITHSCORES"];
    let flat: Vec<Bytes> = record.read(c"ZRANGE", arguments).list().collect();
    let pair = |at: usize| {
        let score = flat.get(2 * at + 1)?.as_str()?.parse().ok()?;
        Some((flat[2 * at].clone(), score))
    };
    (0..flat.len() / 2).filter_map(pair).collect::<Vec<_>>().into_iter()
}

pub(super) fn apply(record: &Record<'_>, effect: &Effect) {
    match effect.downcast::<ScoredSet>().expect("a scored set's") {
        ScoredSetEffect::Shift(member, by) => record.write(c"ZINCRBY", [number(*by).as_bytes(), &member[..]]),
        ScoredSetEffect::Set(changes) => {
            let gone: Vec<&Bytes> =
                changes.iter().filter(|(_, score)| score.is_none()).map(|(member, _)| member).collect();
            let put: Vec<(String, &Bytes)> =
                changes.iter().filter_map(|(member, score)| Some((number((*score)?), member))).collect();
            if !gone.is_empty() {
                record.write(c"ZREM", gone.iter().map(|member| &member[..]));
            }
            if !put.is_empty() {
                record.write(c"ZADD", put.iter().flat_map(|(score, member)| [score.as_bytes(), &member[..]]));
            }
        }
    }
}

/// The shortest text that reads back as the same float.
fn number(score: f64) -> String {
    format!("{score:?}")
}

// --- topk ---

pub(super) fn excerpt_topk(
    record: &Record<'_>,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let _ = (op, own);
    whole_topk(record)
}

pub(super) fn whole_topk(record: &Record<'_>) -> Result<Option<State>, OpError> {
    if record.open(Kind::Zset)?.is_none() {
        return Ok(None);
    }
    let capacity = capacity(record)?;
    Ok(Some(State::new::<TopK>(Best::new(capacity, range(record, "0", "-1")))))
}

/// What the string beside it says. Without one the sorted set is somebody else's, and its members are not for TopK to
/// drop.
fn capacity(record: &Record<'_>) -> Result<u32, OpError> {
    let missing = || record.wrong("zset without a capacity beside it", "topk");
    let beside = record.ctx.open(&Text::new(&side_key(record.key))).ok_or_else(missing)?;
    if beside.kind() != Kind::String {
        return Err(missing());
    }
    let text = std::str::from_utf8(beside.string()).ok();
    text.and_then(|text| text.parse().ok())
        .filter(|capacity| (1..=65_535).contains(capacity))
        .ok_or_else(missing)
}

pub(super) fn apply_topk(record: &Record<'_>, effect: &Effect) {
    let TopKEffect::Offer { capacity: asked, score, member } = effect.downcast::<TopK>().expect("a topk's")
    else {
        unreachable!("a restore undoes in memory; nothing is undone here")
    };
    let held = record.open(Kind::Zset).ok().flatten();
    let own = held.as_ref().and_then(|key| key.score(&Text::new(member)));
    let present = held.is_some();
    drop(held);
    if !present {
        // The key may have been removed by itself, and the string beside it left.
        let beside = Bytes::from(side_key(record.key));
        Record { key: &beside, ..*record }.write(c"SET", [asked.to_string().as_bytes()]);
    }
    if own.is_some_and(|own| *score <= own) {
        return;
    }
    record.write(c"ZADD", [number(*score).as_bytes(), &member[..]]);
    let length = record.open(Kind::Zset).ok().flatten().map_or(0, |key| key.len());
    let kept = capacity(record).unwrap_or(*asked) as usize;
    if length > kept {
        record.write(c"ZREMRANGEBYRANK", [&b"0"[..], (length - kept - 1).to_string().as_bytes()]);
    }
}
