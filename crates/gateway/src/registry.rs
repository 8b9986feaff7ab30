//! All connections of the gateway, for CLIENT LIST, CLIENT KILL and CLIENT UNBLOCK.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::arriving::Arrival;
use crate::waits::WaitsAt;

/// Between which ends a connection is.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// The client's.
    pub(crate) address: String,
    /// The gateway's.
    pub(crate) local: String,
    /// The number of its file in this process; -1 in memory.
    pub(crate) file: i32,
    pub(crate) is_unix: bool,
}

#[cfg(test)]
impl Ends {
    /// Of a connection in memory.
    pub(crate) fn in_memory(address: &str) -> Self {
        Ends { address: address.to_owned(), local: address.to_owned(), file: -1, is_unix: false }
    }
}

/// What a connection is at, for others to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// Commands between MULTI and EXEC; `None` without a MULTI.
    pub(crate) queued: Option<usize>,
    /// Bytes of them.
    pub(crate) queued_bytes: usize,
    /// Keys that it watches.
    pub(crate) watched: usize,
}

type LoadOf = Box<dyn Fn() -> (usize, usize) + Send + Sync>;

/// What is known of one connection.
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) address: String,
    ends: Ends,
    since: Instant,
    /// Channels and patterns that it listens to, and channels of slots.
    listens: [AtomicI64; 2],
    /// How many commands wait for answers, and bytes of answers that are not written; once it is served.
    load: OnceLock<LoadOf>,
    told: Mutex<Told>,
    is_killed: AtomicBool,
    kill: Notify,
    /// What it has the gateway keep, in bytes.
    kept: AtomicUsize,
    /// Why it is closed, if it is for that.
    over: OnceLock<String>,
    /// Its command, as long as no node is known to have it.
    arrival: Mutex<Option<Arrival>>,
    /// Where it waits in a blocking command. Whoever ends that holds it: until then its connection to a node is used for nothing else.
    waits_at: tokio::sync::Mutex<Option<WaitsAt>>,
}

#[derive(Debug)]
struct Told {
    name: String,
    user: String,
    library: String,
    library_version: String,
    last: &'static str,
    /// Its subcommand, where it is known.
    last_sub: &'static str,
    last_at: Instant,
    protocol: u8,
    at: At,
}

impl Entry {
    /// The command that runs.
    pub(crate) fn note(&self, name: &'static str, at: Instant) {
        let mut told = self.told.lock();
        (told.last, told.last_sub, told.last_at) = (name, "", at);
    }

    /// The subcommand that runs.
    pub(crate) fn note_sub(&self, name: &'static str) {
        self.told.lock().last_sub = name;
    }

    /// How to learn how many commands wait for answers, and how many bytes of answers are not written.
    pub(crate) fn note_load(&self, load: impl Fn() -> (usize, usize) + Send + Sync + 'static) {
        let _ = self.load.set(Box::new(load));
    }

    /// What it is at.
    pub(crate) fn note_at(&self, at: At) {
        self.told.lock().at = at;
    }

    /// How many channels and patterns it listens to, and how many channels of slots.
    pub(crate) fn note_listens(&self, counts: [i64; 2]) {
        self.listens.iter().zip(counts).for_each(|(to, count)| to.store(count, Ordering::Relaxed));
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

    /// Whether it listens to channels.
    pub(crate) fn listens(&self) -> bool {
        self.listens.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.kill.notify_waiters();
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    /// It keeps so many bytes more, or less.
    pub(crate) fn keeps(&self, bytes: usize, is_more: bool) {
        match is_more {
            true => self.kept.fetch_add(bytes, Ordering::Relaxed),
            false => self.kept.fetch_sub(bytes, Ordering::Relaxed),
        };
    }

    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// It keeps too much and is closed: whether it was not before.
    pub(crate) fn close_over(&self, why: String) -> bool {
        let is_first = self.over.set(why).is_ok();
        self.kill();
        is_first
    }

    /// Why it is closed, if it keeps too much.
    pub(crate) fn over(&self) -> Option<&str> {
        self.over.get().map(String::as_str)
    }

    /// What it waits for is on its way to a node, or not any more.
    pub(crate) fn arrives(&self, arrival: Option<Arrival>) {
        *self.arrival.lock() = arrival;
    }

    pub(crate) async fn waits_at(&self, place: Option<WaitsAt>) {
        self.arrives(None);
        *self.waits_at.lock().await = place;
    }

    /// Where it waits; it goes on waiting, or has its answer, until this is dropped.
    pub(crate) async fn waiting(&self) -> tokio::sync::MutexGuard<'_, Option<WaitsAt>> {
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

    /// As `CLIENT LIST` shows it: with every field that servers have, since clients read some of them as numbers without looking
    /// whether they are there. What the gateway does not have is 0.
    pub(crate) fn line(&self) -> String {
        let told = self.told.lock();
        let [listens, listens_in_slots] = [0, 1].map(|at| self.listens[at].load(Ordering::Relaxed));
        let At { queued, queued_bytes, watched } = told.at;
        let (waiting, unread) = self.load.get().map_or((0, 0), |load| load());
        let mut cmd = told.last.to_ascii_lowercase();
        if !told.last_sub.is_empty() {
            cmd = format!("{cmd}|{}", told.last_sub);
        }
        let is_blocked = self.waits_at.try_lock().is_ok_and(|waits| waits.is_some());
        let mut flags: String = [
            (listens + listens_in_slots > 0, 'P'),
            (queued.is_some(), 'x'),
            (is_blocked, 'b'),
            (self.ends.is_unix, 'U'),
        ]
        .into_iter()
        .filter_map(|(is_so, flag)| is_so.then_some(flag))
        .collect();
        if flags.is_empty() {
            flags.push('N');
        }
        let multi = queued.map_or(-1, |count| count as i64);
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db=0 sub={listens} psub=0 ssub={listens_in_slots} \
             multi={multi} watch={watched} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem={queued_bytes} rbs=0 rbp=0 obl=0 oll={} omem={unread} \
             tot-mem={} events=r cmd={cmd} user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.ends.local,
            self.ends.file,
            told.name,
            self.since.elapsed().as_secs(),
            told.last_at.elapsed().as_secs(),
            waiting,
            queued_bytes + unread,
            told.user,
            told.protocol,
            told.library,
            told.library_version,
        )
    }
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Registry {
    last: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Entry>>>,
}

impl Registry {
    pub(crate) fn enter(&self, ends: Ends) -> Arc<Entry> {
        let (id, now) = (self.last.fetch_add(1, Ordering::Relaxed) + 1, Instant::now());
        let entry = Arc::new(Entry {
            id,
            address: ends.address.clone(),
            ends,
            since: now,
            listens: Default::default(),
            load: OnceLock::new(),
            told: Mutex::new(Told {
                name: String::new(),
                user: "default".into(),
                library: String::new(),
                library_version: String::new(),
                last: "",
                last_sub: "",
                last_at: now,
                protocol: 2,
                at: At::default(),
            }),
            is_killed: AtomicBool::new(false),
            kill: Notify::new(),
            kept: AtomicUsize::new(0),
            over: OnceLock::new(),
            arrival: Mutex::default(),
            waits_at: tokio::sync::Mutex::default(),
        });
        self.all.lock().insert(id, Arc::clone(&entry));
        entry
    }

    pub(crate) fn leave(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// What those keep that are closed for it, in bytes, and who keeps most of the others.
    pub(crate) fn largest(&self) -> (usize, Option<Arc<Entry>>) {
        let all = self.all.lock();
        let (leaving, staying): (Vec<_>, Vec<_>) = all.values().partition(|entry| entry.over().is_some());
        let leaving = leaving.into_iter().map(|entry| entry.kept()).sum();
        (leaving, staying.into_iter().max_by_key(|entry| entry.kept()).cloned())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Those of a user that are meant, a line each.
    pub(crate) fn list(&self, user: &str, is_meant: impl Fn(&Entry) -> bool) -> String {
        let mut text = String::new();
        for entry in self.all.lock().values().filter(|entry| entry.user() == user && is_meant(entry)) {
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
        let ends =
            Ends { address: "127.0.0.1:7".into(), local: "127.0.0.1:6380".into(), file: 9, is_unix: false };
        let entry = registry.enter(ends);
        entry.set_user("ann");
        entry.note("GET", Instant::now() - Duration::from_secs(5));
        let list = registry.list("ann", |_| true);
        assert!(
            list.contains("addr=127.0.0.1:7 ") && !list.contains(" idle=0 ") && list.contains("cmd=get"),
            "{list}"
        );
        assert_eq!(registry.list("bob", |_| true), "");
        assert_eq!(registry.list("ann", Entry::listens), "");
        registry.leave(entry.id);
        assert_eq!((registry.list("ann", |_| true).as_str(), registry.len()), ("", 0));
    }

    /// Clients read some of them as numbers without looking whether they are there.
    #[test]
    fn a_line_has_every_field_of_a_server_and_says_what_a_connection_is_at() {
        const FIELDS: &str = "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp \
                              obl oll omem tot-mem events cmd user redir resp lib-name lib-ver";
        let ends = Ends { address: "/a:0".into(), local: "/a:0".into(), file: 9, is_unix: true };
        let entry = Registry::default().enter(ends);
        let field = |name: &str| {
            let line = entry.line();
            let mut fields = line.split(' ').filter_map(|field| field.split_once('='));
            fields.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        for name in FIELDS.split_whitespace() {
            assert!(field(name).is_some(), "{name}: {}", entry.line());
        }
        assert_eq!((field("multi").as_deref(), field("flags").as_deref()), (Some("-1"), Some("U")));
        entry.note("CLIENT", Instant::now());
        entry.note_sub("info");
        entry.note_at(At { queued: Some(2), queued_bytes: 30, watched: 1 });
        entry.note_listens([3, 1]);
        let said = ["cmd", "multi", "multi-mem", "watch", "omem", "tot-mem", "sub", "ssub", "flags"];
        let said = said.map(|name| field(name).expect("it is there"));
        assert_eq!(said, ["client|info", "2", "30", "1", "0", "30", "3", "1", "PxU"]);
    }
}
