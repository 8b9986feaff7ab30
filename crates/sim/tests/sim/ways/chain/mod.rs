//! Chains: their bugs that scripts show.

use crate::planted::Scripted;

/// See [`planted`](crate::planted).
pub(super) const SCRIPTED: &[Scripted] = &[
    ("follows-any-voted", FOLLOWING, "with_bug(Some(Bug::FollowsAnyVoted),"),
    ("follows-any-change", FOLLOWING, "with_bug(Some(Bug::FollowsAnyChange),"),
    ("follows-one", FOLLOWING, "with_bug(Some(Bug::FollowsOne),"),
    ("follower-looks", FOLLOWING, "with_bug(Some(Bug::FollowerLooks),"),
    ("any-baton-counts", CHAINS, "with_bug(Some(Bug::AnyBatonCounts),"),
];

const CHAINS: &str = include_str!("../../../../../core/tests/core/ways/chain/batons.rs");
const FOLLOWING: &str = include_str!("../../../../../core/tests/core/ways/chain/following.rs");
