//! `cjson`: values as JSON, as the module of Redis 7 writes and reads it.
//!
//! It takes more than JSON: hexadecimal numbers, `inf` and `nan`, control characters in strings; and a byte 0 ends a text. Neither way
//! recurses: what is nested is on a stack of its own.

mod decoding;
mod encoding;
mod tokens;

pub(crate) use decoding::decode;
pub(crate) use encoding::encode;

/// Nesting beyond it is refused whatever the options say.
pub(crate) const DEPTH_MAX: usize = 1000;

/// What `cjson.encode` does with numbers that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidNumbers {
    /// An error.
    Refused,
    /// `nan`, `inf` and `-inf`.
    Written,
    /// `null`.
    Null,
}

/// What a script may set of `cjson`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonOptions {
    /// Whether an array with too many holes becomes an object; else it is an error.
    pub sparse_convert: bool,
    /// An array has too many holes if it is longer than so many times its elements. 0: none has.
    pub sparse_ratio: u32,
    /// No array of this length or less has too many holes.
    pub sparse_safe: u32,
    /// How deep what is written may be nested; [`DEPTH_MAX`] holds, too.
    pub max_depth: usize,
    /// Digits of a number, from 1 to 14.
    pub number_precision: usize,
    /// What becomes of numbers that JSON does not have.
    pub encode_invalid_numbers: InvalidNumbers,
    /// How deep what is read may be nested; [`DEPTH_MAX`] holds, too.
    pub decode_max_depth: usize,
    /// Whether numbers are read that JSON does not have.
    pub decode_invalid_numbers: bool,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            max_depth: DEPTH_MAX,
            number_precision: 14,
            encode_invalid_numbers: InvalidNumbers::Refused,
            decode_max_depth: DEPTH_MAX,
            decode_invalid_numbers: true,
        }
    }
}

#[cfg(test)]
mod tests;
