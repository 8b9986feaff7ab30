//! Chains (`docs/chains.md`): what both sides know of them.

/// Which transactions over several shards commit in chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// None.
    #[default]
    Never,
}

impl Switch {
    /// No transaction commits in a chain.
    pub const NEVER: Switch = Switch::Never;
}

/// What is compared.
pub const NAMED: &[(&str, crate::ways::WaySwitches)] = &[];
