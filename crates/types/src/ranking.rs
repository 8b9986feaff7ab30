//! Members by score: the content of a sorted set. ScoredSet and TopK use it.
//!
//! Invariant: `scores` and `order` hold the same pairs. Scores are never NaN, and zero has one sign.
//! Members of one score are in bytewise order, as in Redis. Only `order` is ever iterated. Of a partial state it holds some
//! members, and the number of the others; a position counts those below the ones that are here.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use hashbrown::HashMap;

use crate::Bytes;
use crate::exact::one_zero;

/// A score: a float that is not NaN, in its order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score(f64);

impl Score {
    pub(crate) fn new(value: f64) -> Self {
        debug_assert!(!value.is_nan(), "NaN has no place in an order");
        Score(one_zero(value))
    }

    pub(crate) fn value(self) -> f64 {
        self.0
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

/// A member at its place.
pub(crate) type Entry = (Score, Bytes);

/// Members in ascending order of score, then bytewise.
#[derive(Clone, Default)]
pub struct Ranking {
    scores: HashMap<Bytes, Score, foldhash::fast::FixedState>,
    order: BTreeSet<Entry>,
    /// Of those elsewhere, how many are below all that are here.
    below: usize,
    /// Members that are not here; none in a whole ranking.
    elsewhere: usize,
    /// Of these, how many have scores within the bounds that the operation asks about.
    counted: usize,
}

impl Ranking {
    /// A part of a scored set: some of its members, how many of the others are `below` all these, and how many others
    /// there are in all.
    ///
    /// What it must hold of a [`ScoredSet`](crate::ScoredSet): of the members that the operation names, and of those
    /// that its owner's effects score, shift or remove, those that are in. For `ZCARD` that is none but what the effects
    /// name. Further:
    ///
    /// | operation | also |
    /// |---|---|
    /// | `ZRANGEBYSCORE` | all members with such scores |
    /// | `ZCOUNT` | how many of the others have such scores ([`Ranking::counting`]), or these members |
    /// | `ZRANGE` without effects | the members at these positions: the answer of Redis, and `below` counts what is below its lowest |
    /// | `ZRANK` without effects | `below` is the answer of Redis, and the member alone is here |
    /// | `ZRANGE`, `ZRANK` after effects | all members: effects move positions |
    ///
    /// Except for these two operations `below` has no meaning, and is 0. With all members it is the whole set. What
    /// [`TopK`](crate::TopK) needs stands at [`Best::partial`](crate::Best::partial).
    pub fn partial(members: impl IntoIterator<Item = (Bytes, f64)>, below: usize, elsewhere: usize) -> Self {
        debug_assert!(below <= elsewhere, "those below are elsewhere");
        Ranking { below, elsewhere, ..members.into_iter().collect() }
    }

    /// Of those that are not here, so many have scores within the bounds that a `ZCOUNT` asks about.
    pub fn counting(self, counted: usize) -> Self {
        debug_assert!(counted <= self.elsewhere, "those that are counted are elsewhere");
        Ranking { counted, ..self }
    }

    /// How many members have scores between two bounds, of those that are here and of those that a host counted for these bounds.
    pub(crate) fn count_between(&self, min: ScoreBound, max: ScoreBound) -> usize {
        self.between(min, max).count() + self.counted
    }

    /// How many members. O(1).
    pub fn len(&self) -> usize {
        self.scores.len() + self.elsewhere
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Of all members only these, and how many others there are.
    pub(crate) fn only<'a>(&self, members: impl IntoIterator<Item = &'a Bytes>) -> Self {
        let members = members.into_iter();
        let here: Vec<_> = members.filter_map(|it| Some((it.clone(), self.score(it)?))).collect();
        let elsewhere = self.len() - here.len();
        Ranking::partial(here, 0, elsewhere)
    }

    /// A member's score. O(1).
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).map(|score| score.value())
    }

    /// All members that are here with their scores, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> {
        self.order.iter().map(|(score, member)| (member, score.value()))
    }

    /// Gives a member a score (not NaN), or takes it out; its score before. O(log n).
    pub fn set(&mut self, member: Bytes, score: Option<f64>) -> Option<f64> {
        match score {
            Some(score) => self.put(member, Score::new(score)),
            None => self.take(&member),
        }
    }

    fn put(&mut self, member: Bytes, score: Score) -> Option<f64> {
        let Some(held) = self.scores.get_mut(&member) else {
            self.scores.insert(member.clone(), score);
            self.order.insert((score, member));
            return None;
        };
        let before = std::mem::replace(held, score);
        if before != score {
            let mut entry = (before, member);
            self.order.remove(&entry);
            entry.0 = score;
            self.order.insert(entry);
        }
        Some(before.value())
    }

    fn take(&mut self, member: &Bytes) -> Option<f64> {
        let (member, score) = self.scores.remove_entry(member)?;
        self.order.remove(&(score, member));
        Some(score.value())
    }

    /// The member at the low end. O(log n).
    pub(crate) fn lowest(&self) -> Option<&Entry> {
        self.order.first()
    }

    /// The member at the high end. O(log n).
    pub(crate) fn highest(&self) -> Option<&Entry> {
        self.order.last()
    }

    /// Members by position, counted from the low end, or from the high end when `reverse`. O(log n + d +
    /// length), d the distance from the nearer end.
    ///
    /// # Panics
    /// When one of them is elsewhere.
    pub(crate) fn slice(&self, span: Range<usize>, reverse: bool) -> Vec<&Entry> {
        if span.is_empty() {
            return Vec::new();
        }
        let ahead = if reverse { self.elsewhere - self.below } else { self.below };
        let (from, to) = (span.start.checked_sub(ahead), span.end.checked_sub(ahead));
        let here = from.zip(to).filter(|(_, to)| *to <= self.order.len());
        let span = here.map(|(from, to)| from..to).expect("the partial state holds these positions");
        let (count, beyond) = (span.len(), self.order.len() - span.end);
        let walk_up = reverse != (span.start <= beyond);
        let skipped = span.start.min(beyond);
        let mut entries: Vec<&Entry> = if walk_up {
            self.order.iter().skip(skipped).take(count).collect()
        } else {
            self.order.iter().rev().skip(skipped).take(count).collect()
        };
        if walk_up == reverse {
            entries.reverse();
        }
        entries
    }

    /// Members with scores between two bounds, ascending. O(log n) to the first.
    pub(crate) fn between(&self, min: ScoreBound, max: ScoreBound) -> impl Iterator<Item = &Entry> {
        let from = min.lower_cut().map(|score| (score, Bytes::default()));
        let to = max.upper_cut().map(|score| (score, Bytes::default()));
        let found = match (from, to) {
            (None, _) => None,
            (Some(from), None) => Some(self.order.range(from..)),
            (Some(from), Some(to)) => (from <= to).then(|| self.order.range(from..to)),
        };
        found.into_iter().flatten()
    }

    /// A member's position from the low end. O(log n + d), d the distance from the nearer end.
    pub(crate) fn rank(&self, member: &Bytes) -> Option<usize> {
        let entry = (*self.scores.get(member)?, member.clone());
        let mut below = self.order.range(..&entry);
        let mut from_here = self.order.range(&entry..);
        let mut walked = 0;
        loop {
            if below.next().is_none() {
                return Some(self.below + walked);
            }
            if from_here.next().is_none() {
                return Some(self.below + self.order.len() - walked);
            }
            walked += 1;
        }
    }
}

impl PartialEq for Ranking {
    fn eq(&self, other: &Self) -> bool {
        let beside = |it: &Self| (it.below, it.elsewhere, it.counted);
        self.order == other.order && beside(self) == beside(other)
    }
}

impl fmt::Debug for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_map();
        shown.entries(self.iter());
        if self.elsewhere > 0 {
            shown.entry(&format_args!("below, elsewhere"), &(self.below, self.elsewhere));
        }
        shown.finish()
    }
}

impl FromIterator<(Bytes, f64)> for Ranking {
    fn from_iter<I: IntoIterator<Item = (Bytes, f64)>>(pairs: I) -> Self {
        let mut ranking = Ranking::default();
        for (member, score) in pairs {
            ranking.set(member, Some(score));
        }
        ranking
    }
}

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// The score itself is in the range.
    Included(f64),
    /// The score itself is not; `(5` in Redis's notation.
    Excluded(f64),
}

impl ScoreBound {
    /// The score that is the bound.
    pub fn score(self) -> f64 {
        match self {
            ScoreBound::Included(score) | ScoreBound::Excluded(score) => score,
        }
    }

    /// The least score that a range starting here holds; `None` where there is none.
    fn lower_cut(self) -> Option<Score> {
        match self {
            ScoreBound::Included(score) => Some(Score::new(score)),
            ScoreBound::Excluded(f64::INFINITY) => None,
            ScoreBound::Excluded(score) => Some(Score::new(one_zero(score).next_up())),
        }
    }

    /// The least score above a range that ends here; `None` where there is none.
    fn upper_cut(self) -> Option<Score> {
        match self {
            ScoreBound::Excluded(score) => Some(Score::new(score)),
            ScoreBound::Included(f64::INFINITY) => None,
            ScoreBound::Included(score) => Some(Score::new(one_zero(score).next_up())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(pairs: &[(&str, f64)]) -> Ranking {
        pairs.iter().map(|(member, score)| (Bytes::from(*member), *score)).collect()
    }

    fn names<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> String {
        entries.into_iter().map(|(_, member)| member.to_string()).collect()
    }

    #[test]
    fn slices_agree_from_both_ends_and_in_both_directions() {
        let five = ranking(&[("e", 5.0), ("a", 1.0), ("c", 3.0), ("b", 2.0), ("d", 4.0)]);
        let (up, down) = ("abcde", "edcba");
        for start in 0..5 {
            for end in start..=5 {
                assert_eq!(names(five.slice(start..end, false)), up[start..end]);
                assert_eq!(names(five.slice(start..end, true)), down[start..end]);
            }
        }
    }

    #[test]
    fn bounds_include_and_exclude_up_to_the_infinities() {
        use ScoreBound::{Excluded, Included};
        let inf = f64::INFINITY;
        let five = ranking(&[("n", -inf), ("a", 0.0), ("b", 1.0), ("c", 1.0), ("p", inf)]);
        let between = |min, max| names(five.between(min, max));
        assert_eq!(between(Included(-inf), Included(inf)), "nabcp");
        assert_eq!(between(Excluded(-inf), Excluded(inf)), "abc");
        assert_eq!(between(Excluded(-0.0), Included(1.0)), "bc");
        assert_eq!(between(Included(-0.0), Excluded(1.0)), "a");
        assert_eq!(between(Included(inf), Included(inf)), "p");
        assert_eq!(between(Excluded(inf), Included(inf)), "");
        assert_eq!(between(Included(-inf), Excluded(-inf)), "");
        assert_eq!(between(Included(-inf), Included(-inf)), "n");
        assert_eq!(between(Included(1.0), Included(0.0)), "");
        assert_eq!(between(Excluded(1.0), Excluded(1.0)), "");
    }

    #[test]
    fn a_rank_counts_what_is_below() {
        let members = ranking(&[("a", 1.0), ("b", 2.0), ("bb", 2.0), ("c", 3.0), ("d", 4.0)]);
        let ranks = ["a", "b", "bb", "c", "d", "z"].map(|member| members.rank(&member.into()));
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
    }

    #[test]
    fn a_new_score_moves_the_member() {
        let mut members = ranking(&[("a", 1.0), ("b", 2.0)]);
        assert_eq!(members.set("a".into(), Some(3.0)), Some(1.0));
        assert_eq!(names(members.slice(0..2, false)), "ba");
        assert_eq!(members.set("b".into(), None), Some(2.0));
        assert_eq!(members, ranking(&[("a", 3.0)]));
        assert_eq!(members.set("b".into(), None), None);
    }
}
