//! How a replica goes on as the shard (S3, S4, S6, S8 of `docs/replication.md`).
//!
//! Whoever is promoted stands where the shard stood: what had voted holds its locks again, stands in its lines again where it
//! voted or where it is final, and has said what it had said. Nothing is carried out before the first input: then the records are
//! there, and the host takes what is done to them as ever.

use std::collections::BTreeMap;

use claret_types::{Bytes, TypeInfo};

use super::history::Remembered;
use super::participant::{Participant, Place, Round, Said, Stage};
use super::{Decided, Incarnation, Limits, Refusal, SessionId, Shard, Switches, Time};
use crate::backup::{Backup, HeldRecord, Known, Vote, VotedAnswers};
use crate::ids::Timestamp;
use crate::message::Asks;
use crate::planted::{Bug, is_planted};
use crate::records::Records;

/// The types of held records. No shard lets two in that share no modes; the tables of one are not for the other.
#[derive(Default)]
struct Kinds(BTreeMap<Bytes, &'static TypeInfo>);

impl Kinds {
    fn admit(&mut self, held: &[HeldRecord]) -> bool {
        let is_of_another = |record: &HeldRecord| {
            self.0.get(&record.key).is_some_and(|kind| kind.common_modes(record.kind).is_none())
        };
        if held.iter().any(is_of_another) {
            return false;
        }
        for record in held {
            let kind = self.0.entry(record.key.clone()).or_insert(record.kind);
            if kind.is_of_any() {
                *kind = record.kind;
            }
        }
        true
    }
}

impl Shard {
    /// A replica goes on as its shard, in another incarnation, over the records that came with the changes: external ones, or none
    /// yet ([`Self::load`]). What had voted holds its locks again before anybody else gets in. `None`: the backup is of no shard.
    ///
    /// The incarnation must be larger than [`Backup::incarnation`], by more than the shard can have gone on without being heard of.
    pub fn promote(
        backup: Backup,
        records: Option<&'static dyn Records>,
        now: Time,
        incarnation: Incarnation,
        switches: Switches,
        limits: Limits,
    ) -> Option<Shard> {
        let (id, since) = backup.of?;
        let heard_of = backup.incarnation.unwrap_or(since);
        let incarnation = heard_of.next(incarnation);
        let mut shard = match records {
            Some(records) => Shard::over(records, id, incarnation, switches, limits),
            None => Shard::new(id, incarnation, switches, limits),
        };
        shard.remembers_since = since;
        shard.latest = now;
        for (session, known) in backup.sessions {
            shard.restore_session(now, session, known);
        }
        let mut used = backup.used;
        let mut placed = backup.placed;
        let mut kinds = Kinds::default();
        for vote in backup.votes.into_values().filter(is_restored) {
            if !kinds.admit(&vote.held) {
                continue;
            }
            let (attempt, voted) = (vote.attempt, vote.place.map(|place| place.at));
            used = used.max(voted.unwrap_or_default());
            shard.restore_vote(now, vote);
            // The vote of a single participant is final.
            if let Some(at) = voted.filter(|_| shard.is_single(attempt)) {
                placed.entry(attempt).or_insert(at);
            }
        }
        used = placed.values().copied().fold(used, Timestamp::max);
        backup.seen.into_iter().for_each(|(key, seen)| shard.table.see_again(&key, *seen));
        if used > Timestamp::default() {
            shard.begin_at(used);
        }
        // All stand in their lines: now it shows whose turn has come.
        for (attempt, at) in placed {
            if shard.voted_at(attempt).is_some() {
                shard.place(now, attempt, at);
            }
        }
        shard.end_with_their_records(now);
        Some(shard)
    }

    fn restore_session(&mut self, now: Time, session: SessionId, known: Known) {
        let answers_bytes_max = self.limits.answers_bytes_max;
        let history = self.sessions.entry(session).or_default();
        (history.account, history.since) = (known.account, known.since);
        history.raise(known.low_water);
        let decided = known.decided.into_iter().filter(|_| !is_planted(Bug::PromotedForgetsDecisions));
        for (place, it) in decided {
            let decided = match it.is_applied {
                true => Decided::Applied { replies: it.replies, at: it.at, is_unheard: false },
                false => Decided::Refused(Refusal::Unknown),
            };
            history.decide(place, Remembered { decided, listed: it.listed }, answers_bytes_max);
        }
        let (account, bytes) = (history.account, history.bytes());
        self.recount(account, 0, bytes);
        // Whoever comes again is greeted again; whoever does not is forgotten in time.
        self.departed.note_stranger(now, session);
    }

    fn restore_vote(&mut self, now: Time, vote: Vote) {
        let Vote { attempt, birth, participants, members, replies, account, bytes, held, place } = vote;
        let owner = super::Owner::of(attempt, birth);
        let mut participant = Participant::new(owner, account, self.incarnation);
        for record in held {
            participant.held.push(self.table.hold_again(owner, record));
        }
        let orders = false;
        let round =
            Round { participants, members, asks: Asks::Vote, orders, replies_before: 0, chained: None };
        participant.replies = replies;
        participant.bytes = bytes as usize;
        let place = place.map(|place| {
            let said = match place.answers {
                VotedAnswers::All => Said::All,
                VotedAnswers::Tentative(_) if is_planted(Bug::PromotedAnswersAnew) => Said::All,
                VotedAnswers::Tentative(locked) => Said::Tentative { locked: locked as usize },
                VotedAnswers::Later => Said::Nothing,
            };
            Place { at: place.at, behind: place.behind, said }
        });
        participant.stage = Stage::Prepared { round, place, answers: smallvec::SmallVec::new(), asked_us: 0 };
        self.recount(account, 0, participant.bytes);
        for record in participant.held.clone() {
            // One whose time was over has ended, and the vote comes before that.
            let _ = self.table.hold_ends(&[record], attempt);
        }
        if let Some(Place { at, .. }) = place {
            self.stamped += 1;
            participant.held.iter().for_each(|record| self.table.stand_again(*record, attempt, at));
        }
        let place = (attempt.tx.sequence, attempt.attempt);
        self.sessions.entry(attempt.tx.session).or_default().open(place);
        self.attempts.insert(attempt, Box::new(participant));
        self.renew(now, attempt);
    }
}

/// Whoever is promoted holds again what had voted (S3).
fn is_restored(vote: &Vote) -> bool {
    let writes =
        |held: &HeldRecord| !held.in_order.is_empty() || held.granted.iter().any(|it| it.effect.is_some());
    let forgets_reads = is_planted(Bug::PromotedForgetsReads) && !vote.held.iter().any(writes);
    !forgets_reads && !is_planted(Bug::PromotedForgetsVotes)
}
