//! Scored sets and the best k of many: Redis sorted sets.

use std::collections::BTreeMap;
use std::fmt::Display;

use claret_planted::{Bug, is_planted};
use claret_types::{
    Best, Bytes, Effect, OpError, Operation, Ranking, ScoreBound, ScoredSet, ScoredSetEffect, ScoredSetOp,
    State, TopK, TopKEffect, TopKOp,
};

use super::{OnServer, OpenKey, Record, Server, Upcoming, side_key};
use crate::ffi::{Answer, Kind, Side};
use crate::parts::equivalent::Equivalent;

// --- scored set ---

impl OnServer for ScoredSet {
    const KIND: Option<Kind> = Some(Kind::Zset);

    fn partial_state(
        record: &Record<'_, impl Server>,
        op: &Operation,
        own: &[&Effect],
    ) -> Result<Option<State>, OpError> {
        let op = op.downcast::<ScoredSet>().expect("a scored set's");
        let moved = matches!(op, ScoredSetOp::Range { .. } | ScoredSetOp::Rank(_)) && !own.is_empty();
        if moved {
            return whole_for_part(record);
        }
        let Some(key) = record.open(Kind::Zset)? else { return Ok(None) };
        let length = key.len();
        let mut counted = 0;
        let mut members = Scores::of(
            record,
            &key,
            named(op).into_iter().chain(own.iter().flat_map(|effect| touched(effect))),
        );
        drop(key);
        let mut below = 0;
        match op {
            ScoredSetOp::Range { start, stop, reverse, .. } => {
                let positions = span(*start, *stop, length);
                below = if *reverse { length - positions.end } else { positions.start };
                members.extend(range(record, start, stop, *reverse));
            }
            ScoredSetOp::RangeByScore { min, max, .. } => members.extend(between(record, *min, *max)),
            ScoredSetOp::Count { min, max } => {
                let here = members.0.values().filter(|score| is_between(**score, *min, *max)).count();
                counted = count(record, *min, *max).saturating_sub(here);
            }
            ScoredSetOp::Rank(member) => {
                let rank = record.read(c"ZRANK", [&member[..]]).int();
                below = if is_planted(Bug::RanksFromZero) {
                    0
                } else {
                    rank.and_then(|rank| usize::try_from(rank).ok()).unwrap_or(0)
                };
            }
            _ => {}
        }
        let elsewhere = length - members.0.len();
        let ranking = Ranking::partial(members.0, below.min(elsewhere), elsewhere);
        Ok(Some(State::new::<ScoredSet>(ranking.counting(counted.min(elsewhere)))))
    }

    /// For calls one after the other: those of the first few that name members, or only want to know how many there are.
    fn partial_state_for_all(
        record: &Record<'_, impl Server>,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        let names = |op: &&ScoredSetOp| match op {
            ScoredSetOp::Add(_)
            | ScoredSetOp::AddReturning(_)
            | ScoredSetOp::Remove(_)
            | ScoredSetOp::RemoveReturning(_)
            | ScoredSetOp::Increment { .. }
            | ScoredSetOp::IncrementReturning { .. }
            | ScoredSetOp::Score(_)
            | ScoredSetOp::Len => true,
            ScoredSetOp::Rank(_)
            | ScoredSetOp::Range { .. }
            | ScoredSetOp::RangeByScore { .. }
            | ScoredSetOp::Count { .. } => false,
        };
        let all = ops.iter().map(|op| op.downcast::<ScoredSet>().expect("a scored set's"));
        let naming: Vec<&ScoredSetOp> = all.take_while(names).collect();
        if naming.len() < 2 {
            let moved = matches!(
                ops[0].downcast::<ScoredSet>(),
                Some(ScoredSetOp::Range { .. } | ScoredSetOp::Rank(_)) if !own.is_empty()
            );
            return match moved || is_whole_cheaper(record, ops, own)? {
                true => Ok((whole_for_part(record)?, ops.len())),
                false => Ok((Self::partial_state(record, ops[0], own)?, 1)),
            };
        }
        let Some(key) = record.open(Kind::Zset)? else { return Ok((None, naming.len())) };
        let named = naming.iter().flat_map(|op| named(op));
        let members = Scores::of(record, &key, named.chain(own.iter().flat_map(|effect| touched(effect))));
        let elsewhere = key.len() - members.0.len();
        Ok((Some(State::new::<ScoredSet>(Ranking::partial(members.0, 0, elsewhere))), naming.len()))
    }

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        if record.open(Kind::Zset)?.is_none() {
            return Ok(None);
        }
        let ranking: Ranking = range(record, 0, -1, false).into_iter().collect();
        Ok(Some(State::new::<ScoredSet>(ranking)))
    }

    /// Effects that only give scores, or only take members out, go together.
    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        let effects: Vec<_> =
            effects.iter().map(|it| it.downcast::<ScoredSet>().expect("a scored set's")).collect();
        let (puts, takes) = (
            |it: &ScoredSetEffect| matches!(it, ScoredSetEffect::Set(all) if all.iter().all(|it| it.1.is_some())),
            |it: &ScoredSetEffect| matches!(it, ScoredSetEffect::Set(all) if all.iter().all(|it| it.1.is_none())),
        );
        let alike = |one: &&ScoredSetEffect, next: &&ScoredSetEffect| {
            puts(one) && puts(next) || takes(one) && takes(next)
        };
        for effects in effects.chunk_by(alike) {
            let mut gone: Vec<&[u8]> = Vec::new();
            let mut put: Vec<(String, &Bytes)> = Vec::new();
            for effect in effects {
                match effect {
                    ScoredSetEffect::Shift(member, by) => {
                        record.write(c"ZINCRBY", [number(*by).as_bytes(), &member[..]]);
                    }
                    ScoredSetEffect::Set(changes) => {
                        for (member, score) in changes {
                            match score {
                                Some(score) => put.push((number(*score), member)),
                                None => gone.push(&member[..]),
                            }
                        }
                    }
                }
            }
            record.write_all(c"ZREM", 1, &gone);
            let put: Vec<&[u8]> =
                put.iter().flat_map(|(score, member)| [score.as_bytes(), &member[..]]).collect();
            record.write_all(c"ZADD", 2, &put);
        }
    }

    fn removes(effect: &ScoredSetEffect) -> usize {
        match effect {
            ScoredSetEffect::Set(scores) => scores.iter().filter(|(_, score)| score.is_none()).count(),
            ScoredSetEffect::Shift(..) => 0,
        }
    }
}

/// Whether to look at the record as a whole takes no longer than at a part of it for each call, with what was done before it; and
/// whether that may be: each part may be looked at, however large the whole is.
fn is_whole_cheaper(
    record: &Record<'_, impl Server>,
    ops: &[&Operation],
    own: &[&Effect],
) -> Result<bool, OpError> {
    let length = record.open(Kind::Zset)?.map_or(0, |key| key.len());
    Ok(ops.len() * (own.len() + ops.len()) >= length && length <= record.server.whole_elements_max())
}

/// Members that an operation names.
fn named(op: &ScoredSetOp) -> Vec<&Bytes> {
    match op {
        ScoredSetOp::Add(list) | ScoredSetOp::AddReturning(list) => {
            list.iter().map(|(member, _)| member).collect()
        }
        ScoredSetOp::Remove(list) | ScoredSetOp::RemoveReturning(list) => list.iter().collect(),
        ScoredSetOp::Increment { member, .. }
        | ScoredSetOp::IncrementReturning { member, .. }
        | ScoredSetOp::Score(member)
        | ScoredSetOp::Rank(member) => vec![member],
        ScoredSetOp::Len
        | ScoredSetOp::Range { .. }
        | ScoredSetOp::RangeByScore { .. }
        | ScoredSetOp::Count { .. } => Vec::new(),
    }
}

/// Members that an effect scores, shifts or removes.
fn touched(effect: &Effect) -> Vec<&Bytes> {
    match effect.downcast::<ScoredSet>() {
        Some(ScoredSetEffect::Set(changes)) => changes.iter().map(|(member, _)| member).collect(),
        Some(ScoredSetEffect::Shift(member, _)) => vec![member],
        None => Vec::new(),
    }
}

/// Distinct members with their scores.
struct Scores(BTreeMap<Bytes, f64>);

impl Scores {
    /// Those that are in.
    fn of<'a, S: Server>(
        record: &Record<'_, S>,
        key: &S::Key,
        members: impl Iterator<Item = &'a Bytes>,
    ) -> Self {
        let members = members.inspect(|member| record.server.note_read(1, member.len()));
        Scores(members.filter_map(|member| Some((member.clone(), key.score(member)?))).collect())
    }

    fn extend(&mut self, members: Vec<(Bytes, f64)>) {
        self.0.extend(members);
    }
}

/// The positions `start..=stop` of so many, as Redis counts them. Half open.
fn span(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let from_front = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(length - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// The same, for an operation that answers less of it.
fn whole_for_part(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
    record.check_whole(record.open(Kind::Zset)?)?;
    ScoredSet::whole(record)
}

/// Members by position, from the lowest or from the highest.
fn range(
    record: &Record<'_, impl Server>,
    start: impl Display,
    stop: impl Display,
    reverse: bool,
) -> Vec<(Bytes, f64)> {
    let (start, stop) = (start.to_string(), stop.to_string());
    let arguments = [start.as_bytes(), stop.as_bytes(), b"WITHSCORES", b"REV"];
    scored(record.read(c"ZRANGE", arguments.into_iter().take(if reverse { 4 } else { 3 })))
}

/// Members by score.
fn between(record: &Record<'_, impl Server>, min: ScoreBound, max: ScoreBound) -> Vec<(Bytes, f64)> {
    let (min, max) = (bound(min), bound(max));
    scored(record.read(c"ZRANGEBYSCORE", [min.as_bytes(), max.as_bytes(), b"WITHSCORES"]))
}

/// How many there are by score.
fn count(record: &Record<'_, impl Server>, min: ScoreBound, max: ScoreBound) -> usize {
    let (min, max) = (bound(min), bound(max));
    let count = record.read(c"ZCOUNT", [min.as_bytes(), max.as_bytes()]).int();
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

fn is_between(score: f64, min: ScoreBound, max: ScoreBound) -> bool {
    let is_above = match min {
        ScoreBound::Included(min) => score >= min,
        ScoreBound::Excluded(min) => score > min,
    };
    is_above
        && match max {
            ScoreBound::Included(max) => score <= max,
            ScoreBound::Excluded(max) => score < max,
        }
}

/// As the server reads it.
fn bound(bound: ScoreBound) -> String {
    match bound {
        ScoreBound::Included(score) => number(score),
        ScoreBound::Excluded(score) => format!("({}", number(score)),
    }
}

/// Member, score, member, score.
fn scored(flat: Answer) -> Vec<(Bytes, f64)> {
    let flat: Vec<Bytes> = flat.list().collect();
    let pair = |pair: &[Bytes]| Some((pair[0].clone(), pair[1].as_str()?.parse().ok()?));
    flat.chunks_exact(2).filter_map(pair).collect()
}

/// Writes the members where there are none.
pub(super) fn put(record: &Record<'_, impl Server>, members: &[(Bytes, f64)]) {
    let members: Vec<(String, &Bytes)> =
        members.iter().map(|(member, score)| (number(*score), member)).collect();
    let words: Vec<&[u8]> =
        members.iter().flat_map(|(score, member)| [score.as_bytes(), &member[..]]).collect();
    record.write_all(c"ZADD", 2, &words);
}

/// The shortest text that reads back as the same float.
fn number(score: f64) -> String {
    if is_planted(Bug::ScoresRounded) { format!("{score:.3}") } else { format!("{score:?}") }
}

// --- topk ---

impl OnServer for TopK {
    const KIND: Option<Kind> = None;

    fn partial_state(
        record: &Record<'_, impl Server>,
        op: &Operation,
        own: &[&Effect],
    ) -> Result<Option<State>, OpError> {
        let op = op.downcast::<TopK>().expect("a topk's");
        let Some(key) = record.open(Kind::Zset)? else { return Ok(None) };
        let length = key.len();
        let offers = own.iter().filter_map(|effect| match effect.downcast::<TopK>() {
            Some(TopKEffect::Offer { member, .. }) => Some(member),
            Some(TopKEffect::Restore { .. }) | None => None,
        });
        let asked = match op {
            TopKOp::Add { member, .. } => Some(member),
            TopKOp::Max | TopKOp::List { .. } | TopKOp::Count => None,
        };
        let mut members = Scores::of(record, &key, asked.into_iter().chain(offers));
        let capacity = capacity(record)?;
        members.extend(key.outermost(Side::Lowest, own.len() + 1));
        match op {
            TopKOp::List { count } => {
                drop(key);
                let shown = (*count).clamp(1, u64::from(capacity));
                members.extend(range(record, 0, shown - 1, true));
            }
            TopKOp::Add { .. } | TopKOp::Max | TopKOp::Count => {
                members.extend(key.outermost(Side::Highest, 1))
            }
        }
        let elsewhere = length - members.0.len();
        let ranking = Ranking::partial(members.0, 0, elsewhere);
        Ok(Some(State::new::<TopK>(Best::partial(capacity, ranking))))
    }

    /// For calls one after the other: the whole record, if that is no dearer.
    fn partial_state_for_all(
        record: &Record<'_, impl Server>,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        match is_whole_cheaper(record, ops, own)? {
            true => Ok((Self::whole(record)?, ops.len())),
            false => Ok((Self::partial_state(record, ops[0], own)?, 1)),
        }
    }

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        if record.open(Kind::Zset)?.is_none() {
            return Ok(None);
        }
        let capacity = capacity(record)?;
        Ok(Some(State::new::<TopK>(Best::new(capacity, range(record, 0, -1, false)))))
    }

    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        effects.iter().for_each(|effect| offer(record, effect));
    }

    fn equivalent(method: &'static str) -> Equivalent {
        match method {
            "TOPK.ADD" => Equivalent::of("ZADD").beside("SET"),
            "TOPK.MAX" | "TOPK.LIST" => Equivalent::of("ZRANGE").beside("GET"),
            "TOPK.COUNT" => Equivalent::of("ZCARD").beside("GET"),
            _ => Equivalent::named(method),
        }
    }
}

/// A TopK if the string beside it says so and it is none with too many members: such a string may have been left by another.
pub(super) fn whole_of_either(
    record: &Record<'_, impl Server>,
    length: usize,
) -> Result<Option<State>, OpError> {
    match capacity(record) {
        Ok(capacity) if length <= capacity as usize => TopK::whole(record),
        _ => ScoredSet::whole(record),
    }
}

/// What the string beside it says. Without one the sorted set is somebody else's, and its members are not for TopK to
/// drop.
fn capacity(record: &Record<'_, impl Server>) -> Result<u32, OpError> {
    let missing = || record.wrong_type("zset without a capacity beside it", "topk");
    let name = Bytes::from(side_key(record.key));
    let beside = Record::new(record.server, &name, record.method);
    let key = beside.open(Kind::String).ok().flatten().ok_or_else(missing)?;
    let text = beside.string(key, Upcoming::Nothing);
    let text = std::str::from_utf8(&text).ok();
    text.and_then(|text| text.parse().ok())
        .filter(|capacity| (1..=65_535).contains(capacity))
        .ok_or_else(missing)
}

/// Writes the string beside it.
pub(super) fn put_capacity(record: &Record<'_, impl Server>, capacity: u32) {
    let beside = Bytes::from(side_key(record.key));
    Record::new(record.server, &beside, record.method).write(c"SET", [capacity.to_string().as_bytes()]);
}

/// Carries an offer out.
fn offer(record: &Record<'_, impl Server>, effect: &Effect) {
    let TopKEffect::Offer { capacity: asked, score, member } = effect.downcast::<TopK>().expect("a topk's")
    else {
        unreachable!("a restore undoes in memory; nothing is undone here")
    };
    let held = record.open(Kind::Zset).ok().flatten();
    let own = held.as_ref().and_then(|key| key.score(member));
    let before = held.as_ref().map_or(0, OpenKey::len);
    let lowest = held.as_ref().and_then(|key| key.outermost(Side::Lowest, 1).pop());
    let is_present = held.is_some();
    drop(held);
    if !is_present && !is_planted(Bug::CapacityUnwritten) {
        // The key may have been removed by itself, and the string beside it left.
        put_capacity(record, *asked);
    }
    let kept = capacity(record).unwrap_or(*asked) as usize;
    let is_below_all = lowest.is_some_and(|(lowest, least)| (*score, member) <= (least, &lowest));
    if own.is_some_and(|own| *score <= own)
        || before >= kept && is_below_all && !is_planted(Bug::LateOfferWritten)
    {
        return;
    }
    record.write(c"ZADD", [number(*score).as_bytes(), &member[..]]);
    let length = before + usize::from(own.is_none());
    if length > kept && !is_planted(Bug::BestUntrimmed) {
        record.write(c"ZREMRANGEBYRANK", [&b"0"[..], (length - kept - 1).to_string().as_bytes()]);
    }
}
