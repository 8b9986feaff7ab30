//! What a shard says: outputs that wait for the host, or, in a shard with replicas, for these ([`Replication`]).

use std::collections::VecDeque;

use super::history::Decided;
use super::replication::Replication;
use crate::backup::Change;
use crate::ids::{AttemptId, SessionId, ShardId, Timestamp};
use crate::message::{Listed, Output, Participants, PeerMessage, Response};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    /// Who speaks.
    id: ShardId,
    waiting: VecDeque<Output>,
    /// What its replicas have to know, if it has any.
    replication: Option<Box<Replication>>,
}

impl Outputs {
    pub(super) fn of(id: ShardId) -> Self {
        Outputs { id, waiting: VecDeque::new(), replication: None }
    }

    // --- to clients ---

    /// Answers whoever began an attempt.
    pub(super) fn respond(&mut self, attempt: AttemptId, response: Response) {
        self.respond_to(attempt.tx.session, response);
    }

    /// Answers whoever asks.
    pub(super) fn respond_to(&mut self, session: SessionId, response: Response) {
        self.waiting.push_back(Output::Respond { session, response });
    }

    // --- to other shards ---

    pub(super) fn tell(&mut self, shard: ShardId, message: PeerMessage) {
        self.waiting.push_back(Output::Tell { shard, message });
    }

    /// Asks all other participants what they have written.
    pub(super) fn inquire(&mut self, attempt: AttemptId, listed: &[Listed]) {
        let from = self.id;
        for listed in listed.iter().filter(|listed| listed.shard != from) {
            self.tell(listed.shard, PeerMessage::Inquire { attempt, from, listed: listed.incarnation });
        }
    }

    // --- to the host ---

    /// The next output that need not wait.
    pub(super) fn poll(&mut self) -> Option<Output> {
        match &mut self.replication {
            None => self.waiting.pop_front(), // Mostly.
            Some(replication) => replication.poll(&mut self.waiting),
        }
    }

    /// Whether there may be a next output.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        !self.waiting.is_empty()
            || self.replication.as_ref().is_some_and(|replication| replication.has_free())
    }

    /// Another life begins: what was not said is lost.
    pub(super) fn drop_all(&mut self) {
        self.waiting.clear();
    }

    // --- to replicas ---

    /// From now on there are replicas.
    pub(super) fn replicate(&mut self) -> &mut Replication {
        self.replication.get_or_insert_default()
    }

    #[inline]
    pub(super) fn is_replicated(&self) -> bool {
        self.replication.is_some()
    }

    pub(super) fn replication(&self) -> Option<&Replication> {
        self.replication.as_deref()
    }

    pub(super) fn replication_mut(&mut self) -> Option<&mut Replication> {
        self.replication.as_deref_mut()
    }

    /// Up to where timestamps may be used, as whoever is promoted is going to believe.
    pub(super) fn told_used(&self) -> Timestamp {
        self.replication().map_or_else(Timestamp::default, Replication::told)
    }

    /// Tells the replicas, if there are any.
    #[inline]
    pub(super) fn tell_replicas(&mut self, change: impl FnOnce() -> Option<Change>) {
        if let Some(replication) = &mut self.replication {
            replication.note(change());
        }
    }

    /// How an attempt ended, as far as that has to outlive the shard (S3).
    pub(super) fn tell_end(
        &mut self,
        attempt: AttemptId,
        had_voted: bool,
        decided: &Decided,
        listed: Option<&Participants>,
    ) {
        if let Some(replication) = &mut self.replication {
            replication.note_end(attempt, had_voted, decided, listed);
        }
    }
}

/// For tests.
impl Outputs {
    /// What influences what comes next, for a digest.
    pub(super) fn content(&self) -> impl std::fmt::Debug + use<'_> {
        let Outputs { id: _, waiting, replication } = self;
        (waiting, replication)
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        if let Some(replication) = &self.replication {
            replication.check();
        }
    }
}
