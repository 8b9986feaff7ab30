//! How files look: a line of text that says what they are, and frames behind it.
//!
//! | bytes of a frame | what |
//! |---|---|
//! | 4 | the checksum (CRC-32) of all that follows |
//! | 4 | the length of the body |
//! | 8 | which store |
//! | 8 | the position of the body's first byte in the log; in a snapshot, as of which position the body is |
//! | 8 | up to which position the log was synced when this was written; in a snapshot, how many frames came before |
//! | ... | the body |
//!
//! Numbers are little-endian. A frame says which store and which place it is of, so that one that is old, or of another store, or
//! elsewhere on the disk, is not taken for the right one.

use claret_planted::{Bug, is_planted};

use crate::error::LogError;

/// The format of files that are written. Since 2 a store has a manifest.
pub const VERSION: u32 = 2;

/// The first format of stores that have a manifest.
pub(crate) const MANIFEST_SINCE: u32 = 2;

/// A file of the log is no longer, but for its last group.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a frame before its body.
pub(crate) const HEADER: usize = 32;

/// A file's first line is no longer.
pub(crate) const LINE_MAX: usize = 64;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Log,
    Snapshot,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Log => "log",
            Kind::Snapshot => "snapshot",
        }
    }

    /// The file that begins at this position.
    pub(crate) fn name(self, position: u64) -> String {
        format!("{}-{position:016x}", self.word())
    }

    /// The position that a name says, if it is one of this kind.
    pub(crate) fn position(self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(self.word())?.strip_prefix('-')?;
        let is_plain = digits.len() == 16 && digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        is_plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    }

    /// The first line of a file.
    pub(crate) fn line(self, store: u64) -> String {
        sealed(&format!("claret {} {VERSION} {store:016x}", self.word()))
    }

    /// What a file's first line says. `None`: it is none.
    ///
    /// # Errors
    /// It is of a later version.
    pub(crate) fn read_line(self, file: &str, bytes: &[u8]) -> Result<Option<Line>, LogError> {
        let Some(end) = bytes.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else { return Ok(None) };
        let read = || {
            let says = unsealed(&bytes[..end])?;
            let rest = says.strip_prefix("claret ")?.strip_prefix(self.word())?.strip_prefix(' ')?;
            let (version, store) = rest.split_once(' ')?;
            Some((version.parse().ok()?, store))
        };
        let Some((version, store)) = read() else { return Ok(None) };
        if version > VERSION {
            return Err(LogError::Newer { file: file.to_owned(), found: version, known: VERSION });
        }
        let store = u64::from_str_radix(store, 16).ok();
        Ok(store.map(|store| Line { version, store, len: end as u64 + 1 }))
    }

    /// How long a file may be that was just being made.
    pub(crate) fn line_len(self) -> usize {
        self.line(0).len()
    }
}

/// What the first line of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) version: u32,
    pub(crate) store: u64,
    /// How long it is: the first frame is behind it.
    pub(crate) len: u64,
}

/// A line of text with a checksum at its end.
pub(crate) fn sealed(says: &str) -> String {
    format!("{says} {:08x}\n", crc32fast::hash(says.as_bytes()))
}

/// What such a line says, without its end. `None`: it is none, or its checksum is wrong.
pub(crate) fn unsealed(line: &[u8]) -> Option<&str> {
    let (says, sum) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
    let is_right = u32::from_str_radix(sum, 16) == Ok(crc32fast::hash(says.as_bytes()));
    (is_right || is_planted(Bug::FirstLineUnchecked)).then_some(says)
}

/// What a frame says before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) store: u64,
    pub(crate) position: u64,
    pub(crate) synced: u64,
}

impl Header {
    /// How long the frame of this body is.
    pub(crate) fn frame_len(&self, body: &[u8]) -> u64 {
        (HEADER + body.len()) as u64
    }

    /// The bytes before this body.
    pub(crate) fn before(&self, body: &[u8]) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let length = u32::try_from(body.len()).expect("a body is cut before it is so large");
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.store.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_le_bytes());
        bytes[24..].copy_from_slice(&self.synced.to_le_bytes());
        let sum = checksum(&bytes[4..], body);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(header);
    sum.update(body);
    sum.finalize()
}

/// How long the frame is that begins like this, as it says.
pub(crate) fn frame_len(header: &[u8]) -> u64 {
    HEADER as u64 + u64::from(half(header, 4))
}

/// The checksum that a frame has which begins like this, as it says.
pub(crate) fn frame_sum(header: &[u8]) -> u32 {
    half(header, 0)
}

fn half(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"))
}

/// The frame at the beginning of these bytes; `None` if there is none, or not all of it.
pub(crate) fn read_frame(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let body = rest.get(..half(header, 4) as usize)?;
    if frame_sum(header) != checksum(&header[4..], body) && !is_planted(Bug::TornGroupTaken) {
        return None;
    }
    Some((Header { store: number(8), position: number(16), synced: number(24) }, body))
}

/// Adds a number, seven bits a byte.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front.
pub(crate) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Adds bytes behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes bytes off the front, with the length before them.
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
