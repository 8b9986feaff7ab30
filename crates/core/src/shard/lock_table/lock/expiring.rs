//! Holders who have a say in when their record ends: until they leave, the host keeps its end off.

use claret_types::{Bytes, Mode};

use super::{Holder, Item, Lock};
use crate::ids::AttemptId;
use crate::planted::{Bug, is_planted};
use crate::records::{External, HeldEnd};

impl Lock {
    /// Whether a holder has voted who may have changed when the record expires.
    pub(in super::super) fn may_end_otherwise(&self, has_voted: impl Fn(AttemptId) -> bool) -> bool {
        self.holders.iter().any(|(attempt, holder)| has_voted(*attempt) && self.has_a_say(holder))
    }

    /// A holder votes: if its effects may be about the end of an external record, the host keeps that from its end until the holder
    /// leaves. Whether the record is there: one whose time was over before has ended.
    pub(in super::super) fn hold_end(&mut self, key: &Bytes, attempt: AttemptId, external: External) -> bool {
        if !self.may_have_a_say() {
            return true; // Mostly.
        }
        let has_a_say = self.holders.get(&attempt).is_some_and(|holder| self.has_a_say(holder));
        match has_a_say.then(|| external.0.hold_end(key)) {
            Some(HeldEnd::Over) => {
                self.vanished = true;
                return false;
            }
            Some(HeldEnd::Held) => {
                let holder = self.holders.get_mut(&attempt);
                holder.into_iter().for_each(|holder| holder.holds_end = true);
            }
            Some(HeldEnd::Free) | None => {}
        }
        true
    }

    /// How many holders keep the record from its end.
    pub(in super::super) fn ends_held(&self) -> usize {
        self.holders.values().filter(|holder| holder.holds_end).count()
    }

    /// Whether a holder's effects may be about when the record ends: they set, clear or put off its expiry, or put another record in
    /// its place.
    fn has_a_say(&self, holder: &Holder) -> bool {
        let Some(about_it) = self.about_expiry() else { return !is_planted(Bug::VoteHoldsNoEnd) };
        let may_do = |item: &Item| item.effect.is_some() && item.claims.have(about_it);
        self.may_have_a_say() && holder.items.iter().any(may_do) && !is_planted(Bug::VoteHoldsNoEnd)
    }

    /// Whether that may be so of any holder. Who stands in line has none: such a record has no expiry.
    fn may_have_a_say(&self) -> bool {
        self.about_expiry().is_none_or(|about_it| self.held.have(about_it))
    }

    /// Modes of what may be about when the record ends; `None`: nobody knows them.
    fn about_expiry(&self) -> Option<u16> {
        self.kind.map(|kind| kind.modes.conflicts_of(Mode::READ_EXPIRY))
    }
}
