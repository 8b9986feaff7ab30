//! MessagePack to values. It does not recurse: what is nested is on a stack of its own.

use crate::data::{Budget, Data};

/// Tables that may be open at once. Redis's module stops at some thousands, where Lua's stack ends.
const DEPTH_MAX: usize = 1000;

/// The value at `offset`, and where it ends. Binary data and extensions are none, as in Redis's module, and an unsigned integer above
/// 2^63 turns round.
///
/// # Errors
/// In the words of `cmsgpack`: the text ends within a value, has what is no value, or is nested too deep. Or the budget is spent.
pub(crate) fn decode_one(text: &[u8], offset: usize, budget: &mut Budget) -> Result<(Data, usize), String> {
    let mut reader = Reader { text, place: offset, budget };
    let mut open: Vec<Table> = Vec::new();
    loop {
        let mut value = match reader.next()? {
            Part::Value(value) => value,
            Part::Table(table) if table.is_full() => table.done(),
            Part::Table(table) => {
                if open.len() >= DEPTH_MAX {
                    return Err(table.too_deep().to_owned());
                }
                reader.budget.slot()?;
                reader.budget.slot()?;
                open.push(table);
                continue;
            }
        };
        loop {
            let Some(table) = open.last_mut() else { return Ok((value, reader.place)) };
            reader.budget.slot()?;
            table.put(value);
            if !table.is_full() {
                break;
            }
            match open.pop() {
                Some(table) => value = table.done(),
                None => break,
            }
        }
    }
}

/// A table, and how many values it lacks.
enum Table {
    Array(Vec<Data>, u32),
    /// With a key whose value is next.
    Map(Vec<(Data, Data)>, u32, Option<Data>),
}

impl Table {
    fn is_full(&self) -> bool {
        matches!(self, Table::Array(_, 0) | Table::Map(_, 0, _))
    }

    fn put(&mut self, value: Data) {
        match self {
            Table::Array(items, lacking) => {
                items.push(value);
                *lacking = lacking.saturating_sub(1);
            }
            Table::Map(pairs, lacking, key) => match key.take() {
                Some(key) => {
                    pairs.push((key, value));
                    *lacking = lacking.saturating_sub(1);
                }
                None => *key = Some(value),
            },
        }
    }

    fn done(self) -> Data {
        match self {
            Table::Array(items, _) => Data::Array(items),
            Table::Map(pairs, ..) => Data::Map(pairs),
        }
    }

    fn too_deep(&self) -> &'static str {
        match self {
            Table::Array(..) => "stack overflow (in function mp_decode_to_lua_array)",
            Table::Map(..) => "stack overflow (in function mp_decode_to_lua_hash)",
        }
    }
}

enum Part {
    Value(Data),
    Table(Table),
}

struct Reader<'a, 'b> {
    text: &'a [u8],
    place: usize,
    budget: &'b mut Budget,
}

impl<'a> Reader<'a, '_> {
    fn next(&mut self) -> Result<Part, String> {
        self.budget.spend(1)?;
        let [tag] = self.bytes()?;
        let number = match tag {
            0x00..=0x7f => f64::from(tag),
            0xe0..=0xff => f64::from(tag.cast_signed()),
            0xc0 => return Ok(Part::Value(Data::Nil)),
            0xc2 | 0xc3 => return Ok(Part::Value(Data::Bool(tag == 0xc3))),
            0xca => f64::from(f32::from_be_bytes(self.bytes()?)),
            0xcb => f64::from_be_bytes(self.bytes()?),
            0xcc => f64::from(u8::from_be_bytes(self.bytes()?)),
            0xcd => f64::from(u16::from_be_bytes(self.bytes()?)),
            0xce => f64::from(u32::from_be_bytes(self.bytes()?)),
            0xd0 => f64::from(i8::from_be_bytes(self.bytes()?)),
            0xd1 => f64::from(i16::from_be_bytes(self.bytes()?)),
            0xd2 => f64::from(i32::from_be_bytes(self.bytes()?)),
            0xcf | 0xd3 => i64::from_be_bytes(self.bytes()?) as f64,
            0x80..=0x8f => return Ok(map(u32::from(tag & 15))),
            0x90..=0x9f => return Ok(array(u32::from(tag & 15))),
            0xa0..=0xbf => return self.string(u32::from(tag & 31)),
            0xd9..=0xdb => {
                let length = self.length(tag.saturating_sub(0xd9))?;
                return self.string(length);
            }
            0xdc | 0xdd => return self.length(tag.saturating_sub(0xdb)).map(array),
            0xde | 0xdf => return self.length(tag.saturating_sub(0xdd)).map(map),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err("Bad data format in input.".to_owned()),
        };
        Ok(Part::Value(Data::Number(number)))
    }

    /// A length of one byte, of two or of four.
    fn length(&mut self, size: u8) -> Result<u32, String> {
        Ok(match size {
            0 => u32::from(u8::from_be_bytes(self.bytes()?)),
            1 => u32::from(u16::from_be_bytes(self.bytes()?)),
            _ => u32::from_be_bytes(self.bytes()?),
        })
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.slice(N)?;
        bytes.try_into().map_err(|_| missing())
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.place.checked_add(length).ok_or_else(missing)?;
        let bytes = self.text.get(self.place..end).ok_or_else(missing)?;
        self.place = end;
        Ok(bytes)
    }

    fn string(&mut self, length: u32) -> Result<Part, String> {
        let bytes = self.slice(usize::try_from(length).map_err(|_| missing())?)?;
        self.budget.copy(bytes.len())?;
        Ok(Part::Value(Data::Text(bytes.to_vec())))
    }
}

fn array(length: u32) -> Part {
    Part::Table(Table::Array(Vec::new(), length))
}

fn map(length: u32) -> Part {
    Part::Table(Table::Map(Vec::new(), length, None))
}

fn missing() -> String {
    "Missing bytes in input.".to_owned()
}
