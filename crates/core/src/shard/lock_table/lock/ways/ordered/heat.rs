//! On which records calls are ordered, where that is decided by what meets there (P87).
//!
//! Counted are calls that could be ordered and had to wait, and ordered ones that met somebody, if that was another process:
//! transactions of one process that meet leave together instead (docs/batches.md). A record for which enough were counted within
//! a period is ordered from then on, and as long as a quarter of that are in each further one.
//!
//! Records are told apart by the hashes of their keys: two that share one are ordered together.

use hashbrown::HashMap;

use crate::ids::Time;
use crate::limits::Limits;
use crate::switches::Ordered;

/// So many records are counted at a time; in a period with more, later ones are not.
const RECORDS_MAX: usize = 1 << 12;

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    met: u32,
    is_ordered: bool,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Heat {
    ordering: Ordered,
    records: HashMap<u64, Record, foldhash::fast::FixedState>,
    /// How many of them are ordered.
    ordered: usize,
    /// Every record is, whatever meets there.
    is_everywhere: bool,
    period_ends: Time,
}

impl Heat {
    /// Somebody met another process on a record.
    pub(in crate::shard::lock_table) fn note(&mut self, now: Time, limits: &Limits, hash: u64) {
        self.roll(now, limits);
        if self.records.len() >= RECORDS_MAX && !self.records.contains_key(&hash) {
            return;
        }
        let record = self.records.entry(hash).or_default();
        record.met = record.met.saturating_add(1);
        if record.met >= limits.ordered_meets_min && !record.is_ordered {
            record.is_ordered = true;
            self.ordered += 1;
        }
    }

    /// Ends a period whose time is over.
    #[inline]
    pub(crate) fn roll(&mut self, now: Time, limits: &Limits) {
        if now >= self.period_ends && !self.records.is_empty() {
            self.end_period(limits);
        }
        if now >= self.period_ends {
            self.period_ends = now.plus(limits.ordered_period_us.max(1));
        }
    }

    #[cold]
    #[expect(clippy::disallowed_methods, reason = "each by itself")]
    fn end_period(&mut self, limits: &Limits) {
        self.records.retain(|_, record| {
            record.is_ordered &= record.met >= limits.ordered_meets_min.div_ceil(4);
            record.met = 0;
            record.is_ordered
        });
        self.ordered = self.records.len();
    }

    pub(in crate::shard::lock_table) fn new(ordering: Ordered, limits: &Limits) -> Self {
        Heat {
            ordering,
            records: HashMap::default(),
            ordered: 0,
            is_everywhere: limits.ordered_meets_min == 0,
            period_ends: Time::default(),
        }
    }

    /// So many have to meet on a record from now on.
    pub(in crate::shard::lock_table) fn set_meets_min(&mut self, meets_min: u32) {
        self.is_everywhere = meets_min == 0;
    }

    /// Whether any record is ordered.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.ordered > 0 || self.is_everywhere
    }

    /// Whether calls on a record are ordered, by what meets there or anyhow.
    #[inline]
    pub(in crate::shard::lock_table) fn orders(&self, hash: u64) -> bool {
        match self.ordering {
            Ordered::Never => false,
            Ordered::Hot => self.is_ordered(hash),
            Ordered::Always => true,
        }
    }

    /// Whether calls on a record are ordered by what meets there.
    #[inline]
    pub(in crate::shard::lock_table) fn is_ordered(&self, hash: u64) -> bool {
        self.is_everywhere
            || self.ordered > 0 && self.records.get(&hash).is_some_and(|record| record.is_ordered)
    }

    /// # Panics
    /// When it is not counted how many are ordered.
    pub(in crate::shard::lock_table) fn check(&self) {
        let mut ordered = 0;
        // In any order: a count.
        for (_, record) in &self.records {
            ordered += usize::from(record.is_ordered);
        }
        assert_eq!(self.ordered, ordered, "how many records are ordered");
    }

    /// All of it, in order: for digests.
    pub(crate) fn content(&self) -> impl std::fmt::Debug + '_ {
        let mut records: Vec<_> = Vec::new();
        // In any order: sorted below.
        for (hash, record) in &self.records {
            records.push((*hash, record.met, record.is_ordered));
        }
        records.sort_unstable();
        (records, self.period_ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_ordered_while_enough_meet_there() {
        let limits = Limits { ordered_meets_min: 8, ordered_period_us: 100, ..Limits::default() };
        let mut heat = Heat::new(Ordered::Hot, &limits);
        let meet = |heat: &mut Heat, now, times| (0..times).for_each(|_| heat.note(Time(now), &limits, 1));
        meet(&mut heat, 1, 7);
        assert!(!heat.is_ordered(1), "too few");
        meet(&mut heat, 150, 7);
        assert!(!heat.is_ordered(1), "those of the last period do not count");
        meet(&mut heat, 160, 1);
        assert!(heat.is_ordered(1) && !heat.is_ordered(2) && heat.has_any());
        meet(&mut heat, 300, 2);
        heat.roll(Time(450), &limits);
        assert!(heat.is_ordered(1), "a quarter is enough to stay");
        meet(&mut heat, 460, 1);
        heat.roll(Time(700), &limits);
        assert!(!heat.is_ordered(1) && !heat.has_any());
    }

    #[test]
    fn no_more_records_are_counted_than_there_is_room_for() {
        let limits = Limits { ordered_meets_min: 1, ..Limits::default() };
        let mut heat = Heat::new(Ordered::Hot, &limits);
        (0..2 * RECORDS_MAX as u64).for_each(|hash| heat.note(Time(1), &limits, hash));
        assert_eq!(heat.ordered, RECORDS_MAX);
        assert!(heat.is_ordered(0) && !heat.is_ordered(RECORDS_MAX as u64));
    }
}
