//! What operations would answer now, on committed state. See `Step::look`.

use claret_types::{Access, Bytes, Effect, Executed, OpError, Operation, Reply, Room, State, Unique};
use smallvec::SmallVec;

use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::counts::Counts;
use crate::shard::lock_table::executor::{Executor, take_off};
use crate::shard::lock_table::records::{Record, RecordIx};
use crate::shard::phaser::same;
use crate::switches::Discipline;

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

/// What a look is done with.
pub(in crate::shard::lock_table) struct Looking<'a> {
    pub(in crate::shard::lock_table) key: &'a Bytes,
    /// If there is one here.
    pub(in crate::shard::lock_table) record: Option<(RecordIx, &'a mut Record)>,
    pub(in crate::shard::lock_table) discipline: Discipline,
    pub(in crate::shard::lock_table) executor: &'a mut Executor,
    pub(in crate::shard::lock_table) counts: &'a mut Counts,
}

impl Looking<'_> {
    /// Executes operations on the record, one after the other, without looking who holds it, and undoes them all.
    pub(in crate::shard::lock_table) fn run(
        mut self,
        ops: &[Operation],
        bytes_max: usize,
        enough: u64,
    ) -> Look {
        let look = Look::new(bytes_max, enough);
        let mut looked = match self.executor.external() {
            Some(_) => self.look_outside(ops, look),
            None => self.look_inside(ops, look),
        };
        // Until it is empty again it is gone, but for those who have voted on it.
        let vanished = self.record.filter(|(_, record)| record.has_vanished());
        looked.record = looked.record.or(vanished.map(|(place, _)| place));
        looked
    }

    fn look_inside(&mut self, ops: &[Operation], mut look: Look) -> Look {
        let mut absent = None;
        let mut undo: SmallVec<[Effect; 2]> = SmallVec::new();
        for (at, op) in ops.iter().enumerate() {
            if !look.is_worth(op, at + 1 == ops.len(), self.counts.dearness()) {
                continue;
            }
            look.unique = self.executor.begin(self.counts);
            let version = self.executor.version_for(self.key, op);
            let state = self.record.as_ref().map_or(absent.as_ref(), |(_, record)| record.state.as_ref());
            let state = version.as_ref().or(state);
            let executed = op.execute(state, look.unique).map(|executed| (executed, op.room(state)));
            let effect = self.note(&mut look, (at, op), executed);
            let Some(effect) = effect.filter(|_| at + 1 < ops.len()) else {
                if look.result.is_err() {
                    break;
                }
                continue;
            };
            self.counts.replay(1);
            let state = self.record.as_mut().map_or(&mut absent, |(_, record)| &mut record.state);
            undo.push(effect.apply(state));
        }
        if let Some((_, record)) = &mut self.record
            && !is_planted(Bug::LookStays)
        {
            take_off(&mut record.state, undo);
        }
        look
    }

    fn look_outside(&mut self, ops: &[Operation], mut look: Look) -> Look {
        let mut own: Vec<Effect> = Vec::new();
        // A partial state with what was done before, and the first operation that it is not good for.
        let mut view: (Option<State>, usize) = (None, 0);
        for (at, op) in ops.iter().enumerate() {
            if !look.is_worth(op, at + 1 == ops.len(), self.counts.dearness()) {
                continue;
            }
            look.unique = self.executor.begin(self.counts);
            let opened =
                if at < view.1 { Ok(()) } else { self.open_outside(&ops[at..], &own, at, &mut view) };
            let executed = match opened {
                Ok(()) => op.execute(view.0.as_ref(), look.unique),
                Err(error) => op.not_executed(error),
            };
            let executed = executed.map(|executed| (executed, op.room(view.0.as_ref())));
            let effect = self.note(&mut look, (at, op), executed);
            if look.result.is_err() {
                break;
            }
            if let Some(effect) = effect.filter(|_| at + 1 < ops.len()) {
                self.counts.replay(1);
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
        ops: &[Operation],
        own: &[Effect],
        at: usize,
        view: &mut (Option<State>, usize),
    ) -> Result<(), OpError> {
        let own: SmallVec<[&Effect; 4]> = own.iter().collect();
        let alike = ops.iter().take_while(|op| same(op.type_info(), ops[0].type_info()));
        let asked: SmallVec<[&Operation; 8]> = alike.collect();
        if let Some((partial, covered)) =
            self.executor.partial_for_all(self.counts, self.key, &asked, &own)?
        {
            *view = (partial, at + covered);
        }
        Ok(())
    }

    /// Takes note of what executing an operation came to: its effect. A look decides nothing: it answers, and names the record if
    /// somebody may be in the way.
    fn note(
        &mut self,
        look: &mut Look,
        (at, op): (usize, &Operation),
        executed: Result<(Executed, Room), OpError>,
    ) -> Option<Effect> {
        let lock = self.record.as_ref().and_then(|(place, record)| Some((*place, record.lock.as_deref()?)));
        match executed {
            Ok((executed, room)) => {
                let in_the_way = lock
                    .filter(|(_, lock)| !lock.admits_instantly(self.discipline, op, executed.claims, room));
                look.record = look.record.or(in_the_way.map(|(place, _)| place));
                look.bytes = look.bytes.saturating_add(executed.reply.size());
                self.counts.answer(&executed.reply);
                look.result = Ok(executed.reply);
                executed.effect
            }
            Err(error) => {
                // P15: an error tells of all of the record.
                look.record = look.record.or(lock.map(|(place, _)| place));
                look.result = Err((at, error));
                None
            }
        }
    }
}
