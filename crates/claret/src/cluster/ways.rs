//! The ways to commit, as a user sets them: by the builder (`builder/ways.rs`), and by parameters of the URL.

use claret_core::ways::WaySwitches;

macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(
            mod $way;
            pub use $way::*;
        )*

        /// Parameters of a URL that are none of a connection's: of grants, of batches, and of each way.
        pub(super) const PARAMETERS: &[&str] = &["grants", "batches", $($way::PARAMETER,)*];

        /// How each way is set, if it is.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct WaySettings {
            $(pub(super) $way: Option<$way::Setting>,)*
        }

        #[allow(unused_variables, reason = "there may be no ways")]
        impl WaySettings {
            /// These, and what they leave open as in others.
            pub(super) fn or(self, others: WaySettings) -> WaySettings {
                WaySettings { $($way: self.$way.or(others.$way),)* }
            }

            /// What is switched on.
            pub(super) fn switches(self) -> WaySwitches {
                WaySwitches { $($way: $way::switch(self.$way.unwrap_or_default()),)* }
            }

            /// Takes a parameter of a URL. `None`: it is of no way.
            pub(super) fn take(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
                $(
                    if name == $way::PARAMETER {
                        return Some($way::parse(value).map(|setting| self.$way = Some(setting)));
                    }
                )*
                None
            }
        }
    };
}

claret_core::each_way!(rooms);
