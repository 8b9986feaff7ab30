//! The text of a script before it is read: how deep it nests, how many words it has, and its bytes as characters.
//!
//! The reader recurses with the nesting of what it reads. So the nesting is bounded first, by a scan that knows words, strings and
//! comments, and no grammar.

use crate::compile::CompileError;

/// The longest text of a script, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// Words and signs of a script at most.
const TOKENS_MAX: usize = 200_000;

/// Blocks and brackets in each other at most.
const NESTING_MAX: usize = 200;

/// Operators of one expression at most, brackets in it apart.
const OPERATORS_MAX: usize = 250;

/// Each byte as the character of its number, since a text need not be UTF-8.
pub(crate) fn characters(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The bytes that became these characters.
pub(crate) fn bytes(characters: &str) -> Vec<u8> {
    characters.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')).collect()
}

/// Checks that a text can be read with bounded means.
///
/// # Errors
///
/// It is too long, or nests too deep. Jumps are named too, which Lua 5.1 does not have.
pub(crate) fn check(text: &[u8]) -> Result<(), CompileError> {
    let mut scan = Scan { text, at: 0, line: 1, line_start: 0, levels: vec![0], tokens: 0 };
    if text.len() > TEXT_BYTES_MAX {
        return Err(scan.refused("a script has at most 1 MiB"));
    }
    scan.all()
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    /// Operators of the expression in each open block or bracket.
    levels: Vec<usize>,
    tokens: usize,
}

impl Scan<'_> {
    fn refused(&self, message: &str) -> CompileError {
        let column = self.at.saturating_sub(self.line_start) + 1;
        CompileError { line: self.line, column: column as u32, message: message.into() }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at.saturating_add(ahead)).copied().unwrap_or_default()
    }

    fn step(&mut self) {
        if self.peek(0) == b'\n' {
            self.line += 1;
            self.line_start = self.at + 1;
        }
        self.at += 1;
    }

    fn all(&mut self) -> Result<(), CompileError> {
        while self.at < self.text.len() {
            let byte = self.peek(0);
            if byte.is_ascii_whitespace() || byte == 0x0b {
                self.step();
                continue;
            }
            if byte == b'-' && self.peek(1) == b'-' {
                self.comment();
                continue;
            }
            self.tokens += 1;
            if self.tokens > TOKENS_MAX {
                return Err(self.refused("a script has at most 200000 words and signs"));
            }
            match byte {
                b'"' | b'\'' => self.string(byte),
                b'[' if self.long_level().is_some() => self.long_string(),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => self.word()?,
                b'0'..=b'9' => self.number(),
                _ => self.sign(byte)?,
            }
        }
        Ok(())
    }

    fn comment(&mut self) {
        self.at += 2;
        if self.peek(0) == b'[' && self.long_level().is_some() {
            self.long_string();
            return;
        }
        while self.at < self.text.len() && self.peek(0) != b'\n' {
            self.at += 1;
        }
    }

    fn string(&mut self, quote: u8) {
        self.step();
        while self.at < self.text.len() {
            let byte = self.peek(0);
            self.step();
            if byte == quote || byte == b'\n' {
                break;
            }
            if byte == b'\\' {
                self.step();
            }
        }
    }

    /// The equals signs between the brackets that open a long string here.
    fn long_level(&self) -> Option<usize> {
        let rest = self.text.get(self.at + 1..)?;
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        (rest.get(level) == Some(&b'[')).then_some(level)
    }

    fn long_string(&mut self) {
        let level = self.long_level().unwrap_or_default();
        self.at += level + 2;
        while self.at < self.text.len() {
            if self.peek(0) == b']' && self.peek(level + 1) == b']' {
                let between = self.text.get(self.at + 1..self.at + 1 + level).unwrap_or_default();
                if between.iter().all(|byte| *byte == b'=') {
                    self.at += level + 2;
                    return;
                }
            }
            self.step();
        }
    }

    fn number(&mut self) {
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'.' {
            let is_exponent = matches!(self.peek(0), b'e' | b'E') && matches!(self.peek(1), b'+' | b'-');
            self.at += if is_exponent { 2 } else { 1 };
        }
    }

    fn word(&mut self) -> Result<(), CompileError> {
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            self.at += 1;
        }
        let word = self.text.get(start..self.at).unwrap_or_default();
        match word {
            b"function" | b"if" | b"do" | b"repeat" => {
                self.reset();
                self.open()
            }
            b"end" | b"until" => {
                self.close();
                self.reset();
                Ok(())
            }
            b"and" | b"or" | b"not" => self.operator(),
            b"local" | b"return" | b"then" | b"else" | b"elseif" | b"while" | b"for" | b"in" | b"break" => {
                self.reset();
                Ok(())
            }
            b"goto" if self.jumps() => {
                self.at = start;
                Err(self.refused("Lua 5.1 has no goto: use if, or a function that returns"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a name follows on the same line, as behind no variable.
    fn jumps(&self) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut rest = rest.iter().skip_while(|byte| **byte == b' ');
        self.peek(0) == b' ' && rest.next().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
    }

    fn sign(&mut self, byte: u8) -> Result<(), CompileError> {
        self.at += 1;
        match byte {
            b'(' | b'[' | b'{' => self.open(),
            b')' | b']' | b'}' => {
                self.close();
                Ok(())
            }
            b',' | b';' => {
                self.reset();
                Ok(())
            }
            b'=' if self.peek(0) == b'=' => {
                self.at += 1;
                self.operator()
            }
            b'=' => {
                self.reset();
                Ok(())
            }
            b'~' | b'<' | b'>' if self.peek(0) == b'=' => {
                self.at += 1;
                self.operator()
            }
            b'.' if self.peek(0) == b'.' => {
                self.at += if self.peek(1) == b'.' { 2 } else { 1 };
                self.operator()
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'#' | b'<' | b'>' => self.operator(),
            b':' | b'.' | b'~' => Ok(()),
            // What is no sign of Lua does not get to the reader, which knows other languages' signs too.
            other => {
                self.at -= 1;
                Err(self.refused(&format!("unexpected symbol near '{}'", other.escape_ascii())))
            }
        }
    }

    fn open(&mut self) -> Result<(), CompileError> {
        self.levels.push(0);
        if self.levels.len() > NESTING_MAX {
            Err(self.refused("blocks and brackets nest too deep"))
        } else {
            Ok(())
        }
    }

    fn close(&mut self) {
        if self.levels.len() > 1 {
            self.levels.pop();
        }
    }

    fn reset(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            *level = 0;
        }
    }

    fn operator(&mut self) -> Result<(), CompileError> {
        if let Some(level) = self.levels.last_mut() {
            *level += 1;
        }
        let open: usize = self.levels.iter().sum();
        if open > OPERATORS_MAX { Err(self.refused("an expression has too many operators")) } else { Ok(()) }
    }
}
