//! All transactions of the process, as state machines: a coordinator for each, or one frontend that combines them.
//!
//! A transaction stays here until every shard knows the end of it, which is longer than its user is interested: one
//! that was dropped in mid-commit has its answers still to come (R14). Afterwards its seat serves another, and what is
//! said in its name is not taken (P30a): each call names the transaction, by its sequence, and the attempt.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use claret_core::message::{Request, Response};
use claret_core::{
    AttemptId, CallNo, Closed, Coordinator, Event, Frontend, Heat, Incarnation, Limits, Sequence, Session,
    SessionId, ShardId, Switches, Time, TxHandle, TxId,
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
        tx: (TxHandle, u32),
        place: (ShardId, Bytes),
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        let (shard, key) = place;
        match self {
            Book::Own(own) => {
                let (coordinator, attempt) = own.stir_named(tx)?;
                coordinator.execute(now, attempt, shard, key, op, reserve)
            }
            Book::Shared(frontend) => frontend.execute(now, tx, shard, key, op, reserve),
        }
    }

    pub(super) fn buffer(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        mut calls: impl Iterator<Item = (ShardId, Bytes, Operation)>,
    ) -> Result<(), Closed> {
        match self {
            Book::Own(own) => {
                let attempt = own.named(tx);
                // It has nothing to say before something is executed, or the commit.
                let coordinator = &mut own.seats.get_mut(&tx.0.0).ok_or(Closed)?.coordinator;
                calls.try_for_each(|(shard, key, op)| coordinator.buffer(attempt, shard, key, op).map(|_| ()))
            }
            Book::Shared(frontend) => {
                calls.try_for_each(|(shard, key, op)| frontend.buffer(now, tx, shard, key, op).map(|_| ()))
            }
        }
    }

    pub(super) fn commit(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Book::Own(own) => own.commit(now, tx),
            Book::Shared(frontend) => frontend.commit(now, tx),
        }
    }

    /// Of a transaction that is over, nothing is left to abort.
    pub(super) fn abort(&mut self, now: Time, tx: TxHandle) {
        match self {
            Book::Own(own) => {
                if let Some((coordinator, _)) = own.stir(tx.0) {
                    coordinator.abort(now);
                }
            }
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

    pub(super) fn restart(&mut self, now: Time, ended: (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Book::Own(own) => own.restart(ended),
            Book::Shared(frontend) => frontend.restart(now, ended).map(|_| ()),
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
            let Some((coordinator, _)) = self.stir(tx) else { continue };
            coordinator.meet(shard, incarnation);
            coordinator.send_again(now);
        }
    }

    fn commit(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        let attempt = self.named(tx);
        let (coordinator, heat) = self.stir(tx.0.0).ok_or(Closed)?;
        coordinator.check_commit(attempt)?;
        let hot = heat.arrange(coordinator);
        coordinator.commit(now, attempt, &hot)
    }

    fn restart(&mut self, ended: (TxHandle, u32)) -> Result<(), Closed> {
        let (coordinator, attempt) = self.stir_named(ended)?;
        coordinator.restart(attempt)?;
        for (shard, incarnation) in &self.met {
            if let Some(seat) = self.seats.get_mut(&ended.0.0) {
                seat.coordinator.meet(*shard, *incarnation);
            }
        }
        Ok(())
    }

    fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        if let Some((coordinator, heat)) = self.stir(response.attempt().tx.sequence.0) {
            heat.learn(coordinator, from, &response);
            coordinator.handle_response(now, from, response);
        }
    }

    fn leave(&mut self, now: Time, tx: TxHandle) {
        let Some(seat) = self.seats.get_mut(&tx.0) else { return };
        if !seat.ended {
            seat.ended = true;
            if let Some((coordinator, _)) = self.stir(tx.0) {
                coordinator.abort(now);
            }
        }
    }

    /// An attempt, as the shards know it.
    fn named(&self, (tx, attempt): (TxHandle, u32)) -> AttemptId {
        let tx = TxId { session: self.session.id(), sequence: Sequence(tx.0) };
        AttemptId { tx, attempt }
    }

    /// The coordinator that a call is for, if its transaction is not over, and the attempt that it names.
    fn stir_named(&mut self, tx: (TxHandle, u32)) -> Result<(&mut Coordinator, AttemptId), Closed> {
        let attempt = self.named(tx);
        let (coordinator, _) = self.stir(tx.0.0).ok_or(Closed)?;
        Ok((coordinator, attempt))
    }

    /// `None`: it is over.
    fn stir(&mut self, tx: u64) -> Option<(&mut Coordinator, &mut Heat)> {
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
            if let Some((coordinator, _)) = self.stir(tx) {
                coordinator.handle_timeout(now);
            }
        }
    }

    /// Keeps the room of a transaction that is over.
    fn keep(&mut self, mut seat: Box<Seat>) {
        if self.spare.len() < SPARE_MAX && seat.coordinator.vacate() {
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
                self.session.end(seat.coordinator.birth().tx);
                if let Some(seat) = self.seats.remove(&tx) {
                    self.keep(seat);
                }
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

#[cfg(test)]
mod timing;

#[cfg(test)]
mod tests {
    use claret_core::Delivery;
    use claret_core::message::Refusal;
    use claret_types::{Counter, CounterOp, Reply};

    use super::*;
    use crate::host::Mode;

    const A: ShardId = ShardId(0);
    const B: ShardId = ShardId(1);
    const NOW: Time = Time(1);
    const INCARNATION: Incarnation = Incarnation(5);

    #[derive(Default)]
    struct Heard {
        sent: Vec<(ShardId, Request)>,
        told: Vec<(TxHandle, Event)>,
    }

    impl Outlet for Heard {
        fn send(&mut self, to: ShardId, request: Request) {
            self.sent.push((to, request));
        }

        fn tell(&mut self, tx: TxHandle, event: Event) {
            self.told.push((tx, event));
        }
    }

    /// One with a coordinator for each transaction, and one that combines.
    fn books() -> [Book; 2] {
        [Mode::BoostPhase, Mode::BoostPhaseCombine].map(|mode| {
            let mut book = Book::new(SessionId(7), mode.switches(Delivery::Network), Limits::default());
            [A, B].into_iter().for_each(|shard| book.meet(NOW, shard, INCARNATION));
            book
        })
    }

    fn drain(book: &mut Book) -> Heard {
        let mut heard = Heard::default();
        book.drain(&mut heard);
        heard
    }

    fn get(book: &mut Book, tx: (TxHandle, u32), shard: ShardId) -> Result<CallNo, Closed> {
        let op = Operation::new::<Counter>(CounterOp::AddReturning(1));
        book.execute(NOW, tx, (shard, "k".into()), op, None)
    }

    fn add(book: &mut Book, tx: (TxHandle, u32), shard: ShardId) -> Result<(), Closed> {
        let op = Operation::new::<Counter>(CounterOp::Add(1));
        book.buffer(NOW, tx, std::iter::once((shard, "k".into(), op)))
    }

    /// Executes at `A`, and is granted.
    fn granted(book: &mut Book, tx: (TxHandle, u32)) -> AttemptId {
        let no = get(book, tx, A).expect("it runs");
        let heard = drain(book);
        let [(A, Request::Execute { attempt, .. })] = heard.sent[..] else { panic!("{:?}", heard.sent) };
        let reply = Reply::Int(1);
        let grant = Response::Granted { attempt, no, reply, granted: 1, incarnation: INCARNATION };
        book.handle_response(NOW, A, grant);
        let heard = drain(book);
        assert!(matches!(heard.told[..], [(_, Event::Answer { .. })]), "{:?}", heard.told);
        attempt
    }

    /// Nothing in the name of this attempt is taken, and nothing comes of the try.
    fn assert_closed(book: &mut Book, tx: (TxHandle, u32)) {
        assert_eq!(get(book, tx, B), Err(Closed));
        assert_eq!(add(book, tx, B), Err(Closed));
        assert_eq!(book.commit(NOW, tx), Err(Closed));
        let heard = drain(book);
        assert!(heard.sent.is_empty() && heard.told.is_empty(), "{:?} {:?}", heard.sent, heard.told);
    }

    /// Bug: an attempt was refused while its closure awaited something else, which then went on with it. Its commit
    /// listed what was called since; a call of it left an answer for the next attempt, which never committed.
    #[test]
    fn a_closed_attempt_takes_nothing_and_the_next_is_whole() {
        for mut book in books() {
            let tx = book.begin(NOW);
            let attempt = granted(&mut book, (tx, 1));
            let (refusal, since) = (Refusal::Recovered, INCARNATION);
            book.handle_response(NOW, A, Response::Refused { attempt, shard: A, refusal, since });
            let heard = drain(&mut book);
            assert!(matches!(heard.told[..], [(_, Event::Restart { .. })]), "{:?}", heard.told);
            assert_closed(&mut book, (tx, 1));
            assert_eq!(book.restart(NOW, (tx, 1)), Ok(()));
            assert_closed(&mut book, (tx, 1));
            assert_eq!(book.restart(NOW, (tx, 1)), Err(Closed), "it runs again already");

            granted(&mut book, (tx, 2));
            add(&mut book, (tx, 2), B).expect("it runs");
            assert_eq!(book.commit(NOW, (tx, 2)), Ok(()));
            let heard = drain(&mut book);
            let prepared = |shard| {
                let to = |(to, request): &(ShardId, Request)| {
                    *to == shard && matches!(request, Request::Prepare { .. })
                };
                heard.sent.iter().filter(|sent| to(sent)).count()
            };
            assert_eq!((prepared(A), prepared(B)), (1, 1), "{:?}", heard.sent);
        }
    }

    /// Bug: a call for a transaction that was over ended the process's task: "the transaction is not over".
    #[test]
    fn what_is_said_for_one_that_is_over_never_reaches_the_next_in_its_seat() {
        for mut book in books() {
            let first = book.begin(NOW);
            add(&mut book, (first, 1), A).expect("it runs");
            book.commit(NOW, (first, 1)).expect("it runs");
            let heard = drain(&mut book);
            let [(A, Request::Prepare { attempt, .. })] = &heard.sent[..] else { panic!("{:?}", heard.sent) };
            let committed = Response::Committed { attempt: *attempt, replies: Vec::new() };
            book.handle_response(NOW, A, committed);
            drain(&mut book);
            assert!(book.is_over());

            let second = book.begin(NOW);
            add(&mut book, (second, 1), A).expect("it runs");
            drain(&mut book);
            assert_closed(&mut book, (first, 1));
            assert_eq!(book.restart(NOW, (first, 1)), Err(Closed));
            book.abort(NOW, first);
            book.leave(NOW, first);
            let heard = drain(&mut book);
            assert!(heard.sent.is_empty() && heard.told.is_empty(), "{:?} {:?}", heard.sent, heard.told);
            book.commit(NOW, (second, 1)).expect("it runs");
            let heard = drain(&mut book);
            let [(A, Request::Prepare { calls, .. })] = &heard.sent[..] else { panic!("{:?}", heard.sent) };
            assert_eq!(calls.len(), 1, "its own");
        }
    }
}
