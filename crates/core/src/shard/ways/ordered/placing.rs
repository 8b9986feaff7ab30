//! Votes with timestamps, and what follows from them (P73 to P88): the attempt's side. `lock/ways/ordered/line.rs` has the records'.

use smallvec::SmallVec;

use crate::backup::Change;
use crate::ids::{AttemptId, Birth, Timestamp};
use crate::message::{Refusal, Response};
use crate::planted::{Bug, is_planted};
use crate::shard::ending::known_answers;
use crate::shard::history::Decided;
use crate::shard::lock_table::{Carried, Fate, RecordIx};
use crate::shard::participant::{Place, Said, Stage};
use crate::shard::step::Step;
use crate::switches::Ordered;

/// Asking for timestamps (P87).
impl Step<'_> {
    /// Whether everything that commits here is to have a timestamp.
    #[inline]
    pub(in crate::shard) fn asks_for_timestamps(&mut self) -> bool {
        let limits = self.config.limits();
        match self.config.switches().ordering() {
            Ordered::Never => false,
            Ordered::Adaptive => {
                self.adaptive.pass(self.now, limits);
                self.adaptive.asks(limits)
            }
            Ordered::Always => true,
        }
    }
}

/// Voting.
impl Step<'_> {
    /// Writes yes with a timestamp (P73).
    pub(in crate::shard) fn vote_in_place(&mut self, attempt: AttemptId, suggested: Timestamp) {
        let held = self.attempts[attempt].held.clone();
        let in_order = held.iter().filter(|record| self.table.stands_in(**record, attempt)).count();
        let is_single = self.is_single(attempt);
        // A single participant would carry out some of its calls at once, and others in their turn: what was all to be ordered cannot be any more (P83).
        if is_single && in_order > 0 && in_order < held.len() {
            return self.refuse(attempt, Refusal::Unstamped);
        }
        let before = held.iter().map(|record| self.table.clock_before(*record, attempt)).max();
        let before = before.unwrap_or_default();
        let at = self.safe_time.vote_after(self.now, self.config, suggested, before);
        let mut met = 0;
        for record in &held {
            met += usize::from(!self.table.take_place(*record, attempt, at));
        }
        let is_alone = met == 0;
        self.adaptive.note_met(in_order, met);
        self.safe_time.keep_up(self.table);
        // The clocks of its records, or everything, if somebody who conflicts is present (P77).
        let is_settled = is_alone || is_planted(Bug::PresentIsSettled);
        let behind = if is_settled { before } else { Timestamp::MAX };
        let said = match self.attempts[attempt].granted.has_commands {
            true => Said::Nothing, // Their answers come with the others, once they are carried out.
            false => self.answer_in_order(attempt, &held, is_alone),
        };
        self.attempts[attempt].write_yes(Some(Place { at, behind, said }));
        self.safe_time.note_vote();
        self.tell_vote(attempt);
        if is_single {
            self.place(attempt, at);
        } else {
            self.say_place(attempt);
        }
    }

    /// Whether nobody else takes part in an attempt that prepares or has voted.
    pub(in crate::shard) fn is_single(&self, attempt: AttemptId) -> bool {
        let round = self.attempts.get(attempt).and_then(|participant| participant.round());
        round.is_some_and(|round| self.config.is_only_one(&round.participants))
    }

    /// Adds the answers of ordered calls to those that the vote says, if they can be known.
    fn answer_in_order(&mut self, attempt: AttemptId, held: &[RecordIx], is_alone: bool) -> Said {
        let in_order = held.iter().filter(|record| self.table.answers_later(**record, attempt));
        let in_order: SmallVec<[RecordIx; 4]> = in_order.copied().collect();
        if in_order.is_empty() {
            return Said::All;
        }
        if !is_alone {
            return Said::Nothing;
        }
        let participant = &mut self.attempts[attempt];
        let locked = participant.replies.len();
        for record in in_order {
            let replies = self.table.answers_in_order(record, attempt);
            participant.replies.extend(replies);
        }
        Said::Tentative { locked }
    }

    /// Who goes before an attempt in some line is in the way of whoever waits for it (P81).
    pub(in crate::shard) fn pass_on(&mut self, attempt: AttemptId, elder: Birth) {
        if is_planted(Bug::ElderNotPassedOn) {
            return;
        }
        for record in &self.attempts[attempt].held {
            self.table.pass_on(*record, attempt, elder);
        }
    }
}

/// Being placed.
impl Step<'_> {
    /// Says what was voted, once more if need be; also where the final place is known, of which its coordinator may not know (P84).
    pub(in crate::shard) fn say_place(&mut self, attempt: AttemptId) {
        let shard = self.config.id();
        let participant = &mut self.attempts[attempt];
        let Some(Place { at, behind, said }) = participant.place() else { return };
        let is_tentative = matches!(said, Said::Tentative { .. });
        let replies = (said != Said::Nothing).then(|| participant.voted_replies());
        self.out.respond(attempt, Response::Placed { attempt, shard, at, behind, replies, is_tentative });
    }

    /// The final timestamp is known (P74). Who is torn by its own coordinator gets one that is not below its vote. Of one that is
    /// too far ahead the shards assure themselves (P88).
    pub(in crate::shard) fn apply_at(&mut self, attempt: AttemptId, at: Timestamp) {
        match self.attempts.get(attempt).map(|participant| &participant.stage) {
            Some(Stage::Prepared { place: Some(place), .. })
                if self.safe_time.is_likely(self.now, self.config, at) =>
            {
                let at = at.max(place.at);
                self.place(attempt, at);
            }
            // Unless it asks already.
            Some(Stage::Prepared { place: Some(_), asked_us: 0, .. }) => self.inquire_now(attempt),
            Some(Stage::Prepared { place: Some(_), .. }) => {}
            // It is on its way.
            Some(Stage::Placed { .. }) => {}
            Some(_) => self.apply(attempt),
            None => self.tell_done(attempt),
        }
    }

    /// Gives an attempt its final place: locks go, and its entries are carried out when their turn comes (P75).
    pub(in crate::shard) fn place(&mut self, attempt: AttemptId, at: Timestamp) {
        let participant = &mut self.attempts[attempt];
        let stage = std::mem::replace(&mut participant.stage, Stage::Open);
        let Stage::Prepared { round, place: Some(mut voted), .. } = stage else {
            unreachable!("only who has voted gets a place")
        };
        let mut said = voted.said;
        if let Said::Tentative { locked } = said {
            if voted.at == at || is_planted(Bug::TentativeCounts) {
                said = Said::All;
            } else {
                participant.replies.truncate(locked);
                (said, voted.said) = (Said::Nothing, Said::Nothing);
            }
        }
        let behind = if at == voted.at { voted.behind } else { Timestamp::MAX };
        let held = std::mem::take(&mut participant.held);
        let members = round.members.clone();
        let (in_order, locked): (SmallVec<[RecordIx; 4]>, SmallVec<[RecordIx; 4]>) =
            held.into_iter().partition(|record| self.table.stands_in(*record, attempt));
        let unready = in_order.len();
        let participant = &mut self.attempts[attempt];
        participant.stage = Stage::Placed { round, voted, at, behind, replies: said, unready };
        participant.held.clone_from(&in_order);
        self.out.tell_replicas(|| {
            let at = if is_planted(Bug::FinalToldAsVoted) { voted.at } else { at };
            Some(Change::Placed { attempt, at })
        });
        self.run_commands(attempt, Some(&locked), &members);
        for record in locked {
            // Before the lock goes (P75, P84).
            self.table.raise(record, attempt, if is_planted(Bug::LockedKeepVote) { voted.at } else { at });
            self.table.release(self.now, record, attempt, Fate::Apply(&members));
        }
        // It goes with all of its records at once: who waits for one of them waits for who goes before it on another.
        let told = in_order.iter().filter_map(|record| self.table.told(*record, attempt)).min();
        if let Some(elder) = told {
            self.pass_on(attempt, elder);
        }
        for record in in_order {
            self.table.finish_place(self.now, record, attempt, at, said == Said::Nothing);
        }
        self.done_if_carried_out(attempt);
    }

    /// Its turn has come on one more record. It is carried out on all of them at once (P75): others see all of it here or nothing,
    /// and so does whoever reads what is left of a shard.
    pub(in crate::shard) fn come_ready(&mut self, attempt: AttemptId) {
        let Some(participant) = self.attempts.get_mut(attempt) else { return };
        let Stage::Placed { unready, .. } = &mut participant.stage else { return };
        *unready -= 1;
        if *unready > 0 {
            return;
        }
        let held = std::mem::take(&mut participant.held);
        let mut behind: SmallVec<[(RecordIx, SmallVec<[AttemptId; 2]>); 4]> = SmallVec::new();
        for record in held {
            if let Some(Carried { replies, watchers, is_seen }) = self.table.carry_out(record, attempt) {
                self.attempts[attempt].replies.extend(replies);
                behind.push((record, watchers));
                if is_seen {
                    self.tell_seen(record);
                }
            }
        }
        for (record, watchers) in behind {
            // Who stood behind one that has been carried out is looked at again (P75).
            let watchers = watchers.into_iter().filter(|_| !is_planted(Bug::WatchersForgotten));
            self.table.look_at(self.now, record, watchers.collect());
        }
        self.done_if_carried_out(attempt);
    }

    fn done_if_carried_out(&mut self, attempt: AttemptId) {
        let shard = self.config.id();
        let Some(participant) = self.attempts.get_mut(attempt) else { return };
        if !participant.held.is_empty() {
            return;
        }
        let Stage::Placed { round, at, behind, replies: said, .. } = &participant.stage else { return };
        let (before, at, behind) = (round.replies_before, *at, *behind);
        let (listed, is_said) = (round.participants.clone(), *said == Said::All);
        let is_single = self.config.is_only_one(&listed);
        let replies = participant.take_replies(before);
        let decided =
            Decided::Applied { replies: Some(replies.clone()), at: Some(at), is_unacknowledged: false };
        self.finish(attempt, Fate::Drop, decided, Some(listed));
        let replies = Some(replies).filter(|_| is_single || !is_said);
        self.out.respond(attempt, Response::Done { attempt, shard, at, behind, replies });
    }

    /// A double of what is over: it was carried out, or the low-water mark has passed it.
    pub(in crate::shard) fn tell_done(&mut self, attempt: AttemptId) {
        let shard = self.config.id();
        if !self.budget.says_again() {
            return; // It is as if that word was lost, and nothing is copied for it.
        }
        let (at, replies) = match self.memory.decided(attempt) {
            Some(Decided::Applied { replies, at, .. }) => {
                // What was answered nobody knows any more.
                let Some(replies) = known_answers(replies) else {
                    return self.respond_refused(attempt, Refusal::Unknown);
                };
                (at.unwrap_or(Timestamp::MAX), Some(replies))
            }
            _ => (Timestamp::MAX, None),
        };
        if replies.as_ref().is_some_and(|replies| !self.says_again(replies)) {
            return;
        }
        self.out.respond(attempt, Response::Done { attempt, shard, at, behind: Timestamp::MAX, replies });
    }
}
