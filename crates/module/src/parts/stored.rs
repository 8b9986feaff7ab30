//! Which type an operation or an effect is of, for a choice between the types: by the type's id, not its name.

use std::any::TypeId;

use claret_types::{KeyspaceOp, TypeInfo};

use crate::parts::plain::Plain;

macro_rules! stored {
    ($($place:literal $type:ident),* $(,)?) => {
        /// A type whose records are stored in Redis.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Stored {
            $($type,)*
            /// Whatever there is: it is not about the content.
            Keyspace,
            /// Whatever there is, for a plain command: it looks itself.
            Plain,
        }

        const ALL: &[(TypeId, Stored)] = &often_first([
            $((TypeId::of::<claret_types::$type>(), Stored::$type),)*
            (TypeId::of::<KeyspaceOp>(), Stored::Keyspace),
            (TypeId::of::<Plain>(), Stored::Plain),
        ]);
    };
}

claret_types::with_types!(stored);

/// Those that are used most are found first.
const OFTEN: [Stored; 6] =
    [Stored::Set, Stored::Counter, Stored::Register, Stored::Dict, Stored::ScoredSet, Stored::List];

const fn often_first<const N: usize>(mut all: [(TypeId, Stored); N]) -> [(TypeId, Stored); N] {
    let mut to = 0;
    while to < OFTEN.len() {
        let mut at = to;
        while all[at].1 as u8 != OFTEN[to] as u8 {
            at += 1;
        }
        let found = all[at];
        all[at] = all[to];
        all[to] = found;
        to += 1;
    }
    all
}

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

    use super::{ALL, OFTEN, Plain, Stored};

    #[test]
    fn every_type_of_the_wire_is_stored_somehow() {
        for kind in BUILTIN {
            assert_ne!(Stored::of(kind), Stored::Plain, "{}", kind.name);
        }
        assert_eq!(Stored::of(TypeInfo::of::<Plain>()), Stored::Plain);
        assert_eq!(ALL.len(), BUILTIN.len() + 1);
        assert!(ALL.iter().zip(OFTEN).all(|((_, stored), often)| *stored == often));
    }
}
