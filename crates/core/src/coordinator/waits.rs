//! What an attempt waits for: its user asks when the deadline has passed.

use claret_types::Bytes;

use crate::ids::{AttemptId, ShardId, Time};

/// That an attempt waits for others, as far as it has heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Under which the shards know it.
    pub attempt: AttemptId,
    /// Since when.
    pub since: Time,
    /// The records of the calls that shards said wait, each once, with its shard. Of a commit, all that it asked of such a
    /// shard: one of them is what it waits for.
    pub records: Vec<(ShardId, Bytes)>,
}
