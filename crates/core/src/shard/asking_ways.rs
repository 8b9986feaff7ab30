//! What the shard asks the ways to commit (`crate::ways`).

use std::fmt::Debug;

use super::machine::View;
use super::participant::Stage;
use super::step::Step;
use super::ways::{Decision, Heard, Occasion, Standing, Vote, Ways};
use crate::ids::{AttemptId, Time};
use crate::message::{Refusal, WayWords};

/// The shard's part of a way: what it keeps for all attempts. What a way does not say is as in two rounds.
#[allow(dead_code, reason = "there may be no ways")]
pub(super) trait Way: Clone + Debug + Default {
    /// The prepare of an attempt has come, and its words are of this way. First the way is asked whether it takes it at all; when all
    /// else is well, once more, with how many records it has calls on. Nothing is locked yet, and if
    /// [`Round::waits_to_lock`](super::participant::Round) is set, nothing is until the way goes on with it.
    fn prepares(
        _: &mut Step<'_>,
        _: AttemptId,
        _: &WayWords,
        _records: Option<usize>,
    ) -> Result<(), Refusal> {
        Err(Refusal::OnlyRounds)
    }

    /// The client is about to be told of an attempt that goes this way. Whether it is.
    fn votes(_: &mut Step<'_>, _: AttemptId, _: Vote) -> bool {
        true
    }

    /// The end of an attempt that goes this way is known. Whether it ends here now; if not, the way sets
    /// [`Round::waits_to_apply`](super::participant::Round).
    fn decides(_: &mut Step<'_>, _: AttemptId, _: Decision) -> bool {
        true
    }

    /// Something has happened to an attempt that may go this way.
    fn hears(_: &mut Step<'_>, _: &Heard<'_>) {}

    /// Goes on with an attempt that waited for the way. Whether there was one.
    fn goes_on(_: &mut Step<'_>, _: Occasion) -> bool {
        false
    }

    /// When there is something to do.
    fn due(&self) -> Option<Time> {
        None
    }

    /// # Panics
    /// When an invariant does not hold.
    fn check(&self, _: &View<'_>) {}
}

/// Asks each way.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        impl Ways {
            /// When there is something to do.
            pub(super) fn due(&self) -> Option<Time> {
                let due = None;
                $(let due = self.$way.due().into_iter().chain(due).min();)*
                due
            }

            /// # Panics
            /// When an invariant does not hold.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(super) fn check(&self, shard: &View<'_>) {
                $(self.$way.check(shard);)*
            }
        }

        /// What the protocol asks.
        impl Step<'_> {
            /// The prepare of an attempt has come, as [`Way::prepares`].
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(super) fn prepare_in_way(
                &mut self,
                attempt: AttemptId,
                words: Option<&WayWords>,
                records: Option<usize>,
            ) -> Result<(), Refusal> {
                match words {
                    None => self.tell_ways(&Heard::InRounds(attempt)),
                    $(Some(words) if words.number == crate::ways::$way::NUMBER => {
                        super::ways::$way::$Way::prepares(self, attempt, words, records)?;
                    })*
                    Some(_) => return Err(Refusal::OnlyRounds),
                }
                Ok(())
            }

            /// The client is about to be told of an attempt. Whether it is.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(super) fn vote_in_way(&mut self, attempt: AttemptId, vote: Vote) -> bool {
                match self.way_of(attempt) {
                    $(Some(crate::ways::$way::NUMBER) => super::ways::$way::$Way::votes(self, attempt, vote),)*
                    _ => true,
                }
            }

            /// The end of an attempt is known. Whether it ends here now.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(super) fn decide_in_way(&mut self, attempt: AttemptId, decision: Decision) -> bool {
                match self.way_of(attempt) {
                    $(Some(crate::ways::$way::NUMBER) => super::ways::$way::$Way::decides(self, attempt, decision),)*
                    _ => true,
                }
            }

            /// Something has happened to an attempt.
            #[inline]
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(super) fn tell_ways(&mut self, heard: &Heard<'_>) {
                $(super::ways::$way::$Way::hears(self, heard);)*
            }

            /// Goes on with an attempt that waited for its way. Whether there was one.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(super) fn go_on_in_way(&mut self, occasion: Occasion) -> bool {
                false $(|| super::ways::$way::$Way::goes_on(self, occasion))*
            }
        }
    };
}

crate::each_way!(rooms);

impl Step<'_> {
    /// The number of the way that an attempt goes, if its prepare is here.
    fn way_of(&self, attempt: AttemptId) -> Option<u8> {
        match &self.attempts.get(attempt)?.stage {
            Stage::Open => None,
            Stage::Preparing(round) | Stage::Prepared { round, .. } | Stage::Placed { round, .. } => {
                round.way.as_ref().map(Standing::number)
            }
        }
    }
}
