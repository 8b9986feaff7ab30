//! Names of users, and whose an attempt is.

use std::fmt;

use claret_core::key_hash;
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

/// What a user is called: any bytes. Two names that look alike are two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(Bytes);

impl Name {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        match is_planted(Bug::NamesLossy) {
            true => Name(Bytes::copy_from(String::from_utf8_lossy(bytes).as_bytes())),
            false => Name(Bytes::copy_from(bytes)),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Under which number it is counted what is kept for the user. Two users that have one share what they may have.
    pub(crate) fn account(&self) -> u64 {
        key_hash(&self.0).max(1)
    }
}

/// For people: what is no printable ASCII is escaped.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// Whose an attempt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: Name,
    /// The server's number of its newest connection, which may be closed.
    pub(crate) client: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_bytes_and_are_shown_escaped() {
        assert_ne!(Name::new(b"\xff"), Name::new("\u{fffd}".as_bytes()));
        assert_eq!(Name::new(b"a\xff\n").to_string(), "a\\xff\\n");
        assert!(Name::new(b"").account() > 0, "0 is nobody's");
    }
}
