//! Savepoints in the simulated world (`docs/nesting.md`): programs set them at random places, and roll back to them at will, in haste
//! (calls are not answered), or because something cannot be done.

use std::collections::BTreeSet;

use claret_core::{CallNo, Place, Time};
use claret_types::Reply;

use crate::check::{Ledger, Violation};
use crate::event::SimEvent;
use crate::process::{Progress, Transaction};
use crate::random::Random;
use crate::run::RunId;
use crate::workload::{Program, RollBack, Step};
use crate::world::{World, slot_of};

/// So many are open at once in a program.
const LEVELS_MAX: usize = 3;

/// The savepoints of a run, and where its calls stand.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    /// Its program has savepoints.
    pub(crate) is_any: bool,
    /// Those that are open, the outermost first.
    levels: Vec<Level>,
    /// The number of the next call at shards.
    next_call: u32,
    /// What cannot be done and is not undone: places in the run's notes.
    pub(crate) fails: BTreeSet<usize>,
    /// When the next step is taken, though calls are not answered.
    hasty_at: Option<Time>,
}

/// A savepoint that is open.
#[derive(Clone, Debug)]
struct Level {
    /// Calls from here on are undone with it: by their places in the run's notes, their numbers, and their places among those that an
    /// optimistic transaction looks at.
    at: usize,
    first: CallNo,
    observed: Place,
}

impl Nesting {
    pub(crate) fn of(program: &Program) -> Nesting {
        let is_any = program.steps.iter().any(|step| matches!(step, Step::Savepoint | Step::Settle));
        Nesting { is_any, ..Nesting::default() }
    }

    /// A call at shards was numbered.
    pub(crate) fn note_call(&mut self, no: CallNo) {
        self.next_call = no.0 + 1;
    }

    /// The number of the next call at shards.
    pub(crate) fn next_call(&self) -> u32 {
        self.next_call
    }

    /// Where the innermost savepoint stands among what is looked at.
    pub(crate) fn innermost(&self) -> Option<Place> {
        self.levels.last().map(|level| level.observed)
    }
}

impl Transaction {
    /// A call is answered, or cannot be done.
    pub(crate) fn hear_answer(
        &mut self,
        ledger: &mut Ledger,
        run: RunId,
        no: CallNo,
        reply: Reply,
    ) -> Result<(), Violation> {
        let at = self.places[&no];
        if let Reply::Failed(_) = reply {
            let counts = ledger.note_failing(run, at)?;
            self.nesting.fails.extend(counts.then_some(at));
            return Ok(());
        }
        ledger.note_heard(run, at, &reply)?;
        self.last = reply;
        Ok(())
    }
}

impl Program {
    /// Adds savepoints, and what is done with them.
    pub(crate) fn nest(&mut self, random: &mut Random) {
        let mut open = 0;
        for step in std::mem::take(&mut self.steps) {
            if open < LEVELS_MAX && random.chance(400) {
                self.steps.push(Step::Savepoint);
                open += 1;
            }
            self.steps.push(step);
            if random.chance(60) {
                self.steps.push(Step::Settle);
            }
            if open > 0 && random.chance(400) {
                let to = random.below(open as u64) as usize;
                let hasty_us = random.chance(500).then(|| *random.pick(&[0, 0, 100, 500, 5_000]));
                let keeps = random.chance(500);
                self.steps.push(Step::RollBack(RollBack { to, hasty_us, keeps }));
                open = to + usize::from(keeps);
            } else if open > 0 && random.chance(100) {
                open = random.below(open as u64) as usize;
                self.steps.push(Step::Release(open));
            }
        }
    }
}

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
        let first = CallNo(transaction.nesting.next_call);
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
        let (now, slots) = (self.local(run.session), self.moves.slots());
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
