//! Records that vanish by themselves, as in a server: they expire or are evicted, or all of a shard are flushed
//! (P36). The host loses them, and tells the shard before any other input, as the module does.

use std::collections::BTreeSet;

use claret_core::{AttemptId, ShardId, Time};
use claret_types::Bytes;

use crate::check::Violation;
use crate::event::SimEvent;
use crate::random::{Random, Stream};
use crate::tamper::Tampering;
use crate::world::World;

/// Most happens in the beginning of a run, and half of what vanishes within this time, in microseconds.
const EARLY_US: u64 = 10_000;

/// How many of a thousand records that expire are followed by another one of the shard at the same time.
const TOGETHER_PERMILLE: u64 = 500;

impl World {
    /// When records vanish, and which. Each sort has draws of its own, so that those that are left of one stay as they
    /// were.
    pub(crate) fn schedule_vanishing(&mut self) {
        let (expiries, flushes) = (self.config.faults.expiries, self.config.faults.flushes);
        if !self.config.is_external() {
            return;
        }
        let random = &mut self.draws.stream(Stream::Expiries);
        for _ in 0..expiries {
            let at = self.moment(random);
            let mut keys = vec![self.any_key(random)];
            let shard = self.shard_of(&keys[0]);
            while random.chance(TOGETHER_PERMILLE) {
                let key = self.any_key(random);
                if self.shard_of(&key) == shard && !keys.contains(&key) {
                    keys.push(key);
                }
            }
            self.schedule(at, SimEvent::Expire(shard, keys));
        }
        let random = &mut self.draws.stream(Stream::Flushes);
        for _ in 0..flushes {
            let at = self.moment(random);
            let shard = ShardId(random.below(u64::from(self.config.shards)) as u32);
            self.schedule(at, SimEvent::Flush(shard));
        }
    }

    fn moment(&self, random: &mut Random) -> Time {
        let until = self.config.faults.until_us;
        let within = if random.chance(500) { until.min(EARLY_US) } else { until };
        Time(random.below(within))
    }

    fn any_key(&self, random: &mut Random) -> Bytes {
        random.pick(&self.workload.keys).name.clone()
    }

    /// These records expire; those that are not there do not.
    pub(crate) fn expire(&mut self, id: ShardId, mut keys: Vec<Bytes>) -> Result<(), Violation> {
        // Those who had committed by then are told first: when a record vanishes is known at once.
        self.replicate_at_once(id)?;
        self.shard(id).vanishing(&keys);
        let Some(store) = self.store(id) else { return Ok(()) };
        keys.retain(|key| store.lose(key));
        self.lost(id, &keys, None)
    }

    /// These records are gone.
    fn lost(&mut self, id: ShardId, keys: &[Bytes], by_time: Option<u64>) -> Result<(), Violation> {
        let voted = self.voted_at(id);
        self.ledger.note_vanished(id, (keys, &voted), self.now, by_time);
        self.outcome.vanished += keys.len() as u64;
        self.tell_vanished(id, keys)
    }

    /// What has expired by the shard's clock vanishes before the shard hears of anything else (P71).
    pub(crate) fn expire_what_is_due(&mut self, id: ShardId) -> Result<(), Violation> {
        if self.config.programs.keyspace_permille == 0 {
            return Ok(());
        }
        let now = self.shard_time(id);
        let now_ms = now.0 / 1000;
        if let Some(store) = self.store(id) {
            let mut keys = store.expired(now_ms);
            if keys.is_empty() {
                return Ok(());
            }
            self.replicate_at_once(id)?;
            // Of what has arrived by that, slots may have gone.
            if let Some(store) = self.store(id) {
                keys.retain(|key| store.lose(key));
            }
            return self.lost(id, &keys, Some(now_ms));
        }
        if self.shard(id).next_expiry().is_none_or(|expiry| expiry.ms() > now_ms) {
            return Ok(());
        }
        self.replicate_at_once(id)?;
        let voted = self.voted_at(id);
        let keys = self.shard(id).expire(now, now_ms);
        self.ledger.note_vanished(id, (&keys, &voted), self.now, Some(now_ms));
        self.outcome.vanished += keys.len() as u64;
        self.drain_shard(id)?;
        self.replicate_at_once(id)
    }

    /// Who has voted at a shard, said or not.
    fn voted_at(&self, id: ShardId) -> BTreeSet<AttemptId> {
        self.ledger.voted(|attempt| self.cluster.shard(id).written(attempt))
    }

    /// All records of the shard are flushed. The host tells of those that somebody holds, as if they were there.
    pub(crate) fn flush(&mut self, id: ShardId) -> Result<(), Violation> {
        self.replicate_at_once(id)?;
        let held: Vec<Bytes> = self.shard(id).held_keys().cloned().collect();
        self.shard(id).vanishing(&held);
        let Some(store) = self.store(id) else { return Ok(()) };
        let mut lost = store.lose_all();
        self.outcome.vanished += lost.len() as u64;
        self.shard(id).all_vanished();
        lost.extend(held.iter().filter(|key| !lost.contains(key)).cloned().collect::<Vec<_>>());
        let voted = self.voted_at(id);
        self.ledger.note_vanished(id, (&lost, &voted), self.now, None);
        self.tell_vanished(id, &held)
    }

    /// The host tells the shard which records vanished, all of them together.
    fn tell_vanished(&mut self, id: ShardId, keys: &[Bytes]) -> Result<(), Violation> {
        let now = self.shard_time(id);
        match self.faults.is(Tampering::VanishedOneByOne) {
            true => keys.chunks(1).for_each(|key| self.shard(id).vanished(now, key)),
            false => self.shard(id).vanished(now, keys),
        }
        self.drain_shard(id)?;
        // When a record vanished nobody is told, and so it is not taken back.
        self.replicate_at_once(id)
    }
}
