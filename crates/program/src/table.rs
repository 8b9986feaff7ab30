//! Tables: elements from 1 on in an array, the rest by their keys in the order in which they came.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::library::Native;
use crate::value::{ClosureId, TableId, TextId, Value};

/// Removed keys stay until there are so many, and more of them than of others.
const REMOVED_MIN: usize = 16;

/// What a table takes besides its elements.
pub(crate) const TABLE_BYTES: u64 = 160;

const ELEMENT_BYTES: usize = size_of::<Value>();

/// A key, its value, its hash, and its place in the index.
const ENTRY_BYTES: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Number(u64),
    Text(TextId),
    Table(TableId),
    Closure(ClosureId),
    Native(Native),
}

impl Key {
    fn of(value: Value) -> Option<Key> {
        Some(match value {
            Value::Nil | Value::Later(_) => return None,
            Value::Null => Key::Null,
            Value::Bool(bool) => Key::Bool(bool),
            Value::Number(number) if number.is_nan() => return None,
            // Negative zero is zero.
            Value::Number(number) => Key::Number((number + 0.0).to_bits()),
            Value::Text(text) => Key::Text(text),
            Value::Table(table) => Key::Table(table),
            Value::Closure(closure) => Key::Closure(closure),
            Value::Native(native) => Key::Native(native),
        })
    }

    fn value(self) -> Value {
        match self {
            Key::Null => Value::Null,
            Key::Bool(bool) => Value::Bool(bool),
            Key::Number(bits) => Value::Number(f64::from_bits(bits)),
            Key::Text(text) => Value::Text(text),
            Key::Table(table) => Value::Table(table),
            Key::Closure(closure) => Value::Closure(closure),
            Key::Native(native) => Value::Native(native),
        }
    }
}

/// Why a table has no such key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFault {
    Nil,
    NotANumber,
}

/// One table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    hash: IndexMap<Key, Value, RandomState>,
    /// How many keys of `hash` have no value.
    removed: usize,
    pub metatable: Option<TableId>,
    pub is_readonly: bool,
}

/// The index of an element, if the number can be one.
pub(crate) fn index_of(number: f64) -> Option<usize> {
    let index = number as usize;
    (index >= 1 && index as f64 == number).then_some(index)
}

impl Table {
    /// With room for so many elements and keys.
    pub(crate) fn with_room(elements: usize, keys: usize) -> Table {
        let mut table = Table::default();
        table.array.reserve_exact(elements);
        if keys > 0 {
            table.hash.reserve_exact(keys);
        }
        table
    }

    /// What its elements take in memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.array.capacity() * ELEMENT_BYTES + self.hash.capacity() * ENTRY_BYTES) as u64
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: Value) -> Value {
        if let Value::Number(number) = key
            && let Some(index) = index_of(number)
            && let Some(value) = self.array.get(index - 1)
        {
            return *value;
        }
        if self.hash.is_empty() {
            return Value::Nil;
        }
        Key::of(key).and_then(|key| self.hash.get(&key)).copied().unwrap_or_default()
    }

    /// The element of an index.
    pub(crate) fn at(&self, index: usize) -> Value {
        match self.array.get(index.wrapping_sub(1)) {
            Some(value) => *value,
            None => self.get(Value::Number(index as f64)),
        }
    }

    /// Sets a key. Nil removes it.
    ///
    /// # Errors
    ///
    /// Nil and what is not a number are no keys.
    pub(crate) fn set(&mut self, key: Value, value: Value) -> Result<(), KeyFault> {
        if let Value::Number(number) = key
            && let Some(index) = index_of(number)
        {
            if let Some(element) = self.array.get_mut(index - 1) {
                *element = value;
                return Ok(());
            }
            if index == self.array.len() + 1 && !value.is_nil() {
                self.remove(Key::Number(number.to_bits()));
                self.push(value);
                return Ok(());
            }
        }
        let key = match Key::of(key) {
            Some(key) => key,
            None if key.is_nil() => return Err(KeyFault::Nil),
            None => return Err(KeyFault::NotANumber),
        };
        if value.is_nil() {
            self.remove(key);
        } else {
            self.insert(key, value);
        }
        Ok(())
    }

    fn remove(&mut self, key: Key) {
        if let Some(place) = self.hash.get_mut(&key)
            && !place.is_nil()
        {
            *place = Value::Nil;
            self.removed += 1;
        }
    }

    fn insert(&mut self, key: Key, value: Value) {
        if let Some(place) = self.hash.get_mut(&key) {
            if place.is_nil() {
                self.removed -= 1;
            }
            *place = value;
            return;
        }
        if self.removed >= REMOVED_MIN && self.removed > self.hash.len() / 2 {
            self.hash.retain(|_, value| !value.is_nil());
            self.removed = 0;
        }
        self.hash.insert(key, value);
    }

    /// Adds an element behind the array, and those that follow it and were kept by their keys.
    pub(crate) fn push(&mut self, value: Value) {
        self.array.push(value);
        while self.hash.len() > self.removed {
            let next = Key::Number(((self.array.len() + 1) as f64).to_bits());
            let Some(place) = self.hash.get_mut(&next).filter(|value| !value.is_nil()) else { break };
            let value = std::mem::take(place);
            self.removed += 1;
            self.array.push(value);
        }
    }

    /// A border: the value there is not nil, and the next is nil.
    pub(crate) fn border(&self) -> usize {
        let length = self.array.len();
        if self.array.last().is_some_and(|last| last.is_nil()) {
            let (mut low, mut high) = (0, length);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.at(middle).is_nil() { high = middle } else { low = middle }
            }
            return low;
        }
        if self.hash.len() == self.removed || self.at(length + 1).is_nil() {
            return length;
        }
        self.border_behind(length)
    }

    /// A border among the keys behind the array: doubles until nothing is there, then halves.
    fn border_behind(&self, length: usize) -> usize {
        let (mut low, mut high) = (length, length + 1);
        while !self.at(high).is_nil() {
            low = high;
            let Some(next) = high.checked_mul(2).filter(|next| *next < 1 << 53) else { return low };
            high = next;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.at(middle).is_nil() { high = middle } else { low = middle }
        }
        low
    }

    /// The entry behind a key, and how many places were looked at. The key nil is before the first. `None`: there is no such key.
    pub(crate) fn next(&self, key: Value) -> Option<(Option<(Value, Value)>, usize)> {
        let (mut element, mut entry) = (0, 0);
        match key {
            Value::Nil => {}
            Value::Number(number) if index_of(number).is_some_and(|index| index <= self.array.len()) => {
                element = index_of(number)?;
            }
            _ => {
                element = self.array.len();
                entry = self.hash.get_index_of(&Key::of(key)?)? + 1;
            }
        }
        let mut looked = 1;
        while let Some(value) = self.array.get(element) {
            element += 1;
            if !value.is_nil() {
                return Some((Some((Value::Number(element as f64), *value)), looked));
            }
            looked += 1;
        }
        while let Some((key, value)) = self.hash.get_index(entry) {
            entry += 1;
            if !value.is_nil() {
                return Some((Some((key.value(), *value)), looked));
            }
            looked += 1;
        }
        Some((None, looked))
    }

    /// The largest index with a value.
    pub(crate) fn largest(&self) -> f64 {
        let element =
            self.array.iter().rposition(|value| !value.is_nil()).map_or(0.0, |place| (place + 1) as f64);
        self.hash.iter().fold(element, |largest, (key, value)| match key {
            Key::Number(bits) if !value.is_nil() => f64::from_bits(*bits).max(largest),
            _ => largest,
        })
    }

    /// How many entries it has, removed ones among them.
    pub(crate) fn places(&self) -> usize {
        self.array.len() + self.hash.len()
    }

    /// Everything it refers to.
    pub(crate) fn each(&self, mut mark: impl FnMut(Value)) {
        for value in &self.array {
            mark(*value);
        }
        for (key, value) in &self.hash {
            // The key of what was removed stays one, since `next` may ask for it.
            mark(key.value());
            mark(*value);
        }
    }

    /// Whether a key is that of the element behind the array.
    pub(crate) fn is_next(&self, key: Value) -> bool {
        matches!(key, Value::Number(number) if index_of(number) == Some(self.array.len() + 1))
    }

    /// Whether its array can take an element without growing.
    pub(crate) fn has_room(&self) -> bool {
        self.array.len() < self.array.capacity()
    }

    /// Lets its array hold so many more elements.
    pub(crate) fn reserve(&mut self, elements: usize) {
        self.array.reserve(elements);
    }
}
