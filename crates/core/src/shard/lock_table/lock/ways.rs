//! The ways to commit (`crate::ways`), the records' side: what they allow owners, and what they note of holders. `admitting` asks them.

pub(in crate::shard::lock_table) mod check_only;
pub(in crate::shard::lock_table) mod ordered;

/// The modules of the ways, and their parts of owners and holders.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(pub(in crate::shard::lock_table::lock) mod $way;)*

        /// What ways allow somebody who asks.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Pass {
            $(pub(in crate::shard) $way: $way::Pass,)*
        }

        /// What ways note of a holder.
        #[derive(Clone, Copy, Debug, Default)]
        pub(in super::super) struct Mark {
            $($way: $way::Mark,)*
        }
    };
}

crate::each_way!(rooms);
