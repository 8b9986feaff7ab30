//! Chains: their bugs that scripts show.

use claret_sim::Totals;

#[cfg(feature = "planted-bugs")]
use crate::planted::Scripted;

/// See `planted`.
#[cfg(feature = "planted-bugs")]
pub(super) const SCRIPTED: &[Scripted] = &[
    ("follows-any-voted", FOLLOWING, "with_bug(Some(Bug::FollowsAnyVoted),"),
    ("follows-any-change", FOLLOWING, "with_bug(Some(Bug::FollowsAnyChange),"),
    ("follows-one", FOLLOWING, "with_bug(Some(Bug::FollowsOne),"),
    ("follower-looks", FOLLOWING, "with_bug(Some(Bug::FollowerLooks),"),
    ("any-token-counts", CHAINS, "with_bug(Some(Bug::AnyTokenCounts),"),
];

#[cfg(feature = "planted-bugs")]
const CHAINS: &str = include_str!("../../../../../core/tests/core/ways/chain/tokens.rs");
#[cfg(feature = "planted-bugs")]
const FOLLOWING: &str = include_str!("../../../../../core/tests/core/ways/chain/following.rs");

/// No total tells of them.
pub(super) fn assert_met(_totals: &Totals) {}
