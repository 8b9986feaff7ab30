//! The cluster host: transactions on a Redis or Valkey cluster with the Claret module, and plain Redis commands over
//! connections of the same kind.
//!
//! | file | what |
//! |---|---|
//! | `options` | the URL and the builder |
//! | `topology` | which node serves which slot |
//! | `net`, `connection`, `backoff`, `tls` | one task for each node: connect, log in, read and write, connect anew |
//! | `rounds` | deadlines that are far away |
//! | `bounds`, `secret` | what is taken from a server, at most; what is never shown |
//! | `resp`, `greeting` | RESP3 by a library; what a connection begins with |
//! | `machine`, `frames`, `hub` | the client state machine (`claret_core::Client`) behind one mutex; frames; time |
//! | `lines`, `plain`, `commands` | plain commands, multiplexed; mode `none` |
//!
//! A transaction's call goes to its coordinator in the machine. What that wants sent gathers in the outbox of each shard
//! and leaves as one frame when the connection's task runs next, with what all other transactions want sent there.
//! The task never waits for earlier replies. What comes back, replies and grants alike, goes into the machine under
//! one lock for each read, and wakes whom it concerns.
//!
//! Lock order: a transaction's state, then the machine or the lines, then a mailbox.

mod backoff;
mod bounds;
mod commands;
mod connection;
mod driver;
mod error;
mod frames;
#[cfg(test)]
mod fuzz;
mod greeting;
mod hub;
mod lines;
mod machine;
mod net;
mod options;
mod plain;
mod resp;
mod rounds;
mod secret;
mod tls;
mod topology;
mod wrong;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use claret_core::message::Refusal;
use claret_core::{CallNo, Closed, Delivery, Limits, Time, TxHandle};
use claret_identity::Identity;
use claret_types::Claims;
use tokio::task::AbortHandle;

pub use bounds::ReplyLimits;
pub use commands::reply_of;
pub(crate) use driver::Driver;
pub use error::ConnectError;
pub use lines::{Command, Dedicated, PlainError};
pub use options::{ClusterBuilder, Grants};
pub use plain::Plain;
pub use resp::ServerError;
pub(crate) use rounds::ROUND;
pub use secret::without_passwords;
pub(crate) use topology::slot_of;

use crate::error::TransactionError;
use crate::host::{Mailbox, Mode, Placed};
use crate::store::Stats;
use crate::timer::{Away, Timer};
use hub::Hub;
use machine::Machine;
use net::Net;
use options::Settings;
use plain::PlainSeat;
use rounds::Rounds;
use secret::Secret;

/// Before an attempt runs again that a shard refused for its own sake, in microseconds.
const REST_US: (u64, u64) = (1_000, 100_000);

/// A store on a cluster: what its handles share.
#[derive(Debug)]
pub(crate) struct Cluster {
    mode: Mode,
    limits: Limits,
    restarts: AtomicU64,
    patience: Duration,
    began: std::time::Instant,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Transactions {
        hub: Arc<Hub>,
        net: Arc<Net<Hub>>,
        rounds: Arc<Rounds>,
        timer: AbortHandle,
    },
    /// Mode `none`.
    Commands(Plain),
}

/// A transaction, as its handle knows it.
#[derive(Debug)]
pub(crate) enum Seat {
    Desk(DeskSeat),
    Plain(Arc<PlainSeat>),
}

/// A transaction that begins with the first thing it does in the machine: a batch is one visit.
#[derive(Debug)]
pub(crate) struct DeskSeat {
    hub: Arc<Hub>,
    mailbox: Arc<Mailbox>,
    tx: Option<TxHandle>,
}

impl Cluster {
    async fn connect(settings: Settings, mode: Mode, limits: Limits) -> Result<Arc<Self>, ConnectError> {
        let patience = settings.response_timeout;
        let work = if mode == Mode::None {
            Work::Commands(Plain::open(settings).await?)
        } else {
            let switches = mode.switches(Delivery::Network);
            let (identity, secret) = (Identity::of_seed(&random(&settings)?), random(&settings)?);
            let secret = Secret(u64::from_le_bytes(secret));
            let hub = Arc::new(Hub::new(settings.clone(), identity, secret, switches, limits));
            let net = Net::connect(settings, Arc::clone(&hub)).await?;
            let rounds = Arc::<Rounds>::default();
            let (time, ends) = (Arc::clone(&hub).keep_time(), Arc::clone(&rounds).keep());
            let timer = net.runtime.spawn(async { tokio::join!(time, ends) }).abort_handle();
            Work::Transactions { hub, net, rounds, timer }
        };
        let began = std::time::Instant::now();
        Ok(Arc::new(Cluster { mode, limits, restarts: AtomicU64::new(0), patience, began, work }))
    }

    // --- getters ---

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn restarts(&self) -> &AtomicU64 {
        &self.restarts
    }

    /// How long the end of an attempt is waited for that was withdrawn.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn now(&self) -> Time {
        match &self.work {
            Work::Transactions { hub, .. } => hub.now(),
            Work::Commands(_) => Time(self.began.elapsed().as_micros() as u64),
        }
    }

    pub(crate) fn timer(&self, after: Duration) -> Timer {
        match &self.work {
            // Made for those who have waited for a while: few.
            Work::Transactions { net, .. } => Timer::Away(Away::new(&net.runtime, after)),
            Work::Commands(plain) => {
                let _entered = plain.runtime().enter();
                Timer::Coarse(Box::pin(tokio::time::sleep(after)))
            }
        }
    }

    /// Wakes this task at the end of the round, whose number this is. `None`: there are no rounds.
    pub(crate) fn join_round(&self, waker: &Waker) -> Option<u64> {
        match &self.work {
            Work::Transactions { rounds, .. } => rounds.join(waker),
            Work::Commands(_) => None,
        }
    }

    /// The addresses of the nodes.
    pub(crate) fn nodes(&self) -> Vec<String> {
        match &self.work {
            Work::Transactions { net, .. } => net.nodes().iter().map(ToString::to_string).collect(),
            Work::Commands(plain) => plain.nodes(),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats { restarts: self.restarts.load(Ordering::Relaxed), ..Stats::default() };
        if let Work::Transactions { hub, .. } = &self.work {
            hub.look(|machine| {
                stats.lock_waits = machine.client.lock_waits();
                stats.combined = machine.client.combined();
                stats.open_attempts = machine.client.live().len() as u64;
            });
        }
        stats
    }

    pub(crate) fn check_invariants(&self) {
        if let Work::Transactions { hub, .. } = &self.work {
            hub.look(|machine| machine.client.check_invariants());
        }
    }

    /// The deadline passed. If some node is known not to answer, that is why.
    pub(crate) fn too_late(&self, after: Duration) -> TransactionError {
        let away = match &self.work {
            Work::Transactions { rounds, .. } if rounds.is_over() => {
                let reason = "the store is closed, or the runtime that it was opened on has ended".into();
                return TransactionError::NoAnswer { after, reason };
            }
            Work::Transactions { hub, net, .. } => net.away().or_else(|| hub.silent(net)),
            Work::Commands(plain) => plain.away(),
        };
        match away {
            Some(error) => TransactionError::NoAnswer { after, reason: error.to_string() },
            None => TransactionError::Deadline(after),
        }
    }

    /// The pause before an attempt that was refused like this is run again.
    pub(crate) fn pause_after(&self, refusal: &Refusal) -> Option<(u64, u64)> {
        match refusal {
            Refusal::Withdrawn | Refusal::Recovered | Refusal::Operation { .. } => None,
            _ => Some(REST_US),
        }
    }

    // --- transactions ---

    pub(crate) fn seat(&self, mailbox: &Arc<Mailbox>) -> Seat {
        match &self.work {
            Work::Transactions { hub, .. } => {
                Seat::Desk(DeskSeat { hub: Arc::clone(hub), mailbox: Arc::clone(mailbox), tx: None })
            }
            Work::Commands(plain) => Seat::Plain(PlainSeat::new(plain, mailbox)),
        }
    }

    /// Waits until the shards know the end of every transaction, then says farewell to them. Transactions that begin
    /// afterwards wait in vain.
    pub(crate) async fn close(&self) {
        match &self.work {
            Work::Transactions { hub, net, .. } => {
                let until = tokio::time::Instant::now() + self.patience;
                while !hub.look(|machine| machine.client.is_over()) && tokio::time::Instant::now() < until {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                self.leave();
                net.closed(self.patience).await;
            }
            Work::Commands(plain) => plain.close().await,
        }
    }

    fn leave(&self) {
        if let Work::Transactions { hub, net, timer, .. } = &self.work {
            timer.abort();
            net.close();
            hub.visit(|machine, now| machine.client.close(now));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Seat {
    pub(crate) fn execute(
        &mut self,
        attempt: u32,
        buffered: &mut Vec<Placed>,
        call: Placed,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        match self {
            Seat::Desk(seat) => seat.visit(|machine, now, tx| {
                machine.buffer(now, (tx, attempt), buffered)?;
                let (place, op) = call.in_slot();
                machine.client.execute(now, (tx, attempt), place, op, reserve)
            }),
            Seat::Plain(seat) => {
                seat.buffer(buffered);
                Ok(seat.execute(call))
            }
        }
    }

    pub(crate) fn commit(&mut self, attempt: u32, buffered: &mut Vec<Placed>) -> Result<(), Closed> {
        match self {
            Seat::Desk(seat) => seat.visit(|machine, now, tx| {
                machine.buffer(now, (tx, attempt), buffered)?;
                machine.client.commit(now, (tx, attempt))
            }),
            Seat::Plain(seat) => {
                seat.buffer(buffered);
                seat.commit();
                Ok(())
            }
        }
    }

    pub(crate) fn abort(&mut self) {
        match self {
            Seat::Desk(seat) => seat.visit(|machine, now, tx| machine.client.abort(now, tx)),
            Seat::Plain(seat) => seat.abort(),
        }
    }

    /// Plain commands are sent once.
    pub(crate) fn restart(&mut self, ended: u32) -> Result<(), Closed> {
        match self {
            Seat::Desk(seat) => seat.visit(|machine, now, tx| machine.client.restart(now, (tx, ended))),
            Seat::Plain(_) => Err(Closed),
        }
    }

    /// The user is gone.
    pub(crate) fn end(&self) {
        if let Seat::Desk(DeskSeat { hub, tx: Some(tx), .. }) = self {
            hub.visit(|machine, now| machine.abandon(now, *tx));
        }
    }
}

impl DeskSeat {
    /// Does something for the transaction.
    fn visit<R>(&mut self, act: impl FnOnce(&mut Machine, Time, TxHandle) -> R) -> R {
        self.hub.visit(|machine, now| {
            let tx = *self.tx.get_or_insert_with(|| machine.begin(now, &self.mailbox));
            act(machine, now, tx)
        })
    }
}

/// Bytes that nobody can guess, from the operating system.
fn random<const N: usize>(settings: &Settings) -> Result<[u8; N], ConnectError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| ConnectError::Url {
        url: settings.seeds[0].to_string(),
        reason: format!("the operating system gives no random numbers: {error}"),
    })?;
    Ok(bytes)
}
