//! Which records are hot: their shards are asked last, one after another (P49). And which shards rest: they are asked
//! first (P50).
//!
//! Prepares that leave all at once hold a hot record for a round trip. A transaction that asks the record's shard
//! after all others have voted holds it for no time: the shard votes, applies and releases in one step (P9; the last
//! agent of J. Gray's linear commit, "Notes on Data Base Operating Systems", 1978). It costs the transaction one more
//! round trip for each shard with a hot record, so it is done only where many wait.
//!
//! All transactions of a process ask hot shards in about one order, and lock the records of a shard in about one
//! order, so that they seldom wait for each other in a circle. No argument for safety or progress depends on this.
//!
//! Counts are kept by the hash of a key, in a table of fixed size: two keys may share a cell, which at worst costs
//! time. All counts are halved now and then, so that records that were hot are forgotten.

use claret_types::Bytes;
use smallvec::SmallVec;

use crate::coordinator::Coordinator;
use crate::ids::{ShardId, Timestamp};
use crate::limits::Limits;
use crate::message::{Refusal, Response};
use crate::shard::key_hash;
use crate::switches::Switches;

/// Cells, as a power of two.
const CELLS_BITS: u32 = 12;

/// After so many uses all counts are halved.
const USES_UNTIL_HALVED: usize = 1 << 16;

/// A record is hot while at least one of so many uses of it had to wait.
const USES_A_WAIT_MAX: u32 = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    uses: u32,
    waits: u32,
}

/// How hot records and shards are, for all transactions of a process: in a table of fixed size, forgotten by halves.
#[derive(Clone, Debug)]
pub struct Contention {
    /// None where no time passes between prepare and apply, or nobody waits.
    cells: Box<[Cell]>,
    uses: usize,
    /// Uses of the most used hot record of each shard: the order in which they are asked.
    shards: Vec<(ShardId, u32)>,
    waits_min: u32,
    /// About which timestamp the next commit is to have, where calls are ordered.
    suggested: Option<Timestamp>,
    /// How far a vote was above that, in microseconds.
    lifted: Option<u64>,
    /// So many commits go in two rounds: a shard refused another way.
    in_rounds: u32,
    /// Shards whose last word was that they take nothing.
    resting: SmallVec<[ShardId; 2]>,
}

/// So many commits go in two rounds after a shard refused another way, or that led nowhere.
const COMMITS_IN_ROUNDS: u32 = 1_024;

/// So many of the calls that are under way are looked at, the latest.
const LOOKED_AT_MAX: usize = 64;

impl Contention {
    /// Nothing is hot.
    pub fn new(switches: Switches, limits: Limits) -> Self {
        let is_of_use = !switches.is_direct() && switches.is_phased();
        let cells = if is_of_use { 1 << CELLS_BITS } else { 0 };
        let cells = vec![Cell::default(); cells].into();
        Contention {
            cells,
            uses: 0,
            shards: Vec::new(),
            waits_min: limits.hot_waits_min,
            suggested: None,
            lifted: None,
            in_rounds: 0,
            resting: SmallVec::new(),
        }
    }

    /// A transaction is about to commit: brings its calls into the order in which they are to be locked, the hottest
    /// last, and returns those of its shards that have hot records, the hottest last. O(its calls), and sorting them
    /// if one is hot.
    pub fn arrange(&mut self, coordinator: &mut Coordinator) -> SmallVec<[ShardId; 4]> {
        if let Some(suggested) = self.suggested {
            coordinator.stamp(suggested);
        }
        if self.in_rounds > 0 {
            self.in_rounds -= 1;
            coordinator.commit_in_rounds();
        }
        let mut resting = self.resting.iter().copied();
        coordinator.ask_first(resting.find(|shard| coordinator.will_ask(*shard)));
        let mut hot: SmallVec<[ShardId; 4]> = SmallVec::new();
        if self.cells.is_empty() {
            return hot;
        }
        for (shard, call) in coordinator.buffered_calls() {
            let waits_min = self.waits_min;
            let cell = self.cell(&call.key);
            cell.uses += 1;
            let often = cell.waits.saturating_mul(USES_A_WAIT_MAX) >= cell.uses;
            if waits_min == 0 || often && cell.waits >= waits_min {
                let uses = cell.uses;
                self.note_hot(*shard, uses);
                if !hot.contains(shard) {
                    hot.push(*shard);
                }
            }
        }
        if !hot.is_empty() {
            hot.sort_by_key(|shard| (self.uses_of(*shard), *shard));
            coordinator.order_buffered(|key| (self.cell(key).uses, key_hash(key)));
        }
        self.uses += coordinator.buffered_calls().len();
        self.halve_if_due();
        hot
    }

    /// A response came: it may say which call waits. O(calls of the transaction).
    pub fn learn(&mut self, coordinator: &Coordinator, from: ShardId, response: &Response) {
        if let (Response::Placed { at, .. }, Some(suggested)) = (response, coordinator.suggested()) {
            self.lifted = self.lifted.max(Some(at.0.saturating_sub(suggested.0)));
        }
        match response {
            Response::Refused { refusal: Refusal::OnlyRounds, .. } => self.in_rounds = COMMITS_IN_ROUNDS,
            Response::Refused { refusal: Refusal::Withdrawn, .. } if coordinator.gave_up_its_way() => {
                self.in_rounds = COMMITS_IN_ROUNDS;
            }
            Response::Refused { refusal: Refusal::ReadOnly, .. } if !self.resting.contains(&from) => {
                self.resting.push(from);
            }
            Response::Voted { .. }
            | Response::Committed { .. }
            | Response::Placed { .. }
            | Response::Done { .. }
                if !self.resting.is_empty() =>
            {
                self.resting.retain(|shard| *shard != from);
            }
            _ => {}
        }
        let Response::Queued { attempt, no: Some(no) } = response else { return };
        if *attempt != coordinator.attempt() || self.cells.is_empty() {
            return;
        }
        if let Some(key) = coordinator.executed_lately(from, *no, LOOKED_AT_MAX) {
            let cell = self.cell(key);
            (cell.uses, cell.waits) = (cell.uses + 1, cell.waits + 1);
            self.uses += 1;
        } else if coordinator.is_first_wait_of_prepare(from) {
            let mut prepared = coordinator.buffered_calls().iter();
            let waits = prepared.find(|(shard, it)| *shard == from && it.call.no == *no);
            waits.into_iter().for_each(|(_, it)| self.cell(&it.key).waits += 1);
        }
        self.halve_if_due();
    }

    /// About which timestamp commits are to have from now on (P73); none.
    pub(crate) fn suggest(&mut self, suggested: Option<Timestamp>) {
        self.suggested = suggested;
    }

    /// How far the last vote was lifted above what was suggested, in microseconds, if one came since the last time.
    pub(crate) fn take_lifted(&mut self) -> Option<u64> {
        self.lifted.take()
    }

    /// Of its most used hot record.
    fn uses_of(&self, shard: ShardId) -> u32 {
        self.shards.iter().find(|(known, _)| *known == shard).map_or(0, |(_, uses)| *uses)
    }

    fn note_hot(&mut self, shard: ShardId, uses: u32) {
        match self.shards.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, most)) => *most = uses.max(*most),
            None => self.shards.push((shard, uses)),
        }
    }

    fn halve_if_due(&mut self) {
        if self.uses < USES_UNTIL_HALVED {
            return;
        }
        self.uses = 0;
        for cell in &mut self.cells {
            *cell = Cell { uses: cell.uses / 2, waits: cell.waits / 2 };
        }
        self.shards.iter_mut().for_each(|(_, uses)| *uses /= 2);
    }

    fn cell(&mut self, key: &Bytes) -> &mut Cell {
        &mut self.cells[(key_hash(key) >> (u64::BITS - CELLS_BITS)) as usize]
    }
}
