//! What a host does with the records of a shard: looks at them, runs instant transactions on them, keeps a log of them (`journal.rs`),
//! and reports what happens to records that it has itself (`records.rs`, P34 to P37).
//!
//! An **instant transaction** knows all its operations up front, holds nothing, and has every shard at hand. A host that can stop all
//! shards of a transaction at once (the embedded store holds their mutexes) needs no two rounds: it executes and applies call by call
//! on each shard, and either finishes all or undoes all, before anybody looks. No lock is taken, so it can only conflict with claims
//! that others hold across awaits; then the host undoes everything and starts over with locks. It may pass waiters: it holds nothing
//! when it is over, so it lengthens nobody's phase. In the sense of P9 it has one participant, the union of the shards.
//!
//! A host with **records of its own** runs operations on them: plain commands that begin and end at once. It removes records (expiry,
//! eviction), and access to them (a slot that moves, rights that change). Every refusal here is written, like every no.

use std::ops::Range;

use claret_types::{Bytes, Claims, Expiry, OpError, Operation, Reply, State, TypeInfo};

use super::key_hash;
use super::lock_table::RecordIx;
use super::machine::Shard;
use super::picture::Wait;
use super::top::Top;
use crate::ids::{AttemptId, Birth, Time};
use crate::journal::Journal;
use crate::message::{Refusal, Seen};
use crate::versions::Versions;

/// Of a unique number, what is counted; the shard's number stands above.
const COUNTED_BITS: u32 = 43;

/// Records in the shard's own memory.
impl Shard {
    /// The committed content of a record.
    pub fn state(&self, key: &[u8]) -> Option<&State> {
        let table = self.view().table;
        table.find(key_hash(key), key).and_then(|record| table.state(record))
    }

    /// The committed records at some places, and the place to go on at; `None` behind the last. A record that stays keeps its
    /// place. O(places).
    pub fn contents_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, &State)>, Option<usize>) {
        self.view().table.contents_at(places)
    }

    /// All committed records, in no useful order.
    pub fn contents(&self) -> impl Iterator<Item = (&Bytes, &State)> {
        self.view().table.contents()
    }

    /// Takes in a committed record, which is not there yet.
    pub fn load(&mut self, key: Bytes, state: State) {
        self.parts().table.load(std::iter::once((key_hash(&key), key, state)));
    }

    /// When the first of the records expires that are in the shard's own memory.
    #[inline]
    pub fn next_expiry(&self) -> Option<Expiry> {
        self.view().table.next_expiry()
    }

    /// What is in the shard's own memory and has expired vanishes (P36, P71). A host with a clock says this before each input: `now_ms`
    /// is in milliseconds since 1970. Returns the keys. Where somebody has voted whose effects may be about the expiry, the
    /// record waits for that, and of very many that are due some wait for the next time.
    pub fn expire(&mut self, now: Time, now_ms: u64) -> Vec<Bytes> {
        let mut step = self.step(now);
        let has_voted = |attempt| step.attempts.has_voted(attempt);
        let expired = step.table.expired(now_ms, step.config.limits().at_once_max, has_voted);
        if !expired.is_empty() {
            step.vanish(&expired);
            step.drain();
        }
        expired
    }

    /// Versions are of this epoch from now on, which no other shard has, and this one never had (O10 of `docs/optimistic.md`). The host
    /// makes sure of that: a shard that keeps its records knows only which incarnation it is.
    pub fn begin_versions(&mut self, epoch: u64) {
        let step = self.parts();
        step.table.begin_versions(Versions::new(epoch, step.config.limits().versions_bytes_max));
    }

    /// The versions that were asked for and are not over. External records have theirs at the host.
    pub fn versions(&self) -> &Versions {
        self.view().table.versions()
    }
}

/// Instant transactions, and looks.
impl Shard {
    /// Executes and applies one operation; `hash` is [`super::key_hash`] of the key. `None` when the claims of
    /// another transaction are in the way.
    ///
    /// # Errors
    /// When the operation cannot be done in this state.
    pub fn instant(&mut self, hash: u64, key: &Bytes, op: &Operation) -> Result<Option<Reply>, OpError> {
        self.parts().table.instant(hash, key, op, true)
    }

    /// The same with no regard to locks: for measuring what they cost (P70, mode `none`).
    ///
    /// # Errors
    /// When the operation cannot be done in this state.
    pub fn unlocked(&mut self, hash: u64, key: &Bytes, op: &Operation) -> Result<Reply, OpError> {
        let reply = self.parts().table.instant(hash, key, op, false);
        reply.map(|reply| reply.expect("without locks nothing conflicts"))
    }

    /// What was done instantly stays.
    pub fn finish_instant(&mut self) {
        let step = self.parts();
        step.stats.commits += 1;
        step.table.finish_instant();
    }

    /// Wakes whom it concerns that these records changed, past the shard or instantly, or may have.
    pub fn stirred<'a>(&mut self, now: Time, keys: impl IntoIterator<Item = &'a Bytes>) {
        self.begin(now);
        let mut step = self.step(now);
        keys.into_iter().for_each(|key| step.table.sleepers_mut().stir(key));
        step.drain();
    }

    /// Whether somebody sleeps on a record that was changed instantly: then [`Self::stirred`] is to be said.
    #[inline]
    pub fn has_stirred(&self) -> bool {
        self.view().table.sleepers().has_stirred()
    }

    /// What was done instantly is undone.
    pub fn undo_instant(&mut self) {
        self.parts().table.undo_instant();
    }

    /// What the last of these operations on a record would answer, behind the others. `at_once`: also where somebody has voted who is
    /// in the way. O(operations); with an external store more, where its partial states are good for few.
    pub fn look(&mut self, key: &Bytes, ops: &[Operation], at_once: bool) -> Seen {
        self.parts().look(key, ops, at_once)
    }
}

/// A log.
impl Shard {
    /// From now on what inputs change is noted in [`Self::journal`], of which the host takes it. For records in the shard's own
    /// memory, and with [direct calls](crate::Switches::in_process).
    pub fn keep_journal(&mut self) {
        self.parts().table.keep_journal();
    }

    /// What was noted; `None` unless a journal is kept.
    pub fn journal(&mut self) -> Option<&mut Journal> {
        self.parts().table.journal()
    }

    /// The records at some places with what is committed of them, and the place to go on at; `None` behind the last. A record that
    /// is there keeps its place. O(places).
    pub fn records_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, Option<&State>)>, Option<usize>) {
        self.view().table.records_at(places)
    }

    /// From now on keys are kept whose record leaves its place, for somebody who walks through [`Self::records_at`]; or no more.
    pub fn keep_gone(&mut self, keep: bool) {
        if let Some(journal) = self.journal() {
            journal.gone = keep.then(Vec::new);
        }
    }

    /// Those since the last time.
    pub fn take_gone(&mut self) -> Vec<Bytes> {
        let gone = self.journal().and_then(|journal| journal.gone.as_mut());
        gone.map(std::mem::take).unwrap_or_default()
    }

    /// Unique numbers go on above this count, which is larger than that of every number that this shard gave before.
    pub fn count_unique_from(&mut self, count: u64) {
        let id = u64::from(self.id().0);
        self.parts().table.count_unique_from(id << COUNTED_BITS | count & ((1 << COUNTED_BITS) - 1));
    }

    /// Up to which count unique numbers were given.
    pub fn unique_count(&self) -> u64 {
        self.view().table.unique() & ((1 << COUNTED_BITS) - 1)
    }
}

/// Who holds records and waits for them.
impl Shard {
    /// How many records somebody holds or waits for. O(records).
    pub fn locked_records(&self) -> usize {
        self.view().table.locked()
    }

    /// Whether somebody holds the record. Nobody waits for one that is not held.
    pub fn is_held(&self, key: &[u8]) -> bool {
        self.view().table.is_held(key_hash(key), key)
    }

    /// The type whose modes those who hold the record use; `None` when nobody does.
    pub fn held_as(&self, key: &[u8]) -> Option<&'static TypeInfo> {
        self.view().table.held_as(key_hash(key), key)
    }

    /// How many calls sleep until their record has something for them. O(those records).
    pub fn sleepers(&self) -> usize {
        self.view().table.sleepers().len()
    }

    /// Whether nobody holds any record. O(1) where the records are external.
    pub fn is_idle(&self) -> bool {
        self.view().table.is_idle()
    }

    /// All records that somebody holds. O(records that are held or kept here).
    pub fn held_keys(&self) -> impl Iterator<Item = &Bytes> {
        self.view().table.held_keys()
    }

    /// The keys that somebody holds, and those that a prepare is going to lock when it has what it waits for: none of
    /// them may go to another shard. O(the same, and open attempts).
    pub fn keys_in_use(&self) -> impl Iterator<Item = &Bytes> {
        let view = self.view();
        view.table.held_keys().chain(view.attempts.keys_behind())
    }

    /// Whether an operation that begins and ends at once has to wait for those who hold the record. Waiters are no
    /// reason: it is over before anybody could wait for it (P33).
    pub fn conflicts(&self, key: &[u8], op: &Operation) -> bool {
        self.view().table.conflicts(key_hash(key), key, op)
    }

    /// The same for a command that is no operation, by claims that cover it, in a type's modes. Whoever draws may have
    /// to wait for others who do, since nobody knows the room.
    pub fn conflicts_with(&self, key: &[u8], kind: &TypeInfo, claims: &Claims) -> bool {
        self.view().table.conflicts_with(key_hash(key), key, kind, claims)
    }

    /// Every record that is held or waited for. O(records).
    pub fn waits(&self) -> impl Iterator<Item = Wait> + '_ {
        self.view().table.waits_for()
    }

    /// Who holds what an attempt waits for on a record, in order; `None`: it does not wait there. Empty where it stands
    /// behind others who wait. O(holders and waiters of the record).
    pub fn waits_behind(&self, key: &Bytes, attempt: AttemptId) -> Option<Vec<AttemptId>> {
        let table = self.view().table;
        table.waits_behind(table.find(key_hash(key), key)?, attempt)
    }

    /// The `count` records for which operations had to wait most often, and as many that somebody has waited for longest.
    /// `may_see`: whose keys may be shown; it is asked of a bounded number of keys. `from`: 0, or where the last one says to go
    /// on. O(count), beside a constant that is about the cost of a large frame.
    pub fn top(&self, now: Time, count: usize, from: usize, may_see: impl FnMut(&Bytes) -> bool) -> Top {
        self.view().table.top(now, count, from, may_see)
    }
}

/// Records that go.
impl Shard {
    /// Records are about to go to another shard, and the host lets nobody in any more. It waits for who uses one, and is elder
    /// than all of them: whoever waits for others meanwhile is to give way, or these may come again and again, be turned away
    /// here, and keep it waiting (P35). To be said again while any of the records is in use: the word may be lost.
    /// O(records that open attempts use).
    pub fn ask_back(&mut self, now: Time, leaves: impl Fn(&Bytes) -> bool) {
        let mut step = self.step(now);
        let holds = |record: &RecordIx| leaves(step.table.key(*record));
        let using = step.attempts.sorted(|participant| {
            participant.held.iter().any(holds)
                || participant.behind.as_slice().iter().any(|(key, _)| leaves(key))
        });
        using.into_iter().for_each(|attempt| step.table.outbox().notify(attempt, Birth::FIRST));
        step.drain();
    }

    /// These records are about to vanish by themselves: to be said before [`Self::vanished`], while they are there, of those on
    /// which somebody may stand in line. What those are going to do is executed on what the records hold now (P86).
    pub fn vanishing(&mut self, keys: &[Bytes]) {
        let step = self.parts();
        for key in keys {
            if let Some(record) = step.table.find(key_hash(key), key) {
                step.table.keep_copy(record);
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
    /// others gone already, and comes after that. Not to be called for what [`Records::apply`](crate::Records::apply) did, which says
    /// so itself.
    pub fn vanished(&mut self, now: Time, keys: &[Bytes]) {
        self.vanished_and_left(now, keys, &[]);
    }

    /// The same, and attempts of clients that wait no more are refused, too. Both before anybody is let in for either reason.
    pub fn vanished_and_left(&mut self, now: Time, keys: &[Bytes], left: &[AttemptId]) {
        let mut step = self.step(now);
        step.vanish(keys);
        step.refuse_all(left, &Refusal::LostLocks);
    }
}
