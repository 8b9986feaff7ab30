//! Whom a transaction waits for: its caller asks when the deadline has passed (P72).

use claret_types::Bytes;
use smallvec::SmallVec;

use super::Client;
use crate::coordinator::Event;
use crate::ids::{AttemptId, ShardId, Time, TxHandle};
use crate::message::Request;

/// So many records of one answer are looked at.
const BEHIND_MAX: usize = 8;

/// A transaction whose caller asked whom it waits for.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) tx: TxHandle,
    attempt: AttemptId,
    /// Shards that have not answered.
    missing: usize,
    record: Option<(Bytes, Option<AttemptId>)>,
}

impl Client {
    /// Asks whom a transaction waits for (P72): [`Event::Behind`] follows once, unless an answer is lost. Whether there is
    /// anything to ask. Its caller ends it then, one way or the other.
    pub fn ask_behind(&mut self, now: Time, tx: TxHandle) -> bool {
        self.asking.retain(|asking| asking.tx != tx);
        let Some(waits) = self.transactions.keeper().waits(tx) else { return false };
        let mut shards: SmallVec<[ShardId; 4]> = waits.records.iter().map(|(shard, _)| *shard).collect();
        shards.sort_unstable();
        shards.dedup();
        if shards.is_empty() {
            return false;
        }
        let attempt = waits.attempt;
        self.asking.push(Asking { tx, attempt, missing: shards.len(), record: None });
        self.outputs.now = now;
        for shard in shards {
            self.outputs.send(shard, Request::AskBehind { attempt });
        }
        true
    }

    /// A shard said whom an attempt waits for there. It is that of all members of a group, each of which waits for its own
    /// records, and what a shard says is believed of these alone.
    pub(super) fn tell_behind(&mut self, attempt: AttemptId, records: &[(Bytes, Option<AttemptId>)]) {
        for asking in self.asking.iter_mut().filter(|asking| asking.attempt == attempt) {
            let own = self.transactions.keeper().waits(asking.tx).filter(|waits| waits.attempt == attempt);
            let own = own.map_or_else(Vec::new, |waits| waits.records);
            let is_own = |key: &Bytes| own.iter().any(|(_, known)| known == key);
            let record = records.iter().take(BEHIND_MAX).find(|(key, _)| is_own(key));
            asking.missing = asking.missing.saturating_sub(1);
            asking.record = asking.record.take().or_else(|| record.cloned());
        }
    }

    /// The next answer to who asked whom it waits for.
    pub(super) fn poll_behind(&mut self) -> Option<(TxHandle, Event)> {
        let is_answered = |asking: &Asking| asking.missing == 0 || asking.record.is_some();
        let at = self.asking.iter().position(is_answered)?;
        let Asking { tx, record, .. } = self.asking.swap_remove(at);
        Some((tx, Event::Behind { record }))
    }
}
