//! A vote as replicas know it: what is told of it, and how it stands again where one of them is promoted (S3, S4 of
//! `docs/replication.md`).

use super::lock_table::{LockTable, Owner};
use super::participant::{Participant, Place, Round, Said, Stage};
use crate::backup::{Granted, Vote, VotedAnswers, VotedPlace};
use crate::ids::Incarnation;
use crate::message::Asks;
use crate::planted::{Bug, is_planted};

impl Participant {
    /// What is told of it; `None`: it has not voted.
    pub(super) fn vote(&self, table: &LockTable) -> Option<Vote> {
        let round = match &self.stage {
            Stage::Open | Stage::Preparing(_) => return None,
            Stage::Prepared { round, .. } | Stage::Placed { round, .. } => round,
        };
        let attempt = self.owner.attempt;
        let place = self.place().map(|Place { at, behind, said }| VotedPlace {
            at,
            behind,
            answers: match said {
                Said::All => VotedAnswers::All,
                Said::Tentative { locked } => VotedAnswers::Tentative((locked - round.replies_before) as u32),
                Said::Nothing => VotedAnswers::Later,
            },
        });
        Some(Vote {
            attempt,
            birth: self.owner.birth,
            participants: round.participants.clone(),
            members: round.members.clone(),
            replies: self.voted_replies(),
            account: self.account,
            bytes: self.bytes as u64,
            held: self.held.iter().filter_map(|it| table.held_by(*it, attempt)).collect(),
            place,
        })
    }

    /// One that has voted so holds its records again.
    pub(super) fn restored(vote: Vote, incarnation: Incarnation, table: &mut LockTable) -> Self {
        let Vote { attempt, birth, participants, members, replies, account, bytes, held, place } = vote;
        let owner = Owner::of(attempt, birth);
        let mut participant = Participant::new(owner, account, incarnation);
        for record in held {
            let runs =
                |granted: &Granted| granted.effect.as_ref().is_some_and(|effect| effect.run().is_some());
            participant.granted.has_commands |= record.granted.iter().any(runs);
            participant.held.push(table.hold_again(owner, record));
        }
        participant.replies = replies;
        participant.bytes = bytes as usize;
        participant.stage = Stage::Preparing(Round::of(participants, members, Asks::Vote));
        participant.write_yes(place.map(|place| {
            let said = match place.answers {
                VotedAnswers::All => Said::All,
                VotedAnswers::Tentative(_) if is_planted(Bug::PromotedAnswersAnew) => Said::All,
                VotedAnswers::Tentative(locked) => Said::Tentative { locked: locked as usize },
                VotedAnswers::Later => Said::Nothing,
            };
            Place { at: place.at, behind: place.behind, said }
        }));
        participant
    }
}
