//! Everything that committed is replayed in its order on the sequential model, and compared: answers and records.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::{AttemptId, ShardId, Time};
use claret_types::{Bytes, Effect, State, Unique};

use super::open::Open;
use super::order::Step;
use super::precedence::Precedence;
use super::replay::Replay;
use super::{AttemptEntry, Ledger, Violation};
use crate::reference::Reference;
use crate::run::Told;

/// What the sequential model starts from, and what it is compared with.
pub(crate) struct LedgerEnd<'a> {
    pub(crate) reference: Reference,
    pub(crate) records: BTreeMap<&'a Bytes, &'a State>,
    pub(crate) place: &'a dyn Fn(&Bytes) -> ShardId,
    /// Whether a shard has carried out an attempt on a record, though not on all.
    pub(crate) is_carried_out: &'a dyn Fn(ShardId, AttemptId, &Bytes) -> bool,
    /// Nothing is under way any more: whatever was decided must have been applied.
    pub(crate) settled: bool,
}

impl Ledger {
    /// Replays everything that committed, and compares answers and records.
    pub(crate) fn check_serial(&self, mut end: LedgerEnd<'_>) -> Result<(), Violation> {
        let reference = std::mem::take(&mut end.reference);
        let mut replay = Replay { reference, ids: BTreeSet::new(), precedence: None };
        for (key, op) in &self.prepared {
            let done = replay.reference.run(key, op, Unique(0));
            done.map_err(|error| format!("before the run: {op:?}: {error}"))?;
        }
        let is_whole = self.torn() == 0 && !self.is_wiped();
        replay.precedence = (self.is_stamped && is_whole).then(Precedence::default);
        for step in self.serial_order() {
            match step {
                Step::Vanished(lost) => self.forget_vanished(&mut replay, lost)?,
                Step::Wiped(shard) => replay.reference.forget(|key| (end.place)(key) == shard),
                Step::Failed(run, key) => {
                    let told = self.refusals.told(run).filter(|_| self.torn() == 0);
                    if let Some(told) = told {
                        self.check_failed(&mut replay.reference, run, key)?;
                        let began = self.runs[&run].began;
                        replay.precedes(|it| it.add_error(run.to_string(), (began, Some(told)), key));
                    }
                }
                Step::Decided(attempt) => self.replay_attempt(&mut replay, attempt, &end)?,
            }
        }
        compare(&end.records, replay.reference.records(), |key| self.is_doubtful(key))?;
        replay.precedence.map_or(Ok(()), |precedence| precedence.check())
    }

    /// Whether nobody knows what a record holds: it vanished, and a transaction is torn whose timestamp is not known to be before
    /// that or behind it.
    fn is_doubtful(&self, key: &Bytes) -> bool {
        let is_of = |entry: &AttemptEntry| entry.is_decided() && entry.is_torn() && self.uses(entry, key);
        self.is_stamped && self.ends().any(|(gone, ..)| gone == key) && self.attempts.values().any(is_of)
    }

    /// Carries out a committed attempt on the model.
    fn replay_attempt<'a>(
        &'a self,
        replay: &mut Replay<'a>,
        attempt: AttemptId,
        end: &LedgerEnd<'_>,
    ) -> Result<(), Violation> {
        let entry = &self.attempts[&attempt];
        let shard_of = |key: &Bytes| entry.sites.get(key).copied().unwrap_or_else(|| (end.place)(key));
        let undone = |key: &Bytes| {
            let shard = shard_of(key);
            let was = entry.applied.contains(&shard) || entry.carried_out.contains(key);
            !was && !(end.is_carried_out)(shard, attempt, key)
        };
        let mut undo: Vec<(&Bytes, Effect)> = Vec::new();
        replay.precedes(|it| it.add(attempt.to_string(), self.span_of(entry)));
        for run in &entry.members {
            if let Some(checked) = &self.runs[run].checked {
                replay.check(*run, &self.runs[run].issued, checked, entry.is_torn())?;
                continue;
            }
            let mut open = Open::default();
            for (at, issued) in self.runs[run].issued.iter().enumerate() {
                let torn = entry.is_torn();
                open.end_before(at, &mut replay.reference);
                if undone(&issued.key) && end.settled && !torn && !issued.is_unsent() {
                    return Err(format!("{run} is committed, and '{}' never saw it", issued.key));
                }
                let inverse = replay.take(*run, issued, torn)?;
                if issued.undone_at.is_some() {
                    open.add(issued, inverse);
                    continue;
                }
                undo.extend(inverse.filter(|_| undone(&issued.key)).map(|inverse| (&issued.key, inverse)));
            }
            open.end_before(usize::MAX, &mut replay.reference);
        }
        // Not yet applied there, or never: nobody who came later has seen it.
        while let Some((key, inverse)) = undo.pop() {
            replay.reference.apply(key, inverse);
        }
        Ok(())
    }

    /// When the last of its members began, and when the first of their users heard that it committed.
    fn span_of(&self, entry: &AttemptEntry) -> (Time, Option<Time>) {
        let runs = || entry.members.iter().map(|run| &self.runs[run]);
        let told = runs().filter_map(|log| match log.told {
            Told::Committed(at) => Some(at),
            Told::Nothing | Told::Void => None,
        });
        (runs().map(|log| log.began).max().unwrap_or(Time(0)), told.min())
    }
}

fn compare(
    actual: &BTreeMap<&Bytes, &State>,
    expected: &BTreeMap<Bytes, State>,
    is_doubtful: impl Fn(&Bytes) -> bool,
) -> Result<(), Violation> {
    for key in expected.keys().chain(actual.keys().copied()).filter(|key| !is_doubtful(key)) {
        let (is, should) = (actual.get(key).copied(), expected.get(key));
        if is != should {
            return Err(format!("'{key}' ends as {is:?}, and should be {should:?}"));
        }
    }
    Ok(())
}
