//! The ways to commit: what a seed draws of each, what scripts have of it, and what is to be known of its words.

use claret_core::Client;
use claret_core::message::WayWords;
use claret_core::ways::WaySwitches;

use crate::config::Config;
use crate::random::Random;
use crate::settings::Setting;

macro_rules! rooms {
    ($($kind:ident $way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// What a seed draws of the ways.
        #[derive(Clone, Debug, Default)]
        pub struct DrawnWays {
            $($way: $way::$Way,)*
        }

        impl DrawnWays {
            /// What is drawn before all but a run's bounds.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(crate) fn draw(random: &mut Random) -> DrawnWays {
                DrawnWays { $($way: $way::$Way::draw(random),)* }
            }

            /// What is switched on in a run.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(crate) fn switches(&self, config: &Config) -> WaySwitches {
                WaySwitches { $($way: self.$way.switch(config),)* }
            }

            /// Whether handles are no places in the session.
            pub(crate) fn renumber(&self) -> bool {
                false $(|| self.$way.renumbers())*
            }

            pub(crate) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
                let all: Vec<Vec<(&'static str, Setting<'_>)>> = vec![$(self.$way.settings(),)*];
                all.into_iter().flatten().collect()
            }
        }

        /// Draws what comes last.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn draw_latest(config: &mut Config, random: &mut Random) {
            $($way::draw_latest(config, random);)*
        }

        /// What a client does of which a script says this word.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn of_word(said: &str) -> Option<WaySwitches> {
            $(if $way::WORD.is_some_and(|(word, _)| word == said) {
                return $way::WORD.map(|(_, ways)| ways);
            })*
            None
        }

        /// What a script shows of a client besides: of each way that it goes.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn show(client: &Client) -> Vec<String> {
            let shown: Vec<Option<String>> = vec![$($way::show(client),)*];
            shown.into_iter().flatten().collect()
        }

        /// Whether what one shard says to another says, too, that it has written yes.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn says_yes(words: &WayWords) -> bool {
            false $(|| $way::says_yes(words))*
        }
    };
}

claret_core::each_way!(rooms);
