//! The records of a shard and their abstract locks (P11 to P20).
//!
//! Each record has one lock, and only while somebody holds it or waits for it: an idle record has no lock memory.
//! Granting, checking and releasing cost the same for ten holders as for ten thousand, because the lock is a sum of
//! claims ([`Held`]). Who holds what is kept separately, for releasing and for notifying holders that an elder waits.
//!
//! Effects of a holder are kept beside its claims and applied at release (deferred update). If a transaction already
//! has effects here, its next call is executed on top of them: they are applied, the call is executed, and they are
//! undone, all before anybody else looks (P12). To the lock, members of one combined group are one owner. But they do
//! not see each other's effects, because any of them may still leave (C4).
//!
//! Invariants ([`LockTable::check_invariants`]): the sum of the holders' claims is what `held` says; claims of
//! different holders do not conflict, but where one follows the other (K16); an idle lock has no waiters; a waiting call is not granted.
//!
//! This file knows nothing of votes, leases or messages.

mod clocks;
mod deciding;
mod digest;
mod expiring;
mod external;
mod following;
mod heat;
mod holder;
mod hot;
mod instant;
mod leaving;
mod line;
mod lock;
mod looking;
mod replicating;
mod top;
mod undoing;
mod versions;

use std::any::TypeId;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use claret_types::{Bytes, Claims, Effect, Expiry, Held, Mode, Modes, OpError, Reply, State, Unique};
use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;

use clocks::Clocks;
pub(crate) use deciding::{Answers, Stop};
use expiring::expiry_of;
pub(crate) use following::FOLLOWED_MAX;
use heat::Heat;
pub(crate) use holder::Item;
use holder::{Holder, Used};
use hot::Hot;
pub use hot::Waited;
pub(crate) use line::Carried;
use lock::Lock;
pub(crate) use looking::Look;

use super::key_hash;
use super::phaser::{Phaser, Waiter, Wanted, same};
use super::picture::Wait;
use crate::ids::{AttemptId, Birth, CallNo, Member, SessionId, ShardId, Time};
use crate::journal::Journal;
use crate::limits::Limits;
use crate::message::{Call, Members};
use crate::planted::{Bug, is_planted};
use crate::records::{External, Read};
use crate::switches::{Locks, Ordered, Switches};
use crate::versions::Versions;

/// A record's place in the table, stable while it is held.
pub(crate) type RecordIx = usize;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) attempt: AttemptId,
    pub(crate) birth: Birth,
    /// It may follow those who have voted and whom this shard decides (K16).
    pub(crate) follows_at: Option<ShardId>,
}

impl Owner {
    /// One that follows nobody.
    pub(crate) fn of(attempt: AttemptId, birth: Birth) -> Self {
        Owner { attempt, birth, follows_at: None }
    }
}

/// What became of a waiter that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Granted,
    /// Found impossible, and out of the queue.
    Failed,
    Stays,
}

/// A waiter that left the queue by itself: granted, or found impossible.
#[derive(Clone, Debug)]
pub(crate) struct Woken {
    pub(crate) attempt: AttemptId,
    pub(crate) key: Bytes,
    pub(crate) no: CallNo,
    /// Its answer, unless it is given later; whether nothing was held before.
    pub(crate) result: Result<(Option<Reply>, bool), OpError>,
}

/// A holder is told that an elder waits.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) attempt: AttemptId,
    pub(crate) elder: Birth,
}

/// How a holder leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate<'a> {
    Apply(&'a Members),
    Drop,
}

#[derive(Clone, Debug)]
struct Record {
    key: Bytes,
    hash: u64,
    state: Option<State>,
    lock: Option<Box<Lock>>,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct LockTable {
    switches: Switches,
    limits: Limits,
    /// Where the content of the records is, if it is not here.
    pub(crate) external: Option<External>,
    /// What is changed is noted here, where the host keeps a log.
    pub(crate) journal: Option<Box<Journal>>,
    records: Slab<Record>,
    index: HashTable<RecordIx>,
    /// Locks not in use, with their memory; boxed, so that handing one out moves a pointer.
    #[allow(clippy::vec_box)]
    idle: Vec<Box<Lock>>,
    /// The records here that expire, by when.
    expiring: BTreeSet<(Expiry, RecordIx)>,
    /// External records that have ended when effects were carried out, and that somebody holds.
    pub(crate) ended: Vec<Bytes>,
    /// What an instant transaction did so far, to be undone if it cannot finish.
    staged: Vec<(RecordIx, Effect)>,
    pub(crate) unique: u64,
    /// Of the records that are here.
    pub(crate) versions: Versions,
    pub(crate) clocks: Clocks,
    pub(crate) heat: Heat,
    pub(crate) woken: VecDeque<Woken>,
    /// Whose turn has come on a record, once for each (P75).
    pub(crate) ready: VecDeque<AttemptId>,
    /// Who follows nobody any more on a record, once for each.
    pub(crate) unled: VecDeque<AttemptId>,
    pub(crate) notices: Vec<Notice>,
    /// Where operations had to wait lately.
    hot: Hot,
    pub(crate) looks: u64,
    pub(crate) grants: u64,
    pub(crate) waits: u64,
    pub(crate) phases: u64,
    /// Effects of a transaction's own earlier calls that were added to a state before a call was executed in it.
    pub(crate) replays: u64,
    /// See [`Stats`](crate::Stats).
    pub(crate) visits: u64,
    /// What was read for calls, and what they answered.
    pub(crate) read: Read,
}

/// How many idle locks are kept for reuse.
const IDLE_MAX: usize = 1024;

/// For how many holders one of them may have room.
const IDLE_HOLDERS_MAX: usize = 64;

impl LockTable {
    pub(crate) fn new(switches: Switches, limits: Limits, unique_base: u64) -> Self {
        LockTable {
            switches,
            limits,
            external: None,
            journal: None,
            records: Slab::new(),
            index: HashTable::new(),
            idle: Vec::new(),
            expiring: BTreeSet::new(),
            ended: Vec::new(),
            staged: Vec::new(),
            unique: unique_base,
            versions: Versions::new(unique_base, limits.versions_bytes_max),
            clocks: Clocks::default(),
            heat: Heat::with(&limits),
            woken: VecDeque::new(),
            ready: VecDeque::new(),
            unled: VecDeque::new(),
            notices: Vec::new(),
            hot: Hot::default(),
            looks: 0,
            grants: 0,
            waits: 0,
            phases: 0,
            replays: 0,
            visits: 0,
            read: Read::default(),
        }
    }

    // --- looking ---

    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<RecordIx> {
        self.index.find(hash, |ix| &*self.records[*ix].key == key).copied()
    }

    pub(crate) fn state(&self, record: RecordIx) -> Option<&State> {
        self.records[record].state.as_ref()
    }

    /// Every record's key and content, in no useful order.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (&Bytes, &State)> {
        self.records.iter().filter_map(|(_, record)| Some((&record.key, record.state.as_ref()?)))
    }

    /// The same of some places, and the next place.
    pub(crate) fn contents_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, &State)>, Option<usize>) {
        let (records, next) = self.records_at(places);
        (records.filter_map(|(key, state)| Some((key, state?))), next)
    }

    /// The same with those that are not there, and only somebody holds them.
    pub(crate) fn records_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, Option<&State>)>, Option<usize>) {
        let next = Some(places.end).filter(|end| *end < self.records.capacity());
        let records = places.filter_map(|place| self.records.get(place));
        (records.map(|record| (&record.key, record.state.as_ref())), next)
    }

    /// Records that somebody holds or waits for.
    pub(crate) fn locked(&self) -> usize {
        self.records.iter().filter(|(_, record)| record.lock.is_some()).count()
    }

    /// Holders and waiters of every record that has any.
    pub(crate) fn waits_for(&self) -> impl Iterator<Item = Wait> + '_ {
        self.records.iter().filter_map(|(_, record)| {
            let lock = record.lock.as_ref()?;
            let waiters = lock.phaser.waiters().map(|((_, attempt), _)| *attempt);
            Some(Wait {
                key: record.key.clone(),
                holders: lock.holders.keys().copied().collect(),
                waiters: waiters.collect(),
            })
        })
    }

    /// Who is in the way of an attempt that waits for this record, in order; `None`: it does not wait. O(holders and
    /// waiters).
    pub(crate) fn waits_behind(&self, record: RecordIx, attempt: AttemptId) -> Option<Vec<AttemptId>> {
        let lock = self.records[record].lock.as_ref()?;
        let (_, waiter) = lock.phaser.waiters().find(|((_, waiting), _)| *waiting == attempt)?;
        let kind = lock.kind.unwrap_or(waiter.kind);
        let others = lock.holders.iter().filter(|(holding, _)| **holding != attempt);
        let conflict = others.filter(|(_, holder)| holder.claims().any(|it| waiter.conflicts(kind, it)));
        let mut behind: Vec<AttemptId> = conflict.map(|(holding, _)| *holding).collect();
        behind.sort_unstable();
        Some(behind)
    }

    /// How many hold a record or wait for it. O(1).
    pub(crate) fn crowd(&self, record: RecordIx) -> usize {
        let lock = self.records.get(record).and_then(|record| record.lock.as_ref());
        lock.map_or(0, |lock| lock.holders.len() + lock.phaser.len())
    }

    /// The eldest waiter that a holder was told of on this record.
    pub(crate) fn told(&self, record: RecordIx, attempt: AttemptId) -> Option<Birth> {
        self.records[record].lock.as_ref()?.holders.get(&attempt)?.told
    }

    // --- asking ---

    /// The place of a key's record, made if there is none. Paired with [`Self::tidy`].
    pub(crate) fn ensure(&mut self, hash: u64, key: &Bytes) -> RecordIx {
        match self.find(hash, key) {
            Some(record) => record,
            None => {
                let record = self.records.insert(Record { key: key.clone(), hash, state: None, lock: None });
                self.index.insert_unique(hash, record, |ix| self.records[*ix].hash);
                record
            }
        }
    }

    /// Calls on one record that are all known: where two of them conflict, the first takes along what all claim (P48).
    /// Many, or large ones, are left as they are: comparing them would take longer than giving way.
    pub(crate) fn reserve_for_all(&self, calls: &mut [Call]) {
        const CALLS_MAX: usize = 8;
        const CLAIMS_MAX: usize = 64;
        if calls.len() < 2 || calls.len() > CALLS_MAX {
            return;
        }
        let Some(modes) = common_modes(calls) else {
            calls[0].reserve = Some(Box::new(Claims::record(Mode::EXCLUSIVE)));
            return;
        };
        let mut footprints: SmallVec<[Claims; 4]> = SmallVec::new();
        for call in calls.iter() {
            let mut claims = footprint(&self.switches, call, false);
            if claims.list.len() > CLAIMS_MAX {
                return;
            }
            if call.op.keyspace().is_some() {
                // What it claims where there is no record: mostly there is one, or an earlier call makes it.
                claims.list.retain(|claim| claim.mode != Mode::SHARED);
            }
            footprints.push(claims);
        }
        let conflicts = |(at, one): (usize, &Claims)| {
            footprints[at + 1..].iter().any(|other| one.conflict_with(other, modes))
        };
        if !footprints.iter().enumerate().any(conflicts) {
            return;
        }
        let first = &mut calls[0];
        if first.op.type_info().is_of_any() {
            // It has not the modes of the others.
            first.reserve = Some(Box::new(Claims::record(Mode::EXCLUSIVE)));
            return;
        }
        let reserve = first.reserve.get_or_insert_default();
        for claims in &footprints[1..] {
            claims.list.iter().for_each(|claim| reserve.push(claim.scope, claim.mode));
        }
    }

    /// Stops waiting. [`Self::release`] must follow: it lets in whom this waiter stood before.
    pub(crate) fn cancel(&mut self, record: RecordIx, owner: Owner) {
        // The record may be gone: another waiter's error in the same step can have been the last of it.
        if let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) {
            lock.phaser.remove((owner.birth, owner.attempt));
        }
    }

    /// Stops waiting, and keeps what is held: lets in whom this waiter stood before.
    pub(crate) fn leave_queue(&mut self, now: Time, record: RecordIx, owner: Owner) {
        self.cancel(record, owner);
        if self.records.contains(record) {
            self.settle(now, record);
            self.tidy(record);
        }
    }

    /// P17: whether a request that the holders admit may pass those who wait.
    fn may_join(&mut self, now: Time, record: RecordIx, owner: Owner, call: &Call) -> bool {
        let Some(lock) = &mut self.records[record].lock else { return true };
        if lock.phaser.is_empty() || lock.passes_waiters(owner) {
            return true;
        }
        let footprint = footprint(&self.switches, call, lock.expires);
        let Some(eldest) = lock.phaser.eldest_conflicting(call.op.type_info(), &footprint, false) else {
            return true;
        };
        let is_capped = lock.phaser.is_capped(now, self.limits.phase_joins_max, self.limits.phase_us_max);
        if !is_capped || is_planted(Bug::NeverCapped) {
            lock.phaser.joins += 1;
            return true;
        }
        owner.birth < eldest
    }

    fn grant(&mut self, record: RecordIx, owner: Owner, call: &Call, item: Item, in_order: bool) -> bool {
        self.grants += 1;
        let expires = || {
            let Record { state, lock, .. } = &self.records[record];
            expiry_of(state).is_some() || lock.as_ref().is_some_and(|lock| lock.expires)
        };
        let in_any_state = match self.switches.ordering {
            Ordered::Never => None,
            _ if in_order => None,
            _ if is_planted(Bug::ClocksOfTheMoment) => None,
            // Where that counts for clocks: claims of the moment say what commutes in one state.
            _ => Some(Used::by(&self.switches, call, expires())),
        };
        let idle = &mut self.idle;
        let lock = self.records[record].lock.get_or_insert_with(|| idle.pop().unwrap_or_default());
        lock.take_modes_of(call.op.type_info());
        match in_order {
            true => lock.line.get_or_insert_default().claimed.add(&item.claims),
            false => lock.held.add(&item.claims),
        }
        lock.youngest = lock.youngest.max(Some(owner.birth));
        let holder = lock.holders.entry(owner.attempt).or_insert_with(|| Holder::new(owner.birth));
        // The elder of which a new holder is told, who knows of one already or of none (P20).
        let is_news = |elder: &Birth| *elder < owner.birth && holder.told.is_none_or(|told| *elder < told);
        if !lock.phaser.is_empty()
            && let Some(elder) = lock.phaser.eldest().filter(is_news)
            && !is_planted(Bug::GrantTellsNoElder)
        {
            holder.told = Some(elder);
            self.notices.push(Notice { attempt: owner.attempt, elder });
        }
        if self.switches.ordering != Ordered::Never {
            let is_of_kind = lock.kind.is_some_and(|kind| kind.common_modes(call.op.type_info()).is_some());
            match is_of_kind {
                true => {
                    holder.used.add(&item.claims);
                    holder.used.join(in_any_state.unwrap_or_default());
                }
                // Its owner has the record alone, and changes its type.
                false => holder.used.add(&Claims::record(Mode::EXCLUSIVE)),
            }
        }
        let follows = item.follows;
        holder.push(item);
        let is_first = holder.items.len() == 1;
        if follows {
            lock.note_followed(owner.attempt);
        }
        is_first
    }

    fn enqueue(&mut self, now: Time, record: RecordIx, owner: Owner, call: &Call, in_order: bool) -> Stop {
        self.waits += 1;
        let Record { key, hash, lock, .. } = &mut self.records[record];
        self.hot.note(now, *hash, key, call.op.method().name);
        let meets = |lock: &Lock| lock.is_held_by_another(owner.attempt.tx.session);
        if self.switches.ordering == Ordered::Hot && call.op.is_total() && lock.as_deref().is_some_and(meets)
        {
            self.heat.note(now, &self.limits, *hash);
        }
        let idle = &mut self.idle;
        let lock = lock.get_or_insert_with(|| idle.pop().unwrap_or_default());
        if !self.switches.phasing {
            self.tidy(record);
            return Stop::Busy;
        }
        if lock.phaser.len() >= self.limits.waiters_max {
            return Stop::Crowded;
        }
        let footprint = footprint(&self.switches, call, lock.expires);
        let upgrade = lock.passes_waiters(owner);
        let kind = call.op.type_info();
        let follows_at = owner.follows_at;
        let waiter = Waiter { call: call.clone(), footprint, kind, in_order, follows_at };
        lock.phaser.enqueue(now, (owner.birth, owner.attempt), waiter, upgrade);
        tell_holders(lock, owner.birth, &mut self.notices);
        Stop::Queued
    }

    // --- letting waiters in ---

    /// Grants what can be granted after somebody left (P16). What leaves the queue may have been in the way of
    /// somebody who was looked at before, so it goes on until nothing moves.
    fn settle(&mut self, now: Time, record: RecordIx) {
        if self.records[record].lock.as_ref().is_none_or(|lock| lock.phaser.is_quiet()) {
            return;
        }
        let mut leading = true;
        // Once more if somebody moved, who may have been in another's way (P16).
        while self.settle_once(now, record, &mut leading) && !is_planted(Bug::SettlesOnce) {}
        if let Some(lock) = &mut self.records[record].lock {
            lock.phaser.tidy();
        }
    }

    /// Upgrades first, then the eldest waiter and with it its whole mode, then whoever overtakes nobody elder.
    /// `leading` until the eldest waiter was looked at. Returns whether anybody left the queue.
    fn settle_once(&mut self, now: Time, record: RecordIx, leading: &mut bool) -> bool {
        let Some(lock) = &mut self.records[record].lock else { return false };
        if lock.phaser.is_empty() {
            return false;
        }
        let upgrades: SmallVec<[_; 4]> = lock.phaser.upgrades.keys().copied().collect();
        let mut moved = false;
        for place in upgrades {
            moved |= self.settle_one(record, place, true) != Settled::Stays;
        }
        let mut tried: SmallVec<[(TypeId, Wanted); 4]> = SmallVec::new();
        while let Some(next) = self.next_queue(record, &tried) {
            tried.push(next);
            let (head, some) = self.settle_queue(record, next, *leading);
            moved |= some;
            if head == Settled::Granted && *leading {
                self.phases += 1;
                if let Some(lock) = &mut self.records[record].lock {
                    lock.phaser.joins = 0;
                    lock.phaser.waited_since = Some(now);
                    lock.phaser.tidy();
                }
            }
            // Only the eldest of all begins a phase: another that gets in beside those who hold ends none.
            *leading &= head == Settled::Failed;
        }
        moved
    }

    /// Of the queues not tried yet, the one with the eldest head.
    fn next_queue(&self, record: RecordIx, tried: &[(TypeId, Wanted)]) -> Option<(TypeId, Wanted)> {
        let lock = self.records[record].lock.as_ref()?;
        let open = lock.phaser.queues.iter().filter(|queue| !tried.contains(&(queue.kind.id, queue.modes)));
        open.filter_map(|queue| Some((queue.waiters.keys().next()?, (queue.kind.id, queue.modes))))
            .min_by_key(|(place, _)| **place)
            .map(|(_, queue)| queue)
    }

    /// Grants from one queue, eldest first; a leading queue is granted as a whole. Returns what became of its
    /// eldest (of those that are possible: the others leave), and whether anybody left the queue.
    fn settle_queue(&mut self, record: RecordIx, which: (TypeId, Wanted), leading: bool) -> (Settled, bool) {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut head = Settled::Failed;
        let mut moved = false;
        let mut misses = 0;
        let mut after = None;
        loop {
            let Some(lock) = &self.records[record].lock else { return (head, moved) };
            let mut queues = lock.phaser.queues.iter();
            let Some(queue) = queues.find(|queue| (queue.kind.id, queue.modes) == which) else {
                return (head, moved);
            };
            let range = (after.map_or(Unbounded, Excluded), Unbounded);
            let Some((place, waiter)) = queue.waiters.range(range).next() else { return (head, moved) };
            let place = *place;
            let whole = waiter.footprint.list.iter().any(|c| c.scope == claret_types::Scope::Record);
            let may = leading && head == Settled::Granted || self.overtakes_nobody(record, place, waiter);
            let settled = if may { self.settle_one(record, place, false) } else { Settled::Stays };
            if head == Settled::Failed {
                head = settled;
            }
            moved |= settled != Settled::Stays;
            if settled == Settled::Stays {
                misses += 1;
                if whole || misses > self.limits.settle_misses_max {
                    return (head, moved);
                }
            }
            after = Some(place);
        }
    }

    fn overtakes_nobody(&self, record: RecordIx, place: (Birth, AttemptId), waiter: &Waiter) -> bool {
        let Some(lock) = &self.records[record].lock else { return true };
        let eldest = lock.phaser.eldest_conflicting(waiter.kind, &waiter.footprint, true);
        eldest.is_none_or(|eldest| place.0 <= eldest)
    }

    /// Tries to grant one waiter.
    fn settle_one(&mut self, record: RecordIx, place: (Birth, AttemptId), upgrade: bool) -> Settled {
        let Some(lock) = &self.records[record].lock else { return Settled::Stays };
        let waiter = if upgrade {
            lock.phaser.upgrades.get(&place)
        } else {
            lock.phaser.queues.iter().find_map(|queue| queue.waiters.get(&place))
        };
        let Some(waiter) = waiter else { return Settled::Stays };
        // Executing may be dear. A footprint of one claim is what the call will claim; if that is refused there
        // is no need to execute. (Only concurrency could be lost here, never correctness.)
        if !upgrade
            && waiter.follows_at.is_none()
            && waiter.footprint.list.len() == 1
            && let Some(modes) = lock.kind.and_then(|kind| kind.common_modes(waiter.kind))
            && !lock.held.admits_modes(modes, &waiter.footprint, std::iter::empty())
        {
            return Settled::Stays;
        }
        let (call, key, in_order) = (waiter.call.clone(), self.records[record].key.clone(), waiter.in_order);
        let owner = Owner { follows_at: waiter.follows_at, ..Owner::of(place.1, place.0) };
        if in_order && self.may_still_order(record, owner, &call) {
            if !self.admits_in_order(record, &call) {
                return Settled::Stays;
            }
            self.remove_waiter(record, place);
            let result = Ok((None, self.grant_in_order(record, owner, &call)));
            self.woken.push_back(Woken { attempt: owner.attempt, key, no: call.no, result });
            return Settled::Granted;
        }
        let result = match self.decide(record, owner, &call) {
            Ok(None) => return Settled::Stays,
            Ok(Some((reply, item))) => {
                self.remove_waiter(record, place);
                Ok((Some(reply), self.grant(record, owner, &call, item, false)))
            }
            Err(error) => {
                self.remove_waiter(record, place);
                Err(error)
            }
        };
        let settled = if result.is_ok() { Settled::Granted } else { Settled::Failed };
        self.woken.push_back(Woken { attempt: owner.attempt, key, no: call.no, result });
        settled
    }

    fn remove_waiter(&mut self, record: RecordIx, place: (Birth, AttemptId)) {
        if let Some(lock) = &mut self.records[record].lock {
            lock.phaser.remove(place);
        }
    }

    // --- restarting ---

    /// The committed records, without their locks.
    pub(crate) fn into_contents(self) -> impl Iterator<Item = (u64, Bytes, State)> {
        self.records.into_iter().filter_map(|(_, record)| Some((record.hash, record.key, record.state?)))
    }

    /// Takes in committed records.
    pub(crate) fn load(&mut self, contents: impl Iterator<Item = (u64, Bytes, State)>) {
        for (hash, key, state) in contents {
            let record = self.ensure(hash, &key);
            self.note_expiry(record, None, state.expiry());
            self.records[record].state = Some(state);
            self.has_changed(record);
        }
    }

    // --- keeping house ---

    fn next_unique(&mut self) -> Unique {
        self.unique += 1;
        let is_anew = is_planted(Bug::UniqueStartsAnew); // Without the bits of the incarnation.
        Unique(if is_anew { self.unique & !(0xfff << 31) } else { self.unique })
    }

    /// Gives back the memory of an idle lock, and the record of a key that does not exist.
    pub(crate) fn tidy(&mut self, record: RecordIx) {
        let Some(entry) = self.records.get_mut(record) else { return };
        if entry.lock.as_ref().is_some_and(|lock| lock.holders.is_empty() && lock.phaser.is_empty()) {
            let lock = entry.lock.take().expect("just seen");
            if self.idle.len() < IDLE_MAX && lock.holders.capacity() <= IDLE_HOLDERS_MAX {
                self.idle.push(lock);
            }
        }
        if entry.lock.is_none() && entry.state.is_none() {
            let hash = entry.hash;
            if let Ok(found) = self.index.find_entry(hash, |ix| *ix == record) {
                found.remove();
            }
            let gone = self.records.remove(record);
            if let Some(keys) = self.journal.as_mut().and_then(|journal| journal.gone.as_mut()) {
                keys.push(gone.key);
            }
        }
    }

    /// See the module's text. O(holders squared).
    ///
    /// # Panics
    /// When one does not hold.
    pub(crate) fn check_invariants(&self) {
        assert!(self.staged.is_empty(), "an instant transaction was left half done");
        assert!(self.idle.iter().all(|lock| lock.is_blank()), "an idle lock remembers something");
        self.hot.check_invariants();
        let expires = |(record, content): (RecordIx, &Record)| Some((expiry_of(&content.state)?, record));
        let expiring: BTreeSet<_> = self.records.iter().filter_map(expires).collect();
        assert!(expiring == self.expiring, "records expire that are not noted, or the other way round");
        for (_, record) in &self.records {
            let key = &record.key;
            assert!(record.state.is_some() || record.lock.is_some(), "'{key}' is nothing and yet there");
            let Some(lock) = &record.lock else { continue };
            assert!(
                !lock.holders.is_empty() || lock.phaser.is_empty(),
                "'{key}' is idle and somebody waits for it"
            );
            assert!(!lock.holders.is_empty() || lock.kind.is_none());
            let (mut sum, mut in_order) = (Held::default(), Held::default());
            for holder in lock.holders.values() {
                let sum = if holder.is_in_order() { &mut in_order } else { &mut sum };
                holder.claims().for_each(|claims| sum.add(claims));
                holder.check_invariants();
            }
            lock.check_followers(key);
            assert!(sum == lock.held, "'{key}': the claims do not add up: {sum:?} {:?}", lock.held);
            lock.check_line(key, &in_order);
            lock.phaser.check_invariants();
            let Some(kind) = lock.kind else { continue };
            for (i, (first, a)) in lock.holders.iter().enumerate() {
                for (second, b) in lock.holders.iter().skip(i + 1) {
                    if a.is_in_order() && b.is_in_order() || a.follows(*second) || b.follows(*first) {
                        continue;
                    }
                    let conflict = a.claims().any(|a| b.claims().any(|b| a.conflict_with(b, &kind.modes)));
                    assert!(!conflict, "'{key}': holders conflict: {a:?} and {b:?}");
                }
            }
            let mut seen = std::collections::BTreeSet::new();
            for ((_, attempt), _) in lock.phaser.waiters() {
                assert!(seen.insert(*attempt), "'{key}': {attempt} waits twice");
            }
        }
    }
}

/// The modes by which claims of all these calls, on one record, are held against each other.
fn common_modes(calls: &[Call]) -> Option<&Modes> {
    let mut kinds = calls.iter().map(|call| call.op.type_info());
    let first = kinds.next()?;
    let kind = kinds.try_fold(first, |kind, next| {
        let is_next = kind.is_of_any();
        kind.common_modes(next).map(|_| if is_next { next } else { kind })
    })?;
    Some(&kind.modes)
}

/// What a call may claim, whatever the state. On a record that expires what may empty it claims it alone: a waiter that
/// queued for less would be passed by those that do not conflict with the less, for ever.
fn footprint(switches: &Switches, call: &Call, expires: bool) -> Claims {
    let own = match switches.locks {
        Locks::ReaderWriter => call.op.reader_writer(),
        Locks::Abstract if expires => call.op.footprint_with_expiry(),
        Locks::Abstract => call.op.footprint(),
    };
    match &call.reserve {
        Some(reserve) => union(own, reserve),
        None => own,
    }
}

fn union(mut claims: Claims, more: &Claims) -> Claims {
    for claim in &more.list {
        claims.push(claim.scope, claim.mode);
    }
    claims
}

/// Tells the younger holders that `elder` waits, unless they know of an elder one. All of them: what a waiter waits for shows only when
/// it is executed (an error waits for everybody), and a holder that is told in vain gives way only if it is blocked itself.
fn tell_holders(lock: &mut Lock, elder: Birth, notices: &mut Vec<Notice>) {
    if lock.phaser.told.is_some_and(|told| told <= elder) {
        return;
    }
    lock.phaser.told = Some(elder);
    if lock.youngest.is_none_or(|youngest| youngest < elder) {
        return; // Mostly: who comes last is the youngest.
    }
    for (attempt, holder) in &mut lock.holders {
        if elder < holder.birth && holder.told.is_none_or(|told| elder < told) {
            holder.told = Some(elder);
            notices.push(Notice { attempt: *attempt, elder });
        }
    }
}
