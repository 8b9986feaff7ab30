//! The embedded host: shards in the process, called directly.
//!
//! A shard is a state machine behind a mutex. A transaction's coordinator calls it on the caller's own thread:
//! where nobody waits there is no thread hop, no channel and no allocation for a message in flight. What a shard
//! has to say to *other* transactions (a grant, an elder) goes into their mailboxes and wakes their tasks,
//! after the shard is unlocked.
//!
//! Transactions whose operations are all known up front are carried out *instantly* where nobody's claims are in
//! the way: all their shards are locked in the order of their numbers, every operation is executed and applied,
//! and either all stay or all are undone ([`Embedded::instant`]).
//!
//! Lock order: a transaction's state, then the combining client, then shards (several in ascending order), then the registry, then a mailbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Instant;

use claret_core::message::{Link, Output, Request, Response};
use claret_core::{
    Birth, Coordinator, Delivery, Incarnation, Limits, Sequence, SessionId, Shard, ShardId, Switches, Time,
    TxId, key_hash,
};
use claret_types::{Bytes, Operation};
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::conductor::{Combined, SharedClient};
use crate::host::{Instantly, Mailbox, Mode, Placed};
use crate::store::Stats;

/// How many parts the registry of mailboxes has, so that threads rarely meet in one.
const REGISTRY_PARTS: usize = 64;

type RegistryPart = Mutex<HashMap<Sequence, Arc<Mailbox>, foldhash::fast::FixedState>>;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Embedded {
    shards: Box<[Mutex<Shard>]>,
    registry: Box<[RegistryPart]>,
    /// With combining: the client state machine that all transactions share.
    pub(crate) combined: SharedClient,
    pub(crate) mode: Mode,
    pub(crate) switches: Switches,
    pub(crate) limits: Limits,
    began: Instant,
    sequence: AtomicU64,
    pub(crate) restarts: AtomicU64,
}

pub(crate) const SESSION: SessionId = SessionId(1);
pub(crate) const LINK: Link = Link { session: SESSION, connection: 0 };

impl Embedded {
    pub(crate) fn new(shards: u32, mode: Mode, limits: Limits) -> Self {
        let switches = mode.switches(Delivery::Direct);
        let shard = |id| Mutex::new(Shard::new(ShardId(id), Incarnation(1), switches, limits));
        let mut store = Embedded {
            shards: (0..shards).map(shard).collect(),
            registry: (0..REGISTRY_PARTS).map(|_| Mutex::default()).collect(),
            mode,
            switches,
            limits,
            began: Instant::now(),
            sequence: AtomicU64::new(1),
            restarts: AtomicU64::new(0),
            combined: None,
        };
        store.combined = switches.combining.then(|| Mutex::new(Combined::new(&store)));
        store
    }

    pub(crate) fn shards(&self) -> &[Mutex<Shard>] {
        &self.shards
    }

    /// Microseconds since the store was made.
    pub(crate) fn now(&self) -> Time {
        Time(self.began.elapsed().as_micros() as u64)
    }

    pub(crate) fn begin(&self) -> Birth {
        let sequence = Sequence(self.sequence.fetch_add(1, Ordering::Relaxed));
        Birth { time: self.now(), tx: TxId { session: SESSION, sequence } }
    }

    /// Looks a key's shard up. The index bits are none of those that the record table uses first.
    pub(crate) fn place(&self, key: Bytes, op: Operation) -> Placed {
        let hash = key_hash(&key);
        let shard = ((hash >> 32) * self.shards.len() as u64) >> 32;
        Placed { hash, shard: ShardId(shard as u32), key, op }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut sum = Stats { restarts: self.restarts.load(Ordering::Relaxed), ..Stats::default() };
        sum.combined = self.combined.as_ref().map_or(0, |combined| combined.lock().combined());
        for shard in self.shards() {
            let shard = shard.lock();
            let stats = shard.stats();
            sum.lock_waits += stats.waits;
            sum.phases += stats.phases;
            sum.locked_records += shard.locked_records() as u64;
            sum.open_attempts += shard.open_attempts() as u64;
        }
        sum
    }

    // --- instant transactions ---

    /// Carries out calls that are all known, if nobody's claims are in the way. All or nothing.
    pub(crate) fn instant(&self, calls: &[Placed]) -> Instantly {
        if self.mode == Mode::None {
            return self.unlocked(calls);
        }
        let mut held = HeldShards::lock(self, calls);
        let mut replies = Vec::with_capacity(calls.len());
        for call in calls {
            match held.shard(call.shard).instant(call.hash, &call.key, &call.op) {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => return Instantly::Blocked,
                Err(error) => return Instantly::Failed { key: call.key.clone(), error },
            }
        }
        held.finish();
        Instantly::Done(replies)
    }

    /// Mode `none`: each call by itself.
    fn unlocked(&self, calls: &[Placed]) -> Instantly {
        let mut replies = Vec::with_capacity(calls.len());
        for call in calls {
            let mut shard = self.shards[call.shard.0 as usize].lock();
            match shard.unlocked(call.hash, &call.key, &call.op) {
                Ok(reply) => replies.push(reply),
                Err(error) => return Instantly::Failed { key: call.key.clone(), error },
            }
            shard.finish_instant();
        }
        Instantly::Done(replies)
    }

    // --- the long way ---

    /// Lets responses for a transaction find it.
    pub(crate) fn register(&self, tx: TxId, mailbox: &Arc<Mailbox>) {
        self.part(tx).lock().insert(tx.sequence, Arc::clone(mailbox));
    }

    pub(crate) fn unregister(&self, tx: TxId) {
        self.part(tx).lock().remove(&tx.sequence);
    }

    fn part(&self, tx: TxId) -> &RegistryPart {
        &self.registry[tx.sequence.0 as usize % REGISTRY_PARTS]
    }

    /// Delivers what a coordinator wants sent, and what it is answered, until nothing is left to say.
    pub(crate) fn pump(&self, coordinator: &mut Coordinator, mailbox: &Mailbox) {
        for (from, response) in mailbox.take() {
            coordinator.handle_response(self.now(), from, response);
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
        woken: &mut SmallVec<[Waker; 8]>,
    ) {
        let now = self.now();
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
        woken: &mut SmallVec<[Waker; 8]>,
    ) -> Answered {
        let mut shard = self.shards[to.0 as usize].lock();
        let mut answered = Answered { before: mailbox.take(), own: SmallVec::new() };
        shard.handle(now, LINK, request);
        while let Some(output) = shard.poll_output() {
            match output {
                Output::Respond { response, .. } if response.attempt().tx == tx => {
                    answered.own.push(response);
                }
                Output::Respond { response, .. } => {
                    let addressee = response.attempt().tx;
                    if let Some(mailbox) = self.part(addressee).lock().get(&addressee.sequence) {
                        mailbox.put(to, response, woken);
                    }
                }
                Output::Tell { .. } => unreachable!("with direct delivery nothing is ever in doubt"),
            }
        }
        answered
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

/// The shards of an instant transaction, locked in ascending order. Undone when dropped unfinished, also when a
/// custom type panics.
struct HeldShards<'a> {
    shards: SmallVec<[(ShardId, MutexGuard<'a, Shard>); 4]>,
    finished: bool,
}

impl<'a> HeldShards<'a> {
    fn lock(store: &'a Embedded, calls: &[Placed]) -> Self {
        let mut ids: SmallVec<[ShardId; 8]> = calls.iter().map(|call| call.shard).collect();
        if ids.len() > 1 {
            ids.sort_unstable();
            ids.dedup();
        }
        let shards = ids.into_iter().map(|id| (id, store.shards[id.0 as usize].lock())).collect();
        HeldShards { shards, finished: false }
    }

    fn shard(&mut self, id: ShardId) -> &mut Shard {
        let at = match self.shards.len() {
            0..=8 => self.shards.iter().position(|(held, _)| *held == id),
            _ => self.shards.binary_search_by_key(&id, |(held, _)| *held).ok(),
        };
        &mut self.shards[at.expect("all shards of the calls are held")].1
    }

    fn finish(mut self) {
        for (_, shard) in &mut self.shards {
            shard.finish_instant();
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
    }
}

#[cfg(test)]
mod tests {
    use claret_core::Event;
    use claret_types::{Counter, CounterOp};

    use super::*;

    struct Client {
        coordinator: Coordinator,
        mailbox: Arc<Mailbox>,
    }

    impl Client {
        fn begin(store: &Embedded) -> Self {
            let coordinator = Coordinator::new(store.begin(), store.switches, store.limits, 1);
            let mailbox = Arc::default();
            store.register(coordinator.birth().tx, &mailbox);
            Client { coordinator, mailbox }
        }

        fn buffer(&mut self, store: &Embedded, op: CounterOp) {
            let placed = store.place("k".into(), Operation::new::<Counter>(op));
            let attempt = self.coordinator.attempt();
            self.coordinator.buffer(attempt, placed.shard, placed.key, placed.op).expect("it runs");
        }

        fn pump(&mut self, store: &Embedded) -> Vec<Event> {
            store.pump(&mut self.coordinator, &self.mailbox);
            std::iter::from_fn(|| self.coordinator.poll_event()).collect()
        }
    }

    #[test]
    fn a_commit_that_crosses_a_withdrawal_is_a_commit() {
        let store = Embedded::new(1, Mode::BoostPhase, Limits::default());
        let (mut holder, mut waiter) = (Client::begin(&store), Client::begin(&store));
        let get = store.place("k".into(), Operation::new::<Counter>(CounterOp::Get));
        let read = holder.coordinator.attempt();
        let executed = holder.coordinator.execute(store.now(), read, get.shard, get.key, get.op, None);
        executed.expect("it runs");
        assert_eq!(holder.pump(&store).len(), 1);
        waiter.buffer(&store, CounterOp::Add(1));
        let attempt = waiter.coordinator.attempt();
        waiter.coordinator.commit(store.now(), attempt, &[]).expect("it runs");
        assert_eq!(waiter.pump(&store), [], "it waits behind the read");

        // The waiter wants to give up; before its withdrawal arrives, the holder's thread lets it in.
        waiter.coordinator.abort(store.now());
        let (to, withdraw) = waiter.coordinator.poll_send().expect("the withdrawal");
        holder.coordinator.commit(store.now(), read, &[]).expect("it runs");
        holder.pump(&store);
        store.send(&mut waiter.coordinator, &waiter.mailbox, to, withdraw, &mut SmallVec::new());
        let events = waiter.pump(&store);
        assert!(matches!(events[..], [Event::Committed { .. }]), "{events:?}");
    }

    /// A coordinator that hears of the grant first and then that it waits would take itself for blocked, and give way to
    /// an elder for nothing.
    #[test]
    fn a_grant_that_follows_the_news_of_a_wait_is_heard_after_it() {
        let store = Embedded::new(1, Mode::BoostPhase, Limits::default());
        let (mut holder, mut waiter) = (Client::begin(&store), Client::begin(&store));
        for (client, op) in [(&mut holder, CounterOp::Get), (&mut waiter, CounterOp::AddReturning(1))] {
            let call = store.place("k".into(), Operation::new::<Counter>(op));
            let attempt = client.coordinator.attempt();
            let (now, coordinator) = (store.now(), &mut client.coordinator);
            coordinator.execute(now, attempt, call.shard, call.key, call.op, None).expect("it runs");
        }
        assert_eq!(holder.pump(&store).len(), 1);
        let (to, execute) = waiter.coordinator.poll_send().expect("the call");
        let (now, tx) = (store.now(), waiter.coordinator.birth().tx);
        let answered = store.deliver(now, to, execute, tx, &waiter.mailbox, &mut SmallVec::new());
        // The shard is free again, and another thread is quicker than the waiter's.
        let attempt = holder.coordinator.attempt();
        holder.coordinator.commit(store.now(), attempt, &[]).expect("it runs");
        holder.pump(&store);
        answered.hand_to(&mut waiter.coordinator, now, to);
        assert!(waiter.coordinator.is_blocked(), "as far as it has heard");
        let events = waiter.pump(&store);
        assert!(matches!(events[..], [Event::Answer { .. }]), "{events:?}");
        assert!(!waiter.coordinator.is_blocked());
    }
}
