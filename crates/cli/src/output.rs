//! What goes to the terminal. Text from servers, files or the command line is escaped, so that none of it commands the
//! terminal, and errors name no password.

use std::fmt::Display;
use std::io::{self, Write};

use claret_redis::without_passwords;

/// Prints a line, as `println!` does. Whether somebody reads it or not, the work goes on, and the exit status says how it went.
/// `println!` and `eprintln!` panic where nobody reads, in the thread that was to do what comes next; the tidy test refuses them.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout().lock(), $($part)*);
    }};
}

/// The same on the standard error.
macro_rules! tell {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($part)*);
    }};
}

pub(crate) use {say, tell};

/// Prints an error, on the standard error.
pub(crate) fn error(what: impl Display) {
    tell!("error: {}", escaped(&without_passwords(&what.to_string())));
}

/// Text in which control characters, but for ends of lines and tabs, stand escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => out.push(character),
            character if character.is_control() => out.extend(character.escape_default()),
            character => out.push(character),
        }
    }
    out
}

/// Writes what is [`shown`] of what is written to it. Bytes that are no text yet wait for those that make them so.
#[derive(Debug)]
pub(crate) struct Escaped<W> {
    inner: W,
    waiting: Vec<u8>,
}

impl<W: Write> Escaped<W> {
    /// A writer before another.
    pub(crate) fn new(inner: W) -> Self {
        Escaped { inner, waiting: Vec::new() }
    }
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.waiting) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.waiting.len(),
        };
        let rest = self.waiting.split_off(whole);
        let text = std::mem::replace(&mut self.waiting, rest);
        self.inner.write_all(escaped(&String::from_utf8_lossy(&text)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_the_terminal() {
        let evil = "a\u{1b}[31m\u{7}\r\n\tb\u{9b}2J\u{e9}";
        assert_eq!(escaped(evil), "a\\u{1b}[31m\\u{7}\\r\n\tb\\u{9b}2J\u{e9}");
        for piece in 1..8 {
            let mut out = Escaped::new(Vec::new());
            evil.as_bytes().chunks(piece).for_each(|bytes| out.write_all(bytes).expect("memory"));
            assert_eq!(String::from_utf8(out.inner).expect("text"), escaped(evil));
        }
        let mut out = Escaped::new(Vec::new());
        out.write_all(b"\xff\x1b\xc2").expect("memory");
        out.write_all(b"x").expect("memory");
        assert_eq!(String::from_utf8(out.inner).expect("text"), "\u{fffd}\\u{1b}\u{fffd}x");
    }
}
