//! What a shard notes of attempts for a host that keeps a log (`journal.rs`). Without a log it notes nothing.

use super::lock_table::LockTable;
use super::participant::{Participant, Stage};
use crate::ids::AttemptId;
use crate::journal::Noted;

/// What leaves now is committed here, and its effects are noted.
pub(super) fn begin_note_of_commit(table: &mut LockTable) {
    if let Some(journal) = table.journal() {
        journal.writes = true;
    }
}

pub(super) fn note_commit(table: &mut LockTable, attempt: AttemptId) {
    if let Some(journal) = table.journal() {
        journal.writes = false;
        journal.note(|effects| Noted::Committed(attempt, effects));
    }
}

pub(super) fn note_vote(table: &mut LockTable, attempt: AttemptId, participant: &Participant) {
    if table.journal().is_none() {
        return; // Mostly.
    }
    if let Participant { held, stage: Stage::Prepared { round, .. }, .. } = participant {
        table.note_votes(held, attempt, &round.members);
    }
    if let Some(journal) = table.journal().filter(|journal| journal.has_more()) {
        journal.note(|effects| Noted::Voted(attempt, effects));
    }
}

pub(super) fn note_apply(table: &mut LockTable, attempt: AttemptId) {
    if let Some(journal) = table.journal() {
        journal.note(|_| Noted::Applied(attempt));
    }
}

pub(super) fn note_drop(table: &mut LockTable, attempt: AttemptId) {
    if let Some(journal) = table.journal() {
        journal.note(|_| Noted::Dropped(attempt));
    }
}
