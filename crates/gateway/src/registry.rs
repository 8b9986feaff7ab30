//! All connections of the gateway, for CLIENT LIST, CLIENT KILL and CLIENT UNBLOCK.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// What is known of one connection.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) address: String,
    since: Instant,
    told: Mutex<Told>,
    is_killed: AtomicBool,
    kill: Notify,
    /// The node at which it waits in a blocking command, and the number of its connection there. Whoever ends that holds it: until
    /// then the connection is used for nothing else.
    waits_at: tokio::sync::Mutex<Option<(String, i64)>>,
}

#[derive(Debug)]
struct Told {
    name: String,
    user: String,
    library: String,
    library_version: String,
    last: &'static str,
    last_at: Instant,
    protocol: u8,
}

impl Entry {
    /// The command that runs.
    pub(crate) fn note(&self, name: &'static str, at: Instant) {
        let mut told = self.told.lock();
        (told.last, told.last_at) = (name, at);
    }

    pub(crate) fn set_name(&self, name: &str) {
        self.told.lock().name = name.to_owned();
    }

    pub(crate) fn name(&self) -> String {
        self.told.lock().name.clone()
    }

    pub(crate) fn set_user(&self, user: &str) {
        self.told.lock().user = user.to_owned();
    }

    pub(crate) fn set_protocol(&self, protocol: u8) {
        self.told.lock().protocol = protocol;
    }

    pub(crate) fn set_library(&self, name: Option<&str>, version: Option<&str>) {
        let mut told = self.told.lock();
        if let Some(name) = name {
            told.library = name.to_owned();
        }
        if let Some(version) = version {
            told.library_version = version.to_owned();
        }
    }

    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.kill.notify_waiters();
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    pub(crate) async fn waits_at(&self, place: Option<(String, i64)>) {
        *self.waits_at.lock().await = place;
    }

    /// Where it waits; it goes on waiting, or has its answer, until this is dropped.
    pub(crate) async fn waiting(&self) -> tokio::sync::MutexGuard<'_, Option<(String, i64)>> {
        self.waits_at.lock().await
    }

    pub(crate) fn user(&self) -> String {
        self.told.lock().user.clone()
    }

    /// Returns once somebody has killed it.
    pub(crate) async fn killed(&self) {
        let told = self.kill.notified();
        if !self.is_killed.load(Ordering::Acquire) {
            told.await;
        }
    }

    /// As `CLIENT LIST` shows it.
    pub(crate) fn line(&self) -> String {
        let told = self.told.lock();
        let idle = told.last_at.elapsed().as_secs();
        format!(
            "id={} addr={} name={} age={} idle={idle} flags=N db=0 user={} lib-name={} lib-ver={} resp={} cmd={}",
            self.id,
            self.address,
            told.name,
            self.since.elapsed().as_secs(),
            told.user,
            told.library,
            told.library_version,
            told.protocol,
            told.last.to_ascii_lowercase(),
        )
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    last: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Entry>>>,
}

impl Registry {
    pub(crate) fn enter(&self, address: String) -> Arc<Entry> {
        let (id, now) = (self.last.fetch_add(1, Ordering::Relaxed) + 1, Instant::now());
        let entry = Arc::new(Entry {
            id,
            address,
            since: now,
            told: Mutex::new(Told {
                name: String::new(),
                user: "default".into(),
                library: String::new(),
                library_version: String::new(),
                last: "",
                last_at: now,
                protocol: 2,
            }),
            is_killed: AtomicBool::new(false),
            kill: Notify::new(),
            waits_at: tokio::sync::Mutex::default(),
        });
        self.all.lock().insert(id, Arc::clone(&entry));
        entry
    }

    pub(crate) fn leave(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Those of a user, a line each.
    pub(crate) fn list(&self, user: &str) -> String {
        let mut text = String::new();
        for entry in self.all.lock().values().filter(|entry| entry.user() == user) {
            let _ = writeln!(text, "{}", entry.line());
        }
        text
    }

    /// Kills those that are meant: how many.
    pub(crate) fn kill(&self, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let all = self.all.lock();
        let meant = all.values().filter(|entry| is_meant(entry));
        meant.map(|entry| entry.kill()).count()
    }

    pub(crate) fn find(&self, id: u64) -> Option<Arc<Entry>> {
        self.all.lock().get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_says_what_a_connection_did_and_when() {
        let registry = Registry::default();
        let entry = registry.enter("127.0.0.1:7".into());
        entry.set_user("ann");
        entry.note("GET", Instant::now() - Duration::from_secs(5));
        let list = registry.list("ann");
        assert!(
            list.contains("addr=127.0.0.1:7 ") && !list.contains(" idle=0 ") && list.contains("cmd=get"),
            "{list}"
        );
        assert_eq!(registry.list("bob"), "");
        registry.leave(entry.id);
        assert_eq!((registry.list("ann").as_str(), registry.len()), ("", 0));
    }
}
