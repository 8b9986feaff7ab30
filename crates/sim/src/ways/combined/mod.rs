//! Combining in the simulator: transactions of one session share locks and answers.

use claret_core::Client;
use claret_core::ways::WaySwitches;
use claret_core::ways::combined::{Stats, Switch};

use super::Way;
use crate::config::Config;
use crate::random::Random;
use crate::settings::Setting;

/// Whether they do.
pub(super) type Level = bool;

/// See the module's text.
pub(super) struct Combined;

impl Way for Combined {
    type Level = Level;

    fn draw(random: &mut Random) -> bool {
        random.chance(400)
    }

    fn setting(level: &mut bool) -> Option<(&'static str, Setting<'_>)> {
        Some(("combining", Setting::Flag(level)))
    }

    fn switch(config: &Config, ways: &mut WaySwitches) {
        // No mode combines without phases. Where nothing is remembered, a `Busy` for what a member that left had
        // asked for would be taken for one of the prepare.
        if config.ways.combined && (config.phasing || !config.direct) {
            ways.combined = Switch::Always;
        }
    }

    /// The founder of a group may get a second place.
    fn renumbers(level: &bool) -> bool {
        *level
    }

    fn word() -> Option<(&'static str, WaySwitches)> {
        Some(("combining", WaySwitches { combined: Switch::Always, ..WaySwitches::ROUNDS }))
    }

    fn show(client: &Client) -> Option<String> {
        let Stats { joined, parted, group_commits } = client.combining()?;
        let (shared, s) = (client.combined(), |count| if count == 1 { "" } else { "s" });
        Some(format!(
            "{shared} answer{} shared, {joined} joined, {parted} parted, {group_commits} commit{} of groups",
            s(shared),
            s(group_commits),
        ))
    }
}
