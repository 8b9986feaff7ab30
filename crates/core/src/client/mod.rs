//! A client process: all its transactions on all shards, and its connections to them, as one state machine
//! (`docs/protocol.md`, P39 to P46).
//!
//! Sans I/O, like the shard. Inputs are the application's calls, what connections bring, what the topology says, and
//! the time; [`Client::settle`] then computes what follows. Outputs are requests in frames ([`Client::take`], which a
//! connection calls when it may write; [`Client::poll_ready`] says which one should), events for users
//! ([`Client::poll_event`]), the next time to wake ([`Client::poll_timeout`]), and whether the topology is in doubt
//! ([`Client::take_doubt`]).
//!
//! Where a shard can be called directly there are no connections: [`Client::direct`] hands out each request by itself
//! ([`Client::poll_send`]).
//!
//! | file | what |
//! |---|---|
//! | `transactions` | all transactions: who keeps them, the table or a way |
//! | `table` | the table: a coordinator for each transaction, used again and again |
//! | `entry` | a transaction in the table |
//! | `keeper` | what the table and such a way have in common |
//! | `ways` | the ways that can have them all; looks (`check_only`), the shards' clocks (`ordered`), those that leave together (`batch`) |
//! | `process` | what all transactions share: numbers, what is hot, what is known of shards |
//! | `session` | numbers of transactions, and which are open |
//! | `unresolved` | what can be asked about those whose outcome nobody knows |
//! | `by_sequence` | a table by the numbers of transactions |
//! | `behind` | whom a transaction waits for, if its caller asks |
//! | `frames` | of one connection: what waits for a shard, and when a frame leaves; what was written, is answered in order, or refused as a whole |
//! | `pacing` | when frames and heartbeats leave |
//! | `routes` | which shard serves which slot; removed shards |
//! | `timers` | when transactions are due |

mod behind;
mod by_sequence;
mod entry;
mod frames;
mod keeper;
mod pacing;
mod process;
mod routes;
mod session;
mod table;
mod timers;
mod transactions;
mod unresolved;
mod ways;

use std::collections::{BTreeSet, VecDeque};

use claret_types::{Bytes, Claims, Operation};
use smallvec::SmallVec;

use crate::asked::Asked;
use crate::coordinator::{Closed, Event, Waits};
use crate::ids::{AttemptId, CallNo, Incarnation, Sequence, SessionId, ShardId, Time, TxHandle};
use crate::limits::Limits;
use crate::message::{KeyedCall, Refusal, Request, Response};
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;

use behind::Asking;
use frames::Outbox;
pub use frames::{Pipeline, Unexpected};
use keeper::When;
pub use pacing::Pacing;
use routes::Routes;
pub use routes::{Node, SlotRange};
pub use session::Session;
use transactions::Transactions;
use ways::check_only::Looks;
use ways::ordered::{Stamps, Ticked};

/// For each shard so many transactions that are over are worth a heartbeat: with many shards each has a part of them in few.
const OVER_WORTH_OF_A_SHARD: u64 = 128;

/// For each live one, which a heartbeat to each shard lists, so many.
const OVER_WORTH_OF_A_LIVE_ONE: u64 = 2;

/// A lease has room for so many heartbeats.
const HEARTBEATS_OF_A_LEASE: u64 = 3;

/// The shortest time between two heartbeats, in microseconds.
const HEARTBEAT_US_MIN: u64 = 1_000;

/// A client process: all its transactions on all shards, and its connections to them, as one state machine. Calls, responses
/// and the time go in; [`Client::settle`] computes what follows; requests, events and the time of the next timer are
/// drained.
#[derive(Clone, Debug)]
pub struct Client {
    transactions: Transactions,
    outputs: Outputs,
    routes: Routes,
    /// Transactions under way since before some slot went to another shard.
    moved_under: BTreeSet<TxHandle>,
    resend_us: u64,
    /// The shortest lease that any shard gave, in microseconds.
    lease_us: u64,
    heartbeat_at: Option<Time>,
    /// From which low-water mark on all shards are told of it.
    next_low_water: Sequence,
    lock_waits: u64,
    doubts_topology: bool,
    stamps: Stamps,
    /// Those whose callers asked whom they wait for. Few: their deadlines have passed.
    asking: Vec<Asking>,
    looks: Looks,
}

/// What transactions want sent and told, on its way out.
#[derive(Clone, Debug)]
struct Outputs {
    pacing: Pacing,
    /// One for each shard: few.
    outboxes: Vec<Outbox>,
    /// Where shards are a call away: what to send, in the order in which it was sent.
    direct: Option<VecDeque<(ShardId, Request)>>,
    events: VecDeque<(TxHandle, Event)>,
    /// Connections that have something to take, and wanted to hear.
    ready: SmallVec<[u32; 8]>,
    now: Time,
    /// What removed shards answered.
    echoes: Vec<(ShardId, Response)>,
    /// What is sent now was sent before: of no use where the first copy is still on its way. So long ago that was.
    repeats_after: Option<u64>,
}

impl Outputs {
    fn outbox(&mut self, shard: ShardId) -> Option<&mut Outbox> {
        self.outboxes.iter_mut().find(|outbox| outbox.shard == shard)
    }
}

impl Outputs {
    /// A look, which belongs to no transaction. Where there is no connection it is lost, and comes again.
    fn send_look(&mut self, to: ShardId, request: Request) {
        let is_there = self.outbox(to).is_some_and(|outbox| !outbox.is_removed);
        if is_there || self.direct.is_some() {
            self.send(to, request);
        }
    }
}

impl Outputs {
    fn send(&mut self, to: ShardId, request: Request) {
        if let Some(direct) = &mut self.direct {
            direct.push_back((to, request));
            return;
        }
        // Not by `outbox`, which would borrow all of it.
        let Some(outbox) = self.outboxes.iter_mut().find(|outbox| outbox.shard == to) else { return };
        if outbox.is_removed {
            let answer = request.answer_of_removed(to, outbox.incarnation);
            let answer = answer.filter(|_| !is_planted(Bug::RemovedUnanswered));
            self.echoes.extend(answer.map(|response| (to, response)));
            return;
        }
        let on_its_way = |after| outbox.oldest().is_some_and(|since| self.now.since(since) >= after);
        if self.repeats_after.is_some_and(on_its_way) {
            return;
        }
        outbox.put(self.now, request);
        if let Some(connection) = outbox.tell_once(&self.pacing) {
            self.ready.push(connection);
        }
    }

    fn tell(&mut self, tx: TxHandle, event: Event) {
        self.events.push_back((tx, event));
    }
}

impl Client {
    /// One that speaks to shards over connections, without any yet. `slots`: how many the keys are in.
    pub fn new(session: SessionId, switches: Switches, limits: Limits, slots: usize, pacing: Pacing) -> Self {
        Self::over(session, switches, limits, Routes::new(slots), pacing)
    }

    /// One whose host calls shards: each slot is the shard of that number.
    pub fn direct(session: SessionId, switches: Switches, limits: Limits, shards: u32) -> Self {
        let mut client = Self::over(session, switches, limits, Routes::fixed(shards), Pacing::default());
        client.outputs.direct = Some(VecDeque::new());
        client
    }

    fn over(session: SessionId, switches: Switches, limits: Limits, routes: Routes, pacing: Pacing) -> Self {
        let outputs = Outputs {
            pacing,
            outboxes: Vec::new(),
            direct: None,
            events: VecDeque::new(),
            ready: SmallVec::new(),
            now: Time(0),
            echoes: Vec::new(),
            repeats_after: None,
        };
        Client {
            transactions: Transactions::new(session, switches, limits),
            outputs,
            routes,
            moved_under: BTreeSet::new(),
            resend_us: limits.resend_us,
            lease_us: limits.lease_us,
            heartbeat_at: None,
            next_low_water: Sequence(pacing.over_worth),
            lock_waits: 0,
            doubts_topology: false,
            stamps: Stamps::new(switches, limits.resend_us),
            asking: Vec::new(),
            looks: Looks::new(&limits),
        }
    }
}

/// Getters.
impl Client {
    /// Under which attempt a transaction speaks to the shards now. `None`: it is over, or between two attempts.
    pub fn attempt(&self, tx: TxHandle) -> Option<AttemptId> {
        self.transactions.keeper().attempt(tx)
    }

    /// What can be asked about a transaction that is committing and is going to be [given up](Self::abandon), or that ended
    /// with [`Event::Unknown`]. From now on shards remember its outcome for [`Limits::outcome_us`], that of the 256 latest of
    /// a process. `None`: nothing of it was to be committed.
    pub fn asked(&mut self, now: Time, tx: TxHandle) -> Option<Asked> {
        self.transactions.asked(now, tx)
    }

    /// Whether calls of a transaction are unanswered: it must not commit before.
    pub fn awaits_answers(&self, tx: TxHandle) -> bool {
        self.transactions.keeper().awaits_answers(tx)
    }

    /// Attempts of which some shard may still hold something. O(transactions).
    pub fn live(&self) -> Vec<AttemptId> {
        self.transactions.keeper().live()
    }

    /// No earlier transaction is open anywhere.
    pub fn low_water(&self) -> Sequence {
        self.transactions.process().low_water()
    }

    /// Whether every shard knows the end of every transaction.
    pub fn is_over(&self) -> bool {
        self.transactions.keeper().is_over()
    }

    /// Answers that transactions shared (combining).
    pub fn combined(&self) -> u64 {
        self.transactions.process().shared_answers()
    }

    /// Requests that had to wait for a lock.
    pub fn lock_waits(&self) -> u64 {
        self.lock_waits
    }

    /// The shard of a slot, as far as is known.
    pub fn shard_of(&self, slot: u16) -> ShardId {
        self.routes.shard_of(slot)
    }

    /// Which shard a node said it is.
    pub fn shard_at(&self, node: &str) -> Option<ShardId> {
        self.routes.shard_at(node)
    }

    /// Whether an operation of another transaction may wait for this one: see
    /// [`Coordinator::conflicts_with`](crate::Coordinator::conflicts_with).
    pub fn conflicts_with(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        self.transactions.keeper().conflicts_with(tx, key, op)
    }

    /// What a transaction waits for: see [`Coordinator::waits`](crate::Coordinator::waits).
    pub fn waits(&self, tx: TxHandle) -> Option<Waits> {
        self.transactions.keeper().waits(tx)
    }
}

/// The application's calls.
impl Client {
    /// Begins a transaction. `seed` is any number, for the jitter of pauses.
    pub fn begin(&mut self, now: Time, seed: u64) -> TxHandle {
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.begin(process, now, seed)
    }

    /// An operation of an attempt whose answer is wanted now: [`Event::Answer`] follows. See
    /// [`Coordinator::execute`](crate::Coordinator::execute).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or ends by this very call: an event tells of that.
    pub fn execute(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        (slot, key): (u16, Bytes),
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        let shard = self.place(tx.0, slot, &key);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.call(process, now, tx, (shard, key), op, When::Now(reserve))
    }

    /// The shard of a call. All calls of an attempt on one record go to one shard, though its slot has gone to another one
    /// since: there they would be carried out without the earlier ones (P44).
    #[inline]
    fn place(&self, tx: TxHandle, slot: u16, key: &Bytes) -> ShardId {
        let shard = self.routes.shard_of(slot);
        if self.moved_under.is_empty() || !self.moved_under.contains(&tx) {
            return shard;
        }
        self.transactions.keeper().shard_of(tx, key).unwrap_or(shard)
    }

    /// Keeps an operation of an attempt until the commit, or until its record is executed on.
    ///
    /// # Errors
    /// As of [`Self::execute`].
    #[inline]
    pub fn buffer(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        (slot, key): (u16, Bytes),
        op: Operation,
    ) -> Result<CallNo, Closed> {
        let shard = self.place(tx.0, slot, &key);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.call(process, now, tx, (shard, key), op, When::AtCommit)
    }

    /// [`Self::buffer`] of calls that come together, in their order.
    ///
    /// # Errors
    /// As of [`Self::execute`].
    pub fn buffer_all(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        mut calls: impl Iterator<Item = ((u16, Bytes), Operation)>,
    ) -> Result<(), Closed> {
        if !self.moved_under.is_empty() {
            return calls.try_for_each(|(place, op)| self.buffer(now, tx, place, op).map(drop));
        }
        let routes = &self.routes;
        let mut placed = calls.map(|((slot, key), op)| (routes.shard_of(slot), key, op));
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.buffer_all(process, now, tx, &mut placed)
    }

    /// The attempt is to commit: one of the last [events](Event) follows, or [`Event::Restart`].
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or calls of it are not answered: then it is aborted.
    pub fn commit(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        self.suggest(now);
        match self.transactions.table.may_gather(now, tx) {
            Some(shards) if self.outputs.gather(&shards, self.may_leave()) => {
                self.transactions.table.gather(tx.0);
                Ok(())
            }
            _ => {
                let (keeper, process) = self.transactions.keeper_mut();
                keeper.commit(process, now, tx)
            }
        }
    }

    /// Ends the transaction without a trace, if that is still possible: [`Event::Aborted`] or [`Event::Committed`]
    /// follows.
    pub fn abort(&mut self, now: Time, tx: TxHandle) {
        self.asking.retain(|asking| asking.tx != tx);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.abort(process, now, tx);
    }

    /// The transaction's user has left, and hears nothing more: as [`Self::abort`].
    pub fn abandon(&mut self, now: Time, tx: TxHandle) {
        self.asking.retain(|asking| asking.tx != tx);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.abandon(process, now, tx);
    }

    /// Begins the attempt after this one, which ended in [`Event::Restart`].
    ///
    /// # Errors
    /// [`Closed`] when the user was not told so of that attempt, or the next one runs already.
    pub fn restart(&mut self, now: Time, ended: (TxHandle, u32)) -> Result<(), Closed> {
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.restart(process, now, ended)
    }

    /// Takes the calls of an attempt that has sent nothing: the host carries them out by itself. `None`: it has.
    pub fn take_buffered(&mut self, tx: (TxHandle, u32)) -> Option<Vec<(ShardId, KeyedCall)>> {
        self.transactions.take_buffered(tx)
    }

    /// The host could not: gives the calls back.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run.
    pub fn put_back(&mut self, tx: (TxHandle, u32), calls: Vec<(ShardId, KeyedCall)>) -> Result<(), Closed> {
        self.transactions.put_back(tx, calls)
    }

    /// The host carried out all of the attempt: it is committed, without an event.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run.
    pub fn close_instantly(&mut self, tx: (TxHandle, u32)) -> Result<(), Closed> {
        self.transactions.close_instantly(tx)
    }
}

/// The cluster.
impl Client {
    /// The topology is known anew.
    pub fn adopt(&mut self, now: Time, topology: Vec<SlotRange>) {
        self.disband();
        if self.routes.adopt(topology) {
            self.note_moves();
        }
        self.answer_for_removed(now);
    }

    /// A node left the cluster, or became a replica, and answers no more: what its shard had in memory is lost (P56).
    pub fn part_with(&mut self, now: Time, node: &str) {
        self.disband();
        self.routes.part_with(node);
        self.answer_for_removed(now);
    }

    /// Slots went to other shards.
    fn note_moves(&mut self) {
        // Each transaction under way keeps a record's calls at one shard (P44).
        if !is_planted(Bug::CallsOfOneRecordPart) {
            self.moved_under = self.transactions.keeper().handles();
        }
    }

    /// From now on the client itself answers for removed shards.
    fn answer_for_removed(&mut self, now: Time) {
        for shard in self.routes.take_removed() {
            let Some(outbox) = self.outputs.outbox(shard) else { continue };
            outbox.clear();
            outbox.connection = None;
            outbox.is_removed = true;
            // One that nobody ever relied on (P56).
            outbox.incarnation.0 += u64::from(!is_planted(Bug::RemovedKeepsIncarnation));
            let incarnation = outbox.incarnation;
            self.meet(now, shard, incarnation);
        }
    }
}

/// Connections.
impl Client {
    /// Where shards are a call away: one began, or began anew, as this incarnation.
    pub fn meet(&mut self, now: Time, shard: ShardId, incarnation: Incarnation) {
        let (keeper, process) = self.transactions.keeper_mut();
        process.meet(shard, incarnation);
        keeper.meet(process, now, shard, incarnation);
    }

    /// A connection serves a shard from now on: its node said which one it is, its incarnation, and how long its lease
    /// is. It begins with a heartbeat: what the shard had over an earlier connection and is not in it is over (trap 19).
    pub fn connected(
        &mut self,
        now: Time,
        connection: u32,
        node: &Node,
        (shard, incarnation): (ShardId, Incarnation),
        lease_us: u64,
    ) {
        self.disband();
        let outputs = &mut self.outputs;
        let at = outputs.outboxes.iter().position(|outbox| outbox.shard == shard).unwrap_or_else(|| {
            outputs.outboxes.push(Outbox::new(shard));
            outputs.outboxes.len() - 1
        });
        let outbox = &mut outputs.outboxes[at];
        let is_older = outbox.connection.is_some_and(|newer| newer > connection);
        if is_older && !is_planted(Bug::OlderHandshakeWins) {
            return; // A handshake that took long: the shard listens to the newer one alone (P29).
        }
        outputs.ready.extend(outbox.end_connection());
        outbox.incarnation = incarnation.max(outbox.incarnation);
        outbox.connection = Some(connection);
        outbox.is_removed &= is_planted(Bug::ReturnedStaysRemoved);
        let (live, low_water) = (self.transactions.keeper().live(), self.transactions.process().low_water());
        outbox.put(now, Request::Heartbeat { live, low_water });
        if self.routes.name(node, shard) {
            self.note_moves();
        }
        self.answer_for_removed(now);
        if !is_planted(Bug::NotMet) {
            self.meet(now, shard, incarnation);
        }
        self.looks.ask_again(now);
        if lease_us < self.lease_us {
            (self.lease_us, self.heartbeat_at) = (lease_us, Some(now));
        }
        self.heartbeat_at.get_or_insert(now.plus(self.heartbeat_us()));
    }

    /// The connection is closed: what it did not take, and what it took and has no answer, may be lost.
    pub fn disconnected(&mut self, shard: ShardId, connection: u32) {
        self.disband();
        if let Some(outbox) = self.outbox(shard, connection) {
            outbox.end_connection();
        }
    }

    fn outbox(&mut self, shard: ShardId, connection: u32) -> Option<&mut Outbox> {
        self.outputs.outbox(shard).filter(|outbox| outbox.connection == Some(connection))
    }

    /// A connection may write: moves what is to leave now into `requests`, which is empty, as one frame. Where there is
    /// nothing, [`Self::poll_ready`] names the connection when there is. Returns whether the connection has nothing more
    /// to do: the client closes, or the connection is not the one that serves the shard.
    pub fn take(&mut self, shard: ShardId, connection: u32, requests: &mut Vec<Request>) -> bool {
        let pacing = self.outputs.pacing;
        let Some(outbox) = self.outbox(shard, connection) else { return true };
        if outbox.is_to_leave(&pacing) && self.may_leave() {
            self.leave();
        }
        let Some(outbox) = self.outbox(shard, connection) else { return true };
        outbox.take(&pacing, requests);
        let is_over = requests.is_empty() && outbox.is_closing && outbox.is_quiet();
        if self.stamps.listen() && !requests.is_empty() {
            requests.retain(|request| !matches!(request, Request::Tick { .. }));
            requests.push(Request::Tick { want: self.stamps.want });
        }
        is_over
    }

    /// Whether decisions alone may leave for a shard now. They free locks, and nobody waits for an answer.
    pub fn has_only_decisions(&mut self, shard: ShardId, connection: u32) -> bool {
        let pacing = self.outputs.pacing;
        self.outbox(shard, connection).is_some_and(|outbox| outbox.has_only_decisions(&pacing))
    }

    /// What was taken became more than one frame.
    pub fn add_frames(&mut self, now: Time, shard: ShardId, connection: u32, more: usize) {
        if let Some(outbox) = self.outbox(shard, connection) {
            outbox.add_frames(now, more);
        }
    }

    /// A connection brought the answers to so many frames, and these responses, with what the shard had to say besides.
    /// The connection takes again afterwards: there may be room for a frame.
    pub fn deliver(
        &mut self,
        now: Time,
        (shard, connection): (ShardId, u32),
        frames: usize,
        responses: impl Iterator<Item = Response>,
    ) {
        let Some(outbox) = self.outbox(shard, connection) else { return };
        outbox.answered(frames);
        for response in responses {
            self.handle_response(now, shard, response);
        }
        if self.transactions.process().low_water() >= self.next_low_water {
            self.heartbeat(now);
        }
    }

    /// Takes one response of a shard that is a call away.
    pub fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        match &response {
            Response::Behind { attempt, records } => return self.tell_behind(*attempt, records),
            Response::Looked { look, .. } => {
                let look = *look;
                let Response::Looked { seen, .. } = response else { return };
                return self.looked(now, from, look, seen);
            }
            Response::Queued { .. } | Response::Busy { .. } => self.lock_waits += 1,
            Response::Refused { refusal, .. } if is_about_places(refusal) => self.doubts_topology = true,
            Response::Ticked { clock, now: its_time, passed, orders, owners } => {
                let (clock, passed, orders, owners) = (*clock, *passed, *orders, *owners);
                self.stamps.hear(now, from, Ticked { clock, now: *its_time, passed, orders, owners });
                return self.hear_safe_time(now, owners);
            }
            Response::Refused { refusal: Refusal::Unstamped, .. } => self.stamps.begin(now, from),
            Response::Voted { .. } | Response::Committed { .. } => self.stamps.note_taken(from),
            // Its caller waits for a clock, though nothing of it had a timestamp.
            Response::Refused { refusal: Refusal::OperationBehind { .. }, .. } => {
                self.stamps.were_needed = true;
            }
            _ => {}
        }
        self.suggest(now);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.handle_response(process, now, from, response);
        if let Some(lifted) = process.contention().take_lifted() {
            self.stamps.learn(lifted);
        }
    }

    /// Since when the shard owes an answer over a connection.
    pub fn owes_since(&mut self, shard: ShardId, connection: u32) -> Option<Time> {
        self.outbox(shard, connection)?.owes_since()
    }

    /// Frames that a shard has not answered over a connection. `None`: it does not serve the shard.
    pub fn in_flight(&mut self, shard: ShardId, connection: u32) -> Option<usize> {
        Some(self.outbox(shard, connection)?.in_flight())
    }

    /// The node that something waits for the longest time, and since when.
    pub fn slowest(&self) -> Option<(Node, Time)> {
        let oldest = |shard: ShardId| self.outputs.outboxes.iter().find(|it| it.shard == shard)?.oldest();
        let waiting = self.routes.shards().iter();
        let waiting = waiting.filter_map(|(node, shard)| Some((Node::clone(node), oldest(*shard)?)));
        waiting.min_by_key(|(_, since)| *since)
    }
}

/// Time.
impl Client {
    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let own = [self.heartbeat_at, self.asks_at(), self.released_at(), self.looks.poll_timeout()];
        own.into_iter().chain([self.transactions.keeper().poll_timeout()]).flatten().min()
    }

    /// Does what is due. What is sent again for its sake is not, where the first copy is still on its way.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.asks_at().into_iter().chain(self.released_at()).any(|at| at <= now) {
            self.settle(now);
        }
        if self.heartbeat_at.is_some_and(|at| at <= now) {
            self.heartbeat(now);
        }
        self.ask_looks(now);
        if self.transactions.keeper().poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        // What was to be sent before is no repetition.
        self.settle(now);
        self.outputs.repeats_after = Some(self.resend_us);
        self.suggest(now);
        let (keeper, process) = self.transactions.keeper_mut();
        process.release(now);
        keeper.handle_timeout(process, now);
        self.settle(now);
        // What is sent from now on was not sent before (P42).
        if !is_planted(Bug::AllIsRepetition) {
            self.outputs.repeats_after = None;
        }
    }

    fn heartbeat_us(&self) -> u64 {
        (self.lease_us / HEARTBEATS_OF_A_LEASE).max(HEARTBEAT_US_MIN)
    }

    /// Tells all shards that the process lives, and what is over (P28).
    fn heartbeat(&mut self, now: Time) {
        self.outputs.now = now;
        self.heartbeat_at = Some(now.plus(self.heartbeat_us()));
        let (live, low_water) = (self.transactions.keeper().live(), self.transactions.process().low_water());
        let shards: SmallVec<[ShardId; 8]> = self.routes.shards().iter().map(|(_, shard)| *shard).collect();
        let each = OVER_WORTH_OF_A_SHARD.max(OVER_WORTH_OF_A_LIVE_ONE * live.len() as u64);
        let worth = self.outputs.pacing.over_worth.max(each * shards.len() as u64);
        self.next_low_water = Sequence(low_water.0.saturating_add(worth));
        for shard in shards {
            self.outputs.send(shard, Request::Heartbeat { live: live.clone(), low_water });
        }
    }

    /// The process ends: tells all shards that nothing of it lives, and lets their connections close behind that.
    pub fn close(&mut self, now: Time) {
        let low_water = self.transactions.process().low_water();
        self.heartbeat_at = None;
        for outbox in &mut self.outputs.outboxes {
            outbox.close(now, Request::Heartbeat { live: Vec::new(), low_water });
            self.outputs.ready.extend(outbox.tell_once(&self.outputs.pacing));
        }
    }
}

/// Outputs.
impl Client {
    /// Brings about what follows from what went in since the last time: to be called after one input, or several.
    pub fn settle(&mut self, now: Time) {
        self.outputs.now = now;
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.drain(process, now, &mut self.outputs);
        while !self.outputs.echoes.is_empty() {
            for (shard, response) in std::mem::take(&mut self.outputs.echoes) {
                keeper.handle_response(process, now, shard, response);
            }
            keeper.drain(process, now, &mut self.outputs);
        }
        if self.transactions.table.batches.has_gathered() && self.may_leave() {
            self.outputs.tell_of_gathered();
        }
        if self.stamps.were_needed {
            self.tick();
        }
    }
}

/// What comes out.
impl Client {
    /// The next event, and whose. After the [last](Event::is_last) one of a transaction nothing of it is told.
    pub fn poll_event(&mut self) -> Option<(TxHandle, Event)> {
        let Some((tx, event)) = self.outputs.events.pop_front() else { return self.poll_behind() };
        // The next attempt places its calls anew.
        if !self.moved_under.is_empty() && !matches!(event, Event::Answer { .. }) {
            self.moved_under.remove(&tx);
        }
        if !self.asking.is_empty() && event.is_last() {
            self.asking.retain(|asking| asking.tx != tx);
        }
        Some((tx, event))
    }

    /// A connection that has something to take, and did not when it tried.
    pub fn poll_ready(&mut self) -> Option<u32> {
        self.outputs.ready.pop()
    }

    /// Where shards are a call away: the next request.
    pub fn poll_send(&mut self) -> Option<(ShardId, Request)> {
        self.outputs.direct.as_mut()?.pop_front()
    }

    /// Whether some shard said since the last time what gives a reason to ask for the topology.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubts_topology)
    }

    /// Checks the state machine. Called after every simulated step.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        self.transactions.check_invariants();
        self.looks.check_invariants();
        self.outputs.outboxes.iter().for_each(Outbox::check_invariants);
        assert!(self.outputs.repeats_after.is_none(), "what is sent is no repetition");
    }
}

/// Whether a refusal may come of this client's idea of which shard serves what.
fn is_about_places(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Elsewhere { .. }
            | Refusal::LostLocks
            | Refusal::LeaseExpired
            | Refusal::ReadOnly
            | Refusal::Unlisted
            | Refusal::Stale
    )
}

#[cfg(test)]
mod tests;
