//! Transactions on a cluster, as the store sees them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use claret_core::message::{Refusal, Seen, Undone};
use claret_core::{AttemptId, CallNo, Closed, Limits, Time, TxHandle};
use claret_identity::Identity;
use claret_redis::net::{Net, Service};
use claret_redis::{ConnectError, Secret, slot_of};
use claret_types::{Bytes, Claims, OpError, Operation, Schema};
use smallvec::SmallVec;
use tokio::time::{Instant, sleep};

use super::client::{ClusterClient, Machine};
use super::keys::Listing;
use super::outcomes;
use super::settings::Settings;
use super::timers::Timers;
use crate::backend::{Asking, Backend, Behind, Closing, Driver, InstantOutcome, Task, keys_of};
use crate::call::Call;
use crate::error::{BeginError, BlockedOn, CommitError, Error, Reason};
use crate::mailbox::Mailbox;
use crate::mode::Mode;
use crate::outcome::{Named, Outcome, OutcomeId};
use crate::pages::Pages;
use crate::stats::{Counts, Measured, Stats};

/// Before an attempt runs again that a shard refused for its own sake, in microseconds.
const PAUSE_US: (u64, u64) = (1_000, 100_000);

/// How often it is looked whether all transactions are over, while a store closes.
const CLOSING: Duration = Duration::from_millis(1);

/// What the end of a store is waited for beyond its patience, where nobody drives its runtime.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// A store on a cluster: what its handles share.
#[derive(Debug)]
pub(crate) struct Cluster {
    mode: Mode,
    limits: Limits,
    counts: Counts,
    is_closed: AtomicBool,
    patience: Duration,
    client: Arc<ClusterClient>,
    net: Arc<Net<ClusterClient>>,
    timers: Timers,
}

impl Cluster {
    pub(crate) async fn connect(
        settings: Settings,
        mode: Mode,
        limits: Limits,
    ) -> Result<Self, ConnectError> {
        let patience = settings.redis.response_timeout();
        let switches = mode.over_network(settings.batches, settings.ways.switches());
        let (identity, secret) = (Identity::of_seed(&random(&settings)?), random(&settings)?);
        let secret = Secret(u64::from_le_bytes(secret));
        let client = Arc::new(ClusterClient::new(settings.clone(), identity, secret, switches, limits));
        let net = Net::connect(settings.redis, Arc::clone(&client)).await?;
        let timers = Timers::start(net.runtime().clone(), Arc::clone(&client).keep_time());
        let (counts, is_closed) = (Counts::new(Measured::All), AtomicBool::new(false));
        Ok(Cluster { mode, limits, counts, is_closed, patience, client, net, timers })
    }

    /// Says farewell to the shards.
    fn leave(&self) {
        self.timers.stop();
        self.net.close();
        self.client.visit(|machine, now| machine.client.close(now));
    }
}

impl Backend for Cluster {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn describe(&self, out: &mut fmt::DebugStruct<'_, '_>) {
        let nodes: Vec<String> = self.net.nodes().iter().map(ToString::to_string).collect();
        out.field("nodes", &nodes);
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn stats(&self) -> Stats {
        let counted = self.counts.stats();
        self.client.look(|machine| Stats {
            lock_waits: machine.client.lock_waits(),
            combined: machine.client.combined(),
            open_attempts: machine.client.live().len() as u64,
            ..counted
        })
    }

    fn check_invariants(&self) {
        self.client.look(|machine| machine.client.check_invariants());
    }

    fn schema(&self) -> Option<&Schema> {
        self.client.schema().map(|schema| &schema.0)
    }

    fn knows(&self, op: &Operation) -> Result<(), OpError> {
        knows(op, || self.net.nodes().iter().map(ToString::to_string).collect())
    }

    fn checks_answers(&self) -> bool {
        true
    }

    fn keys(self: Arc<Self>, pattern: Bytes) -> Box<dyn Pages> {
        listing(&self.net, pattern)
    }

    fn instant(&self, calls: &[Call]) -> InstantOutcome {
        instant(calls)
    }

    fn observes(&self) -> bool {
        true
    }

    fn look(
        &self,
        mailbox: &Arc<Mailbox>,
        no: CallNo,
        key: &Bytes,
        ops: SmallVec<[Operation; 1]>,
    ) -> Option<Seen> {
        let place = (slot_of(key), key.clone());
        self.client.visit(|machine, now| machine.look(now, (mailbox, no), place, ops));
        None
    }

    fn leave_looks(&self, mailbox: &Arc<Mailbox>) {
        self.client.look(|machine| machine.leave_looks(mailbox));
    }

    fn outcome(&self, id: &OutcomeId) -> Asking {
        match id.named() {
            Named::Shards(asked) => outcomes::ask(&self.net, asked.clone()),
            _ => Box::pin(std::future::ready(Ok(Outcome::Forgotten))),
        }
    }

    fn commits_by_itself(&self) -> bool {
        true
    }

    fn begin(self: Arc<Self>, mailbox: &Arc<Mailbox>, since: Option<Time>) -> Box<dyn Driver> {
        let (client, mailbox) = (Arc::clone(&self.client), Arc::clone(mailbox));
        Box::new(Remote { client, mailbox, since, tx: None })
    }

    fn pause_after(&self, refusal: &Refusal) -> Option<(u64, u64)> {
        pause_after(refusal)
    }

    fn now(&self) -> Time {
        self.client.now()
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.patience)
    }

    fn too_late(&self, after: Duration) -> Error {
        too_late(after, self.is_closed(), || self.net.away().or_else(|| self.client.silent(&self.net)))
    }

    fn join_tick(&self, time: Duration, waker: &Waker) -> Option<u64> {
        self.timers.join_tick(time, waker)
    }

    fn timer(&self, after: Duration) -> Option<Task<'static>> {
        Some(Box::pin(self.timers.after(after)))
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) || self.timers.are_over()
    }

    /// What a shard did not hear in time it asks the others.
    fn close(&self) -> Closing<'_> {
        self.is_closed.store(true, Ordering::Release);
        self.client.look(|machine| machine.mailboxes()).iter().for_each(|mailbox| mailbox.wake());
        let (client, net, patience) = (Arc::clone(&self.client), Arc::clone(&self.net), self.patience);
        let over = async move {
            let until = Instant::now() + patience;
            while !client.look(|machine| machine.client.is_over()) && Instant::now() < until {
                sleep(CLOSING).await;
            }
        };
        let closed = async move { net.closed(patience).await };
        let over = self.timers.run(patience + GRACE, over);
        Box::pin(async move {
            over.await;
            self.leave();
            self.timers.run(patience + GRACE, closed).await;
            Ok(())
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The driver of a transaction, in the client state machine that all of the process share with their connections. The
/// transaction begins with the first thing that it does there: a batch is one visit.
#[derive(Debug)]
struct Remote {
    client: Arc<ClusterClient>,
    mailbox: Arc<Mailbox>,
    /// It is as old as what began then.
    since: Option<Time>,
    tx: Option<TxHandle>,
}

impl Remote {
    fn visit<R>(&mut self, act: impl FnOnce(&mut Machine, Time, TxHandle) -> R) -> R {
        self.client.visit(|machine, now| {
            let tx = *self.tx.get_or_insert_with(|| {
                let born = self.since.map_or(now, |since| since.min(now));
                machine.begin(born, &self.mailbox)
            });
            act(machine, now, tx)
        })
    }
}

impl Driver for Remote {
    fn execute(
        &mut self,
        attempt: u32,
        buffered: &mut Vec<Call>,
        call: Call,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        let (slots, place) = (slots_of(buffered), (slot_of(&call.key), call.key));
        self.visit(|machine, now, tx| {
            machine.client.buffer_all(now, (tx, attempt), placed(buffered.drain(..), &slots))?;
            machine.client.execute(now, (tx, attempt), place, call.op, reserve)
        })
    }

    fn conflicts_with(&self, key: &Bytes, op: &Operation) -> bool {
        self.tx.is_some_and(|tx| self.client.look(|machine| machine.client.conflicts_with(tx, key, op)))
    }

    fn name(&self) -> Option<AttemptId> {
        self.client.look(|machine| machine.client.attempt(self.tx?))
    }

    fn outcome_id(&mut self) -> Option<OutcomeId> {
        let asked = self.client.visit(|machine, now| machine.client.asked(now, self.tx?))?;
        Some(OutcomeId::new(Named::Shards(asked)))
    }

    fn ask_behind(&mut self) -> bool {
        self.tx.is_some_and(|tx| self.client.visit(|machine, now| machine.client.ask_behind(now, tx)))
    }

    fn is_blocked(&self) -> bool {
        self.client.look(|machine| machine.client.waits(self.tx?)).is_some()
    }

    fn waits_for(&self) -> Vec<Bytes> {
        let waits = self.client.look(|machine| machine.client.waits(self.tx?));
        waits.map(keys_of).unwrap_or_default()
    }

    fn wait(&self, told: Option<&Behind>) -> Option<BlockedOn> {
        let waits = self.client.look(|machine| machine.client.waits(self.tx?))?;
        let time = Duration::from_micros(self.client.now().since(waits.since));
        if let Some((key, holder)) = told {
            return Some(BlockedOn {
                key: key.clone(),
                time,
                holder: holder.map(|holder| holder.to_string()),
            });
        }
        // Of several it is not known which.
        let [(_, key)] = &waits.records[..] else { return None };
        Some(BlockedOn { key: key.clone(), time, holder: None })
    }

    fn commit(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed> {
        let slots = slots_of(buffered);
        self.visit(|machine, now, tx| {
            machine.client.buffer_all(now, (tx, attempt), placed(buffered.drain(..), &slots))?;
            machine.client.commit(now, (tx, attempt))
        })
    }

    fn check(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed> {
        let slots = slots_of(buffered);
        self.visit(|machine, now, tx| {
            machine.client.buffer_all(now, (tx, attempt), placed(buffered.drain(..), &slots))?;
            machine.client.check(now, (tx, attempt))
        })
    }

    fn renounce(&mut self, attempt: u32, refusal: Refusal) -> Result<(), Closed> {
        self.visit(|machine, now, tx| machine.client.renounce(now, (tx, attempt), refusal))
    }

    fn commit_all(&mut self, attempt: u32, calls: &[Call]) -> Result<(), Closed> {
        let slots = slots_of(calls);
        self.visit(|machine, now, tx| {
            machine.client.buffer_all(now, (tx, attempt), placed(calls.iter().cloned(), &slots))?;
            machine.client.commit(now, (tx, attempt))
        })
    }

    fn may_fail_from(&mut self, attempt: u32, inside: Option<CallNo>) -> Result<(), Closed> {
        self.visit(|machine, now, tx| machine.client.may_fail_from(now, (tx, attempt), inside))
    }

    fn undo(&mut self, attempt: u32, from: CallNo) -> Result<(), Closed> {
        self.visit(|machine, now, tx| machine.client.undo(now, (tx, attempt), from))
    }

    fn settle(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        let slots = slots_of(buffered);
        self.visit(|machine, now, tx| {
            machine.client.buffer_all(now, (tx, attempt), placed(buffered.drain(..), &slots))?;
            machine.client.settle_buffered(now, (tx, attempt))
        })
    }

    fn only_check(&mut self, attempt: u32, ranges: &[Undone]) -> Result<(), Closed> {
        self.visit(|machine, now, tx| machine.client.only_check(now, (tx, attempt), ranges))
    }

    fn abort(&mut self) {
        self.visit(|machine, now, tx| machine.client.abort(now, tx));
    }

    fn restart(&mut self, ended: u32) -> Result<(), Closed> {
        self.visit(|machine, now, tx| machine.client.restart(now, (tx, ended)))
    }

    fn end(&mut self, is_over: bool) {
        if let Some(tx) = self.tx.filter(|_| !is_over) {
            self.client.visit(|machine, now| machine.abandon(now, tx));
        }
    }
}

/// The slots of calls, found before the machine is locked, which all transactions share.
fn slots_of(calls: &[Call]) -> SmallVec<[u16; 8]> {
    calls.iter().map(|call| slot_of(&call.key)).collect()
}

/// Calls as the machine takes them, beside the slots of their keys.
fn placed(
    calls: impl Iterator<Item = Call>,
    slots: &[u16],
) -> impl Iterator<Item = ((u16, Bytes), Operation)> {
    calls.zip(slots).map(|(Call { key, op }, slot)| ((*slot, key), op))
}

// --- what both backends of a cluster say ---

/// The keys of all nodes.
pub(super) fn listing<S: Service>(net: &Net<S>, pattern: Bytes) -> Box<dyn Pages> {
    Box::new(Listing::new(net.runtime().clone(), net.settings().clone(), net.nodes(), pattern))
}

/// Every operation takes a message.
pub(super) fn instant(calls: &[Call]) -> InstantOutcome {
    match calls {
        [] => InstantOutcome::Done(Vec::new()),
        _ => InstantOutcome::Blocked,
    }
}

/// Servers execute the built-in types alone. `nodes`: who they are.
pub(super) fn knows(op: &Operation, nodes: impl FnOnce() -> Vec<String>) -> Result<(), OpError> {
    if op.is_builtin() {
        return Ok(());
    }
    Err(OpError::NotOnCluster { kind: op.type_info().name.into(), nodes: nodes().join(", ") })
}

/// The pause before an attempt that was refused like this is run again.
pub(super) fn pause_after(refusal: &Refusal) -> Option<(u64, u64)> {
    refusal.wants_pause().then_some(PAUSE_US)
}

/// The deadline passed. If the store is closed, or a node known not to answer, that is why.
pub(super) fn too_late(
    after: Duration,
    is_closed: bool,
    away: impl FnOnce() -> Option<ConnectError>,
) -> Error {
    if is_closed {
        return Error::Begin(BeginError::Closed);
    }
    match away() {
        Some(error) => Error::Commit(CommitError::NoAnswer { after, reason: Reason::new(error) }),
        None => Error::Commit(CommitError::Deadline { after, blocked_on: None }),
    }
}

/// Bytes that nobody can guess, from the operating system.
fn random<const N: usize>(settings: &Settings) -> Result<[u8; N], ConnectError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| ConnectError::Url {
        url: settings.redis.seeds()[0].to_string(),
        reason: format!("the operating system gives no random numbers: {error}"),
    })?;
    Ok(bytes)
}
