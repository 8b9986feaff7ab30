//! How a log has grown since its last snapshot, and when the next one is due (D6).

use claret_log::LogError;
use parking_lot::{Condvar, Mutex};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Growth {
    since: Mutex<Since>,
    /// A snapshot is due, or the store is closing.
    has_grown: Condvar,
}

/// What is known of the last snapshot.
#[derive(Debug)]
struct Since {
    /// A snapshot is made when the log is so much longer than at the last one...
    after: u64,
    /// ...which was then, or was tried then...
    last: u64,
    /// ...and had so many bytes: it costs no more than the log's growth.
    bytes: u64,
    is_due: bool,
    /// Files of the log before this position go.
    needed_from: Option<u64>,
    /// As of which position the last one is.
    snapshot: u64,
    /// Why the last one was not made.
    error: Option<String>,
}

impl Growth {
    /// Since a snapshot as of this position. The next one is due when the log is so much longer.
    pub(super) fn since(snapshot: u64, after: u64) -> Self {
        let since = Since {
            after,
            last: snapshot,
            bytes: 0,
            is_due: false,
            needed_from: None,
            snapshot,
            error: None,
        };
        Growth { since: Mutex::new(since), has_grown: Condvar::new() }
    }

    /// Waits until a snapshot is due; `false` when the store closes.
    pub(super) fn wait(&self, is_closing: impl Fn() -> bool) -> bool {
        let mut since = self.since.lock();
        while !since.is_due && !is_closing() {
            self.has_grown.wait(&mut since);
        }
        !is_closing()
    }

    /// Whoever waits looks whether the store closes.
    pub(super) fn wake(&self) {
        drop(self.since.lock());
        self.has_grown.notify_all();
    }

    pub(super) fn has_snapshot(&self, base: u64, bytes: u64, log_from: u64) {
        let mut since = self.since.lock();
        (since.last, since.bytes, since.is_due) = (base, bytes, false);
        (since.needed_from, since.snapshot, since.error) = (Some(log_from), base, None);
    }

    /// There was no room for it, or something else went wrong. The next one is due when the log has grown from here on.
    pub(super) fn has_no_snapshot(&self, error: &LogError, synced: u64) {
        let mut since = self.since.lock();
        since.error = Some(error.to_string());
        (since.last, since.is_due) = (synced, false);
    }

    /// Files that are not needed any more stay.
    pub(super) fn keeps_files(&self, error: &LogError) {
        self.since.lock().error = Some(error.to_string());
    }

    /// The log was written up to here: a snapshot may be due. From where on it is needed, if that is new.
    pub(super) fn has_grown_to(&self, position: u64) -> Option<u64> {
        let mut since = self.since.lock();
        if !since.is_due && position.saturating_sub(since.last) >= since.after.max(since.bytes) {
            since.is_due = true;
            self.has_grown.notify_one();
        }
        since.needed_from.take()
    }

    /// As of which position the last snapshot is, and why a later one was not made.
    pub(super) fn snapshot(&self) -> (u64, Option<String>) {
        let since = self.since.lock();
        (since.snapshot, since.error.clone())
    }
}
