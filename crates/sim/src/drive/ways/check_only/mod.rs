//! What users of optimistic transactions do in the simulated world: they look without locks, and what they saw is checked at the end
//! (`docs/optimistic.md`). The state machine is the one that ships, `claret_core::Observations`.

use claret_core::message::{Refusal, Seen, Undone};
use claret_core::{CallNo, Cause, LookNo, Place, Saw, SessionId};
use claret_types::{Bytes, Operation};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::process::{Progress, Transaction};
use crate::run::RunId;
use crate::slots::slot_of;
use crate::workload::Ending;
use crate::world::World;

impl World {
    /// Looks at an operation of an optimistic transaction, or keeps it for the commit. What is to be locked comes back; of another
    /// transaction that is all. `at`: where it stands in the run's notes.
    pub(crate) fn look(
        &mut self,
        run: RunId,
        (key, slot): (&Bytes, u16),
        op: Operation,
        at: usize,
        (at_once, is_plain): (bool, bool),
    ) -> Option<Operation> {
        let now = self.local(run.session);
        let process = self.processes.get_mut(&run.session)?;
        let (transaction, client) = (process.transactions.get_mut(&run.tx)?, process.client.as_mut()?);
        let Some(looking) = &mut transaction.looking else { return Some(op) };
        let (nesting, place) = (&mut transaction.nesting, looking.observations.here());
        if !at_once || !op.returns() {
            if nesting.is_any && looking.observations.is_locked_alone(key) {
                return Some(op);
            }
            looking.observations.add(key.clone(), op);
            looking.log.push((key.clone(), at, place));
            return None;
        }
        if !is_plain || !looking.observations.looks_at(key, &op) {
            if looking.observations.is_to_lock_from_start(key, nesting.innermost()) {
                let _ = client.renounce(now, (run.tx, run.run), Refusal::Withdrawn);
                return None;
            }
            let (own, others) = std::mem::take(&mut looking.log).into_iter().partition(|(of, ..)| of == key);
            looking.log = others;
            let own: Vec<(Bytes, usize, Place)> = own;
            for (op, (_, at, _)) in looking.observations.take_of(key).into_iter().zip(own) {
                let is_seen = op.is_seen();
                if let Ok(no) = client.buffer(now, (run.tx, run.run), (slot, key.clone()), op) {
                    nesting.note_call(no);
                    match is_seen {
                        true => drop(looking.known.insert(no)),
                        false => drop(transaction.places.insert(no, at)),
                    }
                }
            }
            return Some(op);
        }
        if let Some(reply) = looking.observations.known(key, &op).cloned() {
            transaction.last = reply.clone();
            // It is one of the answers that are checked.
            self.ledger.note_heard(run, at, &reply).expect("it was not answered before");
            return None;
        }
        let (no, ops) = looking.observations.look(key.clone(), op);
        looking.log.push((key.clone(), at, place));
        looking.awaited.insert(no, at);
        let look = client.look(now, (slot, key.clone()), ops);
        process.looks.insert(look, (run, no));
        None
    }

    /// A look came back.
    pub(crate) fn see(&mut self, session: SessionId, look: LookNo, seen: Seen) -> Result<(), Violation> {
        let now = self.local(session);
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        let Some((run, no)) = process.looks.remove(&look) else { return Ok(()) };
        let Some(transaction) = process.transactions.get_mut(&run.tx) else { return Ok(()) };
        if transaction.run != run.run || transaction.stage != Progress::Running {
            return Ok(());
        }
        let (Some(looking), Some(client)) = (&mut transaction.looking, &mut process.client) else {
            return Ok(());
        };
        let Some(at) = looking.awaited.remove(&no) else { return Ok(()) };
        match looking.observations.saw(no, seen) {
            Saw::Answer(reply) => {
                // What was settled was not to answer.
                if self.ledger.runs()[&run].issued[at].op.returns() {
                    self.ledger.note_heard(run, at, &reply)?;
                    transaction.last = reply;
                }
            }
            Saw::Fails { at: place, .. } => {
                if let Some((_, at, _)) = looking.log.iter().find(|(.., known)| *known == place) {
                    self.ledger.note_failing(run, *at)?;
                    transaction.nesting.fails.insert(*at);
                }
            }
            Saw::Changed { key } => {
                looking.observations.note_changed(&key);
                let _ = client.renounce(now, (run.tx, run.run), Refusal::Withdrawn);
            }
            Saw::Refused(refusal) if refusal.is_retryable() => {
                let _ = client.renounce(now, (run.tx, run.run), refusal);
            }
            Saw::Refused(_) => client.abort(now, run.tx),
            Saw::Nothing => {}
        }
        let waits = transaction.looking.as_ref().is_some_and(|it| !it.awaited.is_empty());
        if !waits {
            self.schedule(self.now, SimEvent::Continue(run));
        }
        self.pump(run.session)
    }

    /// Brings what an optimistic transaction has seen and done to the shards' calls. Whether it is only checked.
    pub(crate) fn gather_seen(&mut self, run: RunId, ending: Ending) -> bool {
        let (now, slots) = (self.local(run.session), self.cluster.slots.count());
        let Some(process) = self.processes.get_mut(&run.session) else { return false };
        let Some(client) = &mut process.client else { return false };
        let Some(transaction) = process.transactions.get_mut(&run.tx) else { return false };
        let Some(looking) = &mut transaction.looking else { return false };
        let checks = !transaction.nesting.fails.is_empty()
            || ending == Ending::Abort && looking.observations.has_seen();
        looking.only_checks = checks;
        let calls: Vec<(Bytes, Operation)> = match checks {
            true => looking.observations.to_check().into_iter().map(owned).collect(),
            false => looking.observations.to_commit().map(owned).collect(),
        };
        let undone = match checks {
            true => looking.observations.undone_in_check(),
            false => looking.observations.undone_in_commit(),
        };
        let first = transaction.nesting.next_call();
        let mut places = looking.log.clone();
        if checks {
            // Those that are checked are the first of each record.
            let mut left: Vec<Bytes> = calls.iter().map(|(key, _)| key.clone()).collect();
            places.retain(|(key, ..)| {
                let at = left.iter().position(|it| it == key);
                at.map(|at| left.remove(at)).is_some()
            });
            self.ledger.note_check(run);
        }
        for ((key, op), (_, at, _)) in calls.into_iter().zip(places) {
            let (slot, is_seen) = (slot_of(&key, slots), op.is_seen());
            if let Ok(no) = client.buffer(now, (run.tx, run.run), (slot, key), op) {
                match is_seen {
                    true => drop(looking.known.insert(no)),
                    false => drop(transaction.places.insert(no, at)),
                }
            }
        }
        if !undone.is_empty() {
            looking.checks_some = true;
            let at = |place: u32| CallNo(first + place);
            let undone: Vec<Undone> =
                undone.into_iter().map(|it| Undone { from: at(it.start), to: at(it.end) }).collect();
            // Where the attempt is over, an event tells of that.
            let _ = client.only_check(now, (run.tx, run.run), &undone);
        }
        checks
    }
}

fn owned((key, op): (&Bytes, &Operation)) -> (Bytes, Operation) {
    (key.clone(), op.clone())
}

impl Transaction {
    /// Whether a call is checked against what was seen: what it answers was heard.
    pub(crate) fn has_seen(&self, no: CallNo) -> bool {
        self.looking.as_ref().is_some_and(|it| it.known.contains(&no))
    }

    /// Whether an operation cannot be done, and something was seen besides.
    pub(crate) fn has_seen_more(&self, refusal: &Refusal) -> bool {
        let has_seen = self.looking.as_ref().is_some_and(|it| it.observations.has_seen());
        has_seen && refusal.of_operation().is_some()
    }

    /// Its attempt is to be run again.
    pub(crate) fn note_restart(&mut self, cause: &Cause) {
        if let (Some(looking), Cause::Refused(Refusal::Changed { key })) = (&mut self.looking, cause) {
            looking.observations.note_changed(key);
        }
    }
}
