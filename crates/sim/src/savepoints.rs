//! What users do with savepoints in the simulated world: they set them, roll back to them, and let go of them (`nesting.rs` has where
//! they stand).

use std::collections::BTreeSet;

use claret_core::{CallNo, Place};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::nesting::Level;
use crate::process::Progress;
use crate::run::RunId;
use crate::slots::slot_of;
use crate::workload::{RollBack, Step};
use crate::world::World;

impl World {
    /// Whether a run takes its next step though calls are not answered, now or, as it is told then, later.
    pub(crate) fn is_hasty(&mut self, run: RunId) -> bool {
        let now = self.now;
        let Some(transaction) = self.running(run).filter(|it| it.stage == Progress::Running) else {
            return false;
        };
        let next = transaction.program.steps.get(transaction.at);
        let Some(Step::RollBack(RollBack { hasty_us: Some(micros), .. })) = next else { return false };
        let at = now.plus(*micros);
        let known = transaction.nesting.hasty_at.replace(at);
        if let Some(known) = known {
            transaction.nesting.hasty_at = Some(known);
            return known <= now;
        }
        if at > now {
            self.schedule(at, SimEvent::Continue(run));
        }
        at <= now
    }

    pub(crate) fn set_savepoint(&mut self, run: RunId) {
        let at = self.ledger.issued(run);
        let Some(transaction) = self.running(run) else { return };
        let observed = transaction.looking.as_ref().map(|it| it.observations.here()).unwrap_or_default();
        let first = CallNo(transaction.nesting.next_call());
        transaction.nesting.levels.push(Level { at, first, observed });
        self.tell_inside(run);
    }

    pub(crate) fn release(&mut self, run: RunId, to: usize) {
        let Some(transaction) = self.running(run) else { return };
        transaction.nesting.levels.truncate(to);
        self.tell_inside(run);
    }

    /// Says which calls may fail. An attempt that may come to be of several transactions is run again, and an event tells of that.
    fn tell_inside(&mut self, run: RunId) {
        let now = self.local(run.session);
        let Some(transaction) = self.running(run) else { return };
        let inside = transaction.nesting.levels.first().map(|level| level.first);
        if let Some(client) = self.client(run.session) {
            let _ = client.may_fail_from(now, (run.tx, run.run), inside);
        }
    }

    pub(crate) fn roll_back(&mut self, run: RunId, to: usize, keeps: bool) {
        let now = self.local(run.session);
        let Some(transaction) = self.running(run) else { return };
        let nesting = &mut transaction.nesting;
        nesting.hasty_at = None;
        let Some(level) = nesting.levels.get(to).cloned() else { return };
        nesting.levels.truncate(to + usize::from(keeps));
        nesting.fails.split_off(&level.at);
        if let Some(looking) = &mut transaction.looking {
            for no in looking.observations.undo(level.observed) {
                looking.awaited.remove(&no);
            }
            let kept: BTreeSet<Place> = looking.observations.places().collect();
            looking.log.retain(|(.., place)| kept.contains(place));
        }
        self.ledger.note_undone(run, level.at);
        if let Some(client) = self.client(run.session) {
            // Where the attempt is over, an event tells of that.
            let _ = client.undo(now, (run.tx, run.run), level.first);
        }
        self.tell_inside(run);
    }

    /// Something cannot be done: what it is of is rolled back, or the run ends.
    pub(crate) fn give_in(&mut self, run: RunId) -> Result<(), Violation> {
        let now = self.local(run.session);
        let Some(transaction) = self.running(run) else { return Ok(()) };
        let Some(at) = transaction.nesting.fails.last().copied() else { return Ok(()) };
        if let Some(level) = transaction.nesting.levels.iter().rposition(|level| level.at <= at) {
            self.roll_back(run, level, true);
            return self.pump(run.session);
        }
        if transaction.looking.as_ref().is_some_and(|it| it.log.iter().any(|(_, known, _)| *known == at)) {
            return self.end(run);
        }
        transaction.stage = Progress::Ending;
        if let Some(client) = self.client(run.session) {
            client.abort(now, run.tx);
        }
        self.pump(run.session)
    }

    /// Executes what waits for the commit, or looks at it.
    pub(crate) fn settle_buffered(&mut self, run: RunId) {
        let (now, slots) = (self.local(run.session), self.cluster.slots.count());
        let Some(process) = self.processes.get_mut(&run.session) else { return };
        let (Some(transaction), Some(client)) = (process.transactions.get_mut(&run.tx), &mut process.client)
        else {
            return;
        };
        if let Some(looking) = &mut transaction.looking {
            for (no, key, ops) in looking.observations.settle() {
                let last = looking.log.iter().rev().find(|(of, ..)| *of == key);
                looking.awaited.extend(last.map(|(_, at, _)| (no, *at)));
                let look = client.look(now, (slot_of(&key, slots), key), ops);
                process.looks.insert(look, (run, no));
            }
        }
        // Where the attempt is over, or is run again to be alone, an event tells of that.
        let _ = client.settle_buffered(now, (run.tx, run.run));
    }
}
