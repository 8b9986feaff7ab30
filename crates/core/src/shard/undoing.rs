//! What an attempt's user has undone (`docs/nesting.md`): ranges of its calls, which come with each execute and prepare.
//!
//! What such a call did is no effect any more. What it claims stays. One that waits leaves its queue, and one that comes late is
//! not executed. A prepare may bring undone calls whose answers are to be checked: each is executed on what those before it did
//! in its own range, and what a range did is gone from its end on.

use std::collections::{BTreeSet, VecDeque};

use super::lock_table::{Item, Stop};
use super::{
    AttemptId, Bytes, Call, Calls, Heard, KeyedCall, Members, Owner, Participant, Ran, RecordIx, Refusal,
    Response, Shard, Time, Undone, key_hash, rules,
};
use crate::ids::CallNo;
use crate::message::Bound;
use crate::switches::Delivery;
use crate::wire::UNDONE_MAX;

/// How many calls of an attempt were granted.
pub(super) struct Grants {
    /// Those that are not undone.
    granted: u32,
    /// Those that are: whether their user has heard of them is not known here.
    undone: u32,
    /// Of these, those that came with the prepare, too.
    known: u32,
}

impl Grants {
    /// Whether they are as many as a coordinator relies on. Those of members that left may be more than it knows of.
    pub(super) fn are_as_many(&self, relies_on: u32, members: &Members) -> bool {
        match members {
            Members::All if self.undone == 0 => self.granted == relies_on + self.known,
            Members::All => {
                let relies_on = relies_on + self.known;
                (self.granted..=self.granted + self.undone).contains(&relies_on)
            }
            Members::Only(_) => self.granted + self.undone >= relies_on,
        }
    }
}

impl Shard {
    /// Whether an attempt has undone anything.
    #[inline]
    pub(super) fn has_undone(&self, attempt: AttemptId) -> bool {
        self.attempts.get(&attempt).is_some_and(|participant| !participant.undone.is_empty())
    }

    /// Whether an attempt of which nothing is known here was known, by what it says is undone. With direct delivery a refusal is not
    /// remembered, and who did not wait for it may not have heard of it (N4). O(ranges times calls).
    pub(super) fn has_forgotten_undone(
        &self,
        attempt: AttemptId,
        undone: &[Undone],
        calls: impl Iterator<Item = CallNo> + Clone,
    ) -> bool {
        let is_sent = |range: &Undone| !calls.clone().any(|no| range.has(no));
        let is_new = |it: &Participant| {
            it.undone.is_empty() && it.held.is_empty() && it.blocked.is_empty() && it.seen.is_empty()
        };
        self.switches.delivery == Delivery::Direct
            && undone.iter().any(is_sent)
            && self.attempts.get(&attempt).is_some_and(|it| is_new(it))
    }

    /// Takes note of what an attempt has undone, as far as that is news: it is undone here, too, and what waits leaves its queue
    /// (N2, N4). O(calls of the attempt here), where it is news.
    ///
    /// # Errors
    /// It is more than [`UNDONE_MAX`], or more than the shard keeps.
    pub(super) fn note_undone(&mut self, now: Time, owner: Owner, undone: &[Undone]) -> Result<(), Refusal> {
        let attempt = owner.attempt;
        if undone.is_empty() {
            return Ok(()); // Mostly.
        }
        let participant = self.participant(attempt);
        let news: Vec<Undone> =
            undone.iter().filter(|range| !participant.undone.contains(range)).copied().collect();
        if news.is_empty() {
            return Ok(());
        }
        // A coordinator tells of ranges that were joined as one.
        participant.undone.retain(|old| !news.iter().any(|new| new.from <= old.from && old.to <= new.to));
        if participant.undone.len() + news.len() > UNDONE_MAX {
            return Err(Refusal::TooMuch { bound: Bound::Calls, limit: UNDONE_MAX as u64 });
        }
        participant.undone.extend(&news);
        let (held, size) = (participant.held.clone(), self.size_up_undone(news.len()));
        self.take_in(attempt, size)?;
        let is_undone = |no| news.iter().any(|range| range.has(no));
        for record in held {
            self.table.undo_calls(record, attempt, is_undone);
        }
        self.stop_waiting(now, owner, is_undone);
        Ok(())
    }

    /// Calls that are undone wait no longer. With them go calls that were to be executed with them alone: those come again.
    fn stop_waiting(&mut self, now: Time, owner: Owner, is_undone: impl Fn(CallNo) -> bool) {
        let participant = self.participant(owner.attempt);
        let keys: Vec<Bytes> = participant.blocked.keys().cloned().collect();
        for key in keys {
            let participant = self.participant(owner.attempt);
            let Some(blocked) = participant.blocked.get_mut(&key) else { continue };
            let waits = blocked.calls.len();
            let head = blocked.calls.front().map(|call| call.no);
            let mut left: Vec<CallNo> = Vec::new();
            blocked.calls.retain(|call| {
                let stays = !is_undone(call.no);
                left.extend((!stays).then_some(call.no));
                stays
            });
            if blocked.calls.len() == waits {
                continue;
            }
            while blocked.calls.back().is_some_and(|call| !call.op.returns()) {
                left.extend(blocked.calls.pop_back().map(|call| call.no));
            }
            let record = blocked.record;
            if blocked.calls.front().map(|call| call.no) != head {
                let rest = participant.blocked.swap_remove(&key).map(|blocked| blocked.calls);
                left.extend(rest.into_iter().flatten().map(|call| call.no));
                if let Some(record) = record {
                    self.table.leave_queue(now, record, owner);
                }
            }
            let participant = self.participant(owner.attempt);
            left.sort_unstable();
            participant.seen.retain(|no, _| left.binary_search(no).is_err());
        }
    }

    /// Of calls that came to be executed those go that were undone before they came, and those that would be executed with them
    /// alone (N4). So do calls that were executed with some that were undone since.
    pub(super) fn leave_out_undone(&mut self, attempt: AttemptId, key: &Bytes, calls: &mut Calls) {
        if !self.has_undone(attempt) {
            return;
        }
        let undone = &self.attempts[&attempt].undone;
        let came = calls.len();
        calls.retain(|call| !rules::is_undone_late(undone, call.no));
        if calls.len() < came {
            while calls.last().is_some_and(|call| !call.op.returns()) {
                calls.pop();
            }
        }
        let Some(record) = self.table.find(key_hash(key), key) else { return };
        let known: BTreeSet<CallNo> = self.table.calls(record, attempt).map(|item| item.no).collect();
        let is_known = |call: &Call| !call.op.plain().returns() && known.contains(&call.no);
        let participant = &self.attempts[&attempt];
        let was_answered = |call: &Call| matches!(participant.seen.get(&call.no), Some(Heard::Answered(_)));
        let mut settled: Vec<CallNo> = Vec::new();
        calls.retain(|call| {
            let stays = !is_known(call) || call.op.is_tried() && was_answered(call);
            settled.extend((!stays && call.op.is_tried()).then_some(call.no));
            stays
        });
        // It was done, and nobody was to hear of it then.
        let (granted, incarnation) = (participant.granted, participant.met_as);
        for no in settled {
            let reply = claret_types::Reply::Ok;
            self.respond(attempt, Response::Granted { attempt, no, reply, granted, incarnation });
        }
    }

    /// Before a prepare: takes note of what was undone, and takes out of its calls those that were executed already, with some that
    /// were undone since. What is left, and how many calls were granted.
    ///
    /// # Errors
    /// As of [`Self::note_undone`].
    pub(super) fn take_undone(
        &mut self,
        now: Time,
        owner: Owner,
        undone: &[Undone],
        mut calls: Vec<KeyedCall>,
    ) -> Result<(Vec<KeyedCall>, Grants), Refusal> {
        let attempt = owner.attempt;
        if self.has_forgotten_undone(attempt, undone, calls.iter().map(|it| it.call.no)) {
            return Err(Refusal::LostLocks);
        }
        self.note_undone(now, owner, undone)?;
        let participant = &self.attempts[&attempt];
        if participant.undone.is_empty() {
            return Ok((calls, Grants { granted: participant.granted, undone: 0, known: 0 })); // Mostly.
        }
        let counts = |item: &Item| !rules::does_not_count(&participant.undone, item.no);
        let items = || participant.held.iter().flat_map(|record| self.table.calls(*record, attempt));
        let (granted, all) = (items().filter(|item| counts(item)).count(), items().count());
        let (known, came): (BTreeSet<CallNo>, _) = (items().map(|item| item.no).collect(), calls.len());
        calls.retain(|keyed| !known.contains(&keyed.call.no));
        let known = (came - calls.len()) as u32;
        Ok((calls, Grants { granted: granted as u32, undone: (all - granted) as u32, known }))
    }

    /// [`Self::run_rest`] where something was undone: in parts, none of which reaches beyond the end of a range (N6).
    pub(super) fn run_in_parts(
        &mut self,
        now: Time,
        owner: Owner,
        key: &Bytes,
        record: RecordIx,
        mut calls: VecDeque<Call>,
    ) -> Ran {
        let undone = self.participant(owner.attempt).undone.clone();
        let mut before = CallNo(0);
        while let Some(first) = calls.front().map(|call| call.no) {
            // Each range ends once: what an earlier one undid has no call from its end on.
            let ended: Vec<Undone> =
                undone.iter().filter(|range| before < range.to && range.to <= first).copied().collect();
            before = first;
            self.table.undo_calls(record, owner.attempt, |no| ended.iter().any(|range| range.has(no)));
            let next = undone.iter().map(|range| range.to).filter(|to| *to > first).min();
            let part = calls.iter().take_while(|call| next.is_none_or(|next| call.no < next)).count().max(1);
            let (granted, stop) = self.run_some(now, owner, record, &calls.make_contiguous()[..part], false);
            calls.drain(..granted);
            if calls.is_empty() {
                break;
            }
            if granted < part || self.at_once == 0 {
                return self.keep_rest(owner, key, record, calls, stop);
            }
            debug_assert!(matches!(stop, Stop::All), "all of a part were granted");
        }
        Ran::All
    }

    /// Before an attempt votes: nothing that is undone is carried out (N3).
    pub(super) fn undo_all(&mut self, attempt: AttemptId) {
        if !self.has_undone(attempt) {
            return; // Mostly.
        }
        let participant = self.participant(attempt);
        let (held, undone) = (participant.held.clone(), participant.undone.clone());
        for record in held {
            self.table.undo_calls(record, attempt, |no| rules::is_dropped(&undone, no));
        }
    }
}
