//! What a shard remembers of a session's transactions that are over (R14, traps 2, 6, 7, 19).
//!
//! A decision is kept until the session's floor passes it; the coordinator raises the floor only over
//! transactions that every participant has acknowledged. Below the floor everything is refused, never taken
//! for new.
//!
//! Answers are kept for doubles of a prepare, up to so many bytes a session: of more, the oldest go, and a double hears
//! that nobody knows what was answered.
//!
//! Invariant: nothing at or above the floor is forgotten; nothing below it is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use claret_types::Reply;

use crate::ids::{CallNo, Sequence};
use crate::message::Refusal;

/// The end of an attempt at this shard.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    /// `None` when the answers were too many to keep.
    Applied {
        replies: Option<Vec<(CallNo, Reply)>>,
    },
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
    /// Decisions with answers, the oldest first, and bytes in these. Some may be forgotten.
    answered: VecDeque<((Sequence, u32), usize)>,
    answers_bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        History {
            floor: Sequence(0),
            connection: 0,
            decided: BTreeMap::new(),
            open: BTreeSet::new(),
            answered: VecDeque::new(),
            answers_bytes: 0,
        }
    }
}

impl History {
    /// Whether nothing of the session is known.
    pub(crate) fn is_fresh(&self) -> bool {
        self.floor == Sequence(0) && self.connection == 0 && self.decided.is_empty() && self.open.is_empty()
    }

    /// Whether nothing is open and no decision remembered.
    pub(crate) fn is_settled(&self) -> bool {
        self.decided.is_empty() && self.open.is_empty()
    }

    /// Remembers a decision. Amortized O(log of what is remembered, and parts of its answers).
    pub(crate) fn decide(&mut self, place: (Sequence, u32), decided: Decided, answers_bytes_max: usize) {
        if let Decided::Applied { replies: Some(replies) } = &decided
            && !replies.is_empty()
        {
            let bytes = replies.iter().map(|(_, reply)| size_of::<CallNo>() + reply.size()).sum();
            self.answered.push_back((place, bytes));
            self.answers_bytes += bytes;
        }
        self.decided.insert(place, decided);
        while self.answers_bytes > answers_bytes_max {
            self.drop_oldest_answers();
        }
    }

    /// Nobody asks for answers any more.
    pub(crate) fn drop_answers(&mut self) {
        while !self.answered.is_empty() {
            self.drop_oldest_answers();
        }
        self.answered = VecDeque::new();
    }

    fn drop_oldest_answers(&mut self) {
        let Some((place, bytes)) = self.answered.pop_front() else { return };
        self.answers_bytes -= bytes;
        if let Some(Decided::Applied { replies }) = self.decided.get_mut(&place) {
            *replies = None;
        }
    }

    /// Raises the floor. O(what is forgotten, and decisions with answers).
    pub(crate) fn raise(&mut self, floor: Sequence) {
        if floor > self.floor {
            self.floor = floor;
            self.decided = self.decided.split_off(&(floor, 0));
            self.answered.retain(|((sequence, _), _)| *sequence >= floor);
            self.answers_bytes = self.answered.iter().map(|(_, bytes)| bytes).sum();
        }
    }
}
