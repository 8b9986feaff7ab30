//! Users: each has a store and connections to the nodes of its own, so that the nodes judge what it may do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use claret::Store;
use claret::cluster::{ClusterBuilder, ConnectError, Plain, Raw};
use tokio::sync::OnceCell;

use crate::answer::Protocol;
use crate::hot::HotKeys;
use crate::turns::Turns;

/// Idle connections that are kept for transactions on one node, for each node.
const SPARE_MAX: usize = 8;

/// Passwords of one user that are in use at once. Where a user needs none, all are right, and must not use up what others need.
const PASSWORDS_MAX: usize = 8;

/// Where a user's records are.
pub(crate) enum Backing {
    /// On nodes, which do what is no operation of Claret's types.
    Nodes(Box<Nodes>),
    /// In this process.
    Here(Store),
}

/// A user's connections to the nodes.
pub(crate) struct Nodes {
    builder: ClusterBuilder,
    store: OnceCell<Store>,
    old: OnceCell<Plain>,
    new: OnceCell<Plain>,
    /// By node and protocol.
    spare: RefCell<HashMap<(String, bool), Vec<Raw>>>,
}

impl Nodes {
    pub(crate) fn new(builder: ClusterBuilder) -> Self {
        Nodes {
            builder,
            store: OnceCell::new(),
            old: OnceCell::new(),
            new: OnceCell::new(),
            spare: RefCell::default(),
        }
    }

    /// The connections for plain commands of a client that speaks this.
    pub(crate) async fn plain(&self, protocol: Protocol) -> Result<&Plain, ConnectError> {
        match protocol {
            Protocol::Resp2 => {
                self.old.get_or_try_init(|| self.builder.clone().resp2().connect_plain()).await
            }
            Protocol::Resp3 => self.new.get_or_try_init(|| self.builder.clone().connect_plain()).await,
        }
    }

    /// The same, if they are there.
    pub(crate) fn open_plain(&self, protocol: Protocol) -> Option<&Plain> {
        match protocol {
            Protocol::Resp2 => self.old.get(),
            Protocol::Resp3 => self.new.get(),
        }
    }

    fn builder_of(&self, protocol: Protocol) -> ClusterBuilder {
        match protocol {
            Protocol::Resp2 => self.builder.clone().resp2(),
            Protocol::Resp3 => self.builder.clone(),
        }
    }

    /// A connection to a node for one client alone.
    pub(crate) async fn raw(&self, protocol: Protocol, node: &str) -> Result<Raw, ConnectError> {
        self.builder_of(protocol).raw(Some(node)).await
    }

    /// One that may have been used before; give it back with [`Nodes::give_back`] when nothing is open on it.
    pub(crate) async fn borrow(&self, protocol: Protocol, node: &str) -> Result<Raw, ConnectError> {
        let key = (node.to_owned(), protocol == Protocol::Resp3);
        loop {
            let spare = self.spare.borrow_mut().get_mut(&key).and_then(Vec::pop);
            let Some(mut raw) = spare else { return self.raw(protocol, node).await };
            // One that has something to say without being asked was closed, or is not what it should be. (A timeout of zero takes up to
            // a millisecond.) What has arrived is known once the runtime has looked.
            tokio::task::yield_now().await;
            let is_quiet = tokio::select! {
                biased;
                _ = raw.next() => false,
                () = std::future::ready(()) => true,
            };
            if is_quiet {
                return Ok(raw);
            }
        }
    }

    pub(crate) fn give_back(&self, protocol: Protocol, node: &str, raw: Raw) {
        let key = (node.to_owned(), protocol == Protocol::Resp3);
        let mut spare = self.spare.borrow_mut();
        let of_node = spare.entry(key).or_default();
        if of_node.len() < SPARE_MAX {
            of_node.push(raw);
        }
    }
}

/// A user, shared by its connections.
pub(crate) struct Session {
    pub(crate) backing: Backing,
    pub(crate) hot: RefCell<HotKeys>,
    pub(crate) turns: Rc<RefCell<Turns>>,
}

impl Session {
    pub(crate) fn new(backing: Backing) -> Self {
        Session { backing, hot: RefCell::default(), turns: Rc::default() }
    }

    pub(crate) fn nodes(&self) -> Option<&Nodes> {
        match &self.backing {
            Backing::Nodes(nodes) => Some(nodes),
            Backing::Here(_) => None,
        }
    }

    /// The user's transactions.
    pub(crate) async fn store(&self) -> Result<&Store, ConnectError> {
        match &self.backing {
            Backing::Here(store) => Ok(store),
            Backing::Nodes(nodes) => nodes.store.get_or_try_init(|| nodes.builder.clone().connect()).await,
        }
    }
}

/// Who is logged in, and how the others get in.
pub(crate) struct Users {
    /// Without a login.
    builder: Option<ClusterBuilder>,
    /// Of those who have not said who they are.
    pub(crate) anybody: Option<Rc<Session>>,
    /// With their passwords.
    known: RefCell<HashMap<(String, String), Rc<Session>>>,
    users_max: usize,
}

/// Why somebody does not get in.
#[derive(Debug)]
pub(crate) enum NoEntry {
    /// There are no users in this process.
    NoUsers,
    TooMany,
    Refused(ConnectError),
}

impl Users {
    pub(crate) fn new(builder: Option<ClusterBuilder>, anybody: Option<Session>, users_max: usize) -> Self {
        Users { builder, anybody: anybody.map(Rc::new), known: RefCell::default(), users_max }
    }

    /// Logs somebody in. A node judges each time, whoever is logged in already: passwords change.
    pub(crate) async fn log_in(&self, user: &str, password: &str) -> Result<Rc<Session>, NoEntry> {
        let builder = self.builder.clone().ok_or(NoEntry::NoUsers)?.login(user, password);
        builder.clone().dedicated(None).await.map_err(NoEntry::Refused)?;
        let key = (user.to_owned(), password.to_owned());
        if let Some(session) = self.known.borrow().get(&key) {
            return Ok(Rc::clone(session));
        }
        let mut known = self.known.borrow_mut();
        let of_user = |known: &HashMap<(String, String), Rc<Session>>| {
            known.keys().filter(|(name, _)| name == user).count()
        };
        if known.len() >= self.users_max || of_user(&known) >= PASSWORDS_MAX {
            // Those whose connections are gone.
            known.retain(|_, session| Rc::strong_count(session) > 1);
        }
        if known.len() >= self.users_max || of_user(&known) >= PASSWORDS_MAX {
            return Err(NoEntry::TooMany);
        }
        let session = Session::new(Backing::Nodes(Box::new(Nodes::new(builder))));
        Ok(Rc::clone(known.entry(key).or_insert_with(|| Rc::new(session))))
    }
}
