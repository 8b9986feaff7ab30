//! The heap of a run: strings, tables, closures and captured variables, named by numbers, with every byte counted.
//!
//! What nothing refers to any more is found by marking and sweeping, between two instructions: a step may keep numbers in hand.

mod arena;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use arena::Arena;

use crate::fault::{Fatal, Raise};
use crate::table::{KeyFault, TABLE_BYTES, Table};
use crate::value::{CellId, ClosureId, TableId, TextId, Value};

/// What a string, a closure, or a captured variable takes besides what is in it.
const OBJECT_BYTES: u64 = 64;

/// So much may be made before anything is swept.
const SWEEP_MIN: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Text {
    bytes: Box<[u8]>,
    hash: u64,
}

/// A closure.
#[derive(Debug)]
pub(crate) enum Closure {
    /// A function of the script and what it has captured.
    Script { function: u32, cells: Box<[CellId]> },
    /// What `string.gmatch` gave.
    Matches { text: TextId, pattern: TextId, position: usize },
}

impl Default for Closure {
    fn default() -> Closure {
        Closure::Script { function: 0, cells: Box::default() }
    }
}

/// A captured variable: in a register while its function runs, then by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell {
    Open(usize),
    Closed(Value),
}

impl Default for Cell {
    fn default() -> Cell {
        Cell::Closed(Value::Nil)
    }
}

/// The heap of one run.
#[derive(Debug)]
pub(crate) struct Heap {
    texts: Arena<Text>,
    by_text: HashTable<TextId>,
    hasher: RandomState,
    tables: Arena<Table>,
    closures: Arena<Closure>,
    cells: Arena<Cell>,
    used: u64,
    limit: u64,
    sweep_at: u64,
    pending: Vec<Value>,
}

impl Heap {
    /// An empty heap that takes at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Heap {
        Heap {
            texts: Arena::default(),
            by_text: HashTable::new(),
            hasher: RandomState::default(),
            tables: Arena::default(),
            closures: Arena::default(),
            cells: Arena::default(),
            used: 0,
            limit,
            sweep_at: SWEEP_MIN.min(limit / 2),
            pending: Vec::new(),
        }
    }

    /// Counts bytes that are about to be taken.
    ///
    /// # Errors
    ///
    /// There are not so many.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Raise> {
        let used = self.used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used = used.ok_or(Raise::Fatal(Fatal::Memory))?;
        Ok(())
    }

    /// Counts bytes that were given back.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// How many bytes may still be taken.
    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// How many bytes are taken.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// The string of these bytes.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Result<TextId, Raise> {
        let hash = self.hasher.hash_one(bytes);
        let texts = &self.texts;
        if let Some(found) = self.by_text.find(hash, |id| *texts.get(id.0).bytes == *bytes) {
            return Ok(*found);
        }
        self.take(OBJECT_BYTES + bytes.len() as u64)?;
        let id =
            TextId(self.texts.add(Text { bytes: bytes.into(), hash }).ok_or(Raise::Fatal(Fatal::Memory))?);
        let texts = &self.texts;
        self.by_text.insert_unique(hash, id, |id| texts.get(id.0).hash);
        Ok(id)
    }

    /// The bytes of a string.
    pub(crate) fn bytes(&self, id: TextId) -> &[u8] {
        &self.texts.get(id.0).bytes
    }

    /// A new table, with room.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn table(&mut self, elements: usize, keys: usize) -> Result<TableId, Raise> {
        self.take(TABLE_BYTES + (elements as u64).saturating_mul(16) + (keys as u64).saturating_mul(48))?;
        let table = Table::with_room(elements, keys);
        let (expected, taken) = (elements as u64 * 16 + keys as u64 * 48, table.bytes());
        self.take(taken.saturating_sub(expected))?;
        self.give_back(expected.saturating_sub(taken));
        self.tables.add(table).map(TableId).ok_or(Raise::Fatal(Fatal::Memory))
    }

    /// A table, to be read.
    pub(crate) fn of(&self, id: TableId) -> &Table {
        self.tables.get(id.0)
    }

    /// A table whose metatable or protection changes. Its elements change by `set`, which counts.
    pub(crate) fn of_mut(&mut self, id: TableId) -> &mut Table {
        self.tables.get_mut(id.0)
    }

    /// Sets a key of a table, whether the table is protected or not.
    ///
    /// # Errors
    ///
    /// Not enough memory, or no key.
    pub(crate) fn set(&mut self, id: TableId, key: Value, value: Value) -> Result<(), Raise> {
        let left = self.left();
        let table = self.tables.get_mut(id.0);
        let before = table.bytes();
        // Growing takes twice what is there, for a moment three times.
        if before.saturating_mul(3) > left && !value.is_nil() && table.get(key).is_nil() {
            let is_full = before >= left || table.places() as u64 * 48 + 64 > left;
            if is_full {
                return Err(Raise::Fatal(Fatal::Memory));
            }
        }
        let set = table.set(key, value);
        let after = table.bytes();
        if after > before {
            self.take(after - before)?;
        } else {
            self.give_back(before - after);
        }
        set.map_err(|fault| match fault {
            KeyFault::Nil => Raise::text("table index is nil"),
            KeyFault::NotANumber => Raise::text("table index is NaN"),
        })
    }

    /// Sets an element of a list that is being made: nil takes its place too.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn element(&mut self, id: TableId, key: Value, value: Value) -> Result<(), Raise> {
        let table = self.tables.get_mut(id.0);
        if table.is_next(key) && table.has_room() {
            table.push(value);
            return Ok(());
        }
        self.set(id, key, value)
    }

    /// Makes room for so many elements.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn reserve(&mut self, id: TableId, elements: usize) -> Result<(), Raise> {
        if (elements as u64).saturating_mul(32) > self.left() {
            return Err(Raise::Fatal(Fatal::Memory));
        }
        let table = self.tables.get_mut(id.0);
        let before = table.bytes();
        table.reserve(elements);
        let more = table.bytes().saturating_sub(before);
        self.take(more)
    }

    /// A new closure.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn closure(&mut self, closure: Closure) -> Result<ClosureId, Raise> {
        self.take(closure_bytes(&closure))?;
        self.closures.add(closure).map(ClosureId).ok_or(Raise::Fatal(Fatal::Memory))
    }

    pub(crate) fn closure_of(&self, id: ClosureId) -> &Closure {
        self.closures.get(id.0)
    }

    pub(crate) fn closure_mut(&mut self, id: ClosureId) -> &mut Closure {
        self.closures.get_mut(id.0)
    }

    /// A new captured variable.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn cell(&mut self, cell: Cell) -> Result<CellId, Raise> {
        self.take(OBJECT_BYTES)?;
        self.cells.add(cell).map(CellId).ok_or(Raise::Fatal(Fatal::Memory))
    }

    pub(crate) fn cell_of(&self, id: CellId) -> Cell {
        *self.cells.get(id.0)
    }

    pub(crate) fn set_cell(&mut self, id: CellId, cell: Cell) {
        *self.cells.get_mut(id.0) = cell;
    }

    /// Whether so much was made that it is time to sweep.
    pub(crate) fn is_due(&self) -> bool {
        self.used > self.sweep_at
    }

    /// Marks what a value refers to, at once or when [`Heap::sweep`] runs.
    pub(crate) fn mark(&mut self, value: Value) {
        match value {
            Value::Text(id) => {
                self.texts.mark(id.0);
            }
            Value::Table(id) if self.tables.mark(id.0) => self.pending.push(value),
            Value::Closure(id) if self.closures.mark(id.0) => self.pending.push(value),
            _ => {}
        }
    }

    /// Marks a captured variable.
    pub(crate) fn mark_cell(&mut self, id: CellId) {
        if self.cells.mark(id.0)
            && let Cell::Closed(value) = self.cell_of(id)
        {
            self.mark(value);
        }
    }

    /// Frees all that was not marked, and forgets the marks. Answers how many objects it went through.
    pub(crate) fn sweep(&mut self) -> u64 {
        let mut steps = self.follow();
        let (texts, by_text, used) = (&mut self.texts, &mut self.by_text, &mut self.used);
        steps += texts.sweep(|id, text| {
            *used = used.saturating_sub(OBJECT_BYTES + text.bytes.len() as u64);
            if let Ok(found) = by_text.find_entry(text.hash, |found| found.0 == id) {
                found.remove();
            }
        });
        steps += self.tables.sweep(|_, table| *used = used.saturating_sub(TABLE_BYTES + table.bytes()));
        steps += self.closures.sweep(|_, closure| *used = used.saturating_sub(closure_bytes(closure)));
        steps += self.cells.sweep(|_, _| *used = used.saturating_sub(OBJECT_BYTES));
        // Sweeping costs what is there, so as much again may be made before; nearer to the limit it is swept more often.
        let pace = self.used.max(SWEEP_MIN).min((self.left() / 2).max(self.limit / 16));
        self.sweep_at = self.used.saturating_add(pace);
        steps
    }

    fn follow(&mut self) -> u64 {
        let mut steps = 0;
        while let Some(value) = self.pending.pop() {
            steps += 1;
            let mut found = Vec::new();
            match value {
                Value::Table(id) => {
                    let table = self.tables.get(id.0);
                    steps += table.places() as u64;
                    table.each(|value| found.push(value));
                    found.extend(table.metatable.map(Value::Table));
                }
                Value::Closure(id) => match self.closures.get(id.0) {
                    Closure::Script { cells, .. } => {
                        for cell in cells.clone() {
                            self.mark_cell(cell);
                        }
                    }
                    Closure::Matches { text, pattern, .. } => {
                        found.extend([Value::Text(*text), Value::Text(*pattern)]);
                    }
                },
                _ => {}
            }
            for value in found {
                self.mark(value);
            }
        }
        steps
    }
}

fn closure_bytes(closure: &Closure) -> u64 {
    match closure {
        Closure::Script { cells, .. } => OBJECT_BYTES + (cells.len() * size_of::<CellId>()) as u64,
        Closure::Matches { .. } => OBJECT_BYTES,
    }
}
