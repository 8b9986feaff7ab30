//! What all transactions of a client process share, whoever keeps them: numbers, what is hot, the shards' incarnations, the safe time.

use super::session::Session;
use super::unresolved::Unresolved;
use crate::asked::Asked;
use crate::coordinator::{Contention, Coordinator};
use crate::ids::{Birth, Incarnation, Sequence, SessionId, ShardId, Time, Timestamp, TxHandle, TxId};
use crate::limits::Limits;
use crate::switches::Switches;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Process {
    session: Session,
    switches: Switches,
    limits: Limits,
    contention: Contention,
    /// The shards' incarnations, as their connections told them.
    met: Vec<(ShardId, Incarnation)>,
    /// As far as is known (P78).
    safe_time: Timestamp,
    /// What can be asked about those whose outcome nobody knows.
    unresolved: Unresolved,
    /// Answers that transactions shared.
    shared_answers: u64,
}

impl Process {
    pub(super) fn new(id: SessionId, switches: Switches, limits: Limits) -> Self {
        Process {
            session: Session::new(id),
            switches,
            limits,
            contention: Contention::new(switches, limits),
            met: Vec::new(),
            safe_time: Timestamp::default(),
            unresolved: Unresolved::default(),
            shared_answers: 0,
        }
    }

    #[allow(dead_code, reason = "there may be no ways")]
    pub(super) fn switches(&self) -> Switches {
        self.switches
    }

    #[allow(dead_code, reason = "there may be no ways")]
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn contention(&mut self) -> &mut Contention {
        &mut self.contention
    }

    // --- transactions ---

    pub(super) fn id(&self) -> SessionId {
        self.session.id()
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self, now: Time) -> Birth {
        self.session.begin(now)
    }

    /// The coordinator of a transaction. It does not know the [incarnations](Self::met) yet.
    pub(super) fn coordinator(&self, birth: Birth, seed: u64) -> Coordinator {
        Coordinator::new(birth, self.switches, self.limits, seed)
    }

    /// A transaction is over at every participant.
    pub(super) fn end(&mut self, tx: TxId) {
        self.session.end(tx);
    }

    /// No earlier transaction is open.
    pub(super) fn low_water(&self) -> Sequence {
        self.session.low_water()
    }

    /// Time has passed: shards may forget what they were to remember until now.
    pub(super) fn release(&mut self, now: Time) {
        self.session.release(now);
    }

    #[allow(dead_code, reason = "there may be no ways")]
    pub(super) fn note_shared_answer(&mut self) {
        self.shared_answers += 1;
    }

    pub(super) fn shared_answers(&self) -> u64 {
        self.shared_answers
    }

    // --- outcomes that nobody knows (P89) ---

    /// The user of a transaction is going to hear that nobody knows its outcome.
    pub(super) fn note_unknown(&mut self, now: Time, tx: TxHandle, asked: Asked) {
        self.session.keep(asked.attempt.tx, now, self.limits.outcome_us);
        self.unresolved.note(tx, asked);
    }

    /// What was noted of a transaction.
    pub(super) fn take_unknown(&mut self, tx: TxHandle) -> Option<Asked> {
        self.unresolved.take(tx)
    }

    /// What can be asked about a transaction: `asked`, as it is committing, or what was noted.
    pub(super) fn ask(&mut self, now: Time, tx: TxHandle, asked: Option<Asked>) -> Option<Asked> {
        let asked = asked.or_else(|| self.unresolved.take(tx))?;
        self.session.keep(asked.attempt.tx, now, self.limits.outcome_us);
        Some(asked)
    }

    // --- shards ---

    pub(super) fn meet(&mut self, shard: ShardId, incarnation: Incarnation) {
        self.met.retain(|(known, _)| *known != shard);
        self.met.push((shard, incarnation));
    }

    /// The shards' incarnations that are known.
    pub(super) fn met(&self) -> &[(ShardId, Incarnation)] {
        &self.met
    }

    /// No vote will be as small as that any more, at any shard (P78).
    pub(super) fn hear_safe_time(&mut self, safe_time: Timestamp) {
        self.safe_time = self.safe_time.max(safe_time);
    }

    pub(super) fn safe_time(&self) -> Timestamp {
        self.safe_time
    }
}
