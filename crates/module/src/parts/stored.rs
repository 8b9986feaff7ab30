//! How the records of each type are stored in Redis, by the type's id, not its name.

use std::any::TypeId;

use claret_types::{
    BoundedCounter, Counter, Dict, Document, FloatCounter, KeyspaceOp, List, Register, ScoredSet, Set,
    SummaryBag, TopK, TypeInfo, UidGenerator,
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
    /// A hash, as the next three.
    Dict,
    Document,
    BoundedCounter,
    SummaryBag,
    /// A sorted set.
    ScoredSet,
    /// A sorted set, and a string beside it.
    TopK,
    List,
    /// Whatever there is: it is not about the content.
    Keyspace,
    /// Whatever there is, for a plain command: it looks itself.
    Plain,
}

/// Those that are used most come first.
const ALL: [(TypeId, Stored); 14] = [
    (TypeId::of::<Set>(), Stored::Set),
    (TypeId::of::<Counter>(), Stored::Text),
    (TypeId::of::<Register>(), Stored::Text),
    (TypeId::of::<Dict>(), Stored::Dict),
    (TypeId::of::<ScoredSet>(), Stored::ScoredSet),
    (TypeId::of::<List>(), Stored::List),
    (TypeId::of::<FloatCounter>(), Stored::Text),
    (TypeId::of::<BoundedCounter>(), Stored::BoundedCounter),
    (TypeId::of::<TopK>(), Stored::TopK),
    (TypeId::of::<SummaryBag>(), Stored::SummaryBag),
    (TypeId::of::<UidGenerator>(), Stored::Uid),
    (TypeId::of::<Document>(), Stored::Document),
    (TypeId::of::<KeyspaceOp>(), Stored::Keyspace),
    (TypeId::of::<Plain>(), Stored::Plain),
];

impl Stored {
    /// # Panics
    /// For a type that is none of the built-in ones: operations come through the wire, which knows no others.
    pub(crate) fn of(kind: &TypeInfo) -> Stored {
        let found = ALL.iter().find(|(id, _)| *id == kind.id);
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
