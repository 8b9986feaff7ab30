//! What all connections of a thread share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::limits::GatewayLimits;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::session::Users;

/// See the module's text.
pub(crate) struct Shared {
    pub(crate) users: Users,
    pub(crate) limits: GatewayLimits,
    /// How long WATCH queues for a hot key, and holds it.
    pub(crate) watch: Duration,
    /// How long a connection that ends may write its last answers.
    pub(crate) parting: Duration,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) draining: Arc<Draining>,
    pub(crate) started: Instant,
    pub(crate) logger: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Shared {
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
