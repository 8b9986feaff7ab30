//! What an attempt waits for: its user asks when the deadline has passed.

use claret_types::Bytes;

use super::{Coordinator, Frontend, State, TxHandle};
use crate::ids::{AttemptId, Member, ShardId, Time};

/// That an attempt waits for others, as far as it has heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Under which the shards know it.
    pub attempt: AttemptId,
    /// Since when.
    pub since: Time,
    /// The records of the calls that shards said wait, each once, with its shard. Of a commit, all that it asked of such a
    /// shard: one of them is what it waits for.
    pub records: Vec<(ShardId, Bytes)>,
}

impl Coordinator {
    /// What it waits for; `None`: it does not, as far as it has heard. O(calls that are not answered, or commit).
    pub fn waits(&self) -> Option<Waits> {
        self.waits_of(Member(0))
    }

    fn waits_of(&self, member: Member) -> Option<Waits> {
        let since = self.blocked_since?;
        let is_blocked = |shard: ShardId| {
            let participant = self.participants.iter().find(|participant| participant.shard == shard);
            participant.is_some_and(|it| match self.state {
                State::Running => it.waiting > 0,
                State::Preparing | State::Withdrawing(_) => it.queued && it.vote.is_none(),
                State::Committed | State::Idle { .. } => false,
            })
        };
        let mut records = Vec::new();
        let mut note = |shard: ShardId, key: &Bytes| {
            if is_blocked(shard) && !records.iter().any(|(_, known)| known == key) {
                records.push((shard, key.clone()));
            }
        };
        if self.state == State::Running {
            let sent = self.outstanding.iter().filter(|it| !it.stale && !it.is_kept_back && it.is_of(member));
            sent.for_each(|it| note(it.shard, &it.key));
        } else {
            self.buffered.iter().for_each(|(shard, it)| note(*shard, &it.key));
        }
        Some(Waits { attempt: self.attempt(), since, records })
    }
}

impl Frontend {
    /// [`Coordinator::waits`] of a transaction: what itself waits for, or the commit of its group.
    pub(crate) fn waits(&self, tx: TxHandle) -> Option<Waits> {
        let (at, member) = self.txs.get(&tx)?.place?;
        self.groups[at].coordinator.waits_of(member)
    }
}
