//! Combining (C1 to C16 of `docs/combining.md`): what others may know of it.

mod bugs;

use crate::switches::Switches;
use crate::ways::{Named, WaySwitches};
pub(crate) use bugs::bugs;

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
    /// All that can do.
    pub const ALWAYS: Switch = Switch::Always;
}

/// See [`WaySwitches::OF_PROCESSES`].
pub const NAMED: &[Named] = &[Named {
    name: "boost+phase+combine",
    ways: WaySwitches { combined: Switch::Always, ..WaySwitches::ROUNDS },
}];

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
