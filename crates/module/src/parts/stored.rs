//! How the records of each type are stored in Redis, by the type's id, not its name.

use claret_types::{
    BoundedCounter, Counter, Dict, FloatCounter, List, Register, ScoredSet, Set, SummaryBag, TopK, TypeInfo,
    UidGenerator,
};

use crate::parts::plain::Plain;

/// What a type's records are in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// A string: registers, and numbers that are added to.
    Text,
    /// A string that counts up.
    Uid,
    Set,
    /// A hash, as the next two.
    Dict,
    BoundedCounter,
    SummaryBag,
    /// A sorted set.
    ScoredSet,
    /// A sorted set, and a string beside it.
    TopK,
    List,
    /// Whatever there is, for a plain command: it looks itself.
    Plain,
}

/// Those that are used most come first.
const ALL: [(&TypeInfo, Stored); 12] = [
    (TypeInfo::of::<Set>(), Stored::Set),
    (TypeInfo::of::<Counter>(), Stored::Text),
    (TypeInfo::of::<Register>(), Stored::Text),
    (TypeInfo::of::<Dict>(), Stored::Dict),
    (TypeInfo::of::<ScoredSet>(), Stored::ScoredSet),
    (TypeInfo::of::<List>(), Stored::List),
    (TypeInfo::of::<FloatCounter>(), Stored::Text),
    (TypeInfo::of::<BoundedCounter>(), Stored::BoundedCounter),
    (TypeInfo::of::<TopK>(), Stored::TopK),
    (TypeInfo::of::<SummaryBag>(), Stored::SummaryBag),
    (TypeInfo::of::<UidGenerator>(), Stored::Uid),
    (TypeInfo::of::<Plain>(), Stored::Plain),
];

impl Stored {
    /// # Panics
    /// For a type that is none of the built-in ones: operations come through the wire, which knows no others.
    pub(crate) fn of(kind: &TypeInfo) -> Stored {
        // Nearly always it is found by its address, without asking each for its id.
        let by_address = ALL.iter().find(|(one, _)| std::ptr::eq(*one, kind));
        let found = by_address.or_else(|| ALL.iter().find(|(one, _)| one.id() == kind.id()));
        found.unwrap_or_else(|| unreachable!("the wire knows no type '{}'", kind.name)).1
    }
}

#[cfg(test)]
mod tests {
    use claret_types::{BUILTIN, TypeInfo};

    use super::{Plain, Stored};

    #[test]
    fn every_type_of_the_wire_is_stored_somehow() {
        for kind in BUILTIN {
            assert_ne!(Stored::of(kind), Stored::Plain, "{}", kind.name);
        }
        assert_eq!(Stored::of(TypeInfo::of::<Plain>()), Stored::Plain);
    }
}
