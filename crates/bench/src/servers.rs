//! Real servers to run on: a cluster and a server beside it, the user's or throw-away ones.
//!
//! Every contestant has keys of its own, which begin with the number of the run and its own. They are deleted at the
//! end, and nothing else is: the cluster may be somebody's.

use std::time::Duration;

use claret_rig::{Cluster, Module, RigError, Server, connect, nodes};
use rand::RngExt;

use super::mode::{BenchMode, Contender};
use crate::workload::{Choice, Workload};

/// How many keys a step of the deletion looks at.
const SCAN_COUNT: usize = 1_000;

/// How long a server may take to look at so many keys.
const ANSWER_TIME: Duration = Duration::from_secs(30);

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
        if is_single {
            return delete(url, &pattern);
        }
        if self.cluster.is_some() {
            // It goes as a whole.
            return Ok(());
        }
        delete_everywhere(url, &pattern)
    }
}

/// Deletes the keys that look like this on every node of a cluster.
///
/// # Errors
/// A server does not answer; what it held is still there.
pub fn delete_everywhere(url: &str, pattern: &str) -> Result<(), String> {
    let view = connect(url).and_then(|mut open| nodes(&mut open)).map_err(|error| error.to_string())?;
    for node in view.iter().filter(|node| !node.slots.is_empty()) {
        delete(&at(url, &node.host, node.port), pattern)?;
    }
    Ok(())
}

/// The URL of another node: the same user, password and parameters.
fn at(url: &str, host: &str, port: u16) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let login = authority.rsplit_once('@').map_or(String::new(), |(login, _)| format!("{login}@"));
    format!("{scheme}://{login}{host}:{port}{tail}")
}

fn delete(url: &str, pattern: &str) -> Result<(), String> {
    let failed = |error: redis::RedisError| format!("deleting the keys of the run at {url}: {error}");
    let mut open = connect(url).map_err(|error| error.to_string())?;
    open.set_read_timeout(Some(ANSWER_TIME)).map_err(failed)?;
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query(&mut open).map_err(failed)?;
        let mut unlinks = redis::pipe();
        for key in &keys {
            unlinks.cmd("UNLINK").arg(key).ignore();
        }
        if !keys.is_empty() {
            unlinks.query::<()>(&mut open).map_err(failed)?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_are_reached_like_the_first() {
        assert_eq!(at("redis://a:1", "b", 2), "redis://b:2");
        assert_eq!(at("rediss://me:word@a:1/0?x=y", "b", 2), "rediss://me:word@b:2/0?x=y");
    }
}
