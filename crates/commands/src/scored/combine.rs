//! Unions, intersections and differences of sorted sets and sets, answered or stored.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use claret_types::{Bytes, OpError, Pairs, Reply, ScoredSetOp, SetOp};

use super::ALL;
use super::range::with_scores_of;
use crate::answer::Answer;
use crate::fault::Fault;
use crate::kind::Kind;
use crate::sets::limit_of;
use crate::steps::{Answered, Steps, scored, set};
use crate::words::{Words, int, is, number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Union,
    Inter,
    Diff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(word: &Bytes) -> Result<Self, Fault> {
        match () {
            () if is(word, "SUM") => Ok(Aggregate::Sum),
            () if is(word, "MIN") => Ok(Aggregate::Min),
            () if is(word, "MAX") => Ok(Aggregate::Max),
            () => Err(Fault::syntax()),
        }
    }

    fn of_both(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => not_nan(a + b),
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

/// Infinity less infinity is 0 here, and so is 0 times infinity.
fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

struct Source {
    members: Vec<(Bytes, f64)>,
    weight: f64,
}

struct Combination {
    way: Way,
    aggregate: Aggregate,
    scores: bool,
    /// 0: all.
    limit: usize,
    sources: Vec<Source>,
}

impl Combination {
    /// From the words of a command from the number of keys on. What is wrong with options is said behind what is wrong with keys.
    async fn of(
        steps: Steps<'_>,
        name: &str,
        words: &[Bytes],
        target: Option<&Bytes>,
    ) -> Result<Self, Fault> {
        let [count, rest @ ..] = words else { return Err(Fault::syntax()) };
        let count = int(count)?;
        if count < 1 {
            let name = name.to_ascii_lowercase();
            return Err(Fault::Told(format!("ERR at least 1 input key is needed for '{name}' command")));
        }
        let count =
            usize::try_from(count).ok().filter(|count| *count <= rest.len()).ok_or_else(Fault::syntax)?;
        let (keys, options) = rest.split_at(count);
        let way = match name {
            "ZUNION" | "ZUNIONSTORE" => Way::Union,
            "ZDIFF" | "ZDIFFSTORE" => Way::Diff,
            _ => Way::Inter,
        };
        let sources = sources(steps, keys, target).await?;
        let mut made = Combination { way, aggregate: Aggregate::Sum, scores: false, limit: 0, sources };
        made.take_options(name, options)?;
        Ok(made)
    }

    fn take_options(&mut self, name: &str, options: &[Bytes]) -> Result<(), Fault> {
        let (counts, stores) = (name == "ZINTERCARD", name.ends_with("STORE"));
        let weighs = self.way != Way::Diff && !counts;
        let mut rest = options;
        while let [option, after @ ..] = rest {
            rest = if weighs && is(option, "WEIGHTS") && after.len() >= self.sources.len() {
                let (weights, after) = after.split_at(self.sources.len());
                for (source, weight) in self.sources.iter_mut().zip(weights) {
                    let weight =
                        number(weight).ok_or_else(|| Fault::told("ERR weight value is not a float"))?;
                    source.weight = weight;
                }
                after
            } else if weighs && is(option, "AGGREGATE") && !after.is_empty() {
                self.aggregate = Aggregate::of(&after[0])?;
                &after[1..]
            } else if !stores && !counts && is(option, "WITHSCORES") {
                self.scores = true;
                after
            } else if counts && is(option, "LIMIT") && !after.is_empty() {
                self.limit = limit_of(&after[0])?;
                &after[1..]
            } else {
                return Err(Fault::syntax());
            };
        }
        Ok(())
    }

    /// The same, by another thread if they are many.
    async fn members_of(self, steps: Steps<'_>) -> Vec<(Bytes, f64)> {
        let elements = self.sources.iter().map(|source| source.members.len()).sum();
        steps.runner.over(elements, || self.members()).await
    }

    /// The members with their scores, in order.
    fn members(self) -> Vec<(Bytes, f64)> {
        let Combination { way, aggregate, mut sources, .. } = self;
        if way == Way::Diff {
            return difference(sources);
        }
        // Floats add up to the same only in the same order: that of servers, from the smallest set on.
        sources.sort_by_key(|source| source.members.len());
        let count = sources.len();
        let mut found: HashMap<Bytes, (usize, f64)> = HashMap::new();
        for Source { members, weight } in sources {
            for (member, score) in members {
                let score = score * weight;
                // Of an intersection, servers look at the first score and at the sum alone.
                let further = if way == Way::Union { not_nan(score) } else { score };
                found
                    .entry(member)
                    .and_modify(|(times, sum)| {
                        (*times, *sum) = (*times + 1, aggregate.of_both(*sum, further))
                    })
                    .or_insert((1, not_nan(score)));
            }
        }
        let all = found.into_iter().filter(|(_, (times, _))| way == Way::Union || *times == count);
        ordered(all.map(|(member, (_, score))| (member, score)).collect())
    }
}

fn difference(sources: Vec<Source>) -> Vec<(Bytes, f64)> {
    let mut sources = sources.into_iter();
    let Some(first) = sources.next() else { return Vec::new() };
    let others: HashSet<Bytes> =
        sources.flat_map(|source| source.members).map(|(member, _)| member).collect();
    ordered(first.members.into_iter().filter(|(member, _)| !others.contains(member)).collect())
}

fn ordered(mut members: Vec<(Bytes, f64)>) -> Vec<(Bytes, f64)> {
    // There is no NaN, and -0 is as much as 0.
    let by_score = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
    members.sort_unstable_by(|a, b| by_score(a.1, b.1).then_with(|| a.0.cmp(&b.0)));
    members
}

/// What the keys hold. A member of a set has the score 1.
async fn sources(steps: Steps<'_>, keys: &[Bytes], target: Option<&Bytes>) -> Result<Vec<Source>, Fault> {
    let mut sources = Vec::with_capacity(keys.len());
    for (key, reply) in keys.iter().zip(steps.read_each(keys, &scored(ALL).tried(), target).await?) {
        let is_set = match &reply {
            Reply::Failed(error) => match &**error {
                OpError::WrongType { found, .. } => Kind::of(found) == Kind::Set,
                _ => false,
            },
            _ => false,
        };
        let members = if is_set {
            let members: Vec<Bytes> = steps.read(key, set(SetOp::Members)).await?;
            let count = members.len();
            let ones = move || members.into_iter().map(|member| (member, 1.0)).collect();
            steps.runner.over(count, ones).await
        } else {
            let Pairs(members) = steps.taken::<Pairs<Bytes, f64>>(reply).await?;
            members
        };
        sources.push(Source { members, weight: 1.0 });
    }
    Ok(sources)
}

/// `ZUNION`, `ZINTER`, `ZDIFF` and `ZINTERCARD`.
pub(crate) async fn answer(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([], rest) = words.split_before(1)?;
    let made = Combination::of(steps, words.name, rest, None).await?;
    let (scores, limit) = (made.scores, made.limit);
    let members = made.members_of(steps).await;
    if words.name == "ZINTERCARD" {
        return Ok(Answer::count(if limit == 0 { members.len() } else { members.len().min(limit) }));
    }
    if scores {
        return with_scores_of(steps, members).await;
    }
    let count = members.len();
    let names = move || Answer::strings(members.into_iter().map(|(member, _)| member));
    Ok(steps.runner.over(count, names).await)
}

/// `ZUNIONSTORE`, `ZINTERSTORE` and `ZDIFFSTORE`.
pub(crate) async fn store(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([target], rest) = words.split_before(1)?;
    let made = Combination::of(steps, words.name, rest, Some(target)).await?;
    let members = made.members_of(steps).await;
    let count = members.len();
    let made = move || (count > 0).then(|| scored(ScoredSetOp::Add(members.into_iter().collect())));
    let made = steps.runner.over(count, made).await;
    steps.replace(target, made)?;
    Ok(Answer::count(count))
}
