//! Where connections wait in commands that block, for whoever ends that (`CLIENT UNBLOCK`).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where a connection waits in a command that blocks, for whoever ends that (`CLIENT UNBLOCK`).
#[derive(Clone, Debug)]
pub(crate) enum WaitsAt {
    /// At a node, with this number of the connection there.
    Node(String, i64),
    /// In the gateway.
    Here(Arc<Unblock>),
}

/// The end of a wait in the gateway.
#[derive(Debug, Default)]
pub(crate) struct Unblock {
    told: Mutex<Option<Ending>>,
    changed: Notify,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As if the time was over.
    Timeout,
    /// With an error.
    Error,
}

impl Unblock {
    /// Ends it. Whether it was not before.
    pub(crate) fn end(&self, how: Ending) -> bool {
        let is_first = self.told.lock().replace(how).is_none();
        self.changed.notify_one();
        is_first
    }

    /// How it ends, once somebody says so.
    pub(crate) async fn told(&self) -> Ending {
        loop {
            if let Some(how) = *self.told.lock() {
                return how;
            }
            self.changed.notified().await;
        }
    }
}
