//! JSON values: reading and writing them.
//!
//! Integers of 64 bits stay exact, any other number is a 64-bit float. Members of objects are in bytewise order of their
//! names, and of two with one name the last counts. So a value has one text, and equal values have equal texts. Reading
//! is bounded in depth (`serde_json` reads no more than 127 levels), whatever it is given.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{Bytes, OpError};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i64),
    /// Finite.
    Float(f64),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads a JSON text. O(length).
    ///
    /// # Errors
    /// It is none, or nested more than 127 levels deep; the error says in which line and column.
    pub fn parse(given: &Bytes) -> Result<Self, OpError> {
        serde_json::from_slice(given).map_err(|error| OpError::Argument {
            given: given.to_string(),
            expected: format!("JSON ({error})").into(),
        })
    }

    /// The text, without spaces. A float has the fewest digits that are read back as it. O(size).
    pub fn to_text(&self) -> Bytes {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes all that is written");
        Bytes::from(text)
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        match self {
            // How Rust shows it, and no version of a library: it names a value for as long as there is the document.
            Json::Float(value) if value.is_finite() => write!(text, "{value:?}"),
            Json::Null | Json::Float(_) => text.write_str("null"),
            Json::Bool(value) => write!(text, "{value}"),
            Json::Int(value) => write!(text, "{value}"),
            Json::Text(value) => text.write_str(&quoted(value)),
            Json::Array(items) => {
                text.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    text.write_str(if at == 0 { "" } else { "," })?;
                    item.write(text)?;
                }
                text.write_char(']')
            }
            Json::Object(members) => {
                text.write_char('{')?;
                for (at, (name, value)) in members.iter().enumerate() {
                    text.write_str(if at == 0 { "" } else { "," })?;
                    write!(text, "{}:", quoted(name))?;
                    value.write(text)?;
                }
                text.write_char('}')
            }
        }
    }

    /// What `JSON.TYPE` calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Int(_) => "integer",
            Json::Float(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// How deep it is nested: 1 for what has nothing in it. O(size).
    pub fn depth(&self) -> usize {
        match self {
            Json::Array(items) => 1 + items.iter().map(Json::depth).max().unwrap_or(0),
            Json::Object(members) => 1 + members.values().map(Json::depth).max().unwrap_or(0),
            _ => 1,
        }
    }

    /// A float in it that is not finite, as a program can build it: that has no text.
    pub(super) fn not_finite(&self) -> Option<f64> {
        match self {
            Json::Float(value) => (!value.is_finite()).then_some(*value),
            Json::Array(items) => items.iter().find_map(Json::not_finite),
            Json::Object(members) => members.values().find_map(Json::not_finite),
            _ => None,
        }
    }

    /// What is at the end of these names, if they lead through objects to something.
    pub fn at(&self, names: &[String]) -> Option<&Json> {
        match (names, self) {
            ([], _) => Some(self),
            ([name, rest @ ..], Json::Object(members)) => members.get(name)?.at(rest),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyJson)
    }
}

struct AnyJson;

impl<'de> Visitor<'de> for AnyJson {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Float(value as f64), Json::Int))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        if value.is_finite() { Ok(Json::Float(value)) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = elements.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(name) = entries.next_key::<String>()? {
            members.insert(name, entries.next_value()?);
        }
        Ok(Json::Object(members))
    }
}

/// A name as a JSON text.
pub(super) fn quoted(name: &str) -> String {
    serde_json::to_string(name).expect("text has a JSON text")
}

/// Reads a name in quotes, as JSON writes it or in single ones: the name, and how many bytes it takes with its quotes.
///
/// # Errors
/// What it is not.
pub(super) fn quoted_name(text: &str, quote: char) -> Result<(String, usize), &'static str> {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, it)| {
        let is_end = *it == quote && !is_escaped;
        is_escaped = *it == '\\' && !is_escaped;
        is_end
    });
    let Some((end, _)) = end else { return Err("no name in quotes that ends,") };
    let as_json = if quote == '"' { text[..=end].to_owned() } else { in_double_quotes(&text[1..end]) };
    let name = serde_json::from_str(&as_json);
    Ok((name.map_err(|_| "a name in quotes that JSON would not write (see its escapes),")?, end + 1))
}

/// What stands in single quotes. Only these are written otherwise.
fn in_double_quotes(inner: &str) -> String {
    let mut name = String::from("\"");
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => name.push_str("\\\""),
            '\\' => match letters.next() {
                Some('\'') => name.push('\''),
                other => name.extend(['\\'].into_iter().chain(other)),
            },
            other => name.push(other),
        }
    }
    name.push('"');
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Json, OpError> {
        Json::parse(&Bytes::from(text))
    }

    #[test]
    fn a_value_has_one_text() {
        for (given, written) in [
            (" { \"b\" : 1 , \"a\" : [ 1.0 , null ] } ", "{\"a\":[1.0,null],\"b\":1}"),
            ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-0", "-0.0"),
            ("1e2", "100.0"),
            ("\"\\u00e9\\n\"", "\"é\\n\""),
            ("true", "true"),
        ] {
            let value = read(given).expect(given);
            assert_eq!(value.to_text(), Bytes::from(written), "{given}");
            assert_eq!(Json::parse(&value.to_text()), Ok(value));
        }
        assert_eq!(read("9223372036854775808"), Ok(Json::Float(9_223_372_036_854_775_808.0)));
    }

    /// Bug: a float was read without rounding it right, so one in ten changed by a bit whenever it was read. Consequence: a
    /// document was not what somebody had written, nor what its own text said. Mend: it is read exactly, and its text, the
    /// shortest that is read as it, is Rust's own.
    #[test]
    fn a_float_is_read_as_what_was_written() {
        let mut bits = 0x636c_6172_6574_u64;
        let random = std::iter::repeat_with(|| {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from_bits(bits ^ (bits >> 29))
        });
        let chosen =
            [985.6906946328695, -0.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, 1e16, 1e-7, 1e23, 0.1 + 0.2];
        for float in chosen.into_iter().chain(random.filter(|it| it.is_finite()).take(200_000)) {
            let text = Json::Float(float).to_text();
            let Ok(Json::Float(again)) = Json::parse(&text) else { panic!("{float:?}: {text}") };
            assert_eq!(again.to_bits(), float.to_bits(), "{float:?}: {text}");
            assert_eq!(Json::Float(again).to_text(), text);
        }
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_position() {
        for (given, says) in [
            ("", "line 1 column 0"),
            ("{\"a\":}", "line 1 column 6"),
            ("[1,\n2,]", "line 2 column 3"),
            ("{a:1}", "line 1 column 2"),
            ("nul", "line 1 column 3"),
            ("1 2", "line 1 column 3"),
            ("1e999", "number out of range at line 1 column 5"),
            ("NaN", "line 1 column 1"),
            ("\"\\ud800\"", "line 1 column"),
        ] {
            let error = read(given).expect_err(given).to_string();
            assert!(error.contains("is not JSON (") && error.contains(says), "{given}: {error}");
        }
        assert!(Json::parse(&Bytes::from(&b"\"\xff\""[..])).is_err());
    }

    /// Its reader is a recursion, and so must not be led on.
    #[test]
    fn deep_json_is_refused() {
        let error = read(&"[".repeat(1 << 20)).expect_err("too deep").to_string();
        assert!(error.contains("recursion limit exceeded at line 1 column 128"), "{error}");
        assert_eq!(
            read(&format!("{}1{}", "[".repeat(100), "]".repeat(100))).expect("not too deep").depth(),
            101
        );
    }
}
