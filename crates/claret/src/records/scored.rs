//! Handles of the types that keep scores or summaries: scored set, best k, bag.

use claret_types::{
    Bytes, Few, Pairs, ScoreBound, ScoredSet, ScoredSetOp, Summary, SummaryBag, SummaryBagOp, TopK, TopKOp,
};

use super::{Record, Scope};

fn one(member: impl Into<Bytes>) -> Few<Bytes> {
    Few::from_elem(member.into(), 1)
}

fn scored(member: impl Into<Bytes>, score: f64) -> Few<(Bytes, f64)> {
    Few::from_iter([(member.into(), score)])
}

/// Distinct members in the order of their scores. See [`ScoredSet`].
///
/// Here the member comes before the score, as keys come before values. Redis writes `ZADD key score member`.
#[derive(Clone, Debug)]
pub struct ScoredSetRecord<S>(pub(super) Record<S, ScoredSet>);

impl<S: Scope> ScoredSetRecord<S> {
    /// `ZADD`: sets a member's score.
    pub fn add(&self, member: impl Into<Bytes>, score: f64) -> S::Void {
        self.0.issue(ScoredSetOp::Add(scored(member, score)))
    }

    /// `ZADD.RETURNING`: sets a member's score; returns whether the member is new.
    pub fn add_returning(&self, member: impl Into<Bytes>, score: f64) -> S::Value<bool> {
        self.0.run(ScoredSetOp::AddReturning(scored(member, score)))
    }

    /// `ZREM`: removes a member.
    pub fn remove(&self, member: impl Into<Bytes>) -> S::Void {
        self.0.issue(ScoredSetOp::Remove(one(member)))
    }

    /// `ZREM.RETURNING`: removes a member; whether it was there.
    pub fn remove_returning(&self, member: impl Into<Bytes>) -> S::Value<bool> {
        self.0.run(ScoredSetOp::RemoveReturning(one(member)))
    }

    /// `ZINCRBY`: adds to a member's score, which is 0 where it is not in.
    pub fn increment(&self, member: impl Into<Bytes>, by: f64) -> S::Void {
        self.0.issue(ScoredSetOp::Increment { by, member: member.into() })
    }

    /// `ZINCRBY.RETURNING`: adds to a member's score; the sum.
    pub fn increment_returning(&self, member: impl Into<Bytes>, by: f64) -> S::Value<f64> {
        self.0.run(ScoredSetOp::IncrementReturning { by, member: member.into() })
    }

    /// `ZSCORE`: a member's score, if it is in.
    pub fn score(&self, member: impl Into<Bytes>) -> S::Value<Option<f64>> {
        self.0.run(ScoredSetOp::Score(member.into()))
    }

    /// `ZRANK`: a member's position from the lowest score, if it is in.
    pub fn rank(&self, member: impl Into<Bytes>) -> S::Value<Option<u64>> {
        self.0.run(ScoredSetOp::Rank(member.into()))
    }

    /// `ZCARD`: how many members.
    pub fn len(&self) -> S::Value<u64> {
        self.0.run(ScoredSetOp::Len)
    }

    /// `ZRANGE`: the members from position `start` to `stop`, both included, the lowest score first; negative
    /// positions count from the highest.
    pub fn range(&self, start: i64, stop: i64) -> S::Value<Vec<Bytes>> {
        self.0.run(ScoredSetOp::Range { start, stop, reverse: false, scores: false })
    }

    /// `ZRANGE ... WITHSCORES`: the same with their scores.
    pub fn range_with_scores(&self, start: i64, stop: i64) -> S::Value<Pairs<Bytes, f64>> {
        self.0.run(ScoredSetOp::Range { start, stop, reverse: false, scores: true })
    }

    /// `ZRANGE 0 count-1 REV WITHSCORES`: the members with the highest scores, best first.
    pub fn highest(&self, count: u32) -> S::Value<Pairs<Bytes, f64>> {
        // A stop before the start is an empty range.
        let (start, stop) = if count == 0 { (1, 0) } else { (0, i64::from(count) - 1) };
        self.0.run(ScoredSetOp::Range { start, stop, reverse: true, scores: true })
    }

    /// `ZRANGEBYSCORE ... WITHSCORES`: the members whose scores lie between two bounds, the lowest first.
    pub fn between(&self, min: ScoreBound, max: ScoreBound) -> S::Value<Pairs<Bytes, f64>> {
        self.0.run(ScoredSetOp::RangeByScore { min, max, scores: true })
    }

    /// `ZCOUNT`: how many members have scores between two bounds.
    pub fn count(&self, min: ScoreBound, max: ScoreBound) -> S::Value<u64> {
        self.0.run(ScoredSetOp::Count { min, max })
    }
}

/// The best k members by score. See [`TopK`].
#[derive(Clone, Debug)]
pub struct TopKRecord<S> {
    pub(super) record: Record<S, TopK>,
    pub(super) capacity: u32,
}

impl<S: Scope> TopKRecord<S> {
    /// `TOPK.ADD`: offers a member; it is kept if it is among the best.
    pub fn add(&self, member: impl Into<Bytes>, score: f64) -> S::Void {
        self.record.issue(TopKOp::Add { capacity: self.capacity, score, member: member.into() })
    }

    /// `TOPK.MAX`: the best member and its score, if there is any.
    pub fn max(&self) -> S::Value<Option<(Bytes, f64)>> {
        self.record.run(TopKOp::Max)
    }

    /// `TOPK.LIST`: all that are kept with their scores, best first.
    pub fn list(&self) -> S::Value<Pairs<Bytes, f64>> {
        self.record.run(TopKOp::List { count: u64::from(self.capacity) })
    }

    /// `TOPK.LIST`: the best `count` with their scores, best first.
    pub fn best(&self, count: u64) -> S::Value<Pairs<Bytes, f64>> {
        self.record.run(TopKOp::List { count })
    }

    /// `TOPK.COUNT`: how many are kept.
    pub fn count(&self) -> S::Value<u64> {
        self.record.run(TopKOp::Count)
    }
}

/// Count, sum, least and greatest of many numbers. See [`SummaryBag`].
#[derive(Clone, Debug)]
pub struct SummaryBagRecord<S>(pub(super) Record<S, SummaryBag>);

impl<S: Scope> SummaryBagRecord<S> {
    /// `BAG.ADD`: adds a number.
    pub fn add(&self, value: f64) -> S::Void {
        self.0.issue(SummaryBagOp::Add(value))
    }

    /// `BAG.COUNT`: how many numbers were added.
    pub fn count(&self) -> S::Value<u64> {
        self.0.run(SummaryBagOp::Count)
    }

    /// `BAG.SUM`: their sum, 0 if there are none.
    pub fn sum(&self) -> S::Value<f64> {
        self.0.run(SummaryBagOp::Sum)
    }

    /// `BAG.MEAN`: their mean, if there are any.
    pub fn mean(&self) -> S::Value<Option<f64>> {
        self.0.run(SummaryBagOp::Mean)
    }

    /// `BAG.MIN`: the least, if there are any.
    pub fn min(&self) -> S::Value<Option<f64>> {
        self.0.run(SummaryBagOp::Min)
    }

    /// `BAG.MAX`: the greatest, if there are any.
    pub fn max(&self) -> S::Value<Option<f64>> {
        self.0.run(SummaryBagOp::Max)
    }

    /// `BAG.SUMMARY`: all four at once.
    pub fn summary(&self) -> S::Value<Summary> {
        self.0.run(SummaryBagOp::Summary)
    }
}
