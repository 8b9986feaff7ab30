//! What a coordinator does only for a combined group (C9 to C14): members that leave, and the little that the
//! frontend must know. The frontend decides who is a member.

use claret_types::{Bytes, Operation};

use super::touched::Touched;
use super::{Closed, Coordinator, State};
use crate::ids::{CallNo, Member, ShardId, Time};
use crate::message::Members;

impl Coordinator {
    /// A member leaves before the prepare: nothing of it counts any more. What it asked for and was not
    /// granted is given up with the prepare, which names the members that stay.
    pub(super) fn leave(&mut self, member: Member) {
        if !self.is_running() {
            return; // Its prepare has left, or it is over: who is a member is settled.
        }
        self.buffered.retain(|(_, buffered)| buffered.call.member != member);
        for it in self.outstanding.iter_mut() {
            it.stale |= it.is_of(member);
        }
    }

    /// What nobody waits for any more is not under way.
    pub(super) fn forget_stale(&mut self) {
        if self.outstanding.iter().all(|it| !it.stale) {
            return;
        }
        self.outstanding.retain(|it| !it.stale);
        self.recount_outstanding();
    }

    /// What participants have not answered follows from the list.
    pub(super) fn recount_outstanding(&mut self) {
        for participant in &mut self.participants {
            let here = || self.outstanding.iter().filter(|it| it.shard == participant.shard);
            participant.outstanding = here().count();
            let waits = here().filter(|it| it.began_with < participant.waiting_below);
            participant.waiting = waits.count();
        }
    }

    /// Starts the commit of those who are members now.
    pub(super) fn commit_for(&mut self, now: Time, members: Members, hot: &[ShardId]) -> Result<(), Closed> {
        self.check_open()?;
        self.members = members;
        self.commit_open(now, hot)
    }

    /// The transaction goes on elsewhere, as a member of another group, or has not begun here: it may come back by
    /// [`Self::restart_after`]. Nothing was sent.
    pub(super) fn park(&mut self) {
        self.state = State::Idle { again: true };
    }

    /// Restarts a transaction whose last attempt used these operations, not those that this coordinator saw:
    /// it was a member of a group (trap 12).
    pub(super) fn restart_after(&mut self, used: Vec<(Bytes, Operation)>) -> Result<(), Closed> {
        if self.state != (State::Idle { again: true }) {
            return Err(Closed);
        }
        self.buffered.clear();
        let (no, shard) = (CallNo(0), ShardId(0)); // Of an attempt that is over.
        let touched = |(key, op)| Touched {
            no,
            shard,
            is_undone: false,
            was_heard: false,
            key,
            op,
            member: Member(0),
            reserve: None,
        };
        self.touched = used.into_iter().map(touched).collect();
        self.begin_next();
        Ok(())
    }

    /// Whether calls of a member are sent and not answered.
    pub(super) fn awaits_answers_of(&self, member: Member) -> bool {
        self.outstanding.iter().any(|it| it.is_of(member))
    }

    /// Whether a call of another member on this record is sent and not answered. An attempt waits at most once
    /// on one record, so the next call must not follow yet.
    pub(super) fn is_awaited_by_other(&self, member: Member, key: &Bytes) -> bool {
        self.outstanding.of_key(key).into_iter().any(|at| !self.outstanding.at(at).is_of(member))
    }

    /// Whether nothing was ever sent in this attempt.
    pub(super) fn is_untouched(&self) -> bool {
        self.participants.is_empty()
    }

    /// Whether it waits for somebody else at a shard, as far as it has heard.
    pub fn is_blocked(&self) -> bool {
        self.may_give_way()
    }

    /// When the eldest began that waits for what this attempt holds.
    pub(super) fn waiting_elder(&self) -> Option<Time> {
        self.elder
    }
}
