//! The lock of one record: the sum of what its holders claim, who they are, and who waits.

use claret_types::{Held, State, TypeInfo};
use indexmap::IndexMap;

use super::line::Line;
use super::{AttemptId, Birth, Clocks, Holder, Owner, Phaser, SessionId};
use crate::planted::{Bug, is_planted};

/// Only a record that somebody holds or waits for has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    /// The type whose modes are held: the first holder's that has modes of its own.
    pub(super) kind: Option<&'static TypeInfo>,
    pub(super) held: Held,
    pub(super) holders: IndexMap<AttemptId, Holder, foldhash::fast::FixedState>,
    /// Nobody who holds the record was born later.
    pub(super) youngest: Option<Birth>,
    /// Somebody was found to claim more than a footprint says, for the record expires: see [`footprint`].
    pub(super) expires: bool,
    /// The record vanished by itself: who holds it still has voted and comes before that, everybody else after (P36).
    pub(super) vanished: bool,
    /// What it held, while somebody is still to be executed on that.
    pub(super) before_it_vanished: Option<State>,
    /// Those who claim it in order.
    pub(super) line: Option<Box<Line>>,
    /// How many of its holders follow others (K16).
    pub(super) followers: usize,
    pub(super) phaser: Phaser,
}

impl Lock {
    /// Whether another process holds some of it, as far as those tell that came first and last.
    pub(super) fn is_held_by_another(&self, session: SessionId) -> bool {
        let mut ends = self.holders.first().into_iter().chain(self.holders.last());
        ends.any(|(attempt, _)| attempt.tx.session != session)
    }

    /// Whether who asks for more of the record is not to wait behind others: it holds some of it (P16).
    #[inline]
    pub(super) fn passes_waiters(&self, owner: Owner) -> bool {
        self.holders.contains_key(&owner.attempt) && !is_planted(Bug::HoldersQueue)
    }

    /// Nobody holds the record any more: whoever comes next is not bound by those who did, and is behind all of them if it vanished
    /// (P86).
    #[inline]
    pub(super) fn reset(&mut self, clocks: &mut Clocks, hash: u64) {
        if self.vanished {
            clocks.seal(hash);
        }
        self.youngest = None;
        self.kind = None;
        // Planted, those who wait are kept out as if somebody was still there.
        self.vanished &= !self.phaser.is_empty() && is_planted(Bug::VanishedWakesNobody);
        self.expires = false;
        self.before_it_vanished = None;
    }

    /// Somebody is granted a call of this type. Until one of a type with modes of its own is, there are none.
    pub(super) fn take_modes_of(&mut self, kind: &'static TypeInfo) {
        if self.kind.is_none_or(TypeInfo::is_of_any) {
            self.kind = Some(kind);
        }
    }

    /// Whether the next record that takes this lock finds nothing of the last one in it.
    pub(super) fn is_blank(&self) -> bool {
        self.kind.is_none()
            && self.held.is_empty()
            && self.holders.is_empty()
            && self.youngest.is_none()
            && !self.vanished
            && !self.expires
            && self.line.is_none()
            && self.before_it_vanished.is_none()
            && self.followers == 0
            && self.phaser.is_quiet()
    }
}
