//! Names: keys, members and field values in decimal, made without the formatting machinery.
//!
//! Names of up to 24 bytes take no allocation (see [`Bytes`]), and all that the workloads make are shorter
//! unless the user's prefix is long.

use claret_types::Bytes;

/// The decimal digits of a number, in a buffer of one's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    buffer: [u8; 20],
    start: usize,
}

impl Digits {
    /// Those of `value`.
    pub(crate) fn of(mut value: u64) -> Self {
        let mut digits = Digits { buffer: [0; 20], start: 20 };
        loop {
            digits.start -= 1;
            digits.buffer[digits.start] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return digits;
            }
        }
    }

    /// As bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits are ASCII")
    }
}

/// A number in decimal.
pub(crate) fn decimal(value: u64) -> Bytes {
    Bytes::copy_from(Digits::of(value).as_bytes())
}

/// A number in decimal after a prefix: `item:17`.
pub(crate) fn numbered(prefix: &str, number: u64) -> Bytes {
    let mut name = Bytes::from(prefix);
    name.extend(Digits::of(number).as_bytes());
    name
}

/// Two numbers with a dash: `17-250`.
pub(crate) fn pair(first: u64, second: u64) -> Bytes {
    let mut name = decimal(first);
    name.extend(b"-");
    name.extend(Digits::of(second).as_bytes());
    name
}

/// A table of numbered names.
pub(crate) fn table(prefix: &str, count: usize) -> Vec<Bytes> {
    (0..count as u64).map(|number| numbered(prefix, number)).collect()
}

/// The number that a name is, if it is one in decimal.
pub(crate) fn number(name: &Bytes) -> Option<u64> {
    name.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        for value in [0, 7, 10, 99, 100, 12_345_678_901, u64::MAX] {
            assert_eq!(decimal(value), Bytes::from(value.to_string()));
            assert_eq!(number(&decimal(value)), Some(value));
        }
        assert_eq!(numbered("item:", 17), Bytes::from("item:17"));
        assert_eq!(pair(17, 250), Bytes::from("17-250"));
    }
}
