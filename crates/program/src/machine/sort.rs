//! `table.sort`: a merge sort that can stop at each comparison, since that may be a function of the script.
//!
//! It ends whatever the comparisons answer, and keeps the order of equal elements.

use crate::fault::Raise;
use crate::value::{TableId, Value};

use super::operate::wrong_order;
use super::{Deliver, Event, Machine, NativeState};

/// A sort under way: runs of `width` elements are sorted, and two of them are being merged.
#[derive(Debug)]
pub(crate) struct Sort {
    table: TableId,
    /// Nil: elements are compared as `<` does.
    function: Value,
    items: Vec<Value>,
    merged: Vec<Value>,
    width: usize,
    start: usize,
    left: usize,
    right: usize,
    /// A comparison was asked for.
    is_asked: bool,
}

impl Sort {
    /// A sort of these elements of a table.
    pub(crate) fn new(table: TableId, function: Value, items: Vec<Value>) -> Sort {
        let right = items.len().min(1);
        let merged = Vec::with_capacity(items.len());
        Sort { table, function, items, merged, width: 1, start: 0, left: 0, right, is_asked: false }
    }

    /// What it takes in memory.
    pub(crate) fn held(&self) -> u64 {
        Sort::bytes(self.items.len())
    }

    /// What sorting so many elements takes in memory.
    pub(crate) fn bytes(count: usize) -> u64 {
        count as u64 * 32 + 128
    }

    pub(super) fn each(&self, mut mark: impl FnMut(Value)) {
        mark(Value::Table(self.table));
        mark(self.function);
        for value in self.items.iter().chain(&self.merged) {
            mark(*value);
        }
    }

    /// Moves what needs no comparison, and answers the two elements to compare next: the right, and the left. `None`: it is sorted.
    fn next(&mut self) -> Option<(Value, Value)> {
        let count = self.items.len();
        while self.width < count {
            let middle = self.start.saturating_add(self.width).min(count);
            let end = middle.saturating_add(self.width).min(count);
            if self.left < middle && self.right < end {
                return Some((*self.items.get(self.right)?, *self.items.get(self.left)?));
            }
            self.merged.extend_from_slice(self.items.get(self.left..middle).unwrap_or_default());
            self.merged.extend_from_slice(self.items.get(self.right.max(middle)..end).unwrap_or_default());
            self.start = end;
            if end == count {
                std::mem::swap(&mut self.items, &mut self.merged);
                self.merged.clear();
                self.width = self.width.saturating_mul(2);
                self.start = 0;
            }
            self.left = self.start;
            self.right = self.start.saturating_add(self.width).min(count);
        }
        None
    }

    /// The right element is less than the left one, or not.
    fn answered(&mut self, is_less: bool) {
        let from = if is_less { &mut self.right } else { &mut self.left };
        let taken = self.items.get(*from).copied().unwrap_or_default();
        *from += 1;
        self.merged.push(taken);
    }
}

impl Machine {
    pub(super) fn step_sort(
        &mut self,
        mut sort: Box<Sort>,
        place: usize,
        deliver: Deliver,
    ) -> Result<(), Raise> {
        if sort.is_asked {
            let is_less = self.truth(self.results.first().copied().unwrap_or_default())?;
            sort.is_asked = false;
            sort.answered(is_less);
        }
        while let Some((right, left)) = sort.next() {
            self.meter.left -= 1;
            let function = if sort.function.is_nil() {
                if let Some(is_less) = self.less_plain(right, left)? {
                    sort.answered(is_less);
                    if self.meter.left <= self.meter.rest_at {
                        self.keep(NativeState::Sort(sort));
                        return Ok(());
                    }
                    continue;
                }
                let handler = self.order(right, left, Event::Less);
                if handler.is_nil() {
                    return Err(wrong_order(right, left));
                }
                handler
            } else {
                sort.function
            };
            sort.is_asked = true;
            self.keep(NativeState::Sort(sort));
            return self.call_values(function, &[right, left], Deliver::Native);
        }
        self.charge(sort.items.len() as u64)?;
        for (at, value) in sort.items.iter().enumerate() {
            self.set_raw(Value::Table(sort.table), Value::Number((at + 1) as f64), *value)?;
        }
        self.heap.give_back(sort.held());
        self.results.clear();
        self.leave_native(place, deliver)
    }
}
