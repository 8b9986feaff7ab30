//! What an attempt has undone at one shard, and on which records (N2, N4 of `docs/nesting.md`).
//!
//! Each message names all that is undone, and an attempt may have very many calls. So what is news is told apart without a look at
//! the calls, and those of a range are found by their numbers: each is looked at once, however many messages say that it is undone.
//!
//! Invariant: `all` has the numbers of `ranges`, and no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use claret_types::Bytes;

use crate::ids::CallNo;
use crate::message::Undone;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Undoing {
    /// As the coordinator told of them, in order.
    ranges: Vec<Undone>,
    /// All numbers in them: ranges in order that touch nowhere.
    all: Vec<Undone>,
    /// The records of calls that came with an execute and were taken in. A key is large, and many calls have one.
    came: BTreeMap<CallNo, Arc<Bytes>>,
}

/// What was not known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// How many ranges it is.
    pub(crate) ranges: usize,
    /// Numbers of calls that were not undone before.
    pub(crate) fresh: Vec<Undone>,
}

impl Undoing {
    /// Whether a call is undone. O(log ranges).
    pub(crate) fn has(&self, no: CallNo) -> bool {
        let behind = self.all.partition_point(|range| range.from <= no);
        behind > 0 && self.all[behind - 1].has(no)
    }

    /// As the coordinator told of them.
    pub(crate) fn ranges(&self) -> &[Undone] {
        &self.ranges
    }

    /// Takes note of what is news, in place of what is within it: the numbers that were not undone before. `None`: none of it is
    /// news. O(ranges, times their logarithm).
    pub(crate) fn note(&mut self, told: &[Undone]) -> Option<News> {
        let is_known = |range: &&Undone| self.ranges.binary_search_by_key(&place(range), place).is_ok();
        let mut news: Vec<Undone> = told.iter().filter(|range| !is_known(range)).copied().collect();
        if news.is_empty() {
            return None; // Mostly: each message says it again.
        }
        news.sort_unstable_by_key(place);
        news.dedup();
        // How far those reach that begin no later.
        let mut reached = CallNo(0);
        let mut reach: Vec<CallNo> = Vec::with_capacity(news.len());
        for range in &news {
            reached = reached.max(range.to);
            reach.push(reached);
        }
        self.ranges.retain(|old| {
            let behind = news.partition_point(|new| new.from <= old.from);
            behind == 0 || reach[behind - 1] < old.to
        });
        let ranges = news.len();
        self.ranges.extend(news);
        self.ranges.sort_unstable_by_key(place);
        let all = joined(&self.ranges);
        let fresh = all.iter().flat_map(|range| without(*range, &self.all)).collect();
        self.all = all;
        Some(News { ranges, fresh })
    }

    /// Calls for this record were taken in, or are here. All of them have one copy of its key.
    pub(crate) fn note_calls(&mut self, key: &Bytes, numbers: impl Iterator<Item = CallNo>) {
        let key = Arc::new(key.clone());
        self.came.extend(numbers.map(|no| (no, Arc::clone(&key))));
    }

    /// The calls with these numbers, by their records. O(these calls).
    pub(crate) fn calls_among(&self, numbers: &[Undone]) -> BTreeMap<Arc<Bytes>, Vec<CallNo>> {
        let mut calls: BTreeMap<Arc<Bytes>, Vec<CallNo>> = BTreeMap::new();
        for range in numbers {
            for (no, key) in self.came.range(range.from..range.to) {
                calls.entry(Arc::clone(key)).or_default().push(*no);
            }
        }
        calls
    }
}

fn place(range: &Undone) -> (CallNo, CallNo) {
    (range.from, range.to)
}

/// Ranges in order, of which those that meet are one.
fn joined(ranges: &[Undone]) -> Vec<Undone> {
    let mut all: Vec<Undone> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.from <= last.to => last.to = last.to.max(range.to),
            _ => all.push(*range),
        }
    }
    all
}

/// What is left of a range without these, which are in order.
fn without(range: Undone, known: &[Undone]) -> Vec<Undone> {
    let mut left = Vec::new();
    let mut from = range.from;
    let first = known.partition_point(|it| it.to <= range.from);
    for it in known[first..].iter().take_while(|it| it.from < range.to) {
        if from < it.from {
            left.push(Undone { from, to: it.from });
        }
        from = from.max(it.to);
    }
    if from < range.to {
        left.push(Undone { from, to: range.to });
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(of: &[(u32, u32)]) -> Vec<Undone> {
        of.iter().map(|(from, to)| Undone { from: CallNo(*from), to: CallNo(*to) }).collect()
    }

    fn fresh(undoing: &mut Undoing, told: &[(u32, u32)]) -> Option<Vec<Undone>> {
        undoing.note(&ranges(told)).map(|news| news.fresh)
    }

    #[test]
    fn what_is_news_is_told_apart() {
        let mut undoing = Undoing::default();
        assert_eq!(fresh(&mut undoing, &[(5, 7), (1, 3)]), Some(ranges(&[(1, 3), (5, 7)])));
        assert_eq!(fresh(&mut undoing, &[(1, 3), (5, 7)]), None);
        assert_eq!(fresh(&mut undoing, &[(5, 6)]), Some(Vec::new()), "it is within another one");
        assert_eq!(undoing.ranges(), ranges(&[(1, 3), (5, 6), (5, 7)]));
        assert_eq!(fresh(&mut undoing, &[(2, 9)]), Some(ranges(&[(3, 5), (7, 9)])));
        assert_eq!(undoing.ranges(), ranges(&[(1, 3), (2, 9)]), "those within it are gone");
        let undone: Vec<u32> = (0..12).filter(|no| undoing.has(CallNo(*no))).collect();
        assert_eq!(undone, (1..9).collect::<Vec<_>>());
        assert_eq!(fresh(&mut undoing, &[(0, 20), (4, 6)]), Some(ranges(&[(0, 1), (9, 20)])));
        assert_eq!(
            undoing.ranges(),
            ranges(&[(0, 20), (4, 6)]),
            "what is told together stays: its ends count"
        );
    }

    #[test]
    fn calls_are_found_by_their_numbers() {
        let mut undoing = Undoing::default();
        for (numbers, key) in [(&[1, 3][..], "a"), (&[2], "b"), (&[9], "a")] {
            undoing.note_calls(&key.into(), numbers.iter().map(|no| CallNo(*no)));
        }
        let found = undoing.calls_among(&ranges(&[(2, 4), (8, 9)]));
        let key = |name: &str| Arc::new(Bytes::from(name));
        assert_eq!(found, BTreeMap::from([(key("a"), vec![CallNo(3)]), (key("b"), vec![CallNo(2)])]));
        assert_eq!(undoing.calls_among(&ranges(&[(1, 10)]))[&key("a")], [1, 3, 9].map(CallNo));
        // Bug: each call had a copy of the key, and a message with a million of them and one long key took all memory there is.
        assert!(Arc::ptr_eq(&undoing.came[&CallNo(1)], &undoing.came[&CallNo(3)]));
    }
}
