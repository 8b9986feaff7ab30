//! The calls of an attempt: numbered, sent or buffered until the commit, undone, and what they touched, for the next attempt.
//!
//! Each call has one place: among those that were sent and are not answered, among those that wait for the commit, or, once answered,
//! only among what was touched. Calls that wait change no more once a prepare has left.

use std::collections::BTreeSet;

use claret_types::{Bytes, Claims, Operation, Reply};
use smallvec::SmallVec;

use super::outstanding::{Answered, Outstanding, Outstandings, REPEATS_MAX};
use super::reserves::{Reserves, add_modes, bounded, state_free};
use crate::ids::{CallNo, Member, ShardId};
use crate::message::{Call, KeyedCall, Undone};
use crate::planted::{Bug, is_planted};
use crate::switches::Discipline;

/// An operation that was sent to be executed, or goes with one.
#[derive(Clone, Debug)]
struct Touched {
    no: CallNo,
    /// Where it was sent.
    shard: ShardId,
    is_undone: bool,
    /// Its user acted on what it answered, or something behind it did, before it was undone.
    was_heard: bool,
    key: Bytes,
    op: Operation,
    member: Member,
    /// What is claimed besides its own claims.
    reserve: Option<Box<Claims>>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    /// The number of the next call: each is given once in an attempt.
    next: u32,
    /// From this call on, one that cannot be done is no end of the attempt (N5).
    may_fail_from: Option<CallNo>,
    /// Sent, and not answered. None once a prepare has left.
    outstanding: Outstandings,
    /// These wait for the commit.
    buffered: Vec<(ShardId, KeyedCall)>,
    /// Buffered calls that are executed with the commit, and not carried out (N6).
    only_checked: Vec<Undone>,
    /// What was used on records that were executed on, for the next attempt's first touch (trap 12).
    touched: Vec<Touched>,
    /// What earlier attempts needed, to be taken at the first touch.
    reserves: Reserves,
    /// Some of what waits for the commit are commands of the server, which answer when they are carried out.
    has_commands: bool,
}

/// Calls of a member on one record that are to be sent together. The last one, of this number, is answered.
pub(super) struct ToSend {
    member: Member,
    shard: ShardId,
    key: Bytes,
    calls: SmallVec<[Call; 1]>,
    no: CallNo,
}

impl ToSend {
    pub(super) fn shard(&self) -> ShardId {
        self.shard
    }

    pub(super) fn key(&self) -> &Bytes {
        &self.key
    }

    pub(super) fn no(&self) -> CallNo {
        self.no
    }
}

/// What became of calls that were to be sent.
pub(super) enum Sent {
    /// Calls on the record are kept back already: these go with them.
    Joined,
    /// They go when those on the record before them are answered.
    KeptBack,
    /// They leave now: the place among the outstanding ones.
    Leave(usize),
}

/// What an undo changed.
pub(super) struct UndoneCalls {
    /// The shards that were asked to execute some of it.
    pub(super) asked: BTreeSet<ShardId>,
    /// The records on which fewer calls are under way.
    pub(super) keys: Vec<Bytes>,
}

/// Room for so many calls is kept.
const ROOM_MAX: usize = 64;

/// Numbers, and what is sent.
impl Calls {
    fn number(&mut self) -> CallNo {
        let no = self.next();
        self.next += 1;
        no
    }

    /// The number of the next call.
    pub(super) fn next(&self) -> CallNo {
        CallNo(self.next)
    }

    /// From this call on, one that cannot be done is answered so, and ends nothing (N5).
    pub(super) fn may_fail_from(&mut self, from: Option<CallNo>) {
        self.may_fail_from = from;
    }

    /// An operation whose answer is wanted now, behind what the member has buffered for its record (P12).
    pub(super) fn with_buffered(
        &mut self,
        member: Member,
        (shard, key): (ShardId, Bytes),
        op: Operation,
        reserve: Option<Claims>,
    ) -> ToSend {
        let mut calls = self.take_due(&key, member);
        let no = self.number();
        calls.push(Call { no, op, member, reserve: reserve.map(bounded).map(Box::new) });
        ToSend { member, shard, key, calls, no }
    }

    /// Takes out what a member has buffered for a record.
    fn take_due(&mut self, key: &Bytes, member: Member) -> SmallVec<[Call; 1]> {
        let mut calls: SmallVec<[Call; 1]> = SmallVec::new();
        let is_due = |buffered: &KeyedCall| buffered.key == *key && buffered.call.member == member;
        if self.buffered.iter().any(|(_, buffered)| is_due(buffered)) {
            let all = std::mem::take(&mut self.buffered);
            let (mine, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, buffered)| is_due(buffered));
            self.buffered = rest;
            calls.extend(mine.into_iter().map(|(_, buffered)| buffered.call));
        }
        calls
    }

    /// Takes note of calls that are to be sent. `repeats`: messages may overtake each other.
    pub(super) fn send(&mut self, to_send: ToSend, repeats: bool) -> Sent {
        let ToSend { member, shard, key, mut calls, no } = to_send;
        self.let_fail(&mut calls);
        if let Some(known) = self.reserves.take(&key, &calls[0].op) {
            add_modes(calls[0].reserve.get_or_insert_default(), &known);
        }
        self.touched.extend(calls.iter().map(|Call { no, op, member, reserve }| Touched {
            no: *no,
            shard,
            is_undone: false,
            was_heard: false,
            key: key.clone(),
            op: op.clone(),
            member: *member,
            reserve: reserve.clone(),
        }));
        let (under_way, kept_back) = self.outstanding.under_way(&key, member);
        if let Some(at) = kept_back {
            self.outstanding.add(at, calls);
            return Sent::Joined;
        }
        let is_kept_back = under_way.len() >= REPEATS_MAX;
        let returning = calls.iter().filter(|call| call.op.returns()).map(|call| call.no).collect();
        if !is_kept_back && repeats {
            self.outstanding.repeat_unanswered(&under_way, &mut calls);
        }
        let (began_with, answered, is_busy, stale) = (no, 0, false, false);
        let it =
            Outstanding { began_with, returning, answered, shard, key, calls, is_busy, stale, is_kept_back };
        self.outstanding.push(it);
        if is_kept_back { Sent::KeptBack } else { Sent::Leave(self.outstanding.len() - 1) }
    }

    /// Marks the calls of a message that may fail.
    fn let_fail(&self, calls: &mut SmallVec<[Call; 1]>) {
        let Some(from) = self.may_fail_from else { return };
        let may_fail = |call: &&mut Call| call.no >= from && !call.op.expects();
        calls.iter_mut().filter(may_fail).for_each(|call| call.op = call.op.tried());
    }

    /// Calls that were sent and are not answered.
    pub(super) fn outstanding(&self) -> &Outstandings {
        &self.outstanding
    }

    pub(super) fn outstanding_mut(&mut self) -> &mut Outstandings {
        &mut self.outstanding
    }

    /// Takes note of an answer; `None`: it is of no call that is outstanding there.
    pub(super) fn answer(&mut self, from: ShardId, no: CallNo) -> Option<Answered> {
        self.outstanding.answer(from, no)
    }

    /// A member leaves: nothing of it counts any more, and nobody waits for its answers (C12).
    pub(super) fn leave(&mut self, member: Member) {
        self.buffered.retain(|(_, buffered)| buffered.call.member != member);
        self.outstanding.iter_mut().filter(|it| it.is_of(member)).for_each(|it| it.stale = true);
    }

    /// The attempt is over: nothing is waited for.
    pub(super) fn forget_outstanding(&mut self) {
        self.outstanding.clear();
    }
}

/// What waits for the commit.
impl Calls {
    /// Keeps an operation until the commit, or until its record is executed on. O(1).
    #[inline]
    pub(super) fn buffer(&mut self, member: Member, shard: ShardId, key: Bytes, op: Operation) -> CallNo {
        let no = self.number();
        self.has_commands |= op.is_command();
        let call = Call { no, op, member, reserve: None };
        self.buffered.push((shard, KeyedCall { key, call }));
        no
    }

    /// Whether some of what waits for the commit are commands of the server.
    pub(super) fn have_commands(&self) -> bool {
        self.has_commands
    }

    /// The shard that carries out such commands, if there is one alone.
    pub(super) fn only_shard_with_commands(&self) -> Option<ShardId> {
        if !self.has_commands {
            return None; // Mostly.
        }
        let with_commands = self.buffered.iter().filter(|(_, it)| it.call.op.is_command());
        let mut shards = with_commands.map(|(shard, _)| *shard);
        let first = shards.next()?;
        shards.all(|shard| shard == first).then_some(first)
    }

    /// Whether a shard carries out such commands with the commit, and some are not answered by these. O(calls that wait for it
    /// and answers), and mostly nothing.
    pub(super) fn answer_late_at(&self, shard: ShardId, replies: &[(CallNo, Reply)]) -> bool {
        if !self.has_commands {
            return false; // Mostly.
        }
        let answered: BTreeSet<CallNo> = replies.iter().map(|(no, _)| *no).collect();
        self.buffered_at(shard).any(|it| it.call.op.is_command() && !answered.contains(&it.call.no))
    }

    /// In the order in which they are to be locked.
    pub(super) fn buffered(&self) -> &[(ShardId, KeyedCall)] {
        &self.buffered
    }

    pub(super) fn has_buffered_at(&self, shard: ShardId) -> bool {
        self.buffered.iter().any(|(to, _)| *to == shard)
    }

    /// Those of one shard.
    pub(super) fn buffered_at(&self, shard: ShardId) -> impl Iterator<Item = &KeyedCall> {
        self.buffered.iter().filter(move |(to, _)| *to == shard).map(|(_, it)| it)
    }

    /// Brings them into the order of their keys' ranks. Calls on one key keep theirs.
    pub(super) fn order_buffered<R: Ord>(&mut self, mut rank: impl FnMut(&Bytes) -> R) {
        self.buffered.sort_by_cached_key(|(_, call)| rank(&call.key));
    }

    /// The last first.
    #[cfg(feature = "planted-bugs")]
    pub(super) fn reverse_buffered(&mut self) {
        self.buffered.reverse();
    }

    /// The host carries them out itself, or another transaction takes them along.
    pub(super) fn take_buffered(&mut self) -> Vec<(ShardId, KeyedCall)> {
        std::mem::take(&mut self.buffered)
    }

    /// Puts calls back before what came meanwhile.
    pub(super) fn put_back(&mut self, mut calls: Vec<(ShardId, KeyedCall)>) {
        calls.append(&mut self.buffered);
        self.buffered = calls;
    }

    pub(super) fn clear_buffered(&mut self) {
        self.buffered.clear();
    }

    /// Whether all calls of the attempt wait for the commit, and are carried out.
    pub(super) fn are_all_buffered(&self) -> bool {
        self.only_checked.is_empty() && self.next as usize == self.buffered.len() && !self.buffered.is_empty()
    }

    /// Buffers what another transaction has buffered.
    pub(super) fn buffer_all_of(&mut self, other: &Calls) {
        for (shard, KeyedCall { key, call }) in &other.buffered {
            self.buffer(Member(0), *shard, key.clone(), call.op.clone());
        }
    }

    /// The buffered calls on the record of the first one. The last is answered, also that it cannot be done (N8).
    pub(super) fn take_to_settle(&mut self) -> Option<ToSend> {
        // Commands of the server are executed with the commit alone, and so is what stands behind one on its key.
        let waits = |key: &Bytes| {
            self.has_commands && self.buffered.iter().any(|(_, it)| it.key == *key && it.call.op.is_command())
        };
        let (shard, first) = self.buffered.iter().find(|(_, it)| !waits(&it.key))?;
        let (shard, key, member) = (*shard, first.key.clone(), first.call.member);
        let mut calls = self.take_due(&key, member);
        let last = calls.last_mut()?;
        if !last.op.expects() {
            last.op = last.op.tried();
        }
        let no = last.no;
        Some(ToSend { member, shard, key, calls, no })
    }

    /// The commit begins: each call takes along what earlier attempts needed on its record, at its first touch.
    pub(super) fn take_reserves(&mut self) {
        if self.reserves.is_empty() {
            return;
        }
        for (_, KeyedCall { key, call }) in &mut self.buffered {
            call.reserve = self.reserves.take(key, &call.op).map(Box::new);
        }
    }

    /// Where calls on a record are that are not answered, or wait for the commit. O(such calls).
    pub(super) fn shard_of(&self, key: &Bytes) -> Option<ShardId> {
        let buffered = self.buffered.iter().find(|(_, call)| call.key == *key).map(|(shard, _)| *shard);
        buffered.or_else(|| self.outstanding.iter().find(|it| it.key == *key).map(|it| it.shard))
    }

    /// The record of a call that was sent to a shard and is not answered, if it is among the latest.
    pub(super) fn sent_lately(&self, at: ShardId, no: CallNo, looked_at_max: usize) -> Option<&Bytes> {
        let mut latest = self.outstanding.iter().rev().take(looked_at_max);
        let found = latest.find(|it| it.shard == at && it.calls.iter().any(|call| call.no == no));
        found.map(|it| &it.key)
    }

    /// Whether a shard is to carry this call out with the commit. O(calls that wait for it).
    pub(super) fn is_buffered(&self, at: ShardId, no: CallNo) -> bool {
        self.buffered_at(at).any(|it| it.call.no == no)
    }

    /// How many answers come with the votes.
    pub(super) fn count_returning(&self) -> usize {
        self.buffered.iter().filter(|(_, it)| it.call.op.returns()).count()
    }

    /// Drops answers to calls that were never made; if `several` shards take part, also those to calls that another shard has.
    /// Whoever reads answers looks for each where its call was.
    pub(super) fn keep_own(&self, from: ShardId, several: bool, replies: &mut Vec<(CallNo, Reply)>) {
        replies.retain(|(no, _)| no.0 < self.next);
        if !several || replies.is_empty() {
            return;
        }
        // Mostly each call stands at its number.
        let is_own = |no: CallNo| {
            let at = self.buffered.get(no.0 as usize).filter(|(_, it)| it.call.no == no);
            at.is_some_and(|(shard, it)| *shard == from && it.call.op.returns())
        };
        if replies.iter().all(|(no, _)| is_own(*no)) {
            return;
        }
        let asked = self.buffered_at(from).filter(|it| it.call.op.returns());
        let mut asked: SmallVec<[CallNo; 16]> = asked.map(|it| it.call.no).collect();
        asked.sort_unstable();
        replies.retain(|(no, _)| asked.binary_search(no).is_ok());
    }
}

/// What is undone (`docs/nesting.md`).
impl Calls {
    /// Undoes the calls from this one on: what waits for the commit goes, what was executed is not carried out, and what is not
    /// answered is not waited for any more (N1 to N4). O(calls of the attempt).
    pub(super) fn undo(&mut self, from: CallNo) -> UndoneCalls {
        self.buffered.retain(|(_, it)| it.call.no < from);
        let unanswered: BTreeSet<CallNo> =
            self.outstanding.iter().flat_map(|it| it.calls.iter().map(|call| call.no)).collect();
        let (left, keys) = self.outstanding.undo(from);
        let come_again: BTreeSet<CallNo> = left.iter().map(|(_, _, call)| call.no).collect();
        self.touched.retain(|it| !come_again.contains(&it.no));
        for it in self.touched.iter_mut().filter(|it| it.no >= from) {
            // What was looked at before its record was locked has been heard already (N6).
            let was_seen = it.op.is_seen() && !is_planted(Bug::SeenCountsAsUnheard);
            it.was_heard |= !it.is_undone && (was_seen || !unanswered.contains(&it.no));
            it.is_undone = true;
        }
        let at_front = left.into_iter().map(|(shard, key, call)| (shard, KeyedCall { key, call }));
        self.buffered.splice(0..0, at_front);
        let asked = self.touched.iter().filter(|it| it.no >= from).map(|it| it.shard).collect();
        UndoneCalls { asked, keys }
    }

    /// The buffered calls of these ranges are executed with the commit, so that what they answer is checked, and are not carried out
    /// (N6).
    pub(super) fn only_check(&mut self, ranges: &[Undone]) {
        self.only_checked.extend_from_slice(ranges);
    }

    /// How many calls the prepare of a shard relies on, of which some were undone. Who undoes is alone, so all are its own (N9).
    pub(super) fn count_kept_at(&self, shard: ShardId) -> u32 {
        let is_undone = |it: &Touched| it.is_undone && !is_planted(Bug::UndoneReliedOn);
        let here = self.touched.iter().filter(|it| it.shard == shard);
        here.filter(|it| it.was_heard || !is_undone(it)).count() as u32
    }

    /// The prepare of a shard says that this is undone: `undone` of what it executed, and what it is only to check.
    pub(super) fn not_carried_out_at(&self, shard: ShardId, undone: &[Undone]) -> Vec<Undone> {
        if self.only_checked.is_empty() {
            return undone.to_vec(); // Mostly.
        }
        let sent: BTreeSet<CallNo> = self.buffered_at(shard).map(|it| it.call.no).collect();
        let has_some = |range: &&Undone| sent.range(range.from..range.to).next().is_some();
        undone.iter().chain(self.only_checked.iter().filter(has_some)).copied().collect()
    }
}

/// What is left for others, and for the next attempt.
impl Calls {
    /// Whether an operation of another transaction conflicts with what a member has sent, whatever the state of the record. Draws
    /// are not compared, for whether they fit depends on the state. O(operations that were executed).
    pub(super) fn conflict_with(
        &self,
        discipline: Discipline,
        member: Member,
        key: &Bytes,
        op: &Operation,
    ) -> bool {
        let (kind, claims) = (op.type_info(), state_free(discipline, op));
        let mut own = self.touched.iter().filter(|it| it.member == member && it.key == *key);
        own.any(|it| {
            let mut held = state_free(discipline, &it.op);
            if let Some(reserve) = &it.reserve {
                add_modes(&mut held, reserve);
            }
            // Modes of two types do not mix, unless they are those of records of any type (P14).
            kind.common_modes(it.op.type_info()).is_none_or(|modes| held.conflict_with(&claims, modes))
        })
    }

    /// The attempt is over, and the next one begins: it takes what this one needed at the first touch of each record.
    pub(super) fn begin_next(&mut self, discipline: Discipline) {
        let buffered = self.buffered.iter().map(|(_, it)| (&it.key, &it.call.op));
        let touched = self.touched.iter().map(|it| (&it.key, &it.op));
        self.reserves.note(discipline, touched.chain(buffered));
        self.buffered.clear();
        self.touched.clear();
        self.next = 0;
        self.may_fail_from = None;
        self.has_commands = false;
        self.only_checked.clear();
    }

    /// The attempt used these operations elsewhere, instead of what it used here (trap 12).
    pub(super) fn replace(&mut self, discipline: Discipline, used: &[(Bytes, Operation)]) {
        self.buffered.clear();
        self.touched.clear();
        self.reserves.note(discipline, used.iter().map(|(key, op)| (key, op)));
    }

    /// Forgets everything but the memory of a few calls: another transaction begins.
    pub(super) fn reset(&mut self) {
        (self.next, self.may_fail_from, self.reserves) = (0, None, Reserves::default());
        self.has_commands = false;
        self.outstanding.clear();
        self.outstanding.shrink_to_fit();
        self.only_checked.clear();
        self.buffered.clear();
        self.buffered.shrink_to(ROOM_MAX);
        self.touched.clear();
        self.touched.shrink_to(ROOM_MAX);
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        let sent = self.outstanding.iter().flat_map(|it| it.calls.iter().map(|call| call.no));
        let all = sent.chain(self.buffered.iter().map(|(_, it)| it.call.no));
        all.for_each(|no| assert!(no.0 < self.next, "call {} has no number", no.0));
    }
}
