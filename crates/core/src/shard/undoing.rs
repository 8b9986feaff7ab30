//! What an attempt's user has undone (`docs/nesting.md`): ranges of its calls, which come with each execute and prepare.
//!
//! What such a call did is no effect any more. What it claims stays. One that waits leaves its queue, and one that comes late is
//! not executed. A prepare may bring undone calls whose answers are to be checked: each is executed on what those before it did
//! in its own range, and what a range did is gone from its end on.

use std::collections::{BTreeSet, VecDeque};

use claret_types::{Bytes, Reply};
use smallvec::SmallVec;

use super::accounts::Taken;
use super::execution::{Execution, Ran};
use super::key_hash;
use super::lock_table::{Item, RecordIx, Stop};
use super::participant::{Calls, Heard, Stage};
use super::undone::Undoing;
use crate::ids::CallNo;
use crate::message::{Bound, Call, KeyedCall, Members, Refusal, Undone};
use crate::planted::{Bug, is_planted};
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

/// What comes with each execute and prepare.
impl Execution<'_> {
    /// Whether an attempt of which nothing is known here was known, by what it says is undone. With direct delivery a refusal is not
    /// remembered, and who did not wait for it may not have heard of it (N4). O(ranges times calls), and only of one that is new.
    pub(super) fn has_forgotten_undone(
        &self,
        undone: &[Undone],
        calls: impl Iterator<Item = CallNo> + Clone,
    ) -> bool {
        let is_sent = |range: &Undone| !calls.clone().any(|no| range.has(no));
        self.config.is_direct()
            && !undone.is_empty()
            && self.participant.is_new()
            && undone.iter().any(is_sent)
    }

    /// Takes note of what the attempt has undone, as far as that is news: it is undone here, too, and what waits leaves its queue
    /// (N2, N4). O(ranges), and once for each call that is undone; the first time O(calls of the attempt here).
    ///
    /// # Errors
    /// It is more than [`UNDONE_MAX`], or more than the shard keeps.
    pub(super) fn note_undone(&mut self, undone: &[Undone]) -> Result<(), Refusal> {
        if undone.is_empty() {
            return Ok(()); // Mostly.
        }
        if self.participant.undone.is_none() {
            self.begin_to_undo();
        }
        let Some(undoing) = &mut self.participant.undone else { return Ok(()) };
        let Some(news) = undoing.note(undone) else { return Ok(()) };
        if undoing.ranges().len() > UNDONE_MAX {
            return Err(Refusal::TooMuch { bound: Bound::Calls, limit: UNDONE_MAX as u64 });
        }
        let calls = undoing.calls_among(&news.fresh);
        self.stats.visits += calls.values().map(Vec::len).sum::<usize>() as u64;
        self.accounts.take_in(self.config, self.participant, Taken::by_ranges(news.ranges))?;
        for (key, numbers) in calls {
            if let Some(record) = self.table.find(key_hash(&key), &key) {
                self.table.undo_numbers(record, self.owner.attempt, &numbers);
            }
            self.stop_waiting(&key, &numbers);
        }
        Ok(())
    }

    /// From now on the calls of the attempt are found by their numbers. O(calls).
    fn begin_to_undo(&mut self) {
        let attempt = self.owner.attempt;
        let mut undoing = Box::<Undoing>::default();
        self.stats.visits += self.participant.calls as u64;
        for record in &self.participant.held {
            undoing
                .note_calls(self.table.key(*record), self.table.calls(*record, attempt).map(|item| item.no));
        }
        for (key, blocked) in &self.participant.blocked {
            undoing.note_calls(key, blocked.calls.iter().map(|call| call.no));
        }
        self.participant.undone = Some(undoing);
    }

    /// Calls on one record that are undone wait no longer. With them go calls that were to be executed with them alone: those come
    /// again. `undone` is in order. O(these, and if one of them waits, calls that wait there).
    fn stop_waiting(&mut self, key: &Bytes, undone: &[CallNo]) {
        let Some(blocked) = self.participant.blocked.get_mut(key) else { return };
        let head = blocked.calls.front().map(|call| call.no);
        if undone.last().copied() < head {
            return; // Mostly: all of them were granted, and those that wait there need not be looked at.
        }
        let waits = blocked.calls.len();
        self.stats.visits += waits as u64;
        let mut left: Vec<CallNo> = Vec::new();
        blocked.calls.retain(|call| {
            let stays = undone.binary_search(&call.no).is_err();
            left.extend((!stays).then_some(call.no));
            stays
        });
        if blocked.calls.len() == waits {
            return;
        }
        while blocked.calls.back().is_some_and(|call| !call.op.returns()) {
            left.extend(blocked.calls.pop_back().map(|call| call.no));
        }
        let (record, sleeps) = (blocked.record, blocked.sleeps);
        if blocked.calls.front().map(|call| call.no) != head {
            let rest = self.participant.blocked.swap_remove(key).map(|blocked| blocked.calls);
            left.extend(rest.into_iter().flatten().map(|call| call.no));
            if let Some(record) = record {
                self.table.leave_queue(self.now, record, self.owner);
            }
            if sleeps && !is_planted(Bug::UndoneSleep) {
                self.table.wake(key, (self.owner.birth, self.owner.attempt));
            }
        }
        for no in left {
            self.participant.seen.remove(&no);
        }
    }

    /// Of calls that came to be executed those go that were undone before they came, and those that would be executed with them
    /// alone (N4). So do calls that were executed with some that were undone since.
    pub(super) fn leave_out_undone(&mut self, key: &Bytes, calls: &mut Calls) {
        let Some(undone) = &self.participant.undone else { return };
        let came = calls.len();
        calls.retain(|call| !undone.has(call.no) || is_planted(Bug::LateUndoneExecuted));
        if calls.len() < came {
            while calls.last().is_some_and(|call| !call.op.returns()) {
                calls.pop();
            }
        }
        let Some(record) = self.table.find(key_hash(key), key) else { return };
        let silent = calls.iter().filter(|call| !call.op.plain().returns()).map(|call| call.no);
        let known: SmallVec<[CallNo; 4]> = self.table.granted_of(record, self.owner.attempt, silent);
        let is_known = |call: &Call| !call.op.plain().returns() && known.binary_search(&call.no).is_ok();
        let seen = &self.participant.seen;
        let was_answered = |call: &Call| matches!(seen.get(&call.no), Some(Heard::Answered(_)));
        let mut settled: Vec<CallNo> = Vec::new();
        calls.retain(|call| {
            let stays = !is_known(call) || call.op.is_tried() && was_answered(call);
            settled.extend((!stays && call.op.is_tried()).then_some(call.no));
            stays
        });
        // It was done, and nobody was to hear of it then.
        for no in settled {
            self.say_granted(no, Reply::Ok);
        }
    }

    /// Before a prepare: takes note of what was undone, and takes out of its calls those that were executed already, with some that
    /// were undone since. What is left, and how many calls were granted.
    ///
    /// # Errors
    /// As of [`Self::note_undone`].
    pub(super) fn take_undone(
        &mut self,
        undone: &[Undone],
        mut calls: Vec<KeyedCall>,
    ) -> Result<(Vec<KeyedCall>, Grants), Refusal> {
        if self.has_forgotten_undone(undone, calls.iter().map(|it| it.call.no)) {
            return Err(Refusal::LostLocks);
        }
        self.note_undone(undone)?;
        let (attempt, participant) = (self.owner.attempt, &*self.participant);
        let Some(undone) = &participant.undone else {
            return Ok((calls, Grants { granted: participant.granted.count, undone: 0, known: 0 })); // Mostly.
        };
        let counts = |item: &Item| !undone.has(item.no);
        let items = || participant.held.iter().flat_map(|record| self.table.calls(*record, attempt));
        let (granted, all) = (items().filter(|item| counts(item)).count(), items().count());
        let (known, came): (BTreeSet<CallNo>, _) = (items().map(|item| item.no).collect(), calls.len());
        calls.retain(|keyed| !known.contains(&keyed.call.no));
        let known = (came - calls.len()) as u32;
        Ok((calls, Grants { granted: granted as u32, undone: (all - granted) as u32, known }))
    }
}

/// What is undone counts no more.
impl Execution<'_> {
    /// [`Self::run`] where something was undone: in parts, none of which reaches beyond the end of a range (N6). What came with
    /// an execute and is undone has no effect any more, so only a prepare's calls are looked at: once for each range that ends.
    pub(super) fn run_in_parts(&mut self, key: &Bytes, record: RecordIx, mut calls: VecDeque<Call>) -> Ran {
        let attempt = self.owner.attempt;
        let prepares = matches!(self.participant.stage, Stage::Preparing(_));
        let undone: Vec<Undone> = match &self.participant.undone {
            Some(undone) if prepares => undone.ranges().to_vec(),
            Some(_) | None => Vec::new(),
        };
        // Each range ends once, also where some of the calls were put off.
        let mut before = self.table.last_call(record, attempt).unwrap_or(CallNo(0));
        while let Some(first) = calls.front().map(|call| call.no) {
            let ended: Vec<Undone> =
                undone.iter().filter(|range| before < range.to && range.to <= first).copied().collect();
            before = first;
            if !ended.is_empty() {
                self.table.undo_calls(record, attempt, |no| ended.iter().any(|range| range.has(no)));
            }
            let next = undone.iter().map(|range| range.to).filter(|to| *to > first).min();
            let part = calls.iter().take_while(|call| next.is_none_or(|next| call.no < next)).count().max(1);
            let (granted, stop) = self.run_some(record, &calls.make_contiguous()[..part], false);
            calls.drain(..granted);
            if calls.is_empty() {
                break;
            }
            if granted < part || self.budget.is_spent() {
                return self.keep_rest(key, record, calls, stop);
            }
            debug_assert!(matches!(stop, Stop::All), "all of a part were granted");
        }
        Ran::All
    }

    /// Before the attempt votes: nothing that is undone is carried out (N3). O(calls of the attempt).
    pub(super) fn undo_all(&mut self) {
        let Some(undone) = &self.participant.undone else { return }; // Mostly.
        for record in &self.participant.held {
            let is_undone = |no| undone.has(no) && !is_planted(Bug::UndoneApplied);
            self.table.undo_calls(*record, self.owner.attempt, is_undone);
        }
    }
}
