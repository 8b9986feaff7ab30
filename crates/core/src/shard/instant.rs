//! Instant transactions: all operations are known up front, nothing is held, and every shard is at hand.
//!
//! A host that can stop all shards of a transaction at once (the embedded store holds their mutexes) needs no two
//! rounds: it executes and applies call by call on each shard, and either finishes all or undoes all, before anybody
//! looks. No lock is taken, so it can only conflict with claims that others hold across awaits; then the host undoes
//! everything and starts over with locks.
//!
//! An instant transaction may pass waiters: it holds nothing when it is over, so it lengthens nobody's phase. In the
//! sense of P9 it has one participant, the union of the shards.

use claret_types::{Bytes, OpError, Operation, Reply};

use super::Shard;

impl Shard {
    /// Executes and applies one operation; `hash` is [`super::key_hash`] of the key. `None` when the claims of
    /// another transaction are in the way.
    ///
    /// # Errors
    /// When the operation cannot be done in this state.
    pub fn instant(&mut self, hash: u64, key: &Bytes, op: &Operation) -> Result<Option<Reply>, OpError> {
        self.table.instant(hash, key, op, true)
    }

    /// The same with no regard to locks: for measuring what they cost (P70, mode `none`).
    ///
    /// # Errors
    /// When the operation cannot be done in this state.
    pub fn unlocked(&mut self, hash: u64, key: &Bytes, op: &Operation) -> Result<Reply, OpError> {
        self.table.instant(hash, key, op, false).map(|reply| reply.expect("without locks nothing conflicts"))
    }

    /// What was done instantly stays.
    pub fn finish_instant(&mut self) {
        self.stats.commits += 1;
        self.table.finish_instant();
    }

    /// What was done instantly is undone.
    pub fn undo_instant(&mut self) {
        self.table.undo_instant();
    }
}
