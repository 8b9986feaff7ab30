//! A session: one client process. It numbers transactions and knows which are still open, so that shards may forget
//! all below the low-water mark (P28).
//!
//! Invariant: the low-water mark never passes an open transaction; a number is never given twice.

use std::collections::VecDeque;

use crate::ids::{Birth, Sequence, SessionId, Time, TxId};

/// One client process as a source of transactions: it numbers them, and knows below which number all are over, so that shards
/// may forget those. A number is never given twice.
#[derive(Clone, Debug)]
pub struct Session {
    id: SessionId,
    next: Sequence,
    /// In order. Most end near its front: the oldest first.
    open: VecDeque<Sequence>,
}

impl Session {
    /// A session that was never used before: numbers of sessions are not reused.
    pub fn new(id: SessionId) -> Self {
        Session { id, next: Sequence(1), open: VecDeque::new() }
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

    /// No earlier transaction is open.
    pub fn low_water(&self) -> Sequence {
        self.open.front().copied().unwrap_or(self.next)
    }

    /// Who.
    pub fn id(&self) -> SessionId {
        self.id
    }
}
