//! A shard: the participant's side of the protocol (`docs/protocol.md`).
//!
//! Sans I/O: requests and peers' messages go in with the time ([`Shard::handle`], [`Shard::handle_peer`],
//! [`Shard::handle_timeout`]), outputs are drained with [`Shard::poll_output`], and [`Shard::poll_timeout`] says
//! when to come back. The same inputs give the same outputs.
//!
//! Every attempt has one write-once vote record here, yes or no (trap 1): *yes* is the stage `Prepared`, *no* is a
//! `Decided::Refused` in the session's history (with direct delivery, where nothing is ever late, no is simply
//! being gone).
//!
//! This file routes requests and answers. Below it are locks (`lock_table`), queues (`phaser`), ordered calls (`placing`, `horizon`),
//! recovery (`recovery`), replicas (`replicating`), and a file for each other subject.

mod account;
mod acyclic;
mod again;
mod deadlines;
mod departed;
mod digest;
mod ends;
mod expiring;
mod external;
mod following;
mod history;
mod horizon;
mod instant;
mod journaling;
mod lock_table;
mod looking;
mod participant;
mod phaser;
mod picture;
mod placing;
mod promoting;
mod recent;
mod recovery;
mod replicating;
mod restart;
mod top;
mod undoing;
mod undone;
mod versions;
mod waking;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::ops::Range;

use claret_types::{Bytes, Reply, State};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::ids::{AttemptId, Birth, CallNo, Incarnation, SessionId, ShardId, Time, Timestamp};
use crate::limits::Limits;
use crate::message::{
    Asks, Call, KeyedCall, Link, Members, Output, Participants, PeerMessage, Refusal, Request, Response,
    Status, Undone,
};
use crate::planted::{Bug, is_planted};
use crate::switches::{Delivery, Switches};

use acyclic::{Batons, asked_of};
use deadlines::Deadlines;
use departed::AllDeparted;
use following::Awaited;
use history::{Decided, History, Remembered};
use horizon::Horizon;
pub use lock_table::Waited;
use lock_table::{Answers, Fate, LockTable, Owner, RecordIx, Stop, Woken};
use participant::{Blocked, Calls, Heard, Participant, Round, Stage, by_key, queues_of};
pub use picture::{Stats, Wait};
use recovery::{Deserted, runs};
use replicating::Replication;
pub use restart::Survives;
pub use top::{Behind, Counted, HotRecord, Top};
use waking::Ran;

/// The hash that places a key: the same everywhere, so that hosts may choose shards by it and hand it on.
pub fn key_hash(key: &[u8]) -> u64 {
    foldhash::fast::FixedState::with_seed(0x006b_6579).hash_one(key)
}

/// To read and sort so many calls costs as much as to execute one.
const SORTED_WORTH: usize = 16;

/// Attempts that are here and not decided.
type Attempts = HashMap<AttemptId, Box<Participant>, foldhash::fast::FixedState>;

/// A shard, the participant's side of the protocol: it locks records for attempts, votes, and applies or drops what they did.
/// Requests go in with the time ([`Shard::handle`]), outputs are drained ([`Shard::poll_output`]). The same inputs give
/// the same outputs.
#[derive(Clone, Debug)]
pub struct Shard {
    id: ShardId,
    incarnation: Incarnation,
    /// Votes and decisions since the beginning of this incarnation are all here; of earlier ones none may be.
    remembers_since: Incarnation,
    switches: Switches,
    limits: Limits,
    pub(crate) table: LockTable,
    attempts: Attempts,
    sessions: BTreeMap<SessionId, History>,
    deadlines: Deadlines,
    /// Those who have what they waited for, and records behind that. None between inputs.
    going_on: VecDeque<AttemptId>,
    /// Those who have more calls than are executed at once, by turn. Each goes on with the next timeouts, and is here once.
    put_off: BTreeMap<u64, AttemptId>,
    deserted: VecDeque<Deserted>,
    departed: AllDeparted,
    /// Refused, and their coordinators did not say yet that they know. Empty wherever decisions are remembered.
    refused: BTreeSet<AttemptId>,
    /// Bytes that are kept for each account, and for all (P60).
    accounts: HashMap<u64, usize, foldhash::fast::FixedState>,
    kept: usize,
    /// So many calls are still executed, or locks let go, before others get their turn.
    at_once: usize,
    /// So many commands of the host are about to run for which everybody who comes is put off (P63).
    held_off: usize,
    /// No later vote has a timestamp that is not larger (P73).
    clock: Timestamp,
    /// Attempts here that have voted with a timestamp and are not carried out.
    stamped: usize,
    horizon: Horizon,
    batons: Batons,
    awaited: Awaited,
    /// So many bytes of answers are still said again.
    again_bytes: usize,
    /// Whose heartbeat came last in this input.
    heard_of: Option<SessionId>,
    /// The time of the latest input.
    latest: Time,
    outputs: VecDeque<Output>,
    /// What its replicas have to know, if it has any.
    replication: Option<Box<Replication>>,
    stats: Stats,
}

impl Shard {
    /// An empty shard.
    pub fn new(id: ShardId, incarnation: Incarnation, switches: Switches, limits: Limits) -> Self {
        // Unique numbers: 20 bits of shard, 12 of incarnation, 31 counted.
        let unique_base = u64::from(id.0) << 43 | (incarnation.0 & 0xfff) << 31;
        Shard {
            id,
            incarnation,
            remembers_since: incarnation,
            switches,
            limits,
            table: LockTable::new(switches, limits, unique_base),
            attempts: HashMap::default(),
            sessions: BTreeMap::new(),
            deadlines: Deadlines::default(),
            going_on: VecDeque::new(),
            put_off: BTreeMap::new(),
            deserted: VecDeque::new(),
            departed: AllDeparted::default(),
            refused: BTreeSet::new(),
            accounts: HashMap::default(),
            kept: 0,
            at_once: 0,
            held_off: 0,
            clock: Timestamp::default(),
            stamped: 0,
            horizon: Horizon::default(),
            batons: Batons::default(),
            awaited: Awaited::default(),
            again_bytes: 0,
            heard_of: None,
            latest: Time(0),
            outputs: VecDeque::new(),
            replication: None,
            stats: Stats::default(),
        }
    }

    // --- getters ---

    /// Which shard.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Which life of it.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The committed content of a record.
    pub fn state(&self, key: &[u8]) -> Option<&State> {
        self.table.find(key_hash(key), key).and_then(|record| self.table.state(record))
    }

    /// The committed records at some places, and the place to go on at; `None` behind the last. A record that stays keeps its
    /// place. O(places).
    pub fn contents_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, &State)>, Option<usize>) {
        self.table.contents_at(places)
    }

    /// All committed records, in no useful order.
    pub fn contents(&self) -> impl Iterator<Item = (&Bytes, &State)> {
        self.table.contents()
    }

    /// What is written for an attempt, if anything is. Unlike a question that arrives, looking writes nothing.
    pub fn written(&self, attempt: AttemptId) -> Option<Status> {
        match self.decided(attempt) {
            Some(Decided::Applied { .. }) => Some(Status::Applied),
            Some(Decided::Refused(_)) => Some(Status::Refused),
            None if self.is_below_low_water(attempt) => Some(Status::Forgotten),
            None => self.attempts.get(&attempt)?.is_prepared().then_some(Status::Prepared),
        }
    }

    /// How many records somebody holds or waits for. O(records).
    pub fn locked_records(&self) -> usize {
        self.table.locked()
    }

    /// Attempts that are here and not decided.
    pub fn open_attempts(&self) -> usize {
        self.attempts.len()
    }

    /// Of these, those that have voted. O(open attempts).
    #[expect(clippy::disallowed_methods, reason = "they are counted")]
    pub fn voted_attempts(&self) -> usize {
        self.attempts.values().filter(|participant| participant.is_prepared()).count()
    }

    /// Those of one session that are not committed: those are here until their turn has come. O(open attempts).
    #[expect(clippy::disallowed_methods, reason = "they are counted")]
    pub fn open_attempts_of(&self, session: SessionId) -> usize {
        let own = self.attempts.iter().filter(|(attempt, _)| attempt.tx.session == session);
        own.filter(|(_, it)| !matches!(it.stage, Stage::Placed { .. })).count()
    }

    /// Decisions remembered until the sessions' low-water marks pass them.
    pub fn remembered(&self) -> usize {
        self.sessions.values().map(History::decisions).sum::<usize>() + self.refused.len()
    }

    /// Sessions of which anything is known.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        self.table.added_to(self.stats)
    }

    // --- inputs ---

    /// Takes one request.
    pub fn handle(&mut self, now: Time, link: Link, request: Request) {
        self.begin(now);
        self.handle_further(now, link, request);
    }

    /// Takes one request more of what came together, as a frame: from [`Self::begin`] on all of it shares what one input may
    /// do (P38).
    pub fn handle_further(&mut self, now: Time, link: Link, request: Request) {
        match request {
            // As if it was lost: it comes again.
            Request::Execute { .. } | Request::Prepare { .. }
                if self.is_in_doubt() && !is_planted(Bug::BeginsUnasked) => {}
            Request::Execute { attempt, birth, incarnation, key, calls, undone } => {
                if let Some(owner) = self.admit(now, link, attempt, birth, incarnation) {
                    if self.has_forgotten_undone(attempt, &undone, calls.iter().map(|call| call.no)) {
                        return self.refuse(now, attempt, Refusal::LostLocks);
                    }
                    self.execute(now, owner, &key, calls, &undone);
                }
            }
            Request::Prepare { attempt, birth, participants, relies_on, calls, members, asks, undone } => {
                self.prepare(
                    now,
                    link,
                    attempt,
                    birth,
                    participants,
                    relies_on,
                    calls,
                    members,
                    asks,
                    &undone,
                );
            }
            Request::Apply { attempt } => self.apply(now, attempt),
            Request::Withdraw { attempt } => self.write_no(now, attempt, Refusal::Withdrawn),
            Request::Abort { attempt, refused_by } => self.abort(now, attempt, refused_by),
            Request::Heartbeat { live, low_water } => self.heartbeat(now, link, &live, low_water),
            Request::Ask { attempt } => {
                let status = self.status_or_refuse(now, attempt, None);
                // To whoever asks, not to the session that began it.
                let since = self.remembers_for(attempt.tx.session);
                let response = Response::Asked { attempt, status, since };
                self.outputs.push_back(Output::Respond { session: link.session, response });
            }
            Request::AskBehind { attempt } => self.tell_behind(attempt),
            Request::ApplyAt { attempt, at } => self.apply_at(now, attempt, at),
            Request::Tick { want } => self.tick(now, link, want),
            Request::Look { look, key, ops, at_once } => {
                let seen = self.look(&key, &ops, at_once);
                let response = Response::Looked { look, seen };
                self.outputs.push_back(Output::Respond { session: link.session, response });
            }
        }
        self.drain(now);
    }

    /// Takes one message of another shard.
    pub fn handle_peer(&mut self, now: Time, message: PeerMessage) {
        self.begin(now);
        self.handle_further_peer(now, message);
    }

    /// Takes one message more of what came together, after [`Self::begin`] (P38).
    pub fn handle_further_peer(&mut self, now: Time, message: PeerMessage) {
        match message {
            // To write a no takes room; it asks again, and there may be some.
            PeerMessage::Inquire { attempt, .. } if !self.may_note(now, attempt) => {
                self.stats.unanswered += 1
            }
            PeerMessage::Inquire { attempt, from, listed } => {
                let status = self.status_or_refuse(now, attempt, listed);
                let message = PeerMessage::Answer { attempt, from: self.id, status };
                self.outputs.push_back(Output::Tell { shard: from, message });
            }
            PeerMessage::Answer { attempt, from, status } => self.handle_answer(now, attempt, from, status),
            PeerMessage::Baton { attempt, from, follows } => self.take_baton(now, attempt, from, follows),
            // What is said of clocks lets nobody in, and a host takes it where nothing may be written: so nothing is carried out.
            PeerMessage::AskClock { from, incarnation, want } => {
                return self.tell_clock(now, from, incarnation, want);
            }
            PeerMessage::Clock { from, incarnation, clock, owners } => {
                return self.hear_clock(now, from, incarnation, clock, owners);
            }
        }
        self.drain(now);
    }

    /// Ends leases, asks about attempts in doubt, ends what deserted sessions left, and goes on with those who were put
    /// off. Of each what is more than [`Limits::at_once_max`] is left to the next call, which is due at once; none of
    /// them takes from another.
    pub fn handle_timeout(&mut self, now: Time) {
        self.begin(now);
        self.see_to_doubt(now);
        while self.at_once > 0
            && let Some(attempt) = self.deadlines.pop_due(now, runs(&self.attempts))
        {
            self.charge_for(attempt);
            self.end_wait(now, attempt);
        }
        self.drop_batons(now);
        self.begin(now);
        self.end_deserted(now);
        self.drain(now);
        self.begin(now);
        self.take_turns(now);
        self.begin(now);
        self.see_off(now);
    }

    /// When the time of one attempt is over.
    pub fn timeout_of(&self, attempt: AttemptId) -> Option<Time> {
        self.attempts.get(&attempt)?.deadline
    }

    /// What [`Self::handle_timeout`] does, for one attempt, whose time need not be over: clocks serve liveness only,
    /// so a search lets a lease run out, or a question be asked again, whenever it likes.
    pub fn handle_timeout_of(&mut self, now: Time, attempt: AttemptId) {
        self.begin(now);
        if self.timeout_of(attempt).is_some() {
            self.end_wait(now, attempt);
            self.drain(now);
        }
    }

    fn end_wait(&mut self, now: Time, attempt: AttemptId) {
        self.set_deadline(attempt, None);
        let Some(participant) = self.attempts.get(&attempt) else { return };
        if participant.is_held_back() {
            return; // It is committed, and those whom it follows ask.
        }
        // It has voted, and asks the others (P23).
        if participant.is_prepared() && !is_planted(Bug::LeaseEndsPrepared) {
            self.inquire(now, attempt);
        } else {
            self.refuse(now, attempt, Refusal::LeaseExpired);
        }
    }

    // --- outputs ---

    /// The next output. What waits for replicas comes later.
    pub fn poll_output(&mut self) -> Option<Output> {
        match self.replication {
            None => self.outputs.pop_front(), // Mostly.
            Some(_) => self.poll_free_output(),
        }
    }

    /// Whether there is a next output.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty() || self.has_free_output()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.deadlines.next();
        let others = [self.departed.poll_timeout(), self.horizon.poll_timeout(), self.batons.poll_timeout()];
        let due = due.into_iter().chain(others.into_iter().flatten()).min();
        let goes_on = self.held_off == 0 && (!self.put_off.is_empty() || !self.deserted.is_empty());
        // Whose turn has come waits for an input only after a promotion.
        let at_once = (goes_on || self.table.has_ready()).then_some(self.latest);
        at_once.or(due)
    }

    // --- gates ---

    /// Lets an attempt in, or answers why not.
    fn admit(
        &mut self,
        now: Time,
        link: Link,
        attempt: AttemptId,
        birth: Birth,
        incarnation: Option<Incarnation>,
    ) -> Option<Owner> {
        let (account, own) = match self.switches.delivery {
            Delivery::Network => self.admit_from_network(now, link, attempt)?,
            Delivery::Direct => (0, self.admit_directly(attempt)?),
        };
        let owner = match self.attempts.get(&attempt) {
            // Its first birth counts: under another one it would wait where nobody looks for it.
            Some(participant) => participant.owner,
            None => {
                let owner = Owner::of(attempt, birth);
                self.attempts.insert(attempt, Box::new(Participant::new(owner, account, own)));
                self.renew(now, attempt);
                owner
            }
        };
        // One that has voted did so as the incarnation that was relied on, and its vote outlived that.
        if incarnation.is_some_and(|relied| relied != own) && !self.participant(attempt).is_prepared() {
            self.refuse(now, attempt, Refusal::LostLocks);
            return None;
        }
        Some(owner)
    }

    /// Keeps out what is late: of an old connection, below the low-water mark, decided already (traps 2, 6, 19).
    /// The account, and the incarnation that the shard is to the session.
    fn admit_from_network(
        &mut self,
        now: Time,
        link: Link,
        attempt: AttemptId,
    ) -> Option<(u64, Incarnation)> {
        let place = (attempt.tx.sequence, attempt.attempt);
        let history = self.sessions.entry(attempt.tx.session).or_default();
        if link.connection < history.connection {
            // Dropped without a word: a refusal that is not written would be taken for a recorded no.
            return None;
        }
        let own = history.met_as.map_or(self.incarnation, |met_as| met_as.max(self.incarnation));
        let let_in = Some((history.account, own));
        let is_stale = attempt.tx.sequence < history.low_water && !is_planted(Bug::BelowLowWaterIsNew);
        let refusal = if is_stale {
            Refusal::Stale
        } else if let Some(decided) = history.bars(place) {
            match decided {
                Decided::Refused(refusal) => refusal.clone(),
                Decided::Applied { .. } => return None,
            }
        } else {
            history.connection = link.connection;
            history.open(place);
            // A newer attempt says that the older ones are over: the coordinator starts it after a recorded no. So there are few.
            let older: SmallVec<[u32; 2]> = history.open_before(place).take(history::OLDER_MAX).collect();
            self.stats.visits += older.len() as u64;
            for number in older {
                let stale = AttemptId { tx: attempt.tx, attempt: number };
                if self.attempts.get(&stale).is_some_and(|participant| !participant.is_prepared()) {
                    self.refuse(now, stale, Refusal::Stale);
                }
            }
            return let_in;
        };
        self.respond_refused(attempt, refusal);
        None
    }

    // --- execute ---

    fn execute(&mut self, now: Time, owner: Owner, key: &Bytes, mut calls: Calls, undone: &[Undone]) {
        let attempt = owner.attempt;
        let participant = self.attempts.get_mut(&attempt).expect("admitted");
        if !matches!(participant.stage, Stage::Open) {
            return; // A double of something that was answered before the prepare.
        }
        if let Err(refusal) = self.note_undone(now, owner, undone) {
            return self.refuse(now, attempt, refusal);
        }
        self.leave_out_undone(attempt, key, &mut calls);
        let participant = self.attempts.get_mut(&attempt).expect("admitted");
        let mut asked: SmallVec<[CallNo; 4]> = calls.iter().map(|call| call.no).collect();
        let fresh = participant.unseen(&self.switches, calls);
        if fresh.is_empty() {
            asked.sort_unstable();
            asked.dedup(); // Each is said once, however often it was asked for.
            return self.answer_again(attempt, &asked);
        }
        let admitted = self.table.admit(key, fresh.iter().map(|call| &call.op));
        let size = self.size_up(fresh.iter().map(|call| (&key[..], call)));
        if let Err(refusal) = admitted.and_then(|()| self.take_in(attempt, size)) {
            return self.refuse(now, attempt, refusal);
        }
        let participant = self.attempts.get_mut(&attempt).expect("admitted");
        if let Some(undone) = &mut participant.undone {
            // Not before they are taken in: what is left out or refused is not kept.
            undone.note_calls(key, fresh.iter().map(|call| call.no));
        }
        let waiting = participant.blocked.get_mut(key).filter(|_| !is_planted(Bug::WaitsTwice));
        if let Some(blocked) = waiting {
            blocked.calls.extend(fresh); // A transaction waits at most once on one record.
            return self.say_queued(attempt, Some(key));
        }
        if self.at_once == 0 {
            return self.put_off_all(attempt, key, fresh.into_iter().collect());
        }
        let record = self.table.ensure(key_hash(key), key);
        match self.run(now, owner, key, record, fresh, false) {
            Ran::All | Ran::PutOff => {}
            Ran::Waits => self.say_queued(attempt, Some(key)),
            Ran::Busy => self.busy(attempt),
            Ran::Failed(refusal) => self.refuse(now, attempt, refusal),
        }
    }

    // --- round one ---

    #[allow(clippy::too_many_arguments, reason = "the fields of one message")]
    fn prepare(
        &mut self,
        now: Time,
        link: Link,
        attempt: AttemptId,
        birth: Birth,
        participants: Participants,
        relies_on: u32,
        calls: Vec<KeyedCall>,
        members: Members,
        asks: Asks,
        undone: &[Undone],
    ) {
        let listed = participants.iter().find(|listed| listed.shard == self.id);
        let incarnation = listed.and_then(|listed| listed.incarnation);
        // A single participant is always the last (P9): there is nobody whom it could ask.
        let is_single = participants.iter().all(|listed| listed.shard == self.id);
        let chained = self.chained(asks, &participants);
        let asks = asked_of(asks, is_single, chained);
        let Some(owner) = self.admit(now, link, attempt, birth, incarnation) else {
            return self.tell_applied(attempt, asks == Asks::Decision);
        };
        self.renew(now, attempt); // A sign of life; the vote, which may come long afterwards, is none.
        let participant = self.participant(attempt);
        match participant.stage {
            Stage::Open => {}
            Stage::Preparing(_) => return self.prepare_again(now, owner),
            Stage::Prepared { .. } | Stage::Placed { .. } => return self.prepared_again(attempt),
        }
        if chained.is_some() && !self.takes_chains() {
            return self.refuse(now, attempt, Refusal::Unchained);
        }
        let (calls, grants) = match self.take_undone(now, owner, undone, calls) {
            Ok(taken) => taken,
            Err(refusal) => return self.refuse(now, attempt, refusal),
        };
        // As many as one input may execute cost nothing else.
        let beyond = calls.len().saturating_sub(self.limits.at_once_max);
        self.at_once = self.at_once.saturating_sub(beyond / SORTED_WORTH);
        // Before they are sorted: in the order in which they lie in memory.
        let size = self.size_up(calls.iter().map(|it| (&it.key[..], &it.call)));
        let answering = calls.iter().filter(|it| it.call.op.returns()).count();
        let records = by_key(calls);
        if let Err(refusal) = self.admit_calls(now, attempt, &records, size, asks) {
            return self.refuse(now, attempt, refusal);
        }
        let participant = self.participant(attempt);
        let left = participant.leave_behind(&members);
        if !grants.are_as_many(relies_on, &members) || !participant.blocked.is_empty() {
            participant.blocked.extend(left);
            return self.refuse(now, attempt, Refusal::LostLocks);
        }
        let (replies_before, turn) = (participant.replies.len(), participant.turn.take());
        participant.replies.reserve_exact(answering); // They are kept, and counted for what they are.
        participant.held.reserve(records.len());
        let is_stamped = matches!(asks, Asks::Place(_)) && members == Members::All;
        let orders = is_stamped && !self.has_undone(attempt) && self.may_order(attempt, is_single, &records);
        let participant = self.participant(attempt);
        participant.stage =
            Stage::Preparing(Round { participants, members, asks, orders, replies_before, chained });
        if let Some(turn) = turn {
            self.put_off.remove(&turn);
        }
        if self.switches.phasing {
            // Members waited there that left their group (C13).
            queues_of(&left).for_each(|record| self.table.leave_queue(now, record, owner));
        }
        let owner = self.let_follow(attempt, records.len());
        self.begin_to_lock(now, owner, records.into_iter());
    }

    /// Whether the calls of a prepare may be taken.
    fn admit_calls(
        &mut self,
        now: Time,
        attempt: AttemptId,
        records: &[(Bytes, Calls)],
        size: account::Taken,
        asks: Asks,
    ) -> Result<(), Refusal> {
        if self.is_stamped_in_vain(asks) {
            return Err(Refusal::ReadOnly);
        }
        if !matches!(asks, Asks::Place(_)) && !self.takes_unstamped(now, records) {
            self.ask_clocks(now, false);
            return Err(Refusal::Unstamped);
        }
        records
            .iter()
            .try_for_each(|(key, calls)| self.table.admit(key, calls.iter().map(|call| &call.op)))?;
        self.take_in(attempt, size)
    }

    /// A prepare came again: a double while it waits, or, without phases, another try.
    fn prepare_again(&mut self, now: Time, owner: Owner) {
        let attempt = owner.attempt;
        if self.awaits(attempt) {
            self.say_held_up(attempt);
            return self.note_held_up(attempt);
        }
        if self.participant(attempt).is_deposited() {
            return; // It waits for nobody.
        }
        if self.switches.phasing {
            return self.say_waits(attempt);
        }
        let blocked = std::mem::take(&mut self.participant(attempt).blocked);
        for (key, Blocked { calls, .. }) in blocked {
            // Nobody waited in the record, so it may have left the table.
            let record = self.table.ensure(key_hash(&key), &key);
            if let Ran::Failed(refusal) = self.run_rest(now, owner, &key, record, calls) {
                return self.refuse(now, attempt, refusal);
            }
        }
        if self.participant(attempt).blocked.is_empty() {
            self.vote(now, attempt);
        } else {
            self.busy(attempt);
        }
    }

    /// Writes yes. The last one's yes is the decision, and it is carried out (P9).
    fn vote(&mut self, now: Time, attempt: AttemptId) {
        self.undo_all(attempt);
        let participant = self.attempts.get_mut(&attempt).expect("preparing");
        if !participant.may_vote() {
            debug_assert!(false, "{attempt} votes and has calls left");
            return self.refuse(now, attempt, Refusal::LostLocks); // No is always safe.
        }
        let Stage::Preparing(Round { asks, .. }) = participant.stage else {
            unreachable!("only a preparing one votes")
        };
        if asks != Asks::Decision && !self.table.hold_ends(&participant.held, attempt) {
            return; // It is refused with all who hold that record, before anything else.
        }
        if let Asks::Place(suggested) = asks {
            return self.vote_in_place(now, attempt, suggested);
        }
        if !self.may_vote_unstamped() && !is_planted(Bug::UnstampedVotesBeside) {
            self.ask_clocks(now, false);
            return self.refuse(now, attempt, Refusal::Unstamped); // Meanwhile somebody was ordered.
        }
        let participant = self.participant(attempt);
        let stage = std::mem::replace(&mut participant.stage, Stage::Open);
        let Stage::Preparing(round) = stage else { unreachable!("only a preparing one votes") };
        if asks == Asks::Decision {
            // It is over here, and needs them no more.
            let replies = participant.take_replies(round.replies_before);
            let members = round.members;
            let decided = Decided::Applied { replies: Some(replies.clone()), at: None, is_unheard: false };
            let others = round.chained.map(|_| round.participants.clone());
            let listed = Some(round.participants);
            self.begin_note_of_commit();
            self.finish(now, attempt, Fate::Apply(&members), decided, listed);
            self.note_commit(attempt);
            self.tell_listed(attempt, others.as_deref().unwrap_or_default(), Status::Applied);
            return self.respond(attempt, Response::Committed { attempt, replies });
        }
        let replies = participant.replies[round.replies_before..].to_vec();
        let chained = round.chained;
        participant.stage = Stage::Prepared { round, place: None, answers: SmallVec::new(), asked_us: 0 };
        self.note_vote(attempt);
        self.tell_vote(attempt);
        self.pass_baton(attempt, chained);
        self.lead(now, attempt, chained);
        // In a chain the client hears of a vote only where it would not do without (K5).
        if chained.is_none_or(|chained| chained.said_waits || !replies.is_empty()) {
            self.respond(attempt, Response::Voted { attempt, shard: self.id, replies });
        }
    }

    // --- small things ---

    fn participant(&mut self, attempt: AttemptId) -> &mut Participant {
        self.attempts.get_mut(&attempt).expect("the attempt is here")
    }

    fn decided(&self, attempt: AttemptId) -> Option<&Decided> {
        let history = self.sessions.get(&attempt.tx.session)?;
        history.end_of((attempt.tx.sequence, attempt.attempt))
    }

    fn is_below_low_water(&self, attempt: AttemptId) -> bool {
        let history = self.sessions.get(&attempt.tx.session);
        history.is_some_and(|history| attempt.tx.sequence < history.low_water)
    }

    fn respond(&mut self, attempt: AttemptId, response: Response) {
        self.outputs.push_back(Output::Respond { session: attempt.tx.session, response });
    }

    /// Checks the state machine. Called after every simulated step.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        self.table.check_invariants();
        assert!(self.going_on.is_empty(), "somebody was not let go on");
        // In any order: all must hold.
        for (attempt, participant) in &self.attempts {
            assert!(
                !participant.is_prepared() || participant.blocked.is_empty(),
                "{attempt} voted and still waits"
            );
            assert!(
                participant.behind.len() == 0
                    || participant.is_deposited()
                    || !participant.blocked.is_empty()
                    || participant.turn.is_some(),
                "{attempt} waits for nothing and goes on no further"
            );
            assert!(
                participant.blocked.values().all(|it| !it.is_put_off()) || participant.turn.is_some(),
                "{attempt} is put off for ever"
            );
            let its_turn = participant.turn.map(|turn| self.put_off.get(&turn));
            assert!(its_turn.is_none_or(|it| it == Some(attempt)), "{attempt} has a turn that never comes");
            assert!(self.decided(*attempt).is_none(), "{attempt} is decided and still here");
            if let Some(deadline) = participant.deadline {
                self.deadlines.check(&(deadline, *attempt));
            }
        }
        let mut stamped = 0;
        // In any order: a count.
        for participant in &self.attempts {
            stamped += usize::from(participant.1.is_stamped());
        }
        assert_eq!(self.stamped, stamped, "who has voted with a timestamp");
        self.deadlines.check_all(runs(&self.attempts));
        for (turn, attempt) in &self.put_off {
            let has = self.attempts.get(attempt).is_some_and(|participant| participant.turn == Some(*turn));
            assert!(has, "{attempt} is gone, or has another turn");
        }
        let (mut kept, mut counted) = (self.sessions.values().map(History::bytes).sum::<usize>(), 0);
        // In any order: a sum.
        for participant in &self.attempts {
            kept += participant.1.bytes;
        }
        // In any order: a sum.
        for account in &self.accounts {
            counted += account.1;
        }
        assert_eq!((self.kept, self.kept), (kept, counted), "what is kept does not add up");
        for history in self.sessions.values() {
            history.check();
        }
        self.check_batons();
    }
}
