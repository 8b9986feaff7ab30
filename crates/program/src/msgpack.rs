//! `cmsgpack`: values as MessagePack, as the module of Redis 7 writes and reads it.

mod decoding;

pub(crate) use decoding::decode_one;

use crate::data::{Budget, Data};

/// What is nested deeper is written as nil.
const ENCODE_DEPTH_MAX: usize = 16;

/// Writes one value behind what `out` has. A table whose keys are exactly 1 to n is an array, and any other one is a map.
///
/// # Errors
/// The budget is spent. Then `out` has a part.
pub(crate) fn encode(data: &Data, out: &mut Vec<u8>, budget: &mut Budget) -> Result<(), String> {
    Writer { out, budget }.value(data, 0)
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    budget: &'a mut Budget,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.budget.write(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// A byte that says what follows, and what follows.
    fn tagged<const N: usize>(&mut self, tag: u8, bytes: [u8; N]) -> Result<(), String> {
        self.put(&[tag])?;
        self.put(&bytes)
    }

    /// Recurses once for each level, of which there are [`ENCODE_DEPTH_MAX`].
    fn value(&mut self, data: &Data, depth: usize) -> Result<(), String> {
        match data {
            Data::Nil | Data::Null => self.put(&[0xc0]),
            Data::Array(_) | Data::Map(_) if depth >= ENCODE_DEPTH_MAX => self.put(&[0xc0]),
            Data::Bool(bool) => self.put(&[0xc2 | u8::from(*bool)]),
            Data::Number(number) => self.number(*number),
            Data::Text(text) => {
                self.length(text.len(), 0xa0, 31, Some(0xd9), 0xda)?;
                self.put(text)
            }
            Data::Array(items) => self.items(items, depth),
            Data::Map(pairs) => self.pairs(pairs, depth),
        }
    }

    /// How long what follows is: with a short one, a single byte says it.
    fn length(
        &mut self,
        length: usize,
        short: u8,
        most: u8,
        byte: Option<u8>,
        word: u8,
    ) -> Result<(), String> {
        if let Some(length) = u8::try_from(length).ok().filter(|length| *length <= most) {
            return self.put(&[short | length]);
        }
        match (u8::try_from(length), byte, u16::try_from(length), u32::try_from(length)) {
            (Ok(length), Some(tag), ..) => self.tagged(tag, [length]),
            (_, _, Ok(length), _) => self.tagged(word, length.to_be_bytes()),
            (_, _, _, Ok(length)) => self.tagged(word.saturating_add(1), length.to_be_bytes()),
            _ => Err("Value is too long for MessagePack.".to_owned()),
        }
    }

    fn number(&mut self, number: f64) -> Result<(), String> {
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        if number.trunc() == number && (-LIMIT..LIMIT).contains(&number) {
            return self.integer(number as i64);
        }
        let short = number as f32;
        if f64::from(short) == number {
            return self.tagged(0xca, short.to_be_bytes());
        }
        self.tagged(0xcb, number.to_be_bytes())
    }

    /// As short as can be.
    fn integer(&mut self, number: i64) -> Result<(), String> {
        if let Ok(number) = u64::try_from(number) {
            return match (u8::try_from(number), u16::try_from(number), u32::try_from(number)) {
                (Ok(number @ 0..=0x7f), ..) => self.put(&[number]),
                (Ok(number), ..) => self.tagged(0xcc, [number]),
                (_, Ok(number), _) => self.tagged(0xcd, number.to_be_bytes()),
                (_, _, Ok(number)) => self.tagged(0xce, number.to_be_bytes()),
                _ => self.tagged(0xcf, number.to_be_bytes()),
            };
        }
        match (i8::try_from(number), i16::try_from(number), i32::try_from(number)) {
            (Ok(number @ -32..), ..) => self.put(&number.to_be_bytes()),
            (Ok(number), ..) => self.tagged(0xd0, number.to_be_bytes()),
            (_, Ok(number), _) => self.tagged(0xd1, number.to_be_bytes()),
            (_, _, Ok(number)) => self.tagged(0xd2, number.to_be_bytes()),
            _ => self.tagged(0xd3, number.to_be_bytes()),
        }
    }

    fn items(&mut self, items: &[Data], depth: usize) -> Result<(), String> {
        self.budget.spend(items.len() as u64)?;
        let is_there = |item: &&Data| **item != Data::Nil;
        let length = items.iter().rposition(|item| is_there(&item)).map_or(0, |last| last.saturating_add(1));
        let items = items.get(..length).unwrap_or_default();
        let count = items.iter().filter(is_there).count();
        let inner = depth.saturating_add(1);
        if count == length {
            self.array(length)?;
            return items.iter().try_for_each(|item| self.value(item, inner));
        }
        self.map(count)?;
        for (place, item) in items.iter().enumerate().filter(|(_, item)| is_there(item)) {
            self.number(place.saturating_add(1) as f64)?;
            self.value(item, inner)?;
        }
        Ok(())
    }

    fn pairs(&mut self, pairs: &[(Data, Data)], depth: usize) -> Result<(), String> {
        self.budget.spend(pairs.len() as u64)?;
        let present = || pairs.iter().filter(|(_, value)| *value != Data::Nil);
        let count = present().count();
        let inner = depth.saturating_add(1);
        if present().all(|(key, _)| place(key, count).is_some()) {
            self.budget.spend(count as u64)?;
            self.budget.take((count as u64).saturating_mul(size_of::<&Data>() as u64))?;
            let mut items = vec![&Data::Nil; count];
            for (key, value) in present() {
                if let Some(item) = place(key, count).and_then(|place| items.get_mut(place)) {
                    *item = value;
                }
            }
            self.array(count)?;
            return items.into_iter().try_for_each(|item| self.value(item, inner));
        }
        self.map(count)?;
        for (key, value) in present() {
            self.value(key, inner)?;
            self.value(value, inner)?;
        }
        Ok(())
    }

    fn array(&mut self, length: usize) -> Result<(), String> {
        self.length(length, 0x90, 15, None, 0xdc)
    }

    fn map(&mut self, length: usize) -> Result<(), String> {
        self.length(length, 0x80, 15, None, 0xde)
    }
}

/// The place from 0 that a key is in an array of so many elements.
fn place(key: &Data, count: usize) -> Option<usize> {
    match key {
        Data::Number(number) if number.trunc() == *number && *number >= 1.0 && *number <= count as f64 => {
            (*number as usize).checked_sub(1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
