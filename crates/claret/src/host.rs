//! Where the records are: in this process, or on a cluster. What the rest of the crate needs of either, and what
//! both need: a call and its place, and the mailbox in which a transaction hears from others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use claret_core::message::{Refusal, Response};
use claret_core::{Delivery, Event, Limits, Locks, ShardId, Switches, Time};
use claret_types::{Bytes, OpError, Operation, Reply};
use parking_lot::Mutex;
use smallvec::SmallVec;

#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
use crate::embedded::Embedded;
use crate::error::TransactionError;
use crate::timer::Timer;

/// See the module's text. A handle, cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    Embedded(Arc<Embedded>),
    #[cfg(feature = "cluster")]
    Cluster(Arc<Cluster>),
}

impl Host {
    pub(crate) fn mode(&self) -> Mode {
        match self {
            Host::Embedded(store) => store.mode,
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) => cluster.mode(),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        match self {
            Host::Embedded(store) => &store.limits,
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) => cluster.limits(),
        }
    }

    /// The store in this process. Only tools and tests ask, and what is made for it alone.
    pub(crate) fn embedded(&self) -> Option<&Arc<Embedded>> {
        match self {
            Host::Embedded(store) => Some(store),
            #[cfg(feature = "cluster")]
            Host::Cluster(_) => None,
        }
    }

    /// Whether each operation is carried out when it is issued: mode `none` in this process.
    pub(crate) fn does_at_once(&self) -> bool {
        self.embedded().is_some_and(|store| store.mode == Mode::None)
    }

    /// Whether operations of this type can be done here.
    pub(crate) fn knows(&self, op: &Operation) -> Result<(), OpError> {
        if self.embedded().is_some() || op.is_builtin() {
            return Ok(());
        }
        let name = op.type_info().name;
        Err(OpError::Told(format!(
            "a cluster does not know the type '{name}'; use an embedded store for types of your own"
        )))
    }

    pub(crate) fn place(&self, key: Bytes, op: Operation) -> Placed {
        match self {
            Host::Embedded(store) => store.place(key, op),
            #[cfg(feature = "cluster")]
            Host::Cluster(_) => {
                Placed { hash: crate::cluster::slot_of(&key).into(), shard: ShardId(0), key, op }
            }
        }
    }

    /// Carries out calls that are all known, if nobody's claims are in the way and no message is needed for it.
    pub(crate) fn instant(&self, calls: &[Placed]) -> Instantly {
        match self {
            Host::Embedded(store) => store.instant(calls),
            #[cfg(feature = "cluster")]
            Host::Cluster(_) if calls.is_empty() => Instantly::Done(Vec::new()),
            #[cfg(feature = "cluster")]
            Host::Cluster(_) => Instantly::Blocked,
        }
    }

    pub(crate) fn note_restart(&self) {
        let restarts = match self {
            Host::Embedded(store) => &store.restarts,
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) => cluster.restarts(),
        };
        restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// How long the end of an attempt is waited for that was withdrawn; `None`: it comes, since shards are a call away.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self {
            Host::Embedded(_) => None,
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) => Some(cluster.patience()),
        }
    }

    /// The deadline passed; who is known to be in the way.
    pub(crate) fn too_late(&self, after: Duration) -> TransactionError {
        match self {
            Host::Embedded(_) => TransactionError::Deadline(after),
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) => cluster.too_late(after),
        }
    }

    /// The shortest and the longest pause before an attempt that was refused like this is run again, in microseconds;
    /// `None`: at once.
    pub(crate) fn pause_after(&self, refusal: &Refusal) -> Option<(u64, u64)> {
        match (self, refusal) {
            // Shards in this process refuse for what a transaction did, and the next attempt does better.
            (Host::Embedded(_), _) => None,
            #[cfg(feature = "cluster")]
            (Host::Cluster(cluster), refusal) => cluster.pause_after(refusal),
        }
    }

    pub(crate) fn now(&self) -> Time {
        match self {
            Host::Embedded(store) => store.now(),
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) => cluster.now(),
        }
    }

    /// Any number.
    pub(crate) fn jitter(&self) -> u64 {
        self.now().0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }

    /// Wakes this task before a time is over that begins now, and not at once: at the end of the round whose number
    /// this is. `None`: the host does not.
    #[cfg_attr(
        not(feature = "cluster"),
        allow(unused_variables, reason = "there are no rounds in a process")
    )]
    pub(crate) fn join_round(&self, time: Duration, waker: &Waker) -> Option<u64> {
        match self {
            Host::Embedded(_) => None,
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) if time > 2 * crate::cluster::ROUND => cluster.join_round(waker),
            #[cfg(feature = "cluster")]
            Host::Cluster(_) => None,
        }
    }

    /// A timer that may be off by a millisecond and costs little.
    pub(crate) fn timer(&self, after: Duration) -> Timer {
        match self {
            Host::Embedded(_) => Timer::exact(after),
            #[cfg(feature = "cluster")]
            Host::Cluster(cluster) => cluster.timer(after),
        }
    }
}

/// What the store does about concurrency (P70). The default is what serves best; the others exist for measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// No transactions: each operation is applied at once, by itself. Promises nothing. On a cluster these are plain
    /// Redis commands, over connections that are multiplexed and pipelined like those of transactions.
    None,
    /// Reader/writer locks; a refused lock is retried after a pause.
    ReaderWriter,
    /// Reader/writer locks with phases.
    ReaderWriterPhase,
    /// Abstract locks; a refused lock is retried after a pause.
    Boost,
    /// Abstract locks with phases: the default.
    #[default]
    BoostPhase,
    /// Abstract locks, phases and combining, which spares messages. In the process there are none to spare, and it
    /// costs more than it saves (`docs/performance.md`).
    BoostPhaseCombine,
}

impl Mode {
    pub(crate) fn switches(self, delivery: Delivery) -> Switches {
        let (locks, phasing) = match self {
            Mode::None | Mode::Boost => (Locks::Abstract, false),
            Mode::ReaderWriter => (Locks::ReaderWriter, false),
            Mode::ReaderWriterPhase => (Locks::ReaderWriter, true),
            Mode::BoostPhase | Mode::BoostPhaseCombine => (Locks::Abstract, true),
        };
        Switches { locks, phasing, combining: self == Mode::BoostPhaseCombine, delivery }
    }
}

/// A call, and where it goes. On a cluster the place of a shard may change until the call leaves: there `hash` is the
/// key's slot, and the shard is looked up when it does.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) hash: u64,
    pub(crate) shard: ShardId,
    pub(crate) key: Bytes,
    pub(crate) op: Operation,
}

#[cfg(feature = "cluster")]
impl Placed {
    /// On a cluster: the slot and key, and the operation.
    pub(crate) fn in_slot(self) -> ((u16, Bytes), Operation) {
        ((self.hash as u16, self.key), self.op)
    }
}

/// What an instant transaction came to.
pub(crate) enum Instantly {
    Done(Vec<Reply>),
    /// Somebody's claims are in the way; nothing was done.
    Blocked,
    Failed {
        key: Bytes,
        error: OpError,
    },
}

/// Responses for a transaction from shards that others called.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inner: Mutex<MailboxInner>,
}

#[derive(Debug, Default)]
struct MailboxInner {
    responses: Vec<(ShardId, Response)>,
    /// Mostly one at a time.
    events: SmallVec<[Event; 1]>,
    wakers: SmallVec<[Waker; 1]>,
}

impl Mailbox {
    /// Takes what has come.
    pub(crate) fn take(&self) -> Vec<(ShardId, Response)> {
        std::mem::take(&mut self.inner.lock().responses)
    }

    /// Takes the events that have come.
    pub(crate) fn take_events(&self) -> SmallVec<[Event; 1]> {
        let mut inner = self.inner.lock();
        if inner.events.is_empty() { SmallVec::new() } else { std::mem::take(&mut inner.events) }
    }

    /// Wakes this task when something comes. Returns whether something is there already.
    pub(crate) fn watch(&self, waker: &Waker) -> bool {
        let mut inner = self.inner.lock();
        if !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        !(inner.responses.is_empty() && inner.events.is_empty())
    }

    /// Wakes everybody who watches: the transaction's state changed in another of its tasks.
    pub(crate) fn wake(&self) {
        let wakers = std::mem::take(&mut self.inner.lock().wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn put_event(&self, event: Event, woken: &mut SmallVec<[Waker; 8]>) {
        let mut inner = self.inner.lock();
        inner.events.push(event);
        inner.wake_into(woken);
    }

    pub(crate) fn put(&self, from: ShardId, response: Response, woken: &mut SmallVec<[Waker; 8]>) {
        let mut inner = self.inner.lock();
        inner.responses.push((from, response));
        inner.wake_into(woken);
    }
}

impl MailboxInner {
    fn wake_into(&mut self, woken: &mut SmallVec<[Waker; 8]>) {
        for waker in self.wakers.drain(..) {
            woken.push(waker);
        }
    }
}
