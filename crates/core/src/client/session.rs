//! A session: one client process. It numbers transactions and knows which are still open, so that shards may forget
//! all below the low-water mark (P28).
//!
//! One whose outcome nobody heard is remembered for a while longer, for those who ask (P89).
//!
//! Invariant: the low-water mark never passes an open transaction; a number is never given twice.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::{Birth, Sequence, SessionId, Time, TxId};

/// One client process as a source of transactions: it numbers them, and knows below which number all are over, so that shards
/// may forget those. A number is never given twice.
#[derive(Clone, Debug)]
pub struct Session {
    id: SessionId,
    next: Sequence,
    /// In order. Most end near its front: the oldest first.
    open: VecDeque<Sequence>,
    /// Over or not, shards are to remember these for so long: nobody heard their outcome (P89).
    kept: BTreeMap<Sequence, Time>,
}

/// So many transactions are kept, at most: the latest.
const KEPT_MAX: usize = 256;

impl Session {
    /// A session that was never used before: numbers of sessions are not reused.
    pub fn new(id: SessionId) -> Self {
        Session { id, next: Sequence(1), open: VecDeque::new(), kept: BTreeMap::new() }
    }

    /// Begins a transaction.
    pub fn begin(&mut self, now: Time) -> Birth {
        let sequence = self.next;
        self.next = Sequence(sequence.0 + 1);
        self.open.push_back(sequence);
        Birth { time: now, tx: TxId { session: self.id, sequence } }
    }

    /// A transaction is over at every participant.
    pub fn end(&mut self, tx: TxId) {
        debug_assert_eq!(tx.session, self.id);
        if let Ok(at) = self.open.binary_search(&tx.sequence) {
            self.open.remove(at);
        }
    }

    /// Shards are to remember a transaction for so long, in microseconds, though it may be over.
    pub fn keep(&mut self, tx: TxId, now: Time, time_us: u64) {
        debug_assert_eq!(tx.session, self.id);
        if time_us > 0 {
            self.kept.insert(tx.sequence, now.plus(time_us));
        }
        while self.kept.len() > KEPT_MAX {
            self.kept.pop_first();
        }
    }

    /// Lets shards forget what they were to remember until now. O(what is kept).
    pub fn release(&mut self, now: Time) {
        if !self.kept.is_empty() {
            self.kept.retain(|_, until| *until > now);
        }
    }

    /// No earlier transaction is open, or to be remembered.
    pub fn low_water(&self) -> Sequence {
        let open = self.open.front().copied().unwrap_or(self.next);
        self.kept.first_key_value().map_or(open, |(kept, _)| open.min(*kept))
    }

    /// Who.
    pub fn id(&self) -> SessionId {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_remembered_keeps_the_mark_until_its_time() {
        let mut session = Session::new(SessionId(1));
        let [first, second] = [0, 1].map(|at| session.begin(Time(at)).tx);
        session.keep(first, Time(40), 60);
        session.end(first);
        session.end(second);
        session.release(Time(99));
        assert_eq!(session.low_water(), first.sequence);
        session.release(Time(100));
        assert_eq!(session.low_water(), Sequence(second.sequence.0 + 1));
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let mut session = Session::new(SessionId(1));
        for at in 0..=KEPT_MAX as u64 {
            let tx = session.begin(Time(at)).tx;
            session.keep(tx, Time(at), u64::MAX);
            session.end(tx);
        }
        assert_eq!(session.low_water(), Sequence(2));
    }
}
