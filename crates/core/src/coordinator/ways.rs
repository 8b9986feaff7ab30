//! What the coordinator asks the ways to commit (`crate::ways`).

pub(super) mod in_turn;
pub(super) mod ordered;

use std::fmt::Debug;

use super::calls::Calls;
use super::participants::Participants;
use crate::ids::ShardId;
use crate::message::{self, Asks, Response, WayWords};
use crate::switches::Switches;

/// The coordinator's part of a way, for one attempt. What a way does not say is as in two rounds.
#[allow(dead_code, reason = "there may be no ways")]
pub(super) trait Way: Clone + Debug + Default {
    /// Something is about to leave. What is sent instead of what two rounds send.
    fn sends(&mut self, _leaving: &mut Leaving<'_>) -> Sends {
        Sends::AsInRounds
    }

    /// A participant has said something of the attempt. Whether that was all that it means.
    fn hears(&mut self, _heard: &mut Heard<'_>) -> bool {
        false
    }
}

/// What is about to leave.
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) enum Leaving<'a> {
    /// The prepares, for the first time: all participants are known, and none is listed.
    Prepares {
        switches: &'a Switches,
        /// The attempt has a timestamp.
        is_stamped: bool,
        /// A shard has refused another way than two rounds (P1).
        in_rounds: bool,
        /// To be listed in the order in which they are here.
        participants: &'a mut Participants,
        /// Who rests and is asked first (P50).
        first: Option<ShardId>,
        /// Who has hot records, the hottest last (P49).
        hot: &'a [ShardId],
    },
    /// The prepares, once more.
    PreparesAgain(&'a Participants),
    /// That all have voted yes.
    Decision(&'a Participants),
}

/// What is sent.
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) enum Sends {
    /// What two rounds send.
    AsInRounds,
    /// Prepares of this way, to all at once.
    Prepares(Course),
    /// To all, also to those who have answered.
    ToAll,
    /// Nothing: others say so.
    Nothing,
    /// Nothing: the way leads nowhere, and the next attempt goes in two rounds.
    GivesUp,
}

/// How an attempt goes.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// Whose yes is the decision.
    pub(super) decider: ShardId,
    /// What each prepare bears.
    pub(super) words: WayWords,
}

/// A participant has said something.
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) struct Heard<'a> {
    pub(super) from: ShardId,
    pub(super) response: &'a Response,
    /// Prepares have left, and not all have voted.
    pub(super) is_voting: bool,
    pub(super) listed: Option<&'a message::Participants>,
    pub(super) participants: &'a mut Participants,
    pub(super) calls: &'a Calls,
}

/// The modules of the ways, and their parts of one coordinator.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// In which way an attempt commits, if not in two rounds.
        #[derive(Clone, Debug, Default)]
        pub(super) struct Ways {
            /// Set from the first prepare to the next attempt.
            course: Option<Course>,
            /// The transaction commits in two rounds: a shard has refused another way.
            in_rounds: bool,
            /// The way of this attempt led nowhere.
            gave_up: bool,
            $($way: $way::$Way,)*
        }

        impl Ways {
            fn sends(&mut self, mut leaving: Leaving<'_>) -> Sends {
                $(
                    match self.$way.sends(&mut leaving) {
                        Sends::AsInRounds => {}
                        sends => return sends,
                    }
                )*
                let _ = &mut leaving;
                Sends::AsInRounds
            }

            /// A participant has said something. Whether that was all that it means.
            pub(super) fn hear(&mut self, mut heard: Heard<'_>) -> bool {
                if self.course.is_none() {
                    return false; // Mostly.
                }
                let _ = &mut heard;
                false $(|| self.$way.hears(&mut heard))*
            }

            /// The next attempt begins.
            pub(super) fn begin_next(&mut self) {
                *self = Ways { in_rounds: self.in_rounds, ..Ways::default() };
            }
        }
    };
}

crate::each_way!(rooms);

/// What is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    ToUnanswered,
    ToAll,
    GivesUp,
}

impl Ways {
    /// The prepares are about to leave. Whether another way than two rounds sends them.
    pub(super) fn begin(
        &mut self,
        switches: &Switches,
        is_stamped: bool,
        participants: &mut Participants,
        (first, hot): (Option<ShardId>, &[ShardId]),
    ) -> bool {
        let in_rounds = self.in_rounds;
        let leaving = Leaving::Prepares { switches, is_stamped, in_rounds, participants, first, hot };
        self.course = match self.sends(leaving) {
            Sends::Prepares(course) => Some(course),
            _ => None,
        };
        self.course.is_some()
    }

    /// What a prepare asks this shard for; `None`: as in two rounds.
    pub(super) fn asks(&self, shard: ShardId) -> Option<Asks> {
        let Course { decider, words } = self.course.as_ref()?;
        let WayWords { number, body } = words.clone();
        Some(Asks::Way { decides: *decider == shard, number, body })
    }

    /// Prepares are about to leave once more.
    pub(super) fn send_again(&mut self, participants: &Participants) -> Again {
        match self.sends(Leaving::PreparesAgain(participants)) {
            Sends::GivesUp => {
                (self.gave_up, self.in_rounds) = (true, true);
                Again::GivesUp
            }
            Sends::ToAll => Again::ToAll,
            _ => Again::ToUnanswered,
        }
    }

    /// All have voted yes. Whether the participants are to hear it from here.
    pub(super) fn tells_decision(&mut self, participants: &Participants) -> bool {
        !matches!(self.sends(Leaving::Decision(participants)), Sends::Nothing)
    }

    /// The transaction commits in two rounds: a shard has refused another way, or the process knows of one.
    pub(super) fn commit_in_rounds(&mut self) {
        self.in_rounds = true;
    }

    /// Whether the way of this attempt led nowhere.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up
    }
}
