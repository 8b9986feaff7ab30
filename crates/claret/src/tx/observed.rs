//! What an optimistic transaction has seen, as a store needs it.

use claret_core::message::{Refusal, Seen};
use claret_core::{CallNo, Cause, Observations, Place, Saw};
use claret_types::Reply;

use super::End;
use crate::error::{Error, ExecuteError};

/// Of a transaction that looks without locks.
#[derive(Debug)]
pub(super) struct Optimistic {
    pub(super) observations: Observations,
    /// What cannot be done, for who waits for its answer.
    errors: Vec<(CallNo, Error)>,
    /// With this the attempt ends, once all that it saw was checked.
    pub(super) doomed: Option<Error>,
    /// What it saw is to be checked, and nothing done.
    pub(super) only_checks: bool,
    /// Looks that are on their way.
    pub(super) awaited: u32,
}

/// What follows from what was seen.
pub(super) enum Seeing {
    Answer(Reply),
    /// Something cannot be done: what stands there.
    Fails {
        error: Error,
        at: Place,
    },
    /// The attempt cannot commit.
    Restarts(Refusal),
    /// Nor can any other.
    Refused(Refusal),
    Nothing,
}

impl Optimistic {
    pub(super) fn new(optimistic_only: bool) -> Self {
        Optimistic {
            observations: Observations::new(optimistic_only),
            errors: Vec::new(),
            doomed: None,
            only_checks: false,
            awaited: 0,
        }
    }

    /// The driver says that the attempt restarts: perhaps as something has changed.
    pub(super) fn note_restart(&mut self, cause: &Cause) {
        if let Cause::Refused(Refusal::Changed { key }) = cause {
            self.observations.note_changed(key);
        }
    }

    pub(super) fn take(&mut self, no: CallNo, seen: Seen) -> Seeing {
        self.awaited = self.awaited.saturating_sub(1);
        match self.observations.saw(no, seen) {
            Saw::Answer(reply) => Seeing::Answer(reply),
            Saw::Fails { key, error, at } => {
                let error = Error::Execute(ExecuteError::Invalid { key, error });
                self.errors.push((no, error.clone()));
                Seeing::Fails { error, at }
            }
            Saw::Changed { key } => Seeing::Restarts(Refusal::Changed { key }),
            Saw::Refused(refusal) if refusal.is_retryable() || self.locks_after(&refusal) => {
                Seeing::Restarts(refusal)
            }
            Saw::Refused(refusal) => Seeing::Refused(refusal),
            Saw::Nothing => Seeing::Nothing,
        }
    }

    /// How an attempt ends whose calls are committed, or, if it only checks them, found as they were seen.
    pub(super) fn end_of_commit(optimistic: Option<&Self>) -> End {
        match optimistic {
            Some(it) if it.checks() => it.doomed.clone().map_or(End::Aborted, End::Failed),
            _ => End::Committed,
        }
    }

    /// A shard says that an operation cannot be done, or breaks the schema, and nobody has checked what else was seen. Whether it is to be
    /// seen under locks.
    pub(super) fn locks_after(&mut self, refusal: &Refusal) -> bool {
        let is_of_operation =
            refusal.of_operation().is_some() || matches!(refusal, Refusal::AgainstSchema { .. });
        let tells_of_what_was_seen = is_of_operation && self.observations.has_seen();
        if tells_of_what_was_seen {
            self.observations.lock_all();
        }
        tells_of_what_was_seen
    }

    /// The error that stands for an answer.
    pub(super) fn error_of(&mut self, no: CallNo) -> Option<Error> {
        let at = self.errors.iter().position(|(known, _)| *known == no)?;
        Some(self.errors.swap_remove(at).1)
    }

    /// Whether what it does is only checked.
    pub(super) fn checks(&self) -> bool {
        self.only_checks || self.doomed.is_some()
    }

    pub(super) fn begin_again(&mut self) {
        self.observations.begin_again();
        self.errors.clear();
        self.doomed = None;
        self.only_checks = false;
    }
}
