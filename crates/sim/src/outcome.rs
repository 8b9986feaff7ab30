//! What a run of the simulator came to.

use std::fmt;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that their users aborted.
    pub aborted: u64,
    /// Transactions that failed for good.
    pub failed: u64,
    /// Attempts that were run again.
    pub restarts: u64,
    /// Messages sent.
    pub messages: u64,
    /// Messages lost, doubled or slowed, links cut, ends paused, clients dead.
    pub faults: u64,
    /// Attempts in doubt that shards resolved among themselves.
    pub recoveries: u64,
    /// Transactions whose users heard that their end is unknown.
    pub unknown: u64,
    /// Restarts of shards.
    pub shard_restarts: u64,
    /// Records that vanished by themselves.
    pub vanished: u64,
    /// Slots that went from one shard to another.
    pub moved: u64,
    /// Nodes that left for good.
    pub left: u64,
    /// Frames that shards did not take.
    pub refused_frames: u64,
    /// Transactions whose users left before they knew the end.
    pub abandoned: u64,
    /// Transactions torn by restarts that lost votes, as `docs/protocol.md` says they may be.
    pub torn: u64,
    /// Transactions that were judged from observed results alone.
    pub judged: u64,
    /// "Must precede" edges between them.
    pub edges: u64,
    /// Answers that were shared between transactions of one session.
    pub combined: u64,
    /// 1 if the conditions of a workload were checked at the end.
    pub conditions_checked: u64,
    /// Why they were not.
    pub conditions_left: Option<LeftOut>,
    /// Steps taken.
    pub steps: u64,
    /// Virtual time at the end, in microseconds.
    pub micros: u64,
    /// The same for the same seed, and for hardly any other.
    pub trace_hash: u64,
}

/// Why the records at the end of a run say nothing of a workload's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The run was cut off.
    CutOff,
    /// A transaction is torn: a vote was lost with a node that left, or that restarted.
    Torn,
    /// A shard lost its records.
    Lost,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::CutOff => "the run was cut off",
            LeftOut::Torn => "a transaction is torn",
            LeftOut::Lost => "a shard lost its records",
        })
    }
}
