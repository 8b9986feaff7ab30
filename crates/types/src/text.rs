//! The content of a Redis string: bytes or a number. Register, Counter and FloatCounter share it, so that
//! `SET k 5` and `INCR k` work on one key, as in Redis.
//!
//! Types that share a record share its lock. So the three have one table of lock modes, [`MODES`], and each uses the
//! part that it needs.
//!
//! | | read | write | move | move-seen | move-float |
//! |---|---|---|---|---|---|
//! | read | | x | x | x | x |
//! | write | x | x | x | x | x |
//! | move | x | x | | x | x |
//! | move-seen | x | x | x | x | x |
//! | move-float | x | x | x | x | |
//!
//! `move` and `move-float` conflict although both add: they draw on different rooms.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Mode, Modes, OpError, modes};

pub(crate) const READ: Mode = Mode(0);
/// Leaves the record present, with a content that depends on the order. May clear its expiry.
pub(crate) const WRITE: Mode = Mode(1);
pub(crate) const MOVE: Mode = Mode(2);
pub(crate) const MOVE_SEEN: Mode = Mode(3);
pub(crate) const MOVE_FLOAT: Mode = Mode(4);

/// The lock modes of a record that is a string.
pub(crate) const MODES: Modes = Modes {
    names: &["read", "write", "move", "move-seen", "move-float"],
    conflicts: &[
        modes(&[WRITE, MOVE, MOVE_SEEN, MOVE_FLOAT]),
        modes(&[READ, WRITE, MOVE, MOVE_SEEN, MOVE_FLOAT]),
        modes(&[READ, WRITE, MOVE_SEEN, MOVE_FLOAT]),
        modes(&[READ, WRITE, MOVE, MOVE_SEEN, MOVE_FLOAT]),
        modes(&[READ, WRITE, MOVE, MOVE_SEEN]),
    ],
    removing: 0,
    clearing: modes(&[WRITE]),
};

/// A string's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Text {
    /// No record.
    #[default]
    Absent,
    /// An integer that was written by counting: no parsing, no allocation.
    Int(i64),
    /// Anything else.
    Bytes(Bytes),
    /// So many bytes, of which a host has read none: for an operation that asks how many there are.
    Length(usize),
}

impl Text {
    /// The bytes that `GET` shows.
    pub fn to_bytes(&self) -> Option<Bytes> {
        match self {
            Text::Absent | Text::Length(_) => None,
            Text::Int(value) => Some(Bytes::from(value.to_string())),
            Text::Bytes(bytes) => Some(bytes.clone()),
        }
    }

    /// The integer held; 0 when absent.
    ///
    /// # Errors
    /// When the bytes are not an integer as Redis writes one.
    pub fn as_int(&self) -> Result<i64, OpError> {
        match self {
            Text::Absent => Ok(0),
            Text::Int(value) => Ok(*value),
            Text::Bytes(bytes) => integer_of(bytes),
            Text::Length(_) => Err(unread("an integer")),
        }
    }

    /// The number held; 0 when absent.
    ///
    /// # Errors
    /// When the bytes are not a finite number.
    pub fn as_float(&self) -> Result<f64, OpError> {
        match self {
            Text::Absent => Ok(0.0),
            Text::Int(value) => Ok(*value as f64),
            Text::Bytes(bytes) => bytes
                .as_str()
                .and_then(|text| text.parse().ok())
                .filter(|value: &f64| value.is_finite())
                .ok_or_else(|| no_number(bytes, bytes.len(), "a number")),
            Text::Length(_) => Err(unread("a number")),
        }
    }
}

/// A mistake of a host: it read less than the operation needs.
fn unread(expected: &'static str) -> OpError {
    OpError::NotNumeric("bytes that were not read".into(), expected.into())
}

/// So much of a string that is no number is shown.
const SHOWN_MAX: usize = 64;

/// A string that is no number, of which this is the start, or all.
#[doc(hidden)]
pub fn no_number(start: &[u8], length: usize, expected: &'static str) -> OpError {
    let shown = Bytes::copy_from(&start[..start.len().min(SHOWN_MAX)]);
    let text = match length > SHOWN_MAX {
        true => format!("{shown}... ({length} bytes)"),
        false => shown.to_string(),
    };
    OpError::NotNumeric(text, expected.into())
}

/// No integer is longer, as Redis writes one.
const INTEGER_BYTES_MAX: usize = 20;

/// The integer that these bytes write out.
///
/// # Errors
/// When they are not an integer as Redis writes one: `007` and `+7` are not.
pub(crate) fn integer_of(bytes: &Bytes) -> Result<i64, OpError> {
    let short = Some(bytes).filter(|bytes| bytes.len() <= INTEGER_BYTES_MAX);
    short
        .and_then(|bytes| bytes.as_str())
        .filter(|text| is_canonical_integer(text.as_bytes()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| no_number(bytes, bytes.len(), "an integer"))
}

/// Whether digits are those of an integer as Redis writes one, however large.
///
/// ```
/// use claret_types::is_canonical_integer;
/// assert!(["0", "7", "-7", "70"].iter().all(|text| is_canonical_integer(text.as_bytes())));
/// assert!(!["", "-", "007", "+7", "-0", "-07", "7x", "1.0"].iter().any(|text| is_canonical_integer(text.as_bytes())));
/// ```
pub fn is_canonical_integer(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0'] => text == b"0",
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}
