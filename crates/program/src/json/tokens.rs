//! What JSON is made of, one token after the other.

use super::JsonOptions;
use crate::data::{Budget, NUMBER_STEPS, of_bytes, of_each_byte};
use crate::number;

/// A token with its value.
#[derive(Debug, PartialEq)]
pub(super) enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    End,
    Null,
    Bool(bool),
    Number(f64),
    Text(Vec<u8>),
}

impl Token {
    /// As errors of `cjson` name it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Null => "T_NULL",
            Token::Bool(_) => "T_BOOLEAN",
            Token::Number(_) => "T_NUMBER",
            Token::Text(_) => "T_STRING",
        }
    }
}

/// Something else than what was expected.
pub(super) fn unexpected(expected: &str, found: &str, place: usize) -> String {
    format!("Expected {expected} but found {found} at character {}", place.saturating_add(1))
}

/// Reads a text from its begin.
pub(super) struct Tokens<'a, 'b> {
    pub(super) text: &'a [u8],
    /// The next byte.
    pub(super) place: usize,
    /// Where the last token began.
    pub(super) begin: usize,
    pub(super) options: &'b JsonOptions,
    pub(super) budget: &'b mut Budget,
}

impl<'a> Tokens<'a, '_> {
    /// The next token. `expected` is for errors.
    ///
    /// # Errors
    /// There is none, in the words of `cjson`; or the budget is spent.
    pub(super) fn next(&mut self, expected: &str) -> Result<Token, String> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let spaces = self.rest().iter().take_while(|byte| is_space(byte)).count();
        self.budget.spend(of_bytes(spaces))?;
        self.begin = self.place.saturating_add(spaces);
        self.place = self.begin;
        let (token, length) = match self.rest() {
            [] | [0, ..] => (Token::End, 0),
            [b'{', ..] => (Token::ObjectBegin, 1),
            [b'}', ..] => (Token::ObjectEnd, 1),
            [b'[', ..] => (Token::ArrayBegin, 1),
            [b']', ..] => (Token::ArrayEnd, 1),
            [b',', ..] => (Token::Comma, 1),
            [b':', ..] => (Token::Colon, 1),
            [b't', b'r', b'u', b'e', ..] => (Token::Bool(true), 4),
            [b'f', b'a', b'l', b's', b'e', ..] => (Token::Bool(false), 5),
            [b'n', b'u', b'l', b'l', ..] => (Token::Null, 4),
            [b'"', ..] => {
                self.place = self.begin.saturating_add(1);
                return self.string(expected).map(Token::Text);
            }
            [b'-' | b'0'..=b'9', ..] => match self.number()? {
                Some(found) => found,
                None => return Err(unexpected(expected, "invalid number", self.begin)),
            },
            [b'+' | b'i' | b'I' | b'n' | b'N', ..] if self.options.decode_invalid_numbers => {
                // A sign always begins a number. A letter does only if it begins the name of one.
                match (self.number()?, self.rest()) {
                    (Some(found), _) => found,
                    (None, [b'+', ..]) => return Err(unexpected(expected, "invalid number", self.begin)),
                    (None, _) => return Err(unexpected(expected, "invalid token", self.begin)),
                }
            }
            _ => return Err(unexpected(expected, "invalid token", self.begin)),
        };
        self.place = self.begin.saturating_add(length);
        Ok(token)
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.place..).unwrap_or_default()
    }

    /// A number and its length.
    fn number(&mut self) -> Result<Option<(Token, usize)>, String> {
        let text = self.rest();
        if !self.options.decode_invalid_numbers && !is_of_json(text) {
            return Ok(None);
        }
        let Some((number, rest)) = number::prefix(text) else { return Ok(None) };
        let length = text.len().saturating_sub(rest.len());
        self.budget.spend(NUMBER_STEPS.saturating_add(of_bytes(length)))?;
        Ok(Some((Token::Number(number), length)))
    }

    /// What follows a quote, to the next one.
    fn string(&mut self, expected: &str) -> Result<Vec<u8>, String> {
        // What an escape stands for is shorter than the escape.
        let length = quoted_length(self.rest());
        self.budget.spend(of_each_byte(length))?;
        self.budget.take(length as u64)?;
        let mut text = Vec::with_capacity(length);
        loop {
            let plain = self.rest().iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0)).count();
            text.extend_from_slice(self.rest().get(..plain).unwrap_or_default());
            self.place = self.place.saturating_add(plain);
            match self.rest() {
                [b'"', ..] => {
                    self.place = self.place.saturating_add(1);
                    return Ok(text);
                }
                [b'\\', b'u', digits @ ..] => {
                    let Some((letter, length)) = unicode(digits) else {
                        return Err(unexpected(expected, "invalid unicode escape code", self.place));
                    };
                    text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    self.place = self.place.saturating_add(length).saturating_add(2);
                }
                [b'\\', letter, ..] if unescaped(*letter).is_some() => {
                    text.extend(unescaped(*letter));
                    self.place = self.place.saturating_add(2);
                }
                [b'\\', ..] => return Err(unexpected(expected, "invalid escape code", self.place)),
                _ => return Err(unexpected(expected, "unexpected end of string", self.place)),
            }
        }
    }
}

/// Whether a number begins as JSON's may, and not as others that `strtod` reads.
fn is_of_json(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0', second, ..] => !matches!(second, b'x' | b'X' | b'0'..=b'9'),
        [first, ..] => *first <= b'9',
        [] => true,
    }
}

/// Bytes to the closing quote, or to where the text ends.
fn quoted_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == 0 || *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

fn unescaped(letter: u8) -> Option<u8> {
    match letter {
        b'"' | b'\\' | b'/' => Some(letter),
        b'b' => Some(8),
        b't' => Some(9),
        b'n' => Some(10),
        b'f' => Some(12),
        b'r' => Some(13),
        _ => None,
    }
}

/// The character of what follows `\u`, and how many bytes say it: of two surrogates, more.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let first = hexadecimal(text)?;
    if let Some(letter) = char::from_u32(first) {
        return Some((letter, 4));
    }
    let second = hexadecimal(text.get(4..)?.strip_prefix(b"\\u")?)?;
    let high = first.checked_sub(0xd800).filter(|high| *high < 0x400)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x10000 + (high << 10 | low))?, 10))
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    text.get(..4)?.iter().try_fold(0, |value, byte| Some(value << 4 | char::from(*byte).to_digit(16)?))
}
