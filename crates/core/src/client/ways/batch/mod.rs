//! Batches: one-shot transactions of a process that leave for the shards together commit as one attempt
//! (docs/batches.md, B1 to B11).
//!
//! A one-shot transaction that commits is *gathered* until a frame leaves for one of its shards. All that are gathered by
//! then are carried by one more transaction, the *leader*: their calls, one transaction's after the other's, are its
//! calls. It commits: so do they, each with its own answers. It is refused: each of them commits alone, as if it had
//! never been carried.

pub(in crate::client) mod membership;
mod trial;

use claret_types::Reply;
use hashbrown::HashMap;
use smallvec::SmallVec;

use self::membership::{Left, Membership};
use self::trial::{Learned, Size};
use crate::client::entry::Entry;
use crate::client::frames::Outbox;
use crate::client::process::Process;
use crate::client::table::Table;
use crate::client::{Client, Outputs};
use crate::coordinator::{Cause, Event};
use crate::ids::{CallNo, ShardId, Time, TxHandle};
use crate::message::Refusal;
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;

/// Who needs a shard that owes an answer for so long goes alone, in microseconds (B1): others would wait for it, too.
const SILENT_US: u64 = 100_000;

/// A transaction of more calls goes alone: others would wait for it, and it has little to save.
const CALLS_OF_ONE_MAX: usize = 16;

/// Calls of one batch at one shard, at most: it executes more than twice as many at once, and those of the batch before come in the same frame.
const CALLS_AT_A_SHARD_MAX: u32 = 400;

/// Bytes of operations in one batch, at most, but for those of one transaction.
const BYTES_MAX: usize = 1 << 20;

/// Who was so often refused for lack of a timestamp goes alone.
const UNSTAMPED_MAX: u8 = 64;

fn unstamped_max() -> u8 {
    match () {
        () if is_planted(Bug::UnstampedTakenApart) => 0,
        () if is_planted(Bug::UnstampedWithoutEnd) => u8::MAX,
        () => UNSTAMPED_MAX,
    }
}

/// After answers of more bytes batches are smaller.
const ANSWERS_BYTES_MAX: usize = 1 << 19;

/// A transaction that is carried.
#[derive(Clone, Copy, Debug)]
struct Carried {
    tx: u64,
    /// The leader's number of its first call.
    first: u32,
    /// It is to end without a trace, if that is still possible.
    regrets: bool,
    /// So many leaders of it were refused for lack of a timestamp.
    unstamped: u8,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(in crate::client) struct Batches {
    is_on: bool,
    gathered: Vec<u64>,
    /// By who carries them, in the order of their calls.
    carried: HashMap<u64, Vec<Carried>, foldhash::fast::FixedState>,
    /// Lists that are empty, for others.
    spare: Vec<Vec<Carried>>,
    /// So many that left have not heard their end.
    under_way: u32,
    size: Size,
    learned: Learned,
    /// What leaves is stamped, and what was learned while it was the other way.
    is_stamped: bool,
    learned_otherwise: Learned,
}

impl Batches {
    pub(in crate::client) fn new(switches: Switches) -> Self {
        Batches {
            is_on: switches.batches(),
            gathered: Vec::new(),
            carried: HashMap::default(),
            spare: Vec::new(),
            under_way: 0,
            size: Size::default(),
            learned: Learned::default(),
            is_stamped: false,
            learned_otherwise: Learned::default(),
        }
    }

    /// What leaves from now on is stamped, or not.
    #[inline]
    pub(in crate::client) fn stamp(&mut self, is_stamped: bool) {
        if self.is_stamped != is_stamped {
            self.is_stamped = is_stamped;
            std::mem::swap(&mut self.learned, &mut self.learned_otherwise);
            self.learned.resume_after(&self.learned_otherwise);
        }
    }

    /// Whether more may leave.
    pub(in crate::client) fn may_leave(&self) -> bool {
        self.under_way < self.learned.window.most()
    }

    /// Whether some are gathered.
    pub(in crate::client) fn has_gathered(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// One leaves.
    fn leaving(&mut self) -> Left {
        self.under_way += 1;
        Left::Moves(self.learned.window.halved())
    }

    /// One is told something: if it left, that is its end.
    pub(in crate::client) fn note_end(&mut self, left: &mut Left) {
        match std::mem::replace(left, Left::No) {
            Left::No => return,
            Left::Moves(_) => self.learned.window.grow(),
            Left::Waited => {}
        }
        self.under_way -= 1;
    }

    /// A one-shot transaction committed, in so many microseconds.
    pub(in crate::client) fn note_time(&mut self, us: u64) {
        self.learned.trial.note(us);
    }

    /// A batch waited for so long that it was given up.
    pub(in crate::client) fn note_broken(&mut self) {
        self.learned.trial.part();
    }
}

/// Whether answers of one attempt are so long that fewer calls should go together: a shard keeps only so much of them.
fn is_heavy(replies: &[(CallNo, Reply)]) -> bool {
    replies.iter().map(|(_, reply)| reply.size()).sum::<usize>() > ANSWERS_BYTES_MAX
}

impl Outputs {
    /// A transaction is to wait until a frame leaves for one of these shards. Whether one can.
    pub(in crate::client) fn gather(&mut self, shards: &[ShardId], may_leave: bool) -> bool {
        let answers = |outbox: &Outbox| {
            outbox.connection.is_some()
                && outbox.owes_since().is_none_or(|since| self.now.since(since) < SILENT_US)
        };
        let is_there = |shard: &ShardId| {
            self.direct.is_none()
                && self.outboxes.iter().any(|outbox| outbox.shard == *shard && answers(outbox))
        };
        if !shards.iter().all(is_there) {
            return false;
        }
        for outbox in self.outboxes.iter_mut().filter(|outbox| shards.contains(&outbox.shard)) {
            outbox.gather();
            if may_leave {
                self.ready.extend(outbox.tell_once(&self.pacing));
            }
        }
        true
    }

    /// Those that are gathered may leave now.
    pub(in crate::client) fn tell_of_gathered(&mut self) {
        for outbox in self.outboxes.iter_mut().filter(|outbox| outbox.has_gathered()) {
            self.ready.extend(outbox.tell_once(&self.pacing));
        }
    }

    /// When a shard that owes an answer counts as silent: the first of them.
    fn silent_at(&self) -> Option<Time> {
        self.outboxes.iter().filter_map(Outbox::owes_since).min().map(|since| since.plus(SILENT_US))
    }
}

impl Client {
    /// Whether those that are gathered may leave. The window does not count while a shard is silent (B9).
    pub(in crate::client) fn may_leave(&self) -> bool {
        self.transactions.table.batches.may_leave()
            || self.outputs.silent_at().is_some_and(|at| at <= self.outputs.now)
    }

    /// When those that are held by the window may leave because a shard is silent by then.
    pub(in crate::client) fn released_at(&self) -> Option<Time> {
        let batches = &self.transactions.table.batches;
        if !batches.has_gathered() || batches.may_leave() {
            return None; // Mostly: then nobody need know who is silent.
        }
        self.outputs.silent_at().filter(|at| *at > self.outputs.now)
    }

    /// A frame leaves: all that are gathered leave (B2).
    pub(in crate::client) fn leave(&mut self) {
        let now = self.outputs.now;
        self.outputs.outboxes.iter_mut().for_each(Outbox::left);
        self.suggest(now);
        self.transactions.table.leave(&mut self.transactions.process, now);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.drain(process, now, &mut self.outputs);
    }

    /// Places or connections are not what they were: those that are gathered leave, each by itself (B8).
    pub(in crate::client) fn disband(&mut self) {
        self.outputs.outboxes.iter_mut().for_each(Outbox::left);
        self.transactions.table.disband(&mut self.transactions.process, self.outputs.now);
    }
}

impl Table {
    /// A transaction is to commit: where it may wait for others to do so with, and its shards; `None`: it goes alone.
    pub(in crate::client) fn may_gather(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
    ) -> Option<SmallVec<[ShardId; 4]>> {
        if attempt != 1 {
            return None;
        }
        let entry = self.entries.get_mut(tx.0).filter(|_| self.batches.is_on)?;
        let is_fresh = entry.membership == Membership::Alone && !entry.ended;
        let calls =
            entry.coordinator.one_shot().filter(|calls| is_fresh && calls.len() <= CALLS_OF_ONE_MAX)?;
        entry.committing_since = Some(now);
        if !self.batches.learned.trial.is_together() {
            return None;
        }
        let mut shards = SmallVec::new();
        for (shard, _) in calls {
            if !shards.contains(shard) {
                shards.push(*shard);
            }
        }
        Some(shards)
    }

    /// It waits until a frame leaves.
    pub(in crate::client) fn gather(&mut self, tx: TxHandle) {
        if let Some(entry) = self.entries.get_mut(tx.0) {
            entry.membership = Membership::Gathered;
            self.batches.gathered.push(tx.0);
        }
    }

    /// A frame leaves: all that are gathered leave, in batches.
    pub(in crate::client) fn leave(&mut self, process: &mut Process, now: Time) {
        let gathered = std::mem::take(&mut self.batches.gathered);
        // Those of one shard with those of the same one alone (B3).
        let mut gathered: Vec<(Option<ShardId>, u64)> =
            gathered.into_iter().map(|tx| (self.only_shard(tx), tx)).collect();
        gathered.sort_unstable();
        for alike in gathered.chunk_by(|one, next| one.0 == next.0) {
            let alike: SmallVec<[u64; 32]> = alike.iter().map(|(_, tx)| *tx).collect();
            let mut rest = &alike[..];
            while !rest.is_empty() {
                let together = self.first_batch(rest);
                self.go_together(process, now, rest[..together].iter().map(|tx| (*tx, 0)));
                rest = &rest[together..];
            }
        }
    }

    /// The shard of a one-shot transaction, if it is one.
    fn only_shard(&self, tx: u64) -> Option<ShardId> {
        let calls = self.entries.get(tx)?.coordinator.one_shot()?;
        let (first, _) = calls.first()?;
        calls.iter().all(|(shard, _)| shard == first).then_some(*first)
    }

    /// All that are gathered leave, each by itself.
    pub(in crate::client) fn disband(&mut self, process: &mut Process, now: Time) {
        let mut gathered = std::mem::take(&mut self.batches.gathered);
        gathered.sort_unstable();
        gathered.into_iter().for_each(|tx| self.go_alone(process, now, tx));
    }

    /// How many of them make the first batch: one at least.
    fn first_batch(&self, gathered: &[u64]) -> usize {
        let (mut calls, mut bytes) = (0, 0);
        let mut at_shards: SmallVec<[(ShardId, u32); 8]> = SmallVec::new();
        let is_too_much = |tx: &u64| {
            let own =
                self.entries.get(*tx).and_then(|entry| entry.coordinator.one_shot()).unwrap_or_default();
            calls += own.len() as u32;
            let mut is_crowded = false;
            for (shard, call) in own {
                bytes += call.key.len() + call.call.op.size();
                let known = at_shards.iter().position(|(known, _)| known == shard);
                let at = known.unwrap_or_else(|| {
                    at_shards.push((*shard, 0));
                    at_shards.len() - 1
                });
                at_shards[at].1 += 1;
                is_crowded |= at_shards[at].1 > CALLS_AT_A_SHARD_MAX;
            }
            calls > self.batches.size.calls_max() || bytes > BYTES_MAX || is_crowded
        };
        gathered.iter().position(is_too_much).unwrap_or(gathered.len()).max(1)
    }

    fn go_alone(&mut self, process: &mut Process, now: Time, tx: u64) {
        let Some(entry) = self.entries.get_mut(tx) else { return };
        entry.membership = Membership::Alone;
        entry.left = self.batches.leaving();
        self.commit_entry(process, now, tx);
    }

    /// These leave together; of each is said how often it was refused for lack of a timestamp.
    fn go_together(
        &mut self,
        process: &mut Process,
        now: Time,
        together: impl ExactSizeIterator<Item = (u64, u8)>,
    ) {
        match together.len() {
            1 => together.for_each(|(tx, _)| self.go_alone(process, now, tx)),
            _ => self.carry(process, now, together),
        }
    }

    fn carry(&mut self, process: &mut Process, now: Time, together: impl Iterator<Item = (u64, u8)>) {
        let (leader, mut entry) = self.begin_entry(process, now, 0);
        entry.membership = Membership::Carries;
        entry.left = self.batches.leaving();
        let mut carried = self.batches.spare.pop().unwrap_or_default();
        let mut first = 0;
        for (tx, unstamped) in together {
            let Some(member) = self.entries.get_mut(tx) else { continue };
            member.membership = Membership::In(leader);
            carried.push(Carried { tx, first, regrets: false, unstamped });
            first = entry.coordinator.buffer_all_of(&member.coordinator);
        }
        #[cfg(feature = "planted-bugs")]
        if is_planted(Bug::BatchReversed) {
            entry.coordinator.reverse_buffered();
        }
        self.batches.carried.insert(leader, carried);
        self.entries.insert(leader, entry);
        self.commit_entry(process, now, leader);
    }

    /// The user of a transaction that is gathered or carried wants its end, or has left. Whether that is all that is to be
    /// done for now.
    pub(in crate::client) fn regret(&mut self, now: Time, tx: u64) -> bool {
        let Some(entry) = self.entries.get_mut(tx) else { return true };
        match entry.membership {
            Membership::Alone => false,
            Membership::Carries => true,
            Membership::Gathered => {
                entry.membership = Membership::Alone;
                self.batches.gathered.retain(|gathered| *gathered != tx);
                false
            }
            Membership::In(_) if is_planted(Bug::RegretToldAtOnce) => {
                entry.membership = Membership::Alone;
                false
            }
            Membership::In(leader) => {
                let Some(carried) = self.batches.carried.get_mut(&leader) else { return true };
                carried.iter_mut().filter(|it| it.tx == tx).for_each(|it| it.regrets = true);
                if carried.iter().all(|it| it.regrets)
                    && let Some(coordinator) = self.make_ready(leader)
                {
                    coordinator.abort(now);
                }
                true
            }
        }
    }

    /// A leader is told the end of its attempt.
    pub(in crate::client) fn unload(
        &mut self,
        process: &mut Process,
        now: Time,
        leader: u64,
        event: Event,
        outputs: &mut Outputs,
    ) {
        let Some(mut members) = self.batches.carried.remove(&leader) else { return };
        match event {
            Event::Committed { replies } => {
                match is_heavy(&replies) {
                    true => self.batches.size.shrink(),
                    false => self.batches.size.grow(),
                }
                self.unload_committed(process, now, &members, replies, outputs);
            }
            Event::Unknown if !is_planted(Bug::BatchUnknownAgain) => {
                let asked = process.take_unknown(TxHandle(leader));
                for it in &members {
                    asked.iter().for_each(|asked| process.note_unknown(now, TxHandle(it.tx), asked.clone()));
                    self.close_carried(process, it.tx, Event::Unknown, outputs);
                }
            }
            Event::Restart { cause: Cause::Refused(Refusal::Unstamped) }
                if members.iter().all(|it| it.unstamped < unstamped_max()) =>
            {
                let mut again: SmallVec<[(u64, u8); 32]> = SmallVec::new();
                for it in &members {
                    match it.regrets {
                        true => self.close_carried(process, it.tx, Event::Aborted, outputs),
                        false => again.push((it.tx, it.unstamped + 1)),
                    }
                }
                if !again.is_empty() {
                    self.go_together(process, now, again.into_iter());
                }
            }
            event => {
                // Who only had to give way, or was withdrawn, says nothing about the next one.
                if matches!(event, Event::Failed { .. }) {
                    self.batches.size.shrink();
                }
                for it in &members {
                    match it.regrets {
                        true => self.close_carried(process, it.tx, Event::Aborted, outputs),
                        false => self.go_alone(process, now, it.tx),
                    }
                }
            }
        }
        members.clear();
        self.batches.spare.push(members);
    }

    /// Each has the answers to its own calls, by its own numbers.
    fn unload_committed(
        &mut self,
        process: &mut Process,
        now: Time,
        carried: &[Carried],
        mut replies: Vec<(CallNo, Reply)>,
        outputs: &mut Outputs,
    ) {
        replies.sort_unstable_by_key(|(no, _)| *no);
        let mut replies = replies.into_iter().peekable();
        for (at, it) in carried.iter().enumerate() {
            let behind = carried.get(at + 1).map_or(u32::MAX, |next| next.first);
            let mut own = Vec::new();
            while let Some((no, reply)) = replies.next_if(|(no, _)| no.0 < behind) {
                // As its transaction numbers it, whose first call in the batch has the number `it.first` (B4).
                let own_no = if is_planted(Bug::BatchNumbersShared) { no } else { CallNo(no.0 - it.first) };
                own.push((own_no, reply));
            }
            let since = self.entries.get(it.tx).and_then(|entry| entry.committing_since);
            since.into_iter().for_each(|since| self.batches.note_time(now.since(since)));
            self.close_carried(process, it.tx, Event::Committed { replies: own }, outputs);
        }
    }

    /// One that left waits for a lock. A batch is given up if that takes long, so that who is in nobody's way waits for nobody
    /// (B11).
    pub(in crate::client) fn note_wait(batches: &mut Batches, entry: &mut Entry, now: Time) {
        if entry.left == Left::No {
            return;
        }
        if entry.membership == Membership::Carries {
            entry.breaks_at.get_or_insert(now.plus(batches.learned.trial.patience_us()));
        }
        if let Left::Moves(halved) = std::mem::replace(&mut entry.left, Left::Waited) {
            batches.learned.window.shrink(halved);
        }
    }

    /// A batch has had its time to wait: it is given up if it still waits.
    pub(in crate::client) fn end_patience(batches: &mut Batches, entry: &mut Entry, now: Time) {
        if entry.breaks_at.take_if(|at| *at <= now).is_some() && entry.coordinator.is_blocked() {
            entry.coordinator.abort(now);
            batches.note_broken();
        }
    }

    /// The end of a transaction that was carried.
    fn close_carried(&mut self, process: &mut Process, tx: u64, event: Event, outputs: &mut Outputs) {
        let Some(mut entry) = self.entries.remove(tx) else { return };
        if !entry.ended {
            outputs.tell(TxHandle(tx), event);
        }
        process.end(entry.coordinator.birth().tx);
        entry.coordinator.close_carried();
        self.recycle(entry);
    }

    /// # Panics
    /// When somebody is gathered or carried, and nobody knows of it, or the other way round.
    pub(in crate::client) fn check_batches(&self) {
        let Batches { gathered, carried, under_way, .. } = &self.batches;
        let left = self.entries.iter().filter(|(_, entry)| entry.left != Left::No).count();
        assert_eq!(*under_way as usize, left, "how many are under way");
        let is_gathered =
            |tx: &u64| self.entries.get(*tx).is_some_and(|it| it.membership == Membership::Gathered);
        assert!(gathered.iter().all(is_gathered), "who is gathered");
        // In any order: all must hold.
        for (leader, members) in carried {
            let is_in = |tx| self.entries.get(tx).is_some_and(|it| it.membership == Membership::In(*leader));
            assert!(members.iter().all(|it| is_in(it.tx)), "who is carried");
        }
        let mut waiting_in = 0;
        // In any order: a sum.
        for (_, members) in carried {
            waiting_in += members.len();
        }
        let is_waiting = |entry: &Entry| matches!(entry.membership, Membership::Gathered | Membership::In(_));
        let waiting = self.entries.iter().filter(|(_, entry)| is_waiting(entry)).count();
        assert_eq!(waiting, gathered.len() + waiting_in, "who waits for others");
    }
}
