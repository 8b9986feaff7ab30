//! A shard with replicas (`docs/replication.md`): what it tells them, and what waits for them. `promoting.rs` says how one of them
//! goes on as the shard.
//!
//! What a shard says that counts (S2) leaves when every replica holds all that the shard had written by then. The host sends
//! [`Shard::poll_changes`] to the replicas, a batch at a time, and says with [`Shard::replicated`] up to which batch all of them
//! have it. Even where nothing was written there is a batch, an empty one: that all replicas answer it shows that none of them has
//! been promoted (S5).

use std::collections::VecDeque;

use claret_types::Bytes;

use super::participant::{Place, Said, Stage};
use super::{AttemptId, Decided, Output, Participants, PeerMessage, RecordIx, Refusal, Response, Shard};
use crate::backup::{Change, Changes, Vote, VotedAnswers, VotedPlace};
use crate::ids::{Time, Timestamp};
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
    /// Up to where the replicas were told that timestamps may be used, and up to where all of them know.
    told: Timestamp,
    known: Timestamp,
    /// What they do not all know yet, and the batches that tell it. In order.
    untold: VecDeque<(u64, Timestamp)>,
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
            PeerMessage::Answer { .. } | PeerMessage::Baton { .. } => Leaves::Counts,
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
}

impl Shard {
    /// From now on changes are told, and what counts waits for [`Self::replicated`]. All that there is comes with the next batch, also
    /// if it was told before: a replica may have come that knows nothing of it.
    pub fn replicate(&mut self) {
        self.replication.get_or_insert_default();
        self.tell_used();
        let changes = self.all_changes().collect();
        let replication = self.replication.get_or_insert_default();
        replication.changes = changes;
        // The newcomer does not know it yet.
        let (told, batch) = (replication.told, replication.taken + 1);
        replication.known = Timestamp::default();
        replication.untold = std::iter::once((batch, told)).collect();
    }

    /// Whether it has replicas for which it waits.
    pub fn is_replicated(&self) -> bool {
        self.replication.is_some()
    }

    /// The next batch for the replicas, and its number; `None` if nothing was written and nothing waits for an answer of theirs.
    pub fn poll_changes(&mut self) -> Option<(u64, Changes)> {
        self.tell_used();
        let replication = self.replication.as_mut()?;
        let is_awaited = replication.held.back().is_some_and(|(batch, _)| *batch > replication.taken)
            || replication.asked > replication.taken;
        if replication.changes.is_empty() && !is_awaited {
            return None;
        }
        replication.taken += 1;
        Some((replication.taken, std::mem::take(&mut replication.changes)))
    }

    /// What is written here now counts when the replicas have the batch of this number, which is going to be there, if only an empty one
    /// (S5): for what the host itself tells. `None`: nothing has to wait.
    pub fn ask_replicas(&mut self) -> Option<u64> {
        self.tell_used();
        let replication = self.replication.as_mut()?;
        replication.asked = replication.taken + 1;
        Some(replication.asked)
    }

    /// What the host wants whoever is promoted to know ([`Backup::of_host`](crate::Backup::of_host)), instead of what it wanted before.
    /// Whether replicas have to hear of it.
    pub fn note_of_host(&mut self, note: Bytes) -> bool {
        let Some(replication) = self.replication.as_mut().filter(|it| it.of_host != note) else {
            return false;
        };
        replication.of_host = note.clone();
        replication.changes.push(Change::OfHost(note));
        true
    }

    /// Whether all replicas have all batches up to this one; without replicas nothing has to wait.
    pub fn is_replicated_to(&self, batch: u64) -> bool {
        self.replication.as_ref().is_none_or(|replication| batch <= replication.confirmed)
    }

    /// All replicas have all batches up to this one.
    pub fn replicated(&mut self, batch: u64) {
        let Some(replication) = &mut self.replication else { return };
        replication.confirmed = replication.confirmed.max(batch);
        while let Some((_, known)) = replication.untold.front().copied().filter(|(it, _)| *it <= batch) {
            replication.known = replication.known.max(known);
            replication.untold.pop_front();
        }
        while replication.held.front().is_some_and(|(waits_for, _)| *waits_for <= batch) {
            replication.free.extend(replication.held.pop_front().map(|(_, output)| output));
        }
    }

    /// How much waits for the replicas.
    pub fn unreplicated(&self) -> usize {
        self.replication.as_ref().map_or(0, |replication| replication.held.len())
    }

    /// What waits for the replicas, from such a place on, in the order in which it leaves.
    pub fn waiting_outputs(&self, from: usize) -> impl Iterator<Item = &Output> {
        let held = self.replication.iter().flat_map(|replication| &replication.held);
        held.skip(from).map(|(_, output)| output)
    }

    /// The shard's clock as far as it survives its host: up to where all replicas know that timestamps may be used (S17).
    pub fn clock_for_certain(&self) -> Timestamp {
        self.replication.as_ref().map_or(self.clock, |replication| self.clock.min(replication.known))
    }

    /// Tells the replicas that more timestamps may be used, before all are of which they know (S17).
    pub(super) fn tell_used(&mut self) {
        let used = self.hand_over();
        let Some(replication) = &mut self.replication else { return };
        let told = told_after(replication.told, used, self.latest, self.limits.told_ahead_us);
        if told > replication.told {
            replication.told = told;
            replication.untold.push_back((replication.taken + 1, told));
            replication.changes.extend((!is_planted(Bug::UsedUntold)).then_some(Change::Used(told)));
        }
    }

    /// Up to where timestamps may be used, as whoever is promoted is going to believe.
    pub(super) fn told_used(&self) -> Timestamp {
        self.replication.as_ref().map_or_else(Timestamp::default, |replication| replication.told)
    }

    /// The next output that need not wait.
    pub(super) fn poll_free_output(&mut self) -> Option<Output> {
        self.tell_used();
        let replication = self.replication.as_mut()?;
        while let Some(output) = self.outputs.pop_front() {
            if !replication.waits(&output) {
                return Some(output);
            }
            replication.held.push_back((replication.taken + 1, output));
        }
        replication.free.pop_front()
    }

    pub(super) fn has_free_output(&self) -> bool {
        self.replication.as_ref().is_some_and(|replication| !replication.free.is_empty())
    }

    /// Tells the replicas.
    #[inline]
    pub(super) fn tell_replicas(&mut self, change: impl FnOnce(&Self) -> Option<Change>) {
        if self.replication.is_none() {
            return; // Mostly.
        }
        let change = change(self);
        if let Some(replication) = &mut self.replication {
            replication.changes.extend(change);
        }
    }

    /// How an attempt ended, as far as that has to outlive the shard (S3): a no need not.
    pub(super) fn tell_end(
        &mut self,
        attempt: AttemptId,
        had_voted: bool,
        decided: &Decided,
        listed: Option<&Participants>,
    ) {
        if let Some(replication) = &mut self.replication {
            replication.leave_out(attempt);
        }
        self.tell_replicas(|_| match decided {
            Decided::Applied { .. } => Some(change_of(attempt, decided, listed)),
            Decided::Refused(Refusal::Unknown) if listed.is_some() => {
                Some(change_of(attempt, decided, listed))
            }
            Decided::Refused(_) => had_voted.then_some(Change::Dropped(attempt)),
        });
    }

    /// The yes that an attempt has just written.
    pub(super) fn tell_vote(&mut self, attempt: AttemptId) {
        self.tell_replicas(|shard| shard.vote_of(attempt).map(|vote| Change::Voted(Box::new(vote))));
    }

    /// The final timestamp of an attempt, which has just got it.
    pub(super) fn tell_place(&mut self, attempt: AttemptId, voted: Timestamp, at: Timestamp) {
        let at = if is_planted(Bug::FinalToldAsVoted) { voted } else { at };
        self.tell_replicas(|_| Some(Change::Placed { attempt, at }));
    }

    /// An attempt was carried out on a record that had vanished: those who stand behind it see that.
    pub(super) fn tell_seen(&mut self, record: RecordIx) {
        self.tell_replicas(|shard| {
            let (key, seen) = shard.table.seen_of(record)?;
            Some(Change::Vanished { key, seen })
        });
    }

    fn vote_of(&self, attempt: AttemptId) -> Option<Vote> {
        let participant = self.attempts.get(&attempt)?;
        let round = match &participant.stage {
            Stage::Open | Stage::Preparing(_) => return None,
            Stage::Prepared { round, .. } | Stage::Placed { round, .. } => round,
        };
        let place = participant.place().map(|Place { at, behind, said }| VotedPlace {
            at,
            behind,
            answers: match said {
                Said::All => VotedAnswers::All,
                Said::Tentative { locked } => VotedAnswers::Tentative((locked - round.replies_before) as u32),
                Said::Nothing => VotedAnswers::Later,
            },
        });
        Some(Vote {
            attempt,
            birth: participant.owner.birth,
            participants: round.participants.clone(),
            members: round.members.clone(),
            replies: participant.voted_replies(),
            account: participant.account,
            bytes: participant.bytes as u64,
            held: participant.held.iter().filter_map(|it| self.table.held_by(*it, attempt)).collect(),
            place,
        })
    }

    /// All that a replica has to know, as changes.
    pub fn all_changes(&self) -> impl Iterator<Item = Change> + '_ {
        let began = Change::Began { shard: self.id, since: self.remembers_since };
        let highest = self.sessions.values().filter_map(|history| history.met_as).max();
        let incarnation =
            Change::Incarnation(highest.map_or(self.incarnation, |it| it.max(self.incarnation)));
        let sessions = self.sessions.iter().flat_map(|(session, history)| {
            let session = *session;
            let (account, since, low_water) = (history.account, history.since, history.low_water);
            let told = [Change::Greeted { session, account, since }, Change::Passed { session, low_water }];
            let mut after = std::ops::Bound::Unbounded;
            let decided = std::iter::from_fn(move || {
                let (place, entry) = history.next_over(after)?;
                after = std::ops::Bound::Excluded(place);
                Some((place, entry))
            });
            let decided = decided.filter(|(_, entry)| entry.outlives());
            let decided = decided.map(move |((sequence, attempt), entry)| {
                let attempt = AttemptId { tx: crate::ids::TxId { session, sequence }, attempt };
                change_of(attempt, &entry.decided, entry.listed.as_ref())
            });
            told.into_iter().chain(decided)
        });
        let mut voted: Vec<AttemptId> = Vec::new();
        // In any order: sorted.
        for (attempt, participant) in &self.attempts {
            if participant.is_prepared() {
                voted.push(*attempt);
            }
        }
        voted.sort_unstable();
        let votes = voted.iter().copied().filter_map(|attempt| self.vote_of(attempt));
        let votes: Vec<Change> = votes.map(|vote| Change::Voted(Box::new(vote))).collect();
        let placed = voted.into_iter().filter_map(|attempt| {
            let at = self.placed_at(attempt)?;
            Some(Change::Placed { attempt, at })
        });
        let seen = self.table.all_seen().map(|(key, seen)| Change::Vanished { key, seen: Some(seen) });
        let used = self.told_used();
        let is_told = used > Timestamp::default() && !is_planted(Bug::UsedUntold);
        let used = is_told.then_some(Change::Used(used));
        let ordered = placed.chain(seen).chain(used);
        let of_host = self.replication.as_ref().map(|replication| replication.of_host.clone());
        let of_host = of_host.filter(|note| !note.is_empty()).map(Change::OfHost);
        [began, incarnation].into_iter().chain(of_host).chain(sessions).chain(votes).chain(ordered)
    }
}

fn change_of(attempt: AttemptId, decided: &Decided, listed: Option<&Participants>) -> Change {
    let (is_applied, replies, at) = match decided {
        Decided::Applied { replies, at, .. } => (true, replies.clone(), *at),
        Decided::Refused(_) => (false, None, None),
    };
    let listed = listed.filter(|listed| listed.len() > 1).cloned();
    Change::Decided { attempt, is_applied, replies, listed, at }
}

/// Up to where the replicas are told that timestamps may be used, in time before they are (S17).
fn told_after(told: Timestamp, used: Timestamp, now: Time, ahead_us: u64) -> Timestamp {
    // Not ahead of what is ahead of the time already: or each promotion would come further.
    let next = used.max(Timestamp(now.plus(ahead_us).0));
    let half = ahead_us / 2;
    let is_soon = used.0.saturating_add(half) > told.0 && next.0 > told.0.saturating_add(half);
    if used > told || used > Timestamp::default() && is_soon { next } else { told }
}
