//! The state of a local cluster, asked of each of its servers.

use std::time::Duration;

use claret_rig::{Node, field, nodes};

use super::{ClusterDir, Description};

/// How long a server may take to answer. One that was stopped never does.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What `claret_state` says where transactions are served.
const SERVED: &str = "ok";

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeStatus {
    /// Its port.
    pub(crate) port: u16,
    /// Its process, if it runs.
    pub(crate) pid: Option<u32>,
    /// What it says, if it answers.
    pub(crate) told: Option<Told>,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Whether it is a master.
    pub(crate) is_master: bool,
    /// How many slots it serves, as it knows.
    pub(crate) slots: u32,
    /// How many keys it has.
    pub(crate) keys: u64,
    /// Memory in use, for people.
    pub(crate) memory: String,
    /// Whether it finds the cluster well.
    pub(crate) is_ok: bool,
    /// The program and its version.
    pub(crate) server: String,
    /// The module's version, if it is loaded.
    pub(crate) module: Option<String>,
    /// Of a master with slots: why it serves no transactions.
    pub(crate) not_served: Option<String>,
    /// Fields of `INFO claret`.
    pub(crate) claret: Vec<(String, u64)>,
}

/// All servers of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// What it is.
    pub(crate) described: Description,
    /// Its servers.
    pub(crate) nodes: Vec<NodeStatus>,
}

impl Status {
    /// Whether every server answers, has the module, finds the cluster well, and serves transactions where it has slots.
    pub(crate) fn is_ok(&self) -> bool {
        let is_well = |told: &Told| told.is_ok && told.module.is_some() && told.not_served.is_none();
        self.nodes.iter().all(|node| node.told.as_ref().is_some_and(is_well))
    }

    /// The sum of a field of `INFO claret` over all servers that have it.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        let told = self.nodes.iter().filter_map(|node| node.told.as_ref());
        told.flat_map(|told| &told.claret).filter(|(field, _)| field == name).map(|(_, value)| value).sum()
    }
}

impl ClusterDir {
    /// How the cluster here stands.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn status(&self) -> Result<Status, String> {
        let described =
            self.described()?.ok_or_else(|| format!("there is no cluster in {}", self.path().display()))?;
        let node = |&port: &u16| {
            let pid = claret_rig::runs_in(&self.node(port), port);
            NodeStatus { port, pid, told: pid.and_then(|_| told(&described.url_at(port), port)) }
        };
        let nodes = described.ports.iter().map(node).collect();
        Ok(Status { described, nodes })
    }
}

fn told(url: &str, port: u16) -> Option<Told> {
    let mut connection = claret_rig::connect_within(url, ANSWER_TIME).ok()?;
    let view = nodes(&mut connection).ok()?;
    let own: &Node = view.iter().find(|node| node.port == port)?;
    let mut ask = |words: &[&str]| claret_rig::query::<String>(&mut connection, words).ok();
    let info = ask(&["INFO", "everything"])?;
    let state = ask(&["CLUSTER", "INFO"])?;
    let of = |name: &str| field(&info, name);
    let (program, version) = match of("valkey_version") {
        Some(version) => ("valkey", version),
        None => ("redis", of("redis_version")?),
    };
    // db0:keys=3,expires=0,avg_ttl=0
    let keys = of("db0").and_then(|db| db.strip_prefix("keys=")?.split(',').next()?.parse().ok());
    let claret = info.lines().filter_map(|line| {
        let (name, value) = line.trim_end().split_once(':')?;
        Some((name.strip_prefix("claret_")?.to_owned(), value.parse().ok()?))
    });
    // A replica serves none by its nature.
    let is_to_serve = own.master.is_none() && own.slot_count() > 0;
    let state_of_shard = || of("claret_state").filter(|state| state != SERVED);
    Some(Told {
        not_served: is_to_serve.then(state_of_shard).flatten(),
        is_master: own.master.is_none(),
        slots: own.slot_count(),
        keys: keys.unwrap_or(0),
        memory: of("used_memory_human")?,
        is_ok: field(&state, "cluster_state").as_deref() == Some("ok"),
        server: format!("{program} {version}"),
        module: module(&info),
        claret: claret.collect(),
    })
}

/// The module's version in `module:name=claret,ver=100,...`, as it is told to the server: three digits of two each.
fn module(info: &str) -> Option<String> {
    let line = info.lines().find_map(|line| line.strip_prefix("module:name=claret,"))?;
    let version: u32 = line.split(',').find_map(|part| part.strip_prefix("ver="))?.trim_end().parse().ok()?;
    Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_module_is_read() {
        let info = "module:name=other,ver=1,api=1\r\nmodule:name=claret,ver=10203,api=1,filters=1\r\n";
        assert_eq!(module(info).as_deref(), Some("1.2.3"));
        assert_eq!(module("redis_version:7.0.15\r\n"), None);
    }
}
