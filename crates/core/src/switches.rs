//! Switches for measuring (P70). Each is a real alternative.

use crate::ways::WaySwitches;

/// Which conflicts a lock sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// Reads share, writes exclude: the papers' baseline.
    ReaderWriter,
    /// What the type says commutes, shares (boosting).
    Abstract,
}

/// How messages reach a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// By a call in the same process: never lost, doubled or late. Shards keep no record of what is over, and
    /// no leases: a dropped transaction says so itself.
    Direct,
    /// By a network.
    Network,
}

/// Whether calls are ordered instead of locked (P73 to P88).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// Never.
    Never,
    /// On records for which many wait (P87).
    Hot,
    /// On every record, wherever a call can be.
    Always,
}

/// What is switched on (P70).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Reader/writer or abstract locks.
    pub locks: Locks,
    /// Waiters queue in phases; otherwise a refused request is retried after a pause.
    pub phasing: bool,
    /// One-shot transactions of one process that leave together commit as one attempt (B1). Not where a way has all transactions.
    pub batching: bool,
    /// How messages travel.
    pub delivery: Delivery,
    /// Whether calls are ordered. Over a network alone.
    pub ordering: Ordered,
    /// Which transactions commit in other ways than in two rounds.
    pub ways: WaySwitches,
}

impl Switches {
    /// What Claret does over a network, but for batches.
    pub const CLARET: Switches = Switches {
        locks: Locks::Abstract,
        phasing: true,
        batching: false,
        delivery: Delivery::Network,
        ordering: Ordered::Never,
        ways: WaySwitches::ROUNDS,
    };
}
