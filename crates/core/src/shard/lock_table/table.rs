//! The lock table itself: what it consists of, and what concerns several of its parts.
//!
//! Its fields are private to this file. Operations on one record get it with what they use of the others ([`LockTable::at`]), and do
//! their work there ([`Lock`]); `locking.rs` has those that change a lock, `questions.rs` those that only look.

use claret_types::{Bytes, OpError, Operation, Reply, Room, State, TypeInfo};
use smallvec::SmallVec;

use super::Owner;
use super::around::Around;
use super::counts::Counts;
use super::executor::Executor;
use super::footprint::reserve_for_all;
use super::hot::Hot;
use super::idle::IdleLocks;
use super::lock::ways::ordered::clocks::Clocks;
use super::lock::{Instantly, Lock, Verdict, may_order};
use super::outbox::Outbox;
use super::records::{Record, RecordIx, Records};
use super::sleepers::Sleepers;
use super::top::Search;
use crate::ids::Time;
use crate::journal::Journal;
use crate::limits::Limits;
use crate::message::{Call, Refusal};
use crate::planted::{Bug, is_planted};
use crate::records::External;
use crate::shard::key_hash;
use crate::shard::lock_table::lock::ways::check_only::{Look, Looking};
use crate::shard::phaser::Rank;
use crate::shard::picture::Stats;
use crate::shard::top::Top;
use crate::switches::Switches;
use crate::versions::Versions;

/// See the module's text, and that of [`lock_table`](super).
#[derive(Clone, Debug)]
pub(crate) struct LockTable {
    switches: Switches,
    limits: Limits,
    records: Records,
    idle: IdleLocks,
    executor: Executor,
    clocks: Clocks,
    /// Where operations had to wait lately.
    hot: Hot,
    outbox: Outbox,
    counts: Counts,
}

impl LockTable {
    pub(crate) fn new(switches: Switches, limits: Limits, unique_base: u64) -> Self {
        LockTable {
            switches,
            limits,
            records: Records::default(),
            idle: IdleLocks::default(),
            executor: Executor::new(unique_base, limits.versions_bytes_max),
            clocks: Clocks::default(),
            hot: Hot::default(),
            outbox: Outbox::default(),
            counts: Counts::default(),
        }
    }

    // --- records ---

    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<RecordIx> {
        self.records.find(hash, key)
    }

    /// The place of a key's record, made if there is none. Somebody has to ask for its lock then, or stop waiting for it.
    pub(crate) fn ensure(&mut self, hash: u64, key: &Bytes) -> RecordIx {
        self.records.ensure(hash, key)
    }

    #[inline]
    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// A record and what is around it; `None`: it is gone.
    #[inline]
    pub(super) fn at(&mut self, record: RecordIx) -> Option<(&mut Record, Around<'_>)> {
        let LockTable { switches, limits, records, idle, executor, clocks, hot, outbox, counts } = self;
        let around = Around { switches, limits, executor, idle, clocks, hot, outbox, counts };
        Some((records.get_mut(record)?, around))
    }

    /// Does what may change the content of a record for good.
    #[inline]
    pub(super) fn change<T>(
        &mut self,
        record: RecordIx,
        change: impl FnOnce(&mut Record, &mut Around<'_>) -> T,
    ) -> T {
        let LockTable { switches, limits, records, idle, executor, clocks, hot, outbox, counts } = self;
        let mut around = Around { switches, limits, executor, idle, clocks, hot, outbox, counts };
        records.change(record, |record| change(record, &mut around))
    }

    /// Somebody leaves a record: whoever sleeps there is to look again.
    #[inline]
    pub(super) fn stir(&mut self, record: RecordIx) {
        let LockTable { records, executor, .. } = self;
        if let Some(Record { key, .. }) = records.get(record)
            && !is_planted(Bug::SleepersPassNothingOn)
        {
            executor.sleepers_mut().stir(key);
        }
    }

    /// A call sleeps on a record until that has something for it.
    pub(crate) fn sleep(&mut self, key: &Bytes, kind: &'static TypeInfo, place: Rank) {
        let is_first = self.executor.sleepers_mut().add(key, kind, place);
        if let Some(External(records)) = self.external().filter(|_| is_first) {
            records.await_changes(key, true);
        }
    }

    /// It sleeps no more.
    pub(crate) fn wake(&mut self, key: &Bytes, place: Rank) {
        let was_last = self.executor.sleepers_mut().remove(key, place);
        if let Some(External(records)) = self.external().filter(|_| was_last) {
            records.await_changes(key, false);
        }
    }

    /// Nobody sleeps any more: all of them are gone.
    pub(crate) fn forget_sleepers(&mut self) {
        let keys = self.executor.sleepers_mut().forget();
        if let Some(External(records)) = self.external() {
            keys.iter().for_each(|key| records.await_changes(key, false));
        }
    }

    /// Gives back the memory of an idle lock, and the record of a key that does not exist.
    pub(super) fn tidy(&mut self, record: RecordIx) {
        self.records.tidy(record, &mut self.idle, &mut self.executor);
    }

    /// Takes in committed records.
    pub(crate) fn load(&mut self, contents: impl Iterator<Item = (u64, Bytes, State)>) {
        for (hash, key, state) in contents {
            let record = self.records.ensure(hash, &key);
            self.records.change(record, |record| record.state = Some(state));
            self.executor.has_changed(&key);
        }
    }

    /// The committed records, without their locks.
    pub(crate) fn into_contents(self) -> impl Iterator<Item = (u64, Bytes, State)> {
        self.records.into_contents()
    }
}

/// Parts that the shard works with.
impl LockTable {
    #[inline]
    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Whether anybody's turn has come.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.outbox.has_ready()
    }

    #[inline]
    pub(crate) fn sleepers(&self) -> &Sleepers {
        self.executor.sleepers()
    }

    #[inline]
    pub(crate) fn sleepers_mut(&mut self) -> &mut Sleepers {
        self.executor.sleepers_mut()
    }

    #[inline]
    pub(crate) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    #[inline]
    pub(crate) fn clocks_mut(&mut self) -> &mut Clocks {
        &mut self.clocks
    }

    pub(crate) fn attach(&mut self, external: Option<External>) {
        self.executor.attach(external);
    }

    pub(crate) fn external(&self) -> Option<External> {
        self.executor.external()
    }

    pub(crate) fn keep_journal(&mut self) {
        self.executor.keep_journal();
    }

    #[inline]
    pub(crate) fn journal(&mut self) -> Option<&mut Journal> {
        self.executor.journal()
    }

    pub(crate) fn versions(&self) -> &Versions {
        self.executor.versions()
    }

    pub(crate) fn begin_versions(&mut self, versions: Versions) {
        self.executor.begin_versions(versions);
    }

    /// The unique number that was given last.
    pub(crate) fn unique(&self) -> u64 {
        self.executor.unique()
    }

    pub(crate) fn count_unique_from(&mut self, unique: u64) {
        self.executor.count_unique_from(unique);
    }

    /// Asks the host whether these operations on one record may be done here.
    pub(crate) fn admit<'a>(
        &self,
        key: &Bytes,
        ops: impl ExactSizeIterator<Item = &'a Operation>,
    ) -> Result<(), Refusal> {
        self.executor.admit(key, ops)
    }

    /// See [`Counts::dearness`].
    #[inline]
    pub(crate) fn dearness(&self) -> u64 {
        self.counts.dearness()
    }

    /// A shard's counts with those of its table.
    pub(crate) fn added_to(&self, stats: Stats) -> Stats {
        self.counts.added_to(stats)
    }

    /// See [`reserve_for_all`].
    pub(crate) fn reserve_for_all(&self, calls: &mut [Call]) {
        reserve_for_all(&self.switches, calls);
    }

    /// See [`Shard::top`](crate::Shard::top).
    pub(crate) fn top(
        &self,
        now: Time,
        count: usize,
        from: usize,
        may_see: impl FnMut(&Bytes) -> bool,
    ) -> Top {
        Search { records: &self.records, hot: &self.hot, now }.top(count, from, may_see)
    }

    // --- what is ordered ---

    /// Whether calls on a record that come together claim it in order.
    pub(crate) fn is_in_order(&self, record: RecordIx, owner: Owner, calls: &[Call]) -> bool {
        self.records[record].is_in_order(&self.executor, owner, calls)
    }

    /// Whether calls that come together, each group on one record, can all be ordered.
    pub(crate) fn may_order_all(&self, groups: &[(Bytes, SmallVec<[Call; 1]>)]) -> bool {
        groups.iter().all(|(key, calls)| {
            let record = self.find(key_hash(key), key).map(|record| &self.records[record]);
            may_order(key, record, calls, &self.executor)
        })
    }

    // --- without a lock ---

    /// Executes operations on one record, one after the other, without looking who holds it, and undoes them all. Of the record with
    /// this key there need not be anything here.
    pub(crate) fn look(
        &mut self,
        hash: u64,
        key: &Bytes,
        ops: &[Operation],
        bytes_max: usize,
        at_once: usize,
    ) -> Look {
        let place = self.records.find(hash, key);
        let enough = self.counts.dearness().saturating_add(at_once as u64);
        let looking = Looking {
            key,
            record: place.map(|place| (place, &mut self.records[place])),
            discipline: self.switches.discipline(),
            executor: &mut self.executor,
            counts: &mut self.counts,
        };
        looking.run(ops, bytes_max, enough)
    }

    /// Whether an operation that is over at once has to wait for holders.
    pub(crate) fn conflicts(&self, hash: u64, key: &[u8], op: &Operation) -> bool {
        let record = self.find(hash, key).map(|record| &self.records[record]);
        let Some((record, lock)) = record.and_then(|record| Some((record, record.held()?))) else {
            return false;
        };
        let executed = self.executor.try_instantly(&record.key, record.state.as_ref(), op);
        let room = executed.as_ref().map_or(Room::UNBOUNDED, |(_, room)| *room);
        let executed = executed.map(|(executed, _)| executed);
        let verdict = Lock::judge_instantly(Some(lock), self.switches.discipline(), op, executed, || room);
        !matches!(verdict, Verdict::Grant(_))
    }

    /// Executes and applies a call at once, for a transaction that holds nothing anywhere. `None`: somebody else's claims are in the
    /// way. Until [`Self::finish_instant`] it can be undone by [`Self::undo_instant`].
    pub(crate) fn instant(
        &mut self,
        hash: u64,
        key: &Bytes,
        op: &Operation,
        locking: bool,
    ) -> Result<Option<Reply>, OpError> {
        self.instantly().run(hash, key, op, locking)
    }

    /// Makes what was done instantly stay.
    pub(crate) fn finish_instant(&mut self) {
        self.instantly().finish();
    }

    /// Undoes what was done instantly, last first.
    pub(crate) fn undo_instant(&mut self) {
        self.instantly().undo();
    }

    #[inline]
    fn instantly(&mut self) -> Instantly<'_> {
        let LockTable { switches, records, idle, executor, .. } = self;
        Instantly { records, idle, executor, discipline: switches.discipline() }
    }

    // --- keeping house ---

    /// All that counts for what comes next: for digests.
    pub(crate) fn content(&self) -> impl std::fmt::Debug + '_ {
        let LockTable { records, executor, clocks, outbox, .. } = self;
        (records.content(), executor.content(), outbox.content(), clocks.content())
    }

    /// Checks each part.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub(crate) fn check_invariants(&self) {
        self.records.check();
        self.idle.check();
        self.executor.check();
        self.hot.check();
        self.outbox.check();
    }
}
