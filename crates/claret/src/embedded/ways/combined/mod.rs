//! The driver of a transaction when transactions of the process combine: they share one client state machine.

use std::sync::Arc;
use std::task::Waker;

use claret_core::message::{Output, Refusal, Request, Response, Undone};
use claret_core::ways::ProcessWay;
use claret_core::{AttemptId, CallNo, Client, Closed, Limits, Shard, ShardId, Switches, Time, TxHandle};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Claims, Operation};
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::backend::{Behind, Driver, keys_of};
use crate::call::Call;
use crate::embedded::ways::Way;
use crate::embedded::{Embedded, LINK, SESSION};
use crate::error::BlockedOn;
use crate::mailbox::{Mailbox, Wakers};

/// The client state machine, and where its transactions are told what happens.
#[derive(Clone, Debug)]
pub(super) struct Combined(Arc<SharedClient>);

impl Way for Combined {
    fn new(switches: Switches, limits: Limits, shards: u32) -> Option<Self> {
        let is_on = switches.process_way() == Some(ProcessWay::Combined);
        is_on.then(|| Combined(Arc::new(SharedClient::new(switches, limits, shards))))
    }

    fn begin(&self, store: Arc<Embedded>, mailbox: &Arc<Mailbox>, since: Option<Time>) -> Box<dyn Driver> {
        Box::new(Member::begin(store, Arc::clone(&self.0), mailbox, since))
    }

    fn collect(&self, store: &Embedded, from: ShardId) {
        self.0.collect(store, from);
    }

    fn wake(&self) {
        self.0.wake();
    }

    fn shared_answers(&self) -> u64 {
        self.0.combined()
    }
}

#[derive(Debug)]
struct SharedClient(Mutex<ClientWithMailboxes>);

#[derive(Debug)]
struct ClientWithMailboxes {
    client: Client,
    mailboxes: HashMap<TxHandle, Arc<Mailbox>, foldhash::fast::FixedState>,
    /// Whoever waits looks again then at the latest.
    promised: Option<Time>,
}

impl SharedClient {
    fn new(switches: Switches, limits: Limits, shards: u32) -> Self {
        let client = Client::direct(SESSION, switches, limits, shards);
        let mailboxes = HashMap::default();
        SharedClient(Mutex::new(ClientWithMailboxes { client, mailboxes, promised: None }))
    }

    /// Wakes everybody who waits.
    fn wake(&self) {
        let mailboxes: Vec<_> = self.0.lock().mailboxes.values().cloned().collect();
        mailboxes.iter().for_each(|mailbox| mailbox.wake());
    }

    /// How many calls were answered by another transaction's held read.
    fn combined(&self) -> u64 {
        self.0.lock().client.combined()
    }

    /// Takes what a shard has to say.
    fn collect(&self, store: &Embedded, from: ShardId) {
        self.visit(store, |client, now| {
            let mut responses = SmallVec::new();
            take_responses(&mut store.shards[from.0 as usize].lock(), &mut responses);
            responses.into_iter().for_each(|response| client.handle_response(now, from, response));
        });
    }

    /// Does something with the client, delivers what it wants sent and what it is answered, and tells its
    /// transactions what happened.
    fn visit<R>(&self, store: &Embedded, act: impl FnOnce(&mut Client, Time) -> R) -> R {
        let mut woken = Wakers::new();
        let result = {
            let ClientWithMailboxes { client, mailboxes, promised } = &mut *self.0.lock();
            let result = act(client, store.elapsed());
            client.settle(store.elapsed());
            let mut responses = SmallVec::<[Response; 4]>::new();
            while let Some((to, request)) = client.poll_send() {
                let now = store.elapsed();
                store.ask(now, to, request, &mut responses);
                for response in responses.drain(..) {
                    client.handle_response(now, to, response);
                }
                client.settle(now);
            }
            while let Some((tx, event)) = client.poll_event() {
                if let Some(mailbox) = mailboxes.get(&tx) {
                    mailbox.put_event(event, &mut woken);
                }
            }
            let due = client.poll_timeout();
            // Who has gone to sleep before does not know of it, and who brought it about may not wait.
            let is_sooner = due.is_some_and(|due| promised.is_none_or(|promised| due < promised));
            if is_sooner && !is_planted(Bug::SoonerUntold) {
                mailboxes.values().for_each(|mailbox| mailbox.wake_into(&mut woken));
            }
            *promised = due;
            result
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }
}

/// A transaction.
#[derive(Debug)]
struct Member {
    store: Arc<Embedded>,
    client: Arc<SharedClient>,
    tx: TxHandle,
}

impl Member {
    fn begin(
        store: Arc<Embedded>,
        client: Arc<SharedClient>,
        mailbox: &Arc<Mailbox>,
        since: Option<Time>,
    ) -> Self {
        let tx = {
            let mut inner = client.0.lock();
            let now = store.elapsed();
            let tx = inner.client.begin(since.map_or(now, |since| since.min(now)), now.0);
            inner.mailboxes.insert(tx, Arc::clone(mailbox));
            tx
        };
        Member { store, client, tx }
    }

    fn visit<R>(&self, act: impl FnOnce(&mut Client, Time, TxHandle) -> R) -> R {
        self.client.visit(&self.store, |client, now| act(client, now, self.tx))
    }

    fn buffer(&self, attempt: u32, calls: &mut Vec<Call>) -> Result<(), Closed> {
        if calls.is_empty() {
            return Ok(());
        }
        // Hashed before the client is locked, which all transactions share.
        let placed: Vec<_> = calls.drain(..).map(|Call { key, op }| (self.place(key), op)).collect();
        self.visit(|client, now, tx| {
            let mut placed = placed.into_iter();
            placed.try_for_each(|(place, op)| client.buffer(now, (tx, attempt), place, op).map(|_| ()))
        })
    }

    fn place(&self, key: Bytes) -> (u16, Bytes) {
        (self.store.shard_of(&key).0 as u16, key)
    }
}

impl Driver for Member {
    fn execute(
        &mut self,
        attempt: u32,
        buffered: &mut Vec<Call>,
        call: Call,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        self.buffer(attempt, buffered)?;
        let place = self.place(call.key);
        self.visit(|client, now, tx| client.execute(now, (tx, attempt), place, call.op, reserve))
    }

    fn conflicts_with(&self, key: &Bytes, op: &Operation) -> bool {
        self.client.0.lock().client.conflicts_with(self.tx, key, op)
    }

    fn name(&self) -> Option<AttemptId> {
        self.client.0.lock().client.attempt(self.tx)
    }

    fn is_blocked(&self) -> bool {
        self.client.0.lock().client.waits(self.tx).is_some()
    }

    fn waits_for(&self) -> Vec<Bytes> {
        self.client.0.lock().client.waits(self.tx).map(keys_of).unwrap_or_default()
    }

    fn wait(&self, _told: Option<&Behind>) -> Option<BlockedOn> {
        let waits = self.client.0.lock().client.waits(self.tx)?;
        self.store.wait(&waits)
    }

    fn commit(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed> {
        self.buffer(attempt, buffered)?;
        self.visit(|client, now, tx| client.commit(now, (tx, attempt)))
    }

    fn check(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed> {
        self.buffer(attempt, buffered)?;
        self.visit(|client, now, tx| client.check(now, (tx, attempt)))
    }

    fn renounce(&mut self, attempt: u32, refusal: Refusal) -> Result<(), Closed> {
        self.visit(|client, now, tx| client.renounce(now, (tx, attempt), refusal))
    }

    fn may_fail_from(&mut self, attempt: u32, inside: Option<CallNo>) -> Result<(), Closed> {
        self.visit(|client, now, tx| client.may_fail_from(now, (tx, attempt), inside))
    }

    fn undo(&mut self, attempt: u32, from: CallNo) -> Result<(), Closed> {
        self.visit(|client, now, tx| client.undo(now, (tx, attempt), from))
    }

    fn settle(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        self.buffer(attempt, buffered)?;
        self.visit(|client, now, tx| client.settle_buffered(now, (tx, attempt)))
    }

    fn only_check(&mut self, attempt: u32, ranges: &[Undone]) -> Result<(), Closed> {
        self.visit(|client, now, tx| client.only_check(now, (tx, attempt), ranges))
    }

    fn abort(&mut self) {
        self.visit(|client, now, tx| client.abort(now, tx));
    }

    fn restart(&mut self, ended: u32) -> Result<(), Closed> {
        self.visit(|client, now, tx| client.restart(now, (tx, ended)))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.client.0.lock().client.poll_timeout()
    }

    fn handle_timeout(&mut self, _now: Time) {
        self.visit(|client, now, _| client.handle_timeout(now));
    }

    fn end(&mut self, _is_over: bool) {
        self.visit(|client, now, tx| client.abandon(now, tx));
        self.client.0.lock().mailboxes.remove(&self.tx);
    }
}

impl Embedded {
    /// Delivers one request; the responses, for whichever transaction, go to the client.
    fn ask(&self, now: Time, to: ShardId, request: Request, responses: &mut SmallVec<[Response; 4]>) {
        let mut shard = self.lock_shard(to);
        shard.handle(now, LINK, request);
        self.note(&mut shard);
        take_responses(&mut shard, responses);
    }
}

fn take_responses(shard: &mut Shard, responses: &mut SmallVec<[Response; 4]>) {
    while let Some(output) = shard.poll_output() {
        match output {
            Output::Respond { response, .. } => responses.push(response),
            Output::Tell { .. } => unreachable!("with direct delivery nothing is ever in doubt"),
        }
    }
}
