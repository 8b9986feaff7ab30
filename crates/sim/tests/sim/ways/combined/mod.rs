//! Combining.

use claret_sim::{Config, Totals};

pub(super) fn assert_met(totals: &Totals) {
    assert!(totals.combined > 50, "{totals:?}");
}

pub(super) fn is_on(config: &Config) -> bool {
    config.ways.combined
}
