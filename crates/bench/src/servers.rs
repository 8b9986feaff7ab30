//! Real servers to run on: a cluster and a server beside it, the user's or throw-away ones.
//!
//! Every contestant has keys of its own, which begin with the number of the run and its own. They are deleted at the
//! end, and nothing else is: the cluster may be somebody's.

use claret_rig::{Cluster, Module, RigError, Server, connect, delete_keys, delete_keys_everywhere, nodes};
use rand::RngExt;

use super::mode::{BenchMode, Contender};
use crate::workload::{Choice, Workload};

/// How `--store` was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A throw-away cluster of so many shards.
    Own(u16),
    /// Somebody's, by its URL.
    Url(String),
}

/// See the module's text.
#[derive(Debug)]
pub struct Servers {
    choice: Choice,
    /// The run's number.
    run: String,
    /// What `store` says in the output.
    pub(super) name: &'static str,
    pub(super) url: Option<String>,
    pub(super) shards: u32,
    pub(super) single: Option<String>,
    pub(super) pauses: Option<(u64, u64)>,
    /// Kept for as long as they are needed.
    cluster: Option<Cluster>,
    _server: Option<Server>,
}

impl Servers {
    /// Finds or starts what these modes need.
    ///
    /// # Errors
    /// Something cannot be started, or does not answer.
    pub fn new(
        choice: Choice,
        given: &Given,
        single: Option<String>,
        modes: &[BenchMode],
        pauses: Option<(u64, u64)>,
    ) -> Result<Self, String> {
        let text = |error: RigError| error.to_string();
        let is_single =
            |mode: &BenchMode| matches!(mode.contender, Contender::Rival(kind) if kind.is_single());
        let mut servers = Servers {
            choice,
            run: format!("{:08x}", rand::rng().random::<u32>()),
            name: "redis",
            url: None,
            shards: 0,
            single,
            pauses,
            cluster: None,
            _server: None,
        };
        if !modes.iter().all(is_single) {
            match given {
                Given::Own(shards) => {
                    let module = Module::find().map_err(text)?;
                    let cluster = Cluster::options(*shards, 0).module(module).start().map_err(text)?;
                    servers.url = Some(cluster.url());
                    servers.cluster = Some(cluster);
                    servers.name = "cluster";
                    servers.shards = u32::from(*shards);
                }
                Given::Url(url) => {
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

    /// The workload with the keys of one contestant.
    pub(super) fn workload(&self, number: usize) -> Box<dyn Workload> {
        self.choice.make(&self.prefix(number))
    }

    /// What the keys of a contestant begin with.
    pub fn prefix(&self, number: usize) -> String {
        format!("{}:{number}:", self.run)
    }

    /// Deletes the keys of a contestant.
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
