//! Who speaks to the shards for a transaction: a coordinator of its own, or, with combining, the frontend that all
//! transactions of the process share (R16). On a cluster it is the desk that all transactions of the process share
//! with their connections (`cluster/desk.rs`).
//!
//! A conductor is made only when a transaction has something to wait for or to hold; one that does everything
//! instantly never has any.
//!
//! Each call names the attempt that it is of. One that is over takes nothing, whatever its user does with it (P30a).

use std::sync::Arc;
use std::task::Waker;

use claret_core::message::{Output, Response};
use claret_core::{
    AttemptId, CallNo, Closed, Coordinator, Event, Frontend, Session, ShardId, Time, TxHandle,
};
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

/// The frontend, and where its transactions are told what happens.
#[derive(Debug)]
pub(crate) struct Desk {
    frontend: Frontend,
    mailboxes: HashMap<TxHandle, Arc<Mailbox>, foldhash::fast::FixedState>,
}

impl Desk {
    pub(crate) fn new(store: &Embedded) -> Self {
        let frontend = Frontend::new(Session::new(SESSION), store.switches, store.limits);
        Desk { frontend, mailboxes: HashMap::default() }
    }

    /// How many calls were answered by another transaction's held read.
    pub(crate) fn combined(&self) -> u64 {
        self.frontend.stats().combined
    }
}

impl Conductor {
    pub(crate) fn begin(host: &Host, mailbox: &Arc<Mailbox>) -> Self {
        #[cfg(feature = "cluster")]
        if let Host::Cluster(cluster) = host {
            return Conductor::Far(cluster.seat(mailbox));
        }
        let store = here(host);
        let birth = store.begin();
        let seed = birth.tx.sequence.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match &store.desk {
            Some(desk) => {
                let mut desk = desk.lock();
                let tx = desk.frontend.begin(birth.time, seed);
                desk.mailboxes.insert(tx, Arc::clone(mailbox));
                Conductor::Together(tx)
            }
            None => {
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
                here(host).together(|frontend, now| frontend.abort(now, *tx));
                here(host).desk.as_ref().expect("combining").lock().mailboxes.remove(tx);
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
            Conductor::Together(tx) => here(host).together(|frontend, now| {
                calls.drain(..).try_for_each(|call| {
                    frontend.buffer(now, (*tx, attempt), call.shard, call.key, call.op).map(|_| ())
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
            Conductor::Together(tx) => here(host).together(|frontend, now| {
                frontend.execute(now, (*tx, attempt), call.shard, call.key, call.op, reserve)
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
            Conductor::Together(tx) => {
                here(host).together(|frontend, now| frontend.commit(now, (*tx, attempt)))
            }
            #[cfg(feature = "cluster")]
            Conductor::Far(seat) => seat.commit(attempt, buffered),
        }
    }

    pub(crate) fn abort(&mut self, host: &Host) {
        match self {
            Conductor::Alone(coordinator) => coordinator.abort(here(host).now()),
            Conductor::Together(tx) => here(host).together(|frontend, now| frontend.abort(now, *tx)),
            #[cfg(feature = "cluster")]
            Conductor::Far(seat) => seat.abort(),
        }
    }

    /// Begins the next attempt after this one.
    pub(crate) fn restart(&mut self, host: &Host, ended: u32) -> Result<(), Closed> {
        match self {
            Conductor::Alone(coordinator) => coordinator.restart(named(coordinator, ended)),
            Conductor::Together(tx) => {
                here(host).together(|frontend, now| frontend.restart(now, (*tx, ended)).map(|_| ()))
            }
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

    /// When [`Self::handle_timeout`] has something to do. On a cluster the desk sees to that itself.
    pub(crate) fn poll_timeout(&self, host: &Host) -> Option<Time> {
        match self {
            Conductor::Alone(coordinator) => coordinator.poll_timeout(),
            Conductor::Together(_) => {
                here(host).desk.as_ref().expect("combining").lock().frontend.poll_timeout()
            }
            #[cfg(feature = "cluster")]
            Conductor::Far(_) => None,
        }
    }

    pub(crate) fn handle_timeout(&mut self, host: &Host, now: Time) {
        match self {
            Conductor::Alone(coordinator) => coordinator.handle_timeout(now),
            Conductor::Together(_) => here(host).together(|frontend, now| frontend.handle_timeout(now)),
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
    /// Does something with the frontend, delivers what it wants sent and what it is answered, and tells its
    /// transactions what happened.
    fn together<R>(&self, act: impl FnOnce(&mut Frontend, Time) -> R) -> R {
        let mut woken = SmallVec::<[Waker; 8]>::new();
        let result = {
            let mut desk = self.desk.as_ref().expect("combining").lock();
            let desk = &mut *desk;
            let result = act(&mut desk.frontend, self.now());
            let mut responses = SmallVec::<[Response; 4]>::new();
            while let Some((to, request)) = desk.frontend.poll_send() {
                let now = self.now();
                self.exchange(now, to, request, &mut responses);
                for response in responses.drain(..) {
                    desk.frontend.handle_response(now, to, response);
                }
            }
            while let Some((tx, event)) = desk.frontend.poll_event() {
                if let Some(mailbox) = desk.mailboxes.get(&tx) {
                    mailbox.put_event(event, &mut woken);
                }
            }
            result
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Delivers one request; the responses, for whichever transaction, go to the frontend.
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

/// The frontend of a store, where it combines.
pub(crate) type SharedDesk = Option<Mutex<Desk>>;
