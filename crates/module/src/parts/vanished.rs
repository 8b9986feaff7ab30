//! Changes that the shard does not know yet: records that expire, are evicted or flushed (trap 18), and rights that
//! change.

use std::collections::BTreeSet;

use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

/// Something that the shard has to hear of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// This record is gone.
    Record(Bytes),
    /// All are.
    Everything,
    /// An access control list changes: whatever has not voted is tried again, and asked again.
    Rights,
    /// This record changed, for which somebody waits.
    Awaited(Bytes),
}

/// What the shard was not told yet.
pub(crate) type Changes = BTreeSet<Change>;

impl Change {
    pub(crate) fn record(self) -> Option<Bytes> {
        match self {
            Change::Record(key) => Some(key),
            Change::Everything | Change::Rights | Change::Awaited(_) => None,
        }
    }

    /// Which record changed, if somebody waits for that.
    pub(crate) fn awaited(&self) -> Option<Bytes> {
        match self {
            Change::Awaited(key) => Some(key.clone()),
            Change::Record(_) | Change::Everything | Change::Rights => None,
        }
    }
}

/// Held keys that are going to expire, by the server's own clock: one that is due is touched before anything else in an
/// entry, so that it does not vanish behind a decision about it.
#[derive(Default)]
pub(crate) struct Expiring {
    /// With the milliseconds of the day of their ends.
    by_end: BTreeSet<(i64, Bytes)>,
    /// At so many, those are forgotten that nobody holds.
    prune_at: usize,
}

/// Fewer are kept whether they are held or not.
const KEPT_MIN: usize = 1_024;

impl Expiring {
    /// A key that is about to be decided on expires at this millisecond.
    pub(crate) fn note(&mut self, key: &Bytes, end: i64) {
        self.by_end.insert((end, key.clone()));
    }

    /// Whether none is noted.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_end.is_empty()
    }

    /// Whether the key is among those whose time has come.
    pub(crate) fn is_ripe(&self, now: i64, key: &Bytes) -> bool {
        self.by_end.range(..first_after(now)).any(|(_, ripe)| ripe == key)
    }

    /// Takes those whose time has come and that somebody holds.
    pub(crate) fn take_ripe(&mut self, now: i64, is_held: impl Fn(&Bytes) -> bool) -> Vec<Bytes> {
        let is_ripe = |(end, _): &&(i64, Bytes)| *end <= now;
        let next = if is_planted(Bug::LatestEndCounts) { self.by_end.last() } else { self.by_end.first() };
        if next.filter(is_ripe).is_none() && self.by_end.len() <= self.prune_at {
            return Vec::new();
        }
        let later = self.by_end.split_off(&first_after(now));
        let ripe = std::mem::replace(&mut self.by_end, later);
        if self.by_end.len() > self.prune_at {
            self.by_end.retain(|(_, key)| is_held(key));
            self.prune_at = KEPT_MIN.max(2 * self.by_end.len());
        }
        let most = if is_planted(Bug::OneExpiresAtATime) { 1 } else { usize::MAX };
        ripe.into_iter().take(most).map(|(_, key)| key).filter(|key| is_held(key)).collect()
    }
}

/// The first of those whose time has not come, in milliseconds.
fn first_after(now: i64) -> (i64, Bytes) {
    (now + i64::from(!is_planted(Bug::GoneForAMillisecond)), Bytes::default())
}

#[cfg(test)]
mod tests {
    use claret_types::Bytes;

    use super::{Expiring, KEPT_MIN};

    fn key(name: &str) -> Bytes {
        Bytes::from(name)
    }

    #[test]
    fn a_key_is_ripe_in_the_millisecond_of_its_end_and_taken_once() {
        let mut expiring = Expiring::default();
        expiring.note(&key("a"), 10);
        expiring.note(&key("b"), 11);
        assert!(!expiring.is_ripe(9, &key("a")) && expiring.is_ripe(10, &key("a")));
        assert!(!expiring.is_ripe(10, &key("b")));
        assert_eq!(expiring.take_ripe(9, |_| true), [] as [Bytes; 0]);
        assert_eq!(expiring.take_ripe(10, |_| true), [key("a")]);
        assert_eq!(expiring.take_ripe(10, |_| true), [] as [Bytes; 0]);
        assert_eq!(expiring.take_ripe(11, |_| false), [] as [Bytes; 0], "nobody holds it");
        assert_eq!(expiring.take_ripe(11, |_| true), [] as [Bytes; 0], "and it is forgotten");
    }

    #[test]
    fn keys_that_end_together_are_taken_together() {
        let mut expiring = Expiring::default();
        for (name, end) in [("a", 10), ("b", 10), ("c", 9), ("d", 11)] {
            expiring.note(&key(name), end);
        }
        assert_eq!(expiring.take_ripe(10, |_| true), ["c", "a", "b"].map(key));
        assert_eq!(expiring.take_ripe(11, |_| true), [key("d")]);
    }

    #[test]
    fn what_nobody_holds_is_forgotten_before_it_is_much() {
        let mut expiring = Expiring::default();
        for number in 0..10 * KEPT_MIN {
            expiring.note(&key(&number.to_string()), 1_000_000);
            expiring.take_ripe(0, |_| false);
            assert!(expiring.by_end.len() <= 2 * KEPT_MIN, "{}", expiring.by_end.len());
        }
    }
}
