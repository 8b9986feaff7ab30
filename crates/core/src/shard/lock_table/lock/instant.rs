//! Instant transactions on the records of one shard: changes are staged, so that they can be undone.
//!
//! An operation that is over at once is decided in the words of any other ([`Verdict`]). But it has no owner: nothing that it
//! claims along, no member beside which it draws, nobody behind whom it could stand. It waits for whatever is not sure to commute with it.

use claret_types::{Bytes, Claims, Effect, Executed, Mode, OpError, Operation, Reply, Room};
use smallvec::SmallVec;

use super::Lock;
use super::asking::{Verdict, judge_error};
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::executor::Executor;
use crate::shard::lock_table::idle::IdleLocks;
use crate::shard::lock_table::records::{RecordIx, Records};
use crate::switches::Discipline;

/// What instant transactions are executed with.
pub(in super::super) struct Instantly<'a> {
    pub(in super::super) records: &'a mut Records,
    pub(in super::super) idle: &'a mut IdleLocks,
    pub(in super::super) executor: &'a mut Executor,
    pub(in super::super) discipline: Discipline,
}

impl Instantly<'_> {
    /// Executes and applies an operation at once: nobody can look in between, so no lock is taken. `None`: the claims of others are in
    /// the way.
    pub(in super::super) fn run(
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
    pub(in super::super) fn finish(self) {
        while let Some((record, _)) = self.executor.poll_staged() {
            if let Some(record) = self.records.get(record) {
                self.executor.has_changed(&record.key);
            }
            self.records.tidy(record, self.idle, self.executor);
        }
        self.executor.note_done();
    }

    /// What was done is undone, last first.
    pub(in super::super) fn undo(self) {
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

impl Lock {
    /// Decides about an operation that was executed and is over at once. Its room is asked for only where somebody may draw.
    pub(in super::super) fn judge_instantly(
        lock: Option<&Lock>,
        discipline: Discipline,
        op: &Operation,
        executed: Result<Executed, OpError>,
        room: impl FnOnce() -> Room,
    ) -> Verdict<(Reply, Option<Effect>)> {
        let Executed { reply, claims, effect } = match executed {
            Ok(executed) => executed,
            Err(error) => return judge_error(error, lock.is_none_or(|lock| !lock.is_held())),
        };
        match lock.is_none_or(|lock| lock.admits_instantly(discipline, op, claims, room())) {
            true => Verdict::Grant((reply, effect)),
            false => Verdict::Wait,
        }
    }

    /// Whether nobody's claims are in the way of an operation that is over at once.
    pub(in super::super) fn admits_instantly(
        &self,
        discipline: Discipline,
        op: &Operation,
        claims: Claims,
        room: Room,
    ) -> bool {
        let kind = self.kind.unwrap_or(op.type_info());
        let modes = kind.common_modes(op.type_info());
        let claims = match discipline.is_abstract() {
            _ if modes.is_none() => Claims::record(Mode::EXCLUSIVE),
            true => claims,
            false => op.reader_writer(),
        };
        let modes = modes.unwrap_or(&kind.modes);
        !self.vanished
            && self.held.admits(modes, &claims, room, std::iter::empty())
            && self.leaves_room_in_order(claims.draw, room)
            && self.admits_beside_line(modes, &claims)
    }
}
