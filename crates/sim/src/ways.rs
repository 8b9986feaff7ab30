//! The ways to commit that can be taken out (`claret_core::ways`): what the simulator and its scripts have of each. A folder has all of
//! one way.

use claret_core::Client;
use claret_core::ways::WaySwitches;

use crate::config::Config;
use crate::random::Random;
use crate::settings::Setting;

/// What the simulator asks a way.
trait Way {
    /// How far it is switched on in a run.
    type Level;

    /// What a seed draws for it, before all that is drawn for a run but its bounds.
    fn draw(random: &mut Random) -> Self::Level;

    /// How a configuration names it.
    fn setting(level: &mut Self::Level) -> Option<(&'static str, Setting<'_>)>;

    /// Switches it on in a run, as far as that says.
    fn switch(config: &Config, ways: &mut WaySwitches);

    /// Whether handles are no places in the session where it is on.
    fn renumbers(level: &Self::Level) -> bool;

    /// What a script says of a client that is to go this way.
    fn word() -> Option<(&'static str, WaySwitches)>;

    /// What a script shows of a client that goes this way.
    fn show(client: &Client) -> Option<String>;
}

macro_rules! rooms {
    ($($kind:ident $way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// How far each way is switched on in a run.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Levels {
            $(
                /// See the folder.
                pub $way: $way::Level,
            )*
        }

        impl Levels {
            /// What a seed draws.
            pub(crate) fn draw(random: &mut Random) -> Levels {
                let _ = &random; // Where there is no way.
                Levels { $($way: $way::$Way::draw(random),)* }
            }

            /// By the names of a configuration.
            pub(crate) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
                let settings: Vec<Option<(&'static str, Setting<'_>)>> =
                    vec![$($way::$Way::setting(&mut self.$way),)*];
                settings.into_iter().flatten().collect()
            }

            /// Whether handles are no places in the session.
            pub(crate) fn renumber(&self) -> bool {
                false $(|| $way::$Way::renumbers(&self.$way))*
            }
        }

        /// What is switched on in a run.
        pub(crate) fn switches(config: &Config) -> WaySwitches {
            let _ = config; // Where there is no way.
            #[allow(unused_mut, reason = "where there is no way")]
            let mut ways = WaySwitches::ROUNDS;
            $($way::$Way::switch(config, &mut ways);)*
            ways
        }

        /// What a client does of which a script says this word.
        pub(crate) fn of_word(said: &str) -> Option<WaySwitches> {
            let words: Vec<Option<(&str, WaySwitches)>> = vec![$($way::$Way::word(),)*];
            words.into_iter().flatten().find(|(word, _)| *word == said).map(|(_, ways)| ways)
        }

        /// What a script shows of a client besides: of each way that it goes.
        pub(crate) fn show(client: &Client) -> Vec<String> {
            let _ = client; // Where there is no way.
            let shown: Vec<Option<String>> = vec![$($way::$Way::show(client),)*];
            shown.into_iter().flatten().collect()
        }
    };
}

claret_core::each_way!(rooms);
