//! Operations on the locks of records: asking, leaving, undoing, voting, standing in line. Each gets its record from the table, does
//! its work there, and gives back what is not needed any more.

use claret_types::{Bytes, Reply, Run, State};
use smallvec::SmallVec;

use super::lock::{Answers, Carried, Stop};
use super::records::{Record, RecordIx};
use super::table::LockTable;
use super::{Answer, Fate, Owner};
use crate::backup::HeldRecord;
use crate::ids::{AttemptId, Birth, CallNo, Time, Timestamp};
use crate::message::{Call, Members};
use crate::planted::{Bug, is_planted};
use crate::records::External;
use crate::shard::key_hash;

impl LockTable {
    // --- asking ---

    /// Asks for the locks of calls on one record, one after the other, and executes those that are granted, until one is
    /// not, or until more own effects than `enough` were added: where views are good for few calls, the rest has to begin
    /// again too often to be done at once. O(calls + own effects on the record).
    pub(crate) fn request(
        &mut self,
        now: Time,
        record: RecordIx,
        owner: Owner,
        calls: &[Call],
        enough: u64,
        answers: &mut Answers,
    ) -> Stop {
        let Some((asked, mut around)) = self.at(record) else { unreachable!("its place was made for this") };
        let stop = asked.request(&mut around, now, owner, calls, enough, answers);
        self.tidy_after(record, &stop);
        stop
    }

    /// The same for one call, which claims the record by a lock or, `in_order`, in its line; not granted: why.
    pub(crate) fn request_one(
        &mut self,
        now: Time,
        record: RecordIx,
        owner: Owner,
        call: &Call,
        in_order: bool,
    ) -> Result<Answer, Stop> {
        let Some((asked, mut around)) = self.at(record) else { unreachable!("its place was made for this") };
        let answer = asked.request_one(&mut around, now, owner, call, in_order);
        if let Err(stop) = &answer {
            self.tidy_after(record, stop);
        }
        answer
    }

    /// Whoever asked holds nothing and does not wait.
    fn tidy_after(&mut self, record: RecordIx, stop: &Stop) {
        if matches!(stop, Stop::Busy | Stop::Failed(_)) {
            self.tidy(record);
        }
    }

    /// Lets in who can be after somebody left.
    fn settle(&mut self, now: Time, record: RecordIx) {
        if let Some((left, mut around)) = self.at(record) {
            left.settle(&mut around, now);
        }
    }

    // --- leaving ---

    /// Stops waiting. [`Self::release`] must follow: it lets in whom this waiter stood before.
    pub(crate) fn cancel(&mut self, record: RecordIx, owner: Owner) {
        // The record may be gone: another waiter's error in the same step can have been the last of it.
        if let Some((Record { lock: Some(lock), .. }, _)) = self.at(record) {
            lock.cancel(owner);
        }
    }

    /// Stops waiting, and keeps what is held: lets in whom this waiter stood before.
    pub(crate) fn leave_queue(&mut self, now: Time, record: RecordIx, owner: Owner) {
        self.cancel(record, owner);
        self.settle(now, record);
        self.tidy(record);
    }

    /// Leaves: applies or drops what was executed, gives the claims back, and lets waiters in.
    pub(crate) fn release(&mut self, now: Time, record: RecordIx, attempt: AttemptId, fate: Fate<'_>) {
        self.stir(record);
        let Some((Record { lock: Some(lock), .. }, _)) = self.at(record) else { return };
        if lock.has_line() && lock.stands(attempt) {
            // What it was going to do is dropped: it is carried out by `finish_place` alone.
            let watchers = self.change(record, |left, around| left.leave_line(around.clocks, attempt));
            return self.look_at(now, record, watchers.into_iter().collect());
        }
        self.change(record, |left, around| left.leave(around, attempt, fate));
        self.settle(now, record);
        self.tidy(record);
    }

    /// An attempt is about to leave this record that runs commands of the server: see [`Self::run`]. All else that it did on the record
    /// is carried out.
    pub(crate) fn apply_before_commands(
        &mut self,
        record: RecordIx,
        attempt: AttemptId,
        members: &Members,
        runs: &mut Vec<Run>,
    ) {
        let fate = Fate::Apply(members);
        self.change(record, |left, around| left.apply_before_commands(around, attempt, fate, runs));
    }

    /// Carries out a command on a record that is not left yet: its answer.
    pub(crate) fn run(&mut self, record: RecordIx, run: &Run) -> Reply {
        self.change(record, |left, around| left.run(around, run))
    }

    /// An attempt votes: what it is going to do on these records is noted, if anybody wants to know.
    pub(crate) fn note_votes(&mut self, held: &[RecordIx], attempt: AttemptId, members: &Members) {
        for record in held {
            if let Some((Record { key, lock: Some(lock), .. }, around)) = self.at(*record) {
                around.executor.note_effects(key, lock.items_of(attempt), Fate::Apply(members));
            }
        }
    }

    // --- undoing ---

    /// What these calls of an attempt did on a record is undone (N2). O(calls of the attempt on the record).
    pub(crate) fn undo_calls(
        &mut self,
        record: RecordIx,
        attempt: AttemptId,
        is_undone: impl Fn(CallNo) -> bool,
    ) {
        if let Some((Record { lock: Some(lock), .. }, around)) = self.at(record) {
            around.counts.visit(lock.undo_calls(attempt, is_undone));
        }
    }

    /// The same for calls with these numbers. O(these calls), and the first time O(calls of the attempt on the record).
    pub(crate) fn undo_numbers(&mut self, record: RecordIx, attempt: AttemptId, numbers: &[CallNo]) {
        if let Some((Record { lock: Some(lock), .. }, around)) = self.at(record) {
            around.counts.visit(lock.undo_numbers(attempt, numbers));
        }
    }

    /// Which of these calls of an attempt are granted on a record, in order. O(these calls), and the first time O(calls of the
    /// attempt on the record).
    pub(crate) fn granted_of(
        &mut self,
        record: RecordIx,
        attempt: AttemptId,
        numbers: impl Iterator<Item = CallNo>,
    ) -> SmallVec<[CallNo; 4]> {
        let Some((Record { lock: Some(lock), .. }, around)) = self.at(record) else { return SmallVec::new() };
        let (granted, visited) = lock.granted_of(attempt, numbers.collect());
        around.counts.visit(visited);
        granted
    }

    // --- records that end or vanish ---

    /// Of these records, which somebody holds who votes, each whose end the effects may be about is kept from its end by the host,
    /// until the holder leaves. Whether all are there: one whose time was over before has ended, and those who hold it hear that
    /// before anybody is let in.
    pub(crate) fn hold_ends(&mut self, held: &[RecordIx], attempt: AttemptId) -> bool {
        let Some(external) = self.external() else { return true };
        held.iter().all(|record| match self.at(*record) {
            Some((Record { key, lock: Some(lock), .. }, around)) => {
                let is_there = lock.hold_end(key, attempt, external);
                if !is_there {
                    around.outbox.say_ended(key.clone());
                }
                is_there
            }
            _ => true,
        })
    }

    /// The shard forgets who holds its records: all of them may end by their time again.
    pub(crate) fn let_all_end(&self) {
        let Some(External(records)) = self.external() else { return };
        for Record { key, lock, .. } in self.records().iter() {
            for _ in 0..lock.as_ref().map_or(0, |lock| lock.ends_held()) {
                let _ = records.let_end(key); // Nobody is left to hear that it has ended.
            }
        }
    }

    /// The record is about to vanish: keeps what those who stand in line are to be executed on.
    pub(crate) fn keep_copy(&mut self, record: RecordIx) {
        if let Some(External(records)) = self.external()
            && let Some((Record { key, lock: Some(lock), .. }, _)) = self.at(record)
            && lock.wants_copy()
            && let Some(kind) = lock.kind()
        {
            lock.keep_copy(records.whole(key, kind));
        }
    }

    /// The record is gone: from now on nobody gets in until everybody who holds it now has left, and their effects on
    /// it come to nothing. Returns its waiters and then its holders.
    pub(crate) fn vanish(&mut self, record: RecordIx) -> Vec<AttemptId> {
        let state = self.change(record, |gone, around| {
            let state = gone.state.take();
            around.executor.note_vanished(&gone.key, state.is_some());
            state
        });
        let Some((gone, around)) = self.at(record) else { return Vec::new() };
        let Some(lock) = &mut gone.lock else {
            around.clocks.seal(gone.hash);
            self.tidy(record);
            return Vec::new();
        };
        if lock.wants_copy() && around.executor.external().is_none() {
            lock.keep_copy(state);
        }
        lock.vanish()
    }

    // --- standing in line ---

    /// An attempt votes with this timestamp on a record that it holds. Whether nobody who conflicts claims it in order.
    pub(crate) fn take_place(&mut self, record: RecordIx, attempt: AttemptId, at: Timestamp) -> bool {
        let held = self.at(record);
        held.is_none_or(|(record, around)| record.take_place(around.clocks, attempt, at))
    }

    /// The final timestamp of who holds a record by a lock is known.
    pub(crate) fn raise(&mut self, record: RecordIx, attempt: AttemptId, at: Timestamp) {
        if let Some((record, around)) = self.at(record) {
            record.raise(around.clocks, attempt, at);
        }
    }

    /// What the calls of an attempt in order answer as things are.
    pub(crate) fn answers_in_order(&mut self, record: RecordIx, attempt: AttemptId) -> Vec<(CallNo, Reply)> {
        let held = self.at(record);
        held.map_or_else(Vec::new, |(record, mut around)| record.answers_in_order(&mut around, attempt))
    }

    /// An elder waits for somebody who stands in this line (P81).
    pub(crate) fn pass_on(&mut self, record: RecordIx, attempt: AttemptId, elder: Birth) {
        if let Some((Record { lock: Some(lock), .. }, around)) = self.at(record) {
            lock.pass_on(attempt, elder, around.outbox);
        }
    }

    /// The final timestamp of an attempt that stands in line is known (P75). `answers`: they are wanted when it is carried out.
    pub(crate) fn finish_place(
        &mut self,
        now: Time,
        record: RecordIx,
        attempt: AttemptId,
        at: Timestamp,
        answers: bool,
    ) {
        let Some((held, around)) = self.at(record) else { return };
        if let Some(looked_at) = held.finish_place(around.clocks, attempt, at, answers) {
            self.look_at(now, record, looked_at);
        }
    }

    /// Looks at those who have their final place, and says of whom the turn has come on this record.
    pub(crate) fn look_at(&mut self, now: Time, record: RecordIx, attempts: SmallVec<[AttemptId; 4]>) {
        if let Some((held, mut around)) = self.at(record) {
            held.look_at(&mut around, now, attempts);
            self.tidy(record);
        }
    }

    /// Carries out what an attempt has in order on a record. [`Self::look_at`] must follow.
    pub(crate) fn carry_out(&mut self, record: RecordIx, attempt: AttemptId) -> Option<Carried> {
        self.records().get(record)?;
        self.change(record, |held, around| held.carry_out(around, attempt))
    }

    // --- what replicas had ---

    /// What an attempt held is held again, where nobody holds what would conflict. O(claims).
    pub(crate) fn hold_again(&mut self, owner: Owner, held: HeldRecord) -> RecordIx {
        let record = self.ensure(key_hash(&held.key), &held.key);
        if let Some((again, mut around)) = self.at(record) {
            again.hold_again(&mut around, owner, held);
        }
        record
    }

    /// Who holds a record in order stands in its line again, where it voted.
    pub(crate) fn stand_again(&mut self, record: RecordIx, attempt: AttemptId, at: Timestamp) {
        if let Some((Record { lock: Some(lock), .. }, _)) = self.at(record)
            && !is_planted(Bug::PromotedForgetsPlaces)
        {
            lock.stand(attempt, at);
        }
    }

    /// What those saw who stood in the line of a record that vanished is seen again.
    pub(crate) fn see_again(&mut self, key: &Bytes, seen: State) {
        let Some(record) = self.find(key_hash(key), key) else { return };
        if let Some((Record { lock: Some(lock), .. }, _)) = self.at(record) {
            lock.see_again(seen);
        }
    }
}
