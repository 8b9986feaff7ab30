//! What an optimistic transaction has seen and done so far, over all its attempts (`docs/optimistic.md`, O3 to O8).
//!
//! Sans I/O: its host asks what to look at ([`Observations::look`]), says what was seen ([`Observations::saw`]), and commits
//! [`Observations::to_commit`], or [`Observations::to_check`] where nothing is to be done. The answers that were seen travel with the
//! calls, so a commit is one for shards that know nothing of optimistic transactions.

mod undoing;

use std::collections::BTreeSet;

use claret_types::{Access, Bytes, OpError, Operation, Reply, Unique};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::ids::CallNo;
use crate::message::{Refusal, Seen};
use crate::planted::{Bug, is_planted};
use crate::wire::LOOK_OPS_MAX;

/// After so many attempts to which something had changed, what had changed is locked (O8).
const TRIES_MAX: u32 = 3;

/// Looks are numbered from here, and calls that a coordinator numbers below it.
const FIRST: u32 = 1 << 31;

/// Where a call stands among those that an optimistic transaction has made in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u32);

/// A call of this attempt.
#[derive(Clone, Debug)]
struct Entry {
    key: Bytes,
    /// With the answer that was seen, once it was.
    op: Operation,
    /// Of one that is looked at: until there is an answer.
    awaits: Option<CallNo>,
    /// What it answered, for who asks the same again.
    answer: Option<Reply>,
    /// Its place among all that were made in the attempt.
    place: Place,
    /// It is undone, and those made from here on do not see what it did.
    undone_at: Option<Place>,
}

/// What became of a look.
#[derive(Clone, Debug, PartialEq)]
pub enum Saw {
    /// The answer.
    Answer(Reply),
    /// It cannot be done, or what was done on the record before. That is believed once [all is checked](Observations::to_check).
    Fails {
        /// The record.
        key: Bytes,
        /// Why.
        error: OpError,
        /// Which call it is that cannot be done.
        at: Place,
    },
    /// What was seen before has changed, or nobody would check what was seen now: the attempt cannot commit.
    Changed {
        /// The record.
        key: Bytes,
    },
    /// It may not be looked at.
    Refused(Refusal),
    /// Of an earlier attempt.
    Nothing,
}

/// What an optimistic transaction has seen and done so far, over all its attempts: what to look at, what is known, and the calls
/// that are committed or only checked.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    log: Vec<Entry>,
    /// Where those of each record stand, in order.
    by_key: HashMap<Bytes, Vec<usize>, foldhash::fast::FixedState>,
    /// Records that are locked in this attempt: what was done there, a look would not see.
    locked: BTreeSet<Bytes>,
    /// Looks at records that were locked before there was an answer: nobody would check it.
    outrun: Vec<(CallNo, Bytes)>,
    /// Numbers of looks go on over attempts: late answers find nothing.
    next: u32,
    /// The place of the next call of the attempt.
    next_place: Place,
    /// Ranges of places that are undone.
    undone: Vec<(Place, Place)>,
    /// Records of which something changed.
    changed: BTreeSet<Bytes>,
    failures: u32,
    optimistic_only: bool,
    /// A look was outrun by a lock on these in some attempt.
    beside: BTreeSet<Bytes>,
    /// An answer was seen of a record that is locked since.
    has_seen_locked: bool,
    /// Everything is locked.
    locks_all: bool,
}

impl Entry {
    fn is_undone(&self) -> bool {
        self.undone_at.is_some()
    }

    /// Whether this error is not what was seen of it.
    fn was_seen_otherwise(&self, error: &OpError) -> bool {
        self.op.is_seen() && matches!(self.op.not_executed(error.clone()), Err(OpError::Changed))
    }
}

impl Observations {
    /// Of a transaction that begins. `optimistic_only`: whatever changes, and however often.
    pub fn new(optimistic_only: bool) -> Self {
        Observations { optimistic_only, ..Self::default() }
    }

    /// The next attempt begins.
    pub fn begin_again(&mut self) {
        self.log.clear();
        self.by_key.clear();
        self.outrun.clear();
        self.locked.clear();
        self.undone.clear();
        self.next_place = Place(0);
        self.has_seen_locked = false;
    }

    /// From the next attempt on everything is locked: an operation cannot be done, and only under locks that is known to be so of all
    /// that was seen (O5).
    pub fn lock_all(&mut self) {
        self.locks_all = true;
    }

    /// An attempt failed, as this record is not any more what it was.
    pub fn note_changed(&mut self, key: &Bytes) {
        self.failures += 1;
        self.changed.insert(key.clone());
    }

    /// Whether an operation is looked at, and not executed under its lock (O7, O8). O(1).
    pub fn looks_at(&self, key: &Bytes, op: &Operation) -> bool {
        let is_locked = self.locks(key);
        // What the clock goes into is never the same again; what its user demands is looked at once.
        op.returns()
            && !op.is_command()
            && !op.is_timed()
            && !op.expects()
            && !is_locked
            && self.of(key).len() < LOOK_OPS_MAX
    }

    /// Whether a record is locked in this attempt, from its first touch or by now.
    fn locks(&self, key: &Bytes) -> bool {
        let has_failed = self.failures >= TRIES_MAX && !is_planted(Bug::NeverLocks);
        let is_to_lock = !self.optimistic_only && has_failed && self.changed.contains(key);
        is_to_lock
            || self.locks_all
            || self.beside.contains(key)
            || self.locked.contains(key) && !is_planted(Bug::LooksBesideLock)
    }

    /// The calls on a record.
    fn of(&self, key: &Bytes) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        let places = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        places.iter().map(|at| &self.log[*at])
    }

    fn entry(&mut self, key: Bytes, op: Operation, awaits: Option<CallNo>) -> Entry {
        let place = self.next_place;
        self.next_place.0 += 1;
        Entry { key, op, awaits, answer: None, place, undone_at: None }
    }

    fn push(&mut self, entry: Entry) {
        let at = self.log.len();
        match self.by_key.get_mut(&entry.key) {
            Some(places) => places.push(at),
            None => drop(self.by_key.insert(entry.key.clone(), vec![at])),
        }
        self.log.push(entry);
    }

    /// What the same question was answered before, if the transaction did nothing to the record since (O6). O(calls on the record).
    pub fn known(&self, key: &Bytes, op: &Operation) -> Option<&Reply> {
        let is_read =
            |entry: &&Entry| entry.op.method().access == Access::Read || is_planted(Bug::KnownThoughChanged);
        let reads = self.of(key).rev().filter(|entry| !entry.is_undone()).take_while(is_read);
        let mut same = reads.filter(|entry| entry.op.plain() == op);
        same.find_map(|entry| entry.answer.as_ref()).filter(|_| op.method().access == Access::Read)
    }

    /// Adds a call whose answer nobody waits for.
    pub fn add(&mut self, key: Bytes, op: Operation) {
        let entry = self.entry(key, op, None);
        self.push(entry);
    }

    /// Adds a call whose answer is wanted now: its number, and what to look at.
    pub fn look(&mut self, key: Bytes, op: Operation) -> (CallNo, SmallVec<[Operation; 1]>) {
        let no = CallNo(FIRST + self.next);
        self.next = (self.next + 1) % FIRST;
        let entry = self.entry(key.clone(), op, Some(no));
        self.push(entry);
        (no, self.ops_of(&key))
    }

    /// What the transaction did on a record and did not undo.
    fn ops_of(&self, key: &Bytes) -> SmallVec<[Operation; 1]> {
        self.of(key).filter(|entry| !entry.is_undone()).map(|entry| entry.op.clone()).collect()
    }

    /// A look came back.
    pub fn saw(&mut self, no: CallNo, seen: Seen) -> Saw {
        // Mostly one of the last.
        let Some(at) = self.log.iter().rposition(|entry| entry.awaits == Some(no)) else {
            let outrun = self.outrun.iter().find(|(look, _)| *look == no);
            return match (outrun, seen) {
                (Some((_, key)), _) if !is_planted(Bug::OutrunLookCounts) => {
                    self.beside.insert(key.clone());
                    Saw::Changed { key: key.clone() }
                }
                (Some(_), Seen::Answer { reply, .. }) => Saw::Answer(reply),
                _ => Saw::Nothing,
            };
        };
        match seen {
            Seen::Answer { reply, unique } => {
                let entry = &mut self.log[at];
                if entry.op.is_seen() {
                    // A later look said that it cannot be done.
                    return Saw::Changed { key: entry.key.clone() };
                }
                // What answers nothing was looked at to see whether it can be done, and nothing was seen.
                if entry.op.returns() {
                    if !is_planted(Bug::SeenUnchecked) {
                        let unique = Unique(unique ^ u64::from(is_planted(Bug::DrawnAnew)));
                        entry.op = entry.op.seen(Ok(&reply), unique);
                    }
                    entry.answer = Some(reply.clone());
                }
                entry.awaits = None;
                Saw::Answer(reply)
            }
            Seen::Fails { at: failing, error, unique } => {
                let key = self.log[at].key.clone();
                if *error == OpError::Changed {
                    return Saw::Changed { key };
                }
                // It is among those of its record, up to the one that was asked.
                let own = self.by_key.get(&key).map_or(&[][..], Vec::as_slice);
                let mut asked = own.iter().copied().filter(|at| !self.log[*at].is_undone());
                let place = asked.nth(failing as usize).unwrap_or(at).min(at);
                // Of one before it: its own look may still be on its way.
                self.log[at].awaits = None;
                let entry = &mut self.log[place];
                // Its user has heard of it since this was asked.
                if entry.was_seen_otherwise(&error) {
                    return Saw::Changed { key };
                }
                let unique = Unique(unique ^ u64::from(is_planted(Bug::DrawnAnew)));
                entry.op = entry.op.seen(Err(&error), unique);
                Saw::Fails { key, error: *error, at: entry.place }
            }
            Seen::Refused(refusal) => Saw::Refused(refusal),
            // Whoever asks does so again.
            Seen::Later => Saw::Nothing,
        }
    }

    /// Whether an answer was seen in this attempt, so that it has to be checked.
    pub fn has_seen(&self) -> bool {
        self.has_seen_locked || self.log.iter().any(|entry| entry.op.is_seen())
    }

    /// Takes the calls on a record out, which is locked from now on. O(calls of the attempt).
    pub fn take_of(&mut self, key: &Bytes) -> Vec<Operation> {
        self.locked.insert(key.clone());
        if self.of(key).len() == 0 {
            return Vec::new(); // Mostly: it is locked at its first touch.
        }
        let (own, others): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.log).into_iter().partition(|entry| entry.key == *key);
        self.by_key.clear();
        others.into_iter().for_each(|entry| self.push(entry));
        self.has_seen_locked |= own.iter().any(|entry| entry.op.is_seen());
        let outrun = own.iter().filter_map(|entry| Some((entry.awaits?, entry.key.clone())));
        self.outrun.extend(outrun);
        let goes_along = !is_planted(Bug::OwnLeftBehind);
        own.into_iter().filter(|_| goes_along).map(|entry| entry.op).collect()
    }

    /// All calls, in their order.
    pub fn to_commit(&self) -> impl Iterator<Item = (&Bytes, &Operation)> {
        self.log.iter().map(|entry| (&entry.key, &entry.op))
    }

    fn checked(&self) -> Vec<&Entry> {
        let mut counting = Vec::new();
        let mut seen_later: BTreeSet<&Bytes> = BTreeSet::new();
        for entry in self.log.iter().rev() {
            if entry.op.is_seen() {
                seen_later.insert(&entry.key);
            }
            // What was seen is to be checked before an error is believed (O5).
            if seen_later.contains(&entry.key) && !is_planted(Bug::ErrorsUnchecked) {
                counting.push(entry);
            }
        }
        counting.reverse();
        counting
    }

    /// Those that show whether all that was seen is still so, and what the transaction did on the records before. They are to be
    /// executed and not carried out. O(calls).
    pub fn to_check(&self) -> Vec<(&Bytes, &Operation)> {
        self.checked().into_iter().map(|entry| (&entry.key, &entry.op)).collect()
    }
}
