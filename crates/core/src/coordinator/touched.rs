//! What an attempt has executed: for its restart, which takes all of it at first touch (trap 12), and for its user, whose
//! next transaction must not wait for this one.

use claret_types::{Bytes, Claims, Operation};

use super::reserves::{add_modes, state_free};
use super::{Coordinator, Frontend, TxHandle};
use crate::ids::{CallNo, Member, ShardId};

/// An operation that was sent to be executed, or goes with one.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    pub(super) no: CallNo,
    /// Where it was sent.
    pub(super) shard: ShardId,
    pub(super) is_undone: bool,
    /// Its user acted on what it answered, or something behind it did, before it was undone.
    pub(super) was_heard: bool,
    pub(super) key: Bytes,
    pub(super) op: Operation,
    pub(super) member: Member,
    /// What is claimed besides its own claims.
    pub(super) reserve: Option<Box<Claims>>,
}

impl Coordinator {
    /// Whether an operation of another transaction conflicts with what this attempt holds, or waits for, whatever the
    /// state of the record. Such an operation may wait until this attempt is over. Draws are not compared, for whether
    /// they fit depends on the state. O(operations that were executed).
    pub fn conflicts_with(&self, key: &Bytes, op: &Operation) -> bool {
        self.member_conflicts_with(Member(0), key, op)
    }

    fn member_conflicts_with(&self, member: Member, key: &Bytes, op: &Operation) -> bool {
        if self.is_idle() {
            return false; // It holds nothing any more.
        }
        let (kind, claims) = (op.type_info(), state_free(self.switches.locks, op));
        let own = self.touched.iter().filter(|it| it.member == member && it.key == *key);
        own.into_iter().any(|it| {
            let mut held = state_free(self.switches.locks, &it.op);
            if let Some(reserve) = &it.reserve {
                add_modes(&mut held, reserve);
            }
            // Modes of two types do not mix, unless they are those of records of any type (P14).
            kind.common_modes(it.op.type_info()).is_none_or(|modes| held.conflict_with(&claims, modes))
        })
    }
}

impl Frontend {
    /// [`Coordinator::conflicts_with`] for what a transaction has executed itself, not its mates.
    pub(crate) fn conflicts_with(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        let place = self.txs.get(&tx).and_then(|it| it.place);
        place.is_some_and(|(at, member)| self.groups[at].coordinator.member_conflicts_with(member, key, op))
    }
}
