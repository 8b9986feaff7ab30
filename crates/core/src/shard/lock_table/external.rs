//! The lock table's part of what a host with an external store does: see `shard/external.rs`.

use claret_types::{Bytes, Claims, Effect, KeyspaceOp, Method, Operation, TypeInfo, Unique};
use smallvec::SmallVec;

use super::{AttemptId, External, Fate, Item, Lock, LockTable, Record, RecordIx, expiry_of};
use crate::journal::Noted;
use crate::message::{Call, Refusal};
use crate::planted::{Bug, is_planted};
use crate::records::Applied;

impl External {
    /// Has the effects of a holder carried out, of the calls that are applied. Whether that ended the record.
    pub(super) fn carry_out(self, key: &Bytes, items: &[Item], fate: Fate<'_>) -> bool {
        let is_applied = |item: &Item| item.is_applied(fate);
        let External(records) = self;
        // Mostly.
        if let [item] = items {
            let effect = item.effect.as_ref().filter(|_| is_applied(item));
            return effect.is_some_and(|effect| records.apply(key, &[effect]) == Applied::Ended);
        }
        let applied = items.iter().filter(|item| is_applied(item));
        let effects: SmallVec<[&Effect; 4]> = applied.filter_map(|item| item.effect.as_ref()).collect();
        !effects.is_empty() && records.apply(key, &effects) == Applied::Ended
    }
}

impl LockTable {
    /// Asks the host whether these operations on one record may be done here.
    pub(crate) fn admit(&self, key: &Bytes, calls: &[Call]) -> Result<(), Refusal> {
        self.admit_ops(key, calls.iter().map(|call| &call.op))
    }

    pub(crate) fn admit_ops<'a>(
        &self,
        key: &Bytes,
        mut ops: impl ExactSizeIterator<Item = &'a Operation>,
    ) -> Result<(), Refusal> {
        let Some(External(records)) = self.external else { return Ok(()) };
        let judge = |op: &Operation| {
            let against = |error| Refusal::AgainstSchema { key: key.clone(), error: Box::new(error) };
            records.judge(key, op).map_err(against)
        };
        // Mostly.
        if ops.len() == 1 {
            return ops.try_for_each(|op| records.admit(key, op).and_then(|()| judge(op)));
        }
        let mut asked: SmallVec<[&'static Method; 4]> = SmallVec::new();
        for op in ops {
            let method = op.method();
            // What is put may be of any type, with rights of its own.
            let is_put = matches!(op.keyspace(), Some(KeyspaceOp::Put(_)));
            if is_put || !asked.iter().any(|known| std::ptr::eq(*known, method)) {
                asked.push(method);
                records.admit(key, op)?;
            }
            judge(op)?;
        }
        Ok(())
    }

    fn held(&self, hash: u64, key: &[u8]) -> Option<(&Record, &Lock)> {
        let record = &self.records[self.find(hash, key)?];
        let lock = record.lock.as_deref().filter(|lock| !lock.holders.is_empty())?;
        Some((record, lock))
    }

    pub(crate) fn is_held(&self, hash: u64, key: &[u8]) -> bool {
        self.held(hash, key).is_some()
    }

    pub(crate) fn held_as(&self, hash: u64, key: &[u8]) -> Option<&'static TypeInfo> {
        self.held(hash, key)?.1.kind
    }

    /// An external record has its place here only while somebody holds it.
    pub(crate) fn is_idle(&self) -> bool {
        self.records.is_empty() || self.held_keys().next().is_none()
    }

    pub(crate) fn held_keys(&self) -> impl Iterator<Item = &Bytes> {
        let is_held = |record: &&Record| record.lock.as_ref().is_some_and(|lock| !lock.holders.is_empty());
        self.records.iter().map(|(_, record)| record).filter(is_held).map(|record| &record.key)
    }

    /// Whether an operation that is over at once has to wait for holders.
    pub(crate) fn conflicts(&self, hash: u64, key: &[u8], op: &Operation) -> bool {
        let Some((Record { key, state, .. }, lock)) = self.held(hash, key) else { return false };
        let number = Unique(0); // Nobody hears of the answer.
        let executed = match self.external {
            Some(External(records)) => records
                .partial_state(key, op, &[])
                .and_then(|partial| op.execute_in_partial(partial, &[], number)),
            None => op.execute(state.as_ref(), number).map(|executed| (executed, op.room(state.as_ref()))),
        };
        match executed {
            Ok((executed, room)) => !lock.admits_instantly(self.switches.locks, op, executed.claims, room),
            Err(_) => true, // P15
        }
    }

    /// The same by claims alone.
    pub(crate) fn conflicts_with(&self, hash: u64, key: &[u8], kind: &TypeInfo, claims: &Claims) -> bool {
        let Some((_, lock)) = self.held(hash, key) else { return false };
        lock.vanished
            || lock.held.draws_beside(claims.draw)
            || lock.kind.and_then(|held| held.common_modes(kind)).is_none_or(|modes| {
                !lock.held.admits_modes(modes, claims, std::iter::empty())
                    || !lock.admits_beside_line(modes, claims)
            })
    }

    /// Whether nobody gets in until those have left who hold the record.
    pub(super) fn has_vanished(&self, record: RecordIx) -> bool {
        self.records[record]
            .lock
            .as_ref()
            .is_some_and(|lock| lock.vanished && !is_planted(Bug::VanishedLetsIn))
    }

    /// The record is about to vanish: keeps what those who stand in line are to be executed on.
    pub(crate) fn keep_copy(&mut self, record: RecordIx) {
        let Record { key, lock: Some(lock), .. } = &mut self.records[record] else { return };
        if let Some(External(records)) = self.external
            && lock.line.is_some()
            && let Some(kind) = lock.kind
            && !lock.vanished
        {
            lock.before_it_vanished = records.whole(key, kind);
        }
    }

    /// Of a record that nobody holds, and that vanished (P86).
    pub(crate) fn seal(&mut self, hash: u64) {
        self.clocks.seal(hash);
    }

    /// The record is gone: from now on nobody gets in until everybody who holds it now has left, and their effects on
    /// it come to nothing. Returns its waiters and then its holders.
    pub(crate) fn vanish(&mut self, record: RecordIx) -> Vec<AttemptId> {
        let before = expiry_of(&self.records[record].state);
        self.note_expiry(record, before, None);
        let state = self.records[record].state.take();
        self.has_changed(record);
        if let Some(journal) = self.journal.as_mut().filter(|_| state.is_some()) {
            let key = self.records[record].key.clone();
            journal.note(|_| Noted::Vanished(key));
        }
        let Record { lock, .. } = &mut self.records[record];
        let Some(lock) = lock else {
            let hash = self.records[record].hash;
            self.seal(hash);
            self.tidy(record);
            return Vec::new();
        };
        if !lock.vanished && lock.line.is_some() && self.external.is_none() {
            lock.before_it_vanished = state;
        }
        lock.vanished = true;
        let mut waiters: Vec<AttemptId> = lock.phaser.waiters().map(|((_, attempt), _)| *attempt).collect();
        let mut holders: Vec<AttemptId> = lock.holders.keys().copied().collect();
        waiters.sort_unstable();
        holders.sort_unstable();
        waiters.append(&mut holders);
        waiters
    }
}
