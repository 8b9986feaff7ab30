//! Votes with timestamps, and what follows from them (P73 to P88): the attempt's side. `lock_table/line.rs` has the records'.

use smallvec::SmallVec;

use super::participant::{Place, Said};
use super::{AttemptId, Decided, Fate, Link, RecordIx, Response, Shard, Stage, Time, rules};
use crate::ids::{Birth, Timestamp};
use crate::message::Output;
use crate::switches::{Delivery, Ordered};

impl Shard {
    /// The final timestamp of an attempt that is committed, if it was stamped and is remembered.
    pub fn final_timestamp(&self, attempt: AttemptId) -> Option<Timestamp> {
        match self.decided(attempt) {
            Some(Decided::Applied { at, .. }) => *at,
            _ => self.placed_at(attempt),
        }
    }

    /// How far ahead of now a timestamp may be (P79, P88).
    fn ahead(&self, now: Time) -> Timestamp {
        Timestamp(now.plus(self.limits.ahead_us_max).0)
    }

    /// Whether calls on some records here are ordered.
    #[inline]
    pub(super) fn orders(&self) -> bool {
        self.switches.ordering != Ordered::Never && self.switches.delivery == Delivery::Network
    }

    /// Whether a prepare without a timestamp is taken: nothing is present here, and everything is settled (P87).
    pub(super) fn takes_unstamped(&self) -> bool {
        !self.orders()
    }

    /// Another incarnation begins: behind all that an earlier one may have published, voted or carried out (P85).
    pub(super) fn begin_clock(&mut self, now: Time) {
        if self.orders() {
            self.clock = self.clock.max(self.ahead(now));
            self.table.clocks.forget_up_to(self.clock);
        }
    }

    /// A client process wants the clock (P79).
    pub(super) fn tick(&mut self, now: Time, link: Link, want: Timestamp) {
        let own = Timestamp(now.0);
        self.clock = self.clock.max(own).max(want.min(self.ahead(now)));
        self.clock = self.clock.max(self.table.clocks.forget(self.clock));
        let response = Response::Ticked { clock: self.clock, now, orders: self.orders() };
        self.outputs.push_back(Output::Respond { session: link.session, response });
    }

    /// Writes yes with a timestamp (P73).
    pub(super) fn vote_in_place(&mut self, now: Time, attempt: AttemptId, suggested: Timestamp) {
        let held = self.attempts[&attempt].held.clone();
        let before = held.iter().map(|record| self.table.clock_before(*record, attempt)).max();
        let before = before.unwrap_or_default();
        let at = rules::vote_after(suggested.min(self.ahead(now)), self.clock, before);
        let mut is_alone = true;
        for record in &held {
            is_alone &= self.table.take_place(*record, attempt, at);
        }
        self.clock = self.clock.max(self.table.clocks.forget(self.clock));
        let behind = if is_alone { before } else { Timestamp::MAX };
        let said = self.answer_in_order(attempt, &held, is_alone);
        let id = self.id;
        let participant = self.participant(attempt);
        let stage = std::mem::replace(&mut participant.stage, Stage::Open);
        let Stage::Preparing(round) = stage else { unreachable!("only a preparing one votes") };
        let is_single = round.participants.iter().all(|listed| listed.shard == id);
        let place = Place { at, behind, said };
        participant.stage =
            Stage::Prepared { round, place: Some(place), answers: SmallVec::new(), asked_us: 0 };
        if let Some(elder) = self.told(&held, attempt) {
            self.pass_on(attempt, elder);
        }
        if is_single {
            self.place(now, attempt, at);
        } else {
            self.say_place(attempt);
        }
    }

    /// Who stands before an attempt in some line is in the way of whoever waits for it (P81).
    pub(super) fn pass_on(&mut self, attempt: AttemptId, elder: Birth) {
        if !self.orders() || !self.attempts.get(&attempt).is_some_and(|it| it.is_prepared()) {
            return;
        }
        for record in self.attempts[&attempt].held.clone() {
            self.table.pass_on(record, attempt, elder);
        }
    }

    /// The eldest that an attempt was told of on these records.
    fn told(&self, held: &[RecordIx], attempt: AttemptId) -> Option<Birth> {
        held.iter().filter_map(|record| self.table.told(*record, attempt)).min()
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
        let locked = self.participant(attempt).replies.len();
        for record in in_order {
            let replies = self.table.answers_in_order(record, attempt);
            self.participant(attempt).replies.extend(replies);
        }
        Said::Tentative { locked }
    }

    /// Says what was voted, once more if need be.
    pub(super) fn say_place(&mut self, attempt: AttemptId) {
        let shard = self.id;
        let participant = self.participant(attempt);
        let Stage::Prepared { place: Some(Place { at, behind, said }), .. } = participant.stage else {
            return;
        };
        let is_tentative = matches!(said, Said::Tentative { .. });
        let replies = (said != Said::Nothing).then(|| participant.voted_replies());
        self.respond(attempt, Response::Placed { attempt, shard, at, behind, replies, is_tentative });
    }

    /// The final timestamp is known (P74). Who is torn by its own coordinator gets one that is not below its vote, nor too far
    /// ahead (P88).
    pub(super) fn apply_at(&mut self, now: Time, attempt: AttemptId, at: Timestamp) {
        match self.attempts.get(&attempt).map(|participant| &participant.stage) {
            Some(Stage::Prepared { place: Some(place), .. }) => {
                let at = at.min(self.ahead(now)).max(place.at);
                self.place(now, attempt, at);
            }
            // It is on its way.
            Some(Stage::Placed { .. }) => {}
            Some(_) => self.apply(now, attempt),
            None => self.tell_done(attempt),
        }
    }

    /// Gives an attempt its final place: locks go, and its entries are carried out when their turn comes (P75).
    pub(super) fn place(&mut self, now: Time, attempt: AttemptId, at: Timestamp) {
        let participant = self.participant(attempt);
        let stage = std::mem::replace(&mut participant.stage, Stage::Open);
        let Stage::Prepared { round, place: Some(voted), .. } = stage else {
            unreachable!("only who has voted gets a place")
        };
        let mut said = voted.said;
        if let Said::Tentative { locked } = said {
            if rules::are_good(voted.at, at) {
                said = Said::All;
            } else {
                participant.replies.truncate(locked);
                said = Said::Nothing;
            }
        }
        let behind = if at == voted.at { voted.behind } else { Timestamp::MAX };
        let held = std::mem::take(&mut participant.held);
        let members = round.members.clone();
        participant.stage = Stage::Placed { round, at, behind, replies: said };
        let (in_order, locked): (SmallVec<[RecordIx; 4]>, SmallVec<[RecordIx; 4]>) =
            held.into_iter().partition(|record| self.table.stands_in(*record, attempt));
        self.participant(attempt).held.clone_from(&in_order);
        for record in locked {
            self.table.raise(record, attempt, at);
            self.table.release(now, record, attempt, Fate::Apply(&members));
        }
        let told = self.told(&in_order, attempt);
        for record in in_order {
            self.table.finish_place(now, record, attempt, at, said == Said::Nothing);
        }
        if let Some(elder) = told {
            self.pass_on(attempt, elder);
        }
        self.done_if_carried_out(now, attempt);
    }

    /// It was carried out on one record.
    pub(super) fn carried(&mut self, now: Time, carried: super::lock_table::Carried) {
        let Some(participant) = self.attempts.get_mut(&carried.attempt) else { return };
        participant.held.retain(|record| *record != carried.record);
        participant.replies.extend(carried.replies);
        self.done_if_carried_out(now, carried.attempt);
    }

    fn done_if_carried_out(&mut self, now: Time, attempt: AttemptId) {
        let shard = self.id;
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        if !participant.held.is_empty() {
            return;
        }
        let Stage::Placed { round, at, behind, replies: said } = &participant.stage else { return };
        let (before, at, behind) = (round.replies_before, *at, *behind);
        let (listed, is_said) = (round.participants.clone(), *said == Said::All);
        let is_single = listed.iter().all(|listed| listed.shard == shard);
        let replies = participant.take_replies(before);
        let decided = Decided::Applied { replies: Some(replies.clone()), at: Some(at) };
        self.finish(now, attempt, Fate::Drop, decided, Some(listed));
        let replies = Some(replies).filter(|_| is_single || !is_said);
        self.respond(attempt, Response::Done { attempt, shard, at, behind, replies });
    }

    /// A double of what is over: it was carried out, or the low-water mark has passed it.
    pub(super) fn tell_done(&mut self, attempt: AttemptId) {
        let shard = self.id;
        let (at, replies) = match self.decided(attempt) {
            Some(Decided::Applied { replies, at }) => {
                (at.unwrap_or(Timestamp::MAX), rules::known_answers(replies))
            }
            _ => (Timestamp::MAX, None),
        };
        let replies = replies.filter(|replies| self.says_again(replies));
        self.respond(attempt, Response::Done { attempt, shard, at, behind: Timestamp::MAX, replies });
    }

    /// What a participant that asks hears of one that has voted (P84).
    pub(super) fn voted_at(&self, attempt: AttemptId) -> Option<Timestamp> {
        match self.attempts.get(&attempt)?.stage {
            Stage::Prepared { place: Some(place), .. } => Some(place.at),
            _ => None,
        }
    }

    /// Its final timestamp, while it waits for its turn.
    pub(super) fn placed_at(&self, attempt: AttemptId) -> Option<Timestamp> {
        match self.attempts.get(&attempt)?.stage {
            Stage::Placed { at, .. } => Some(at),
            _ => None,
        }
    }
}
