//! Who takes part in an attempt, and what each has said: the calls it granted, whether they wait, its vote, its place, and whether it
//! has carried the attempt out.

use std::collections::BTreeSet;

use claret_types::Reply;
use smallvec::SmallVec;

use super::outstanding::Outstandings;
use crate::ids::{CallNo, Incarnation, ShardId, Timestamp};
use crate::message;
use crate::message::{Listed, Undone};
use crate::planted::{Bug, is_planted};

/// One shard that takes part.
#[derive(Clone, Debug)]
pub(super) struct Participant {
    shard: ShardId,
    /// The one that is relied on. Once an answer came from it, no answer of another counts (P26).
    incarnation: Option<Incarnation>,
    /// How many calls it granted, as far as it said so: the prepare relies on them. Never falls.
    granted: u32,
    /// Something was executed there, or waits to be.
    executed: bool,
    /// Messages to it with calls that are not answered.
    outstanding: usize,
    /// Of these, those that wait, as far as it said so: those that began below.
    waiting: usize,
    waiting_below: CallNo,
    /// What was undone of what it was asked to execute.
    undone: Vec<Undone>,
    /// What it voted, once that is known.
    vote: Option<bool>,
    /// It lost its memory since the prepare left: what it voted is not known.
    lost: bool,
    /// What it said of its place, if the attempt is stamped.
    placed: Option<Placed>,
    /// It has carried out the attempt. Only after it voted yes.
    applied: bool,
    /// It said that the prepare waits.
    queued: bool,
    /// Its prepare has left.
    asked: bool,
    /// Its prepare leaves when all of an earlier turn have voted.
    turn: u32,
}

/// What a participant said of its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) at: Timestamp,
    pub(super) behind: Timestamp,
    /// `None` as long as they are not known.
    pub(super) replies: Option<Vec<(CallNo, Reply)>>,
    pub(super) is_tentative: bool,
}

impl Participant {
    fn new(shard: ShardId, incarnation: Option<Incarnation>) -> Self {
        Participant {
            shard,
            incarnation,
            granted: 0,
            executed: false,
            outstanding: 0,
            waiting: 0,
            waiting_below: CallNo(0),
            undone: Vec::new(),
            vote: None,
            placed: None,
            lost: false,
            applied: false,
            queued: false,
            asked: false,
            turn: 0,
        }
    }

    // --- what it is known to have said ---

    pub(super) fn shard(&self) -> ShardId {
        self.shard
    }

    /// The incarnation that is relied on.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// How many calls it granted.
    pub(super) fn granted(&self) -> u32 {
        self.granted
    }

    /// Something was executed there, or waits to be.
    pub(super) fn has_executed(&self) -> bool {
        self.executed
    }

    /// What was undone of what it was asked to execute.
    pub(super) fn undone(&self) -> &[Undone] {
        &self.undone
    }

    /// A call waits there.
    pub(super) fn has_waiting_call(&self) -> bool {
        self.waiting > 0
    }

    /// The prepare waits there, and no vote has come.
    pub(super) fn has_waiting_prepare(&self) -> bool {
        self.queued && self.vote.is_none()
    }

    /// It said that the prepare waits.
    pub(super) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Its prepare has left.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    pub(super) fn has_voted(&self) -> bool {
        self.vote.is_some()
    }

    pub(super) fn has_voted_yes(&self) -> bool {
        self.vote == Some(true)
    }

    /// It has not voted, and may do so.
    pub(super) fn may_vote(&self) -> bool {
        self.vote.is_none() && !self.lost
    }

    /// It has carried out the attempt.
    pub(super) fn has_applied(&self) -> bool {
        self.applied
    }

    /// All that it is to answer is here.
    pub(super) fn has_answered(&self) -> bool {
        self.placed.as_ref().is_none_or(|placed| placed.replies.is_some())
    }

    // --- calls ---

    /// A message with calls goes there, the last of this number.
    pub(super) fn send(&mut self, no: CallNo) {
        self.outstanding += 1;
        // What settles has an older number than a call that waits: it counts as that.
        self.waiting += usize::from(no < self.waiting_below);
    }

    /// It is asked to execute.
    pub(super) fn execute(&mut self) {
        self.executed = true;
    }

    /// A message that began with this call is answered.
    pub(super) fn answer(&mut self, began_with: CallNo) {
        self.outstanding -= 1;
        self.waiting -= usize::from(began_with < self.waiting_below);
    }

    /// It granted so many calls in this incarnation. Whether that is the one that is relied on.
    #[must_use]
    pub(super) fn grant(&mut self, granted: u32, incarnation: Incarnation) -> bool {
        if *self.incarnation.get_or_insert(incarnation) != incarnation {
            return false;
        }
        self.granted = self.granted.max(granted);
        true
    }

    /// It said that something waits, which may be any call below this one.
    pub(super) fn wait(&mut self, below: CallNo) {
        (self.waiting, self.waiting_below) = (self.outstanding, below);
    }

    // --- the vote ---

    /// It says some answers only once it has carried out the attempt.
    pub(super) fn answer_late(&mut self) {
        let later = || Placed { at: Timestamp(0), behind: Timestamp(0), replies: None, is_tentative: false };
        self.placed.get_or_insert_with(later);
    }

    /// Its prepare leaves.
    pub(super) fn ask(&mut self) {
        self.asked = true;
    }

    /// It said that the prepare waits.
    pub(super) fn queue(&mut self) {
        self.queued = true;
    }

    /// Whether it said that the prepare waits, which is asked for again.
    pub(super) fn take_queued(&mut self) -> bool {
        std::mem::take(&mut self.queued)
    }

    /// It voted yes; `applied`: and has carried it out.
    pub(super) fn vote_yes(&mut self, applied: bool) {
        self.vote = Some(true);
        self.applied |= applied;
        self.queued = false;
    }

    pub(super) fn vote_no(&mut self) {
        self.vote = Some(false);
    }

    /// It lost its memory: what it voted is not known.
    pub(super) fn lose(&mut self) {
        self.lost = true;
        self.queued = false;
    }

    /// What it said of its place, before it votes.
    pub(super) fn place(&mut self, placed: Placed) {
        self.placed = Some(placed);
    }

    /// It has carried out the attempt. What it answers is not known any more, if it said nothing of that before: then `false`.
    #[must_use]
    pub(super) fn apply(&mut self) -> bool {
        self.applied = true;
        self.answer_placed(None)
    }

    /// It has carried out the attempt, with these answers, as [`Self::apply`].
    #[must_use]
    pub(super) fn apply_with(&mut self, replies: Option<Vec<(CallNo, Reply)>>) -> bool {
        self.applied = true;
        self.answer_placed(replies)
    }

    fn answer_placed(&mut self, replies: Option<Vec<(CallNo, Reply)>>) -> bool {
        let Some(known) = self.placed.as_mut().filter(|known| known.replies.is_none()) else { return true };
        let are_there = replies.is_some();
        known.replies = Some(replies.unwrap_or_default());
        are_there
    }
}

/// All that take part, each once, and the incarnations that the host knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Participants {
    /// Each shard that was asked for anything, once. Empty when the attempt is over.
    list: SmallVec<[Participant; 4]>,
    /// Incarnations that the host learned with its connections. They stay for later attempts.
    met: SmallVec<[(ShardId, Incarnation); 4]>,
}

impl Participants {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Participant> {
        self.list.iter()
    }

    pub(super) fn at(&self, at: usize) -> &Participant {
        &self.list[at]
    }

    pub(super) fn at_mut(&mut self, at: usize) -> &mut Participant {
        &mut self.list[at]
    }

    pub(super) fn find(&self, shard: ShardId) -> Option<&Participant> {
        self.list.iter().find(|participant| participant.shard == shard)
    }

    /// That of a shard, which takes part from now on.
    #[inline]
    pub(super) fn of(&mut self, shard: ShardId) -> &mut Participant {
        let known = self.list.iter().position(|participant| participant.shard == shard);
        let at = known.unwrap_or_else(|| self.add(shard));
        &mut self.list[at]
    }

    /// One that was asked for nothing so far: its place.
    fn add(&mut self, shard: ShardId) -> usize {
        self.list.push(Participant::new(shard, self.met_as(shard)));
        self.list.len() - 1
    }

    /// The attempt is over: nobody takes part.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    // --- incarnations ---

    fn met_as(&self, shard: ShardId) -> Option<Incarnation> {
        self.met.iter().find(|(known, _)| *known == shard).map(|(_, incarnation)| *incarnation)
    }

    /// The host learned a shard's incarnation with its connection.
    pub(super) fn meet(&mut self, shard: ShardId, incarnation: Incarnation) {
        let known = self.met_as(shard);
        self.met.retain(|(known, _)| *known != shard);
        self.met.push((shard, known.map_or(incarnation, |known| known.max(incarnation))));
    }

    /// Another transaction begins, of which the host knows these incarnations.
    pub(super) fn meet_all(&mut self, met: &[(ShardId, Incarnation)]) {
        self.met.extend_from_slice(met);
    }

    /// The incarnation that was relied on is gone. One that the host has learned of since stays known.
    pub(super) fn forget_met(&mut self, shard: ShardId) {
        let relied = self.of(shard).incarnation;
        let is_news = |incarnation: Incarnation| relied.is_some_and(|relied| relied < incarnation);
        self.met.retain(|(known, incarnation)| *known != shard || is_news(*incarnation));
    }

    pub(super) fn forget_all_met(&mut self) {
        self.met.clear();
    }

    /// Whether grants of a participant are of an incarnation that is known to be gone.
    pub(super) fn has_removed(&self) -> bool {
        self.list.iter().any(|participant| {
            let met = self.met_as(participant.shard);
            met.is_some_and(|met| participant.incarnation.is_some_and(|relied| relied < met))
        })
    }

    // --- calls ---

    /// Calls of these shards in this range are undone; the outstanding ones are those that are left.
    pub(super) fn undo(&mut self, at: &BTreeSet<ShardId>, range: Undone) {
        for participant in self.list.iter_mut().filter(|it| at.contains(&it.shard)) {
            participant.undone.retain(|known| known.from < range.from);
            participant.undone.push(range);
        }
    }

    /// What participants have not answered follows from the list.
    pub(super) fn recount(&mut self, outstanding: &Outstandings) {
        for participant in &mut self.list {
            let here = || outstanding.iter().filter(|it| it.shard == participant.shard);
            participant.outstanding = here().count();
            participant.waiting = here().filter(|it| it.began_with < participant.waiting_below).count();
        }
    }

    /// Whether a call, or a prepare, still waits somewhere.
    pub(super) fn is_any_waiting(&self) -> bool {
        self.list
            .iter()
            .any(|participant| participant.has_waiting_call() || participant.has_waiting_prepare())
    }

    // --- the round ---

    /// All of them, as each is told.
    pub(super) fn listed(&self) -> message::Participants {
        let listed = self
            .list
            .iter()
            .map(|participant| Listed { shard: participant.shard, incarnation: participant.incarnation });
        listed.collect()
    }

    /// Brings them into an order.
    pub(super) fn sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(ShardId) -> K) {
        self.list.sort_by_key(|participant| key(participant.shard));
    }

    /// When the prepare of each leaves: with the smallest turn of those whose vote is missing.
    pub(super) fn give_turns(&mut self, mut turn_of: impl FnMut(ShardId) -> u32) {
        for participant in &mut self.list {
            participant.turn = turn_of(participant.shard);
        }
    }

    /// Whose prepare may leave now, and has not. Places in the list.
    pub(super) fn due(&self) -> SmallVec<[usize; 4]> {
        if self.list.iter().all(|participant| participant.asked) {
            return SmallVec::new();
        }
        let missing = self.list.iter().filter(|participant| !participant.has_voted_yes());
        let turn = missing.map(|participant| participant.turn).min().unwrap_or_default();
        let is_due = |at: &usize| self.list[*at].turn <= turn && !self.list[*at].asked;
        (0..self.list.len()).filter(is_due).collect()
    }

    /// Whether everybody else has voted yes.
    pub(super) fn is_last(&self, at: usize) -> bool {
        let mut all = self.list.iter().enumerate();
        all.all(|(other, participant)| other == at || participant.has_voted_yes())
    }

    pub(super) fn have_all_voted_yes(&self) -> bool {
        self.list.iter().all(Participant::has_voted_yes)
    }

    /// Whether all have voted yes but for those who lost their memory.
    pub(super) fn nobody_knows(&self) -> bool {
        self.list.iter().all(|participant| participant.lost || participant.has_voted_yes())
    }

    pub(super) fn have_all_applied(&self) -> bool {
        self.list.iter().all(Participant::has_applied)
    }

    /// Those who have not carried out the attempt.
    pub(super) fn unapplied(&self) -> impl Iterator<Item = ShardId> {
        self.list.iter().filter(|participant| !participant.applied).map(Participant::shard)
    }

    /// Those whose vote may still come.
    pub(super) fn voters(&self) -> impl Iterator<Item = ShardId> {
        self.list.iter().filter(|participant| participant.may_vote()).map(Participant::shard)
    }

    // --- timestamps ---

    /// All have voted: the final timestamp, which is the largest (P74), and up to where the safe time has to come before the caller is
    /// told (P77). Answers that were given for another place count no more (P76).
    pub(super) fn final_place(&mut self) -> (Timestamp, Timestamp) {
        let placed = || self.list.iter().filter_map(|participant| participant.placed.as_ref());
        let votes = placed().map(|placed| placed.at);
        let at = if is_planted(Bug::SmallestVoteIsFinal) { votes.min() } else { votes.max() };
        let at = at.unwrap_or_default();
        // Because of one vote: what it stands behind, if it is the final one.
        let behind = |placed: &Placed| {
            let is_final = placed.at == at || is_planted(Bug::BehindBelowFinal);
            match is_final {
                true if placed.behind < Timestamp::MAX && is_planted(Bug::UnsettledCounts) => {
                    Timestamp::default()
                }
                true => placed.behind.min(at),
                false => at,
            }
        };
        let until = placed().map(behind).max().unwrap_or_default();
        // One without a timestamp has said so by other ways, such as a question; what it stands behind nobody knows.
        let until = if placed().count() < self.list.len() { at } else { until };
        for participant in &mut self.list {
            if let Some(placed) = &mut participant.placed
                && placed.is_tentative
                && placed.at != at
                && !is_planted(Bug::TentativeCounts)
                && !participant.applied
            {
                placed.replies = None;
            }
        }
        (at, until)
    }

    /// Answers that came with places, in the order of the participants.
    pub(super) fn take_placed_replies(&mut self, into: &mut Vec<(CallNo, Reply)>) {
        let placed = self.list.iter_mut().filter_map(|participant| participant.placed.as_mut());
        placed.filter_map(|placed| placed.replies.as_mut()).for_each(|more| into.append(more));
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        for (at, participant) in self.list.iter().enumerate() {
            let is_double = self.list[..at].iter().any(|other| other.shard == participant.shard);
            assert!(!is_double, "{:?} takes part twice", participant.shard);
            assert!(
                participant.waiting <= participant.outstanding,
                "more waits than is asked: {participant:?}"
            );
            assert!(!participant.applied || participant.vote != Some(false), "applied after a no");
        }
    }
}
