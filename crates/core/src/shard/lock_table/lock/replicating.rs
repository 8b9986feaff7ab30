//! What a vote holds, for the replicas, and what a promoted one holds again: the lock's part.

use claret_types::{Claims, Mode, State};

use super::asking::Grant;
use super::{Item, Lock, Owner};
use crate::backup::{Granted, HeldRecord};
use crate::ids::{AttemptId, CallNo};
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::records::Record;

impl Record {
    /// What an attempt holds on the record.
    pub(in super::super) fn held_by(&self, attempt: AttemptId) -> Option<HeldRecord> {
        let lock = self.lock.as_ref()?;
        let holder = lock.holders.get(&attempt)?;
        let in_order = holder.calls_in_order().cloned().unwrap_or_default();
        let items = if in_order.is_empty() { &holder.items[..] } else { &[] };
        let granted = items.iter().map(|Item { no: _, member, claims, effect, runs_command: _ }| Granted {
            member: *member,
            claims: claims.clone(),
            effect: effect.clone(),
        });
        Some(HeldRecord {
            key: self.key.clone(),
            kind: lock.kind?,
            has_vanished: lock.vanished,
            granted: granted.collect(),
            in_order,
        })
    }

    /// The same is held again, where nobody holds what would conflict. O(claims).
    pub(in super::super) fn hold_again(&mut self, around: &mut Around<'_>, owner: Owner, held: HeldRecord) {
        let HeldRecord { key: _, kind, has_vanished, granted, in_order } = held;
        let lock = self.lock_or_take(around.idle);
        lock.take_modes_of(kind);
        lock.vanished |= has_vanished;
        lock.hold_granted(owner, granted);
        for call in in_order {
            let claims = Lock::claims_in_order(around.switches, &call);
            self.grant(around, owner, &call, Grant::in_order(&call, claims));
        }
    }
}

impl Lock {
    fn hold_granted(&mut self, owner: Owner, granted: Vec<Granted>) {
        for Granted { claims, .. } in &granted {
            self.held.add(claims);
        }
        let holder = self.hold(owner);
        if !granted.is_empty() {
            // What its calls may use in other states is not told: it may be all.
            holder.used.add(&Claims::record(Mode::EXCLUSIVE));
        }
        for Granted { member, claims, effect } in granted {
            // It has voted, so nothing more is undone.
            let runs_command = effect.as_ref().is_some_and(|effect| effect.run().is_some());
            holder.push(Item { no: CallNo(u32::MAX), member, claims, effect, runs_command });
        }
    }

    /// What those see who stand in the line of a record that vanished, if it has.
    pub(in super::super) fn seen(&self) -> Option<Option<Box<State>>> {
        let seen = self.before_it_vanished.clone().filter(|_| self.line.is_some());
        self.vanished.then(|| seen.map(Box::new))
    }

    /// The same is seen again.
    pub(in super::super) fn see_again(&mut self, seen: State) {
        if self.vanished && self.line.is_some() {
            self.before_it_vanished = Some(seen);
        }
    }
}
