//! `claret cluster`: a local cluster to try things out with, started, shown and stopped.
//!
//! Only the connection string goes to the standard output, so that a script can take it from there.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::watch_interrupts;
use crate::local::{
    Access, ClusterDir, Description, NodeStatus, Options, Password, Say, Status, Told, read_users,
};
use crate::output;
use crate::table::{grouped, table};

/// With replicas: a majority of so many masters is left when one dies.
const SHARDS_MIN: u16 = 3;

const HELP_AFTER: &str = "\
The servers listen on the loopback interface only. Without --tls and --password everybody on this machine may connect to
them. What they hold is in memory: it is gone when they end, and `stop` removes their directories.

Examples:
  claret cluster start --shards 4
  claret cluster start --tls --password
  claret cluster start --replicas 1 --durability strict
  claret bench hot --store $(claret cluster start)
  claret cluster status
  claret cluster start-node
  claret cluster stop";

/// Arguments of `claret cluster`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP_AFTER)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start a cluster with the module loaded, and leave it running.
    Start(Start),
    /// End the cluster and remove what it made, records included.
    Stop(DirArg),
    /// Show its servers; fails when one is not well, or serves no transactions.
    Status(DirArg),
    /// Start servers again that have ended, with their configuration and their place in the cluster; records that no other
    /// server has are gone with them.
    StartNode(StartNode),
}

#[derive(Debug, clap::Args)]
struct Start {
    /// Masters: each holds a part of the keys.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: u16,
    /// Replicas of each; with any there are at least 3 shards, since a majority of the masters elects who takes over.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=5))]
    replicas: u16,
    /// What is promised when a node dies: async, what Redis keeps; or strict, all that was reported, for which every
    /// transaction waits for all replicas. So a shard whose node died serves no transactions until that node is back:
    /// 'claret cluster start-node' starts it again.
    #[arg(long, default_value = "async", value_parser = ["async", "strict"])]
    durability: String,
    /// The first port; the others follow, and those of the cluster bus are 10000 above. None may be one that the system
    /// gives to outgoing connections (default: 7000, or the next hundred that is free).
    #[arg(long)]
    port: Option<u16>,
    /// The server program (default: the one in CLARET_SERVER, else redis-server of the PATH).
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// The module's file (default: the one in CLARET_MODULE, else the one beside this program, else the checkout's).
    #[arg(long, value_name = "PATH")]
    module: Option<PathBuf>,
    /// TLS and nothing else, for clients and between the servers, with certificates of an authority made for this
    /// cluster. The URL names the files that a client needs.
    #[arg(long)]
    tls: bool,
    /// With a password for the default user, chosen at random. The URL has it.
    #[arg(long)]
    password: bool,
    /// With the password in the first line of this file: letters and digits.
    #[arg(long, value_name = "PATH", conflicts_with = "password")]
    password_file: Option<PathBuf>,
    /// With the users in this file: a line each, its name and its rules as for ACL SETUSER. Needs a password: without one
    /// everybody is the default user, who may do everything.
    #[arg(long, value_name = "PATH")]
    users: Option<PathBuf>,
    #[command(flatten)]
    at: DirArg,
}

#[derive(Debug, clap::Args)]
struct StartNode {
    /// The server's port (default: all servers that do not run).
    port: Option<u16>,
    #[command(flatten)]
    at: DirArg,
}

#[derive(Debug, clap::Args)]
struct DirArg {
    /// The cluster's directory, which must be empty at the start (default: claret/cluster in XDG_STATE_HOME or in
    /// ~/.local/state).
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let done = match args.action {
        Action::Start(start) => run_start(start),
        Action::Stop(at) => run_stop(at),
        Action::Status(at) => run_status(at),
        Action::StartNode(node) => run_start_node(node),
    };
    done.unwrap_or_else(|error| {
        output::error(error);
        ExitCode::FAILURE
    })
}

fn run_start(start: Start) -> Result<ExitCode, String> {
    let access = start.access()?;
    let Start { shards, replicas, durability, port, server, module, at, .. } = start;
    let is_strict = durability == "strict";
    if is_strict && replicas == 0 {
        return Err("--durability strict needs replicas: add --replicas 1".to_owned());
    }
    if replicas > 0 && shards < SHARDS_MIN {
        return Err(format!(
            "--shards {shards} --replicas {replicas}: no replica could ever take over, since a majority of the masters elects it, and \
             without the dead one there is none; say --shards {SHARDS_MIN} or more, or leave out --replicas"
        ));
    }
    let dir = ClusterDir::new(at.dir)?;
    let options = Options { shards, replicas, port, server, module, access, is_strict };
    let described = watched(|say| dir.start(&options, say))?;
    output::say!("{}", described.url());
    output::tell!("{} is running in {}.", counts(&described), dir.path().display());
    output::tell!("  claret shell --store '{}'", described.url());
    output::tell!("  {}", redis_cli(&described));
    output::tell!("  {}   (ends it; its records go with it)", dir.say_stop());
    Ok(ExitCode::SUCCESS)
}

/// Runs something that tells what goes on, and that Ctrl-C ends.
fn watched<R>(run: impl FnOnce(Say<'_>) -> R) -> R {
    let stop = watch_interrupts();
    let progress = ProgressBar::new_spinner();
    progress.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is well-formed"));
    progress.enable_steady_tick(Duration::from_millis(100));
    let mut say = |what: &str| {
        progress.set_message(what.to_owned());
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let result = run(&mut say);
    progress.finish_and_clear();
    result
}

impl Start {
    /// Who may connect, and how.
    fn access(&self) -> Result<Access, String> {
        let password = match &self.password_file {
            Some(path) => Some(Password::read(path)?),
            None => self.password.then(Password::random),
        };
        let users = self.users.as_ref().map(|path| read_users(path)).transpose()?.unwrap_or_default();
        match users.is_empty() || password.is_some() {
            true => Ok(Access { tls: self.tls, password, users }),
            false => {
                Err("--users needs --password or --password-file: without one everybody is the default user"
                    .into())
            }
        }
    }
}

/// How to look at it with the servers' own program.
fn redis_cli(described: &Description) -> String {
    let login = described.password().map_or(String::new(), |word| format!("REDISCLI_AUTH={word} "));
    let tls = described.certificates().map_or(String::new(), |made| {
        let [certificate, key] = made.client();
        let authority = made.authority();
        format!(
            " --tls --cacert '{}' --cert '{}' --key '{}'",
            authority.display(),
            certificate.display(),
            key.display()
        )
    });
    format!("{login}redis-cli -c -p {}{tls}", described.ports[0])
}

fn run_stop(at: DirArg) -> Result<ExitCode, String> {
    let dir = ClusterDir::new(at.dir)?;
    let described = dir.stop()?;
    output::tell!(
        "{} was stopped, and its directories in {} are removed.",
        counts(&described),
        dir.path().display()
    );
    Ok(ExitCode::SUCCESS)
}

fn run_start_node(StartNode { port, at }: StartNode) -> Result<ExitCode, String> {
    let dir = ClusterDir::new(at.dir)?;
    let (started, status) = watched(|say| dir.start_nodes(port, say))?;
    if started.is_empty() {
        output::tell!("All {} servers in {} run.", status.nodes.len(), dir.path().display());
    }
    for node in status.nodes.iter().filter(|node| started.contains(&node.port)) {
        let role = match &node.told {
            Some(told) if told.is_master => {
                "as a master: what no other server had of its records is gone with its memory"
            }
            Some(_) => "as a replica, with its master's records",
            None => "and does not answer yet",
        };
        output::tell!("127.0.0.1:{} runs again, {role}.", node.port);
    }
    amiss(&status, &dir).lines().for_each(|line| output::tell!("{line}"));
    Ok(if status.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_status(at: DirArg) -> Result<ExitCode, String> {
    let dir = ClusterDir::new(at.dir)?;
    let status = dir.status()?;
    output::say!("{}", status.described.url());
    output::say!("{}, in {}", counts(&status.described), dir.path().display());
    let rows: Vec<_> = status.nodes.iter().map(row).collect();
    let nodes =
        table(&["node", "pid", "role", "slots", "keys", "memory", "server", "module", "state"], &rows);
    output::say!("{}", (nodes + &numbers(&status) + &amiss(&status, &dir)).trim_end());
    Ok(if status.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn counts(described: &Description) -> String {
    let replicas = match described.replicas {
        0 => String::new(),
        1 => ", each with a replica".to_owned(),
        many => format!(", each with {many} replicas"),
    };
    let plural = if described.shards == 1 { "" } else { "s" };
    format!("A cluster of {} shard{plural}{replicas}", described.shards)
}

fn row(node: &NodeStatus) -> Vec<String> {
    let address = format!("127.0.0.1:{}", node.port);
    let pid = node.pid.map_or("-".to_owned(), |pid| pid.to_string());
    let Some(told) = &node.told else {
        let state = if node.pid.is_some() { "does not answer" } else { "does not run" };
        let mut row = vec![address, pid];
        row.extend(["-"; 6].map(str::to_owned));
        row.push(state.to_owned());
        return row;
    };
    vec![
        address,
        pid,
        if told.is_master { "master" } else { "replica" }.to_owned(),
        grouped(told.slots.into()),
        grouped(told.keys),
        told.memory.clone(),
        told.server.clone(),
        told.module.clone().unwrap_or_else(|| "none".to_owned()),
        state(told).to_owned(),
    ]
}

fn state(told: &Told) -> &'static str {
    match (&told.not_served, told.is_ok) {
        (_, false) => "fail",
        (Some(_), true) => "serves nothing",
        (None, true) => "ok",
    }
}

/// A line for each server that serves no transactions where it should, or does not run: why, and what to do.
fn amiss(status: &Status, dir: &ClusterDir) -> String {
    let line = |node: &NodeStatus| {
        let what = match (node.pid, &node.told) {
            (None, _) => format!("it does not run; '{}' starts it again", dir.say("start-node")),
            (Some(_), told) => told.as_ref()?.not_served.clone()?,
        };
        Some(format!("127.0.0.1:{}: {what}\n", node.port))
    };
    status.nodes.iter().filter_map(line).collect()
}

/// What of `INFO claret` tells whether something is amiss, added up.
fn numbers(status: &Status) -> String {
    let shown = [
        ("grants", "grants"),
        ("waits", "waits"),
        ("aborts", "aborts"),
        ("in_doubt", "in doubt"),
        ("held_keys", "keys held now"),
        ("sessions", "sessions"),
    ];
    let of = |(field, name): (&str, &str)| format!("{name} {}", grouped(status.sum(field)));
    format!("{}\n", shown.map(of).join(", "))
}
