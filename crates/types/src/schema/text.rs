//! A schema as text: a line for each prefix, and for each field below its prefix.
//!
//! ```text
//! # The shop.
//! prefix cart: dict closed
//!   field owner string
//!   field total integer
//! prefix seen: set
//! ```
//!
//! Words are separated by blanks; a word that begins with `#` begins a comment. A word in double quotes may have blanks, and the
//! escapes `\\`, `\"` and `\xHH`. What is written is one text for equal schemas: no comments, prefixes and fields in bytewise order,
//! and quotes where a word needs them.

use std::fmt::{self, Write};

use super::fields::Place;
use super::{FieldType, Fields, SCHEMA_BYTES_MAX, Schema, SchemaError, TypeName, too_large};
use crate::{Bytes, DocumentPath};

impl Schema {
    /// Reads a schema's text. O(its length, and prefixes squared).
    ///
    /// # Errors
    /// It is none: [`SchemaError::Line`] says what is wrong in which line.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(too_large("a schema in bytes", text.len(), SCHEMA_BYTES_MAX));
        }
        let at_line = |line: usize| move |error| SchemaError::Line { line, error: Box::new(error) };
        let mut schema = Schema::new();
        // The line of a prefix that is to be closed once its fields are known.
        let mut closes = None;
        for (line, text) in (1..).zip(text.split('\n')) {
            let words = words(text).map_err(at_line(line))?;
            let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
            let (first, rest) = match &words[..] {
                [] => continue,
                [first, rest @ ..] => (*first, rest),
            };
            match first {
                b"prefix" => {
                    schema = close(schema, &mut closes)?;
                    let is_closed;
                    (schema, is_closed) = schema.read_prefix(rest).map_err(at_line(line))?;
                    closes = is_closed.then_some(line);
                }
                b"field" => schema = schema.read_field(rest).map_err(at_line(line))?,
                _ => return Err(at_line(line)(SchemaError::UnknownWord(Bytes::from(first).to_string()))),
            }
        }
        close(schema, &mut closes)
    }

    fn read_prefix(self, words: &[&[u8]]) -> Result<(Self, bool), SchemaError> {
        let (prefix, kind, is_closed) = match words {
            [prefix, kind] => (*prefix, *kind, false),
            [prefix, kind, b"closed"] => (*prefix, *kind, true),
            [_, _, other, ..] => {
                let other = Bytes::from(*other);
                let text = format!("'{other}' behind a type; only 'closed' may be there");
                return Err(SchemaError::Malformed(text));
            }
            _ => return Err(SchemaError::Malformed("expected 'prefix PREFIX TYPE [closed]'".to_owned())),
        };
        let named = std::str::from_utf8(kind).ok().and_then(TypeName::named);
        let kind = named.ok_or_else(|| SchemaError::UnknownType(Bytes::from(kind).to_string()))?;
        if is_closed && !matches!(kind, TypeName::Dict | TypeName::Document) {
            return Err(SchemaError::NoFields { kind: kind.name() });
        }
        Ok((self.prefix(prefix, kind)?, is_closed))
    }

    fn read_field(self, words: &[&[u8]]) -> Result<Self, SchemaError> {
        let [name, of] = words else {
            return Err(SchemaError::Malformed("expected 'field NAME TYPE'".to_owned()));
        };
        let named = std::str::from_utf8(of).ok().and_then(FieldType::named);
        let of = named.ok_or_else(|| SchemaError::UnknownFieldType(Bytes::from(*of).to_string()))?;
        self.field(*name, of)
    }
}

/// The prefix that was named last has all its fields.
fn close(schema: Schema, closes: &mut Option<usize>) -> Result<Schema, SchemaError> {
    match closes.take() {
        Some(line) => schema.closed().map_err(|error| SchemaError::Line { line, error: Box::new(error) }),
        None => Ok(schema),
    }
}

/// The words of a line.
fn words(line: &str) -> Result<Vec<Bytes>, SchemaError> {
    let mut found = Vec::new();
    let mut rest = line.as_bytes();
    loop {
        while let [b' ' | b'\t' | b'\r', behind @ ..] = rest {
            rest = behind;
        }
        let (word, behind) = match rest {
            [] | [b'#', ..] => return Ok(found),
            [b'"', behind @ ..] => quoted(behind)?,
            _ => {
                let end = rest.iter().position(|it| matches!(it, b' ' | b'\t' | b'\r'));
                let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
                if word.contains(&b'"') {
                    let word = Bytes::from(word);
                    return Err(malformed(format!(
                        "quotes within the word '{word}'; put all of it into quotes"
                    )));
                }
                (Bytes::from(word), behind)
            }
        };
        found.push(word);
        rest = behind;
    }
}

/// A word behind its first quote.
fn quoted(mut rest: &[u8]) -> Result<(Bytes, &[u8]), SchemaError> {
    let mut word = Bytes::default();
    loop {
        rest = match rest {
            [b'"', behind @ ..] if behind.first().is_none_or(|it| b" \t\r".contains(it)) => {
                return Ok((word, behind));
            }
            [b'"', ..] => return Err(malformed("no blank behind a word in quotes".to_owned())),
            [b'\\', it @ (b'\\' | b'"'), behind @ ..] => {
                word.extend(&[*it]);
                behind
            }
            [b'\\', b'x', high, low, behind @ ..] => {
                let digit = |it: u8| char::from(it).to_digit(16);
                let byte = digit(*high).zip(digit(*low)).map(|(high, low)| (high * 16 + low) as u8);
                word.extend(&[
                    byte.ok_or_else(|| malformed("\\x without two hexadecimal digits".to_owned()))?
                ]);
                behind
            }
            [b'\\', ..] => {
                return Err(malformed("a backslash in quotes without \\, \" or xHH behind it".to_owned()));
            }
            [it, behind @ ..] => {
                word.extend(&[*it]);
                behind
            }
            [] => return Err(malformed("quotes that do not end in their line".to_owned())),
        };
    }
}

fn malformed(text: String) -> SchemaError {
    SchemaError::Malformed(text)
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            let closed = if entry.is_closed { " closed" } else { "" };
            writeln!(f, "prefix {} {}{closed}", Word(&entry.prefix), entry.kind.name())?;
            match &entry.fields {
                Fields::None => {}
                Fields::OfDict(fields) => {
                    fields.iter().try_for_each(|(name, of)| write_field(f, name, *of))?;
                }
                Fields::OfDocument(root) => write_places(f, &DocumentPath::root(), root)?,
            }
        }
        Ok(())
    }
}

fn write_field(f: &mut fmt::Formatter<'_>, name: &Bytes, of: FieldType) -> fmt::Result {
    writeln!(f, "  field {} {}", Word(name), of.name())
}

/// An object goes without saying where something is in it.
fn write_places(f: &mut fmt::Formatter<'_>, path: &DocumentPath, place: &Place) -> fmt::Result {
    if place.members.is_empty() {
        return if place.is_named { write_field(f, path.text(), place.of) } else { Ok(()) };
    }
    for (name, member) in &place.members {
        // It was read as a path.
        let path = path.member(name).map_err(|_| fmt::Error)?;
        write_places(f, &path, member)?;
    }
    Ok(())
}

/// A word as [`words`] reads it.
struct Word<'a>(&'a [u8]);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::str::from_utf8(self.0).ok();
        let is_plain = |it: u8| !it.is_ascii_control() && !b" \"\\".contains(&it);
        let begins = self.0.first().is_some_and(|it| *it != b'#');
        match text {
            Some(text) if begins && self.0.iter().all(|it| is_plain(*it)) => return f.write_str(text),
            _ => {}
        }
        f.write_char('"')?;
        match text {
            Some(text) => text.chars().try_for_each(|it| write_escaped(f, it))?,
            None => {
                for byte in self.0 {
                    match byte {
                        0x80.. => write!(f, "\\x{byte:02x}")?,
                        byte => write_escaped(f, char::from(*byte))?,
                    }
                }
            }
        }
        f.write_char('"')
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, it: char) -> fmt::Result {
    match it {
        '"' | '\\' => write!(f, "\\{it}"),
        it if it.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(it)),
        it => f.write_char(it),
    }
}

/// What a prefix adds to the text, `closed` counted.
pub(super) fn size_of_prefix(prefix: &[u8], kind: TypeName) -> usize {
    format!("prefix {} {} closed\n", Word(prefix), kind.name()).len()
}

/// What a field adds to the text.
pub(super) fn size_of_field(name: &[u8], of: FieldType) -> usize {
    format!("  field {} {}\n", Word(name), of.name()).len()
}
