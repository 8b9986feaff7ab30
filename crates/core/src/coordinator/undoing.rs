//! What a transaction undoes of its own calls, and calls that may fail in it (`docs/nesting.md`).

use std::collections::BTreeSet;

use claret_types::Bytes;
use smallvec::SmallVec;

use super::touched::Touched;
use super::{Closed, Coordinator};
use crate::ids::{AttemptId, CallNo, ShardId, Time};
use crate::message::{Call, KeyedCall, Undone};
use crate::planted::{Bug, is_planted};

impl Coordinator {
    /// From this call on, one that is executed and cannot be done is answered with [`Reply::Failed`](claret_types::Reply) and ends
    /// nothing; so is one that returns nothing (N5). `None`: none is.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn may_fail_from(&mut self, attempt: AttemptId, inside: Option<CallNo>) -> Result<(), Closed> {
        self.check_running(attempt)?;
        self.inside = inside;
        Ok(())
    }

    /// Marks the calls of a message that may fail.
    pub(super) fn try_inside(&self, calls: &mut SmallVec<[Call; 1]>) {
        let Some(inside) = self.inside else { return };
        let are_tried = |call: &&mut Call| call.no >= inside && !call.op.expects();
        calls.iter_mut().filter(are_tried).for_each(|call| call.op = call.op.tried());
    }

    /// Undoes the calls from this one on: what waits for the commit goes, what was executed is not carried out, and what is not
    /// answered is not waited for any more (N1 to N4). It needs no message. O(calls of the attempt).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn undo(&mut self, now: Time, attempt: AttemptId, from: CallNo) -> Result<(), Closed> {
        self.check_running(attempt)?;
        let range = Undone { from, to: CallNo(self.next_call) };
        if range.from >= range.to {
            return Ok(());
        }
        self.buffered.retain(|(_, it)| it.call.no < from);
        let unheard: BTreeSet<CallNo> =
            self.outstanding.iter().flat_map(|it| it.calls.iter().map(|call| call.no)).collect();
        let (left, keys) = self.outstanding.undo(from);
        let come_again: BTreeSet<CallNo> = left.iter().map(|(_, _, call)| call.no).collect();
        self.touched.retain(|it| !come_again.contains(&it.no));
        for it in self.touched.iter_mut().filter(|it| it.no >= from) {
            it.was_heard |= !it.is_undone && !unheard.contains(&it.no);
            it.is_undone = true;
        }
        let at_front = left.into_iter().map(|(shard, key, call)| (shard, KeyedCall { key, call }));
        self.buffered.splice(0..0, at_front);
        let asked: BTreeSet<ShardId> =
            self.touched.iter().filter(|it| it.no >= from).map(|it| it.shard).collect();
        for participant in self.participants.iter_mut().filter(|it| asked.contains(&it.shard)) {
            participant.undone.retain(|known| known.from < from);
            participant.undone.push(range);
        }
        self.recount_outstanding();
        self.unblock();
        keys.iter().for_each(|key| self.send_kept_back(now, key));
        Ok(())
    }

    /// Executes what is buffered, record by record. The last call on each is answered, though it returns nothing, also that it
    /// cannot be done (N8): the numbers of these calls, with their records. O(calls that are buffered, times records).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn settle(&mut self, now: Time, attempt: AttemptId) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        self.check_running(attempt)?;
        let mut settled = Vec::new();
        while let Some((shard, first)) = self.buffered.first() {
            let (shard, key, member) = (*shard, first.key.clone(), first.call.member);
            let mut calls = self.take_due(&key, member);
            let Some(last) = calls.last_mut() else { break };
            if !last.op.expects() {
                last.op = last.op.tried();
            }
            settled.push((last.no, key.clone()));
            self.send_calls(now, member, shard, key, calls);
        }
        Ok(settled)
    }

    /// The buffered calls of these ranges are executed with the commit, so that what they answer is checked, and are not carried
    /// out (N6).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn only_check(&mut self, attempt: AttemptId, ranges: &[Undone]) -> Result<(), Closed> {
        self.check_running(attempt)?;
        self.only_checked.extend_from_slice(ranges);
        Ok(())
    }

    /// How many calls of a participant its prepare relies on.
    pub(super) fn relies_on(&self, at: usize) -> u32 {
        let participant = &self.participants[at];
        if participant.undone.is_empty() {
            return participant.granted; // Mostly.
        }
        // Who undoes is alone, so all are its own (N9).
        let is_undone = |it: &Touched| it.is_undone && !is_planted(Bug::UndoneReliedOn);
        let here = self.touched.iter().filter(|it| it.shard == participant.shard);
        let kept = here.filter(|it| it.was_heard || !is_undone(it));
        kept.count() as u32
    }

    /// What a participant's prepare says is undone.
    pub(super) fn undone_at(&self, at: usize) -> Vec<Undone> {
        let shard = self.participants[at].shard;
        if self.only_checked.is_empty() {
            return self.participants[at].undone.clone(); // Mostly.
        }
        let sent: BTreeSet<CallNo> =
            self.buffered.iter().filter(|(to, _)| *to == shard).map(|(_, it)| it.call.no).collect();
        let has_some = |range: &&Undone| sent.range(range.from..range.to).next().is_some();
        let only_checked = self.only_checked.iter().filter(has_some);
        self.participants[at].undone.iter().chain(only_checked).copied().collect()
    }
}
