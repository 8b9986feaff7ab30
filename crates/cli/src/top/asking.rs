//! The nodes of a cluster, each on a connection of its own: one that is down, has no module or refuses keeps nobody else from
//! being shown.

use std::time::{Duration, Instant};

use claret::Store;
use claret_redis::{Builder, Command, CommandError, ConnectError, Dedicated, ReplyLimits, ServerError};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::answer::Answer;

/// How long a node may take to answer, connecting included.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// The nodes are asked for anew after so long.
const TOPOLOGY_AGE: Duration = Duration::from_secs(5);

/// What a node may send, in bytes: an answer is a lot smaller.
const REPLY_BYTES_MAX: usize = 16 << 20;
const REPLY_ELEMENTS_MAX: usize = 1 << 18;

/// What was read of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeReading {
    pub(crate) node: String,
    /// What it said, or what is wrong and what to do.
    pub(crate) answer: Result<Answer, String>,
}

/// What was read of all nodes, in the order of their addresses.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) nodes: Vec<NodeReading>,
}

struct Node {
    address: String,
    open: Option<Dedicated>,
}

/// A cluster that is looked at.
pub(crate) struct Asking {
    builder: Builder,
    user: String,
    count: u16,
    nodes: Vec<Node>,
    asked: Instant,
}

impl Asking {
    /// Finds the nodes. Each is asked for so many hot keys.
    ///
    /// # Errors
    /// Nobody tells which nodes there are: what is wrong, and what to do.
    pub(crate) async fn begin(url: &str, count: u16) -> Result<Self, String> {
        let mut limits = ReplyLimits::default();
        limits.reply_bytes_max = REPLY_BYTES_MAX;
        limits.reply_elements_max = REPLY_ELEMENTS_MAX;
        let builder = Store::cluster(url).connections().clone().reply_limits(limits);
        let user = user_of(url);
        let mut first = builder.dedicated(None).await.map_err(|error| error.to_string())?;
        let nodes = timeout(ANSWER_TIME, first.nodes()).await.map_err(|_| {
            format!("{} does not answer within {ANSWER_TIME:?}; name another node with --store", first.node())
        })?;
        let nodes = nodes.map_err(|error| match error {
            ConnectError::Denied { node, reason } => format!(
                "{node} does not tell user '{user}' which nodes there are ({reason}); run ACL SETUSER {user} +cluster|slots there"
            ),
            error => error.to_string(),
        })?;
        let mut asking = Asking { builder, user, count, nodes: Vec::new(), asked: Instant::now() };
        asking.adopt(nodes);
        Ok(asking)
    }

    /// Keeps the connections to nodes that are still there.
    fn adopt(&mut self, mut nodes: Vec<String>) {
        nodes.sort();
        nodes.dedup();
        let mut known = std::mem::take(&mut self.nodes);
        let node = |address: String| {
            let at = known.iter().position(|node| node.address == address);
            at.map_or_else(|| Node { address, open: None }, |at| known.swap_remove(at))
        };
        self.nodes = nodes.into_iter().map(node).collect();
    }

    /// Asks all nodes at the same time.
    pub(crate) async fn read(&mut self) -> Reading {
        let mut all = JoinSet::new();
        for (place, node) in std::mem::take(&mut self.nodes).into_iter().enumerate() {
            let (builder, count) = (self.builder.clone(), self.count);
            all.spawn(async move {
                let Node { address, open } = node;
                let (open, answer) = match timeout(ANSWER_TIME, ask(builder, &address, open, count)).await {
                    Ok((open, answer)) => (open, answer),
                    Err(_) => (None, Err(Failed::Silent)),
                };
                (place, Node { address, open }, answer)
            });
        }
        let mut read = all.join_all().await;
        read.sort_by_key(|(place, ..)| *place);
        let mut nodes = Vec::with_capacity(read.len());
        for (_, node, answer) in read {
            let answer = answer.map_err(|failed| failed.told(&self.user));
            nodes.push(NodeReading { node: node.address.clone(), answer });
            self.nodes.push(node);
        }
        let reading = Reading { at: Instant::now(), nodes };
        if self.asked.elapsed() >= TOPOLOGY_AGE || reading.nodes.iter().any(|node| node.answer.is_err()) {
            self.find_nodes().await;
        }
        reading
    }

    /// Nodes come and go. Where nobody tells, those that are known are asked on.
    async fn find_nodes(&mut self) {
        self.asked = Instant::now();
        let mut open = self.nodes.iter_mut().filter_map(|node| node.open.as_mut());
        let Some(first) = open.next() else { return };
        if let Ok(Ok(nodes)) = timeout(ANSWER_TIME, first.nodes()).await {
            self.adopt(nodes);
        }
    }
}

/// Why a node is not shown.
enum Failed {
    Silent,
    Connect(ConnectError),
    Lost(String),
    Refused(ServerError),
    Strange,
}

impl Failed {
    /// What is wrong, and what to do.
    fn told(&self, user: &str) -> String {
        match self {
            Failed::Silent => format!("no answer within {ANSWER_TIME:?}: is it stopped, or busy?"),
            Failed::Connect(ConnectError::Unreachable { reason, .. }) => {
                format!("cannot be reached: {reason}; check that the server runs")
            }
            Failed::Connect(error) => error.to_string(),
            Failed::Lost(reason) => format!("the connection broke: {reason}"),
            Failed::Refused(error) => refused(error, user),
            Failed::Strange => {
                "its answer is not understood: are its module and this program of one version?".into()
            }
        }
    }
}

fn refused(error: &ServerError, user: &str) -> String {
    let text = error.to_string();
    match error.code() {
        "NOPERM" if text.contains("operators") => {
            format!("user '{user}' is no operator; run ACL SETUSER {user} +config|get there")
        }
        "NOPERM" => {
            format!(
                "user '{user}' may not run CLARET.TOP; run ACL SETUSER {user} +claret.top +config|get there"
            )
        }
        // Why: it says so itself.
        "NOTREADY" => text.trim_start_matches("NOTREADY ").to_owned(),
        "ERR" if text.contains("unknown command") => {
            "has no CLARET.TOP; load the module there (loadmodule libclaret_module.so), or a newer one".into()
        }
        _ => text,
    }
}

/// Asks a node, on the connection that there is or on a new one.
async fn ask(
    builder: Builder,
    address: &str,
    open: Option<Dedicated>,
    count: u16,
) -> (Option<Dedicated>, Result<Answer, Failed>) {
    let command = Command::new("CLARET.TOP").arg("COUNT").arg(count.to_string());
    let mut open = match open {
        Some(open) => open,
        None => match builder.dedicated(Some(address)).await {
            Ok(open) => open,
            Err(error) => return (None, Err(Failed::Connect(error))),
        },
    };
    match open.ask(&command).await {
        Ok(reply) => (Some(open), Answer::read(&reply).ok_or(Failed::Strange)),
        Err(CommandError::Server(error)) => (Some(open), Err(Failed::Refused(error))),
        Err(CommandError::Lost { reason, .. }) => (None, Err(Failed::Lost(reason))),
        Err(error) => (None, Err(Failed::Lost(error.to_string()))),
    }
}

/// Whom a URL logs in, as it stands there.
fn user_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
    let user = login.split(':').next().unwrap_or_default();
    if user.is_empty() { "default".to_owned() } else { user.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_named_and_never_the_password() {
        for (url, user) in [
            ("redis://h:1", "default"),
            ("redis://:secret@h:1", "default"),
            ("rediss://shop:sec:r@et@h:1,i:2/?tls-ca=x", "shop"),
        ] {
            assert_eq!(user_of(url), user, "{url}");
        }
    }
}
