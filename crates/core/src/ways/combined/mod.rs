//! Combining (C1 to C16 of `docs/combining.md`): what others may know of it.

use crate::switches::Switches;
use crate::ways::WaySwitches;

/// Whether transactions of one process share locks and answers (C1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// They do not.
    #[default]
    Never,
    /// They do.
    Always,
}

impl Switch {
    /// Nobody shares anything.
    pub const NEVER: Switch = Switch::Never;
}

/// What is compared.
pub const NAMED: &[(&str, WaySwitches)] =
    &[("boost+phase+combine", WaySwitches { combined: Switch::Always, ..WaySwitches::ROUNDS })];

/// The same switches, with combining as this says.
pub const fn switched(mut switches: Switches, combined: Switch) -> Switches {
    switches.ways.combined = combined;
    switches
}

/// What combining came to since the client process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that joined another's group.
    pub joined: u64,
    /// Transactions taken out of a group to be restarted.
    pub parted: u64,
    /// Commits of groups of two or more: one round for all of them.
    pub group_commits: u64,
}
