//! What a shard tells its replicas, and what waits for them (`docs/replication.md`). `lives.rs` says how one of them goes on as
//! the shard.
//!
//! What a shard says that counts (S2) leaves when every replica holds all that the shard had written by then. The host sends
//! [`Shard::poll_changes`](super::Shard::poll_changes) to the replicas, a batch at a time, and says with [`Shard::replicated`](super::Shard::replicated) up to which batch all of them
//! have it. Even where nothing was written there is a batch, an empty one: that all replicas answer it shows that none of them has
//! been promoted (S5).

use std::collections::VecDeque;

use claret_types::Bytes;

use super::history::Decided;
use crate::backup::{Change, Changes};
use crate::ids::{AttemptId, Time, Timestamp};
use crate::message::{Output, Participants, PeerMessage, Refusal, Response};
use crate::planted::{Bug, is_planted};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Replication {
    /// Since the last batch.
    changes: Changes,
    /// The host waits for this batch, whether anything is written or not.
    asked: u64,
    /// So many batches were taken, and so many of them all replicas have.
    taken: u64,
    confirmed: u64,
    /// What waits for the replicas, by the batch that they must have. In order.
    held: VecDeque<(u64, Output)>,
    /// What has waited.
    free: VecDeque<Output>,
    /// Up to where the replicas were told that timestamps may be used, and up to where all of them know: never more.
    told: Timestamp,
    known: Timestamp,
    /// What they do not all know yet, and the batches that tell it. In order.
    unacknowledged: VecDeque<(u64, Timestamp)>,
    /// What the host wants whoever is promoted to know.
    of_host: Bytes,
}

/// What has to be so before an output leaves.
enum Leaves {
    /// Nothing: it is asked, or said of locks, which counts only with a vote (S2).
    AtOnce,
    /// All replicas have what the shard had written.
    Counts,
    /// All replicas know that timestamps up to here may be used (S17).
    WithClock(Timestamp),
}

fn leaves(output: &Output) -> Leaves {
    match output {
        Output::Respond { response, .. } => match response {
            Response::Granted { .. }
            | Response::Queued { .. }
            | Response::Busy { .. }
            | Response::Elder { .. }
            | Response::Behind { .. } => Leaves::AtOnce,
            Response::Ticked { clock, .. } => Leaves::WithClock(*clock),
            _ => Leaves::Counts,
        },
        Output::Tell { message, .. } => match message {
            PeerMessage::Answer { .. } | PeerMessage::Way { .. } => Leaves::Counts,
            // What is said to one that lost its memory is no clock, and a stale primary may know too little.
            PeerMessage::Clock { owners: 0, .. } => Leaves::Counts,
            PeerMessage::Clock { clock, .. } => Leaves::WithClock(*clock),
            PeerMessage::Inquire { .. } | PeerMessage::AskClock { .. } => Leaves::AtOnce,
        },
    }
}

impl Replication {
    /// What became of an attempt is about to be told: that it has voted, and where it stands, need not be if that was last.
    fn leave_out(&mut self, ended: AttemptId) {
        let is_of_it = |change: &Change| match change {
            Change::Voted(vote) => vote.attempt == ended,
            Change::Placed { attempt, .. } => *attempt == ended,
            _ => false,
        };
        while self.changes.last().is_some_and(is_of_it) {
            self.changes.pop();
        }
    }

    fn waits(&self, output: &Output) -> bool {
        match leaves(output) {
            Leaves::AtOnce => false,
            Leaves::Counts => !is_planted(Bug::AnswersBeforeReplicas),
            // The replicas do not all know that it may be used (S17).
            Leaves::WithClock(clock) => clock > self.known && !is_planted(Bug::ClockBeforeReplicas),
        }
    }

    /// All that there is comes with the next batch, also if it was told before: a replica may have come that knows nothing of it.
    pub(super) fn tell_all(&mut self, changes: Changes) {
        self.changes = changes;
        // The newcomer does not know it yet.
        self.known = Timestamp::default();
        self.unacknowledged = std::iter::once((self.taken + 1, self.told)).collect();
    }

    /// Tells what has just changed, if anything has.
    pub(super) fn note(&mut self, change: Option<Change>) {
        self.changes.extend(change);
    }

    /// Tells how an attempt ended, as far as that has to outlive the shard (S3): a no need not.
    pub(super) fn note_end(
        &mut self,
        attempt: AttemptId,
        had_voted: bool,
        decided: &Decided,
        listed: Option<&Participants>,
    ) {
        self.leave_out(attempt);
        match decided {
            Decided::Refused(Refusal::Unknown) if listed.is_some() => {
                self.changes.extend(changes_of(attempt, decided, listed));
            }
            Decided::Applied { .. } => self.changes.extend(changes_of(attempt, decided, listed)),
            Decided::Refused(_) => self.note(had_voted.then_some(Change::Dropped(attempt))),
        }
    }

    /// Tells that more timestamps may be used, before all are of which the replicas know (S17).
    pub(super) fn note_used(&mut self, used: Timestamp, now: Time, ahead_us: u64) {
        let told = told_after(self.told, used, now, ahead_us);
        if told > self.told {
            self.told = told;
            self.unacknowledged.push_back((self.taken + 1, told));
            self.changes.extend((!is_planted(Bug::UsedUntold)).then_some(Change::Used(told)));
        }
    }

    /// Tells what the host wants whoever is promoted to know. Whether that is news.
    pub(super) fn note_of_host(&mut self, note: Bytes) -> bool {
        if self.of_host == note {
            return false;
        }
        self.of_host = note.clone();
        self.changes.push(Change::OfHost(note));
        true
    }

    /// The last word of the host, if there was any.
    pub(super) fn of_host(&self) -> Option<Change> {
        (!self.of_host.is_empty()).then(|| Change::OfHost(self.of_host.clone()))
    }

    /// The next batch, and its number; `None` if nothing was written and nothing waits for an answer.
    pub(super) fn poll_changes(&mut self) -> Option<(u64, Changes)> {
        let is_awaited =
            self.held.back().is_some_and(|(batch, _)| *batch > self.taken) || self.asked > self.taken;
        if self.changes.is_empty() && !is_awaited {
            return None;
        }
        self.taken += 1;
        Some((self.taken, std::mem::take(&mut self.changes)))
    }

    /// The batch that has what is written now. It is going to be there, if only an empty one.
    pub(super) fn ask(&mut self) -> u64 {
        self.asked = self.taken + 1;
        self.asked
    }

    /// All replicas have all batches up to this one.
    pub(super) fn confirm(&mut self, batch: u64) {
        self.confirmed = self.confirmed.max(batch);
        while let Some((_, known)) = self.unacknowledged.front().copied().filter(|(it, _)| *it <= batch) {
            self.known = self.known.max(known);
            self.unacknowledged.pop_front();
        }
        while self.held.front().is_some_and(|(waits_for, _)| *waits_for <= batch) {
            self.free.extend(self.held.pop_front().map(|(_, output)| output));
        }
    }

    /// Whether all replicas have all batches up to this one.
    pub(super) fn has_confirmed(&self, batch: u64) -> bool {
        batch <= self.confirmed
    }

    /// The next output that need not wait, of those that the shard says now and of those that have waited.
    pub(super) fn poll(&mut self, outputs: &mut VecDeque<Output>) -> Option<Output> {
        while let Some(output) = outputs.pop_front() {
            if !self.waits(&output) {
                return Some(output);
            }
            self.held.push_back((self.taken + 1, output));
        }
        self.free.pop_front()
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// What waits, in the order in which it leaves.
    pub(super) fn held(&self) -> impl ExactSizeIterator<Item = &Output> {
        self.held.iter().map(|(_, output)| output)
    }

    /// Up to where the replicas were told that timestamps may be used.
    pub(super) fn told(&self) -> Timestamp {
        self.told
    }

    /// Up to where all replicas know that timestamps may be used (S17).
    pub(super) fn known(&self) -> Timestamp {
        self.known
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        assert!(self.held.iter().is_sorted_by_key(|(batch, _)| *batch), "outputs wait out of order");
        assert!(self.known <= self.told, "replicas know of more timestamps than they were told");
    }
}

/// What is to be told of a decision.
pub(super) fn changes_of(
    attempt: AttemptId,
    decided: &Decided,
    listed: Option<&Participants>,
) -> impl Iterator<Item = Change> + use<> {
    let (is_applied, replies, at, is_late) = match decided {
        Decided::Applied { replies, at, is_unacknowledged } => {
            (true, replies.clone(), *at, *is_unacknowledged)
        }
        Decided::Refused(_) => (false, None, None, false),
    };
    let listed = listed.filter(|listed| listed.len() > 1).cloned();
    let late = (is_late && !is_planted(Bug::LateAnswersForgotten)).then_some(Change::AnsweredLate(attempt));
    std::iter::once(Change::Decided { attempt, is_applied, replies, listed, at }).chain(late)
}

/// Up to where the replicas are told that timestamps may be used, in time before they are (S17).
fn told_after(told: Timestamp, used: Timestamp, now: Time, ahead_us: u64) -> Timestamp {
    // Not ahead of what is ahead of the time already: or each promotion would come further.
    let next = used.max(Timestamp(now.plus(ahead_us).0));
    let half = ahead_us / 2;
    let is_soon = used.0.saturating_add(half) > told.0 && next.0 > told.0.saturating_add(half);
    if used > told || used > Timestamp::default() && is_soon { next } else { told }
}
