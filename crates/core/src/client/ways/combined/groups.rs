//! All groups of a process: by place, by the id under which each speaks to shards, and by when each is due.
//!
//! Invariant: each group is listed under its id, and under its deadline if it has one.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use hashbrown::HashMap;
use slab::Slab;
use smallvec::SmallVec;

use super::group::Group;
use crate::client::process::Process;
use crate::ids::{Birth, Time, TxHandle, TxId};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    list: Slab<Group>,
    by_id: HashMap<TxId, usize, foldhash::fast::FixedState>,
    deadlines: BTreeSet<(Time, usize)>,
}

impl Groups {
    /// A new id, and the group under it.
    pub(super) fn found(&mut self, process: &Process, birth: Birth, seed: u64, owner: TxHandle) -> usize {
        let mut coordinator = process.coordinator(birth, seed);
        process.met().iter().for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
        let at = self.list.insert(Group::new(coordinator, owner));
        self.by_id.insert(birth.tx, at);
        at
    }

    /// Nobody needs it any more: its id.
    pub(super) fn remove(&mut self, at: usize) -> TxId {
        self.set_due(at, None);
        let id = self.list.remove(at).coordinator.birth().tx;
        self.by_id.remove(&id);
        id
    }

    pub(super) fn get(&self, at: usize) -> Option<&Group> {
        self.list.get(at)
    }

    /// The group that speaks under an id.
    pub(super) fn place_of(&self, id: TxId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Group)> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Group)> {
        self.list.iter_mut()
    }

    /// The places of those that are meant. O(groups).
    pub(super) fn places(&self, is_meant: impl Fn(&Group) -> bool) -> SmallVec<[usize; 8]> {
        self.iter().filter(|(_, group)| is_meant(group)).map(|(at, _)| at).collect()
    }

    // --- deadlines ---

    pub(super) fn set_due(&mut self, at: usize, due: Option<Time>) {
        let before = self.list[at].replace_due(due);
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.deadlines.remove(&(before, at));
        }
        self.deadlines.extend(due.map(|due| (due, at)));
    }

    /// The places of those that are due.
    pub(super) fn due(&self, now: Time) -> SmallVec<[usize; 8]> {
        self.deadlines.range(..=(now, usize::MAX)).map(|(_, at)| *at).collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(due, _)| *due)
    }
}

impl Index<usize> for Groups {
    type Output = Group;

    fn index(&self, at: usize) -> &Group {
        &self.list[at]
    }
}

impl IndexMut<usize> for Groups {
    fn index_mut(&mut self, at: usize) -> &mut Group {
        &mut self.list[at]
    }
}
