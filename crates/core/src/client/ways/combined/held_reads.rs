//! The reads whose locks are held by open groups of this process, by record (`claret-2015`, s.5.3).
//!
//! Invariant: every entry is of an open group, and its answer is what the record holds until that group ends.
//! Entries are looked up, never iterated over by key.

use claret_types::{Bytes, Operation, Reply};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// A read that was granted.
#[derive(Clone, Debug)]
pub(super) struct HeldRead {
    /// Whose lock.
    pub(super) group: usize,
    op: Operation,
    reply: Reply,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldReads {
    by_key: HashMap<Bytes, SmallVec<[HeldRead; 2]>, foldhash::fast::FixedState>,
}

impl HeldReads {
    /// A read of `group` was granted. Returns whether it is the group's first on this record.
    pub(super) fn insert(&mut self, group: usize, key: &Bytes, op: Operation, reply: Reply) -> bool {
        let held = self.by_key.entry(key.clone()).or_default();
        let first = held.iter().all(|read| read.group != group);
        if !held.iter().any(|read| read.group == group && read.op == op) {
            held.push(HeldRead { group, op, reply });
        }
        first
    }

    /// A group closes, which holds reads on these records.
    pub(super) fn remove(&mut self, group: usize, keys: &[Bytes]) {
        for key in keys {
            let Some(held) = self.by_key.get_mut(key) else { continue };
            held.retain(|read| read.group != group);
            if held.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// The groups whose held reads answer `op`, oldest first, with the answer. Looks at `limit` reads.
    pub(super) fn answers(&self, key: &Bytes, op: &Operation, limit: u32) -> SmallVec<[(usize, Reply); 2]> {
        let held = self.by_key.get(key).into_iter().flatten().take(limit as usize);
        held.filter_map(|read| Some((read.group, op.combine_with(&read.op, &read.reply)?))).collect()
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
