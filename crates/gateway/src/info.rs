//! `INFO` of the gateway: what one server would say in its place. What is of the records the nodes say; what is of connections and
//! commands it counts itself.

mod nodes;

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes as Word;
use claret_commands::Answer;

use self::nodes::{OfNodes, human};
use crate::about::SERVER_VERSION;
use crate::client::Client;
use crate::session::Backing;
use crate::shared::Shared;

/// How long all nodes together have to say something.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes a section.
type Section = fn(&Told<'_>, &mut Lines);

/// Sections in their order. All but the last are those of a server.
const SECTIONS: [(&str, Section); 9] = [
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("cluster", |_, lines| lines.add("cluster_enabled", 0)),
    ("gateway", |told, lines| lines.0 += told.shared.metrics.info().trim_start_matches("# Gateway\r\n")),
    ("keyspace", keyspace),
];

/// What there is to tell of.
struct Told<'a> {
    shared: &'a Shared,
    nodes: OfNodes<'a>,
    /// What a node said when it was asked last.
    version: Option<String>,
    is_at_nodes: bool,
}

/// Lines as INFO has them.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

impl Client {
    /// `INFO`, or some of its sections.
    pub(crate) async fn info(&mut self, words: &[Word]) -> Answer {
        let asked: Vec<String> =
            words[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
        let has = |name: &str| {
            let is_meant =
                |it: &String| it == name || matches!(it.as_str(), "all" | "everything" | "default");
            asked.is_empty() || asked.iter().any(is_meant)
        };
        let asks_nodes =
            SECTIONS.iter().any(|(name, _)| !matches!(*name, "clients" | "cluster" | "gateway") && has(name));
        let said = if asks_nodes { self.said_by_nodes().await } else { Vec::new() };
        let told = Told {
            shared: &self.shared,
            nodes: OfNodes::read(said.iter().map(String::as_str)),
            version: self.shared.users.server().map(|server| server.version),
            is_at_nodes: self.session.as_ref().is_some_and(|session| session.nodes().is_some()),
        };
        let mut text = String::new();
        for (name, lines_of) in SECTIONS.iter().filter(|(name, _)| has(name)) {
            let mut lines = Lines(String::new());
            lines_of(&told, &mut lines);
            if !lines.0.is_empty() {
                let title = name[..1].to_ascii_uppercase() + &name[1..];
                let _ = write!(text, "# {title}\r\n{}\r\n", lines.0);
            }
        }
        Answer::Verbatim(text.into())
    }

    /// What the nodes answer that may be asked, in time.
    async fn said_by_nodes(&self) -> Vec<String> {
        let mut said = Vec::new();
        let Some(session) = self.session.clone() else { return said };
        let Backing::Nodes(nodes) = &session.backing else { return said };
        let Ok(plain) = nodes.plain(self.state.protocol).await else { return said };
        let until = tokio::time::Instant::now() + PATIENCE;
        for node in plain.nodes() {
            let asked = crate::query::at(plain, &node, &[b"INFO"], true);
            if let Ok(Ok(answer)) = tokio::time::timeout_at(until, asked).await
                && !answer.starts_with(b"-")
            {
                said.push(String::from_utf8_lossy(&answer).into_owned());
            }
        }
        said
    }
}

/// As the oldest node says it, but for what is of the process.
fn server(told: &Told<'_>, lines: &mut Lines) {
    const OF_NODES: [&str; 15] = [
        "redis_version",
        "server_name",
        "valkey_version",
        "valkey_release_stage",
        "redis_git_sha1",
        "redis_git_dirty",
        "redis_build_id",
        "os",
        "arch_bits",
        "monotonic_clock",
        "multiplexing_api",
        "atomicvar_api",
        "gcc_version",
        "hz",
        "configured_hz",
    ];
    let node = told.nodes.oldest();
    for name in OF_NODES {
        let own = || match name {
            "redis_version" => Some(told.version.clone().unwrap_or_else(|| SERVER_VERSION.to_owned())),
            "redis_git_sha1" => Some("00000000".to_owned()),
            "redis_git_dirty" => Some("0".to_owned()),
            "redis_build_id" => Some("0".to_owned()),
            "os" => Some(format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
            "arch_bits" => Some(usize::BITS.to_string()),
            _ => None,
        };
        let said = node.map(|node| node.get(name).map(|value| (*value).to_owned()));
        if let Some(value) = said.flatten().or_else(own) {
            lines.add(name, value);
        }
    }
    let shared = told.shared;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let up = shared.identity.started.elapsed().as_secs();
    lines.add("redis_mode", "standalone");
    lines.add("claret_gateway_version", env!("CARGO_PKG_VERSION"));
    lines.add("process_id", std::process::id());
    lines.add("run_id", &shared.identity.run_id);
    lines.add("tcp_port", shared.identity.port);
    lines.add("server_time_usec", now.as_micros());
    lines.add("uptime_in_seconds", up);
    lines.add("uptime_in_days", up / 86_400);
    lines.add("executable", "");
    lines.add("config_file", "");
    lines.add("io_threads_active", 0);
}

fn clients(told: &Told<'_>, lines: &mut Lines) {
    let (shared, of) =
        (told.shared, |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed));
    lines.add("connected_clients", shared.registry.len());
    lines.add("cluster_connections", 0);
    lines.add("maxclients", shared.limits.connections_max);
    lines.add("blocked_clients", of(&shared.metrics.blocked));
    lines.add("tracking_clients", 0);
    lines.add("clients_in_timeout_table", 0);
    lines.add("pubsub_clients", of(&shared.metrics.subscribed));
}

fn memory(told: &Told<'_>, lines: &mut Lines) {
    let Told { nodes, is_at_nodes, .. } = told;
    let rss = own_rss();
    let of = |name: &str| if *is_at_nodes { nodes.sum(name) } else { rss };
    if *is_at_nodes && nodes.is_empty() {
        return;
    }
    for name in ["used_memory", "used_memory_rss", "used_memory_peak"] {
        lines.add(name, of(name));
        lines.add(&format!("{name}_human"), human(of(name)));
    }
    if *is_at_nodes {
        for name in ["used_memory_overhead", "used_memory_startup", "used_memory_dataset", "used_memory_lua"]
        {
            lines.add(name, nodes.sum(name));
        }
    }
    lines.add("maxmemory", nodes.sum("maxmemory"));
    lines.add("maxmemory_human", human(nodes.sum("maxmemory")));
    lines.add("maxmemory_policy", nodes.worst("maxmemory_policy", "noeviction").unwrap_or("noeviction"));
    let fragmentation = of("used_memory_rss") as f64 / of("used_memory").max(1) as f64;
    lines.add("mem_fragmentation_ratio", format!("{fragmentation:.2}"));
}

/// How much memory this process has, in bytes; 0 where the system does not say.
fn own_rss() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

fn persistence(told: &Told<'_>, lines: &mut Lines) {
    let nodes = &told.nodes;
    lines.add("loading", nodes.max("loading").unwrap_or(0));
    lines.add("async_loading", nodes.max("async_loading").unwrap_or(0));
    lines.add("rdb_changes_since_last_save", nodes.sum("rdb_changes_since_last_save"));
    for name in ["rdb_bgsave_in_progress", "rdb_last_save_time", "aof_enabled", "aof_rewrite_in_progress"] {
        lines.add(name, nodes.max(name).unwrap_or(0));
    }
    for name in ["rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"] {
        lines.add(name, nodes.worst(name, "ok").unwrap_or("ok"));
    }
}

fn stats(told: &Told<'_>, lines: &mut Lines) {
    let metrics = &told.shared.metrics;
    lines.add("total_connections_received", metrics.accepted.load(Ordering::Relaxed));
    lines.add("total_commands_processed", metrics.commands());
    lines.add("total_net_input_bytes", metrics.bytes_in.load(Ordering::Relaxed));
    lines.add("total_net_output_bytes", metrics.bytes_out.load(Ordering::Relaxed));
    lines.add("rejected_connections", metrics.rejected.load(Ordering::Relaxed));
    for name in [
        "instantaneous_ops_per_sec",
        "expired_keys",
        "evicted_keys",
        "keyspace_hits",
        "keyspace_misses",
        "pubsub_channels",
        "pubsub_patterns",
    ] {
        lines.add(name, told.nodes.sum(name));
    }
    lines.add("latest_fork_usec", told.nodes.max("latest_fork_usec").unwrap_or(0));
    lines.add("total_error_replies", metrics.errors());
}

/// To its clients it is one server without replicas.
fn replication(told: &Told<'_>, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
    lines.add("master_failover_state", "no-failover");
    lines.add("master_replid", &told.shared.identity.run_id);
    lines.add("master_repl_offset", 0);
}

fn keyspace(told: &Told<'_>, lines: &mut Lines) {
    let (keys, expire, lasts) = told.nodes.keys();
    if keys > 0 {
        lines.add("db0", format!("keys={keys},expires={expire},avg_ttl={lasts}"));
    }
}
