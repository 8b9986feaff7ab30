//! What a key holds, in the words of servers.

use claret_types::builtin_types;

/// What a key holds, in the words of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    None,
    /// A string.
    String,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    Zset,
    /// A hash.
    Hash,
    /// A stream, what a module keeps, or a type of the program's own.
    Other(String),
}

impl Kind {
    /// From what the store calls it: on a cluster as servers do, in the process by the type of Claret, which says what servers call
    /// its records.
    pub fn of(found: &str) -> Self {
        let known = builtin_types().iter().find(|kind| kind.name == found);
        match known.map_or(found, |kind| kind.native) {
            "string" => Kind::String,
            "list" => Kind::List,
            "set" => Kind::Set,
            "zset" => Kind::Zset,
            "hash" => Kind::Hash,
            other => Kind::Other(other.to_owned()),
        }
    }

    /// What `TYPE` answers.
    pub fn word(&self) -> &str {
        match self {
            Kind::None => "none",
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Hash => "hash",
            Kind::Other(word) => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of types stood here, and one that was not in it was as a stream is.
    #[test]
    fn every_type_is_of_a_kind() {
        for kind in builtin_types().iter().filter(|kind| !kind.is_of_any()) {
            assert!(!matches!(Kind::of(kind.name), Kind::Other(_)), "{}", kind.name);
            assert_eq!(Kind::of(kind.name), Kind::of(kind.native), "{}", kind.name);
        }
        assert_eq!(Kind::of("stream"), Kind::Other("stream".to_owned()));
    }
}
