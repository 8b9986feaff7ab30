//! What a shard remembers of a session's finished transactions (P28, P57, P60, traps 2, 6, 7, 19).
//!
//! A decision is kept until the session's low-water mark passes it. The coordinator raises the mark only over
//! transactions that every participant has acknowledged. Below the mark everything is refused, never taken for new.
//! What nobody can ask for of a departed session is forgotten sooner (`departed.rs`).
//!
//! Answers are kept for duplicates of a prepare, up to a number of bytes for each session. Beyond that the oldest are
//! dropped, and a duplicate hears that nobody knows what was answered.
//!
//! Where there is no room for a no, it is written for a range: from the first to the last such place, everything of
//! the session is refused that is neither open nor decided (P60).
//!
//! Invariant: nothing at or above the low-water mark is forgotten; nothing below it is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use claret_types::Reply;

use crate::ids::{CallNo, Incarnation, Sequence, Timestamp};
use crate::message::{Listed, Participants, Refusal};

/// A transaction of the session, and the number of an attempt.
pub(crate) type Place = (Sequence, u32);

/// The end of an attempt at this shard.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    /// `None` when the answers were too many to keep.
    Applied {
        replies: Option<Vec<(CallNo, Reply)>>,
        /// Its final timestamp, if it was stamped.
        at: Option<Timestamp>,
    },
    Refused(Refusal),
}

/// A decision, and who may ask for it.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) decided: Decided,
    /// The participants, where another one may be in doubt that would decide otherwise if this was forgotten.
    pub(crate) listed: Option<Participants>,
}

/// About what an entry takes, with its share of the table.
const ENTRY_BYTES: usize = 2 * size_of::<(Place, Remembered)>();

impl Remembered {
    /// About how much memory it takes besides its answers, in bytes.
    fn bytes(&self) -> usize {
        let words = match &self.decided {
            Decided::Refused(refusal) => refusal.size(),
            Decided::Applied { .. } => 0,
        };
        let listed = self.listed.as_ref().map_or(0, |listed| size_of_val::<[Listed]>(listed));
        ENTRY_BYTES + words + listed
    }
}

/// The noes that are written for all places of a range.
#[derive(Clone, Debug)]
struct Barred {
    first: Place,
    last: Place,
    decided: Decided,
}

/// One session's past and present.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) low_water: Sequence,
    pub(crate) connection: u32,
    pub(crate) decided: BTreeMap<Place, Remembered>,
    /// Attempts that are here and not decided.
    pub(crate) open: BTreeSet<Place>,
    /// Under whose name it is counted.
    pub(crate) account: u64,
    /// As which incarnation the shard met it, if that was told.
    pub(crate) met_as: Option<Incarnation>,
    /// Since which one nothing of it was forgotten too soon.
    pub(crate) since: Option<Incarnation>,
    barred: Option<Barred>,
    /// Decisions with answers, the oldest first, and bytes in these. Some may be forgotten.
    answered: VecDeque<(Place, usize)>,
    answers_bytes: usize,
    /// What decisions take besides answers.
    decided_bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        History {
            low_water: Sequence(0),
            connection: 0,
            decided: BTreeMap::new(),
            open: BTreeSet::new(),
            account: 0,
            met_as: None,
            since: None,
            barred: None,
            answered: VecDeque::new(),
            answers_bytes: 0,
            decided_bytes: 0,
        }
    }
}

impl History {
    /// Whether nothing of the session is known.
    pub(crate) fn is_fresh(&self) -> bool {
        self.low_water == Sequence(0) && self.connection == 0 && self.met_as.is_none() && self.is_settled()
    }

    /// Whether nothing is open and no decision remembered.
    pub(crate) fn is_settled(&self) -> bool {
        self.decided.is_empty() && self.open.is_empty() && self.barred.is_none()
    }

    /// About how much memory decisions and answers take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.decided_bytes + self.answers_bytes
    }

    /// The end of an attempt, if it is one that is over.
    pub(crate) fn end_of(&self, place: Place) -> Option<&Decided> {
        if let Some(entry) = self.decided.get(&place) {
            return Some(&entry.decided);
        }
        let barred = self.barred.as_ref()?;
        let is_barred = (barred.first..=barred.last).contains(&place) && !self.open.contains(&place);
        is_barred.then_some(&barred.decided)
    }

    /// Remembers a decision. Amortized O(log of what is remembered, and parts of its answers).
    pub(crate) fn decide(&mut self, place: Place, entry: Remembered, answers_bytes_max: usize) {
        if let Decided::Applied { replies: Some(replies), .. } = &entry.decided
            && !replies.is_empty()
        {
            let bytes = replies.iter().map(|(_, reply)| size_of::<CallNo>() + reply.size()).sum();
            self.answered.push_back((place, bytes));
            self.answers_bytes += bytes;
        }
        self.decided_bytes += entry.bytes();
        if let Some(before) = self.decided.insert(place, entry) {
            self.decided_bytes -= before.bytes();
        }
        while self.answers_bytes > answers_bytes_max {
            self.drop_oldest_answers();
        }
    }

    /// Writes a no for which there is no room: for all that is unknown between this place and others like it.
    pub(crate) fn bar(&mut self, place: Place, refusal: Refusal) {
        match &mut self.barred {
            Some(barred) => {
                (barred.first, barred.last) = (barred.first.min(place), barred.last.max(place));
            }
            None => {
                let decided = Decided::Refused(refusal);
                self.barred = Some(Barred { first: place, last: place, decided });
            }
        }
    }

    /// Nobody asks for answers any more, or for what was refused in passing.
    pub(crate) fn drop_answers(&mut self) {
        while !self.answered.is_empty() {
            self.drop_oldest_answers();
        }
        self.answered = VecDeque::new();
        self.barred = None;
    }

    fn drop_oldest_answers(&mut self) {
        let Some((place, bytes)) = self.answered.pop_front() else { return };
        self.answers_bytes -= bytes;
        if let Some(Remembered { decided: Decided::Applied { replies, .. }, .. }) =
            self.decided.get_mut(&place)
        {
            *replies = None;
        }
    }

    /// Forgets one decision, whose answers are gone.
    pub(crate) fn forget(&mut self, place: Place) {
        if let Some(entry) = self.decided.remove(&place) {
            self.decided_bytes -= entry.bytes();
        }
    }

    /// A participant will not ask for a decision any more.
    pub(crate) fn forget_for(&mut self, place: Place, is_told: impl Fn(&Listed) -> bool) {
        let Some(entry) = self.decided.get_mut(&place) else { return };
        let Some(listed) = &entry.listed else { return };
        let others: Participants = listed.iter().filter(|it| !is_told(it)).copied().collect();
        let before = entry.bytes();
        entry.listed = Some(others).filter(|others| others.len() > 1);
        self.decided_bytes = self.decided_bytes - before + entry.bytes();
        if entry.listed.is_none() {
            self.forget(place);
        }
    }

    /// Raises the low-water mark. O(what is forgotten, and decisions with answers).
    pub(crate) fn raise(&mut self, low_water: Sequence) {
        if low_water > self.low_water {
            self.low_water = low_water;
            let kept = self.decided.split_off(&(low_water, 0));
            let dropped = std::mem::replace(&mut self.decided, kept);
            self.decided_bytes -= dropped.values().map(Remembered::bytes).sum::<usize>();
            self.answered.retain(|((sequence, _), _)| *sequence >= low_water);
            self.answers_bytes = self.answered.iter().map(|(_, bytes)| bytes).sum();
            self.barred = self.barred.take().filter(|barred| barred.last.0 >= low_water);
        }
    }
}
