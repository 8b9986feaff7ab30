//! What a host asks and tells about timestamps (P79, P83, P85, P86).

use claret_types::Operation;

use crate::ids::{AttemptId, ShardId, Time, Timestamp};
use crate::shard::history::Decided;
use crate::shard::key_hash;
use crate::shard::machine::Shard;

/// What is settled.
impl Shard {
    /// No later vote has a timestamp that is not larger.
    pub fn clock(&self) -> Timestamp {
        self.view().safe_time.clock()
    }

    /// The smallest clock of the shards that own keys, as far as they said, and as time tells.
    pub fn safe_time(&self) -> Timestamp {
        self.view().safe_time.of_all()
    }

    /// Whether nothing with a timestamp is present, and the clocks of all shards that own keys have passed what was.
    pub fn is_settled(&self) -> bool {
        let view = self.view();
        view.safe_time.is_settled(view.table)
    }

    /// Whether something that begins and ends at once, and may use all of a record, comes behind all that was ordered there as far
    /// as others in time are concerned (P83): all of it is settled.
    #[inline]
    pub fn is_settled_on(&self, key: &[u8]) -> bool {
        self.is_settled() || self.view().table.clocks().latest(key_hash(key)) <= self.safe_time()
    }

    /// The same for an operation: what conflicts with it is settled.
    pub fn is_settled_for(&self, key: &[u8], op: &Operation) -> bool {
        self.is_settled() || self.view().table.clock_before_op(key_hash(key), op) <= self.safe_time()
    }

    /// Time passes, and what is long ago is settled. To be said now and then; inputs about timestamps say it, too.
    pub fn pass(&mut self, now: Time) {
        let step = self.step(now);
        step.safe_time.pass(now, step.config);
    }

    /// Somebody waits until all that was ordered here is settled: raises the own clock, and asks the others for theirs, if they were
    /// not asked just now. Whether there is something to wait for.
    pub fn seek_safe_time(&mut self, now: Time) -> bool {
        let mut step = self.step(now);
        if !step.config.can_order() || step.safe_time.is_settled(step.table) {
            return false;
        }
        let used = step.table.clocks().used();
        step.safe_time.raise_clock(now, step.config, step.table, used);
        step.ask_clocks(false);
        !step.safe_time.is_settled(step.table)
    }

    /// The final timestamp of an attempt that is committed, if it was stamped and is remembered.
    pub fn final_timestamp(&self, attempt: AttemptId) -> Option<Timestamp> {
        let view = self.view();
        match view.memory.decided(attempt) {
            Some(Decided::Applied { at, .. }) => *at,
            _ => view.attempts.placed_at(attempt),
        }
    }

    /// Whether an attempt that is committed has been carried out on a record, though perhaps not on all of its records.
    pub fn has_carried_out(&self, attempt: AttemptId, key: &[u8]) -> bool {
        let view = self.view();
        let stands = || {
            let record = view.table.find(key_hash(key), key);
            record.is_some_and(|record| view.table.stands_in(record, attempt))
        };
        view.attempts.placed_at(attempt).is_some() && !stands()
            || matches!(view.memory.decided(attempt), Some(Decided::Applied { .. }))
    }
}

/// Who owns keys, and what was used.
impl Shard {
    /// The host says which shards own keys. Whoever is new among them has a clock above that of whoever gave it keys, or hears of
    /// that before it serves any ([`Self::take_over`]).
    pub fn know_owners(&mut self, owners: impl IntoIterator<Item = ShardId>) {
        let step = self.parts();
        step.safe_time.know_owners(step.now, step.config, owners);
    }

    /// Keys go to another shard: up to where timestamps were used here. The other one hears of it before it serves them (P86).
    pub fn hand_over(&self) -> Timestamp {
        let view = self.view();
        view.safe_time.clock().max(view.table.clocks().latest_of_all())
    }

    /// Keys came from another shard, on which timestamps were used up to this one. Whether that is settled is not known.
    pub fn take_over(&mut self, used: Timestamp) {
        let step = self.parts();
        if step.config.can_order() {
            step.safe_time.take_over(step.table, used);
        }
    }

    /// Keys came from another shard, which does not say up to where timestamps were used on them: further than it can have gone.
    /// Whether that is settled is not known (P86).
    pub fn take_over_unasked(&mut self, now: Time) {
        let view = self.view();
        let used = view.safe_time.ahead_by(now, view.config, 2);
        self.take_over(used);
    }

    /// Another incarnation begins: behind all that an earlier one may have published, voted or carried out (P85).
    pub fn begin_clock(&mut self, now: Time) {
        let step = self.step(now);
        step.safe_time.begin_anew(now, step.config, step.table, step.out);
    }

    /// Whether nobody is let in yet: the shard may have been further ahead than it knows.
    pub fn is_in_doubt(&self) -> bool {
        self.view().safe_time.is_in_doubt()
    }
}
