//! What operations would answer now, on committed state. See `shard/looking.rs`.

use claret_types::{Access, Bytes, Effect, Executed, OpError, Operation, Reply, Room, State, Unique};
use smallvec::SmallVec;

use super::{AttemptId, External, LockTable, Read, Record, RecordIx};
use crate::planted::{Bug, is_planted};

/// What was seen.
pub(crate) struct Look {
    /// The answer of the last operation; or which one cannot be done, and why.
    pub(crate) result: Result<Reply, (usize, OpError)>,
    /// The number that went into that.
    pub(crate) unique: Unique,
    /// The record, if some of its holders may be in the way.
    pub(crate) record: Option<RecordIx>,
    /// How large all answers are, in bytes.
    pub(crate) bytes: usize,
    /// How large they may be, and how dear all of it: then reads before the last operation are left out, which change nothing.
    bytes_max: usize,
    enough: u64,
}

impl Look {
    fn new(bytes_max: usize, enough: u64) -> Self {
        Look { result: Ok(Reply::Ok), unique: Unique(0), record: None, bytes: 0, bytes_max, enough }
    }

    /// Whether an operation is worth executing: the last one, and what may change the record, always.
    fn is_worth(&self, op: &Operation, is_last: bool, dearness: u64) -> bool {
        let is_little = self.bytes < self.bytes_max && dearness <= self.enough;
        is_last || is_little || op.method().access == Access::Write
    }
}

impl LockTable {
    /// Executes operations on one record, one after the other, without looking who holds it, and undoes them all. Of the record with
    /// this key there need not be anything here.
    pub(crate) fn look(
        &mut self,
        hash: u64,
        key: &Bytes,
        ops: &[Operation],
        bytes_max: usize,
        at_once: usize,
    ) -> Look {
        let record = self.find(hash, key);
        let look = Look::new(bytes_max, self.dearness().saturating_add(at_once as u64));
        let mut looked = match self.external {
            Some(_) => self.look_outside(key, record, ops, look),
            None => self.look_inside(key, record, ops, look),
        };
        // Until it is empty again it is gone, but for those who have voted on it.
        looked.record = looked.record.or(record.filter(|record| self.has_vanished(*record)));
        looked
    }

    /// Who holds a record, in the order in which they came.
    pub(crate) fn holders(&self, record: RecordIx) -> impl Iterator<Item = AttemptId> + '_ {
        let lock = self.records[record].lock.as_ref();
        lock.into_iter().flat_map(|lock| lock.holders.keys().copied())
    }

    fn look_inside(
        &mut self,
        key: &Bytes,
        record: Option<RecordIx>,
        ops: &[Operation],
        mut look: Look,
    ) -> Look {
        let mut absent = None;
        let mut undo: SmallVec<[Effect; 2]> = SmallVec::new();
        for (at, op) in ops.iter().enumerate() {
            if !look.is_worth(op, at + 1 == ops.len(), self.dearness()) {
                continue;
            }
            look.unique = self.next_unique();
            self.looks += 1;
            let version = self.version_for(key, op);
            let state = record.map_or(absent.as_ref(), |record| self.records[record].state.as_ref());
            let state = version.as_ref().or(state);
            let executed = op.execute(state, look.unique).map(|executed| (executed, op.room(state)));
            let effect = self.note(&mut look, record, (at, op), executed);
            let Some(effect) = effect.filter(|_| at + 1 < ops.len()) else {
                if look.result.is_err() {
                    break;
                }
                continue;
            };
            self.replays += 1;
            undo.push(effect.apply(record.map_or(&mut absent, |record| &mut self.records[record].state)));
        }
        if let Some(record) = record
            && !is_planted(Bug::LookStays)
        {
            self.undo(record, undo);
        }
        look
    }

    fn look_outside(
        &mut self,
        key: &Bytes,
        record: Option<RecordIx>,
        ops: &[Operation],
        mut look: Look,
    ) -> Look {
        let mut own: Vec<Effect> = Vec::new();
        // A partial state with what was done before, and the first operation that it is not good for.
        let mut view: (Option<State>, usize) = (None, 0);
        for (at, op) in ops.iter().enumerate() {
            if !look.is_worth(op, at + 1 == ops.len(), self.dearness()) {
                continue;
            }
            look.unique = self.next_unique();
            self.looks += 1;
            let opened =
                if at < view.1 { Ok(()) } else { self.open_outside(key, &ops[at..], &own, at, &mut view) };
            let executed = match opened {
                Ok(()) => op.execute(view.0.as_ref(), look.unique),
                Err(error) => op.not_executed(error),
            };
            let executed = executed.map(|executed| (executed, op.room(view.0.as_ref())));
            let effect = self.note(&mut look, record, (at, op), executed);
            if look.result.is_err() {
                break;
            }
            if let Some(effect) = effect.filter(|_| at + 1 < ops.len()) {
                self.replays += 1;
                if op.add_to_partial(&mut view.0, &[&effect]).is_err() {
                    view.1 = 0;
                }
                own.push(effect);
            }
        }
        look
    }

    /// A partial state for the first of these operations, and those behind it that it is good for.
    fn open_outside(
        &mut self,
        key: &Bytes,
        ops: &[Operation],
        own: &[Effect],
        at: usize,
        view: &mut (Option<State>, usize),
    ) -> Result<(), OpError> {
        let Some(External(records)) = self.external else { return Ok(()) };
        let own: SmallVec<[&Effect; 4]> = own.iter().collect();
        self.replays += own.len() as u64;
        let alike = ops.iter().take_while(|op| super::same(op.type_info(), ops[0].type_info()));
        let asked: SmallVec<[&Operation; 8]> = alike.collect();
        let partial = records.partial_state_for_all(key, &asked, &own);
        self.read += records.take_read();
        let (mut partial, covered) = partial?;
        ops[0].add_to_partial(&mut partial, &own)?;
        *view = (partial, at + covered.clamp(1, asked.len()));
        Ok(())
    }

    /// Takes note of what executing an operation came to: its effect.
    fn note(
        &mut self,
        look: &mut Look,
        record: Option<RecordIx>,
        (at, op): (usize, &Operation),
        executed: Result<(Executed, Room), OpError>,
    ) -> Option<Effect> {
        let lock = record.and_then(|record| match &self.records[record] {
            Record { lock: Some(lock), .. } => Some((record, lock)),
            Record { lock: None, .. } => None,
        });
        match executed {
            Ok((executed, room)) => {
                let in_the_way = lock.filter(|(_, lock)| {
                    !lock.admits_instantly(self.switches.locks, op, executed.claims, room)
                });
                look.record = look.record.or(in_the_way.map(|(record, _)| record));
                look.bytes = look.bytes.saturating_add(executed.reply.size());
                self.read += Read::of_answer(&executed.reply);
                look.result = Ok(executed.reply);
                executed.effect
            }
            Err(error) => {
                // P15: an error tells of all of the record.
                look.record = look.record.or(lock.map(|(record, _)| record));
                look.result = Err((at, error));
                None
            }
        }
    }
}
