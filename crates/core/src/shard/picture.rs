//! Who holds, who waits and how often, for display: this explains a stuck shard.

use claret_types::Bytes;

use crate::ids::AttemptId;

/// Counts since the shard began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How often an operation was executed to see whether its lock is free.
    pub looks: u64,
    /// Operations that got their lock.
    pub grants: u64,
    /// Requests that had to wait, or were refused as busy.
    pub waits: u64,
    /// Phases that began with waiters.
    pub phases: u64,
    /// Effects of a transaction's own earlier calls that were added to a record before a call of it was executed there.
    pub replays: u64,
    /// Elements that were read of records for calls, or answered.
    pub elements_read: u64,
    /// Bytes that were read of records for calls, or answered.
    pub bytes_read: u64,
    /// Calls of an attempt, records that it holds, and answers that it has, that were looked at for a message besides what that is
    /// about.
    pub visits: u64,
    /// How often a transaction was put off, since it had more calls than are executed at once.
    pub put_off: u64,
    /// Attempts committed here.
    pub commits: u64,
    /// Of these, those that are counted here: of its participants the one with the smallest number counts a transaction. So
    /// the sum over all shards is how many transactions there were; those of a combined group are one.
    pub transactions: u64,
    /// Attempts refused or aborted here.
    pub aborts: u64,
    /// Attempts in doubt that were resolved by asking the other participants.
    pub recoveries: u64,
    /// Questions of other shards that were not answered, since there was no room to write a no.
    pub unanswered: u64,
    /// What became of trials of the other one of locks and order.
    pub trials: Trials,
}

/// What became of trials of the other one of locks and order (P87).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// Those that were compared with what was before and after.
    pub compared: u64,
    /// Those that said nothing, since some of what was carried out had a timestamp and some had none.
    pub mixed: u64,
    /// Those that said nothing, since much more was carried out before than after, or much less.
    pub unequal: u64,
    /// How often the shard began to ask for timestamps, or stopped.
    pub changes: u64,
}

/// One record that somebody holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The record.
    pub key: Bytes,
    /// Who holds it, in no useful order.
    pub holders: Vec<AttemptId>,
    /// Who waits for it, in no useful order.
    pub waiters: Vec<AttemptId>,
}
