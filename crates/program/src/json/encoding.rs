//! Values to JSON.

use std::iter::Enumerate;
use std::{slice, vec};

use super::{DEPTH_MAX, InvalidNumbers, JsonOptions};
use crate::data::{Budget, Data, NUMBER_STEPS, of_each_byte};
use crate::number;

/// A larger key makes a table an object.
const INDEX_MAX: f64 = i32::MAX as f64;

static NIL: Data = Data::Nil;

/// Writes `data` behind what `out` has. A table whose keys are all positive integers is an array, and any other one, or an empty one, an
/// object.
///
/// # Errors
/// In the words of `cjson`: the data has what JSON cannot say, or is nested too deep. Or the budget is spent. Then `out` has a part.
pub(crate) fn encode(
    data: &Data,
    options: &JsonOptions,
    out: &mut Vec<u8>,
    budget: &mut Budget,
) -> Result<(), String> {
    let mut writer = Writer { options, out, budget, open: Vec::new() };
    writer.value(data)?;
    while let Some(table) = writer.open.last_mut() {
        match table.next() {
            Some((key, value)) => {
                let is_first = !std::mem::replace(&mut table.has_begun, true);
                if !is_first {
                    writer.put(b",")?;
                }
                match key {
                    Key::None => {}
                    Key::Index(index) => writer.number_key(index as f64)?,
                    Key::Data(key) => writer.key(key)?,
                }
                writer.value(value)?;
            }
            None => {
                let end = table.end();
                writer.open.pop();
                writer.put(end)?;
            }
        }
    }
    Ok(())
}

/// A table of which a part is written.
struct Table<'a> {
    items: Items<'a>,
    has_begun: bool,
}

enum Items<'a> {
    /// An array.
    Listed(slice::Iter<'a, Data>),
    /// An array whose elements came in any order.
    Placed(vec::IntoIter<&'a Data>),
    /// An object from an array, without its holes.
    Indexed(Enumerate<slice::Iter<'a, Data>>),
    /// An object.
    Pairs(slice::Iter<'a, (Data, Data)>),
}

enum Key<'a> {
    None,
    Index(usize),
    Data(&'a Data),
}

impl<'a> Table<'a> {
    fn next(&mut self) -> Option<(Key<'a>, &'a Data)> {
        match &mut self.items {
            Items::Listed(items) => items.next().map(|value| (Key::None, value)),
            Items::Placed(items) => items.next().map(|value| (Key::None, value)),
            Items::Indexed(items) => items
                .find(|(_, value)| **value != Data::Nil)
                .map(|(place, value)| (Key::Index(place.saturating_add(1)), value)),
            Items::Pairs(pairs) => {
                pairs.find(|(_, value)| *value != Data::Nil).map(|(key, value)| (Key::Data(key), value))
            }
        }
    }

    fn is_object(&self) -> bool {
        matches!(self.items, Items::Indexed(_) | Items::Pairs(_))
    }

    fn begin(&self) -> &'static [u8] {
        if self.is_object() { b"{" } else { b"[" }
    }

    fn end(&self) -> &'static [u8] {
        if self.is_object() { b"}" } else { b"]" }
    }
}

struct Writer<'a, 'b> {
    options: &'b JsonOptions,
    out: &'b mut Vec<u8>,
    budget: &'b mut Budget,
    open: Vec<Table<'a>>,
}

impl<'a> Writer<'a, '_> {
    fn put(&mut self, text: &[u8]) -> Result<(), String> {
        self.budget.write(text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// Writes a plain value, or the begin of a table, which is open then.
    fn value(&mut self, data: &'a Data) -> Result<(), String> {
        match data {
            Data::Nil | Data::Null => self.put(b"null"),
            Data::Bool(true) => self.put(b"true"),
            Data::Bool(false) => self.put(b"false"),
            Data::Number(number) => self.number(*number),
            Data::Text(text) => self.text(text),
            Data::Array(items) => {
                let length = items.iter().rposition(|item| *item != Data::Nil).map_or(0, |last| last + 1);
                self.budget.spend(items.len() as u64)?;
                let items = items.get(..length).unwrap_or_default();
                self.deeper()?;
                let count = items.iter().filter(|item| **item != Data::Nil).count();
                let is_array = length > 0 && self.is_array(count, length)?;
                self.begin(if is_array {
                    Items::Listed(items.iter())
                } else {
                    Items::Indexed(items.iter().enumerate())
                })
            }
            Data::Map(pairs) => {
                self.deeper()?;
                let items = self.items(pairs)?;
                self.begin(items)
            }
        }
    }

    fn begin(&mut self, items: Items<'a>) -> Result<(), String> {
        let table = Table { items, has_begun: false };
        self.put(table.begin())?;
        self.budget.slot()?;
        self.open.push(table);
        Ok(())
    }

    /// One more table may be open.
    fn deeper(&self) -> Result<(), String> {
        let depth = self.open.len().saturating_add(1);
        if depth > self.options.max_depth.min(DEPTH_MAX) {
            return Err(format!("Cannot serialise, excessive nesting ({depth})"));
        }
        Ok(())
    }

    /// Whether so many elements are an array of this length.
    fn is_array(&self, count: usize, length: usize) -> Result<bool, String> {
        let JsonOptions { sparse_convert, sparse_ratio, sparse_safe, .. } = *self.options;
        let dense = (count as u64).saturating_mul(sparse_ratio.into());
        let is_sparse = sparse_ratio > 0 && length as u64 > dense && length as u64 > sparse_safe.into();
        if is_sparse && !sparse_convert {
            return Err("Cannot serialise table: excessively sparse array".to_owned());
        }
        Ok(!is_sparse)
    }

    /// An array if all keys are positive integers, and there is one.
    fn items(&mut self, pairs: &'a [(Data, Data)]) -> Result<Items<'a>, String> {
        self.budget.spend(pairs.len() as u64)?;
        let (mut count, mut length) = (0usize, 0usize);
        for (key, _) in present(pairs) {
            let Some(index) = index(key) else { return Ok(Items::Pairs(pairs.iter())) };
            count = count.saturating_add(1);
            length = length.max(index);
        }
        if length == 0 || !self.is_array(count, length)? {
            return Ok(Items::Pairs(pairs.iter()));
        }
        self.budget.spend(length as u64)?;
        self.budget.take((length as u64).saturating_mul(size_of::<&Data>() as u64))?;
        let mut placed = vec![&NIL; length];
        for (key, value) in present(pairs) {
            let place = index(key).and_then(|index| placed.get_mut(index.checked_sub(1)?));
            if let Some(place) = place {
                *place = value;
            }
        }
        Ok(Items::Placed(placed.into_iter()))
    }

    fn key(&mut self, key: &Data) -> Result<(), String> {
        match key {
            Data::Number(number) => self.number_key(*number),
            Data::Text(text) => {
                self.text(text)?;
                self.put(b":")
            }
            other => {
                Err(format!("Cannot serialise {}: table key must be a number or string", other.type_name()))
            }
        }
    }

    fn number_key(&mut self, number: f64) -> Result<(), String> {
        self.put(b"\"")?;
        self.number(number)?;
        self.put(b"\":")
    }

    fn number(&mut self, number: f64) -> Result<(), String> {
        let is_short = number.trunc() == number;
        self.budget.spend(if is_short { NUMBER_STEPS } else { 4 * NUMBER_STEPS })?;
        let digits = self.options.number_precision.clamp(1, 14);
        match self.options.encode_invalid_numbers {
            _ if number.is_finite() && digits == 14 => self.put(number::to_text(number).as_bytes()),
            _ if number.is_finite() => self.put(number::general(number, digits).as_bytes()),
            InvalidNumbers::Refused => Err("Cannot serialise number: must not be NaN or Inf".to_owned()),
            InvalidNumbers::Written if number.is_nan() => self.put(b"nan"),
            InvalidNumbers::Written => self.put(number::general(number, digits).as_bytes()),
            InvalidNumbers::Null => self.put(b"null"),
        }
    }

    fn text(&mut self, text: &[u8]) -> Result<(), String> {
        self.budget.spend(of_each_byte(text.len()))?;
        let length = text.iter().map(|byte| escaped_length(*byte)).fold(2, usize::saturating_add);
        self.budget.write(length)?;
        self.out.reserve(length);
        self.out.push(b'"');
        for byte in text {
            match short_escape(*byte) {
                Some(letter) => self.out.extend_from_slice(&[b'\\', letter]),
                None if is_control(*byte) => {
                    let [high, low] = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
                    self.out.extend_from_slice(b"\\u00");
                    self.out.extend(high.into_iter().chain(low).map(|digit| digit as u8));
                }
                None => self.out.push(*byte),
            }
        }
        self.out.push(b'"');
        Ok(())
    }
}

fn present(pairs: &[(Data, Data)]) -> impl Iterator<Item = &(Data, Data)> {
    pairs.iter().filter(|(_, value)| *value != Data::Nil)
}

/// The place in an array that a key is, from 1.
fn index(key: &Data) -> Option<usize> {
    match key {
        Data::Number(number) if number.trunc() == *number && (1.0..=INDEX_MAX).contains(number) => {
            Some(*number as usize)
        }
        _ => None,
    }
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

fn short_escape(byte: u8) -> Option<u8> {
    match byte {
        8 => Some(b'b'),
        9 => Some(b't'),
        10 => Some(b'n'),
        12 => Some(b'f'),
        13 => Some(b'r'),
        b'"' | b'\\' | b'/' => Some(byte),
        _ => None,
    }
}

fn escaped_length(byte: u8) -> usize {
    match short_escape(byte) {
        Some(_) => 2,
        None if is_control(byte) => 6,
        None => 1,
    }
}
