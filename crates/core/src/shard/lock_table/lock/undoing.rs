//! What an attempt has undone of what it did on a record (`docs/nesting.md`).

use claret_types::Held;
use smallvec::SmallVec;

use super::{Holder, Item, Lock};
use crate::ids::{AttemptId, CallNo};
use crate::planted::{Bug, is_planted};

impl Lock {
    /// What these calls of an attempt did is undone (N2). How many calls were looked at: all of the attempt on the record.
    pub(in super::super) fn undo_calls(
        &mut self,
        attempt: AttemptId,
        is_undone: impl Fn(CallNo) -> bool,
    ) -> usize {
        let Some(holder) = self.holders.get_mut(&attempt) else { return 0 };
        let places = holder.places_where(is_undone);
        undo(holder, &mut self.held, &places);
        holder.items.len()
    }

    /// The same for calls with these numbers. How many calls were looked at: these, and the first time all of the attempt on the
    /// record.
    pub(in super::super) fn undo_numbers(&mut self, attempt: AttemptId, numbers: &[CallNo]) -> usize {
        let Some(holder) = self.holders.get_mut(&attempt) else { return 0 };
        let visited = numbers.len() + holder.to_index();
        let places = holder.places_of(numbers);
        undo(holder, &mut self.held, &places);
        visited
    }

    /// Which of these calls of an attempt are granted, in order, and how many calls were looked at: the first time all of the attempt
    /// on the record. O(these calls) beside that.
    pub(in super::super) fn granted_of(
        &mut self,
        attempt: AttemptId,
        mut numbers: SmallVec<[CallNo; 4]>,
    ) -> (SmallVec<[CallNo; 4]>, usize) {
        let holder = self.holders.get_mut(&attempt).filter(|_| !numbers.is_empty());
        let Some(holder) = holder else { return (SmallVec::new(), 0) };
        let visited = holder.to_index();
        numbers.retain(|no| holder.has_call(*no));
        numbers.sort_unstable();
        (numbers, visited)
    }

    /// The granted calls of an attempt, in the order in which they were.
    pub(in super::super) fn items_of(&self, attempt: AttemptId) -> &[Item] {
        self.holders.get(&attempt).map_or(&[], |holder| &holder.items)
    }
}

/// What these calls did is undone, and what they claim stays: their user acted on what they answered (N2).
fn undo(holder: &mut Holder, held: &mut Held, places: &[u32]) {
    if is_planted(Bug::UndoneReadsDropped) {
        for place in places {
            held.remove(&std::mem::take(&mut holder.items[*place as usize].claims));
        }
    }
    if !is_planted(Bug::UndoneApplied) {
        holder.undo(places);
    }
}
