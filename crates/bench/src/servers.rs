//! Real servers to run on: a cluster and a single server, the user's or started for the run.
//!
//! Each mode has keys of its own, which begin with the number of the run and of the mode. Only these are deleted at the end:
//! the cluster may be somebody's.

use std::collections::BTreeSet;

use claret_rig::{
    Cluster, Module, RigError, SecretFile, Server, connect, delete_keys, delete_keys_everywhere, nodes,
};
use rand::RngExt;

use crate::mode::{BenchMode, Engine};
use crate::ways;

/// Where a cluster is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSource {
    /// A throw-away cluster of so many shards.
    Own(u16),
    /// Somebody's, by its URL.
    Url(String),
}

/// A cluster, or a server beside it, or both: what the modes of a comparison need.
#[derive(Debug)]
pub struct Servers {
    /// The run's number.
    run: String,
    /// What `store` says in the output.
    pub(super) name: &'static str,
    pub(super) url: Option<String>,
    pub(super) shards: u32,
    pub(super) single: Option<String>,
    pub(super) backoff: Option<(u64, u64)>,
    /// Kept for as long as they are needed.
    cluster: Option<Cluster>,
    _secret: Option<SecretFile>,
    _server: Option<Server>,
}

impl Servers {
    /// Finds or starts what these modes need.
    ///
    /// # Errors
    /// Something cannot be started, or does not answer.
    pub fn new(
        source: &ClusterSource,
        single: Option<String>,
        modes: &[BenchMode],
        backoff: Option<(u64, u64)>,
    ) -> Result<Self, String> {
        let text = |error: RigError| error.to_string();
        let is_single = |mode: &BenchMode| matches!(mode.engine, Engine::Redis(scheme) if scheme.is_single());
        let mut servers = Servers {
            run: format!("{:08x}", rand::rng().random::<u32>()),
            name: "redis",
            url: None,
            shards: 0,
            single,
            backoff,
            cluster: None,
            _secret: None,
            _server: None,
        };
        if !modes.iter().all(is_single) {
            match source {
                ClusterSource::Own(shards) => {
                    let module = Module::find().map_err(text)?;
                    let mut options = Cluster::options(*shards, 0).module(module);
                    // Nodes that hand commits on to each other know each other by it.
                    if modes.iter().any(|mode| matches!(mode.engine, Engine::InWay(_))) {
                        let secret = SecretFile::write().map_err(text)?;
                        options = options.config(&secret.setting());
                        servers._secret = Some(secret);
                    }
                    let settings: BTreeSet<&str> =
                        modes.iter().flat_map(|mode| ways::server_settings(mode.name)).collect();
                    for setting in settings {
                        options = options.config(setting);
                    }
                    let cluster = options.start().map_err(text)?;
                    servers.url = Some(cluster.url());
                    servers.cluster = Some(cluster);
                    servers.name = "cluster";
                    servers.shards = u32::from(*shards);
                }
                ClusterSource::Url(url) => {
                    let view = nodes(&mut connect(url).map_err(text)?).map_err(text)?;
                    servers.shards = view.iter().filter(|node| !node.slots.is_empty()).count() as u32;
                    servers.url = Some(url.clone());
                }
            }
        }
        if servers.single.is_none() && modes.iter().any(is_single) {
            let server = Server::start().map_err(text)?;
            servers.single = Some(server.url());
            servers._server = Some(server);
        }
        Ok(servers)
    }

    /// What the keys of a mode begin with.
    pub fn prefix(&self, number: usize) -> String {
        format!("{}:{number}:", self.run)
    }

    /// Deletes the keys of a mode.
    ///
    /// # Errors
    /// A server does not answer; what it held is still there.
    pub(super) fn clean(&self, number: usize, is_single: bool) -> Result<(), String> {
        let all = if is_single { &self.single } else { &self.url };
        let Some(url) = all else { return Ok(()) };
        let pattern = format!("*{}*", self.prefix(number));
        let deleted = match (is_single, &self.cluster) {
            (true, _) => delete_keys(url, &pattern),
            // It goes as a whole.
            (false, Some(_)) => Ok(()),
            (false, None) => delete_keys_everywhere(url, &pattern),
        };
        deleted.map_err(|error| error.to_string())
    }
}
