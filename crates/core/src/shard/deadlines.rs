//! When which attempt's time is over: its lease, or the pause before it asks the others again.
//!
//! Leases last equally long and are begun and renewed as time goes on. So they stand in a queue, and most are gone from its
//! end, or are skipped at its front, without a search. What is due out of order stands in a tree.
//!
//! Invariant: an attempt that has a deadline stands here with it. In the queue also stand times that do not run any
//! more: never at its front, and not many more than attempts were open when the last one was put in.

use std::collections::{BTreeSet, VecDeque};

use crate::ids::{AttemptId, Time};

/// So many times that do not run any more may stand in the queue beside twice the open attempts.
const OVER_MAX: usize = 64;

type Due = (Time, AttemptId);

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines {
    queue: VecDeque<Due>,
    others: BTreeSet<Due>,
}

impl Deadlines {
    /// The first time.
    pub(super) fn next(&self) -> Option<Time> {
        let others = self.others.first().map(|(due, _)| *due);
        self.queue.front().map(|(due, _)| *due).into_iter().chain(others).min()
    }

    /// Begins an attempt's time. `open`: how many attempts there are.
    pub(super) fn insert(&mut self, due: Due, open: usize, runs: impl Fn(&Due) -> bool) {
        if self.queue.back().is_some_and(|(last, _)| *last > due.0) {
            self.others.insert(due);
            return;
        }
        self.queue.push_back(due);
        if self.queue.len() > 2 * open + OVER_MAX {
            self.queue.retain(runs); // It is half of them at least: amortized O(1).
        }
    }

    /// An attempt's time does not run any more. `runs` says so already.
    pub(super) fn remove(&mut self, due: Due, runs: impl Fn(&Due) -> bool) {
        if !self.others.is_empty() {
            self.others.remove(&due);
        }
        if self.queue.back() == Some(&due) {
            self.queue.pop_back(); // Mostly, if it is over in the input in which it began.
        }
        self.skip(runs);
    }

    fn skip(&mut self, runs: impl Fn(&Due) -> bool) {
        while self.queue.front().is_some_and(|due| !runs(due)) {
            self.queue.pop_front();
        }
    }

    /// Takes out the first attempt whose time is over, the smallest of several.
    pub(super) fn pop_due(&mut self, now: Time, runs: impl Fn(&Due) -> bool) -> Option<AttemptId> {
        let first = self.next().filter(|due| *due <= now)?;
        while self.queue.front().is_some_and(|(due, _)| *due == first) {
            self.others.extend(self.queue.pop_front().filter(&runs));
        }
        self.skip(runs);
        self.others.pop_first().map(|(_, attempt)| attempt)
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.others.clear();
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self, due: &Due) {
        assert!(self.others.contains(due) || self.queue.contains(due), "{} never has its time over", due.1);
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check_all(&self, runs: impl Fn(&Due) -> bool) {
        assert!(self.queue.front().is_none_or(&runs), "a time is first that does not run");
        assert!(self.others.iter().all(&runs), "a time does not run and is here");
        assert!(self.queue.iter().is_sorted_by_key(|(due, _)| *due), "times are out of order");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ids::{Sequence, SessionId, TxId};

    /// Times begin, are renewed, end and are over as if all stood in order; though the clock goes back at times.
    #[test]
    fn times_are_over_in_their_order() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut deadlines, mut of) = (Deadlines::default(), BTreeMap::<AttemptId, Time>::new());
        let mut now = 100;
        for _ in 0..4_000 {
            let tx = TxId { session: SessionId(1), sequence: Sequence(random(200)) };
            let attempt = AttemptId { tx, attempt: 1 };
            now = now + random(4) - u64::from(random(50) == 0) * 2;
            match random(8) {
                0..6 => {
                    let again = if random(10) == 0 { random(300) } else { 100 };
                    let due = Time(now + again);
                    match of.get(&attempt).copied() {
                        Some(before) if random(2) == 0 => {
                            of.remove(&attempt);
                            deadlines.remove((before, attempt), |(due, it)| of.get(it) == Some(due));
                        }
                        Some(_) => {}
                        None => {
                            of.insert(attempt, due);
                            deadlines.insert((due, attempt), of.len(), |(due, it)| of.get(it) == Some(due));
                        }
                    }
                }
                _ => {
                    let over = of.iter().map(|(attempt, due)| (*due, *attempt)).min();
                    let over = over.filter(|(due, _)| due.0 <= now).map(|(_, attempt)| attempt);
                    let popped = deadlines.pop_due(Time(now), |(due, it)| of.get(it) == Some(due));
                    assert_eq!(popped, over);
                    if let Some(before) = over.and_then(|attempt| of.remove(&attempt)) {
                        let attempt = over.expect("it was over");
                        deadlines.remove((before, attempt), |(due, it)| of.get(it) == Some(due));
                    }
                }
            }
            assert_eq!(deadlines.next(), of.values().min().copied());
            deadlines.check_all(|(due, it)| of.get(it) == Some(due));
            of.iter().for_each(|(attempt, due)| deadlines.check(&(*due, *attempt)));
        }
    }
}
