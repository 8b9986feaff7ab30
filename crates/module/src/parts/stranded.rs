//! Slots that were on their way when the node died that gave them away (S16 of `docs/replication.md`). Whoever takes its place serves
//! none of their keys to transactions: some have gone, and seem to be missing. Servers of Redis 7 do not tell replicas which slots
//! are on their way, so the shard's changes do.

use claret_types::Bytes;

use crate::parts::planted::guard as planted;
use crate::parts::slots::{Closed, SLOTS, Slots};

/// See the module's text.
#[derive(Default)]
pub(crate) struct Stranded(Vec<Closed>);

impl Stranded {
    /// Those of a note, as far as the server itself does not know that they are on their way.
    pub(crate) fn of_note(note: &[u8], slots: &Slots) -> Stranded {
        let list = planted::stranded(slots_of(note));
        Stranded(
            list.into_iter().filter(|slot| is_stranded(*slot, slots)).map(|slot| slots.close(slot)).collect(),
        )
    }

    /// The move of some goes on, or has come to its end.
    pub(crate) fn look(&mut self, slots: &Slots) {
        self.0.retain(|closed| is_stranded(closed.slot(), slots));
    }

    /// The move of this one is given up. Whether it was one of them.
    pub(crate) fn stays(&mut self, slot: u16) -> bool {
        let before = self.0.len();
        self.0.retain(|closed| closed.slot() != slot);
        before > self.0.len()
    }

    pub(crate) fn has(&self, slot: u16) -> bool {
        self.0.iter().any(|closed| closed.slot() == slot)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// In order.
    pub(crate) fn list(&self) -> Vec<u16> {
        let mut list: Vec<u16> = self.0.iter().map(Closed::slot).collect();
        list.sort_unstable();
        list
    }

    /// What whoever is promoted has to know: these, and those that leave.
    pub(crate) fn note(&self, leaving: impl Iterator<Item = u16>) -> Bytes {
        let mut list: Vec<u16> = leaving.chain(self.list()).collect();
        list.sort_unstable();
        list.dedup();
        planted::told(list).into_iter().flat_map(u16::to_be_bytes).collect::<Vec<u8>>().into()
    }
}

/// Whether a slot is this node's, and the server says nothing of its way.
fn is_stranded(slot: u16, slots: &Slots) -> bool {
    slots.is_mine(slot) && !slots.leaving().any(|leaving| leaving == slot)
}

fn slots_of(note: &[u8]) -> Vec<u16> {
    let slots = note.as_chunks().0.iter().map(|slot| u16::from_be_bytes(*slot));
    slots.filter(|slot| usize::from(*slot) < SLOTS).collect()
}

#[cfg(test)]
mod tests {
    use super::Stranded;
    use crate::parts::slots::Slots;

    const FORMER: &str = "aa h:1@2 myself,master - 0 1 1 connected 5-9 [7->-bb] [6->-bb] [3-<-bb]";
    const PROMOTED: &str = "cc h:1@2 myself,master - 0 1 1 connected 5-9";

    #[test]
    fn a_slot_is_nobodys_until_its_move_goes_on_or_is_given_up() {
        let note = Stranded::default().note(Slots::parse(FORMER).leaving());
        assert_eq!(&note[..], [0, 6, 0, 7], "what comes is not on its way from here");
        let slots = Slots::parse(PROMOTED);
        let mut stranded = Stranded::of_note(&note, &slots);
        assert_eq!(stranded.list(), [6, 7]);
        assert_eq!(stranded.note(slots.leaving()), note, "it may die as well");
        stranded.look(&slots);
        assert_eq!(stranded.len(), 2);
        stranded.look(&Slots::parse(&format!("{PROMOTED} [7->-bb]")));
        assert_eq!(stranded.list(), [6]);
        assert!(!stranded.stays(7) && stranded.stays(6) && !stranded.has(6));
    }

    #[test]
    fn a_note_of_others_and_one_that_is_nonsense_strand_nothing() {
        let slots = Slots::parse(PROMOTED);
        assert_eq!(Stranded::of_note(&[0, 4, 0xff, 0xff, 0], &slots).len(), 0);
        let closed = Stranded::of_note(&[0, 6], &slots);
        let key =
            (0..).map(|it| format!("k{it}")).find(|key| crate::parts::slots::slot_of(key.as_bytes()) == 6);
        let key = key.expect("there is one");
        assert!(!slots.serves(key.as_bytes()));
        drop(closed);
        assert!(slots.serves(key.as_bytes()));
    }
}
