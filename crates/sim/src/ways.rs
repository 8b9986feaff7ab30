//! The ways to commit: what a seed draws of each, and what is to be known of its words.

use claret_core::message::WayWords;
use claret_core::ways::WaySwitches;

use crate::config::Config;
use crate::random::Random;
use crate::settings::Setting;

macro_rules! rooms {
    ($($way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// What a seed draws of the ways.
        #[derive(Clone, Debug, Default)]
        pub struct DrawnWays {
            $($way: $way::$Way,)*
        }

        impl DrawnWays {
            pub(crate) fn switches(&self) -> WaySwitches {
                WaySwitches { $($way: self.$way.switch(),)* }
            }

            pub(crate) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
                let all: Vec<Vec<(&'static str, Setting<'_>)>> = vec![$(self.$way.settings(),)*];
                all.into_iter().flatten().collect()
            }
        }

        /// Draws them.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn draw(config: &mut Config, random: &mut Random) {
            $($way::draw(config, random);)*
        }

        /// Whether what one shard says to another says, too, that it has written yes.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn says_yes(words: &WayWords) -> bool {
            false $(|| $way::says_yes(words))*
        }
    };
}

claret_core::each_way!(rooms);
