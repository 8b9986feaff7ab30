//! Chains (docs/chains.md), as a user sets them.

use claret_core::ways::chain::Switch;

/// Which transactions over several nodes commit in chains (docs/chains.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chains {
    /// None: in two rounds.
    #[default]
    Never,
    /// Those that use records for which many wait.
    Hot,
    /// All.
    Always,
}

pub(super) type Setting = Chains;

/// Of the URL.
pub(super) const PARAMETER: &str = "chains";

pub(super) fn parse(value: &str) -> Result<Chains, String> {
    match value {
        "never" => Ok(Chains::Never),
        "hot" => Ok(Chains::Hot),
        "always" => Ok(Chains::Always),
        _ => Err(format!("{PARAMETER}: '{value}' is neither never nor hot nor always")),
    }
}

pub(super) fn switch(chains: Chains) -> Switch {
    match chains {
        Chains::Never => Switch::Never,
        Chains::Hot => Switch::Hot,
        Chains::Always => Switch::Always,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_is_never_hot_or_always() {
        let parsed = ["never", "hot", "always"].map(|value| parse(value).expect("known"));
        assert_eq!(parsed, [Chains::Never, Chains::Hot, Chains::Always]);
        let reason = parse("1").expect_err("no such value");
        assert!(reason.starts_with("chains: '1' is neither "), "{reason}");
    }
}
