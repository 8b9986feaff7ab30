//! The ways to commit: what a seed draws of each, what scripts have of it, and what is to be known of its words.

use claret_core::Client;
use claret_core::message::WayWords;
use claret_core::ways::{ProcessWay, WaySwitches};

use crate::random::Random;
use crate::setting::Setting;

/// The settings of a configuration that a way may change when it is drawn, besides its own.
#[allow(dead_code, reason = "there may be no ways")]
pub(crate) struct Others<'a> {
    pub(crate) shards: &'a mut u32,
    pub(crate) keys: &'a mut u32,
    pub(crate) reader_writer: &'a mut bool,
    pub(crate) phasing: &'a mut bool,
    pub(crate) direct: &'a mut bool,
    pub(crate) ordering: &'a mut u32,
    pub(crate) steps_max: &'a mut u64,
    pub(crate) single_permille: &'a mut u64,
    pub(crate) interactive_permille: &'a mut u64,
}

macro_rules! rooms {
    ($(round $round:ident: $Round:ident;)* $(process $process:ident: $Process:ident;)*) => {
        $(mod $round;)*
        $(mod $process;)*

        /// What a seed draws of the ways.
        #[derive(Clone, Debug, Default)]
        pub struct DrawnWays {
            $($round: $round::$Round,)*
            $($process: $process::$Process,)*
        }

        impl DrawnWays {
            /// What is drawn before all but a run's bounds.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(crate) fn draw(random: &Random) -> DrawnWays {
                DrawnWays {
                    $($round: $round::$Round::draw(random.clone()),)*
                    $($process: $process::$Process::draw(random.clone()),)*
                }
            }

            /// Draws what comes last.
            #[allow(unused_mut, unused_variables, reason = "there may be no ways")]
            pub(crate) fn draw_latest(&mut self, mut others: Others<'_>, random: &Random) {
                $(self.$round.draw_latest(&mut others, random.clone());)*
                $(self.$process.draw_latest(&mut others);)*
            }

            /// In which ways commits go, where they can.
            pub(crate) fn switches(&self) -> WaySwitches {
                WaySwitches { $($round: self.$round.switch(),)* }
            }

            /// The way that has all transactions of a process, where it can.
            pub(crate) fn process_way(&self) -> Option<ProcessWay> {
                $(if self.$process.is_on() {
                    return Some(ProcessWay::$Process);
                })*
                None
            }

            /// Whether handles are no places in the session: a way that has all transactions may give them others.
            pub(crate) fn renumber(&self) -> bool {
                self.process_way().is_some()
            }

            pub(crate) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
                let all: Vec<Vec<(&'static str, Setting<'_>)>> = vec![$(self.$round.settings(),)* $(self.$process.settings(),)*];
                all.into_iter().flatten().collect()
            }
        }

        /// What a client does of which a script says this word.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn of_word(said: &str) -> Option<ProcessWay> {
            $(if $process::WORD == said {
                return Some(ProcessWay::$Process);
            })*
            None
        }

        /// What a script shows of a client besides: of each way that it goes.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn show(client: &Client) -> Vec<String> {
            let shown: Vec<Option<String>> = vec![$($process::show(client),)*];
            shown.into_iter().flatten().collect()
        }

        /// Whether what one shard says to another says, too, that it has written yes.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn says_yes(words: &WayWords) -> bool {
            false $(|| $round::says_yes(words))*
        }
    };
}

claret_core::each_way!(rooms);
