//! The content of a Redis string: bytes or a number. Register, Counter and FloatCounter share it, so that
//! `SET k 5` and `INCR k` work on one key, as in Redis.

use crate::{Bytes, OpError};

/// A string's content.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Text {
    /// No record.
    #[default]
    Absent,
    /// An integer that was written by counting: no parsing, no allocation.
    Int(i64),
    /// Anything else.
    Bytes(Bytes),
}

impl Text {
    /// The bytes that `GET` shows.
    pub fn to_bytes(&self) -> Option<Bytes> {
        match self {
            Text::Absent => None,
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
            Text::Bytes(bytes) => bytes
                .as_str()
                .and_then(|text| text.parse::<i64>().ok().filter(|value| value.to_string() == text))
                .ok_or_else(|| OpError::NotNumeric(bytes.to_string(), "an integer")),
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
                .ok_or_else(|| OpError::NotNumeric(bytes.to_string(), "a number")),
        }
    }
}
