//! Handles of the types that keep scores or summaries: scored set, best k, bag.

use claret_types::{
    Bytes, Pairs, ScoreBound, ScoredSet, ScoredSetOp, Summary, SummaryBag, SummaryBagOp, TopK, TopKOp, few,
};

use super::living::living;
use super::{AnswerIn, Record, Scope, many, one};
use crate::decode;
use crate::value::{FromValue, IntoValue, ValueError};

living!(ScoredSetRecord.0, TopKRecord.record, SummaryBagRecord.0);

fn scored((member, score): (impl IntoValue, f64)) -> Result<(Bytes, f64), ValueError> {
    Ok((member.into_value()?, score))
}

/// Distinct members in the order of their scores. See [`ScoredSet`].
///
/// Here the member comes before the score, as keys come before values. Redis writes `ZADD key score member`.
#[derive(Clone, Debug)]
pub struct ScoredSetRecord<S>(pub(super) Record<S, ScoredSet>);

impl<S: Scope> ScoredSetRecord<S> {
    /// `ZADD`: sets a member's score.
    pub fn add(&self, member: impl IntoValue, score: f64) -> S::Void {
        self.0.issue_checked(scored((member, score)).map(|member| ScoredSetOp::Add(few([member]))))
    }

    /// `ZADD.RETURNING`: sets a member's score; returns whether the member is new.
    pub fn add_returning(&self, member: impl IntoValue, score: f64) -> AnswerIn<S, bool> {
        self.0.run_checked(scored((member, score)).map(|member| ScoredSetOp::AddReturning(few([member]))))
    }

    /// `ZADD`: sets the scores of members.
    pub fn add_many(&self, members: impl IntoIterator<Item = (impl IntoValue, f64)>) -> S::Void {
        self.0.issue_many(members.into_iter().map(scored).collect(), ScoredSetOp::Add)
    }

    /// `ZADD.RETURNING`: sets the scores of members; how many members are new.
    pub fn add_many_returning(
        &self,
        members: impl IntoIterator<Item = (impl IntoValue, f64)>,
    ) -> AnswerIn<S, u64> {
        self.0.read_many(
            members.into_iter().map(scored).collect(),
            ScoredSetOp::AddReturning,
            decode::count(),
        )
    }

    /// `ZREM`: removes a member.
    pub fn remove(&self, member: impl IntoValue) -> S::Void {
        self.0.issue_checked(one(member).map(ScoredSetOp::Remove))
    }

    /// `ZREM.RETURNING`: removes a member; whether it was there.
    pub fn remove_returning(&self, member: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(one(member).map(ScoredSetOp::RemoveReturning))
    }

    /// `ZREM`: removes members.
    pub fn remove_many(&self, members: impl IntoIterator<Item = impl IntoValue>) -> S::Void {
        self.0.issue_many(many(members), ScoredSetOp::Remove)
    }

    /// `ZREM.RETURNING`: removes members; how many were there.
    pub fn remove_many_returning(
        &self,
        members: impl IntoIterator<Item = impl IntoValue>,
    ) -> AnswerIn<S, u64> {
        self.0.read_many(many(members), ScoredSetOp::RemoveReturning, decode::count())
    }

    /// `ZINCRBY`: adds to a member's score, which is 0 where it is not in.
    pub fn increment(&self, member: impl IntoValue, by: f64) -> S::Void {
        self.0.issue_checked(member.into_value().map(|member| ScoredSetOp::Increment { by, member }))
    }

    /// `ZINCRBY.RETURNING`: adds to a member's score; the sum.
    pub fn increment_returning(&self, member: impl IntoValue, by: f64) -> AnswerIn<S, f64> {
        self.0.run_checked(member.into_value().map(|member| ScoredSetOp::IncrementReturning { by, member }))
    }

    /// `ZSCORE`: a member's score, if it is in.
    pub fn score(&self, member: impl IntoValue) -> AnswerIn<S, Option<f64>> {
        self.0.run_checked(member.into_value().map(ScoredSetOp::Score))
    }

    /// `ZRANK`: a member's position from the lowest score, if it is in.
    pub fn rank(&self, member: impl IntoValue) -> AnswerIn<S, Option<u64>> {
        self.0.run_checked(member.into_value().map(ScoredSetOp::Rank))
    }

    /// `ZCARD`: how many members.
    pub fn len(&self) -> AnswerIn<S, u64> {
        self.0.run(ScoredSetOp::Len)
    }

    /// `ZRANGE`: the members from position `start` to `stop`, both included, the lowest score first; negative
    /// positions count from the highest.
    pub fn range<V: FromValue>(&self, start: i64, stop: i64) -> AnswerIn<S, Vec<V>> {
        self.0.read(ScoredSetOp::Range { start, stop, reverse: false, scores: false }, decode::each())
    }

    /// `ZRANGE ... WITHSCORES`: the same with their scores.
    pub fn range_with_scores<V: FromValue>(&self, start: i64, stop: i64) -> AnswerIn<S, Pairs<V, f64>> {
        self.0.read(ScoredSetOp::Range { start, stop, reverse: false, scores: true }, decode::scored())
    }

    /// `ZRANGE ... REV`: the members from position `start` to `stop`, both included, the highest score first;
    /// negative positions count from the lowest.
    pub fn range_reversed<V: FromValue>(&self, start: i64, stop: i64) -> AnswerIn<S, Vec<V>> {
        self.0.read(ScoredSetOp::Range { start, stop, reverse: true, scores: false }, decode::each())
    }

    /// `ZRANGE ... REV WITHSCORES`: the same with their scores.
    pub fn range_reversed_with_scores<V: FromValue>(
        &self,
        start: i64,
        stop: i64,
    ) -> AnswerIn<S, Pairs<V, f64>> {
        self.0.read(ScoredSetOp::Range { start, stop, reverse: true, scores: true }, decode::scored())
    }

    /// `ZRANGE 0 count-1 REV WITHSCORES`: the members with the highest scores, best first.
    pub fn highest<V: FromValue>(&self, count: u32) -> AnswerIn<S, Pairs<V, f64>> {
        // A stop before the start is an empty range.
        let (start, stop) = if count == 0 { (1, 0) } else { (0, i64::from(count) - 1) };
        self.range_reversed_with_scores(start, stop)
    }

    /// `ZRANGEBYSCORE ... WITHSCORES`: the members whose scores lie between two bounds, the lowest first.
    pub fn between<V: FromValue>(&self, min: ScoreBound, max: ScoreBound) -> AnswerIn<S, Pairs<V, f64>> {
        self.0.read(ScoredSetOp::RangeByScore { min, max, scores: true }, decode::scored())
    }

    /// `ZRANGEBYSCORE`: the same without their scores.
    pub fn members_between<V: FromValue>(&self, min: ScoreBound, max: ScoreBound) -> AnswerIn<S, Vec<V>> {
        self.0.read(ScoredSetOp::RangeByScore { min, max, scores: false }, decode::each())
    }

    /// `ZCOUNT`: how many members have scores between two bounds.
    pub fn count(&self, min: ScoreBound, max: ScoreBound) -> AnswerIn<S, u64> {
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
    pub fn add(&self, member: impl IntoValue, score: f64) -> S::Void {
        let capacity = self.capacity;
        self.record.issue_checked(member.into_value().map(|member| TopKOp::Add { capacity, score, member }))
    }

    /// `TOPK.MAX`: the best member and its score, if there is any.
    pub fn max<V: FromValue>(&self) -> AnswerIn<S, Option<(V, f64)>> {
        self.record.read(TopKOp::Max, decode::first_scored())
    }

    /// `TOPK.LIST`: all that are kept with their scores, best first.
    pub fn list<V: FromValue>(&self) -> AnswerIn<S, Pairs<V, f64>> {
        self.best(u64::from(self.capacity))
    }

    /// `TOPK.LIST`: the best `count` with their scores, best first.
    pub fn best<V: FromValue>(&self, count: u64) -> AnswerIn<S, Pairs<V, f64>> {
        self.record.read(TopKOp::List { count }, decode::scored())
    }

    /// `TOPK.COUNT`: how many are kept.
    pub fn count(&self) -> AnswerIn<S, u64> {
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
    pub fn count(&self) -> AnswerIn<S, u64> {
        self.0.run(SummaryBagOp::Count)
    }

    /// `BAG.SUM`: their sum, 0 if there are none.
    pub fn sum(&self) -> AnswerIn<S, f64> {
        self.0.run(SummaryBagOp::Sum)
    }

    /// `BAG.MEAN`: their mean, if there are any.
    pub fn mean(&self) -> AnswerIn<S, Option<f64>> {
        self.0.run(SummaryBagOp::Mean)
    }

    /// `BAG.MIN`: the least, if there are any.
    pub fn min(&self) -> AnswerIn<S, Option<f64>> {
        self.0.run(SummaryBagOp::Min)
    }

    /// `BAG.MAX`: the greatest, if there are any.
    pub fn max(&self) -> AnswerIn<S, Option<f64>> {
        self.0.run(SummaryBagOp::Max)
    }

    /// `BAG.SUMMARY`: all four at once.
    pub fn summary(&self) -> AnswerIn<S, Summary> {
        self.0.run(SummaryBagOp::Summary)
    }
}
