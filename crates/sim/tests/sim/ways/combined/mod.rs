//! Combining.

use claret_sim::{Config, Totals};

#[cfg(feature = "planted-bugs")]
use crate::planted::Scripted;

/// Seeds show the others.
#[cfg(feature = "planted-bugs")]
pub(super) const SCRIPTED: &[Scripted] = &[
    ("mates-left-behind", SHARING, "with_bug(Some(Bug::MatesLeftBehind),"),
    ("group-forgets-expiry", SHARING, "with_bug(Some(Bug::GroupForgetsExpiry),"),
];

#[cfg(feature = "planted-bugs")]
const SHARING: &str = include_str!("../../../../../core/tests/core/ways/combined/sharing.rs");

pub(super) fn assert_met(totals: &Totals) {
    assert!(totals.combined > 50, "{totals:?}");
}

/// Both readings of the switch are met.
#[test]
fn some_seeds_combine() {
    let is_on = |seed: &u64| Config::random(*seed).all().contains("combining=true");
    let count = (0..200).filter(is_on).count();
    assert!((10..190).contains(&count), "{count} of 200");
}
