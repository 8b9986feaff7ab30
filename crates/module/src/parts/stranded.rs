//! Slots that were on their way when the node died that gave them away (S18 of `docs/replication.md`). Whoever takes its place serves
//! none of their keys to transactions: some have gone, and seem to be missing. Servers of Redis 7 do not tell replicas which slots
//! are on their way, so the shard's changes do.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::Time;
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::parts::slots::{Closed, SLOTS, Slots};

/// Whoever is promoted so soon after a slot has gone may not have heard of that, in microseconds.
const GONE_US: u64 = 60_000_000;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Stranded {
    closed: Vec<Closed>,
    /// Slots of this node's that leave, as of the last look.
    leaving: BTreeSet<u16>,
    /// Those that have gone lately, and until when replicas are told so.
    gone: BTreeMap<u16, Time>,
}

impl Stranded {
    /// Those of a note, as far as the server itself does not know that they are on their way.
    pub(crate) fn of_note(note: &[u8], slots: &Slots) -> Stranded {
        let list = (if is_planted(Bug::StrandedServed) { Vec::new() } else { slots_of(note) })
            .into_iter()
            .filter(|slot| is_stranded(*slot, slots));
        Stranded { closed: list.map(|slot| slots.close(slot)).collect(), ..Stranded::default() }
    }

    /// Looks what has become of all: the move of some goes on, or has come to its end. These leave.
    pub(crate) fn look(&mut self, now: Time, slots: &Slots, leaving: impl Iterator<Item = u16>) {
        self.closed.retain(|closed| is_stranded(closed.slot(), slots));
        let gone = self.leaving.iter().filter(|slot| !slots.is_mine(**slot));
        self.gone.extend(gone.map(|slot| (*slot, now.plus(GONE_US))));
        self.gone.retain(|slot, until| *until > now && !slots.is_mine(*slot));
        self.leaving = leaving.filter(|slot| slots.is_mine(*slot)).collect();
    }

    /// The move of this one is given up. Whether it was one of them.
    pub(crate) fn stays(&mut self, slot: u16) -> bool {
        let before = self.closed.len();
        self.closed.retain(|closed| closed.slot() != slot);
        before > self.closed.len()
    }

    pub(crate) fn has(&self, slot: u16) -> bool {
        self.closed.iter().any(|closed| closed.slot() == slot)
    }

    pub(crate) fn len(&self) -> usize {
        self.closed.len()
    }

    /// In order.
    pub(crate) fn list(&self) -> BTreeSet<u16> {
        self.closed.iter().map(Closed::slot).collect()
    }

    /// What whoever is promoted has to know: the slots of this node, and those on their way as of the last look.
    pub(crate) fn note(&self, slots: &Slots) -> Bytes {
        let on_their_way = self.leaving.iter().chain(self.gone.keys()).copied().chain(self.list());
        let own = (0..SLOTS as u16).filter(|slot| slots.is_mine(*slot));
        let mut note = vec![0; 2 * SET_BYTES];
        let (first, second) = note.split_at_mut(SET_BYTES);
        own.for_each(|slot| put(first, slot));
        (if is_planted(Bug::SlotOnItsWayUntold) { Vec::new() } else { on_their_way.collect() })
            .into_iter()
            .for_each(|slot| put(second, slot));
        note.into()
    }
}

/// Whether this node has slots of which the note of its former primary does not know.
pub(crate) fn is_any_unnoted(note: &[u8], slots: &Slots) -> bool {
    let own = note.get(..SET_BYTES).unwrap_or_default();
    (0..SLOTS as u16).any(|slot| slots.is_mine(slot) && !has(own, slot))
}

/// A bit for each slot.
const SET_BYTES: usize = SLOTS / 8;

fn put(set: &mut [u8], slot: u16) {
    set[usize::from(slot / 8)] |= 1 << (slot % 8);
}

fn has(set: &[u8], slot: u16) -> bool {
    set.get(usize::from(slot / 8)).is_some_and(|bits| bits & 1 << (slot % 8) != 0)
}

/// Whether a slot is this node's, and the server says nothing of its way.
fn is_stranded(slot: u16, slots: &Slots) -> bool {
    slots.is_mine(slot) && !slots.leaving().any(|leaving| leaving == slot)
}

/// Those on their way, of a note.
fn slots_of(note: &[u8]) -> Vec<u16> {
    let on_their_way = note.get(SET_BYTES..).unwrap_or_default();
    (0..SLOTS as u16).filter(|slot| has(on_their_way, *slot)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use claret_core::Time;

    use super::{GONE_US, SET_BYTES, Stranded, is_any_unnoted, put, slots_of};
    use crate::parts::slots::Slots;

    const FORMER: &str = "aa h:1@2 myself,master - 0 1 1 connected 5-9 [7->-bb] [6->-bb] [3-<-bb]";
    const PROMOTED: &str = "cc h:1@2 myself,master - 0 1 1 connected 5-9";

    fn look(stranded: &mut Stranded, now: u64, slots: &Slots) {
        stranded.look(Time(now), slots, slots.leaving());
    }

    /// The note of somebody from whom this slot is on its way.
    fn noted(slot: u16) -> Vec<u8> {
        let mut note = vec![0; 2 * SET_BYTES];
        put(&mut note[SET_BYTES..], slot);
        note
    }

    #[test]
    fn a_slot_is_nobodys_until_its_move_goes_on_or_is_given_up() {
        let mut giver = Stranded::default();
        look(&mut giver, 0, &Slots::parse(FORMER));
        let note = giver.note(&Slots::parse(FORMER));
        assert_eq!(slots_of(&note), [6, 7], "what comes is not on its way from here");
        let slots = Slots::parse(PROMOTED);
        let mut stranded = Stranded::of_note(&note, &slots);
        look(&mut stranded, 0, &slots);
        assert_eq!(stranded.list(), BTreeSet::from([6, 7]));
        assert_eq!(stranded.note(&slots), note, "it may die as well");
        look(&mut stranded, 0, &Slots::parse(&format!("{PROMOTED} [7->-bb]")));
        assert_eq!(stranded.list(), BTreeSet::from([6]));
        assert!(!stranded.stays(7) && stranded.stays(6) && !stranded.has(6));
    }

    /// What came from another shard may have been used there up to timestamps of which this one knows nothing.
    #[test]
    fn who_is_promoted_knows_which_slots_its_primary_told_nothing_of() {
        let slots = Slots::parse(FORMER);
        let note = Stranded::default().note(&slots);
        assert!(!is_any_unnoted(&note, &Slots::parse(PROMOTED)));
        assert!(!is_any_unnoted(&note, &Slots::parse("cc h:1@2 myself,master - 0 1 1 connected 6-8")));
        assert!(is_any_unnoted(&note, &Slots::parse("cc h:1@2 myself,master - 0 1 1 connected 5-10")));
        assert!(is_any_unnoted(b"", &Slots::parse(PROMOTED)), "it told nothing");
    }

    #[test]
    fn replicas_know_for_a_while_which_slots_have_gone() {
        let mut giver = Stranded::default();
        look(&mut giver, 0, &Slots::parse(FORMER));
        let without = Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 5-5 7-9");
        look(&mut giver, 5, &without);
        assert_eq!(slots_of(&giver.note(&without)), [6]);
        assert_eq!(
            Stranded::of_note(&giver.note(&without), &Slots::parse(PROMOTED)).len(),
            1,
            "it has not heard of that"
        );
        assert_eq!(Stranded::of_note(&giver.note(&without), &without).len(), 0, "it has");
        look(&mut giver, GONE_US, &without);
        assert_eq!(slots_of(&giver.note(&without)), [6]);
        look(&mut giver, GONE_US + 5, &without);
        assert!(slots_of(&giver.note(&without)).is_empty());
        look(&mut giver, 0, &Slots::parse(FORMER));
        look(&mut giver, 0, &without);
        look(&mut giver, 1, &Slots::parse(PROMOTED));
        assert!(slots_of(&giver.note(&without)).is_empty(), "it is back");
    }

    #[test]
    fn a_note_of_others_and_one_that_is_nonsense_strand_nothing() {
        let slots = Slots::parse(PROMOTED);
        assert_eq!(Stranded::of_note(&noted(4), &slots).len(), 0);
        assert_eq!(Stranded::of_note(b"nonsense", &slots).len(), 0);
        let closed = Stranded::of_note(&noted(6), &slots);
        let key =
            (0..).map(|it| format!("k{it}")).find(|key| crate::parts::slots::slot_of(key.as_bytes()) == 6);
        let key = key.expect("there is one");
        assert!(!slots.serves(key.as_bytes()));
        drop(closed);
        assert!(slots.serves(key.as_bytes()));
    }
}
