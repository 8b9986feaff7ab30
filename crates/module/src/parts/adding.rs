//! What a frame adds to counters. A hot counter is added to by many transactions of one frame: their amounts become one
//! sum, and the server gets one command for it. Nobody sees the counter in between: what is kept back for a key is
//! carried out before anything else is done to it or read of it, and all of it before anybody else gets his turn.

use claret_types::{Bytes, Counter, CounterEffect, Effect};
use smallvec::SmallVec;

/// So many counters are kept in mind, those that were added to last: enough for what is hot, and found at a glance.
const KEPT_MAX: usize = 4;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Adding {
    /// Whether a frame is being carried out; otherwise nothing is kept.
    is_on: bool,
    /// The one that was added to last is the last.
    sums: SmallVec<[(Bytes, i64); KEPT_MAX]>,
}

/// What to do with an amount.
#[derive(Debug, PartialEq)]
pub(crate) enum Kept {
    /// It is part of a sum.
    Here,
    /// The same, and a sum has to leave for it: it is to be carried out.
    InPlaceOf(Bytes, i64),
    /// It is to be carried out, behind what is kept for its key.
    No,
}

impl Adding {
    pub(crate) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Nothing is kept any more: all that is to be carried out.
    pub(crate) fn end(&mut self) -> SmallVec<[(Bytes, i64); KEPT_MAX]> {
        self.is_on = false;
        std::mem::take(&mut self.sums)
    }

    /// Keeps an amount, if there is a frame.
    pub(crate) fn keep(&mut self, key: &Bytes, amount: i64) -> Kept {
        if !self.is_on {
            return Kept::No;
        }
        if let Some(at) = self.place(key) {
            // Sums may be larger than what any of them was allowed to come to.
            let Some(sum) = self.sums[at].1.checked_add(amount) else { return Kept::No };
            self.sums[at].1 = sum;
            self.sums[at..].rotate_left(1);
            return Kept::Here;
        }
        let oldest = (self.sums.len() == KEPT_MAX).then(|| self.sums.remove(0));
        self.sums.push((key.clone(), amount));
        oldest.map_or(Kept::Here, |(key, sum)| Kept::InPlaceOf(key, sum))
    }

    /// Takes what is kept for a key.
    #[inline]
    pub(crate) fn take(&mut self, key: &Bytes) -> Option<i64> {
        if self.sums.is_empty() {
            return None; // Mostly: it is asked for each operation.
        }
        self.place(key).map(|at| self.sums.remove(at).1)
    }

    fn place(&self, key: &Bytes) -> Option<usize> {
        self.sums.iter().rposition(|(known, _)| known == key)
    }
}

/// What these effects add together, if adding is all they do.
pub(crate) fn amount_of(effects: &[&Effect]) -> Option<i64> {
    let amount = |effect: &&Effect| match effect.downcast::<Counter>()? {
        CounterEffect::Add(amount) => Some(*amount),
        CounterEffect::Restore(_) => None,
    };
    effects.iter().try_fold(0_i64, |sum, effect| sum.checked_add(amount(effect)?))
}

/// The effect of a sum.
pub(crate) fn effect_of(sum: i64) -> Effect {
    Effect::new::<Counter>(CounterEffect::Add(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Bytes {
        Bytes::from(format!("k{number}"))
    }

    #[test]
    fn amounts_of_one_counter_become_one_sum() {
        let mut adding = Adding::default();
        assert_eq!(adding.keep(&key(1), 5), Kept::No, "there is no frame");
        adding.begin();
        for (number, amount) in [(1, 5), (2, 7), (1, -2)] {
            assert_eq!(adding.keep(&key(number), amount), Kept::Here);
        }
        assert_eq!((adding.take(&key(2)), adding.take(&key(2))), (Some(7), None));
        assert_eq!(adding.end()[..], [(key(1), 3)]);
        assert_eq!(adding.keep(&key(1), 5), Kept::No, "it is over");
        adding.begin();
        assert!(adding.end().is_empty(), "nothing stays from one frame to the next");
    }

    #[test]
    fn the_counter_that_rested_longest_leaves_first() {
        let mut adding = Adding::default();
        adding.begin();
        (0..KEPT_MAX).for_each(|number| assert_eq!(adding.keep(&key(number), 1), Kept::Here));
        assert_eq!(adding.keep(&key(0), 1), Kept::Here);
        assert_eq!(adding.keep(&key(KEPT_MAX), 1), Kept::InPlaceOf(key(1), 1));
        assert_eq!(adding.take(&key(0)), Some(2));
    }

    #[test]
    fn a_sum_that_is_too_large_is_none() {
        let mut adding = Adding::default();
        adding.begin();
        assert_eq!(adding.keep(&key(1), i64::MAX), Kept::Here);
        assert_eq!(adding.keep(&key(1), 1), Kept::No);
        assert_eq!(adding.take(&key(1)), Some(i64::MAX), "it is carried out first");
        let both = [effect_of(i64::MAX), effect_of(1)];
        assert_eq!(amount_of(&[&both[0], &both[1]]), None);
        assert_eq!(amount_of(&[&both[0]]), Some(i64::MAX));
    }
}
