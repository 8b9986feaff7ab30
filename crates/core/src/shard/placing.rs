//! Votes with timestamps, and what follows from them (P73 to P88): the attempt's side. `lock_table/line.rs` has the records'.

use claret_types::{Bytes, OpError};
use smallvec::SmallVec;

use super::ends::known_answers;
use super::lock_table::Carried;
use super::participant::{Calls, Place, Said};
use super::{AttemptId, Decided, Fate, RecordIx, Refusal, Response, Shard, Stage, Time, key_hash};
use crate::ids::{Birth, Timestamp};
use crate::message::Asks;
use crate::planted::{Bug, is_planted};
use crate::switches::Ordered;

impl Shard {
    /// The final timestamp of an attempt that is committed, if it was stamped and is remembered.
    pub fn final_timestamp(&self, attempt: AttemptId) -> Option<Timestamp> {
        match self.decided(attempt) {
            Some(Decided::Applied { at, .. }) => *at,
            _ => self.placed_at(attempt),
        }
    }

    /// No later vote has a timestamp that is not larger.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Keys go to another shard: up to where timestamps were used here. The other one hears of it before it serves them (P86).
    pub fn hand_over(&self) -> Timestamp {
        self.clock.max(self.table.clocks().latest_of_all())
    }

    /// Keys came from another shard, on which timestamps were used up to this one. Whether that is settled is not known.
    pub fn take_over(&mut self, used: Timestamp) {
        if self.can_order() {
            if !is_planted(Bug::TakerStaysLow) {
                self.clock = self.clock.max(used);
            }
            self.table.clocks_mut().begin_at(self.clock);
        }
    }

    /// Whether an attempt that is committed has been carried out on a record, though perhaps not on all of its records.
    pub fn has_carried_out(&self, attempt: AttemptId, key: &[u8]) -> bool {
        let stands = || {
            let record = self.table.find(key_hash(key), key);
            record.is_some_and(|record| self.table.stands_in(record, attempt))
        };
        self.placed_at(attempt).is_some() && !stands()
            || matches!(self.decided(attempt), Some(Decided::Applied { .. }))
    }

    /// That an operation cannot be done. Where calls are ordered, that tells of a state that may not be settled (P78), and whoever
    /// comes now was not seen.
    pub(super) fn fails(&mut self, key: Bytes, error: OpError) -> Refusal {
        if error == OpError::Changed {
            return Refusal::Changed { key };
        }
        let error = Box::new(error);
        if !self.can_order() || self.switches.ordering == Ordered::Hot && self.is_settled() {
            return Refusal::Operation { key, error };
        }
        let behind = self.table.clocks().latest(key_hash(&key));
        // It tells of all of the record: whoever votes from now on has a larger timestamp than what it tells of (P78).
        if !is_planted(Bug::ErrorUnnoted) {
            self.table.clocks_mut().seal(key_hash(&key));
        }
        Refusal::OperationBehind { key, error, behind }
    }

    /// How far ahead of now a suggestion may be (P88).
    fn ahead(&self, now: Time) -> Timestamp {
        Timestamp(now.plus(self.limits.ahead_us_max).0)
    }

    /// So many times what clocks may be apart beyond a suggestion, or what another shard named if that is more (P88). Nothing is added to
    /// that, or two liars would take everybody ever further.
    fn ahead_by(&self, now: Time, skews: u64) -> Timestamp {
        let far = self.limits.ahead_us_max.saturating_add(self.limits.skew_us_max.saturating_mul(skews));
        Timestamp(now.plus(far).0).max(self.vouched())
    }

    /// How far ahead of now another node may be with a suggestion that it took: its clock may go before this one's (P88).
    pub(super) fn far_ahead(&self, now: Time) -> Timestamp {
        self.ahead_by(now, 1)
    }

    /// Whether a coordinator is believed what the final timestamp is: one further ahead is no node's that began anew just now, and no
    /// other shard said that it is there.
    fn is_likely(&self, now: Time, at: Timestamp) -> bool {
        at <= self.ahead_by(now, 2) || is_planted(Bug::AnyFinalBelieved)
    }

    /// Whether no node is so far ahead while clocks agree: with one that began anew, and gave keys to another that took more for used.
    pub(super) fn was_a_clock_wrong(&self, now: Time, at: Timestamp) -> bool {
        at > self.ahead_by(now, 4)
    }

    /// Whether an attempt asks for a place in an order of a shard whose replicas are to know it, and that orders nothing (S8).
    pub(super) fn is_stamped_in_vain(&self, asks: Asks) -> bool {
        self.is_replicated() && !self.can_order() && matches!(asks, Asks::Place(_))
    }

    /// Whether calls of a stamped prepare are ordered where they can be. A single participant orders all or nothing, so that it
    /// carries out all at once (P83).
    pub(super) fn may_order(&self, attempt: AttemptId, is_single: bool, records: &[(Bytes, Calls)]) -> bool {
        let holds_nothing = || self.attempts[&attempt].held.is_empty();
        self.can_order() && (!is_single || holds_nothing() && self.table.may_order_all(records))
    }

    /// Whether a prepare without a timestamp, of these calls, is taken: all that has one is settled, and none of its records is ordered
    /// (P87).
    pub(super) fn takes_unstamped(&mut self, now: Time, records: &[(Bytes, Calls)]) -> bool {
        match self.switches.ordering {
            _ if !self.can_order() => true,
            Ordered::Never => true,
            Ordered::Hot => {
                self.pass(now);
                self.table.roll_heat(now);
                self.may_vote_unstamped() && !self.table.is_any_ordered(records)
            }
            Ordered::Always => false,
        }
    }

    /// The same for its vote, which may come long after it.
    #[inline]
    pub(super) fn may_vote_unstamped(&self) -> bool {
        !self.can_order() || self.is_settled()
    }

    /// Keys came from another shard, which does not say up to where timestamps were used on them: further than it can have gone.
    /// Whether that is settled is not known (P86).
    pub fn take_over_unasked(&mut self, now: Time) {
        self.take_over(self.ahead_by(now, 2));
    }

    /// Another incarnation begins: behind all that an earlier one may have published, voted or carried out (P85).
    pub fn begin_clock(&mut self, now: Time) {
        if self.can_order() {
            let restarts_low = is_planted(Bug::RestartsAtOwnTime);
            self.begin_at(if restarts_low { Timestamp(now.0) } else { self.far_ahead(now) });
            self.doubt(now);
        }
    }

    /// Up to here anything may have been used, and none of it is known to be settled.
    pub(super) fn begin_at(&mut self, at: Timestamp) {
        self.clock = self.clock.max(at);
        self.table.clocks_mut().begin_at(self.clock);
    }

    /// The timestamp of a vote: not below what is suggested, and above the shard's clock and those of its records (P73). Nobody votes
    /// before the own time: so what is long ago is settled, whoever is silent (P79).
    fn vote_after(&self, now: Time, suggested: Timestamp, before: Timestamp) -> Timestamp {
        let suggested = suggested.min(self.ahead(now));
        let least = if is_planted(Bug::VotesInThePast) { suggested } else { suggested.max(Timestamp(now.0)) };
        let clock = if is_planted(Bug::VoteBelowClock) { Timestamp::default() } else { self.clock };
        let before = if is_planted(Bug::VoteBelowRecords) { Timestamp::default() } else { before };
        least.max(clock.next()).max(before.next())
    }

    /// Writes yes with a timestamp (P73).
    pub(super) fn vote_in_place(&mut self, now: Time, attempt: AttemptId, suggested: Timestamp) {
        let held = self.attempts[&attempt].held.clone();
        let in_order = held.iter().filter(|record| self.table.stands_in(**record, attempt)).count();
        // A single participant would carry out some of its calls at once, and others in their turn: what was all to be ordered cannot be any more (P83).
        if self.is_single(attempt) && in_order > 0 && in_order < held.len() {
            return self.refuse(now, attempt, Refusal::Unstamped);
        }
        let before = held.iter().map(|record| self.table.clock_before(*record, attempt)).max();
        let before = before.unwrap_or_default();
        let at = self.vote_after(now, suggested, before);
        let mut is_alone = true;
        for record in &held {
            is_alone &= self.table.take_place(now, *record, attempt, at);
        }
        let horizon = self.horizon();
        self.clock = self.clock.max(self.table.clocks_mut().forget(self.clock, horizon));
        // The clocks of its records, or everything, if somebody who conflicts is present (P77).
        let is_settled = is_alone || is_planted(Bug::PresentIsSettled);
        let behind = if is_settled { before } else { Timestamp::MAX };
        let said = self.answer_in_order(attempt, &held, is_alone);
        let participant = self.participant(attempt);
        let stage = std::mem::replace(&mut participant.stage, Stage::Open);
        let Stage::Preparing(round) = stage else { unreachable!("only a preparing one votes") };
        let place = Place { at, behind, said };
        participant.stage =
            Stage::Prepared { round, place: Some(place), answers: SmallVec::new(), asked_us: 0 };
        self.stamped += 1;
        self.tell_vote(attempt);
        if self.is_single(attempt) {
            self.place(now, attempt, at);
        } else {
            self.say_place(attempt);
        }
    }

    /// Whether nobody else takes part in an attempt that prepares or has voted.
    pub(super) fn is_single(&self, attempt: AttemptId) -> bool {
        let Some(participant) = self.attempts.get(&attempt) else { return false };
        match &participant.stage {
            Stage::Open => false,
            Stage::Preparing(round) | Stage::Prepared { round, .. } | Stage::Placed { round, .. } => {
                round.participants.iter().all(|listed| listed.shard == self.id)
            }
        }
    }

    /// Who goes before an attempt in some line is in the way of whoever waits for it (P81).
    pub(super) fn pass_on(&mut self, attempt: AttemptId, elder: Birth) {
        if is_planted(Bug::ElderNotPassedOn) {
            return;
        }
        for record in self.attempts[&attempt].held.clone() {
            self.table.pass_on(record, attempt, elder);
        }
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

    /// Says what was voted, once more if need be; also where the final place is known, of which its coordinator may not know (P84).
    pub(super) fn say_place(&mut self, attempt: AttemptId) {
        let shard = self.id;
        let participant = self.participant(attempt);
        let Some(Place { at, behind, said }) = participant.place() else { return };
        let is_tentative = matches!(said, Said::Tentative { .. });
        let replies = (said != Said::Nothing).then(|| participant.voted_replies());
        self.respond(attempt, Response::Placed { attempt, shard, at, behind, replies, is_tentative });
    }

    /// The final timestamp is known (P74). Who is torn by its own coordinator gets one that is not below its vote. Of one that is
    /// too far ahead the shards assure themselves (P88).
    pub(super) fn apply_at(&mut self, now: Time, attempt: AttemptId, at: Timestamp) {
        match self.attempts.get(&attempt).map(|participant| &participant.stage) {
            Some(Stage::Prepared { place: Some(place), .. }) if self.is_likely(now, at) => {
                let at = at.max(place.at);
                self.place(now, attempt, at);
            }
            // Unless it asks already.
            Some(Stage::Prepared { place: Some(_), asked_us: 0, .. }) => self.inquire_now(now, attempt),
            Some(Stage::Prepared { place: Some(_), .. }) => {}
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
        let participant = self.participant(attempt);
        participant.stage = Stage::Placed { round, voted, at, behind, replies: said, unready };
        participant.held.clone_from(&in_order);
        self.tell_place(attempt, voted.at, at);
        for record in locked {
            // Before the lock goes (P75, P84).
            self.table.raise(record, attempt, if is_planted(Bug::LockedKeepVote) { voted.at } else { at });
            self.table.release(now, record, attempt, Fate::Apply(&members));
        }
        // It goes with all of its records at once: who waits for one of them waits for who goes before it on another.
        let told = in_order.iter().filter_map(|record| self.table.told(*record, attempt)).min();
        if let Some(elder) = told {
            self.pass_on(attempt, elder);
        }
        for record in in_order {
            self.table.finish_place(now, record, attempt, at, said == Said::Nothing);
        }
        self.done_if_carried_out(now, attempt);
    }

    /// Its turn has come on one more record. It is carried out on all of them at once (P75): others see all of it here or nothing,
    /// and so does whoever reads what is left of a shard.
    pub(super) fn come_ready(&mut self, now: Time, attempt: AttemptId) {
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        let Stage::Placed { unready, .. } = &mut participant.stage else { return };
        *unready -= 1;
        if *unready > 0 {
            return;
        }
        let held = std::mem::take(&mut participant.held);
        let mut behind: SmallVec<[(RecordIx, SmallVec<[AttemptId; 2]>); 4]> = SmallVec::new();
        for record in held {
            if let Some(Carried { replies, watchers, is_seen }) = self.table.carry_out(record, attempt) {
                self.participant(attempt).replies.extend(replies);
                behind.push((record, watchers));
                if is_seen {
                    self.tell_seen(record);
                }
            }
        }
        for (record, watchers) in behind {
            // Who stood behind one that has been carried out is looked at again (P75).
            let watchers = watchers.into_iter().filter(|_| !is_planted(Bug::WatchersForgotten));
            self.table.look_at(now, record, watchers.collect());
        }
        self.done_if_carried_out(now, attempt);
    }

    fn done_if_carried_out(&mut self, now: Time, attempt: AttemptId) {
        let shard = self.id;
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        if !participant.held.is_empty() {
            return;
        }
        let Stage::Placed { round, at, behind, replies: said, .. } = &participant.stage else { return };
        let (before, at, behind) = (round.replies_before, *at, *behind);
        let (listed, is_said) = (round.participants.clone(), *said == Said::All);
        let is_single = listed.iter().all(|listed| listed.shard == shard);
        let replies = participant.take_replies(before);
        let decided = Decided::Applied { replies: Some(replies.clone()), at: Some(at), is_unheard: false };
        self.finish(now, attempt, Fate::Drop, decided, Some(listed));
        let replies = Some(replies).filter(|_| is_single || !is_said);
        self.respond(attempt, Response::Done { attempt, shard, at, behind, replies });
    }

    /// A double of what is over: it was carried out, or the low-water mark has passed it.
    pub(super) fn tell_done(&mut self, attempt: AttemptId) {
        let shard = self.id;
        if self.again_bytes == 0 {
            return; // It is as if that word was lost, and nothing is copied for it.
        }
        let (at, replies) = match self.decided(attempt) {
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
