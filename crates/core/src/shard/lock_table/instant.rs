//! Instant transactions on the records of one shard: changes are staged, so that they can be undone.

use claret_types::{Bytes, Claims, Mode, OpError, Operation, Reply, Room};
use smallvec::SmallVec;

use super::{Lock, LockTable, Locks, Record, RecordIx, expiry_of};
use crate::journal::Noted;
use crate::planted::{Bug, is_planted};

impl Lock {
    /// Whether nobody's claims are in the way of an operation that is over at once.
    pub(super) fn admits_instantly(&self, locks: Locks, op: &Operation, claims: Claims, room: Room) -> bool {
        let kind = self.kind.unwrap_or(op.type_info());
        let modes = kind.common_modes(op.type_info());
        let claims = match locks {
            _ if modes.is_none() => Claims::record(Mode::EXCLUSIVE),
            Locks::ReaderWriter => op.reader_writer(),
            Locks::Abstract => claims,
        };
        let modes = modes.unwrap_or(&kind.modes);
        !self.vanished
            && self.held.admits(modes, &claims, room, std::iter::empty())
            && self.admits_beside_line(modes, &claims)
    }
}

impl LockTable {
    /// Executes and applies a call at once, for a transaction that holds nothing anywhere: no lock is taken,
    /// since nobody can look in between. `None`: somebody else's claims are in the way. Until
    /// [`Self::finish_instant`] it can be undone by [`Self::undo_instant`].
    pub(crate) fn instant(
        &mut self,
        hash: u64,
        key: &Bytes,
        call: &Operation,
        locking: bool,
    ) -> Result<Option<Reply>, OpError> {
        debug_assert!(self.external.is_none(), "what is applied to external records cannot be undone");
        let unique = self.next_unique();
        let version = self.version_for(key, call);
        let Some(record) = self.find(hash, key) else {
            let executed = call.execute(version.as_ref(), unique)?;
            if let Some(effect) = executed.effect {
                let record = self.ensure(hash, key);
                self.journal.iter_mut().for_each(|journal| journal.write(key, &effect));
                let undo = effect.apply(&mut self.records[record].state);
                self.note_expiry(record, None, expiry_of(&self.records[record].state));
                self.staged.push((record, undo));
            }
            return Ok(Some(executed.reply));
        };
        let Record { state, lock, .. } = &mut self.records[record];
        let lock = lock.as_deref().filter(|_| locking && !is_planted(Bug::InstantPassesHolders));
        let executed = match call.execute(version.as_ref().or(state.as_ref()), unique) {
            Ok(executed) => executed,
            Err(OpError::Changed) => return Err(OpError::Changed),
            // As in `decide`: an error counts only when nobody holds the record.
            Err(_) if lock.is_some_and(|lock| !lock.holders.is_empty()) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(lock) = lock
            && !lock.admits_instantly(self.switches.locks, call, executed.claims, call.room(state.as_ref()))
        {
            return Ok(None);
        }
        if let Some(effect) = executed.effect {
            self.journal.iter_mut().for_each(|journal| journal.write(key, &effect));
            let before = expiry_of(state);
            let undo = effect.apply(state);
            let after = expiry_of(state);
            self.note_expiry(record, before, after);
            self.staged.push((record, undo));
        }
        Ok(Some(executed.reply))
    }

    /// Makes what was done instantly stay.
    pub(crate) fn finish_instant(&mut self) {
        while let Some((record, _)) = self.staged.pop() {
            self.has_changed(record);
            self.tidy(record);
        }
        if let Some(journal) = self.journal.as_mut().filter(|journal| journal.has_more()) {
            journal.note(Noted::Done);
        }
    }

    /// Undoes what was done instantly, last first.
    pub(crate) fn undo_instant(&mut self) {
        self.journal.iter_mut().for_each(|journal| journal.take_back());
        let mut touched = SmallVec::<[RecordIx; 8]>::new();
        if is_planted(Bug::InstantUndoneForwards) {
            self.staged.reverse();
        }
        while let Some((record, undo)) = self.staged.pop() {
            let state = &mut self.records[record].state;
            let before = expiry_of(state);
            undo.apply(state);
            let after = expiry_of(state);
            self.note_expiry(record, before, after);
            touched.push(record);
        }
        for record in touched {
            self.tidy(record);
        }
    }
}
