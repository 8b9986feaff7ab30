//! A shard over an external store (`records.rs`): how it begins, and what the host asks and reports (P34 to P37).
//!
//! The host runs operations of its own on the records: plain commands that begin and end at once. It removes records
//! (expiry, eviction), and access to them (a slot that moves, rights that change). Every refusal here is written,
//! like every no.

use claret_types::{Bytes, Claims, Operation, TypeInfo};

use super::lock_table::RecordIx;
use super::{AttemptId, Incarnation, Limits, Link, Refusal, Shard, ShardId, Switches, Time, key_hash};
use crate::ids::Birth;
use crate::planted::{Bug, is_planted};
use crate::records::{External, Records};

impl Shard {
    /// A shard over records that are not in its memory. It has no instant transactions, and [`Shard::state`] knows
    /// of nothing.
    ///
    /// Incarnations are to be at least as far apart as the number of times that anything was executed in between,
    /// as microseconds of a clock are: the unique numbers of one begin there.
    pub fn over(
        records: &'static dyn Records,
        id: ShardId,
        incarnation: Incarnation,
        switches: Switches,
        limits: Limits,
    ) -> Self {
        let mut shard = Shard::new(id, incarnation, switches, limits);
        shard.attach(Some(External(records)));
        shard
    }

    /// Takes the external store of an earlier incarnation, if there was one.
    pub(super) fn attach(&mut self, external: Option<External>) {
        self.table.attach(external);
        if let Some(External(records)) = external {
            // 14 bits of the host's, and 49 of incarnation, from which it is counted.
            let tag = u64::from(records.tag() & ((1 << 14) - 1));
            self.table.count_unique_from(tag << 49 | self.incarnation.0 & ((1 << 49) - 1));
        }
    }

    /// Whether somebody holds the record. Nobody waits for one that is not held.
    pub fn is_held(&self, key: &[u8]) -> bool {
        self.table.is_held(key_hash(key), key)
    }

    /// The type whose modes those who hold the record use; `None` when nobody does.
    pub fn held_as(&self, key: &[u8]) -> Option<&'static TypeInfo> {
        self.table.held_as(key_hash(key), key)
    }

    /// Whether nobody holds any record. O(1) where the records are external.
    pub fn is_idle(&self) -> bool {
        self.table.is_idle()
    }

    /// All records that somebody holds. O(records that are held or kept here).
    pub fn held_keys(&self) -> impl Iterator<Item = &Bytes> {
        self.table.held_keys()
    }

    /// The keys that somebody holds, and those that a prepare is going to lock when it has what it waits for: none of
    /// them may go to another shard. O(the same, and open attempts).
    #[expect(clippy::disallowed_methods, reason = "in no useful order, as the records are")]
    pub fn keys_in_use(&self) -> impl Iterator<Item = &Bytes> {
        let behind = self.attempts.values().flat_map(|participant| participant.behind.as_slice());
        self.table.held_keys().chain(behind.map(|(key, _)| key))
    }

    /// Records are about to go to another shard, and the host lets nobody in any more. It waits for who uses one, and is elder
    /// than all of them: whoever waits for others meanwhile is to give way, or these may come again and again, be turned away
    /// here, and keep it waiting (P35). To be said again while any of the records is in use: the word may be lost.
    /// O(records that open attempts use).
    #[expect(clippy::disallowed_methods, reason = "sorted")]
    pub fn ask_back(&mut self, now: Time, leaves: impl Fn(&Bytes) -> bool) {
        let holds = |record: &RecordIx| leaves(self.table.key(*record));
        let using = self.attempts.iter().filter(|(_, participant)| {
            participant.held.iter().any(holds)
                || participant.behind.as_slice().iter().any(|(key, _)| leaves(key))
        });
        let mut using: Vec<AttemptId> = using.map(|(attempt, _)| *attempt).collect();
        using.sort_unstable();
        using.into_iter().for_each(|attempt| self.table.outbox().notify(attempt, Birth::FIRST));
        self.drain(now);
    }

    /// Whether an operation that begins and ends at once has to wait for those who hold the record. Waiters are no
    /// reason: it is over before anybody could wait for it (P33).
    pub fn conflicts(&self, key: &[u8], op: &Operation) -> bool {
        self.table.conflicts(key_hash(key), key, op)
    }

    /// The same for a command that is no operation, by claims that cover it, in a type's modes. Whoever draws may have
    /// to wait for others who do, since nobody knows the room.
    pub fn conflicts_with(&self, key: &[u8], kind: &TypeInfo, claims: &Claims) -> bool {
        self.table.conflicts_with(key_hash(key), key, kind, claims)
    }

    /// From now on, and until it is said as often that [`Self::let_on`], nobody gets a record that nobody holds (P63): a
    /// command of the host is about to run, in the same turn of the host's loop or the next.
    pub fn hold_off(&mut self) {
        self.held_off += 1;
        self.at_once = 0;
    }

    /// See [`Self::hold_off`]. Those who were put off go on with [`Shard::handle_timeout`].
    pub fn let_on(&mut self) {
        self.held_off = self.held_off.saturating_sub(1);
    }

    /// The host refuses an attempt instead of handing its request in: writes no, unless something is written, and
    /// answers with what is.
    pub fn turn_away(&mut self, now: Time, link: Link, attempt: AttemptId, refusal: Refusal) {
        let history = self.sessions.entry(attempt.tx.session).or_default();
        if link.connection < history.connection {
            return; // As every request of an old connection.
        }
        history.connection = link.connection;
        self.write_no(now, attempt, refusal);
        self.drain(now);
    }

    /// These records are about to vanish by themselves: to be said before [`Self::vanished`], while they are there, of those on
    /// which somebody may stand in line. What those are going to do is executed on what the records hold now (P86).
    pub fn vanishing(&mut self, keys: &[Bytes]) {
        for key in keys {
            if let Some(record) = self.table.find(key_hash(key), key) {
                self.table.keep_copy(record);
            }
        }
    }

    /// All records vanished. The host tells of those that somebody holds ([`Self::vanished`]); of the others none is known here.
    pub fn all_vanished(&mut self) {
        self.take_over(self.hand_over());
    }

    /// These records vanished by themselves: they expired, or were evicted or flushed (trap 18). Each vanishes after those who
    /// have voted on it, and their effects on it are not carried out; all others who hold it or wait for it are refused.
    /// Whoever comes now waits until those who have voted are done, whatever their modes, and finds no record.
    ///
    /// All that vanished since the last input is told at once: whoever is let in for the sake of one record finds the
    /// others gone already, and comes after that. Not to be called for what [`Records::apply`] did, which says so itself.
    pub fn vanished(&mut self, now: Time, keys: &[Bytes]) {
        self.vanish(now, keys);
        self.drain(now);
    }

    /// The same for what ended when effects were carried out.
    pub(super) fn end_with_their_records(&mut self, now: Time) {
        let ended = self.table.outbox().take_ended();
        self.vanish(now, &ended);
    }

    fn vanish(&mut self, now: Time, keys: &[Bytes]) {
        let mut refused: Vec<(AttemptId, &Bytes)> = Vec::new();
        for key in keys {
            let hash = key_hash(key);
            let Some(record) = self.table.find(hash, key) else {
                self.table.clocks_mut().seal(hash);
                continue;
            };
            refused.extend(self.table.vanish(record).into_iter().map(|attempt| (attempt, key)));
            self.tell_seen(record);
        }
        for (attempt, key) in refused {
            // It holds the record or waits for it, and has not voted (P36).
            let is_over = match is_planted(Bug::VanishedRefusesVoted) {
                true => self.is_open(attempt),
                false => self.is_unvoted(attempt) && !is_planted(Bug::VanishedRefusesNobody),
            };
            if is_over {
                self.refuse(now, attempt, Refusal::Vanished { key: key.clone() });
            }
        }
    }

    /// Refuses every attempt that has not voted: rights have changed, or keys are another shard's now.
    pub fn refuse_unvoted(&mut self, now: Time, refusal: &Refusal) {
        let mut open: Vec<AttemptId> = Vec::new();
        // In any order: sorted.
        for (attempt, participant) in &self.attempts {
            if !participant.is_prepared() {
                open.push(*attempt);
            }
        }
        open.sort_unstable();
        for attempt in open {
            self.refuse(now, attempt, refusal.clone());
        }
        self.drain(now);
    }

    /// The same for these attempts alone, all of them before any lets others in.
    pub fn refuse_these(&mut self, now: Time, attempts: &[AttemptId], refusal: &Refusal) {
        for attempt in attempts {
            if self.is_unvoted(*attempt) {
                self.refuse(now, *attempt, refusal.clone());
            }
        }
        self.drain(now);
    }

    /// Whether an attempt is here and not decided.
    pub fn is_open(&self, attempt: AttemptId) -> bool {
        self.attempts.contains_key(&attempt)
    }

    pub(super) fn is_unvoted(&self, attempt: AttemptId) -> bool {
        self.attempts.get(&attempt).is_some_and(|participant| !participant.is_prepared())
    }
}
