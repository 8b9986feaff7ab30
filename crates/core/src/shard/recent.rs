//! What is known of a session's latest attempts, found by the distance of their sequences from the first one here.
//!
//! Sequences of a session are dense, and its low-water mark rises. So a ring with a cell for each sequence is mostly all
//! that is needed: no search, and a decision takes the cell of the open attempt. A cell holds one attempt. Further ones of its
//! transaction, and sequences that are too far from the first, have no place here: `history.rs` keeps them in trees.
//!
//! Invariant: each slot is named by one cell, or is free and empty.

use std::collections::VecDeque;
use std::ops::Bound;

use super::history::{Place, Remembered};
use crate::ids::Sequence;

/// So many sequences have a cell.
const CELLS_MAX: usize = 2_048;

/// Slots that are kept when all are free.
const SLOTS_KEPT: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cell {
    #[default]
    Empty,
    /// The attempt with this number is open.
    Open(u32),
    /// It is over, as the slot says.
    Over { number: u32, slot: u32 },
}

/// What is known of a place here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It may be known elsewhere.
    Nothing,
    Open,
    Over,
}

/// See the module's text.
#[derive(Clone, Default)]
pub(super) struct Recent {
    /// The sequence of the first cell.
    first: u64,
    cells: VecDeque<Cell>,
    slots: Vec<Option<Remembered>>,
    free: Vec<u32>,
}

impl Recent {
    fn cell(&self, sequence: Sequence) -> Cell {
        let at = sequence.0.wrapping_sub(self.first);
        usize::try_from(at).ok().and_then(|at| self.cells.get(at)).copied().unwrap_or_default()
    }

    fn set(&mut self, sequence: Sequence, cell: Cell) {
        self.cells[(sequence.0 - self.first) as usize] = cell;
    }

    pub(super) fn known(&self, place: Place) -> Known {
        match self.cell(place.0) {
            Cell::Open(number) if number == place.1 => Known::Open,
            Cell::Over { number, .. } if number == place.1 => Known::Over,
            _ => Known::Nothing,
        }
    }

    /// The decision on an attempt.
    pub(super) fn over(&self, place: Place) -> Option<&Remembered> {
        match self.cell(place.0) {
            Cell::Over { number, slot } if number == place.1 => self.slots[slot as usize].as_ref(),
            _ => None,
        }
    }

    pub(super) fn over_mut(&mut self, place: Place) -> Option<&mut Remembered> {
        match self.cell(place.0) {
            Cell::Over { number, slot } if number == place.1 => self.slots[slot as usize].as_mut(),
            _ => None,
        }
    }

    /// Whether a place that is not known may be noted here. Makes its cell. O(sequences between it and the others here).
    pub(super) fn make_room(&mut self, sequence: Sequence) -> bool {
        if self.cells.is_empty() {
            self.first = sequence.0;
        }
        while self.cells.front() == Some(&Cell::Empty) && sequence.0 > self.first {
            self.cells.pop_front();
            self.first += 1;
        }
        if self.cells.is_empty() {
            self.first = sequence.0;
        }
        if sequence.0 < self.first {
            let more = self.first - sequence.0;
            if more > (CELLS_MAX - self.cells.len()) as u64 {
                return false;
            }
            (0..more).for_each(|_| self.cells.push_front(Cell::Empty));
            self.first = sequence.0;
        }
        let at = sequence.0 - self.first;
        if at >= CELLS_MAX as u64 {
            return false;
        }
        while self.cells.len() as u64 <= at {
            self.cells.push_back(Cell::Empty);
        }
        self.cells[at as usize] == Cell::Empty
    }

    /// Notes an attempt as open, for which there is room.
    pub(super) fn open(&mut self, place: Place) {
        self.set(place.0, Cell::Open(place.1));
    }

    /// Notes a decision for which there is room.
    pub(super) fn decide(&mut self, place: Place, entry: Remembered) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.slots.push(Some(entry));
                self.slots.len() as u32 - 1
            }
        };
        self.set(place.0, Cell::Over { number: place.1, slot });
    }

    /// Takes an open attempt out. Whether it was here. Its cell stays, for its decision.
    pub(super) fn close(&mut self, place: Place) -> bool {
        let is_open = self.known(place) == Known::Open;
        if is_open {
            self.set(place.0, Cell::Empty);
        }
        is_open
    }

    /// Takes a decision out.
    pub(super) fn forget(&mut self, place: Place) -> Option<Remembered> {
        match self.cell(place.0) {
            Cell::Over { number, slot } if number == place.1 => {
                self.set(place.0, Cell::Empty);
                self.take(slot)
            }
            _ => None,
        }
    }

    fn take(&mut self, slot: u32) -> Option<Remembered> {
        let entry = self.slots[slot as usize].take();
        self.free.push(slot);
        if self.free.len() == self.slots.len() && self.slots.len() > SLOTS_KEPT {
            (self.slots, self.free) = (Vec::new(), Vec::new());
        }
        entry
    }

    /// Takes out the first cell below the mark that is not empty; `None` when there is none.
    pub(super) fn pop_below(&mut self, low_water: Sequence) -> Option<Result<Remembered, Place>> {
        while self.first < low_water.0 {
            let cell = self.cells.pop_front()?;
            let sequence = Sequence(self.first);
            self.first += 1;
            match cell {
                Cell::Empty => {}
                Cell::Open(number) => return Some(Err((sequence, number))),
                Cell::Over { slot, .. } => return self.take(slot).map(Ok),
            }
        }
        None
    }

    /// Takes out all that is open.
    pub(super) fn close_all(&mut self) {
        for cell in &mut self.cells {
            if matches!(cell, Cell::Open(_)) {
                *cell = Cell::Empty;
            }
        }
    }

    /// How many decisions are here.
    pub(super) fn decisions(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number of the attempt of a transaction that is open here.
    pub(super) fn open_in(&self, sequence: Sequence) -> impl Iterator<Item = u32> {
        let number = match self.cell(sequence) {
            Cell::Open(number) => Some(number),
            Cell::Empty | Cell::Over { .. } => None,
        };
        number.into_iter()
    }

    pub(super) fn has_open(&self) -> bool {
        self.cells.iter().any(|cell| matches!(cell, Cell::Open(_)))
    }

    /// Open attempts, in their order. O(cells).
    pub(super) fn all_open(&self) -> impl DoubleEndedIterator<Item = Place> {
        self.cells.iter().enumerate().filter_map(|(at, cell)| match cell {
            Cell::Open(number) => Some((Sequence(self.first + at as u64), *number)),
            _ => None,
        })
    }

    /// Open attempts behind a place, in their order.
    pub(super) fn open_after(&self, after: Bound<Place>) -> impl Iterator<Item = Place> {
        self.cells_after(after).filter_map(move |(sequence, cell)| match cell {
            Cell::Open(number) => Some((sequence, number)).filter(|place| is_behind(*place, after)),
            _ => None,
        })
    }

    /// Decisions behind a place, in their order.
    pub(super) fn over_after(&self, after: Bound<Place>) -> impl Iterator<Item = (Place, &Remembered)> {
        self.cells_after(after).filter_map(move |(sequence, cell)| match cell {
            Cell::Over { number, slot } if is_behind((sequence, number), after) => {
                Some(((sequence, number), self.slots[slot as usize].as_ref()?))
            }
            _ => None,
        })
    }

    /// Cells from the sequence of a place on.
    fn cells_after(&self, after: Bound<Place>) -> impl Iterator<Item = (Sequence, Cell)> {
        let from = match after {
            Bound::Unbounded => 0,
            Bound::Included(place) | Bound::Excluded(place) => place.0.0.saturating_sub(self.first),
        };
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.cells.len());
        let cells = self.cells.range(from..).copied().enumerate();
        cells.map(move |(at, cell)| (Sequence(self.first + (from + at) as u64), cell))
    }
}

fn is_behind(place: Place, after: Bound<Place>) -> bool {
    match after {
        Bound::Unbounded => true,
        Bound::Included(first) => place >= first,
        Bound::Excluded(before) => place > before,
    }
}
