//! What a vote holds, for the replicas, and what a promoted one holds again: the lock table's part.

use claret_types::{Bytes, Claims, Mode, State};

use super::{AttemptId, Holder, Item, Lock, LockTable, Owner, Record, RecordIx, key_hash};
use crate::backup::{Granted, HeldRecord};
use crate::ids::{CallNo, Timestamp};
use crate::planted::{Bug, is_planted};

impl LockTable {
    /// What an attempt holds on a record.
    pub(crate) fn held_by(&self, record: RecordIx, attempt: AttemptId) -> Option<HeldRecord> {
        let Record { key, lock: Some(lock), .. } = self.records.get(record)? else { return None };
        let holder = lock.holders.get(&attempt)?;
        let in_order = holder.calls_in_order().cloned().unwrap_or_default();
        let items = if in_order.is_empty() { &holder.items[..] } else { &[] };
        let granted = items.iter().map(|Item { no: _, member, claims, effect, follows: _ }| Granted {
            member: *member,
            claims: claims.clone(),
            effect: effect.clone(),
        });
        Some(HeldRecord {
            key: key.clone(),
            kind: lock.kind?,
            has_vanished: lock.vanished,
            granted: granted.collect(),
            in_order,
        })
    }

    /// The same is held again, where nobody holds what would conflict. O(claims).
    pub(crate) fn hold_again(&mut self, owner: Owner, held: HeldRecord) -> RecordIx {
        let HeldRecord { key, kind, has_vanished, granted, in_order } = held;
        let record = self.ensure(key_hash(&key), &key);
        let idle = &mut self.idle;
        let lock = self.records[record].lock.get_or_insert_with(|| idle.pop().unwrap_or_default());
        lock.take_modes_of(kind);
        lock.vanished |= has_vanished;
        lock.youngest = lock.youngest.max(Some(owner.birth));
        let holder = lock.holders.entry(owner.attempt).or_insert_with(|| Holder::new(owner.birth));
        if !granted.is_empty() {
            // What its calls may use in other states is not told: it may be all.
            holder.used.add(&Claims::record(Mode::EXCLUSIVE));
        }
        for Granted { member, claims, effect } in granted {
            lock.held.add(&claims);
            // It has voted, so nothing more is undone.
            holder.push(Item { no: CallNo(u32::MAX), member, claims, effect, follows: false });
        }
        for call in in_order {
            self.grant_in_order(record, owner, &call);
        }
        record
    }

    /// Who holds a record in order stands in its line again, where it voted.
    pub(crate) fn stand_again(&mut self, record: RecordIx, attempt: AttemptId, at: Timestamp) {
        let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) else { return };
        if !is_planted(Bug::PromotedForgetsPlaces) {
            lock.stand(attempt, at);
        }
    }

    /// What those see who stand in the line of a record that vanished.
    pub(crate) fn seen_of(&self, record: RecordIx) -> Option<(Bytes, Option<Box<State>>)> {
        let Record { key, lock: Some(lock), .. } = self.records.get(record)? else { return None };
        let seen = lock.before_it_vanished.clone().filter(|_| lock.line.is_some());
        lock.vanished.then(|| (key.clone(), seen.map(Box::new)))
    }

    /// The same of all such records.
    pub(crate) fn all_seen(&self) -> impl Iterator<Item = (Bytes, Box<State>)> + '_ {
        let all = self.records.iter().filter_map(|(record, _)| self.seen_of(record));
        all.filter_map(|(key, seen)| Some((key, seen?)))
    }

    /// The same is seen again.
    pub(crate) fn see_again(&mut self, key: &Bytes, seen: State) {
        let Some(record) = self.find(key_hash(key), key) else { return };
        let Record { lock: Some(lock), .. } = &mut self.records[record] else { return };
        let Lock { vanished: true, line: Some(_), before_it_vanished, .. } = &mut **lock else { return };
        *before_it_vanished = Some(seen);
    }
}
