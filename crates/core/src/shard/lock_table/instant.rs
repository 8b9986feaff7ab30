//! Instant transactions on the records of one shard: changes are staged, so that they can be undone.

use claret_types::{Bytes, OpError, Operation, Reply};
use smallvec::SmallVec;

use super::executor::Executor;
use super::idle::IdleLocks;
use super::lock::{Lock, Verdict};
use super::records::{RecordIx, Records};
use crate::planted::{Bug, is_planted};
use crate::switches::Discipline;

/// What instant transactions are executed with.
pub(super) struct Instantly<'a> {
    pub(super) records: &'a mut Records,
    pub(super) idle: &'a mut IdleLocks,
    pub(super) executor: &'a mut Executor,
    pub(super) discipline: Discipline,
}

impl Instantly<'_> {
    /// Executes and applies an operation at once: nobody can look in between, so no lock is taken. `None`: the claims of others are in
    /// the way.
    pub(super) fn run(
        self,
        hash: u64,
        key: &Bytes,
        op: &Operation,
        locking: bool,
    ) -> Result<Option<Reply>, OpError> {
        let Instantly { records, executor, .. } = self;
        debug_assert!(executor.external().is_none(), "what is applied to external records cannot be undone");
        let unique = executor.next_unique();
        let version = executor.version_for(key, op);
        let found = records.find(hash, key);
        let record = found.map(|found| &records[found]);
        let state = record.and_then(|record| record.state.as_ref());
        let lock = record.and_then(|record| record.lock.as_deref());
        let lock = lock.filter(|_| locking && !is_planted(Bug::InstantPassesHolders));
        let executed = op.execute(version.as_ref().or(state), unique);
        let (reply, effect) =
            match Lock::judge_instantly(lock, self.discipline, op, executed, || op.room(state)) {
                Verdict::Grant(granted) => granted,
                Verdict::Wait => return Ok(None),
                Verdict::Fail(error) => return Err(error),
            };
        if let Some(effect) = effect {
            let place = found.unwrap_or_else(|| records.ensure(hash, key));
            records.change(place, |record| executor.stage(place, record, effect));
        }
        Ok(Some(reply))
    }

    /// What was done stays.
    pub(super) fn finish(self) {
        while let Some((record, _)) = self.executor.poll_staged() {
            if let Some(record) = self.records.get(record) {
                self.executor.has_changed(&record.key);
            }
            self.records.tidy(record, self.idle, self.executor);
        }
        self.executor.note_done();
    }

    /// What was done is undone, last first.
    pub(super) fn undo(self) {
        self.executor.take_back();
        let mut touched = SmallVec::<[RecordIx; 8]>::new();
        while let Some((record, undo)) = self.executor.poll_staged() {
            self.records.change(record, |record| drop(undo.apply(&mut record.state)));
            touched.push(record);
        }
        for record in touched {
            self.records.tidy(record, self.idle, self.executor);
        }
    }
}
