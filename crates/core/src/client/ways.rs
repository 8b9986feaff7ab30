//! The ways to commit that have all transactions of a client process (`crate::ways`), instead of the table.

pub(super) mod batch;
pub(super) mod check_only;
pub(super) mod ordered;

use super::keeper::Keeper;
use super::process::Process;

/// The modules of the ways, and their parts of one process.
macro_rules! rooms {
    ($(round $_way:ident: $_Way:ident;)* $(process $way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// The parts of all ways: of those that are switched on.
        #[derive(Clone, Debug)]
        pub(super) struct Ways {
            $($way: Option<Box<$way::$Way>>,)*
        }

        impl Ways {
            pub(super) fn new(process: &Process) -> Self {
                let _ = process; // Where there is no way.
                Ways { $($way: $way::$Way::new(process).map(Box::new),)* }
            }

            /// The way that has all transactions, if one does.
            #[inline]
            pub(super) fn keeper(&self) -> Option<&dyn Keeper> {
                $(if let Some(way) = &self.$way {
                    return Some(&**way);
                })*
                None
            }

            /// The same, to be changed.
            #[inline]
            pub(super) fn keeper_mut(&mut self) -> Option<&mut dyn Keeper> {
                $(if let Some(way) = &mut self.$way {
                    return Some(&mut **way);
                })*
                None
            }
        }
    };
}

crate::each_way!(rooms);
