//! Words of commands as servers read them: numbers, options, and what is said of those that are none.

use std::time::SystemTime;

use claret_types::{Bytes, is_canonical_integer};

use crate::fault::Fault;

/// Whether a word is this option, in whatever case.
pub(crate) fn is(word: &Bytes, option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// The fault of a command with too few words, or too many.
pub(crate) fn arity(name: &str) -> Fault {
    Fault::Told(format!("ERR wrong number of arguments for '{}' command", name.to_ascii_lowercase()))
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

/// A float, if it is one: not NaN, neither too large for a float nor so small that it would read as zero.
pub(crate) fn number(word: &[u8]) -> Option<f64> {
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

/// A float.
pub(crate) fn float(word: &Bytes) -> Result<f64, Fault> {
    number(word).ok_or_else(Fault::not_a_float)
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
        ] {
            assert_eq!(number(word.as_bytes()), value, "{word}");
        }
        for word in ["", " 1", "1 ", "nan", "1e400", "1e-400", "x", "1x"] {
            assert_eq!(number(word.as_bytes()), None, "{word}");
        }
        assert_eq!(number(b"0e7"), Some(0.0));
        for word in ["", "+1", "01", "-0", " 1", "1.0", "9223372036854775808"] {
            assert_eq!(integer(word.as_bytes()), None, "{word}");
        }
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
    }
}
