//! What a lock table counts: for people, and for what one input may cost (P38).

use claret_types::Reply;

use crate::records::Read;
use crate::shard::picture::Stats;

/// Counts since the shard began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    looks: u64,
    grants: u64,
    waits: u64,
    phases: u64,
    /// Effects of a transaction's own earlier calls that were added to a state before a call was executed in it.
    replays: u64,
    /// See [`Stats`].
    visits: u64,
    /// What was read for calls, and what they answered.
    read: Read,
}

impl Counts {
    /// An operation is executed to see whether its lock is free.
    #[inline]
    pub(super) fn look(&mut self) {
        self.looks += 1;
    }

    #[inline]
    pub(super) fn grant(&mut self) {
        self.grants += 1;
    }

    #[inline]
    pub(super) fn wait(&mut self) {
        self.waits += 1;
    }

    #[inline]
    pub(super) fn begin_phase(&mut self) {
        self.phases += 1;
    }

    #[inline]
    pub(super) fn replay(&mut self, effects: usize) {
        self.replays += effects as u64;
    }

    #[inline]
    pub(super) fn visit(&mut self, calls: usize) {
        self.visits += calls as u64;
    }

    #[inline]
    pub(super) fn read(&mut self, read: Read) {
        self.read += read;
    }

    #[inline]
    pub(super) fn answer(&mut self, reply: &Reply) {
        self.read += Read::of_answer(reply);
    }

    /// What calls cost beside that they are executed, as if it was calls: effects that were added, and what was read and answered.
    #[inline]
    pub(super) fn dearness(&self) -> u64 {
        self.replays.saturating_add(self.read.cost() / Read::BYTES_WORTH)
    }

    /// A shard's counts with these.
    pub(super) fn added_to(&self, stats: Stats) -> Stats {
        let Counts { looks, grants, waits, phases, replays, visits, read } = *self;
        let (elements_read, bytes_read, visits) = (read.elements, read.bytes, visits + stats.visits);
        Stats { looks, grants, waits, phases, replays, elements_read, bytes_read, visits, ..stats }
    }
}
