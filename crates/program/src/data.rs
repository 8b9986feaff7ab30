//! What the libraries of scripts take and give: plain values, and the budget out of which all their work is paid.

use std::fmt;

/// What a script may still spend. Both only fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Steps.
    pub fuel: u64,
    /// Bytes of memory.
    pub bytes: u64,
}

/// A budget has less left than was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// Too few steps.
    Fuel,
    /// Too few bytes.
    Bytes,
}

/// What one value takes of a budget when it is put into an array or map, which may have grown to twice its length.
const SLOT_BYTES: u64 = 2 * size_of::<Data>() as u64;

impl Budget {
    /// Pays for `steps`.
    ///
    /// # Errors
    /// [`Spent::Fuel`] if fewer are left; then none is left.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Spent> {
        fall(&mut self.fuel, steps).ok_or(Spent::Fuel)
    }

    /// Pays for `bytes` of memory. Call it before the memory is taken.
    ///
    /// # Errors
    /// [`Spent::Bytes`] if fewer are left; then none is left.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Spent> {
        fall(&mut self.bytes, bytes).ok_or(Spent::Bytes)
    }

    /// Pays for `length` bytes that are read or copied once, and kept.
    ///
    /// # Errors
    /// As of [`Budget::spend`] and [`Budget::take`].
    pub(crate) fn copy(&mut self, length: usize) -> Result<(), Spent> {
        self.spend(of_bytes(length))?;
        self.take(length as u64)
    }

    /// Pays for `length` bytes that are written behind others, into what may have grown to twice its length.
    ///
    /// # Errors
    /// As of [`Budget::spend`] and [`Budget::take`].
    pub(crate) fn write(&mut self, length: usize) -> Result<(), Spent> {
        self.spend(of_bytes(length))?;
        self.take((length as u64).saturating_mul(2))
    }

    /// Pays for one value in an array or map.
    ///
    /// # Errors
    /// As of [`Budget::spend`] and [`Budget::take`].
    pub(crate) fn slot(&mut self) -> Result<(), Spent> {
        self.spend(1)?;
        self.take(SLOT_BYTES)
    }
}

/// Steps that it costs to read or copy so many bytes at once.
pub(crate) fn of_bytes(length: usize) -> u64 {
    1 + length as u64 / 16
}

/// Steps that it costs to look at so many bytes one by one.
pub(crate) fn of_each_byte(length: usize) -> u64 {
    1 + length as u64 / 4
}

/// Steps that it costs to show or to read one number.
pub(crate) const NUMBER_STEPS: u64 = 8;

/// `None` if less is left, and then nothing is.
fn fall(left: &mut u64, by: u64) -> Option<()> {
    let after = left.checked_sub(by);
    *left = after.unwrap_or_default();
    after.map(|_| ())
}

impl fmt::Display for Spent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Spent::Fuel => "script took too many steps",
            Spent::Bytes => "not enough memory",
        })
    }
}

impl From<Spent> for String {
    fn from(spent: Spent) -> Self {
        spent.to_string()
    }
}

/// A value that a library takes or gives, apart from any interpreter.
///
/// Nested no deeper than the library that made it allows: so dropping one is bounded, too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    /// `nil`.
    Nil,
    /// `cjson.null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string of any bytes.
    Text(Vec<u8>),
    /// A table with the keys 1 to n; a `Nil` in it is a hole.
    Array(Vec<Data>),
    /// A table with any keys, as pairs. If a key is there twice, the last pair counts, even if its value is `Nil`.
    Map(Vec<(Data, Data)>),
}

impl Data {
    /// The name of its type in Lua.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Data::Nil => "nil",
            Data::Null => "userdata",
            Data::Bool(_) => "boolean",
            Data::Number(_) => "number",
            Data::Text(_) => "string",
            Data::Array(_) | Data::Map(_) => "table",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::number::general;

    /// A value that a table of cases can hold.
    pub(crate) enum Given {
        Nil,
        Null,
        Bool(bool),
        Number(f64),
        Text(&'static [u8]),
        Map(&'static [(Given, Given)]),
    }

    impl Given {
        pub(crate) fn data(&self) -> Data {
            match self {
                Given::Nil => Data::Nil,
                Given::Null => Data::Null,
                Given::Bool(bool) => Data::Bool(*bool),
                Given::Number(number) => Data::Number(*number),
                Given::Text(text) => Data::Text(text.to_vec()),
                Given::Map(pairs) => {
                    Data::Map(pairs.iter().map(|(key, value)| (key.data(), value.data())).collect())
                }
            }
        }
    }

    /// A value as tests show it: a table as its pairs, in the order of their texts.
    pub(crate) fn shown(data: &Data) -> String {
        let pairs: Vec<(String, String)> = match data {
            Data::Nil => return "nil".to_owned(),
            Data::Null => return "null".to_owned(),
            Data::Bool(bool) => return bool.to_string(),
            Data::Number(number) if number.is_nan() => return "nan".to_owned(),
            Data::Number(number) => return general(*number, 17),
            Data::Text(text) => return format!("\"{}\"", text.escape_ascii()),
            Data::Array(items) => {
                (1u32..).zip(items).map(|(key, item)| (key.to_string(), shown(item))).collect()
            }
            Data::Map(pairs) => pairs.iter().map(|(key, value)| (shown(key), shown(value))).collect(),
        };
        let mut last = std::collections::BTreeMap::new();
        last.extend(pairs);
        let pairs = last.into_iter().filter(|(_, value)| value != "nil");
        let mut pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}: {value}")).collect();
        pairs.sort();
        format!("{{{}}}", pairs.join(", "))
    }

    #[test]
    fn a_budget_only_falls() {
        let mut budget = Budget { fuel: 3, bytes: 10 };
        assert_eq!(budget.spend(2), Ok(()));
        assert_eq!(budget.take(10), Ok(()));
        assert_eq!(budget.spend(2), Err(Spent::Fuel));
        assert_eq!(budget.take(1), Err(Spent::Bytes));
        assert_eq!(budget, Budget { fuel: 0, bytes: 0 });
    }
}
