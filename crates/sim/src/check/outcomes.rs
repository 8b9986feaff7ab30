//! What somebody hears who only wants to know what became of an attempt (P89): true, and never otherwise later.

use claret_core::message::Listed;
use claret_core::{Asked, AttemptId, Known, Told};

use super::{Ledger, Violation};
use crate::run::RunId;

impl Ledger {
    /// What can be asked about an attempt, once its first prepare has left.
    pub(crate) fn asked(&self, attempt: AttemptId) -> Option<Asked> {
        let listed = self.attempts.get(&attempt)?.participants.as_ref()?;
        let listed =
            listed.iter().map(|(shard, incarnation)| Listed { shard: *shard, incarnation: *incarnation });
        Some(Asked { attempt, participants: listed.collect() })
    }

    /// The same of a run that was to commit.
    pub(crate) fn asked_of(&self, run: RunId) -> Option<Asked> {
        self.asked(*self.under.get(&run)?)
    }

    /// Somebody draws a conclusion from what shards told, at one moment or another.
    pub(crate) fn told_outcome(
        &self,
        asked: &Asked,
        told: &[Told],
        before: Option<Known>,
    ) -> Result<(), Violation> {
        let (attempt, known) = (asked.attempt, asked.known(told));
        let Some(entry) = self.attempts.get(&attempt) else { return Ok(()) };
        // Part of it may be lost, and then both are true.
        if entry.is_torn() {
            return Ok(());
        }
        // A single participant decides when it votes, and says so when it is carried out.
        let is_early = asked.participants.len() == 1;
        let is_wrong = match known {
            Known::Committed => !entry.is_decided() && !is_early,
            Known::Aborted => entry.is_decided(),
            Known::NotYet | Known::Forgotten => false,
        };
        let is_changed = matches!(
            (before, known),
            (Some(Known::Committed), Known::Aborted) | (Some(Known::Aborted), Known::Committed)
        );
        match is_wrong || is_changed {
            true => {
                let decided = entry.is_decided();
                Err(format!(
                    "{attempt}: who wants to know hears {known:?}; decided: {decided}, before: {before:?}, told {told:?}"
                ))
            }
            false => Ok(()),
        }
    }
}
