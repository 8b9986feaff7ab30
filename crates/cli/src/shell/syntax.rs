//! The shell's language: a line is statements between `;`, a statement is words between blanks, perhaps behind
//! the number of the session it is for (`2: SADD k x`).
//!
//! Quoting is that of redis-cli: in double quotes `\n`, `\r`, `\t`, `\b`, `\a`, `\\`, `\"` and `\xHH`; in single
//! quotes only `\'`. `;` and `#` (a comment, where it begins a statement) count outside quotes only. A line with a
//! mistake in it is refused as a whole, before anything of it runs. What the words mean is no concern of this
//! file.

use claret_types::Bytes;
use thiserror::Error;

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// The session it names, if it names one.
    pub(crate) session: Option<u32>,
    /// At least one.
    pub(crate) words: Vec<Bytes>,
    /// As it was written, without the session: what later messages call it.
    pub(crate) text: String,
}

/// Why a line is not in the language. Columns count bytes from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SyntaxError {
    #[error("the quote at column {0} is not closed; close it")]
    OpenQuote(usize),
    #[error("something follows the closing quote at column {0}; put a space or ';' there")]
    AfterQuote(usize),
    #[error("'{0}:' names no session; sessions are 1 to {max}", max = SESSIONS_MAX)]
    NoSession(String),
    #[error("'{0}:' stands alone; write a command after it, or SESSION {0} to switch")]
    NoCommand(u32),
}

/// The highest number of a session.
pub(crate) const SESSIONS_MAX: u32 = 99;

/// Reads a line.
pub(crate) fn statements(line: &[u8]) -> Result<Vec<Statement>, SyntaxError> {
    let mut reader = Reader { line, at: 0 };
    let mut statements = Vec::new();
    while reader.skip_to_statement() {
        statements.push(reader.statement()?);
    }
    Ok(statements)
}

/// The number and the rest of a line that begins with a session's number, as `2: SADD`.
pub(crate) fn session_prefix(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0 && text.get(digits) == Some(&b':')).then(|| (&text[..digits], &text[digits + 1..]))
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Moves to the first byte of the next statement, if there is one.
    fn skip_to_statement(&mut self) -> bool {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b';') => self.at += 1,
                Some(b'#') | None => return false,
                Some(_) => return true,
            }
        }
    }

    fn statement(&mut self) -> Result<Statement, SyntaxError> {
        let mut session = None;
        if let Some((digits, rest)) = session_prefix(&self.line[self.at..]) {
            let digits = String::from_utf8_lossy(digits).into_owned();
            let number = digits.parse().ok().filter(|number| (1..=SESSIONS_MAX).contains(number));
            session = Some(number.ok_or(SyntaxError::NoSession(digits))?);
            self.at = self.line.len() - rest.len();
            self.skip_blanks();
        }
        let begin = self.at;
        let mut words = Vec::new();
        while let Some(byte) = self.peek().filter(|byte| *byte != b';') {
            words.push(if matches!(byte, b'"' | b'\'') { self.quoted(byte)? } else { self.bare() });
            self.skip_blanks();
        }
        if words.is_empty() {
            return Err(SyntaxError::NoCommand(session.unwrap_or_default()));
        }
        let text = String::from_utf8_lossy(&self.line[begin..self.at]).trim_end().to_owned();
        Ok(Statement { session, words, text })
    }

    fn bare(&mut self) -> Bytes {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte != b';' && !byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        Bytes::from(&self.line[begin..self.at])
    }

    fn quoted(&mut self, quote: u8) -> Result<Bytes, SyntaxError> {
        let open = self.at;
        self.at += 1;
        let mut content = Vec::new();
        loop {
            let byte = self.peek().ok_or(SyntaxError::OpenQuote(open + 1))?;
            self.at += 1;
            match byte {
                _ if byte == quote => break,
                b'\\' if quote == b'"' => content.push(self.escaped(open)?),
                b'\\' if self.peek() == Some(b'\'') => {
                    content.push(b'\'');
                    self.at += 1;
                }
                _ => content.push(byte),
            }
        }
        match self.peek() {
            Some(byte) if byte != b';' && !byte.is_ascii_whitespace() => {
                Err(SyntaxError::AfterQuote(self.at))
            }
            _ => Ok(Bytes::from(content)),
        }
    }

    /// The byte that an escape in double quotes stands for; the backslash is behind.
    fn escaped(&mut self, open: usize) -> Result<u8, SyntaxError> {
        let byte = self.peek().ok_or(SyntaxError::OpenQuote(open + 1))?;
        self.at += 1;
        if byte == b'x'
            && let Some(value) = self.line.get(self.at..self.at + 2).and_then(hex)
        {
            self.at += 2;
            return Ok(value);
        }
        Ok(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'a' => 7,
            other => other,
        })
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let statements = statements(line).expect("in the language");
        statements.iter().map(|it| it.words.iter().map(|word| word.to_vec()).collect()).collect()
    }

    #[test]
    fn words_quotes_and_escapes() {
        assert_eq!(words(b"  SADD  k\ta "), [[b"SADD".to_vec(), b"k".to_vec(), b"a".to_vec()]]);
        assert_eq!(words(br#"S "a b" 'c"d' """#), [[&b"S"[..], b"a b", b"c\"d", b""].map(<[u8]>::to_vec)]);
        assert_eq!(
            words(br#"S "\x00\xfFz\n\t\"\\" 'it\'s\n'"#)[0][1..],
            [b"\x00\xffz\n\t\"\\".to_vec(), b"it's\\n".to_vec()]
        );
        assert_eq!(words(br#"S "\xg1""#)[0][1], b"xg1");
    }

    #[test]
    fn statements_and_comments() {
        let line = statements(b"; 12:SADD k 'a;b';;SCARD k; # the rest ; is not read").unwrap();
        let texts: Vec<_> = line.iter().map(|it| (it.session, it.text.as_str())).collect();
        assert_eq!(texts, [(Some(12), "SADD k 'a;b'"), (None, "SCARD k")]);
        assert_eq!(statements(b"# nothing"), Ok(Vec::new()));
        assert_eq!(words(b"SADD k #1")[0][2], b"#1");
    }

    #[test]
    fn mistakes_name_their_place() {
        assert_eq!(statements(b"GET \"k"), Err(SyntaxError::OpenQuote(5)));
        assert_eq!(statements(b"GET \"k\\"), Err(SyntaxError::OpenQuote(5)));
        assert_eq!(statements(b"GET 'k'x"), Err(SyntaxError::AfterQuote(7)));
        assert_eq!(statements(b"0: GET k"), Err(SyntaxError::NoSession("0".into())));
        assert_eq!(statements(b"99999999999: GET k"), Err(SyntaxError::NoSession("99999999999".into())));
        assert_eq!(statements(b"SCARD k; 2: ; SCARD k"), Err(SyntaxError::NoCommand(2)));
    }
}
