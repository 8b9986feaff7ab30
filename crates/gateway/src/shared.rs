//! What all connections of a thread share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use claret::{Caller, Store, TxOptions};
use tokio::sync::Notify;

use crate::arriving::Arriving;
use crate::fault::{Fault, no_connection};
use crate::limits::GatewayLimits;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::planted;
use crate::registry::Registry;
use crate::replies::Replies;
use crate::session::Session;
use crate::users::Users;
use crate::watch::WatchMode;

/// See the module's text.
pub(crate) struct Shared {
    pub(crate) users: Users,
    pub(crate) limits: GatewayLimits,
    /// How long whoever has a turn on keys has it, where others want it.
    pub(crate) watch: Duration,
    /// What WATCH is of, unless a connection says so itself.
    pub(crate) watch_mode: WatchMode,
    /// How long a client waits for anything but a command that blocks.
    pub(crate) wait: Duration,
    /// Of all connections, by their numbers: what waits for nodes.
    pub(crate) waiting: RefCell<HashMap<u64, Arc<Replies>>>,
    /// How long a connection that ends may write its last answers.
    pub(crate) parting: Duration,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) arriving: Arc<Arriving>,
    pub(crate) draining: Arc<Draining>,
    pub(crate) started: Instant,
    /// Of this process, as servers have one: 40 digits.
    pub(crate) run_id: String,
    /// Where it listens; 0: at no port.
    pub(crate) port: u16,
    pub(crate) logger: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Shared {
    /// A user's transactions, for somebody who may go. A quarter of the time is left to learn what became of those that are late.
    pub(crate) async fn store_for(&self, session: &Session, caller: &Caller) -> Result<Store, Fault> {
        let store = session.store().await.map_err(|error| Fault::told(no_connection(&error)))?;
        Ok(store.on_behalf_of(caller).with_options(TxOptions::new().deadline(self.deadline())))
    }

    /// How long a transaction of somebody may take who waits.
    pub(crate) fn deadline(&self) -> Duration {
        planted::deadline(self.wait * 3 / 4)
    }

    /// A name that no other process has.
    pub(crate) fn new_run_id() -> String {
        let (high, low): (u128, u32) = (rand::random(), rand::random());
        format!("{high:032x}{low:08x}")
    }

    pub(crate) fn log(&self, line: &str) {
        (self.logger)(line);
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
