//! Calls that were sent for execution and have no answer yet.
//!
//! A few calls are searched one by one; more are indexed by number and by key, so that n calls cost n. Where messages
//! may overtake each other, a call repeats the unanswered calls before it on its record (P10). Once there are a few
//! of these, further calls on the record are **kept back**, and sent together when those are answered.

use std::fmt;

use claret_types::Bytes;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::ids::{CallNo, Member, ShardId};
use crate::message::Call;

/// So many are looked through.
const FEW: usize = 8;

/// So many messages with unanswered calls on one record are under way, each of which repeats those before it.
pub(super) const REPEATS_MAX: usize = 8;

/// Calls on one record that went, or go, as one message.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    /// The call with which it began.
    pub(super) began_with: CallNo,
    /// Calls that return something, of which the first so many are answered.
    pub(super) returning: SmallVec<[CallNo; 1]>,
    pub(super) answered: usize,
    pub(super) shard: ShardId,
    pub(super) key: Bytes,
    /// The last one is what was asked for.
    pub(super) calls: SmallVec<[Call; 1]>,
    /// Without phases: it is to be asked for again.
    pub(super) is_busy: bool,
    /// Its member left the group: nobody waits for the answer (C12).
    pub(super) stale: bool,
    /// It is not sent yet.
    pub(super) is_kept_back: bool,
}

impl Outstanding {
    fn unanswered(&self) -> &[CallNo] {
        &self.returning[self.answered..]
    }

    /// Takes note of an answer. Mostly they come in order.
    fn answer(&mut self, no: CallNo) {
        match self.unanswered().binary_search(&no) {
            Ok(0) => self.answered += 1,
            Ok(place) => drop(self.returning.remove(self.answered + place)),
            Err(_) => {}
        }
    }

    /// What is answered does not go again: a shard says only so much again at once, and all of that would be known (P38).
    pub(super) fn leave_out_answered(&mut self) {
        let Some(first) = self.returning.first().copied() else { return };
        let unanswered = &self.returning[self.answered..];
        // Those before the first are calls of other messages, repeated.
        self.calls.retain(|call| {
            !call.op.returns() || call.no < first || unanswered.binary_search(&call.no).is_ok()
        });
    }

    pub(super) fn is_of(&self, member: Member) -> bool {
        self.calls.last().is_some_and(|call| call.member == member)
    }
}

/// See the module's text.
#[derive(Clone, Default)]
pub(super) struct Outstandings {
    list: SmallVec<[Outstanding; 1]>,
    index: Option<Box<Index>>,
}

#[derive(Clone, Default)]
struct Index {
    by_call: HashMap<CallNo, usize, foldhash::fast::FixedState>,
    by_key: HashMap<Bytes, Vec<usize>, foldhash::fast::FixedState>,
}

impl Outstandings {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Outstanding> {
        self.list.iter()
    }

    /// To change what is found by nothing that changes.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Outstanding> {
        self.list.iter_mut()
    }

    pub(super) fn at(&self, at: usize) -> &Outstanding {
        &self.list[at]
    }

    pub(super) fn push(&mut self, it: Outstanding) {
        self.list.push(it);
        match &mut self.index {
            Some(index) => index.note(&self.list, self.list.len() - 1),
            None if self.list.len() > FEW => {
                let mut index = Box::<Index>::default();
                (0..self.list.len()).for_each(|at| index.note(&self.list, at));
                self.index = Some(index);
            }
            None => {}
        }
    }

    /// Where those of one record are.
    pub(super) fn of_key(&self, key: &Bytes) -> SmallVec<[usize; 4]> {
        match &self.index {
            Some(index) => index.by_key.get(key).map_or_else(SmallVec::new, |all| all.as_slice().into()),
            None => (0..self.list.len()).filter(|at| self.list[*at].key == *key).collect(),
        }
    }

    /// Takes note of an answer: what is answered completely goes. An answer of another shard than was asked is none.
    pub(super) fn answer(&mut self, from: ShardId, no: CallNo) -> Option<Answered> {
        let at = match &self.index {
            Some(index) => *index.by_call.get(&no)?,
            None => self.list.iter().position(|it| it.unanswered().binary_search(&no).is_ok())?,
        };
        if self.list[at].shard != from {
            return None;
        }
        if let Some(index) = &mut self.index {
            index.by_call.remove(&no);
        }
        let it = &mut self.list[at];
        it.answer(no);
        let began_with = it.began_with;
        let finished = it.unanswered().is_empty().then(|| self.remove(at));
        Some(Answered { began_with, finished: finished.map(|it| it.key) })
    }

    fn remove(&mut self, at: usize) -> Outstanding {
        let moved = self.list.len() - 1;
        if let Some(index) = &mut self.index {
            index.forget(&self.list[at], at);
            if moved != at {
                index.forget(&self.list[moved], moved);
            }
        }
        let taken = self.list.swap_remove(at);
        if moved != at
            && let Some(index) = &mut self.index
        {
            index.note(&self.list, at);
        }
        if self.list.is_empty() {
            self.index = None;
        }
        taken
    }

    /// Adds calls to what is kept back.
    pub(super) fn add(&mut self, at: usize, calls: SmallVec<[Call; 1]>) {
        let it = &mut self.list[at];
        for no in calls.iter().filter(|call| call.op.returns()).map(|call| call.no) {
            it.returning.push(no);
            if let Some(index) = &mut self.index {
                index.by_call.insert(no, at);
            }
        }
        it.calls.extend(calls);
    }

    fn retain(&mut self, keep: impl Fn(&Outstanding) -> bool) {
        let list = std::mem::take(&mut self.list);
        self.index = None;
        list.into_iter().filter(keep).for_each(|it| self.push(it));
    }

    /// What nobody waits for any more is not under way. Whether there was some.
    pub(super) fn forget_stale(&mut self) -> bool {
        let is_any = self.list.iter().any(|it| it.stale);
        if is_any {
            self.retain(|it| !it.stale);
        }
        is_any
    }

    /// Takes out the calls from this one on, which are undone, and those before them that would be executed with them alone.
    /// The latter, which are to be executed otherwise, and the keys of what changed.
    pub(super) fn undo(&mut self, from: CallNo) -> (Vec<(ShardId, Bytes, Call)>, Vec<Bytes>) {
        let (mut left, mut keys) = (Vec::new(), Vec::new());
        let list = std::mem::take(&mut self.list);
        self.index = None;
        for mut it in list {
            if it.calls.last().is_some_and(|call| call.no >= from) {
                keys.push(it.key.clone());
                it.calls.retain(|call| call.no < from);
                it.returning.retain(|no| *no < from);
                it.answered = it.answered.min(it.returning.len());
                while it.calls.last().is_some_and(|call| !call.op.returns()) {
                    left.extend(it.calls.pop().map(|call| (it.shard, it.key.clone(), call)));
                }
            }
            if !it.unanswered().is_empty() {
                self.push(it);
            }
        }
        // What other messages carry comes with them.
        left.retain(|(_, _, call)| !self.list.iter().any(|it| it.calls.iter().any(|own| own.no == call.no)));
        left.sort_by_key(|(_, _, call)| call.no);
        left.dedup_by_key(|(_, _, call)| call.no);
        (left, keys)
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.index = None;
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.list.shrink_to_fit();
    }
}

/// What an answer was to.
pub(super) struct Answered {
    /// The call with which the message began.
    pub(super) began_with: CallNo,
    /// Its key, if all of it is answered.
    pub(super) finished: Option<Bytes>,
}

impl Index {
    fn note(&mut self, list: &[Outstanding], at: usize) {
        let it = &list[at];
        for no in it.unanswered() {
            self.by_call.insert(*no, at);
        }
        self.by_key.entry(it.key.clone()).or_default().push(at);
    }

    fn forget(&mut self, it: &Outstanding, at: usize) {
        for no in it.unanswered() {
            self.by_call.remove(no);
        }
        if let Some(places) = self.by_key.get_mut(&it.key) {
            places.retain(|place| *place != at);
            if places.is_empty() {
                self.by_key.remove(&it.key);
            }
        }
    }
}

/// Calls on one record.
impl Outstandings {
    /// Where the calls on a record are that are sent, and those of a member that are kept back.
    pub(super) fn under_way(&self, key: &Bytes, member: Member) -> (SmallVec<[usize; 4]>, Option<usize>) {
        let mut all = self.of_key(key);
        all.retain(|at| !self.list[*at].stale);
        let kept_back = |at: &usize| self.list[*at].is_kept_back && self.list[*at].is_of(member);
        let own = all.iter().copied().find(kept_back);
        all.retain(|at| !self.list[*at].is_kept_back);
        (all, own)
    }

    /// All that was sent on a record is answered: what was kept back may go. Where that is.
    pub(super) fn release_next(&mut self, key: &Bytes) -> Option<usize> {
        let all = self.of_key(key);
        if all.iter().any(|at| !self.list[*at].is_kept_back) {
            return None;
        }
        let at = all.into_iter().min_by_key(|at| self.list[*at].began_with)?;
        self.list[at].is_kept_back = false;
        Some(at)
    }

    /// Puts what is under way to the same record before new calls: two messages may overtake each other, and calls
    /// of one transaction on one record are executed in the order in which they were made. The shard knows doubles.
    pub(super) fn repeat_unanswered(&self, under_way: &[usize], calls: &mut SmallVec<[Call; 1]>) {
        if under_way.is_empty() {
            return;
        }
        let earlier = under_way.iter().flat_map(|at| &self.list[*at].calls).cloned();
        let mut earlier: SmallVec<[Call; 1]> = earlier.collect();
        earlier.sort_by_key(|call| call.no);
        earlier.dedup_by_key(|call| call.no);
        earlier.append(calls);
        *calls = earlier;
    }
}

/// In the order of the list: what is known beside it follows from it.
impl fmt::Debug for Outstandings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}
