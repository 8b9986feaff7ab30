//! Combining (`docs/combining.md`): transactions of one session share locks and answers.

use claret_core::Client;
use claret_core::ways::combined::Stats;

use crate::random::Random;
use crate::setting::Setting;
use crate::ways::Others;

/// What a seed draws of combining.
#[derive(Clone, Debug, Default)]
pub(super) struct Combined {
    combining: bool,
}

impl Combined {
    pub(super) fn draw(mut random: Random) -> Combined {
        Combined { combining: random.chance(400) }
    }

    /// It goes with abstract locks and phases. Calls in one process that were drawn without phases go without it.
    pub(super) fn draw_latest(&mut self, others: &mut Others<'_>) {
        self.combining &= *others.phasing || !*others.direct;
        if self.combining {
            (*others.reader_writer, *others.phasing) = (false, true);
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.combining
    }

    pub(super) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![("combining", Setting::Flag(&mut self.combining))]
    }
}

/// In a script, of a client.
pub(super) const WORD: &str = "combining";

pub(super) fn show(client: &Client) -> Option<String> {
    let Stats { joined, parted, group_commits } = client.combining()?;
    let (shared, s) = (client.combined(), |count| if count == 1 { "" } else { "s" });
    Some(format!(
        "{shared} answer{} shared, {joined} joined, {parted} parted, {group_commits} commit{} of groups",
        s(shared),
        s(group_commits),
    ))
}
