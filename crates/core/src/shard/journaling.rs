//! What a shard notes for a host that keeps a log (`journal.rs`), and what such a host loads again.

use std::ops::Range;

use claret_types::{Bytes, State};

use super::{AttemptId, Participant, Shard, Stage, key_hash};
use crate::journal::{Journal, Noted};

/// Of a unique number, what is counted; the shard's number stands above.
const COUNTED_BITS: u32 = 43;

impl Shard {
    /// From now on what inputs change is noted in [`Self::journal`], of which the host takes it. For records in the shard's own
    /// memory, and with [`Delivery::Direct`](crate::Delivery::Direct).
    pub fn keep_journal(&mut self) {
        self.table.keep_journal();
    }

    /// What was noted; `None` unless a journal is kept.
    pub fn journal(&mut self) -> Option<&mut Journal> {
        self.table.journal()
    }

    /// Takes in a committed record, which is not there yet.
    pub fn load(&mut self, key: Bytes, state: State) {
        self.table.load(std::iter::once((key_hash(&key), key, state)));
    }

    /// The records at some places with what is committed of them, and the place to go on at; `None` behind the last. A record that
    /// is there keeps its place. O(places).
    pub fn records_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, Option<&State>)>, Option<usize>) {
        self.table.records_at(places)
    }

    /// From now on keys are kept whose record leaves its place, for somebody who walks through [`Self::records_at`]; or no more.
    pub fn keep_gone(&mut self, keep: bool) {
        if let Some(journal) = self.table.journal() {
            journal.gone = keep.then(Vec::new);
        }
    }

    /// Those since the last time.
    pub fn take_gone(&mut self) -> Vec<Bytes> {
        let gone = self.table.journal().and_then(|journal| journal.gone.as_mut());
        gone.map(std::mem::take).unwrap_or_default()
    }

    /// Unique numbers go on above this count, which is larger than that of every number that this shard gave before.
    pub fn count_unique_from(&mut self, count: u64) {
        let unique = u64::from(self.id.0) << COUNTED_BITS | count & ((1 << COUNTED_BITS) - 1);
        self.table.count_unique_from(unique);
    }

    /// Up to which count unique numbers were given.
    pub fn unique_count(&self) -> u64 {
        self.table.unique() & ((1 << COUNTED_BITS) - 1)
    }

    /// What leaves now is committed here, and its effects are noted.
    pub(super) fn begin_note_of_commit(&mut self) {
        if let Some(journal) = self.table.journal() {
            journal.writes = true;
        }
    }

    pub(super) fn note_commit(&mut self, attempt: AttemptId) {
        if let Some(journal) = self.table.journal() {
            journal.writes = false;
            journal.note(|effects| Noted::Committed(attempt, effects));
        }
    }

    pub(super) fn note_vote(&mut self, attempt: AttemptId) {
        if self.table.journal().is_none() {
            return; // Mostly.
        }
        if let Participant { held, stage: Stage::Prepared { round, .. }, .. } = &*self.attempts[&attempt] {
            self.table.note_votes(held, attempt, &round.members);
        }
        if let Some(journal) = self.table.journal().filter(|journal| journal.has_more()) {
            journal.note(|effects| Noted::Voted(attempt, effects));
        }
    }

    pub(super) fn note_apply(&mut self, attempt: AttemptId) {
        if let Some(journal) = self.table.journal() {
            journal.note(|_| Noted::Applied(attempt));
        }
    }

    pub(super) fn note_drop(&mut self, attempt: AttemptId) {
        if let Some(journal) = self.table.journal() {
            journal.note(|_| Noted::Dropped(attempt));
        }
    }
}
