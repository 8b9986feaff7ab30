//! The lock table's part of a shard's digest: see `crates/core/src/digest.rs`.

use std::fmt::Debug;

use claret_types::Bytes;

use super::{Lock, LockTable, Phaser, Record, RecordIx};

impl LockTable {
    pub(crate) fn key(&self, record: RecordIx) -> &Bytes {
        &self.records[record].key
    }

    /// Records and locks by key. Between two steps nothing is staged and nobody is about to be woken.
    pub(crate) fn content(&self) -> impl Debug + '_ {
        let mut records: Vec<&Record> = self.records.iter().map(|(_, record)| record).collect();
        records.sort_unstable_by_key(|record| &*record.key);
        let records: Vec<_> = records
            .into_iter()
            .map(|Record { key, hash: _, state, lock }| (key, state, lock.as_deref().map(Lock::content)))
            .collect();
        (records, &self.staged, &self.woken, &self.notices, self.clocks.content(), self.heat.content())
    }
}

impl Lock {
    /// The sums of claims, `held` and `wanted`, are left out: `check_invariants` compares them with what they sum.
    fn content(&self) -> impl Debug + use<'_> {
        let Lock {
            kind,
            held: _,
            holders,
            youngest,
            expires,
            vanished,
            before_it_vanished,
            line,
            followers: _, // As the holders have them.
            phaser,
        } = self;
        let Phaser { upgrades, queues, joins, told, waited_since } = phaser;
        let mut holders: Vec<_> = holders.iter().collect();
        holders.sort_unstable_by_key(|(attempt, _)| **attempt);
        let mut waiters: Vec<_> = Vec::new();
        for queue in queues {
            let name = queue.kind.name;
            waiters.extend(queue.waiters.iter().map(|(place, it)| (place, name, Some(queue.modes), it)));
        }
        waiters.extend(upgrades.iter().map(|(place, it)| (place, it.kind.name, None, it)));
        waiters.sort_unstable_by_key(|(place, ..)| **place);
        let waiters: Vec<_> = waiters
            .into_iter()
            .map(|(place, kind, modes, it)| (place, kind, modes, it.kind.name, &it.call, &it.footprint))
            .collect();
        (
            kind.map(|kind| kind.name),
            holders,
            youngest,
            (expires, vanished, before_it_vanished, line.as_ref().map(|line| line.content())),
            waiters,
            joins,
            told,
            waited_since,
        )
    }
}
