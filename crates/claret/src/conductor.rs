//! Who speaks to the shards for a transaction: a coordinator of its own, or, with combining, the client state machine
//! that all transactions of the process share. On a cluster they always share it, with their connections
//! (`cluster/machine.rs`).
//!
//! A conductor is made only when a transaction has something to wait for or to hold; one that does everything
//! instantly never has any.
//!
//! Each call names the attempt that it is of. One that is over takes nothing, whatever its user does with it (P61).

use std::sync::Arc;
use std::task::Waker;

use claret_core::message::{Output, Response};
use claret_core::{AttemptId, CallNo, Client, Closed, Coordinator, Event, ShardId, Time, TxHandle};
use claret_types::Claims;
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

#[cfg(feature = "cluster")]
use crate::cluster::Seat;
use crate::embedded::{Embedded, LINK, SESSION};
use crate::host::{Host, Mailbox, Placed};

/// See the module's text.
#[derive(Debug)]
pub(crate) enum Conductor {
    Alone(Box<Coordinator>),
    Together(TxHandle),
    #[cfg(feature = "cluster")]
    Far(Seat),
}

/// The client state machine that combines, and where its transactions are told what happens.
#[derive(Debug)]
pub(crate) struct Combined {
    client: Client,
    mailboxes: HashMap<TxHandle, Arc<Mailbox>, foldhash::fast::FixedState>,
}

impl Combined {
    pub(crate) fn new(store: &Embedded) -> Self {
        let shards = store.shards().len() as u32;
        let client = Client::direct(SESSION, store.switches, store.limits, shards);
        Combined { client, mailboxes: HashMap::default() }
    }

    /// How many calls were answered by another transaction's held read.
    pub(crate) fn combined(&self) -> u64 {
        self.client.combined()
    }
}

impl Conductor {
    pub(crate) fn begin(host: &Host, mailbox: &Arc<Mailbox>) -> Self {
        #[cfg(feature = "cluster")]
        if let Host::Cluster(cluster) = host {
            return Conductor::Far(cluster.seat(mailbox));
        }
        let store = here(host);
        match &store.combined {
            Some(combined) => {
                let mut combined = combined.lock();
                let now = store.now();
                let tx = combined.client.begin(now, now.0);
                combined.mailboxes.insert(tx, Arc::clone(mailbox));
                Conductor::Together(tx)
            }
            None => {
                let birth = store.begin();
                let seed = birth.tx.sequence.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                store.register(birth.tx, mailbox);
                let coordinator = Coordinator::new(birth, store.switches, store.limits, seed);
                Conductor::Alone(Box::new(coordinator))
            }
        }
    }

    /// Nobody is interested in the transaction any more: nothing for it arrives, and it is given up if it was not over.
    /// `is_over`: it said so by its last event.
    pub(crate) fn end(&self, host: &Host, is_over: bool) {
        match self {
            Conductor::Alone(coordinator) => here(host).unregister(coordinator.birth().tx),
            Conductor::Together(tx) => {
                here(host).together(|client, now| client.abandon(now, *tx));
                here(host).combined.as_ref().expect("combining").lock().mailboxes.remove(tx);
            }
            #[cfg(feature = "cluster")]
            Conductor::Far(_) if is_over => {}
            #[cfg(feature = "cluster")]
            Conductor::Far(seat) => seat.end(),
        }
    }

    /// Keeps calls for the commit. The seats of a cluster hear of them with the next call or the commit.
    fn buffer(&mut self, host: &Host, attempt: u32, calls: &mut Vec<Placed>) -> Result<(), Closed> {
        if calls.is_empty() {
            return Ok(());
        }
        match self {
            Conductor::Alone(coordinator) => {
                let attempt = named(coordinator, attempt);
                calls.drain(..).try_for_each(|call| {
                    coordinator.buffer(attempt, call.shard, call.key, call.op).map(|_| ())
                })
            }
            Conductor::Together(tx) => here(host).together(|client, now| {
                calls.drain(..).try_for_each(|call| {
                    let place = (call.shard.0 as u16, call.key);
                    client.buffer(now, (*tx, attempt), place, call.op).map(|_| ())
                })
            }),
            #[cfg(feature = "cluster")]
            Conductor::Far(_) => Ok(()),
        }
    }

    /// Executes a call behind those that are buffered.
    pub(crate) fn execute(
        &mut self,
        host: &Host,
        attempt: u32,
        buffered: &mut Vec<Placed>,
        call: Placed,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        self.buffer(host, attempt, buffered)?;
        match self {
            Conductor::Alone(coordinator) => {
                let attempt = named(coordinator, attempt);
                coordinator.execute(here(host).now(), attempt, call.shard, call.key, call.op, reserve)
            }
            Conductor::Together(tx) => here(host).together(|client, now| {
                let place = (call.shard.0 as u16, call.key);
                client.execute(now, (*tx, attempt), place, call.op, reserve)
            }),
            #[cfg(feature = "cluster")]
            Conductor::Far(seat) => seat.execute(attempt, buffered, call, reserve),
        }
    }

    /// Commits, with what is buffered.
    pub(crate) fn commit(
        &mut self,
        host: &Host,
        attempt: u32,
        buffered: &mut Vec<Placed>,
    ) -> Result<(), Closed> {
        self.buffer(host, attempt, buffered)?;
        match self {
            Conductor::Alone(coordinator) => {
                let attempt = named(coordinator, attempt);
                coordinator.commit(here(host).now(), attempt, &[])
            }
            Conductor::Together(tx) => here(host).together(|client, now| client.commit(now, (*tx, attempt))),
            #[cfg(feature = "cluster")]
            Conductor::Far(seat) => seat.commit(attempt, buffered),
        }
    }

    pub(crate) fn abort(&mut self, host: &Host) {
        match self {
            Conductor::Alone(coordinator) => coordinator.abort(here(host).now()),
            Conductor::Together(tx) => here(host).together(|client, now| client.abort(now, *tx)),
            #[cfg(feature = "cluster")]
            Conductor::Far(seat) => seat.abort(),
        }
    }

    /// Begins the next attempt after this one.
    pub(crate) fn restart(&mut self, host: &Host, ended: u32) -> Result<(), Closed> {
        match self {
            Conductor::Alone(coordinator) => coordinator.restart(named(coordinator, ended)),
            Conductor::Together(tx) => here(host).together(|client, now| client.restart(now, (*tx, ended))),
            #[cfg(feature = "cluster")]
            Conductor::Far(seat) => seat.restart(ended),
        }
    }

    /// Exchanges messages and hands on what they brought.
    pub(crate) fn pump(&mut self, host: &Host, mailbox: &Mailbox, mut note: impl FnMut(Event)) {
        match self {
            Conductor::Alone(coordinator) => {
                here(host).pump(coordinator, mailbox);
                while let Some(event) = coordinator.poll_event() {
                    note(event);
                }
            }
            Conductor::Together(_) => mailbox.take_events().into_iter().for_each(note),
            #[cfg(feature = "cluster")]
            Conductor::Far(_) => {
                for event in mailbox.take_events() {
                    note(event);
                }
            }
        }
    }

    /// When [`Self::handle_timeout`] has something to do. On a cluster the client sees to that itself.
    pub(crate) fn poll_timeout(&self, host: &Host) -> Option<Time> {
        match self {
            Conductor::Alone(coordinator) => coordinator.poll_timeout(),
            Conductor::Together(_) => {
                here(host).combined.as_ref().expect("combining").lock().client.poll_timeout()
            }
            #[cfg(feature = "cluster")]
            Conductor::Far(_) => None,
        }
    }

    pub(crate) fn handle_timeout(&mut self, host: &Host, now: Time) {
        match self {
            Conductor::Alone(coordinator) => coordinator.handle_timeout(now),
            Conductor::Together(_) => here(host).together(|client, now| client.handle_timeout(now)),
            #[cfg(feature = "cluster")]
            Conductor::Far(_) => {}
        }
    }
}

/// An attempt of a coordinator's transaction.
fn named(coordinator: &Coordinator, attempt: u32) -> AttemptId {
    AttemptId { tx: coordinator.birth().tx, attempt }
}

/// The store of a conductor that speaks to shards in this process.
fn here(host: &Host) -> &Embedded {
    host.embedded().expect("a conductor stays with the host that it began at")
}

impl Embedded {
    /// Does something with the client, delivers what it wants sent and what it is answered, and tells its
    /// transactions what happened.
    fn together<R>(&self, act: impl FnOnce(&mut Client, Time) -> R) -> R {
        let mut woken = SmallVec::<[Waker; 8]>::new();
        let result = {
            let mut combined = self.combined.as_ref().expect("combining").lock();
            let Combined { client, mailboxes } = &mut *combined;
            let result = act(client, self.now());
            client.settle(self.now());
            let mut responses = SmallVec::<[Response; 4]>::new();
            while let Some((to, request)) = client.poll_send() {
                let now = self.now();
                self.exchange(now, to, request, &mut responses);
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
            result
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Delivers one request; the responses, for whichever transaction, go to the client.
    fn exchange(
        &self,
        now: Time,
        to: ShardId,
        request: claret_core::message::Request,
        responses: &mut SmallVec<[Response; 4]>,
    ) {
        let mut shard = self.shards()[to.0 as usize].lock();
        shard.handle(now, LINK, request);
        while let Some(output) = shard.poll_output() {
            match output {
                Output::Respond { response, .. } => responses.push(response),
                Output::Tell { .. } => unreachable!("with direct delivery nothing is ever in doubt"),
            }
        }
    }
}

/// The client of a store, where it combines.
pub(crate) type SharedClient = Option<Mutex<Combined>>;
