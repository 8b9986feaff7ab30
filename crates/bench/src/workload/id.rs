//! Ids of what a workload makes: loaded before the run, or made during it with a number from the store.

use claret_types::{Bytes, Reply};

use super::{integer, names};

/// Which user, item or post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Id {
    /// Loaded: its index.
    Loaded(u32),
    /// Made during the run: the number that `UID.NEXT` answered, which is unique and otherwise arbitrary.
    New(u64),
}

impl Id {
    /// That of something new, from the answer of `UID.NEXT`.
    pub(crate) fn new(answer: &Reply) -> Self {
        // The number is 64 bits without a sign; a reply has one.
        Id::New(integer(answer) as u64)
    }

    /// Its name in keys and members: `17`, or `n17` for something new.
    pub(crate) fn name(self) -> Bytes {
        match self {
            Id::Loaded(index) => names::decimal(u64::from(index)),
            Id::New(number) => names::numbered("n", number),
        }
    }

    /// What `name` made a name of.
    pub(crate) fn of_name(name: &Bytes) -> Option<Self> {
        match name.as_str()?.strip_prefix('n') {
            Some(digits) => digits.parse().ok().map(Id::New),
            None => name.as_str()?.parse().ok().map(Id::Loaded),
        }
    }

    /// A text with the name at its end: `item 17`.
    pub(crate) fn titled(self, title: &str) -> Bytes {
        let mut text = Bytes::from(title);
        text.extend(&self.name());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_turn_into_one_another() {
        for id in [Id::Loaded(0), Id::Loaded(17), Id::New(17), Id::New(u64::MAX)] {
            assert_eq!(Id::of_name(&id.name()), Some(id));
        }
        assert_eq!(Id::new(&Reply::Int(-1)), Id::New(u64::MAX));
        assert_eq!(Id::of_name(&Bytes::from("x")), None);
    }
}
