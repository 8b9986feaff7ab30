//! The words of a command as servers read them: how many, numbers, options, and what is said of those that are none.

use std::time::SystemTime;

use claret::keys::Pattern;
use claret_types::{Bytes, is_canonical_integer};

use crate::fault::Fault;

/// What a command's function gets: the words behind its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    /// Of the command, as the table has it.
    pub(crate) name: &'static str,
    pub(crate) rest: &'a [Bytes],
}

impl<'a> Words<'a> {
    /// Just so many words.
    pub(crate) fn exactly<const N: usize>(self) -> Result<&'a [Bytes; N], Fault> {
        self.rest.try_into().map_err(|_| self.wrong_number())
    }

    /// So many words, and what is behind them.
    pub(crate) fn split<const N: usize>(self) -> Result<(&'a [Bytes; N], &'a [Bytes]), Fault> {
        self.rest.split_first_chunk().ok_or_else(|| self.wrong_number())
    }

    /// So many words, and at least so many behind them.
    pub(crate) fn split_before<const N: usize>(
        self,
        min: usize,
    ) -> Result<(&'a [Bytes; N], &'a [Bytes]), Fault> {
        let (first, rest) = self.split()?;
        if rest.len() < min { Err(self.wrong_number()) } else { Ok((first, rest)) }
    }

    /// Pairs, at least one.
    pub(crate) fn pairs(self) -> Result<impl Iterator<Item = (&'a Bytes, &'a Bytes)> + Clone, Fault> {
        pairs_of(self.rest).ok_or_else(|| self.wrong_number())
    }

    /// The fault of a command with too few words, or too many.
    pub(crate) fn wrong_number(self) -> Fault {
        Fault::Told(format!("ERR wrong number of arguments for '{}' command", self.name.to_ascii_lowercase()))
    }
}

/// Words in pairs, at least one.
pub(crate) fn pairs_of(words: &[Bytes]) -> Option<impl Iterator<Item = (&Bytes, &Bytes)> + Clone> {
    let is_even = !words.is_empty() && words.len().is_multiple_of(2);
    is_even.then(|| words.chunks_exact(2).map(|pair| (&pair[0], &pair[1])))
}

/// Whether a word is this option, in whatever case.
pub(crate) fn is(word: &Bytes, option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// An integer, if it is one as servers write them.
pub(crate) fn integer(word: &[u8]) -> Option<i64> {
    is_canonical_integer(word).then(|| std::str::from_utf8(word).ok()?.parse().ok())?
}

/// An integer.
pub(crate) fn int(word: &Bytes) -> Result<i64, Fault> {
    integer(word).ok_or_else(Fault::not_an_integer)
}

/// An integer that is not negative.
pub(crate) fn positive(word: &Bytes) -> Result<i64, Fault> {
    let number = integer(word).filter(|number| *number >= 0);
    number.ok_or_else(|| Fault::told("ERR value is out of range, must be positive"))
}

/// Whether so many milliseconds from now there is a time: servers add now to it.
pub(crate) fn is_in_range(ms: i64) -> bool {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_millis());
    i64::try_from(now).is_ok_and(|now| ms <= i64::MAX - now)
}

/// A float, if it is one: not NaN, neither too large for a float nor so small that it would read as zero. As servers read it, it may
/// be hexadecimal.
pub(crate) fn number(word: &[u8]) -> Option<f64> {
    let (sign, digits) = match word {
        [b'-', digits @ ..] => (-1.0, digits),
        [b'+', digits @ ..] => (1.0, digits),
        digits => (1.0, digits),
    };
    if let [b'0', b'x' | b'X', digits @ ..] = digits {
        return Some(sign * hexadecimal(digits)?);
    }
    let value: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    let mantissa = word.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let has_digits = |digits: &[u8]| mantissa.iter().any(|byte| digits.contains(byte));
    match value {
        _ if value.is_nan() => None,
        _ if value.is_infinite() && word.iter().any(u8::is_ascii_digit) => None,
        0.0 if has_digits(b"123456789") => None,
        _ => Some(value),
    }
}

/// A hexadecimal float behind its `0x`: digits with a point, and an exponent of two behind a `p`.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let mut parts = text.splitn(2, |byte| matches!(byte, b'p' | b'P'));
    let mantissa = parts.next().unwrap_or_default();
    let mut exponent: i64 = match parts.next() {
        None => 0,
        Some(text) => std::str::from_utf8(text).ok()?.parse::<i64>().ok()?.clamp(-100_000, 100_000),
    };
    let (mut value, mut has_point, mut has_digits) = (0_u64, false, false);
    for byte in mantissa {
        if *byte == b'.' && !has_point {
            has_point = true;
            continue;
        }
        let digit = u64::from(char::from(*byte).to_digit(16)?);
        has_digits = true;
        // What is too far behind counts as a bit for rounding.
        if value >> 60 == 0 {
            value = value << 4 | digit;
            exponent -= if has_point { 4 } else { 0 };
        } else {
            value |= u64::from(digit != 0);
            exponent += if has_point { 0 } else { 4 };
        }
    }
    let mut float = value as f64;
    // In steps that are exact.
    let mut left = exponent.clamp(-5_000, 5_000) as i32;
    while left != 0 {
        let step = left.clamp(-1_000, 1_000);
        float *= 2_f64.powi(step);
        left -= step;
    }
    let is_one = has_digits && float.is_finite() && (float != 0.0 || value == 0);
    is_one.then_some(float)
}

/// A score: no zero is negative, as servers keep them.
pub(crate) fn score(word: &Bytes) -> Result<f64, Fault> {
    Ok(float(word)? + 0.0)
}

/// A float.
pub(crate) fn float(word: &Bytes) -> Result<f64, Fault> {
    number(word).ok_or_else(Fault::not_a_float)
}

/// The longest pattern, in bytes: that of [`claret::Store::keys`].
pub const PATTERN_BYTES_MAX: usize = 1_024;

/// A pattern of names.
///
/// # Errors
/// It is too long.
pub fn pattern(word: &[u8]) -> Result<Pattern, Fault> {
    if word.len() > PATTERN_BYTES_MAX {
        return Err(Fault::Told(format!(
            "ERR a pattern of {} bytes: it may have {PATTERN_BYTES_MAX}; write a shorter one",
            word.len()
        )));
    }
    Ok(Pattern::new(word))
}

/// How many keys follow, from a word that says so; `said` is what a server says of none.
pub(crate) fn key_count(word: &Bytes, said: &str) -> Result<usize, Fault> {
    match int(word) {
        Ok(count @ 1..) => Ok(count as usize),
        _ => Err(Fault::told(said)),
    }
}

/// The positions `start..=stop` of `len`, as servers count: negative ones from the end.
pub(crate) fn span(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let len = len as i64;
    let from_front = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let start = from_front(start).max(0);
    let stop = from_front(stop).min(len - 1);
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// A float in the words of `INCRBYFLOAT`: the shortest decimal that reads back the same, without an exponent.
pub(crate) fn decimal(value: f64) -> Bytes {
    let value = if value == 0.0 { 0.0 } else { value };
    Bytes::from(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_servers_read_them() {
        for (word, value) in [
            ("1", Some(1.0)),
            ("+1.5", Some(1.5)),
            ("1e3", Some(1000.0)),
            (".5", Some(0.5)),
            ("inf", Some(f64::INFINITY)),
            ("0x10", Some(16.0)),
            ("-0X1.8p1", Some(-3.0)),
            ("0x.8", Some(0.5)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1fffffffffffff8", Some(144115188075855872.0)),
            ("0x00000000000000000000001p+0", Some(1.0)),
        ] {
            assert_eq!(number(word.as_bytes()), value, "{word}");
        }
        for word in [
            "",
            " 1",
            "1 ",
            "nan",
            "1e400",
            "1e-400",
            "x",
            "1x",
            "0x",
            "0x.",
            "0xp1",
            "0x1p",
            "0x1.1.1",
            "0x1g",
            "0x1p2000",
            "0x1p-2000",
            "--1",
            "-+1",
            "0x-1",
        ] {
            assert_eq!(number(word.as_bytes()), None, "{word}");
        }
        assert_eq!(number(b"0e7"), Some(0.0));
        for word in ["", "+1", "01", "-0", " 1", "1.0", "9223372036854775808"] {
            assert_eq!(integer(word.as_bytes()), None, "{word}");
        }
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
    }
}
