//! Combining (C1 to C16 of `docs/combining.md`): what others may know of it.

mod bugs;

pub(crate) use bugs::bugs;

/// See [`ProcessWay::name`](crate::ways::ProcessWay::name): transactions of one process share locks and answers (C1).
pub(crate) const NAME: &str = "boost+phase+combine";

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
