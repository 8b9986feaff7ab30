//! The ledger: what an all-seeing observer notes of a run, and the checks that it allows.
//!
//! A transaction takes effect when its decision comes into being: when the last of its participants writes
//! yes. At that moment it holds all its locks, and it keeps them until it is applied; so of two transactions
//! that conflict, the one decided first was applied before the other got its lock, and the order of decisions
//! is a serial order. It agrees with real time, because a decision lies between a transaction's begin and the
//! moment its user hears of it. Replaying all committed transactions in that order on the sequential model
//! must give every answer that was given, and the final records (R1).
//!
//! Also checked, as it happens: registers are written once (R12); no user is told what did not happen (R4);
//! of a transaction's attempts at most one commits (trap 2); an answer never changes.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::message::{KeyedCall, Refusal, Request, Response};
use claret_core::{AttemptId, CallNo, ShardId};
use claret_types::{Bytes, Operation, Reply, State, Unique};

use crate::reference::Reference;

/// What is wrong, in a sentence.
pub(crate) type Violation = String;

/// All that is known of one attempt.
#[derive(Debug, Default)]
struct Entry {
    calls: BTreeMap<CallNo, (Bytes, Operation)>,
    replies: BTreeMap<CallNo, Reply>,
    participants: Option<BTreeSet<ShardId>>,
    yes: BTreeSet<ShardId>,
    no: BTreeSet<ShardId>,
    decided: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    attempts: BTreeMap<AttemptId, Entry>,
    /// Committed attempts in the order of their decisions.
    decided: Vec<AttemptId>,
    /// What was done before the run.
    prepared: Vec<(Bytes, Operation)>,
}

impl Ledger {
    /// An operation that was done before the run.
    pub(crate) fn note_preparation(&mut self, key: &Bytes, op: &Operation) {
        self.prepared.push((key.clone(), op.clone()));
    }

    /// How many transactions were decided.
    pub(crate) fn committed(&self) -> usize {
        self.decided.len()
    }

    /// A request leaves its coordinator.
    pub(crate) fn note_request(&mut self, request: &Request) {
        match request {
            Request::Execute { attempt, key, calls, .. } => {
                let entry = self.attempts.entry(*attempt).or_default();
                for call in calls {
                    entry.calls.insert(call.no, (key.clone(), call.op.clone()));
                }
            }
            Request::Prepare { attempt, participants, calls, .. } => {
                let entry = self.attempts.entry(*attempt).or_default();
                for KeyedCall { key, call } in calls {
                    entry.calls.insert(call.no, (key.clone(), call.op.clone()));
                }
                entry.participants.get_or_insert_with(|| participants.iter().map(|it| it.shard).collect());
            }
            Request::Apply { .. }
            | Request::Withdraw { .. }
            | Request::Abort { .. }
            | Request::Heartbeat { .. }
            | Request::Ask { .. } => {}
        }
    }

    /// A response leaves a shard.
    pub(crate) fn note_response(&mut self, from: ShardId, response: &Response) -> Result<(), Violation> {
        match response {
            Response::Granted { attempt, no, reply, .. } => {
                // With direct delivery a double that follows a no is executed anew, for nobody.
                let over = self.attempts.get(attempt).is_some_and(|entry| entry.no.contains(&from));
                if over { Ok(()) } else { self.note_reply(*attempt, *no, reply) }
            }
            Response::Voted { attempt, replies, .. } | Response::Committed { attempt, replies } => {
                for (no, reply) in replies {
                    self.note_reply(*attempt, *no, reply)?;
                }
                self.note_yes(*attempt, from)
            }
            // Written when a live session did not list the attempt; below the floor nothing is written, and
            // nobody listens.
            Response::Refused { attempt, refusal: Refusal::Stale, .. } => {
                let entry = self.attempts.entry(*attempt).or_default();
                if !entry.decided && !entry.yes.contains(&from) {
                    entry.no.insert(from);
                }
                Ok(())
            }
            Response::Refused { attempt, .. } => {
                let entry = self.attempts.entry(*attempt).or_default();
                entry.no.insert(from);
                // One that was prepared and then aborted may say no, because another wrote no before.
                let alone = entry.no.len() == 1 && entry.yes.contains(&from);
                match alone || entry.decided {
                    true => Err(format!("{attempt}: {from} says no and has written yes")),
                    false => Ok(()),
                }
            }
            Response::Queued { .. }
            | Response::Busy { .. }
            | Response::Applied { .. }
            | Response::Aborted { .. }
            | Response::Elder { .. }
            | Response::Asked { .. } => Ok(()),
        }
    }

    fn note_reply(&mut self, attempt: AttemptId, no: CallNo, reply: &Reply) -> Result<(), Violation> {
        let entry = self.attempts.entry(attempt).or_default();
        let known = entry.replies.entry(no).or_insert_with(|| reply.clone());
        match known == reply {
            true => Ok(()),
            false => Err(format!("{attempt}: call {} was answered {known} and then {reply}", no.0)),
        }
    }

    fn note_yes(&mut self, attempt: AttemptId, from: ShardId) -> Result<(), Violation> {
        let entry = self.attempts.entry(attempt).or_default();
        if entry.no.contains(&from) {
            return Err(format!("{attempt}: {from} says yes and has written no"));
        }
        entry.yes.insert(from);
        if !entry.decided && entry.participants.as_ref() == Some(&entry.yes) {
            entry.decided = true;
            self.decided.push(attempt);
            let (first, last) =
                (AttemptId { attempt: 0, ..attempt }, AttemptId { attempt: u32::MAX, ..attempt });
            let twice = self.attempts.range(first..=last).filter(|(_, entry)| entry.decided).count() > 1;
            if twice {
                return Err(format!("{}: two attempts commit", attempt.tx));
            }
        }
        Ok(())
    }

    /// A transaction that was carried out at once, without messages.
    pub(crate) fn note_instant(&mut self, attempt: AttemptId, done: Vec<(CallNo, Bytes, Operation, Reply)>) {
        let entry = self.attempts.entry(attempt).or_default();
        entry.decided = true;
        for (no, key, op, reply) in done {
            entry.calls.insert(no, (key, op));
            entry.replies.insert(no, reply);
        }
        self.decided.push(attempt);
    }

    /// A user hears an answer.
    pub(crate) fn told_answer(&self, attempt: AttemptId, no: CallNo, reply: &Reply) -> Result<(), Violation> {
        let given = self.attempts.get(&attempt).and_then(|entry| entry.replies.get(&no));
        match given == Some(reply) {
            true => Ok(()),
            false => Err(format!("{attempt}: call {} was answered {given:?}, its user heard {reply}", no.0)),
        }
    }

    /// A user hears that a transaction committed.
    pub(crate) fn told_committed(
        &self,
        attempt: AttemptId,
        replies: &[(CallNo, Reply)],
    ) -> Result<(), Violation> {
        for (no, reply) in replies {
            self.told_answer(attempt, *no, reply)?;
        }
        // A transaction without operations has no entry, and commits.
        match self.attempts.get(&attempt).is_none_or(|entry| entry.decided) {
            true => Ok(()),
            false => {
                Err(format!("{attempt}: its user hears that it committed, and not all have written yes"))
            }
        }
    }

    /// A user, or its next attempt, hears that an attempt is over without effect.
    pub(crate) fn told_over(&self, attempt: AttemptId) -> Result<(), Violation> {
        match self.attempts.get(&attempt).is_some_and(|entry| entry.decided) {
            true => Err(format!("{attempt}: its user hears that it is void, and it is committed")),
            false => Ok(()),
        }
    }

    /// Replays everything that committed, and compares answers and records.
    pub(crate) fn check_serial<'a>(
        &self,
        mut reference: Reference,
        actual: impl Iterator<Item = (&'a Bytes, &'a State)>,
    ) -> Result<(), Violation> {
        for (key, op) in &self.prepared {
            reference.run(key, op, Unique(0)).map_err(|error| format!("before the run: {op:?}: {error}"))?;
        }
        let mut ids = BTreeSet::new();
        for (place, attempt) in self.decided.iter().enumerate() {
            let entry = &self.attempts[attempt];
            for (no, (key, op)) in &entry.calls {
                let given = entry.replies.get(no);
                // Unique numbers are the store's to choose, but it must choose well.
                let unique = match given {
                    Some(Reply::Int(number)) => Unique(*number as u64),
                    _ => Unique(0),
                };
                if op.method().name == "UID.NEXT" && !ids.insert((key, unique.0)) {
                    return Err(format!("{attempt}: number {} was given out twice for '{key}'", unique.0));
                }
                let call = || format!("{attempt}, number {place} in order, call {}: {op:?} on '{key}'", no.0);
                let expected = match reference.run(key, op, unique) {
                    Ok(reply) => reply,
                    Err(error) => return Err(format!("{} cannot be done: {error}", call())),
                };
                if op.returns() && given != Some(&expected) {
                    return Err(format!("{} was answered {given:?}, and should be {expected}", call()));
                }
            }
        }
        let actual: BTreeMap<&Bytes, &State> = actual.collect();
        let expected = reference.records();
        for key in expected.keys().chain(actual.keys().copied()) {
            let (is, should) = (actual.get(key).copied(), expected.get(key));
            if is != should {
                return Err(format!("'{key}' ends as {is:?}, and should be {should:?}"));
            }
        }
        Ok(())
    }
}
