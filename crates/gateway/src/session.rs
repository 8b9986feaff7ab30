//! A user: it has a store and connections to the nodes of its own, so that the nodes judge what it may do.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Instant;

use claret::Store;
use claret::cluster::ClusterBuilder;
use claret_redis::{Builder, Cluster, ConnectError, Raw};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::hot::HotKeys;
use crate::registry::Entry;
use crate::resp::Protocol;
use crate::turns::Turns;

/// Idle connections that are kept for transactions on one node, for each node.
const SPARE_MAX: usize = 8;

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
    old: OnceCell<Cluster>,
    new: OnceCell<Cluster>,
    /// By node and protocol.
    spare: RefCell<HashMap<(String, bool), Vec<Raw>>>,
    /// When a node last let the user run scripts, by the command.
    pub(crate) may_evaluate: RefCell<HashMap<&'static str, Instant>>,
}

impl Nodes {
    pub(crate) fn new(builder: ClusterBuilder) -> Self {
        Nodes {
            builder,
            store: OnceCell::new(),
            old: OnceCell::new(),
            new: OnceCell::new(),
            spare: RefCell::default(),
            may_evaluate: RefCell::default(),
        }
    }

    /// The connections for plain commands of a client that speaks this.
    pub(crate) async fn plain(&self, protocol: Protocol) -> Result<&Cluster, ConnectError> {
        if let Some(open) = self.open_plain(protocol) {
            return Ok(open);
        }
        // Apart, as it is large, and part of what each client does.
        let connect = || async { self.builder_of(protocol).connect().await };
        match protocol {
            Protocol::Resp2 => Box::pin(self.old.get_or_try_init(connect)).await,
            Protocol::Resp3 => Box::pin(self.new.get_or_try_init(connect)).await,
        }
    }

    /// The same, if they are there.
    pub(crate) fn open_plain(&self, protocol: Protocol) -> Option<&Cluster> {
        match protocol {
            Protocol::Resp2 => self.old.get(),
            Protocol::Resp3 => self.new.get(),
        }
    }

    fn builder_of(&self, protocol: Protocol) -> Builder {
        match protocol {
            Protocol::Resp2 => self.builder.connections().clone().resp2(),
            Protocol::Resp3 => self.builder.connections().clone(),
        }
    }

    /// A connection to a node for one client alone.
    pub(crate) async fn raw(&self, protocol: Protocol, node: &str) -> Result<Raw, ConnectError> {
        Box::pin(self.builder_of(protocol).raw(Some(node))).await
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
    /// The connections that are this user's now, by their numbers.
    members: RefCell<HashMap<u64, Weak<Entry>>>,
    /// The nodes have ended the user's connections, and let it in no more.
    is_over: Cell<bool>,
    /// Sees when they do.
    guard: RefCell<Option<JoinHandle<()>>>,
}

impl Session {
    pub(crate) fn new(backing: Backing) -> Self {
        Session {
            backing,
            hot: RefCell::default(),
            turns: Rc::default(),
            members: RefCell::default(),
            is_over: Cell::new(false),
            guard: RefCell::default(),
        }
    }

    /// This connection is the user's from now on.
    pub(crate) fn admit(&self, entry: &Arc<Entry>) {
        self.members.borrow_mut().insert(entry.id, Arc::downgrade(entry));
        if self.is_over.get() {
            entry.kill();
        }
    }

    /// It is not any more.
    pub(crate) fn dismiss(&self, entry: &Entry) {
        self.members.borrow_mut().remove(&entry.id);
    }

    /// Ends the user's connections, as a server ends those of a user that was deleted.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
        for entry in self.members.borrow_mut().drain().filter_map(|(_, entry)| entry.upgrade()) {
            entry.kill();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// This task ends with it.
    pub(crate) fn guarded_by(&self, task: JoinHandle<()>) {
        if let Some(before) = self.guard.borrow_mut().replace(task) {
            before.abort();
        }
    }

    pub(crate) fn nodes(&self) -> Option<&Nodes> {
        match &self.backing {
            Backing::Nodes(nodes) => Some(nodes),
            Backing::Here(_) => None,
        }
    }

    /// The user's transactions, if they are connected.
    pub(crate) fn open_store(&self) -> Option<&Store> {
        match &self.backing {
            Backing::Here(store) => Some(store),
            Backing::Nodes(nodes) => nodes.store.get(),
        }
    }

    /// The user's transactions.
    pub(crate) async fn store(&self) -> Result<&Store, ConnectError> {
        match (&self.backing, self.open_store()) {
            (_, Some(store)) | (Backing::Here(store), None) => Ok(store),
            (Backing::Nodes(nodes), None) => {
                Box::pin(nodes.store.get_or_try_init(|| nodes.builder.clone().connect())).await
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(task) = self.guard.get_mut().take() {
            task.abort();
        }
    }
}
