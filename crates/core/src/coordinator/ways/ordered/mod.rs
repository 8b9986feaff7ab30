//! The timestamp of a stamped attempt: which one it is to have, which one it has, and when its caller may hear the end (P73 to P78).
//!
//! What is learned of the safe time stays for later attempts; all else is of one attempt.

use crate::ids::Timestamp;
use crate::message::{Asks, Refusal};
use crate::planted::{Bug, is_planted};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::coordinator) struct Stamp {
    /// About which timestamp the attempt is to have (P73). `None`: it has none.
    suggested: Option<Timestamp>,
    /// The final timestamp, once all have voted.
    placed_at: Option<Timestamp>,
    /// Up to where the safe time has to come before the caller is told. Set until the caller is (P78).
    told_at: Option<Timestamp>,
    /// As far as is known. Never falls.
    safe_time: Timestamp,
    /// The transaction failed for this, which its caller may not hear before the safe time has come to `told_at`.
    failure: Option<Refusal>,
    /// It was carried out, and what it answered nobody knows any more (P57).
    lost_answers: bool,
}

impl Stamp {
    /// The attempt is to have a timestamp, about this one.
    pub(in crate::coordinator) fn suggest(&mut self, suggested: Timestamp) {
        self.suggested = Some(suggested);
    }

    /// About which timestamp the attempt is to have.
    pub(in crate::coordinator) fn suggested(&self) -> Option<Timestamp> {
        self.suggested
    }

    /// What a prepare asks for, in two rounds.
    pub(in crate::coordinator) fn asks(&self, is_last: bool) -> Asks {
        match (self.suggested, is_last) {
            (Some(suggested), _) => Asks::Place(suggested),
            (None, true) => Asks::Decision,
            (None, false) => Asks::Vote,
        }
    }

    /// All have voted: the attempt stands at its final timestamp, and its caller is told when the safe time has come this far.
    pub(in crate::coordinator) fn place(&mut self, at: Timestamp, until: Timestamp) {
        (self.placed_at, self.told_at) = (Some(at), Some(until));
    }

    /// All have voted, without timestamps, and answers are still to come: the caller is told when they are there.
    pub(in crate::coordinator) fn await_answers(&mut self) {
        self.told_at = Some(Timestamp::default());
    }

    /// The final timestamp, once that is known.
    pub(in crate::coordinator) fn placed_at(&self) -> Option<Timestamp> {
        self.placed_at
    }

    /// Up to where the safe time has to come before the caller is told. `None`: that is not what the caller waits for.
    pub(in crate::coordinator) fn awaited(&self) -> Option<Timestamp> {
        self.told_at
    }

    /// No vote will be as small as that any more. Gives back what was put off until then.
    pub(in crate::coordinator) fn hear_safe_time(&mut self, safe_time: Timestamp) -> Option<Refusal> {
        self.safe_time = self.safe_time.max(safe_time);
        self.failure.take()
    }

    /// The transaction cannot be done. Whether its caller may hear that now: it tells of a state, as an answer does (P78). If not, it
    /// is kept for [`Self::hear_safe_time`].
    #[must_use]
    pub(in crate::coordinator) fn may_tell_failure(&mut self, refusal: &Refusal) -> bool {
        match refusal {
            Refusal::OperationBehind { behind, .. }
                if self.safe_time < *behind && !is_planted(Bug::ErrorToldAtOnce) =>
            {
                (self.told_at, self.failure) = (Some(*behind), Some(refusal.clone()));
                false
            }
            _ => {
                self.told_at = None;
                true
            }
        }
    }

    /// Whether the safe time has come as far as the caller waits for.
    pub(in crate::coordinator) fn is_settled(&self) -> bool {
        self.told_at.is_some_and(|until| self.safe_time >= until || is_planted(Bug::ToldBeforeSafeTime))
    }

    /// Answers of the attempt are lost.
    pub(in crate::coordinator) fn lose_answers(&mut self) {
        self.lost_answers = true;
    }

    /// The caller is told now. Whether the answers are all there.
    #[must_use]
    pub(in crate::coordinator) fn tell(&mut self) -> bool {
        self.told_at = None;
        !self.lost_answers
    }

    /// The next attempt has no timestamp unless one is suggested again.
    pub(in crate::coordinator) fn begin_next(&mut self) {
        (self.suggested, self.placed_at, self.told_at, self.lost_answers) = (None, None, None, false);
    }
}
