//! The embedded host: shards in the process, called directly.
//!
//! A shard is a state machine behind a mutex. A transaction's coordinator calls it on the caller's own thread: when
//! nobody waits there is no thread hop, no channel and no allocation for a message in flight. A shard's messages to
//! *other* transactions (a grant, an elder) go into their mailboxes and wake their tasks, after the shard is
//! unlocked.
//!
//! Transactions whose operations are all known up front run *instantly* if nobody's claims conflict: all their shards
//! are locked in the order of their numbers, every operation is executed and applied, and either all stay or all are
//! undone ([`Embedded::instant`]).
//!
//! Lock order: a transaction's state, then the client of a way that has all transactions, then shards (several in ascending order),
//! then the log's tail, then the registry, then a mailbox.

mod backups;
mod durable;
mod growth;
mod keys;
mod lock;
mod own;
mod snapshots;
mod ticking;
mod trouble;
mod ways;
mod writing;

use std::fmt;
use std::future::ready;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use claret_core::message::{Link, Refusal, Seen};
use claret_core::{CallNo, Incarnation, Limits, SessionId, Shard, ShardId, Switches, Time, Waits, key_hash};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Expiry, OpError, Operation, Reply, Schema, State, is_done_in_memory};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::backend::{Asking, Backend, Backup, Closing, Driver, InstantOutcome, UntilDurable};
use crate::call::Call;
use crate::durability::{BackupError, LogStatus, OpenError, Progress, SyncPolicy};
use crate::error::{BeginError, BlockedOn, CommitError, Error};
use crate::mailbox::Mailbox;
use crate::mode::Mode;
use crate::outcome::{Named, Outcome, OutcomeId};
use crate::pages::Pages;
use crate::stats::{Counts, Measured, Stats};
pub(crate) use backups::of_folder as backup_of_folder;
use durable::Durable;
use own::{OwnCoordinator, Registry};
use ticking::Ticking;
use ways::Ways;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Embedded {
    shards: Box<[Mutex<Shard>]>,
    registry: Registry,
    ways: Ways,
    mode: Mode,
    switches: Switches,
    limits: Limits,
    began: Instant,
    sequence: AtomicU64,
    counts: Counts,
    is_closed: AtomicBool,
    /// Wakes those who wait, before their deadlines.
    ticking: Arc<Ticking>,
    log: Option<Durable>,
    /// Where its folder is, if it has one.
    path: Option<PathBuf>,
    schema: Option<Schema>,
}

const SESSION: SessionId = SessionId(1);
const LINK: Link = Link { session: SESSION, connection: 0 };

impl Embedded {
    pub(crate) fn new(shards: u32, mode: Mode, limits: Limits, schema: Option<Schema>) -> Self {
        let switches = mode.in_process();
        let shard = |id| {
            let mut shard = Shard::new(ShardId(id), Incarnation(1), switches, limits);
            // That of no other shard, and of none that was opened before at the same path.
            shard.begin_versions(RandomState::new().hash_one(id));
            Mutex::new(shard)
        };
        Embedded {
            shards: (0..shards).map(shard).collect(),
            registry: Registry::new(),
            ways: Ways::new(switches, limits, shards),
            mode,
            switches,
            limits,
            began: Instant::now(),
            sequence: AtomicU64::new(1),
            counts: Counts::new(Measured::Sample),
            is_closed: AtomicBool::new(false),
            ticking: Arc::default(),
            log: None,
            path: None,
            schema,
        }
    }

    /// With the records that are at a path, and what it does from now on is written there.
    pub(crate) fn opened(
        mut self,
        path: &Path,
        sync: SyncPolicy,
        snapshot_after: u64,
        on_progress: &mut dyn FnMut(Progress),
    ) -> Result<Arc<Self>, OpenError> {
        let mut opened = durable::open(path, on_progress)?;
        let records = opened.recovered.as_mut().map(|recovered| std::mem::take(&mut recovered.records));
        let log = Durable::start(opened, sync, snapshot_after)?;
        let unique = log.begin_unique();
        for (key, state) in records.into_iter().flatten() {
            let shard = self.shard_of(&key).0 as usize;
            self.shards[shard].get_mut().load(key, state);
        }
        for shard in &mut self.shards {
            shard.get_mut().keep_journal();
            shard.get_mut().count_unique_from(unique);
        }
        self.log = Some(log);
        // Whatever folder the process goes to.
        self.path = Some(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let store = Arc::new(self);
        if let Some(log) = &store.log {
            log.has_thread(snapshots::start(&store, log.shared(), path)?);
        }
        Ok(store)
    }

    /// What a shard noted goes to the log, before anybody else has the shard.
    #[inline]
    fn note(&self, shard: &mut Shard) {
        if let Some(log) = &self.log {
            log.note(shard);
        }
    }

    /// Microseconds since the store was made.
    fn elapsed(&self) -> Time {
        Time(self.began.elapsed().as_micros() as u64)
    }

    /// A shard as of now: what has expired in it is gone. Those whom that refuses hear of it when the shard's messages are
    /// handed out.
    #[inline]
    fn lock_shard(&self, id: ShardId) -> MutexGuard<'_, Shard> {
        let mut shard = self.shards[id.0 as usize].lock();
        if let Some(expiry) = shard.next_expiry() {
            self.expire(&mut shard, expiry);
        }
        shard
    }

    /// The first of a shard's records expires then.
    #[cold]
    fn expire(&self, shard: &mut Shard, first: Expiry) {
        let now = unix_ms();
        if first.ms() <= now {
            shard.expire(self.elapsed(), now);
            self.note(shard);
        }
    }

    /// Hands out what a shard has to say to transactions. No shard may be locked.
    fn hand_out(&self, id: ShardId) {
        if !self.ways.collect(self, id) {
            self.tell(id);
        }
    }

    fn shard_of(&self, key: &Bytes) -> ShardId {
        self.shard_of_hash(key_hash(key))
    }

    /// The bits that say which shard are none of those that the record table uses first.
    fn shard_of_hash(&self, hash: u64) -> ShardId {
        ShardId((((hash >> 32) * self.shards.len() as u64) >> 32) as u32)
    }

    /// What an attempt waits for, and for whom.
    fn wait(&self, waits: &Waits) -> Option<BlockedOn> {
        let time = Duration::from_micros(self.elapsed().since(waits.since));
        waits.records.iter().find_map(|(shard, key)| {
            let behind = self.shards[shard.0 as usize].lock().waits_behind(key, waits.attempt)?;
            Some(BlockedOn { key: key.clone(), time, holder: behind.first().map(ToString::to_string) })
        })
    }

    /// Mode `none`: each call by itself.
    fn unlocked(&self, calls: &[Call]) -> InstantOutcome {
        let mut replies = Vec::with_capacity(calls.len());
        for Call { key, op } in calls {
            let hash = key_hash(key);
            let mut shard = self.lock_shard(self.shard_of_hash(hash));
            match shard.unlocked(hash, key, op) {
                Ok(reply) => replies.push(reply),
                Err(error) => return InstantOutcome::Failed { key: key.clone(), error },
            }
            shard.finish_instant();
            self.note(&mut shard);
        }
        InstantOutcome::Done(replies)
    }
}

impl Backend for Embedded {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn describe(&self, out: &mut fmt::DebugStruct<'_, '_>) {
        out.field("shards", &self.shards.len());
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn stats(&self) -> Stats {
        let mut sum = self.counts.stats();
        sum.combined = self.ways.shared_answers();
        for shard in &self.shards {
            let shard = shard.lock();
            let stats = shard.stats();
            sum.lock_waits += stats.waits;
            sum.phases += stats.phases;
            sum.locked_records += shard.locked_records() as u64;
            sum.open_attempts += shard.open_attempts() as u64;
        }
        sum
    }

    fn check_invariants(&self) {
        self.shards.iter().for_each(|shard| shard.lock().check_invariants());
    }

    fn peek(&self, key: &Bytes, at: &mut dyn FnMut(&State)) -> Result<(), Error> {
        let shard = self.shards[self.shard_of(key).0 as usize].lock();
        let is_over = |state: &State| state.expiry().is_some_and(|expiry| expiry.ms() <= unix_ms());
        if let Some(state) = shard.state(key).filter(|state| !is_over(state)) {
            at(state);
        }
        Ok(())
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn too_late(&self, after: Duration) -> Error {
        if self.is_closed() {
            Error::Begin(BeginError::Closed)
        } else {
            Error::Commit(CommitError::Deadline { after, blocked_on: None })
        }
    }

    fn close(&self) -> Closing<'_> {
        self.is_closed.store(true, Ordering::Release);
        self.registry.wake();
        self.ways.wake();
        self.ticking.close();
        Box::pin(ready(self.log.as_ref().map_or(Ok(()), Durable::close)))
    }

    fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    fn knows(&self, op: &Operation) -> Result<(), OpError> {
        let command = op.command().and_then(|command| command.words().first());
        if let Some(name) = command.filter(|name| !is_done_in_memory(name)) {
            let message = format!(
                "{name} is carried out by servers, and these records are in this process; use a cluster"
            );
            return Err(OpError::Custom(message.into()));
        }
        if op.expects() && self.mode == Mode::None {
            let message = "in the mode none each operation is done by itself, and nothing can be expected; use another mode";
            return Err(OpError::Custom(message.into()));
        }
        if self.log.is_none() || op.is_builtin() || is_planted(Bug::CustomTypesTaken) {
            return Ok(());
        }
        let kind = op.type_info().name;
        let message = format!(
            "the type {kind} is not built in, and a store that is kept on a disk has no form for it; use a store in memory"
        );
        Err(OpError::Custom(message.into()))
    }

    fn until_durable(&self) -> Option<UntilDurable> {
        self.log.as_ref()?.until_durable()
    }

    fn noted(&self) -> u64 {
        self.log.as_ref().map_or(0, Durable::noted)
    }

    fn name_in_log(&self, from: u64) -> OutcomeId {
        self.log.as_ref().map_or_else(OutcomeId::nobody, |log| log.name(from))
    }

    fn outcome(&self, id: &OutcomeId) -> Asking {
        let outcome = match (id.named(), &self.log) {
            (Named::Log(place), Some(log)) => log.outcome(*place),
            _ => Outcome::Forgotten,
        };
        Box::pin(std::future::ready(Ok(outcome)))
    }

    fn join_tick(&self, time: Duration, waker: &Waker) -> Option<u64> {
        self.ticking.join(time, waker)
    }

    fn has_log(&self) -> bool {
        self.log.is_some()
    }

    fn log_status(&self) -> Result<LogStatus, Error> {
        self.log.as_ref().map(Durable::status).ok_or(Error::Begin(BeginError::Unsupported {
            asked: "log",
            host: "in memory",
            instead: "open one in a folder with Store::open",
        }))
    }

    fn back_up(&self, folder: &Path) -> Backup {
        match (&self.log, &self.path) {
            (Some(log), Some(own)) => Box::pin(backups::start(log, own, folder)),
            _ => Box::pin(ready(Err(BackupError::InMemory))),
        }
    }

    fn check_log(&self, writes: bool) -> Result<(), Error> {
        self.log.as_ref().map_or(Ok(()), |log| log.check(writes))
    }

    fn resolve(&self, op: &mut Operation) {
        op.resolve(unix_ms);
        if is_planted(Bug::IdsWithoutTime) {
            return;
        }
        op.resolve_in_memory(unix_ms);
    }

    fn keys(self: Arc<Self>, pattern: Bytes) -> Box<dyn Pages> {
        Box::new(keys::Listing::new(self, pattern))
    }

    fn applies_at_once(&self) -> bool {
        self.mode == Mode::None
    }

    fn checks_answers(&self) -> bool {
        false
    }

    fn instant(&self, calls: &[Call]) -> InstantOutcome {
        if self.mode == Mode::None {
            return self.unlocked(calls);
        }
        match self.execute_instantly(calls) {
            Ok((held, replies)) => {
                held.finish();
                InstantOutcome::Done(replies)
            }
            Err(outcome) => outcome,
        }
    }

    fn check_instantly(&self, calls: &[Call]) -> InstantOutcome {
        // What was done is undone.
        match self.execute_instantly(calls) {
            Ok((_held, replies)) => InstantOutcome::Done(replies),
            Err(outcome) => outcome,
        }
    }

    fn observes(&self) -> bool {
        self.mode != Mode::None
    }

    fn look(
        &self,
        _mailbox: &Arc<Mailbox>,
        _no: CallNo,
        key: &Bytes,
        ops: SmallVec<[Operation; 1]>,
    ) -> Option<Seen> {
        let id = self.shard_of(key);
        let mut tries = 0;
        loop {
            let (seen, has_news) = {
                let mut shard = self.lock_shard(id);
                shard.begin(self.elapsed());
                (shard.look(key, &ops, tries == LOOKS_MAX), shard.has_output())
            };
            // Records that expired.
            if has_news {
                self.hand_out(id);
            }
            if seen != Seen::Later {
                return Some(seen);
            }
            // Who has voted is on another thread, and about to carry it out.
            tries = (tries + 1).min(LOOKS_MAX);
            std::thread::yield_now();
        }
    }

    fn begin(self: Arc<Self>, mailbox: &Arc<Mailbox>, since: Option<Time>) -> Box<dyn Driver> {
        let of_way = self.ways.begin(&self, mailbox, since);
        of_way.unwrap_or_else(|| OwnCoordinator::begin(self, mailbox, since))
    }

    /// Shards in this process refuse for what a transaction did, and the next attempt does better.
    fn pause_after(&self, _refusal: &Refusal) -> Option<(u64, u64)> {
        None
    }

    fn now(&self) -> Time {
        self.elapsed()
    }
}

impl Embedded {
    /// Executes calls on all of their shards at once: with them in hand they can be finished. Or what came in the way.
    fn execute_instantly(&self, calls: &[Call]) -> Result<(HeldShards<'_>, Vec<Reply>), InstantOutcome> {
        let mut places = Places::new();
        for call in calls {
            let hash = key_hash(&call.key);
            places.push((hash, self.shard_of_hash(hash)));
        }
        let mut held = HeldShards::lock(self, &places);
        let mut replies = Vec::with_capacity(calls.len());
        for (Call { key, op }, (hash, shard)) in calls.iter().zip(&places) {
            match held.shard(*shard).instant(*hash, key, op) {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => return Err(InstantOutcome::Blocked),
                Err(error) => return Err(InstantOutcome::Failed { key: key.clone(), error }),
            }
        }
        Ok((held, replies))
    }
}

/// So often a look waits for who has voted.
const LOOKS_MAX: u32 = 8;

/// Of each call: the hash of its key, and its shard.
type Places = SmallVec<[(u64, ShardId); 8]>;

/// The shards of an instant transaction, locked in ascending order. Undone when dropped unfinished, also when a
/// custom type panics.
struct HeldShards<'a> {
    store: &'a Embedded,
    shards: SmallVec<[(ShardId, MutexGuard<'a, Shard>); 4]>,
    finished: bool,
}

impl<'a> HeldShards<'a> {
    fn lock(store: &'a Embedded, places: &Places) -> Self {
        let mut shards = SmallVec::new();
        if let [(_, only)] = places[..] {
            shards.push((only, store.lock_shard(only)));
        } else {
            let mut ids: SmallVec<[ShardId; 8]> = places.iter().map(|(_, shard)| *shard).collect();
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                shards.push((id, store.lock_shard(id)));
            }
        }
        HeldShards { store, shards, finished: false }
    }

    fn shard(&mut self, id: ShardId) -> &mut Shard {
        let at = match self.shards.len() {
            0..=8 => self.shards.iter().position(|(held, _)| *held == id),
            _ => self.shards.binary_search_by_key(&id, |(held, _)| *held).ok(),
        };
        &mut self.shards[at.expect("all shards of the calls are held")].1
    }

    /// Hands out what the shards have to say, once none is locked.
    #[cold]
    fn hand_out(&mut self) {
        let has_news = |(id, shard): (ShardId, MutexGuard<'_, Shard>)| shard.has_output().then_some(id);
        let news: SmallVec<[ShardId; 4]> = self.shards.drain(..).filter_map(has_news).collect();
        news.into_iter().for_each(|id| self.store.hand_out(id));
    }

    fn finish(mut self) {
        for (_, shard) in &mut self.shards {
            shard.finish_instant();
            if shard.has_stirred() && !is_planted(Bug::InstantWakesNobody) {
                shard.stirred(self.store.elapsed(), []);
            }
        }
        if let Some(log) = &self.store.log {
            log.note_together(&mut self.shards);
        }
        self.finished = true;
    }
}

impl Drop for HeldShards<'_> {
    fn drop(&mut self) {
        if !self.finished {
            for (_, shard) in &mut self.shards {
                shard.undo_instant();
            }
        }
        // Records that expired, and calls that slept; otherwise nobody hears of an instant transaction.
        if self.shards.iter().any(|(_, shard)| shard.has_output()) {
            self.hand_out();
        }
    }
}

/// What time it is, in milliseconds since 1970, by the machine's clock: records expire by it.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}
