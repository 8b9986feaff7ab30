//! What a vote holds, for the replicas, and what a promoted one holds again: the lock table's part.

use super::{AttemptId, Holder, Item, LockTable, Owner, Record, RecordIx, key_hash};
use crate::backup::{Granted, HeldRecord};

impl LockTable {
    /// What an attempt holds on a record by locks.
    pub(crate) fn held_by(&self, record: RecordIx, attempt: AttemptId) -> Option<HeldRecord> {
        let Record { key, lock: Some(lock), .. } = self.records.get(record)? else { return None };
        let holder = lock.holders.get(&attempt)?;
        let granted = holder.items.iter().map(|Item { member, claims, effect }| Granted {
            member: *member,
            claims: claims.clone(),
            effect: effect.clone(),
        });
        Some(HeldRecord {
            key: key.clone(),
            kind: lock.kind?,
            has_vanished: lock.vanished,
            granted: granted.collect(),
        })
    }

    /// The same is held again, where nobody holds what would conflict. O(claims).
    pub(crate) fn hold_again(&mut self, owner: Owner, held: HeldRecord) -> RecordIx {
        let HeldRecord { key, kind, has_vanished, granted } = held;
        let record = self.ensure(key_hash(&key), &key);
        let idle = &mut self.idle;
        let lock = self.records[record].lock.get_or_insert_with(|| idle.pop().unwrap_or_default());
        lock.take_modes_of(kind);
        lock.vanished |= has_vanished;
        lock.youngest = lock.youngest.max(Some(owner.birth));
        let holder = lock.holders.entry(owner.attempt).or_insert_with(|| Holder::new(owner.birth));
        for Granted { member, claims, effect } in granted {
            lock.held.add(&claims);
            holder.push(Item { member, claims, effect });
        }
        record
    }
}
