//! Who is logged in, and how the others get in (G9).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use claret::cluster::ClusterBuilder;
use claret_redis::{ConnectError, Raw};

use claret_planted::{Bug, is_planted};

use crate::login::{Judge, Server, Verdict};
use crate::session::{Backing, Nodes, Session};

/// Passwords of one user that are in use at once. Where a user needs none, all are right, and must not use up what others need.
const PASSWORDS_MAX: usize = 8;

/// How long it rests before a node is asked again that is away.
const REST: Duration = Duration::from_millis(200);

/// And at most, where it stays away.
const REST_MAX: Duration = Duration::from_secs(5);

/// Who has not logged in.
pub(crate) enum Strangers {
    /// Is the gateway's own user: it is open, or there are no users.
    Home,
    /// Is the nodes' default user, if that one needs no password.
    Judged,
    /// Has to log in.
    Nobody,
}

/// A user and its password.
type Login = (String, Vec<u8>);

/// See the module's text.
pub(crate) struct Users {
    /// The gateway's own user.
    home: Rc<Session>,
    strangers: Strangers,
    /// The user that strangers are.
    anybody: RefCell<Option<Rc<Session>>>,
    /// What nodes say; `None` where the records are in this process.
    at_nodes: Option<AtNodes>,
    /// Of the only user that there is in this process.
    password: Option<Vec<u8>>,
    known: RefCell<HashMap<Login, Rc<Session>>>,
    users_max: usize,
}

pub(crate) struct AtNodes {
    pub(crate) builder: ClusterBuilder,
    pub(crate) judge: Rc<Judge>,
}

/// Why somebody does not get in.
#[derive(Debug)]
pub(crate) enum NoEntry {
    /// In a server's words.
    Told(String),
    TooManyUsers,
    /// So many of this user.
    TooManyPasswords(usize),
    TooManyLogins(usize),
    Away(ConnectError),
}

/// Whom somebody is that has not logged in.
pub(crate) struct Stranger {
    pub(crate) session: Option<Rc<Session>>,
    /// Otherwise it is to be asked again.
    pub(crate) is_sure: bool,
}

impl Users {
    /// Of records in this process.
    pub(crate) fn local(home: Session, password: Option<Vec<u8>>) -> Self {
        let strangers = if password.is_some() { Strangers::Nobody } else { Strangers::Home };
        Self::new(Rc::new(home), strangers, None, password, 0)
    }

    /// Of nodes.
    pub(crate) fn at_nodes(
        home: Rc<Session>,
        strangers: Strangers,
        at_nodes: AtNodes,
        users_max: usize,
    ) -> Self {
        Self::new(home, strangers, Some(at_nodes), None, users_max)
    }

    fn new(
        home: Rc<Session>,
        strangers: Strangers,
        at_nodes: Option<AtNodes>,
        password: Option<Vec<u8>>,
        users_max: usize,
    ) -> Self {
        let (anybody, known) = Default::default();
        Users { home, strangers, anybody, at_nodes, password, known, users_max }
    }

    /// Whom a connection is that says nothing of it. A node is asked, if none was within half a second.
    pub(crate) async fn stranger(&self) -> Stranger {
        let session = match (&self.strangers, &self.at_nodes) {
            (Strangers::Home, _) => Some(Rc::clone(&self.home)),
            (Strangers::Judged, Some(nodes)) => {
                let known = nodes.judge.strangers().await;
                let session = known.get_in.then(|| self.anybody(nodes));
                return Stranger { session, is_sure: known.is_sure };
            }
            (Strangers::Judged | Strangers::Nobody, _) => None,
        };
        Stranger { session, is_sure: true }
    }

    /// Whoever has not logged in has to, whatever the nodes say of it.
    pub(crate) fn keep_strangers_out(&mut self) {
        self.strangers = Strangers::Nobody;
    }

    fn anybody(&self, at_nodes: &AtNodes) -> Rc<Session> {
        let mut anybody = self.anybody.borrow_mut();
        match &*anybody {
            Some(session) if !session.is_over() => Rc::clone(session),
            _ => {
                let session = at_nodes.session(at_nodes.builder.clone().without_login());
                guard(&session, &at_nodes.judge, Whose::Nobodys);
                Rc::clone(anybody.insert(session))
            }
        }
    }

    /// Logs somebody in. A node judges each time, whoever is logged in already: passwords change.
    pub(crate) async fn log_in(&self, user: Option<&[u8]>, password: &[u8]) -> Result<Rc<Session>, NoEntry> {
        let Some(at_nodes) = &self.at_nodes else { return self.log_in_here(user, password) };
        let name = user.unwrap_or(b"default");
        let words = [&b"AUTH"[..], name, password];
        let words = if user.is_some() { words.to_vec() } else { vec![words[0], words[2]] };
        let Ok(text) = std::str::from_utf8(name) else {
            return Err(NoEntry::Told("ERR behind the gateway the name of a user is UTF-8".to_owned()));
        };
        match at_nodes.judge.login(text, password, &words).await {
            Verdict::In => {}
            Verdict::Refused(said) => return Err(NoEntry::Told(said)),
            Verdict::TooMany => return Err(NoEntry::TooManyLogins(at_nodes.judge.logins_max())),
            Verdict::Away(error) => return Err(NoEntry::Away(error)),
        }
        let key = (text.to_owned(), password.to_vec());
        let mut known = self.known.borrow_mut();
        known.retain(|_, session| !session.is_over());
        if let Some(session) = known.get(&key) {
            return Ok(Rc::clone(session));
        }
        let room = |known: &HashMap<Login, Rc<Session>>| {
            let of_user = known.keys().filter(|(user, _)| user == text).count();
            match known.len() {
                _ if of_user >= PASSWORDS_MAX => Err(NoEntry::TooManyPasswords(of_user)),
                all if all >= self.users_max => Err(NoEntry::TooManyUsers),
                _ => Ok(()),
            }
        };
        if room(&known).is_err() {
            // Those whose connections are gone.
            known.retain(|_, session| Rc::strong_count(session) > 1);
        }
        room(&known)?;
        let session = at_nodes.session(at_nodes.builder.clone().login(text, password));
        guard(&session, &at_nodes.judge, Whose::Users(key.clone()));
        known.insert(key, Rc::clone(&session));
        Ok(session)
    }

    /// The only user is `default`, and needs a password if there is one.
    fn log_in_here(&self, user: Option<&[u8]>, password: &[u8]) -> Result<Rc<Session>, NoEntry> {
        let told = |text: &str| Err(NoEntry::Told(text.to_owned()));
        let is_right = match &self.password {
            None if user.is_none() => {
                return told(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration \\
                     is correct?",
                );
            }
            None => true,
            Some(right) => is_same(right, password),
        };
        match is_right && user.is_none_or(|user| user == b"default") {
            true => Ok(Rc::clone(&self.home)),
            false => told("WRONGPASS invalid username-password pair or user is disabled."),
        }
    }

    /// What the nodes say that they are.
    pub(crate) fn server(&self) -> Option<Server> {
        self.at_nodes.as_ref().and_then(|nodes| nodes.judge.server())
    }

    /// Whether the nodes write floats with 17 digits, as servers did before 7.2.
    pub(crate) fn writes_17_digits(&self) -> bool {
        self.at_nodes.as_ref().is_some_and(|nodes| nodes.judge.is_old())
    }

    /// Sees when a node that tells what it is was replaced by another.
    pub(crate) fn watch_home(&self) {
        if let Some(nodes) = &self.at_nodes {
            guard(&self.home, &nodes.judge, Whose::Own);
        }
    }
}

impl AtNodes {
    fn session(&self, builder: ClusterBuilder) -> Rc<Session> {
        Rc::new(Session::new(Backing::Nodes(Box::new(Nodes::new(builder)))))
    }
}

/// In a time that says nothing of where they differ.
fn is_same(right: &[u8], given: &[u8]) -> bool {
    let differs = right.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b));
    right.len() == given.len() && differs == 0
}

/// Whose connection it is by which a guard sees that a node ends those of a user.
enum Whose {
    Own,
    Nobodys,
    Users(Login),
}

impl Whose {
    async fn raw(&self, judge: &Judge) -> Result<Raw, ConnectError> {
        match self {
            Whose::Own => judge.own().await,
            Whose::Nobodys => judge.without().await,
            Whose::Users((user, password)) => judge.with(user, password).await,
        }
    }
}

/// Keeps a connection of the user on which nothing is said. Where a node ends it, and lets the user in no more, the user was deleted,
/// or would have to log in again there: so its connections here end, too.
fn guard(session: &Rc<Session>, judge: &Rc<Judge>, whose: Whose) {
    let (weak, judge) = (Rc::downgrade(session), Rc::downgrade(judge));
    let task = tokio::task::spawn_local(keep_guard(weak, judge, whose));
    session.guarded_by(task);
}

async fn keep_guard(session: Weak<Session>, judge: Weak<Judge>, whose: Whose) {
    let mut rest = REST;
    loop {
        let Some(asked) = judge.upgrade() else { return };
        match whose.raw(&asked).await {
            Ok(mut raw) => {
                let opened = Instant::now();
                if let Whose::Own = whose {
                    asked.learn(&mut raw).await;
                }
                drop(asked);
                while raw.next().await.is_ok() {}
                // A node that ends each at once is not asked without a rest.
                if opened.elapsed() < REST {
                    tokio::time::sleep(REST).await;
                }
                rest = REST;
            }
            Err(ConnectError::Denied { .. }) if !matches!(whose, Whose::Own) => {
                if is_planted(Bug::DeletedUserStays) {
                    return;
                }
                let Some(session) = session.upgrade() else { return };
                return session.end();
            }
            Err(_) => {
                drop(asked);
                tokio::time::sleep(rest).await;
                rest = (2 * rest).min(REST_MAX);
            }
        }
    }
}
