//! What an operator looks at when something is slow: records for which many had to wait, and those that somebody has waited for
//! longest; who holds them, who waits for whom.
//!
//! Bounded in time and size, however many records are held and however many wait: what is counted is in a table of its own
//! (`lock_table/hot.rs`), and of the other records some are looked at, others the next time.

use claret_types::Bytes;

use super::lock_table::Waited;
use crate::ids::AttemptId;

/// So many claims of a mode, of holders or of those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The mode's name.
    pub mode: &'static str,
    /// How many claims.
    pub claims: u64,
}

/// Who waits for whom on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Who waits.
    pub waiter: AttemptId,
    /// With which operation.
    pub method: &'static str,
    /// One who is in its way. `None`: nobody was found among those who were looked at; mostly it waits behind others who wait.
    pub holder: Option<AttemptId>,
}

/// A record for which somebody had to wait, or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotRecord {
    /// The record.
    pub key: Bytes,
    /// How often operations had to wait for it, by operation: those that waited most come first.
    pub waits: Vec<Waited>,
    /// The type whose modes are held now.
    pub kind: Option<&'static str>,
    /// What is held.
    pub held: Vec<Counted>,
    /// What is waited for.
    pub wanted: Vec<Counted>,
    /// How many hold it.
    pub holders: usize,
    /// How many wait for it.
    pub waiters: usize,
    /// How many this phase took in since somebody waits for its end.
    pub joined: u32,
    /// For how long somebody has waited for the end of this phase, in microseconds.
    pub waited_us: u64,
    /// How many stand in the record's line: ordered entries that are voted and not carried out.
    pub in_line: usize,
    /// Who waits for whom, eldest first. Not all, if they are many.
    pub behind: Vec<Behind>,
}

impl HotRecord {
    /// Waits lately, of all its operations.
    pub fn recent(&self) -> u64 {
        self.waits.iter().map(|waited| waited.recent).sum()
    }
}

/// The hot records of a shard, and those that somebody has waited for longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top {
    /// The hottest first, and behind these others that somebody has waited for long.
    pub records: Vec<HotRecord>,
    /// How many records there are in the table: for a shard whose content is elsewhere, those that are held.
    pub known: usize,
    /// How many of these were looked at to find who waits long. The others are looked at by those who pass [`next`](Self::next).
    pub looked_at: usize,
    /// Where to go on the next time.
    pub next: usize,
    /// How many hot records are not shown, since their keys may not be seen.
    pub hidden: usize,
}
