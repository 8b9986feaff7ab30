//! What a shard remembers of a session's finished transactions (P28, P57, P60, traps 2, 6, 7, 19).
//!
//! A decision is kept until the session's low-water mark passes it. The coordinator raises the mark only over
//! transactions that every participant has acknowledged. Below the mark everything is refused, never taken for new.
//! What nobody can ask for of a departed session is forgotten sooner (`departed.rs`).
//!
//! Answers are kept for duplicates of a prepare, up to a number of bytes for each session. Beyond that the oldest are
//! dropped, and a duplicate hears that nobody knows what was answered.
//!
//! The latest attempts stand in a ring ([`Recent`]), the others in trees.
//!
//! Where there is no room for a no, it is written for a range: from the first to the last such place, everything of
//! the session is refused that is neither open nor decided (P60).
//!
//! Invariant: nothing at or above the low-water mark is forgotten; nothing below it is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;

use claret_types::Reply;
use smallvec::SmallVec;

use super::recent::{Known, Recent};
use crate::backup::Known as Restored;
use crate::ids::{CallNo, Incarnation, Sequence, Timestamp};
use crate::message::{Listed, Participants, Refusal};
use crate::planted::{Bug, is_planted};

/// A transaction of the session, and the number of an attempt.
pub(crate) type Place = (Sequence, u32);

/// So many older attempts of a transaction are looked at when a newer one comes; the leases of others end.
pub(super) const OLDER_MAX: usize = 16;

/// The end of an attempt at this shard.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    /// `None` when the answers were too many to keep.
    Applied {
        replies: Option<Vec<(CallNo, Reply)>>,
        /// Its final timestamp, if it was stamped.
        at: Option<Timestamp>,
        /// Its user may not have heard the answers, and does not have to before it is decided (K6), or carried out (A23).
        is_unacknowledged: bool,
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

impl Remembered {
    /// Whether whoever follows the shard has to know it, too: what is applied, and what others may be in doubt about.
    pub(crate) fn outlives(&self) -> bool {
        match &self.decided {
            Decided::Applied { .. } => true,
            Decided::Refused(Refusal::Unknown) => self.listed.is_some(),
            Decided::Refused(_) => false,
        }
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
#[derive(Clone)]
pub(crate) struct History {
    low_water: Sequence,
    /// Its newest connection.
    connection: u32,
    /// Attempts that are here and not decided, and decisions. What is here is not in `open` or `decided`.
    recent: Recent,
    /// Further decisions.
    decided: BTreeMap<Place, Remembered>,
    /// Further attempts that are here and not decided.
    open: BTreeSet<Place>,
    /// Under whose name it is counted.
    account: u64,
    /// As which incarnation the shard met it, if that was told.
    met_as: Option<Incarnation>,
    /// Since which one nothing of it was forgotten too soon.
    since: Option<Incarnation>,
    barred: Option<Barred>,
    /// Decisions with answers, the oldest first, and bytes in these. Some may be forgotten.
    answered: VecDeque<(Place, usize)>,
    answers_bytes: usize,
    /// Decisions whose answers are kept until the low-water mark passes them, however many there are, and bytes in these.
    unacknowledged: BTreeMap<Place, usize>,
    unacknowledged_bytes: usize,
    /// What decisions take besides answers.
    decided_bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        History {
            low_water: Sequence(0),
            connection: 0,
            recent: Recent::default(),
            decided: BTreeMap::new(),
            open: BTreeSet::new(),
            account: 0,
            met_as: None,
            since: None,
            barred: None,
            answered: VecDeque::new(),
            answers_bytes: 0,
            unacknowledged: BTreeMap::new(),
            unacknowledged_bytes: 0,
            decided_bytes: 0,
        }
    }
}

/// Who the session is.
impl History {
    pub(crate) fn low_water(&self) -> Sequence {
        self.low_water
    }

    pub(crate) fn account(&self) -> u64 {
        self.account
    }

    pub(crate) fn met_as(&self) -> Option<Incarnation> {
        self.met_as
    }

    pub(crate) fn since(&self) -> Option<Incarnation> {
        self.since
    }

    /// Whether a newer connection than this one was heard of.
    pub(crate) fn is_old(&self, connection: u32) -> bool {
        connection < self.connection
    }

    /// A request came by this connection.
    pub(crate) fn hear_by(&mut self, connection: u32) {
        self.connection = connection;
    }

    /// Which incarnation the shard is to the session.
    pub(crate) fn own(&self, incarnation: Incarnation) -> Incarnation {
        self.met_as.map_or(incarnation, |met_as| met_as.max(incarnation))
    }

    /// It comes under an account, and the shard is to it the incarnation that it is told. `is_forgotten`: not all that it did is
    /// known.
    pub(crate) fn meet(&mut self, account: u64, incarnation: Incarnation, is_forgotten: bool) {
        (self.account, self.met_as) = (account, Some(incarnation));
        if is_forgotten {
            self.since = Some(incarnation);
        }
    }

    /// It is gone, and is to be greeted anew if it comes back.
    pub(crate) fn part(&mut self) {
        self.met_as = None;
    }

    /// Another life begins, in which nothing of it is open.
    pub(crate) fn part_and_close(&mut self) {
        (self.connection, self.met_as) = (0, None);
        self.recent.close_all();
        self.open.clear();
    }

    /// What a replica knows of it.
    pub(crate) fn restore(&mut self, known: Restored, answers_bytes_max: usize) {
        (self.account, self.since) = (known.account, known.since);
        self.raise(known.low_water);
        let decided = known.decided.into_iter().filter(|_| !is_planted(Bug::PromotedForgetsDecisions));
        for (place, it) in decided {
            let decided = match it.is_applied {
                true => Decided::Applied {
                    replies: it.replies,
                    at: it.at,
                    is_unacknowledged: it.is_unacknowledged,
                },
                false => Decided::Refused(Refusal::Unknown),
            };
            self.decide(place, Remembered { decided, listed: it.listed }, answers_bytes_max);
        }
    }
}

/// What it did.
impl History {
    /// Whether nothing of the session is known.
    pub(crate) fn is_fresh(&self) -> bool {
        self.low_water == Sequence(0) && self.connection == 0 && self.met_as.is_none() && self.is_settled()
    }

    /// Whether nothing is open and no decision remembered.
    pub(crate) fn is_settled(&self) -> bool {
        self.decisions() == 0 && self.open.is_empty() && self.barred.is_none() && !self.recent.has_open()
    }

    /// How many decisions are remembered.
    pub(crate) fn decisions(&self) -> usize {
        self.decided.len() + self.recent.decisions()
    }

    /// About how much memory decisions and answers take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.decided_bytes + self.answers_bytes + self.unacknowledged_bytes
    }

    /// The end of an attempt, if it is one that is over.
    #[inline]
    pub(crate) fn end_of(&self, place: Place) -> Option<&Decided> {
        match self.recent.over(place) {
            Some(entry) => Some(&entry.decided),
            // Mostly.
            None if self.decided.is_empty() && self.barred.is_none() => None,
            None => self.further_end_of(place),
        }
    }

    /// What is written of an attempt, for which nobody is let in any more (P2).
    pub(crate) fn bars(&self, place: Place) -> Option<&Decided> {
        self.end_of(place).filter(|decided| match decided {
            Decided::Refused(_) => !is_planted(Bug::RefusedLetIn),
            Decided::Applied { .. } => !is_planted(Bug::PrepareTwice),
        })
    }

    fn further_end_of(&self, place: Place) -> Option<&Decided> {
        if let Some(entry) = self.decided.get(&place) {
            return Some(&entry.decided);
        }
        let barred = self.barred.as_ref()?;
        let is_barred = (barred.first..=barred.last).contains(&place) && !self.is_open(place);
        is_barred.then_some(&barred.decided)
    }

    // --- open attempts ---

    fn is_open(&self, place: Place) -> bool {
        self.recent.known(place) == Known::Open || self.open.contains(&place)
    }

    /// An attempt is here.
    pub(crate) fn open(&mut self, place: Place) {
        if self.is_open(place) {
            return;
        }
        if self.recent.make_room(place.0) {
            self.recent.open(place);
        } else {
            self.open.insert(place);
        }
    }

    /// It is not any more.
    pub(crate) fn close(&mut self, place: Place) {
        if !self.recent.close(place) {
            self.open.remove(&place);
        }
    }

    /// Numbers of earlier attempts of the same transaction that are open.
    pub(crate) fn open_before(&self, place: Place) -> impl Iterator<Item = u32> {
        let recent = self.recent.open_in(place.0).filter(move |number| *number < place.1);
        let further = (!self.open.is_empty()).then(|| self.open.range((place.0, 0)..place));
        let mut numbers: SmallVec<[u32; 2]> =
            further.into_iter().flatten().map(|(_, number)| *number).collect();
        numbers.extend(recent);
        numbers.sort_unstable();
        numbers.into_iter()
    }

    /// Open attempts behind a place, in their order. O(sequences that are recent, and these).
    pub(crate) fn open_after(&self, after: Bound<Place>) -> impl Iterator<Item = Place> {
        let further = self.open.range((after, Bound::Unbounded)).copied();
        merged(self.recent.open_after(after), further, |place| *place)
    }

    pub(crate) fn last_open(&self) -> Option<Place> {
        self.recent.all_open().next_back().max(self.open.last().copied())
    }

    // --- decisions ---

    /// The next decision behind a place.
    pub(crate) fn next_over(&self, after: Bound<Place>) -> Option<(Place, &Remembered)> {
        let further = self.decided.range((after, Bound::Unbounded)).map(|(place, entry)| (*place, entry));
        merged(self.recent.over_after(after), further, |(place, _)| *place).next()
    }

    fn over_mut(&mut self, place: Place) -> Option<&mut Remembered> {
        match self.recent.over_mut(place) {
            Some(entry) => Some(entry),
            None => self.decided.get_mut(&place),
        }
    }

    /// Remembers a decision. Amortized O(log of what is remembered, and parts of its answers).
    pub(crate) fn decide(&mut self, place: Place, entry: Remembered, answers_bytes_max: usize) {
        if let Decided::Applied { replies: Some(replies), is_unacknowledged, .. } = &entry.decided
            && !replies.is_empty()
        {
            let bytes = replies.iter().map(|(_, reply)| size_of::<CallNo>() + reply.size()).sum();
            if *is_unacknowledged {
                self.unacknowledged_bytes += bytes;
                self.unacknowledged_bytes -= self.unacknowledged.insert(place, bytes).unwrap_or_default();
            } else {
                self.answered.push_back((place, bytes));
                self.answers_bytes += bytes;
            }
        }
        self.decided_bytes += entry.bytes();
        if let Some(known) = self.over_mut(place) {
            let before = std::mem::replace(known, entry);
            self.decided_bytes -= before.bytes();
        } else if self.recent.make_room(place.0) {
            self.recent.decide(place, entry);
        } else {
            self.decided.insert(place, entry);
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
        for place in std::mem::take(&mut self.unacknowledged).into_keys() {
            self.drop_answers_of(place);
        }
        self.unacknowledged_bytes = 0;
        self.barred = None;
    }

    fn drop_oldest_answers(&mut self) {
        let Some((place, bytes)) = self.answered.pop_front() else { return };
        self.answers_bytes -= bytes;
        self.drop_answers_of(place);
    }

    fn drop_answers_of(&mut self, place: Place) {
        if let Some(Remembered { decided: Decided::Applied { replies, .. }, .. }) = self.over_mut(place) {
            *replies = None;
        }
    }

    /// Forgets one decision, whose answers are gone.
    pub(crate) fn forget(&mut self, place: Place) {
        if let Some(entry) = self.recent.forget(place).or_else(|| self.decided.remove(&place)) {
            self.decided_bytes -= entry.bytes();
            self.unacknowledged_bytes -= self.unacknowledged.remove(&place).unwrap_or_default();
        }
    }

    /// A participant will not ask for a decision any more.
    pub(crate) fn forget_for(&mut self, place: Place, is_told: impl Fn(&Listed) -> bool) {
        let Some(entry) = self.over_mut(place) else { return };
        let Some(listed) = &entry.listed else { return };
        let others: Participants = listed.iter().filter(|it| !is_told(it)).copied().collect();
        let before = entry.bytes();
        entry.listed = Some(others).filter(|others| others.len() > 1);
        let (after, is_known_to_all) = (entry.bytes(), entry.listed.is_none());
        self.decided_bytes = self.decided_bytes - before + after;
        if is_known_to_all {
            self.forget(place);
        }
    }

    /// Raises the low-water mark. O(what is forgotten, and decisions with answers).
    pub(crate) fn raise(&mut self, low_water: Sequence) {
        if low_water > self.low_water {
            self.low_water = low_water;
            while let Some(known) = self.recent.pop_below(low_water) {
                match known {
                    Ok(dropped) => self.decided_bytes -= dropped.bytes(),
                    Err(open) => drop(self.open.insert(open)),
                }
            }
            if !self.decided.is_empty() {
                let kept = self.decided.split_off(&(low_water, 0));
                let dropped = std::mem::replace(&mut self.decided, kept);
                self.decided_bytes -= dropped.values().map(Remembered::bytes).sum::<usize>();
            }
            self.answered.retain(|((sequence, _), _)| *sequence >= low_water);
            self.answers_bytes = self.answered.iter().map(|(_, bytes)| bytes).sum();
            if !self.unacknowledged.is_empty() {
                self.unacknowledged = self.unacknowledged.split_off(&(low_water, 0));
                self.unacknowledged_bytes = self.unacknowledged.values().sum();
            }
            self.barred = self.barred.take().filter(|barred| barred.last.0 >= low_water);
        }
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(crate) fn check(&self) {
        let is_above = |(sequence, _): &Place| *sequence >= self.low_water;
        assert!(self.decided.keys().all(is_above), "what is below the low-water mark is remembered");
        let recent: Vec<Place> = self.recent.over_after(Bound::Unbounded).map(|(place, _)| place).collect();
        assert!(recent.iter().all(is_above), "what is below the low-water mark is remembered");
        assert_eq!(recent.len(), self.recent.decisions(), "a slot has no cell");
        assert!(recent.iter().all(|place| !self.decided.contains_key(place)), "it is remembered twice");
        assert!(self.recent.all_open().all(|place| !self.open.contains(&place)), "it is open twice");
    }
}

/// What is known, wherever it stands.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open: Vec<Place> = self.open_after(Bound::Unbounded).collect();
        let recent = self.recent.over_after(Bound::Unbounded);
        let further = self.decided.iter().map(|(place, entry)| (*place, entry));
        let decided: Vec<(Place, &Remembered)> = merged(recent, further, |(place, _)| *place).collect();
        let who = (self.connection, self.account, self.met_as, self.since);
        let answers = (&self.answered, self.answers_bytes, &self.unacknowledged, self.decided_bytes);
        (self.low_water, who, open, decided, &self.barred, answers).fmt(f)
    }
}

/// Both, in their order.
fn merged<T>(
    one: impl Iterator<Item = T>,
    other: impl Iterator<Item = T>,
    place: impl Fn(&T) -> Place,
) -> impl Iterator<Item = T> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if place(second) < place(first) => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known, as two trees have it.
    #[derive(Default)]
    struct Model {
        open: BTreeSet<Place>,
        decided: BTreeSet<Place>,
    }

    fn compare(history: &History, model: &Model, after: Place) {
        history.check();
        assert_eq!(history.decisions(), model.decided.len());
        assert_eq!(history.is_settled(), model.open.is_empty() && model.decided.is_empty());
        assert_eq!(history.last_open(), model.open.last().copied());
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        assert!(history.open_after(behind.0).eq(model.open.range(behind).copied()));
        let next = history.next_over(behind.0).map(|(place, _)| place);
        assert_eq!(next, model.decided.range(behind).next().copied());
        assert_eq!(history.end_of(after).is_some(), model.decided.contains(&after));
        let before = model.open.range((after.0, 0)..after).map(|(_, number)| *number);
        assert!(history.open_before(after).eq(before));
    }

    /// Near and far, early and late, several attempts of one transaction: as if all was kept in trees.
    #[test]
    fn what_is_known_does_not_depend_on_where_it_stands() {
        for seed in 1..=40_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = |below: u64| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed);
                (state >> 33) % below
            };
            let (mut history, mut model) = (History::default(), Model::default());
            for step in 0..1_500_u64 {
                let near = step + random(8);
                let far = if random(10) == 0 { random(9_000) } else { near };
                let place = (Sequence(far), random(3) as u32);
                match random(16) {
                    0..6 if !model.decided.contains(&place) => {
                        history.open(place);
                        model.open.insert(place);
                    }
                    6..12 if place.0 >= history.low_water => {
                        history.close(place);
                        model.open.remove(&place);
                        let decided = Decided::Refused(Refusal::Withdrawn);
                        history.decide(place, Remembered { decided, listed: None }, 1_000);
                        model.decided.insert(place);
                    }
                    12 => {
                        history.forget(place);
                        model.decided.remove(&place);
                    }
                    13 if random(20) == 0 => {
                        let mark = Sequence(step / 2 + random(step + 1));
                        history.raise(mark);
                        model.decided = model.decided.split_off(&(mark.max(history.low_water), 0));
                    }
                    14 => {
                        history.close(place);
                        model.open.remove(&place);
                    }
                    _ => {}
                }
                compare(&history, &model, place);
            }
            history.raise(Sequence(u64::MAX));
            assert_eq!((history.decisions(), history.bytes()), (0, 0), "nothing is left to be counted");
        }
    }

    /// K6: they are never too many, and are counted until they go, by the mark or because nobody can ask any more.
    #[test]
    fn answers_that_may_be_unacknowledged_stay() {
        let at = |sequence| (Sequence(sequence), 1);
        let mut history = History::default();
        for (sequence, is_unacknowledged) in [(1, true), (2, false), (3, true)] {
            let replies = Some(vec![(CallNo(0), Reply::from("an answer"))]);
            let decided = Decided::Applied { replies, at: None, is_unacknowledged };
            history.decide(at(sequence), Remembered { decided, listed: None }, 0);
        }
        let has_answers = |history: &History, sequence| {
            matches!(history.end_of(at(sequence)), Some(Decided::Applied { replies: Some(_), .. }))
        };
        assert_eq!([1, 2, 3].map(|sequence| has_answers(&history, sequence)), [true, false, true]);
        let (of_all, mut departed) = (history.bytes(), history.clone());
        history.raise(Sequence(3));
        assert!(has_answers(&history, 3) && history.bytes() * 2 < of_all);
        history.raise(Sequence(4));
        assert_eq!(history.bytes(), 0);
        departed.drop_answers();
        assert!(!has_answers(&departed, 1) && departed.bytes() == 3 * ENTRY_BYTES);
    }
}
