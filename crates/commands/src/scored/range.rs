//! Ranges of sorted sets: by position, by score, by member.

use claret_types::{Bytes, Pairs, ScoreBound, ScoredSetOp};

use super::ALL;
use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::steps::{Answered, Steps, scored};
use crate::words::{Words, int, is};

/// An end of a range of members.
#[derive(Clone, Debug, PartialEq)]
enum Edge {
    Least,
    Greatest,
    Included(Bytes),
    Excluded(Bytes),
}

impl Edge {
    fn of(word: &Bytes) -> Result<Self, Fault> {
        match &**word {
            b"-" => Ok(Edge::Least),
            b"+" => Ok(Edge::Greatest),
            [b'[', rest @ ..] => Ok(Edge::Included(rest.into())),
            [b'(', rest @ ..] => Ok(Edge::Excluded(rest.into())),
            _ => Err(Fault::told("ERR min or max not valid string range item")),
        }
    }

    /// Whether it is an end below the member.
    fn is_below(&self, member: &Bytes) -> bool {
        match self {
            Edge::Least => true,
            Edge::Greatest => false,
            Edge::Included(edge) => member >= edge,
            Edge::Excluded(edge) => member > edge,
        }
    }

    fn is_above(&self, member: &Bytes) -> bool {
        match self {
            Edge::Least => false,
            Edge::Greatest => true,
            Edge::Included(edge) => member <= edge,
            Edge::Excluded(edge) => member < edge,
        }
    }
}

/// What a range goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

#[derive(Clone, Debug, PartialEq)]
enum Ends {
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Members(Edge, Edge),
}

#[derive(Clone, Debug, PartialEq)]
struct Range {
    ends: Ends,
    reverse: bool,
    scores: bool,
    /// How many are left out, and how many follow at most (below zero: all).
    limit: Option<(i64, i64)>,
}

/// The bounds of scores that two words say.
fn scores(min: &Bytes, max: &Bytes) -> Result<(ScoreBound, ScoreBound), Fault> {
    Ok((bound(min)?, bound(max)?))
}

fn bound(word: &Bytes) -> Result<ScoreBound, Fault> {
    let (text, bound): (&[u8], fn(f64) -> ScoreBound) = match word.strip_prefix(b"(") {
        Some(text) => (text, ScoreBound::Excluded),
        None => (word, ScoreBound::Included),
    };
    let score = match text {
        [] => Some(0.0),
        text => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
    };
    let score = score.filter(|score: &f64| !score.is_nan());
    score.map(bound).ok_or_else(|| Fault::told("ERR min or max is not a float"))
}

fn ends(by: By, min: &Bytes, max: &Bytes) -> Result<Ends, Fault> {
    Ok(match by {
        By::Rank => Ends::Ranks(int(min)?, int(max)?),
        By::Score => scores(min, max).map(|(min, max)| Ends::Scores(min, max))?,
        By::Member => Ends::Members(Edge::of(min)?, Edge::of(max)?),
    })
}

impl Range {
    /// Of a command, from its words after the key; `stores`: `ZRANGESTORE`, which takes no `WITHSCORES`.
    fn of(name: &str, words: &[Bytes], stores: bool) -> Result<Self, Fault> {
        let is_open = matches!(name, "ZRANGE" | "ZRANGESTORE");
        let mut by = match name {
            "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" => By::Score,
            "ZRANGEBYLEX" | "ZREVRANGEBYLEX" => By::Member,
            _ => By::Rank,
        };
        let mut reverse = name.starts_with("ZREV");
        let (mut scores, mut limit) = (false, None);
        let [min, max, options @ ..] = words else { return Err(Fault::syntax()) };
        let mut rest = options.iter();
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "WITHSCORES") && !stores => scores = true,
                () if is(word, "LIMIT") => {
                    let (Some(offset), Some(count)) = (rest.next(), rest.next()) else {
                        return Err(Fault::syntax());
                    };
                    limit = Some((int(offset)?, int(count)?));
                }
                () if is(word, "REV") && is_open && !reverse => reverse = true,
                () if is(word, "BYLEX") && is_open && by == By::Rank => by = By::Member,
                () if is(word, "BYSCORE") && is_open && by == By::Rank => by = By::Score,
                () => return Err(Fault::syntax()),
            }
        }
        if by == By::Rank && limit.is_some_and(|(_, count)| count != -1) {
            return Err(Fault::told(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if scores && by == By::Member {
            return Err(Fault::told("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (min, max) = if reverse && by != By::Rank { (max, min) } else { (min, max) };
        let limit = limit.filter(|_| by != By::Rank);
        Ok(Range { ends: ends(by, min, max)?, reverse, scores, limit })
    }

    /// The operation that answers it as it is; `None`: something has to be done to what one answers.
    fn operation(&self) -> Option<ScoredSetOp> {
        if self.limit.is_some() {
            return None;
        }
        match self.ends {
            Ends::Ranks(start, stop) => {
                Some(ScoredSetOp::Range { start, stop, reverse: self.reverse, scores: self.scores })
            }
            Ends::Scores(min, max) if !self.reverse => {
                Some(ScoredSetOp::RangeByScore { min, max, scores: self.scores })
            }
            Ends::Scores(..) | Ends::Members(..) => None,
        }
    }

    /// The members with their scores; `locks`: they are written next.
    async fn read(&self, steps: Steps<'_>, key: &Bytes, locks: bool) -> Result<Vec<(Bytes, f64)>, Fault> {
        let op = match self.ends {
            Ends::Ranks(start, stop) => {
                ScoredSetOp::Range { start, stop, reverse: self.reverse, scores: true }
            }
            Ends::Scores(min, max) => ScoredSetOp::RangeByScore { min, max, scores: true },
            Ends::Members(..) => ALL,
        };
        let Pairs(mut found) =
            steps.read_of::<Pairs<Bytes, f64>>(key, scored(op), locks.then_some(key)).await?;
        let (range, elements) = (self.clone(), found.len());
        let narrow = move || {
            range.narrow(&mut found);
            found
        };
        Ok(steps.runner.over(elements, narrow).await)
    }

    /// What the operation has not done.
    fn narrow(&self, found: &mut Vec<(Bytes, f64)>) {
        if let Ends::Members(min, max) = &self.ends {
            found.retain(|(member, _)| min.is_below(member) && max.is_above(member));
        }
        if self.reverse && !matches!(self.ends, Ends::Ranks(..)) {
            found.reverse();
        }
        if let Some((offset, count)) = self.limit {
            let offset = usize::try_from(offset).unwrap_or(found.len()).min(found.len());
            found.drain(..offset);
            found.truncate(usize::try_from(count).unwrap_or(found.len()));
        }
    }
}

/// A range of which one operation answers all.
pub(crate) fn as_it_is(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let ([key], rest) = words.split_before(2).ok()?;
    let range = match Range::of(words.name, rest, false) {
        Ok(range) => range,
        Err(fault) => return Some(Err(fault)),
    };
    let shape = if range.scores { Shape::Pairs } else { Shape::First };
    range.operation().map(|op| Ok(Calls::one(key, scored(op), shape)))
}

/// Any range, from a command that answers it.
pub(crate) async fn answer(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], rest) = words.split_before(2)?;
    let range = Range::of(words.name, rest, false)?;
    let found = range.read(steps, key, false).await?;
    let count = found.len();
    if range.scores {
        return with_scores_of(steps, found).await;
    }
    let names = move || Answer::strings(found.into_iter().map(|(member, _)| member));
    Ok(steps.runner.over(count, names).await)
}

/// The same, by another thread if they are many.
pub(super) async fn with_scores_of(steps: Steps<'_>, members: Vec<(Bytes, f64)>) -> Answered {
    Ok(steps.runner.over(members.len(), || with_scores(members)).await)
}

/// Members with their scores, flat or in pairs as the protocol has it.
pub(super) fn with_scores(members: impl IntoIterator<Item = (Bytes, f64)>) -> Answer {
    let words = members.into_iter().flat_map(|(member, score)| [Answer::Bulk(member), Answer::Double(score)]);
    Answer::Pairs(words.collect())
}

/// `ZRANGESTORE`.
pub(crate) async fn store(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([target, source], range) = words.split_before(2)?;
    let range = Range::of(words.name, range, true)?;
    let found = range.read(steps, source, source == target).await?;
    let count = found.len();
    let made = move || (count > 0).then(|| scored(ScoredSetOp::Add(found.into_iter().collect())));
    let made = steps.runner.over(count, made).await;
    steps.replace(target, made)?;
    Ok(Answer::count(count))
}

/// `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE` and `ZREMRANGEBYLEX`.
pub(crate) async fn remove(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, min, max] = words.exactly()?;
    let by = match words.name {
        "ZREMRANGEBYSCORE" => By::Score,
        "ZREMRANGEBYLEX" => By::Member,
        _ => By::Rank,
    };
    let range = Range { ends: ends(by, min, max)?, reverse: false, scores: false, limit: None };
    let found = range.read(steps, key, true).await?;
    let count = found.len();
    if count > 0 {
        let remove = move || ScoredSetOp::Remove(found.into_iter().map(|(member, _)| member).collect());
        let op = steps.runner.over(count, remove).await;
        steps.write(key, scored(op))?;
    }
    Ok(Answer::count(count))
}

pub(crate) fn zcount(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, min, max] = words.exactly()?;
    let (min, max) = scores(min, max)?;
    Ok(Calls::one(key, scored(ScoredSetOp::Count { min, max }), Shape::First))
}

pub(crate) async fn zlexcount(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, min, max] = words.exactly()?;
    let range = Range { ends: ends(By::Member, min, max)?, reverse: false, scores: false, limit: None };
    Ok(Answer::count(range.read(steps, key, false).await?.len()))
}
