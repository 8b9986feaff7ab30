//! The store that is checked, and the servers that are started for it.

use std::path::Path;
use std::sync::Arc;

use claret::{
    Store,
    lab::{Mode, StoreLab},
};
use claret_gateway::Behind;
use claret_rig::{Cluster, Module, RigError, delete_keys_everywhere};

use crate::injection::FaultyCluster;

/// A store, in one of its modes. What was started for it ends with it.
#[derive(Debug)]
pub struct Target {
    mode: Mode,
    /// `None`: in this process.
    url: Option<String>,
    servers: Servers,
}

/// Who looks after the servers.
#[derive(Debug)]
enum Servers {
    /// Nobody here: they are somebody's, or there are none.
    Others,
    /// They were started for the run; kept until it is over.
    Own { _cluster: Cluster },
    /// The same, and faults can strike them.
    Faulty(Arc<FaultyCluster>),
}

fn text(error: RigError) -> String {
    error.to_string()
}

impl Target {
    /// An embedded store.
    pub fn embedded(mode: Mode) -> Self {
        Target { mode, url: None, servers: Servers::Others }
    }

    /// A cluster that is there.
    pub fn at(mode: Mode, url: String) -> Self {
        Target { mode, url: Some(url), servers: Servers::Others }
    }

    /// A cluster that is started for the run, with so many replicas of each shard, of a server program or of the one that
    /// is found.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mode: Mode, shards: u16, replicas: u16, server: Option<&Path>) -> Result<Self, String> {
        let module = Module::find().map_err(text)?;
        let mut options = Cluster::options(shards, replicas).module(module);
        if let Some(server) = server {
            options = options.program(server);
        }
        let cluster = options.start().map_err(text)?;
        Ok(Target { mode, url: Some(cluster.url()), servers: Servers::Own { _cluster: cluster } })
    }

    /// The same, for faults to strike.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_for_faults(
        mode: Mode,
        shards: u16,
        replicas: u16,
        server: Option<&Path>,
    ) -> Result<Self, String> {
        let cluster = FaultyCluster::start(shards, replicas, server)?;
        Ok(Target { mode, url: Some(cluster.url()), servers: Servers::Faulty(Arc::new(cluster)) })
    }

    /// What clients connect to; `None` for a store in this process.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The servers that faults can strike.
    pub(crate) fn cluster(&self) -> Option<Arc<FaultyCluster>> {
        match &self.servers {
            Servers::Faulty(cluster) => Some(Arc::clone(cluster)),
            Servers::Others | Servers::Own { .. } => None,
        }
    }

    /// Connects, also for plain commands where there are clients that use them.
    ///
    /// # Errors
    /// A server does not answer.
    pub(crate) async fn open(
        &self,
        has_plain: bool,
    ) -> Result<(Store, Option<claret_redis::Cluster>), String> {
        let Some(url) = &self.url else {
            return Ok((Store::builder().mode(self.mode).build(), None));
        };
        let builder = || Store::cluster(url).mode(self.mode);
        let store = builder().connect().await.map_err(|error| error.to_string())?;
        if !has_plain {
            return Ok((store, None));
        }
        let plain = builder().connections().connect().await.map_err(|error| error.to_string())?;
        Ok((store, Some(plain)))
    }

    /// What gateways of the run are before: the servers, or this store in this process.
    pub(crate) fn behind(&self, store: &Store) -> Behind {
        match &self.url {
            Some(url) => Behind::Servers(Box::new(Store::cluster(url).mode(self.mode))),
            None => Behind::Store(store.clone()),
        }
    }

    /// Deletes the keys of the run, where the cluster does not go as a whole.
    pub(crate) fn clean(&self, prefix: &str) -> Result<(), String> {
        match (&self.url, &self.servers) {
            (Some(url), Servers::Others) => delete_keys_everywhere(url, &format!("*{prefix}*")).map_err(text),
            (None, _) | (_, Servers::Own { .. } | Servers::Faulty(_)) => Ok(()),
        }
    }
}
