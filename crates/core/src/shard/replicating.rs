//! A shard with replicas (`docs/replication.md`): what it tells them, what waits for them, and how one of them goes on as
//! the shard.
//!
//! What a shard says that counts (S2) leaves when every replica holds all that the shard had written by then. The host sends
//! [`Shard::poll_changes`] to the replicas, a batch at a time, and says with [`Shard::replicated`] up to which batch all of them
//! have it. Even where nothing was written there is a batch, an empty one: that all replicas answer it shows that none of them has
//! been promoted (S5).

use std::collections::VecDeque;

use claret_types::Bytes;

use super::history::Remembered;
use super::participant::{Participant, Round, Stage};
use super::{
    AttemptId, Decided, Incarnation, Limits, Output, Participants, PeerMessage, Refusal, Response, SessionId,
    Shard, Switches, Time, rules,
};
use crate::backup::{Backup, Change, Changes, Known, Vote};
use crate::message::Asks;
use crate::records::Records;

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
    /// What the host wants whoever is promoted to know.
    of_host: Bytes,
}

/// Whether an output may be believed only if the shard's replicas have what it had written: all but what is asked, and what
/// is said of locks, which counts only with a vote (S2).
fn counts(output: &Output) -> bool {
    match output {
        Output::Respond { response, .. } => !matches!(
            response,
            Response::Granted { .. }
                | Response::Queued { .. }
                | Response::Busy { .. }
                | Response::Elder { .. }
                | Response::Behind { .. }
        ),
        Output::Tell { message, .. } => matches!(message, PeerMessage::Answer { .. }),
    }
}

impl Shard {
    /// From now on changes are told, and what counts waits for [`Self::replicated`]. All that there is comes with the next batch, also
    /// if it was told before: a replica may have come that knows nothing of it.
    pub fn replicate(&mut self) {
        let changes = self.all_changes().collect();
        let replication = self.replication.get_or_insert_default();
        replication.changes = changes;
    }

    /// Whether it has replicas for which it waits.
    pub fn is_replicated(&self) -> bool {
        self.replication.is_some()
    }

    /// The next batch for the replicas, and its number; `None` if nothing was written and nothing waits for an answer of theirs.
    pub fn poll_changes(&mut self) -> Option<(u64, Changes)> {
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
        let replication = self.replication.as_mut()?;
        replication.asked = replication.taken + 1;
        Some(replication.asked)
    }

    /// What the host wants whoever is promoted to know ([`Backup::of_host`]), instead of what it wanted before. Whether replicas have
    /// to hear of it.
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
        while replication.held.front().is_some_and(|(waits_for, _)| *waits_for <= batch) {
            replication.free.extend(replication.held.pop_front().map(|(_, output)| output));
        }
    }

    /// Whether its replicas have all that it has written, if it has any. Until then no record may go to another shard (S16).
    pub fn is_confirmed(&self) -> bool {
        let is_confirmed = |it: &Replication| it.changes.is_empty() && it.confirmed == it.taken;
        self.replication.as_deref().is_none_or(is_confirmed)
    }

    /// How much waits for the replicas.
    pub fn unreplicated(&self) -> usize {
        self.replication.as_ref().map_or(0, |replication| replication.held.len())
    }

    /// The next output that need not wait.
    pub(super) fn poll_free_output(&mut self) -> Option<Output> {
        let replication = self.replication.as_mut()?;
        while let Some(output) = self.outputs.pop_front() {
            if !rules::waits_for_replicas(counts(&output)) {
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

    fn vote_of(&self, attempt: AttemptId) -> Option<Vote> {
        let participant = self.attempts.get(&attempt)?;
        let Stage::Prepared { round, .. } = &participant.stage else { return None };
        Some(Vote {
            attempt,
            birth: participant.owner.birth,
            participants: round.participants.clone(),
            members: round.members.clone(),
            replies: participant.voted_replies(),
            account: participant.account,
            bytes: participant.bytes as u64,
            held: participant.held.iter().filter_map(|it| self.table.held_by(*it, attempt)).collect(),
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
        let votes = voted.into_iter().filter_map(|attempt| self.vote_of(attempt));
        let votes = votes.map(|vote| Change::Voted(Box::new(vote)));
        let of_host = self.replication.as_ref().map(|replication| replication.of_host.clone());
        let of_host = of_host.filter(|note| !note.is_empty()).map(Change::OfHost);
        [began, incarnation].into_iter().chain(of_host).chain(sessions).chain(votes)
    }

    /// A replica goes on as its shard, in another incarnation, over the records that came with the changes: external ones, or none
    /// yet ([`Self::load`]). What had voted holds its locks again before anybody else gets in. `None`: the backup is of no shard.
    ///
    /// The incarnation must be larger than [`Backup::incarnation`], by more than the shard can have gone on without being heard of.
    pub fn promote(
        backup: Backup,
        records: Option<&'static dyn Records>,
        now: Time,
        incarnation: Incarnation,
        switches: Switches,
        limits: Limits,
    ) -> Option<Shard> {
        let (id, since) = backup.of?;
        let heard_of = backup.incarnation.unwrap_or(since);
        let incarnation = rules::incarnation_after(heard_of, incarnation);
        let mut shard = match records {
            Some(records) => Shard::over(records, id, incarnation, switches, limits),
            None => Shard::new(id, incarnation, switches, limits),
        };
        shard.remembers_since = since;
        for (session, known) in backup.sessions {
            shard.restore_session(now, session, known);
        }
        for vote in backup.votes.into_values().filter(rules::is_restored) {
            shard.restore_vote(now, vote);
        }
        shard.end_with_their_records(now);
        Some(shard)
    }

    fn restore_session(&mut self, now: Time, session: SessionId, known: Known) {
        let answers_bytes_max = self.limits.answers_bytes_max;
        let history = self.sessions.entry(session).or_default();
        (history.account, history.since) = (known.account, known.since);
        history.raise(known.low_water);
        for (place, it) in known.decided.into_iter().filter(|(_, it)| rules::restores(it.is_applied)) {
            let decided = match it.is_applied {
                true => Decided::Applied { replies: it.replies, at: None },
                false => Decided::Refused(Refusal::Unknown),
            };
            history.decide(place, Remembered { decided, listed: it.listed }, answers_bytes_max);
        }
        let (account, bytes) = (history.account, history.bytes());
        self.recount(account, 0, bytes);
        // Whoever comes again is greeted again; whoever does not is forgotten in time.
        self.departed.note_stranger(now, session);
    }

    fn restore_vote(&mut self, now: Time, vote: Vote) {
        let Vote { attempt, birth, participants, members, replies, account, bytes, held } = vote;
        let owner = super::Owner { attempt, birth };
        let mut participant = Participant::new(owner, account, self.incarnation);
        for record in held {
            participant.held.push(self.table.hold_again(owner, record));
        }
        let orders = false;
        let round = Round { participants, members, asks: Asks::Vote, orders, replies_before: 0 };
        participant.replies = replies;
        participant.bytes = bytes as usize;
        participant.stage =
            Stage::Prepared { round, place: None, answers: smallvec::SmallVec::new(), asked_us: 0 };
        self.recount(account, 0, participant.bytes);
        for record in participant.held.clone() {
            // One whose time was over has ended, and the vote comes before that.
            let _ = self.table.hold_ends(&[record], attempt);
        }
        let place = (attempt.tx.sequence, attempt.attempt);
        self.sessions.entry(attempt.tx.session).or_default().open(place);
        self.attempts.insert(attempt, Box::new(participant));
        self.renew(now, attempt);
    }

    /// Whether an attempt asks for what a shard with replicas does not have: a place in an order (S8).
    pub(super) fn is_stamped_in_vain(&self, asks: Asks) -> bool {
        self.replication.is_some() && matches!(asks, Asks::Place(_))
    }
}

fn change_of(attempt: AttemptId, decided: &Decided, listed: Option<&Participants>) -> Change {
    let (is_applied, replies) = match decided {
        Decided::Applied { replies, .. } => (true, replies.clone()),
        Decided::Refused(_) => (false, None),
    };
    let listed = listed.filter(|listed| listed.len() > 1).cloned();
    Change::Decided { attempt, is_applied, replies, listed }
}
