//! Programs that first wait until a list has something for them (P91), and whose users give up if that takes too long.

use claret_core::{SessionId, Time};
use claret_types::{End, List, ListOp, Operation};

use crate::process::Transaction;
use crate::random::Stream;
use crate::workload::{Action, Step};
use crate::world::World;

/// The family of records for which they wait.
const FAMILY: &[u8] = b"list";

/// Users have so much patience, in microseconds.
const PATIENCE_US: [u64; 3] = [1_000, 20_000, 200_000];

impl World {
    /// Whether a program may sleep: with phases, and where nothing of it is looked at or undone.
    pub(crate) fn may_sleep(&self, transaction: &Transaction, is_nested: bool) -> bool {
        self.config.sleeping_permille > 0
            && self.config.phasing
            && !is_nested
            && transaction.looking.is_none()
            && !transaction.program.steps.is_empty()
    }

    /// Some programs begin with a call that waits. Until when.
    pub(crate) fn fall_asleep(&self, session: SessionId, transaction: &mut Transaction) -> Option<Time> {
        let sequence = self.processes.get(&session)?.begun;
        let mut random = self.draws.stream(Stream::Sleeping { session: session.0, sequence });
        let lists: Vec<_> = self.workload.keys.iter().filter(|key| key.name.starts_with(FAMILY)).collect();
        if lists.is_empty() || !random.chance(self.config.sleeping_permille) {
            return None;
        }
        let key = random.pick(&lists).name.clone();
        let end = *random.pick(&[End::Front, End::Back]);
        let op = Operation::new::<List>(ListOp::Pop(end)).waiting();
        transaction.program.steps.insert(0, Step::Execute(vec![Action::fixed(key, op)]));
        let patience = *random.pick(&PATIENCE_US);
        Some(self.now.plus(random.below(patience)))
    }
}
