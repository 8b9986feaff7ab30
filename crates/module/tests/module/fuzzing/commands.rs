//! Random commands of a user with few rights, beside others who must not notice.

use claret_core::ShardId;
use claret_rig::{Cluster, Module, Server, slot_of};

use super::bystanders::Bystanders;
use super::dice::Dice;
use super::eve::Eve;
use super::keys::Keys;
use super::link::{Batch, Link};
use super::{Finding, Options, Progress, Trace, words};

/// Commands that leave together, at most.
const BATCH_MAX: usize = 96;

/// So many commands until the others are looked at.
const CHECK_EVERY: u64 = 3_000;

/// So many until the user leaves, and comes back with other rights.
const ROUND: u64 = 60_000;

/// The connection that also listens.
const LOUD: usize = 2;

const PASSWORD: &str = "pw";

const SETTINGS: [&str; 16] = [
    "claret.lease-ms 500",
    "claret.inquire-ms 5",
    "claret.forget-ms 50",
    "claret.plain-wait-ms 1",
    "claret.reservation-ms 1",
    "claret.poll-ms-max 1",
    "claret.clock-skew-ms 1",
    "claret.user-bytes-max 8388608",
    "claret.shard-bytes-max 33554432",
    "claret.outbox-bytes-max 1048576",
    "proto-max-bulk-len 1mb",
    "acllog-max-len 16",
    "slowlog-max-len 16",
    "client-output-buffer-limit normal 64mb 64mb 60",
    "lua-time-limit 1000",
    "enable-debug-command no",
];

/// What the user may do, besides.
const RIGHTS: [&[&str]; 5] = [
    &["~eve:*", "~{eve:*", "%R~read:*", "%W~write:*", "&claret:eve:*", "+@all", "-@admin", "-@dangerous"],
    &[
        "~eve:*",
        "%R~read:*",
        "&claret:eve:*",
        "+@read",
        "+@write",
        "+@connection",
        "+@transaction",
        "+@scripting",
        "-@dangerous",
        "+ssubscribe",
        "+claret.hello",
        "+claret.frame",
        "+claret.poll",
        "+claret.exec",
        "+claret.outcome",
    ],
    &[
        "~eve:*",
        "%R~read:*",
        "&claret:eve:*",
        "+@all",
        "-@admin",
        "-@dangerous",
        "-set",
        "-incrby",
        "-hset",
        "-zadd",
        "-rpush",
    ],
    &["%R~eve:*", "%R~read:*", "&claret:eve:*", "+@all", "-@admin", "-@dangerous"],
    &["&claret:eve:*", "+@all", "-@admin", "-@dangerous"],
];

/// The nodes: one alone, or two of a cluster.
enum Nodes {
    Alone(Box<Server>),
    Two(Cluster),
}

impl Nodes {
    fn start(options: &Options) -> Result<Nodes, String> {
        let module = Module::of_sources().map_err(|error| error.to_string())?;
        let mut alone = Server::options().module(module.clone());
        let mut two = Cluster::options(2, 0).module(module);
        for line in SETTINGS {
            (alone, two) = (alone.config(line), two.config(line));
        }
        if let Some(program) = &options.server {
            (alone, two) = (alone.program(program), two.program(program));
        }
        match options.nodes {
            1 => alone.start().map(|server| Nodes::Alone(Box::new(server))),
            _ => two.start().map(Nodes::Two),
        }
        .map_err(|error| error.to_string())
    }

    fn all(&self) -> Vec<&Server> {
        match self {
            Nodes::Alone(server) => vec![server],
            Nodes::Two(cluster) => cluster.servers().iter().collect(),
        }
    }

    /// The beginning of accounts at the second node.
    fn far(&self) -> Option<String> {
        let Nodes::Two(_) = self else { return None };
        (0..).map(|number| format!("bank:{{f{number}}}")).find(|name| slot_of(name) >= 8_192)
    }
}

/// A connection of the user.
struct Connection {
    link: Link,
    eve: Eve,
    is_loud: bool,
}

/// See the module's text.
pub(crate) fn run(options: &Options, progress: &mut Progress) -> Result<(), Finding> {
    let nodes = Nodes::start(options).map_err(Finding::untraced)?;
    let keys = Keys::new();
    let mut others = Bystanders::at(&nodes.all(), &keys, nodes.far()).map_err(Finding::untraced)?;
    let mut trace = Trace::default();
    let mut round = options.seed;
    while progress.done < options.executions {
        let ran = a_round(&nodes, &keys, &mut others, Dice::new(round), options, progress, &mut trace);
        if let Err(what) = ran {
            let logs: Vec<String> = nodes.all().iter().map(|server| server.log(200)).collect();
            return Err(Finding { what, seed: round, trace, log: logs.join("\n---\n") });
        }
        round += 1;
    }
    progress.say(format!(
        "{} transfers beside it, {} refused for their leases",
        others.transfers, others.refused
    ));
    Ok(())
}

/// The user comes, sends, and leaves.
fn a_round(
    nodes: &Nodes,
    keys: &Keys,
    others: &mut Bystanders,
    mut dice: Dice,
    options: &Options,
    progress: &mut Progress,
    trace: &mut Trace,
) -> Result<(), String> {
    let servers = nodes.all();
    let port = servers[0].port();
    grant(others, &mut dice)?;
    let other = ShardId(if dice.once_in(2) { second_shard(&servers)? } else { 9 });
    let mut connections =
        (0..3).map(|at| connect(port, at, other, keys, &mut dice)).collect::<Result<Vec<_>, _>>()?;
    let (mut sent, mut checked) = (0, 0);
    trace.clear();
    while sent < ROUND && progress.done < options.executions {
        let at = dice.roll(connections.len());
        let batch = batch(&mut connections[at], keys, &mut dice);
        trace.note(at, &batch.bytes);
        let count = batch.commands as u64;
        let connection = &mut connections[at];
        let replies = match connection.is_loud {
            true => connection.link.exchange(batch)?,
            false => connection.link.exchange_counted(batch)?,
        };
        progress.add(count, replies.errors);
        sent += count;
        if dice.once_in(120) {
            progress.add(leave_abruptly(port, keys, &mut connections[at].eve, trace, &mut dice)?, Vec::new());
            if dice.once_in(4) {
                connections[at] = connect(port, at, other, keys, &mut dice)?;
            }
        }
        if sent - checked >= CHECK_EVERY {
            others.check()?;
            checked = sent;
            trace.clear();
        }
    }
    others.check()?;
    drop(connections);
    others.settle()
}

/// The rights of this round, and how orders are kept in it.
fn grant(others: &mut Bystanders, dice: &mut Dice) -> Result<(), String> {
    let rights = if dice.once_in(2) { RIGHTS[0] } else { dice.pick(&RIGHTS) };
    let admin = others.admin();
    let login = format!(">{PASSWORD}");
    let set: redis::RedisResult<()> =
        redis::cmd("ACL").arg("SETUSER").arg("eve").arg(&["reset", "on", &login]).arg(rights).query(admin);
    set.map_err(|error| error.to_string())?;
    let ordering = dice.roll(3).to_string();
    let set: redis::RedisResult<()> =
        redis::cmd("CONFIG").arg(&["SET", "claret.ordering", &ordering]).query(admin);
    set.map_err(|error| error.to_string())
}

fn second_shard(servers: &[&Server]) -> Result<u32, String> {
    let last = servers[servers.len() - 1];
    let shard = last.info("claret", "claret_shard").map_err(|error| error.to_string())?;
    shard.and_then(|shard| shard.parse().ok()).ok_or_else(|| "no shard".to_owned())
}

fn connect(port: u16, at: usize, other: ShardId, keys: &Keys, dice: &mut Dice) -> Result<Connection, String> {
    let mut link = Link::to(port)?;
    // Now and then in the newer protocol.
    // Who subscribes in the older one can do nothing else meanwhile.
    let login: &[&str] = match dice.roll(3) {
        0 => &["HELLO", "3", "AUTH", "eve", PASSWORD],
        _ if at == LOUD && !dice.once_in(4) => &["HELLO", "3", "AUTH", "eve", PASSWORD],
        _ => &["AUTH", "eve", PASSWORD],
    };
    link.ask(login)?;
    let channel = keys.named("claret:eve:");
    let ways: [&[&str]; 3] = [&["POLL"], &[], &["PUSH", &channel]];
    let way = ways[dice.roll(ways.len())];
    let person = 1_000 + (dice.next() % 1_000_000) * 10 + at as u64;
    let eve = Eve::hello(&mut link, person, other, way, dice)?;
    Ok(Connection { link, eve, is_loud: at == LOUD })
}

fn batch(connection: &mut Connection, keys: &Keys, dice: &mut Dice) -> Batch {
    let mut batch = Batch::default();
    if dice.once_in(2) {
        batch.line("SELECT 0");
    }
    for _ in 0..=dice.roll(BATCH_MAX) {
        match connection.is_loud {
            true => words::loud(&mut batch, keys, &mut connection.eve, dice),
            false => words::counted(&mut batch, keys, &mut connection.eve, dice),
        }
    }
    batch
}

/// Somebody sends as the same user, and is gone before there is an answer.
fn leave_abruptly(
    port: u16,
    keys: &Keys,
    eve: &mut Eve,
    trace: &mut Trace,
    dice: &mut Dice,
) -> Result<u64, String> {
    let mut link = Link::to(port)?;
    link.ask(&["AUTH", "eve", PASSWORD])?;
    let mut batch = Batch::default();
    words::abandoned(&mut batch, keys, eve, dice);
    trace.note(9, &batch.bytes);
    link.send(&batch.bytes)?;
    if dice.once_in(2) {
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
    Ok(batch.commands as u64)
}
