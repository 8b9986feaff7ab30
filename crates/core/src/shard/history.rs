//! What a shard remembers of a session's transactions that are over (R14, traps 2, 6, 7, 19).
//!
//! A decision is kept until the session's floor passes it; the coordinator raises the floor only over
//! transactions that every participant has acknowledged. Below the floor everything is refused, never taken
//! for new.
//!
//! Invariant: nothing at or above the floor is forgotten; nothing below it is kept.

use std::collections::{BTreeMap, BTreeSet};

use claret_types::Reply;

use crate::ids::{CallNo, Sequence};
use crate::message::Refusal;

/// The end of an attempt at this shard.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    Applied { replies: Vec<(CallNo, Reply)> },
    Refused(Refusal),
}

/// One session's past and present.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) floor: Sequence,
    pub(crate) connection: u32,
    pub(crate) decided: BTreeMap<(Sequence, u32), Decided>,
    /// Attempts that are here and not decided.
    pub(crate) open: BTreeSet<(Sequence, u32)>,
}

impl Default for History {
    fn default() -> Self {
        History { floor: Sequence(0), connection: 0, decided: BTreeMap::new(), open: BTreeSet::new() }
    }
}

impl History {
    /// Whether nothing of the session is known.
    pub(crate) fn is_fresh(&self) -> bool {
        self.floor == Sequence(0) && self.connection == 0 && self.decided.is_empty() && self.open.is_empty()
    }

    /// Raises the floor. O(what is forgotten).
    pub(crate) fn raise(&mut self, floor: Sequence) {
        if floor > self.floor {
            self.floor = floor;
            self.decided = self.decided.split_off(&(floor, 0));
        }
    }
}
