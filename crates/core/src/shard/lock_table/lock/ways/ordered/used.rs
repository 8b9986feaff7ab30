//! What calls may use of a record, which its clocks are of (P73).

use claret_types::{Claims, Draw, Operation};

use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::footprint::footprint;
use crate::switches::Switches;

/// What somebody may use of a record in any state (P73): claims of the moment say what commutes in one state, and a timestamp
/// may put their owner into another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::shard::lock_table) struct Used {
    /// A bit for each mode.
    pub(in crate::shard::lock_table) modes: u16,
    /// That two fit may be owed to somebody between them.
    pub(in crate::shard::lock_table) draws: bool,
    /// It draws little where the bounds are far (P82): that it fits may be owed to one of the others that draw, alone.
    pub(in crate::shard::lock_table) draws_little: bool,
}

impl Used {
    /// What a call may use in any state.
    pub(in crate::shard::lock_table::lock) fn by(switches: &Switches, call: &Call, expires: bool) -> Self {
        let mut used = Used::default();
        let is_plain = switches.discipline().is_abstract() && !expires && call.reserve.is_none();
        match call.op.footprint_modes().filter(|_| is_plain) {
            Some(modes) => used.modes = modes,
            None => used.add(&footprint(switches, call, expires)),
        }
        used
    }

    pub(in crate::shard::lock_table::lock) fn join(&mut self, other: Used) {
        self.modes |= other.modes;
        self.draws |= other.draws;
        self.draws_little |= other.draws_little;
    }

    /// What a call claims in order.
    pub(in crate::shard::lock_table::lock) fn add_in_order(&mut self, claims: &Claims) {
        self.add_modes(claims);
        self.draws_little |= claims.draw != Draw::default();
    }

    pub(in crate::shard::lock_table::lock) fn add(&mut self, claims: &Claims) {
        self.add_modes(claims);
        // The order of those who draw counts among each other, too.
        self.draws |= claims.draw != Draw::default() && !is_planted(Bug::DrawsUnordered);
    }

    fn add_modes(&mut self, claims: &Claims) {
        self.modes |= claims.list.iter().fold(0, |bits, claim| bits | 1 << claim.mode.0);
    }
}

/// What an operation may use of a record in any state.
pub(in crate::shard::lock_table) fn used_by(op: &Operation) -> Used {
    let mut used = Used::default();
    used.add(&op.footprint_with_expiry());
    used
}
