//! The timestamp queue of a record, its line: who claims it in order, and where each stands (P73 to P77, P80).
//!
//! A record that stands in line does not end by its time: one that expires is not ordered, and nobody sets an expiry beside a line.
//!
//! Claims in order are footprints. They do not conflict with each other: who has voted stands in the line by its timestamp, and
//! is carried out when nobody who conflicts stands before it. Beside locks they are claims like any other.
//!
//! A line is looked through only when somebody in it gets its final place or leaves. Who cannot be carried out then notes itself
//! with the nearest one before it that conflicts, and is looked at again when that one goes. So each is looked at about twice,
//! however long the line is.
//!
//! Invariants (`Lock::check_line`): `claimed` and `partial` are the sums over the calls of all holders in order; who is final and still
//! here is noted with one that stands before it.

use std::collections::BTreeMap;

use claret_types::{Held, Reply};
use smallvec::SmallVec;

use crate::ids::{AttemptId, CallNo, Timestamp};
use crate::message::Call;

/// Where somebody stands.
pub(super) type Place = (Timestamp, AttemptId);

/// Somebody who has voted.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) is_final: bool,
    /// Nobody who conflicts stands before it, nor ever will.
    pub(super) is_ready: bool,
    /// The nearest one before it that conflicts, and goes first.
    pub(super) behind: Option<AttemptId>,
    /// Those who are looked at again when this one goes.
    pub(super) watchers: SmallVec<[AttemptId; 2]>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::shard::lock_table::lock) struct Line {
    pub(super) claimed: Held,
    /// How many of its calls are lasting and not total: they need what they found to stay (P82).
    pub(super) partial: usize,
    pub(super) standing: BTreeMap<Place, Standing>,
}

/// What a holder in order is going to do.
#[derive(Clone, Debug, Default)]
pub(in crate::shard::lock_table::lock) struct InOrder {
    pub(super) calls: SmallVec<[Call; 1]>,
    /// Where it stands, once it has voted.
    pub(super) place: Option<Timestamp>,
    /// Its answers are wanted when it is carried out.
    pub(super) answers: bool,
}

/// What came of carrying out an attempt on a record.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// If they were wanted.
    pub(crate) replies: Vec<(CallNo, Reply)>,
    /// Who stood behind it, to be looked at.
    pub(crate) watchers: SmallVec<[AttemptId; 2]>,
    /// The record had vanished, and others see it changed.
    pub(crate) is_seen: bool,
}

impl Line {
    /// Takes somebody out. Who has to be looked at again.
    pub(super) fn leave(&mut self, place: Place) -> SmallVec<[AttemptId; 2]> {
        self.standing.remove(&place).map(|standing| standing.watchers).unwrap_or_default()
    }

    /// Who stands where: for digests. Who watches whom follows from that.
    pub(in crate::shard::lock_table::lock) fn content(&self) -> impl std::fmt::Debug + '_ {
        self.standing.iter().map(|(place, standing)| (place, standing.is_final)).collect::<Vec<_>>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.claimed.is_empty() && self.standing.is_empty()
    }

    /// How many stand in it.
    pub(in crate::shard::lock_table::lock) fn len(&self) -> usize {
        self.standing.len()
    }

    /// What is claimed by those who stand in it or are going to.
    pub(in crate::shard::lock_table::lock) fn claimed(&self) -> &Held {
        &self.claimed
    }
}
