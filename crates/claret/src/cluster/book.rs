//! All transactions of the process, as state machines: a coordinator for each, or one frontend that combines them.
//!
//! A transaction stays here until every shard knows the end of it, which is longer than its user is interested: one
//! that was dropped in mid-commit has its answers still to come (R14).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use claret_core::message::{Request, Response};
use claret_core::{
    AttemptId, CallNo, Coordinator, Event, Frontend, Heat, Incarnation, Limits, Sequence, Session, SessionId,
    ShardId, Switches, Time, TxHandle,
};
use claret_types::{Bytes, Claims, Operation};
use hashbrown::HashMap;

/// Seats that are kept for transactions to come, at most.
const SPARE_MAX: usize = 256;

/// What comes of it: requests to send, and events for users.
pub(super) trait Outlet {
    fn send(&mut self, to: ShardId, request: Request);
    fn tell(&mut self, tx: TxHandle, event: Event);
}

/// See the module's text.
#[derive(Debug)]
pub(super) enum Book {
    Own(Box<Own>),
    Shared(Box<Frontend>),
}

/// A coordinator for each transaction; its handle is its sequence.
#[derive(Debug)]
pub(super) struct Own {
    session: Session,
    switches: Switches,
    limits: Limits,
    met: Vec<(ShardId, Incarnation)>,
    heat: Heat,
    /// Of transactions that are over: room for others.
    #[expect(clippy::vec_box, reason = "a seat stays where it is, it is large")]
    spare: Vec<Box<Seat>>,
    seats: HashMap<u64, Box<Seat>, foldhash::fast::FixedState>,
    /// Those that may have something to say.
    stirred: Vec<u64>,
    /// When each is due, and entries of earlier promises: an entry counts if its seat names it.
    alarms: Alarms,
}

/// Times in their order. Most are as long after they were set as all others, so that they come in order: those wait
/// in a queue, and the rest in a heap.
#[derive(Debug, Default)]
struct Alarms {
    queue: VecDeque<(Time, u64)>,
    heap: BinaryHeap<Reverse<(Time, u64)>>,
}

impl Alarms {
    fn push(&mut self, due: Time, tx: u64) {
        match self.queue.back().is_none_or(|last| *last <= (due, tx)) {
            true => self.queue.push_back((due, tx)),
            false => self.heap.push(Reverse((due, tx))),
        }
    }

    /// The first.
    fn peek(&self) -> Option<(Time, u64)> {
        match (self.queue.front(), self.heap.peek()) {
            (Some(queued), Some(Reverse(other))) => Some(*queued.min(other)),
            (Some(first), None) | (None, Some(Reverse(first))) => Some(*first),
            (None, None) => None,
        }
    }

    /// Takes the first, if it is due.
    fn pop(&mut self, now: Time) -> Option<(Time, u64)> {
        let first = self.peek().filter(|(due, _)| *due <= now)?;
        match self.queue.front() == Some(&first) {
            true => self.queue.pop_front(),
            false => self.heap.pop().map(|Reverse(first)| first),
        }
    }
}

#[derive(Debug)]
struct Seat {
    coordinator: Coordinator,
    /// Its user knows the end, or is gone.
    ended: bool,
    stirred: bool,
    alarm: Option<Time>,
}

impl Book {
    pub(super) fn new(id: SessionId, switches: Switches, limits: Limits) -> Self {
        let session = Session::new(id);
        if switches.combining {
            return Book::Shared(Box::new(Frontend::new(session, switches, limits)));
        }
        Book::Own(Box::new(Own {
            session,
            switches,
            limits,
            met: Vec::new(),
            heat: Heat::new(switches, limits),
            spare: Vec::new(),
            seats: HashMap::default(),
            stirred: Vec::new(),
            alarms: Alarms::default(),
        }))
    }

    // --- getters ---

    pub(super) fn live(&self) -> Vec<AttemptId> {
        match self {
            Book::Own(own) => own.live(),
            Book::Shared(frontend) => frontend.live().collect(),
        }
    }

    pub(super) fn floor(&self) -> Sequence {
        match self {
            Book::Own(own) => own.session.floor(),
            Book::Shared(frontend) => frontend.floor(),
        }
    }

    /// Whether every shard knows the end of every transaction.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Book::Own(own) => own.seats.is_empty(),
            Book::Shared(frontend) => frontend.is_over(),
        }
    }

    pub(super) fn combined(&self) -> u64 {
        match self {
            Book::Own(_) => 0,
            Book::Shared(frontend) => frontend.stats().combined,
        }
    }

    pub(super) fn check_invariants(&self) {
        match self {
            Book::Own(_) => {}
            Book::Shared(frontend) => frontend.check_invariants(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self {
            Book::Own(own) => own.alarms.peek().map(|(due, _)| due),
            Book::Shared(frontend) => frontend.poll_timeout(),
        }
    }

    // --- the application's calls ---

    pub(super) fn begin(&mut self, now: Time) -> TxHandle {
        match self {
            Book::Own(own) => own.begin(now),
            Book::Shared(frontend) => frontend.begin(now, now.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
    }

    pub(super) fn execute(
        &mut self,
        now: Time,
        tx: TxHandle,
        place: (ShardId, Bytes),
        op: Operation,
        reserve: Option<Claims>,
    ) -> CallNo {
        let (shard, key) = place;
        match self {
            Book::Own(own) => own.stir(tx).execute(now, shard, key, op, reserve),
            Book::Shared(frontend) => frontend.execute(now, tx, shard, key, op, reserve),
        }
    }

    pub(super) fn buffer(
        &mut self,
        now: Time,
        tx: TxHandle,
        calls: impl Iterator<Item = (ShardId, Bytes, Operation)>,
    ) {
        match self {
            Book::Own(own) => {
                // It has nothing to say before something is executed, or the commit.
                let coordinator = &mut own.seat(tx).coordinator;
                for (shard, key, op) in calls {
                    coordinator.buffer(shard, key, op);
                }
            }
            Book::Shared(frontend) => {
                for (shard, key, op) in calls {
                    frontend.buffer(now, tx, shard, key, op);
                }
            }
        }
    }

    pub(super) fn commit(&mut self, now: Time, tx: TxHandle) {
        match self {
            Book::Own(own) => own.commit(now, tx),
            Book::Shared(frontend) => frontend.commit(now, tx),
        }
    }

    pub(super) fn abort(&mut self, now: Time, tx: TxHandle) {
        match self {
            Book::Own(own) => own.stir(tx).abort(now),
            Book::Shared(frontend) => frontend.abort(now, tx),
        }
    }

    /// The user is gone: gives the transaction up if it was not over.
    pub(super) fn leave(&mut self, now: Time, tx: TxHandle) {
        match self {
            Book::Own(own) => own.leave(now, tx),
            Book::Shared(frontend) => frontend.abort(now, tx),
        }
    }

    pub(super) fn restart(&mut self, now: Time, tx: TxHandle) {
        match self {
            Book::Own(own) => {
                let met = std::mem::take(&mut own.met);
                let coordinator = own.stir(tx);
                coordinator.restart();
                met.iter().for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
                own.met = met;
            }
            Book::Shared(frontend) => frontend.restart(now, tx),
        }
    }

    // --- the shards ---

    /// A connection to a shard is new: its incarnation is known, and what was sent over an earlier one may be lost.
    pub(super) fn meet(&mut self, now: Time, shard: ShardId, incarnation: Incarnation) {
        match self {
            Book::Own(own) => own.meet(now, shard, incarnation),
            Book::Shared(frontend) => {
                frontend.meet(shard, incarnation);
                frontend.send_again(now);
            }
        }
    }

    pub(super) fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        match self {
            Book::Own(own) => own.handle_response(now, from, response),
            Book::Shared(frontend) => frontend.handle_response(now, from, response),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        match self {
            Book::Own(own) => own.handle_timeout(now),
            Book::Shared(frontend) => frontend.handle_timeout(now),
        }
    }

    /// Hands out what there is to send and to tell.
    pub(super) fn drain(&mut self, outlet: &mut impl Outlet) {
        match self {
            Book::Own(own) => own.drain(outlet),
            Book::Shared(frontend) => {
                while let Some((to, request)) = frontend.poll_send() {
                    outlet.send(to, request);
                }
                while let Some((tx, event)) = frontend.poll_event() {
                    outlet.tell(tx, event);
                }
            }
        }
    }
}

impl Own {
    /// In the order of their beginnings.
    fn live(&self) -> Vec<AttemptId> {
        let mut live: Vec<AttemptId> = self.seats.values().flat_map(|seat| seat.coordinator.live()).collect();
        live.sort_unstable_by_key(|attempt| (attempt.tx.sequence, attempt.attempt));
        live
    }

    fn begin(&mut self, now: Time) -> TxHandle {
        let birth = self.session.begin(now);
        let sequence = birth.tx.sequence.0;
        let seed = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut seat = self.spare.pop().unwrap_or_else(|| {
            let coordinator = Coordinator::new(birth, self.switches, self.limits, seed);
            Box::new(Seat { coordinator, ended: false, stirred: false, alarm: None })
        });
        seat.coordinator.renew(birth, seed, &self.met);
        self.seats.insert(sequence, seat);
        TxHandle(sequence)
    }

    fn meet(&mut self, now: Time, shard: ShardId, incarnation: Incarnation) {
        self.met.retain(|(known, _)| *known != shard);
        self.met.push((shard, incarnation));
        let mut all: Vec<u64> = self.seats.keys().copied().collect();
        all.sort_unstable();
        for tx in all {
            let coordinator = self.stir(TxHandle(tx));
            coordinator.meet(shard, incarnation);
            coordinator.send_again(now);
        }
    }

    fn commit(&mut self, now: Time, tx: TxHandle) {
        let (coordinator, heat) = self.stir_known(tx.0).expect("the transaction is not over");
        let hot = heat.arrange(coordinator);
        coordinator.commit(now, &hot);
    }

    fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        if let Some((coordinator, heat)) = self.stir_known(response.attempt().tx.sequence.0) {
            heat.learn(coordinator, from, &response);
            coordinator.handle_response(now, from, response);
        }
    }

    fn leave(&mut self, now: Time, tx: TxHandle) {
        let Some(seat) = self.seats.get_mut(&tx.0) else { return };
        if !seat.ended {
            seat.ended = true;
            self.stir(tx).abort(now);
        }
    }

    fn seat(&mut self, tx: TxHandle) -> &mut Seat {
        self.seats.get_mut(&tx.0).expect("the transaction is not over")
    }

    fn stir(&mut self, tx: TxHandle) -> &mut Coordinator {
        self.stir_known(tx.0).expect("the transaction is not over").0
    }

    /// `None`: it is over.
    fn stir_known(&mut self, tx: u64) -> Option<(&mut Coordinator, &mut Heat)> {
        let seat = self.seats.get_mut(&tx)?;
        if !std::mem::replace(&mut seat.stirred, true) {
            self.stirred.push(tx);
        }
        Some((&mut seat.coordinator, &mut self.heat))
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some((due, tx)) = self.alarms.pop(now) {
            let Some(seat) = self.seats.get_mut(&tx).filter(|seat| seat.alarm == Some(due)) else { continue };
            seat.alarm = None;
            // What is due later than was promised is promised anew when it is drained.
            self.stir(TxHandle(tx)).handle_timeout(now);
        }
    }

    /// Keeps the room of a transaction that is over.
    fn keep(&mut self, mut seat: Box<Seat>) {
        if self.spare.len() < SPARE_MAX {
            seat.coordinator.vacate();
            (seat.ended, seat.stirred, seat.alarm) = (false, false, None);
            self.spare.push(seat);
        }
    }

    fn drain(&mut self, outlet: &mut impl Outlet) {
        let mut stirred = std::mem::take(&mut self.stirred);
        for tx in stirred.drain(..) {
            let Some(seat) = self.seats.get_mut(&tx) else { continue };
            seat.stirred = false;
            while let Some((to, request)) = seat.coordinator.poll_send() {
                outlet.send(to, request);
            }
            while let Some(event) = seat.coordinator.poll_event() {
                seat.ended |= event.is_last();
                outlet.tell(TxHandle(tx), event);
            }
            if seat.ended && seat.coordinator.is_over() {
                let seat = self.seats.remove(&tx).expect("just seen");
                self.session.end(seat.coordinator.birth().tx);
                self.keep(seat);
                continue;
            }
            // A later due than was promised needs no new promise: the old one looks again.
            let due = seat.coordinator.poll_timeout();
            if let Some(due) = due.filter(|due| seat.alarm.is_none_or(|alarm| *due < alarm)) {
                seat.alarm = Some(due);
                self.alarms.push(due, tx);
            }
        }
        self.stirred = stirred;
    }
}
