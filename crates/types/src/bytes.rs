//! Byte strings: keys, members, field names and values.
//!
//! Redis strings are bytes, not text. Most keys and members are short, so up to 24 bytes are kept inline and longer
//! strings on the heap. This file does not know what the bytes mean.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

/// A byte string, ordered bytewise. Up to 24 bytes take no allocation.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(SmallVec<[u8; 24]>);

/// Copies in one piece; the vector's own clone goes byte by byte.
impl Clone for Bytes {
    fn clone(&self) -> Self {
        Bytes::copy_from(self)
    }
}

impl Bytes {
    /// Copies a slice. O(length).
    pub fn copy_from(slice: &[u8]) -> Self {
        Bytes(SmallVec::from_slice(slice))
    }

    /// Appends to the end. Amortised O(length of the tail).
    pub fn extend(&mut self, tail: &[u8]) {
        self.0.extend_from_slice(tail);
    }

    /// Shortens to `len` bytes; does nothing if it is no longer than that.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// The text, if these bytes are UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Bytes {
    fn from(slice: &[u8]) -> Self {
        Bytes::copy_from(slice)
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Bytes::copy_from(text.as_bytes())
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        Bytes::from(text.into_bytes())
    }
}

impl From<&String> for Bytes {
    fn from(text: &String) -> Self {
        Bytes::copy_from(text.as_bytes())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() <= 24 { Bytes::copy_from(&bytes) } else { Bytes(SmallVec::from_vec(bytes)) }
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Self {
        bytes.0.into_vec()
    }
}

impl<const N: usize> From<&[u8; N]> for Bytes {
    fn from(slice: &[u8; N]) -> Self {
        Bytes::copy_from(slice)
    }
}

impl From<&Bytes> for Bytes {
    fn from(bytes: &Bytes) -> Self {
        bytes.clone()
    }
}

/// Text is appended as it is.
impl fmt::Write for Bytes {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.extend(text.as_bytes());
        Ok(())
    }
}

/// Shown as text, with whatever is not printable ASCII escaped (`\x00`), so that an error can always
/// name a key.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 128;
        write!(f, "{}", self.0[..self.0.len().min(SHOWN_MAX)].escape_ascii())?;
        if self.0.len() > SHOWN_MAX {
            write!(f, "... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
