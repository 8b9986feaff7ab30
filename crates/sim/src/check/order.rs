//! The serial order of a run: that of decisions, or, where votes carry timestamps, that of the final ones (P75).

use std::collections::BTreeMap;

use claret_core::message::{Refusal, Response};
use claret_core::{AttemptId, CallNo, ShardId, Time, Timestamp};
use claret_types::{Bytes, OpError, Reply};

use super::vanished::Lost;
use super::{AttemptEntry, Ledger, Moment, Violation};
use crate::run::RunId;

/// What happens next in the serial order.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Decided(AttemptId),
    Wiped(ShardId),
    Failed(RunId, &'a Bytes),
    Vanished(Lost<'a>),
}

/// Where a step stands among those of the same timestamp: who is committed with it, in the order of attempts; then what was
/// seen behind that, in the order in which it was seen.
type Behind = (bool, usize, Option<AttemptId>);

impl Ledger {
    /// A vote with a timestamp.
    pub(super) fn note_place(
        &mut self,
        attempt: AttemptId,
        from: ShardId,
        at: Timestamp,
        now: Time,
        (replies, are_tentative): (&[(CallNo, Reply)], bool),
    ) -> Result<(), Violation> {
        let entry = self.attempts.entry(attempt).or_default();
        match are_tentative {
            true => entry.stamps.keep_tentative(from, at, replies),
            false => self.note_replies(attempt, replies)?,
        }
        let entry = self.attempts.entry(attempt).or_default();
        let known = entry.stamps.note_place(from, at);
        if known != at && !entry.is_torn() {
            return Err(format!("{attempt}: {from} votes {} and then {}", known.0, at.0));
        }
        self.note_yes(attempt, from, now)
    }

    /// A shard has carried out an attempt, which is a vote, too, where it is alone.
    pub(super) fn note_done(
        &mut self,
        attempt: AttemptId,
        from: ShardId,
        at: Timestamp,
        now: Time,
        replies: &[(CallNo, Reply)],
    ) -> Result<(), Violation> {
        let entry = self.attempts.get_mut(&attempt);
        if let Some(replies) = entry.and_then(|entry| entry.stamps.take_tentative(from, at)) {
            self.note_replies(attempt, &replies)?;
        }
        self.note_replies(attempt, replies)?;
        if at == Timestamp::MAX {
            return Ok(()); // So long ago that the shard knows nothing of it any more.
        }
        let entry = self.attempts.entry(attempt).or_default();
        if entry.participants.as_ref().is_some_and(|listed| listed.len() == 1) {
            entry.stamps.note_place(from, at);
        }
        self.note_yes(attempt, from, now)?;
        let entry = &self.attempts[&attempt];
        let last = self.final_of(entry);
        if last.is_some_and(|last| last != at) && !entry.is_torn() {
            return Err(format!("{attempt}: {from} carries it out at {}, and {last:?} is final", at.0));
        }
        match entry.is_decided() {
            true => {
                self.attempts.entry(attempt).or_default().applied.insert(from);
                Ok(())
            }
            false => Err(format!("{attempt}: {from} carries it out, and not all have written yes")),
        }
    }

    /// A shard refuses for good what this run, alone under its attempt, asked for on a record. That tells of the
    /// state at this moment (P15).
    pub(crate) fn note_failed(
        &mut self,
        run: RunId,
        (shard, life, attempt): (ShardId, u64, AttemptId),
        refusal: &Refusal,
    ) {
        let Some((key, behind)) = refusal.of_operation() else { return };
        if self.refusals.note_found(run, || found_of(refusal)) {
            // It saw those without a timestamp, too, and whoever votes later has a larger one than the safe time.
            let settled = self.refusals.settled((shard, life, attempt));
            let behind = behind.max(settled.unwrap_or(self.safe_time));
            self.order.push(Moment::Failed(run, key.clone(), behind));
        }
    }

    /// A shard writes what it says once its replicas know. What that stands behind, without a timestamp, shows now: up to here all
    /// was settled there, and no shard votes up to where any other one has everything for settled. What a shard said before in the same
    /// life is not written again.
    pub(crate) fn note_settled(
        &mut self,
        shard: ShardId,
        life: u64,
        response: &Response,
        settled: Timestamp,
    ) {
        self.settled = self.settled.max(settled);
        let settled = self.settled;
        match response {
            Response::Voted { attempt, .. } | Response::Committed { attempt, .. } => {
                self.attempts.entry(*attempt).or_default().stamps.note_met(shard, life, settled);
            }
            Response::Refused { attempt, .. } => {
                self.refusals.note_settled((shard, life, *attempt), settled);
            }
            _ => {}
        }
    }

    /// The final timestamp of an attempt that is committed (P74).
    pub(super) fn final_of(&self, entry: &AttemptEntry) -> Option<Timestamp> {
        entry.decided.and_then(|_| entry.stamps.last())
    }

    /// Everything in its order.
    pub(super) fn serial_order(&self) -> Vec<Step<'_>> {
        if self.is_stamped { self.order_of_timestamps() } else { self.order_of_decisions() }
    }

    fn order_of_decisions(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        let mut vanished = self.vanished_by_place();
        for (place, moment) in self.order.iter().enumerate() {
            steps.extend(vanished.remove(&place).map(Step::Vanished));
            steps.push(step_of(moment));
        }
        steps.extend(vanished.remove(&self.order.len()).map(Step::Vanished));
        steps
    }

    fn order_of_timestamps(&self) -> Vec<Step<'_>> {
        let mut steps: BTreeMap<(Timestamp, Behind), Step<'_>> = BTreeMap::new();
        for (place, moment) in self.order.iter().enumerate() {
            let at = match moment {
                Moment::Decided(attempt) => {
                    let entry = &self.attempts[attempt];
                    let at = self.final_of(entry).unwrap_or_default();
                    match entry.stamps.is_beside() {
                        false => (at, (false, 0, Some(*attempt))),
                        true => (at, (true, 2 * place + 1, None)),
                    }
                }
                Moment::Wiped(_, at) | Moment::Failed(_, _, at) => (*at, (true, 2 * place + 1, None)),
            };
            steps.insert(at, step_of(moment));
        }
        for (at, place, lost) in self.vanished_by_timestamp() {
            // Of several at one place, each has another record, or the second one finds none.
            match steps.entry((at, (true, 2 * place, None))).or_insert(Step::Vanished(Lost::new())) {
                Step::Vanished(all) => all.extend(lost),
                _ => unreachable!("only records vanish at an even place"),
            }
        }
        steps.into_values().collect()
    }
}

/// What was found instead of what an operation demands.
fn found_of(refusal: &Refusal) -> Option<Reply> {
    let (Refusal::Operation { error, .. } | Refusal::OperationBehind { error, .. }) = refusal else {
        return None;
    };
    match &**error {
        OpError::Unexpected { found, .. } => Some((**found).clone()),
        _ => None,
    }
}

fn step_of(moment: &Moment) -> Step<'_> {
    match moment {
        Moment::Decided(attempt) => Step::Decided(*attempt),
        Moment::Wiped(shard, _) => Step::Wiped(*shard),
        Moment::Failed(run, key, _) => Step::Failed(*run, key),
    }
}
