//! Combining (`docs/combining.md`): transactions of one session share locks and answers.

use claret_core::Client;
use claret_core::message::WayWords;
use claret_core::ways::WaySwitches;
use claret_core::ways::combined::{Stats, Switch};

use crate::config::Config;
use crate::random::Random;
use crate::settings::Setting;

/// What a seed draws of combining.
#[derive(Clone, Debug, Default)]
pub(super) struct Combined {
    combining: bool,
}

impl Combined {
    pub(super) fn draw(random: &mut Random) -> Combined {
        Combined { combining: random.chance(400) }
    }

    pub(super) fn switch(&self, config: &Config) -> Switch {
        // No mode combines without phases. Where nothing is remembered, a `Busy` for what a member that left had
        // asked for would be taken for one of the prepare.
        let is_on = self.combining && (config.phasing || !config.direct);
        if is_on { Switch::Always } else { Switch::Never }
    }

    pub(super) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![("combining", Setting::Flag(&mut self.combining))]
    }

    /// Who founded a group and left it gets another place in the session.
    pub(super) fn renumbers(&self) -> bool {
        self.combining
    }
}

pub(super) fn draw_latest(_config: &mut Config, _random: &mut Random) {}

/// In a script, of a client.
pub(super) const WORD: Option<(&str, WaySwitches)> =
    Some(("combining", WaySwitches { combined: Switch::Always, ..WaySwitches::ROUNDS }));

pub(super) fn show(client: &Client) -> Option<String> {
    let Stats { joined, parted, group_commits } = client.combining()?;
    let (shared, s) = (client.combined(), |count| if count == 1 { "" } else { "s" });
    Some(format!(
        "{shared} answer{} shared, {joined} joined, {parted} parted, {group_commits} commit{} of groups",
        s(shared),
        s(group_commits),
    ))
}

/// Groups have no words between shards.
pub(super) fn says_yes(_words: &WayWords) -> bool {
    false
}
