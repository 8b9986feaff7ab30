//! Who gets in: a node judges every login, and whether strangers need one. Whatever comes at once, few connections are opened for it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use claret_planted::{Bug, is_planted};
use claret_redis::{Builder, ConnectError, Raw};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use crate::request;
use crate::session::Session;

/// Logins that are judged before it is looked who has gone.
const AT_ONCE_MAX: usize = 64;

/// How long a node has to answer them.
const PATIENCE: Duration = Duration::from_secs(5);

/// How old what is known of strangers may be. Rights that change count within a second for whoever connects.
const FRESH: Duration = Duration::from_millis(500);

/// How long a node has to say whether strangers need a login. Until one has, what was known before counts.
const STRANGER_PATIENCE: Duration = Duration::from_secs(1);

/// How a login ends.
#[derive(Debug)]
pub(crate) enum Verdict {
    In,
    /// In the node's words, with their code.
    Refused(String),
    /// So many wait already.
    TooMany,
    /// No node can be asked.
    Away(ConnectError),
}

/// What a server says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
}

struct Login {
    user: String,
    password: Vec<u8>,
    /// As the client said it: `AUTH` with one word or with two.
    command: Bytes,
    verdict: oneshot::Sender<Verdict>,
}

/// What is known of strangers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strangers {
    pub(crate) get_in: bool,
    /// A node has said so just now.
    pub(crate) is_sure: bool,
    at: Option<Instant>,
}

/// See the module's text.
pub(crate) struct Judge {
    nodes: Rc<Nodes>,
    logins: mpsc::Sender<Login>,
    logins_max: usize,
    metrics: Arc<Metrics>,
    /// Held by whoever asks.
    strangers: Mutex<Strangers>,
    server: RefCell<Option<Server>>,
    /// It is older than 7.2.
    is_old: Cell<bool>,
    task: JoinHandle<()>,
}

/// The nodes, however they are reached.
struct Nodes {
    /// With the gateway's own login.
    builder: Builder,
    /// Its session, which knows all nodes, those that no URL names too.
    home: Rc<Session>,
}

impl Nodes {
    /// A connection to whichever node answers.
    async fn raw(&self, builder: Builder) -> Result<Raw, ConnectError> {
        let builder = builder.resp2();
        let failed = match builder.raw(None).await {
            Err(error) if error.is_retryable() => error,
            done => return done,
        };
        let open = self.home.nodes().and_then(|nodes| nodes.open_plain(crate::resp::Protocol::Resp2));
        for node in open.map(|plain| plain.nodes()).unwrap_or_default() {
            match builder.raw(Some(&node)).await {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        Err(failed)
    }
}

impl Judge {
    /// Before these nodes. Must be called within a local set.
    pub(crate) fn new(builder: Builder, home: Rc<Session>, logins_max: usize, metrics: Arc<Metrics>) -> Self {
        let nodes = Rc::new(Nodes { builder, home });
        let (logins, waiting) =
            mpsc::channel(if is_planted(Bug::LoginsUnbounded) { 1 << 16 } else { logins_max });
        let task = tokio::task::spawn_local(judge(Rc::clone(&nodes), waiting));
        let strangers = Strangers { get_in: false, is_sure: false, at: None };
        Judge {
            nodes,
            logins,
            logins_max,
            metrics,
            strangers: Mutex::new(strangers),
            server: RefCell::default(),
            is_old: Cell::new(false),
            task,
        }
    }

    /// The most logins that wait at once.
    pub(crate) fn logins_max(&self) -> usize {
        self.logins_max
    }

    /// Has a node judge a login, in the words in which the client has said it.
    pub(crate) async fn login(&self, user: &str, password: &[u8], words: &[&[u8]]) -> Verdict {
        Metrics::count(&self.metrics.logins);
        let mut command = BytesMut::new();
        request::write(&mut command, words);
        let (verdict, judged) = oneshot::channel();
        let login =
            Login { user: user.to_owned(), password: password.to_vec(), command: command.freeze(), verdict };
        if self.logins.try_send(login).is_err() {
            Metrics::count(&self.metrics.logins_over);
            return Verdict::TooMany;
        }
        let verdict = judged.await.unwrap_or(Verdict::TooMany);
        if matches!(verdict, Verdict::Refused(_)) {
            Metrics::count(&self.metrics.logins_refused);
        }
        verdict
    }

    /// Whether who has not logged in gets in, as a node says it to a new connection without a login.
    pub(crate) async fn strangers(&self) -> Strangers {
        let mut known = self.strangers.lock().await;
        if known.at.is_some_and(|at| at.elapsed() < FRESH) {
            return *known;
        }
        let asking = self.nodes.raw(self.nodes.builder.clone().without_login());
        let said = match tokio::time::timeout(STRANGER_PATIENCE, asking).await {
            Ok(Ok(_)) => Some(true),
            Ok(Err(ConnectError::Denied { .. })) => Some(false),
            Ok(Err(_)) | Err(_) => None,
        };
        *known = Strangers {
            get_in: said.unwrap_or(known.get_in),
            is_sure: said.is_some(),
            at: Some(Instant::now()),
        };
        *known
    }

    /// What a node says that it is; as it was said before, where none is there.
    pub(crate) fn server(&self) -> Option<Server> {
        self.server.borrow().clone()
    }

    /// Whether it is older than 7.2.
    pub(crate) fn is_old(&self) -> bool {
        self.is_old.get()
    }

    /// Asks a node what it is.
    pub(crate) async fn learn(&self, raw: &mut Raw) {
        let asked = async {
            raw.send(b"*1\r\n$5\r\nHELLO\r\n").await.ok()?;
            server_of(&raw.next().await.ok()?.bytes)
        };
        if let Ok(Some(server)) = tokio::time::timeout(STRANGER_PATIENCE, asked).await {
            self.is_old.set(version(&server.version) < vec![7, 2]);
            *self.server.borrow_mut() = Some(server);
        }
    }

    /// A connection with the gateway's own login.
    pub(crate) async fn own(&self) -> Result<Raw, ConnectError> {
        self.nodes.raw(self.nodes.builder.clone()).await
    }

    /// One with another login.
    pub(crate) async fn with(&self, user: &str, password: &[u8]) -> Result<Raw, ConnectError> {
        self.nodes.raw(self.nodes.builder.clone().login(user, password)).await
    }

    /// One without a login.
    pub(crate) async fn without(&self) -> Result<Raw, ConnectError> {
        self.nodes.raw(self.nodes.builder.clone().without_login()).await
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Judges logins on one connection. It is the connection of whoever got in last, on which nothing else is ever said.
async fn judge(nodes: Rc<Nodes>, mut waiting: mpsc::Receiver<Login>) {
    let mut open: Option<Raw> = None;
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, AT_ONCE_MAX).await > 0 {
        // Those whose client has gone are not asked about.
        let mut logins: VecDeque<Login> =
            batch.drain(..).filter(|login| !login.verdict.is_closed()).collect();
        let mut lost = None;
        while let Some(first) = logins.front() {
            let raw = match open.take() {
                Some(raw) => Ok(raw),
                None => connect(&nodes, first).await,
            };
            let mut raw = match raw {
                Ok(raw) => raw,
                Err(ConnectError::Denied { reason, .. }) => {
                    tell(logins.pop_front(), Verdict::Refused(reason));
                    continue;
                }
                Err(error) => {
                    logins.drain(..).for_each(|login| tell(Some(login), Verdict::Away(error.clone())));
                    break;
                }
            };
            match tokio::time::timeout(PATIENCE, ask(&mut raw, &mut logins)).await {
                Ok(true) => open = Some(raw),
                // The user whose connection it was may have been deleted: once more, on a new one.
                _ if lost.is_none() => lost = Some(raw.node()),
                _ => {
                    let reason = "it did not answer a login".to_owned();
                    let error = ConnectError::Unreachable { node: raw.node(), reason };
                    logins.drain(..).for_each(|login| tell(Some(login), Verdict::Away(error.clone())));
                }
            }
        }
    }
}

/// With the gateway's own login; where that is not right any more, with the one that is to be judged.
async fn connect(nodes: &Nodes, login: &Login) -> Result<Raw, ConnectError> {
    match nodes.raw(nodes.builder.clone()).await {
        Err(ConnectError::Denied { .. }) => {
            nodes.raw(nodes.builder.clone().login(&login.user, &login.password)).await
        }
        done => done,
    }
}

/// Asks about all of them, and tells each; whether the connection holds. Those that are left have no answer. One by one: Valkey 8.0
/// leaves what was sent behind a login that fails until something more is sent.
async fn ask(raw: &mut Raw, logins: &mut VecDeque<Login>) -> bool {
    while let Some(login) = logins.front() {
        if raw.send(&login.command).await.is_err() {
            return false;
        }
        let said = loop {
            match raw.next().await {
                Ok(said) if said.is_push => {}
                Ok(said) => break said,
                Err(_) => return false,
            }
        };
        let verdict = match said.bytes.strip_prefix(b"-") {
            None => Verdict::In,
            Some(error) => Verdict::Refused(String::from_utf8_lossy(error).trim_end().to_owned()),
        };
        tell(logins.pop_front(), verdict);
    }
    true
}

/// Whoever has gone hears nothing.
fn tell(login: Option<Login>, verdict: Verdict) {
    if let Some(login) = login {
        let _ = login.verdict.send(verdict);
    }
}

/// The numbers of a version, to be compared.
pub(crate) fn version(text: &str) -> Vec<u64> {
    text.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// What the answer to HELLO says of the server, as an array: `server`, its name, `version`, its version, and more.
fn server_of(answer: &[u8]) -> Option<Server> {
    let text = std::str::from_utf8(answer).ok()?;
    let lines: Vec<&str> = text.split("\r\n").collect();
    // A word is a line with its length and a line.
    let behind = |name: &str| {
        let at = lines.iter().position(|line| *line == name)?;
        lines.get(at + 2).map(|line| (*line).to_owned())
    };
    Some(Server { name: behind("server")?, version: behind("version")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_what_it_is() {
        let said =
            b"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n";
        assert_eq!(server_of(said), Some(Server { name: "redis".into(), version: "7.0.15".into() }));
        for said in [&b"-NOAUTH no\r\n"[..], b"*2\r\n$6\r\nserver\r\n", b"\xff"] {
            assert_eq!(server_of(said), None);
        }
    }
}
