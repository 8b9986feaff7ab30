//! The driver of a transaction with a coordinator of its own, which calls the shards on the caller's own thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use claret_core::message::{Output, Refusal, Request, Response, Undone};
use claret_core::{AttemptId, Birth, CallNo, Closed, Coordinator, Event, Sequence, ShardId, Time, TxId};
use claret_types::{Bytes, Claims, Operation};
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{Embedded, LINK, SESSION};
use crate::backend::{Behind, Driver, keys_of};
use crate::call::Call;
use crate::error::BlockedOn;
use crate::mailbox::{Mailbox, Wakers};

/// How many parts the registry has, so that threads rarely meet in one.
const REGISTRY_PARTS: usize = 64;

/// The mailboxes of transactions.
#[derive(Debug)]
pub(super) struct Registry(Box<[RegistryPart]>);

type RegistryPart = Mutex<HashMap<Sequence, Arc<Mailbox>, foldhash::fast::FixedState>>;

impl Registry {
    pub(super) fn new() -> Self {
        Registry((0..REGISTRY_PARTS).map(|_| Mutex::default()).collect())
    }

    /// Wakes everybody who waits.
    pub(super) fn wake(&self) {
        for part in &self.0 {
            let mailboxes: Vec<_> = part.lock().values().cloned().collect();
            mailboxes.iter().for_each(|mailbox| mailbox.wake());
        }
    }

    fn part(&self, tx: TxId) -> &RegistryPart {
        &self.0[tx.sequence.0 as usize % REGISTRY_PARTS]
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct OwnCoordinator {
    store: Arc<Embedded>,
    coordinator: Coordinator,
}

impl OwnCoordinator {
    /// In a box at once: it is large, and moving it would cost.
    pub(super) fn begin(store: Arc<Embedded>, mailbox: &Arc<Mailbox>, since: Option<Time>) -> Box<Self> {
        let birth = store.new_birth(since);
        let seed = birth.tx.sequence.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        store.registry.part(birth.tx).lock().insert(birth.tx.sequence, Arc::clone(mailbox));
        let coordinator = Coordinator::new(birth, store.switches, store.limits, seed);
        Box::new(OwnCoordinator { store, coordinator })
    }

    fn named(&self, attempt: u32) -> AttemptId {
        AttemptId { tx: self.coordinator.birth().tx, attempt }
    }

    fn buffer(&mut self, attempt: u32, calls: &mut Vec<Call>) -> Result<(), Closed> {
        let attempt = self.named(attempt);
        calls.drain(..).try_for_each(|call| {
            let shard = self.store.shard_of(&call.key);
            self.coordinator.buffer(attempt, shard, call.key, call.op).map(|_| ())
        })
    }
}

impl Driver for OwnCoordinator {
    fn execute(
        &mut self,
        attempt: u32,
        buffered: &mut Vec<Call>,
        call: Call,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        self.buffer(attempt, buffered)?;
        let (attempt, shard) = (self.named(attempt), self.store.shard_of(&call.key));
        self.coordinator.execute(self.store.elapsed(), attempt, shard, call.key, call.op, reserve)
    }

    fn conflicts_with(&self, key: &Bytes, op: &Operation) -> bool {
        self.coordinator.conflicts_with(key, op)
    }

    fn name(&self) -> Option<AttemptId> {
        Some(self.coordinator.attempt())
    }

    fn is_blocked(&self) -> bool {
        self.coordinator.waits().is_some()
    }

    fn waits_for(&self) -> Vec<Bytes> {
        self.coordinator.waits().map(keys_of).unwrap_or_default()
    }

    fn wait(&self, _told: Option<&Behind>) -> Option<BlockedOn> {
        self.store.wait(&self.coordinator.waits()?)
    }

    fn commit(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed> {
        self.buffer(attempt, buffered)?;
        let attempt = self.named(attempt);
        self.coordinator.commit(self.store.elapsed(), attempt, &[])
    }

    fn check(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed> {
        self.buffer(attempt, buffered)?;
        let attempt = self.named(attempt);
        self.coordinator.check(self.store.elapsed(), attempt, &[])
    }

    fn renounce(&mut self, attempt: u32, refusal: Refusal) -> Result<(), Closed> {
        let attempt = self.named(attempt);
        self.coordinator.renounce(self.store.elapsed(), attempt, refusal)
    }

    fn may_fail_from(&mut self, attempt: u32, inside: Option<CallNo>) -> Result<(), Closed> {
        self.coordinator.may_fail_from(self.named(attempt), inside)
    }

    fn undo(&mut self, attempt: u32, from: CallNo) -> Result<(), Closed> {
        self.coordinator.undo(self.store.elapsed(), self.named(attempt), from)
    }

    fn settle(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        self.buffer(attempt, buffered)?;
        self.coordinator.settle(self.store.elapsed(), self.named(attempt))
    }

    fn only_check(&mut self, attempt: u32, ranges: &[Undone]) -> Result<(), Closed> {
        self.coordinator.only_check(self.named(attempt), ranges)
    }

    fn abort(&mut self) {
        self.coordinator.abort(self.store.elapsed());
    }

    fn restart(&mut self, ended: u32) -> Result<(), Closed> {
        self.coordinator.restart(self.named(ended))
    }

    fn exchange(&mut self, mailbox: &Mailbox, note: &mut dyn FnMut(Event)) {
        self.store.pump(&mut self.coordinator, mailbox);
        while let Some(event) = self.coordinator.poll_event() {
            note(event);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.coordinator.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.coordinator.handle_timeout(now);
    }

    fn end(&mut self, _is_over: bool) {
        let tx = self.coordinator.birth().tx;
        self.store.registry.part(tx).lock().remove(&tx.sequence);
    }
}

impl Embedded {
    fn new_birth(&self, since: Option<Time>) -> Birth {
        let sequence = Sequence(self.sequence.fetch_add(1, Ordering::Relaxed));
        let now = self.elapsed();
        Birth { time: since.map_or(now, |since| since.min(now)), tx: TxId { session: SESSION, sequence } }
    }

    /// Delivers what a coordinator wants sent, and what it is answered, until nothing is left to say.
    fn pump(&self, coordinator: &mut Coordinator, mailbox: &Mailbox) {
        for (from, response) in mailbox.take() {
            coordinator.handle_response(self.elapsed(), from, response);
        }
        let mut woken = SmallVec::<[Waker; 8]>::new();
        while let Some((to, request)) = coordinator.poll_send() {
            self.send(coordinator, mailbox, to, request, &mut woken);
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Sends one request and hands over what comes back.
    fn send(
        &self,
        coordinator: &mut Coordinator,
        mailbox: &Mailbox,
        to: ShardId,
        request: Request,
        woken: &mut Wakers,
    ) {
        let now = self.elapsed();
        let answered = self.deliver(now, to, request, coordinator.birth().tx, mailbox, woken);
        answered.hand_to(coordinator, now, to);
    }

    /// Invariant: a shard's responses reach a coordinator in the order in which the shard made them. So what other
    /// threads' calls brought about before is taken while the shard is locked; what they bring about from then on
    /// stays in the mailbox for the next look.
    fn deliver(
        &self,
        now: Time,
        to: ShardId,
        request: Request,
        tx: TxId,
        mailbox: &Mailbox,
        woken: &mut Wakers,
    ) -> Answered {
        let mut shard = self.lock_shard(to);
        let mut answered = Answered { before: mailbox.take(), own: SmallVec::new() };
        shard.handle(now, LINK, request);
        self.note(&mut shard);
        while let Some(output) = shard.poll_output() {
            match output {
                Output::Respond { response, .. } if is_of(&response, tx) => {
                    answered.own.push(response);
                }
                Output::Respond { response, .. } => self.post(to, response, woken),
                Output::Tell { .. } => unreachable!("with direct delivery nothing is ever in doubt"),
            }
        }
        answered
    }
}

impl Embedded {
    /// Puts a shard's response into its addressee's mailbox.
    fn post(&self, from: ShardId, response: Response, woken: &mut Wakers) {
        let Some(AttemptId { tx: addressee, .. }) = response.attempt() else { return };
        if let Some(mailbox) = self.registry.part(addressee).lock().get(&addressee.sequence) {
            mailbox.put(from, response, woken);
        }
    }

    /// [`Embedded::hand_out`] where each transaction has a coordinator of its own.
    pub(super) fn tell(&self, from: ShardId) {
        let mut woken = Wakers::new();
        let mut shard = self.shards[from.0 as usize].lock();
        while let Some(Output::Respond { response, .. }) = shard.poll_output() {
            self.post(from, response, &mut woken);
        }
        drop(shard);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// What a request brought, in the order in which it came about.
struct Answered {
    /// By the calls of other threads, earlier.
    before: Vec<(ShardId, Response)>,
    own: SmallVec<[Response; 4]>,
}

impl Answered {
    fn hand_to(self, coordinator: &mut Coordinator, now: Time, asked: ShardId) {
        for (from, response) in self.before {
            coordinator.handle_response(now, from, response);
        }
        for response in self.own {
            coordinator.handle_response(now, asked, response);
        }
    }
}

/// Whether a response is to this transaction.
fn is_of(response: &Response, tx: TxId) -> bool {
    response.attempt().is_some_and(|attempt| attempt.tx == tx)
}

#[cfg(test)]
mod tests {
    use claret_core::Limits;
    use claret_types::{Counter, CounterOp, Operation};

    use super::*;
    use crate::mode::Mode;

    struct Client {
        driver: Box<OwnCoordinator>,
        mailbox: Arc<Mailbox>,
    }

    impl Client {
        fn begin(store: &Arc<Embedded>) -> Self {
            let mailbox = Arc::default();
            Client { driver: OwnCoordinator::begin(Arc::clone(store), &mailbox, None), mailbox }
        }

        /// Executes a call without delivering it.
        fn execute(&mut self, op: CounterOp) {
            self.driver.execute(1, &mut Vec::new(), call(op), None).expect("it runs");
        }

        fn commit(&mut self, buffered: Option<CounterOp>) {
            let mut buffered = buffered.map(call).into_iter().collect();
            self.driver.commit(1, &mut buffered).expect("it runs");
        }

        fn exchange(&mut self) -> Vec<Event> {
            let mut events = Vec::new();
            self.driver.exchange(&self.mailbox, &mut |event| events.push(event));
            events
        }

        fn poll_send(&mut self) -> (ShardId, Request) {
            self.driver.coordinator.poll_send().expect("something to send")
        }
    }

    fn call(op: CounterOp) -> Call {
        Call { key: "k".into(), op: Operation::new::<Counter>(op) }
    }

    fn store() -> Arc<Embedded> {
        Arc::new(Embedded::new(1, Mode::CommutingPhased, Limits::default(), None))
    }

    #[test]
    fn a_commit_that_crosses_a_withdrawal_is_a_commit() {
        let store = store();
        let (mut holder, mut waiter) = (Client::begin(&store), Client::begin(&store));
        holder.execute(CounterOp::Get);
        assert_eq!(holder.exchange().len(), 1);
        waiter.commit(Some(CounterOp::Add(1)));
        assert_eq!(waiter.exchange(), [], "it waits behind the read");

        // The waiter wants to give up; before its withdrawal arrives, the holder's thread lets it in.
        waiter.driver.abort();
        let (to, withdraw) = waiter.poll_send();
        holder.commit(None);
        holder.exchange();
        store.send(&mut waiter.driver.coordinator, &waiter.mailbox, to, withdraw, &mut Wakers::new());
        let events = waiter.exchange();
        assert!(matches!(events[..], [Event::Committed { .. }]), "{events:?}");
    }

    /// A coordinator that hears of the grant first and then that it waits would take itself for blocked, and give way to
    /// an elder for nothing.
    #[test]
    fn a_grant_that_follows_the_news_of_a_wait_is_heard_after_it() {
        let store = store();
        let (mut holder, mut waiter) = (Client::begin(&store), Client::begin(&store));
        holder.execute(CounterOp::Get);
        waiter.execute(CounterOp::AddReturning(1));
        assert_eq!(holder.exchange().len(), 1);
        let (to, execute) = waiter.poll_send();
        let (now, tx) = (store.elapsed(), waiter.driver.coordinator.birth().tx);
        let answered = store.deliver(now, to, execute, tx, &waiter.mailbox, &mut Wakers::new());
        // The shard is free again, and another thread is quicker than the waiter's.
        holder.commit(None);
        holder.exchange();
        answered.hand_to(&mut waiter.driver.coordinator, now, to);
        assert!(waiter.driver.coordinator.is_blocked(), "as far as it has heard");
        let events = waiter.exchange();
        assert!(matches!(events[..], [Event::Answer { .. }]), "{events:?}");
        assert!(!waiter.driver.coordinator.is_blocked());
    }
}
