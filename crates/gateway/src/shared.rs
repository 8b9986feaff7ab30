//! What all connections of a thread share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use claret::cluster::ConnectError;
use claret::{Caller, Store, TxOptions};
use claret_commands::Answer;
use claret_planted::{Bug, is_planted};
use tokio::sync::Notify;

use crate::arriving::Arriving;
use crate::channels::Channels;
use crate::fault::{Fault, no_connection, still_there};
use crate::limits::GatewayLimits;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::replies::Replies;
use crate::scripts::{Functions, Scripts, ScriptsMode};
use crate::session::Session;
use crate::users::Users;
use crate::watch::WatchMode;

/// See the module's text.
pub(crate) struct Shared {
    pub(crate) users: Users,
    pub(crate) limits: GatewayLimits,
    pub(crate) modes: Modes,
    pub(crate) scripts: Scripts,
    pub(crate) functions: RefCell<Functions>,
    pub(crate) times: Times,
    /// Of all connections, by their numbers: what waits for nodes.
    pub(crate) waiting: RefCell<HashMap<u64, Arc<Replies>>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) arriving: Arc<Arriving>,
    pub(crate) here: Here,
    pub(crate) draining: Arc<Draining>,
    pub(crate) identity: Identity,
    pub(crate) logger: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What a gateway is started with, and a connection may change for itself.
#[derive(Default)]
pub(crate) struct Modes {
    /// What WATCH is of.
    pub(crate) watch: WatchMode,
    /// Where scripts run.
    pub(crate) scripts: ScriptsMode,
}

/// What servers do otherwise, where the records are in this process.
#[derive(Default)]
pub(crate) struct Here {
    pub(crate) channels: Rc<Channels>,
    /// Tells those who wait for streams that a transaction is over.
    pub(crate) over: Notify,
}

/// How long something takes at most.
pub(crate) struct Times {
    /// Whoever has a turn on keys has it so long, where others want it. Zero: there are no turns.
    pub(crate) watch: Duration,
    /// A client waits so long for anything but a command that blocks.
    pub(crate) wait: Duration,
    /// A connection that ends may write its last answers so long.
    pub(crate) parting: Duration,
}

/// What INFO says of this process.
pub(crate) struct Identity {
    pub(crate) started: Instant,
    /// Of this process, as servers have one: 40 digits. No other process has it.
    pub(crate) run_id: String,
    /// Where it listens; 0: at no port.
    pub(crate) port: u16,
}

/// A client that is not answered for so long may send the same again. Who goes earlier, as one does that waits for no answer, has what it
/// sent carried out by the first connection of its user, too.
const SENT_AGAIN: Duration = Duration::from_secs(1);

/// How long a connection that ends may write its last answers.
const PARTING: Duration = Duration::from_secs(1);

impl Shared {
    /// A user's transactions, for somebody who may go. A quarter of the time is left to learn what became of those that are late.
    pub(crate) async fn store_for(&self, session: &Session, caller: &Caller) -> Result<Store, Fault> {
        let (store, left) = match session.open_store() {
            Some(store) => (store, self.deadline()),
            None => {
                let began = Instant::now();
                let store = self.connected(session.store()).await.map_err(Fault::told)?;
                if began.elapsed() >= SENT_AGAIN {
                    still_there(caller)?;
                }
                (store, self.deadline().saturating_sub(began.elapsed()))
            }
        };
        Ok(store.on_behalf_of(caller).with_options(TxOptions::new().deadline(left)))
    }

    /// What connects to the nodes, in the time of a transaction: nothing is done before. An error is the line for the client.
    pub(crate) async fn connected<T>(
        &self,
        connecting: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, String> {
        let time = self.deadline();
        match tokio::time::timeout(time, connecting).await {
            Ok(connected) => connected.map_err(|error| no_connection(&error)),
            Err(_) => {
                Metrics::count(&self.metrics.late);
                Err(format!(
                    "TRYAGAIN nothing was done: no connection to all nodes within {time:?}, one is silent"
                ))
            }
        }
    }

    /// How long a transaction of somebody may take who waits.
    pub(crate) fn deadline(&self) -> Duration {
        self.times.deadline()
    }

    /// A user's transactions, for somebody who has waited since then.
    pub(crate) fn for_the_rest(&self, store: &Store, began: Instant) -> Store {
        let left = self.deadline().saturating_sub(began.elapsed());
        store.with_options(TxOptions::new().deadline(left))
    }

    /// The line for somebody who has waited for as long as a client may wait.
    pub(crate) fn late(&self, line: String) -> Answer {
        Metrics::count(&self.metrics.late);
        Answer::Error(line)
    }

    pub(crate) fn note_fault(&self, fault: &Fault) {
        if fault.is_late() {
            Metrics::count(&self.metrics.late);
        }
    }

    pub(crate) fn log(&self, line: &str) {
        (self.logger)(line);
    }
}

impl Times {
    /// Those of a gateway with these times for a turn and for a wait.
    pub(crate) fn of(watch: Duration, wait: Duration) -> Self {
        Times { watch, wait, parting: PARTING }
    }

    /// How long a transaction of somebody may take who waits.
    fn deadline(&self) -> Duration {
        let most = self.wait * 3 / 4;
        if is_planted(Bug::ExecWaitsForEver) { 1_000 * most } else { most }
    }

    /// How long somebody waits for the locks of another connection: that one has them for the time of a turn, and perhaps begins anew.
    pub(crate) fn passing(&self) -> Duration {
        (2 * self.watch).min(self.deadline())
    }
}

impl Identity {
    /// Of a process that starts now, and listens at this port.
    pub(crate) fn new(port: u16) -> Self {
        let (high, low): (u128, u32) = (rand::random(), rand::random());
        Identity { started: Instant::now(), run_id: format!("{high:032x}{low:08x}"), port }
    }
}

/// Whether the gateway ends: no connection begins anything then.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    has_begun: AtomicBool,
    begun: Notify,
}

impl Draining {
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        self.begun.notify_waiters();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Returns once it has begun.
    pub(crate) async fn ended(&self) {
        let told = self.begun.notified();
        if !self.has_begun.load(Ordering::Acquire) {
            told.await;
        }
    }
}
