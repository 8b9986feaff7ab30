//! `claret schema`: checks the file of a schema, puts it on every node of a cluster as `claret.schema`, and shows what the nodes have.
//!
//! `apply` first asks every node, and changes none unless all answer: a cluster with two schemas refuses every program that has one.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use claret::{Reply, Schema, Store};
use claret_redis::{Builder, Command as Words, CommandError, Dedicated, without_passwords};
use claret_types::SCHEMA_BYTES_MAX;
use tokio::time::timeout;

use super::password::PasswordFile;
use crate::output::{self, escaped, say};

/// The setting of the module.
const SETTING: &str = "claret.schema";

/// How long a node may take for one answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Arguments of `claret schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Put the schema of a file on every node of a cluster, primaries and replicas, and into their configuration files.
    #[command(
        after_help = "Nothing is changed unless every node answers first. The exit code is 1 if the schema is not on every \
                            node.\n\nExample:\n  claret schema apply shop.schema --store redis://127.0.0.1:7000"
    )]
    Apply(ApplyArgs),
    /// Show the schema that the nodes of a cluster have, and whether it is the same on all.
    Show(StoreArgs),
    /// Say whether a file is a schema.
    Check(FileArgs),
}

#[derive(Debug, clap::Args)]
struct ApplyArgs {
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The schema, as in docs/schemas.md.
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct StoreArgs {
    /// A node of the cluster: redis://HOST:PORT.
    #[arg(long)]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let done = match args.command {
        Command::Check(FileArgs { file }) => check(&file).map(|()| true),
        Command::Apply(ApplyArgs { file, store }) => {
            read(&file.file).and_then(|schema| on(&store, async |cluster| apply(cluster, &schema).await))
        }
        Command::Show(store) => on(&store, async |cluster| show(&cluster)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

/// The schema in a file.
///
/// # Errors
/// There is none: the file, the line, and what is wrong.
pub(crate) fn read(path: &Path) -> Result<Schema, String> {
    let unread = |error| {
        format!("cannot read {}: {error}; name a file with a schema (docs/schemas.md)", path.display())
    };
    let mut text = String::new();
    // A byte more tells that it is too long.
    let most = SCHEMA_BYTES_MAX as u64 + 1;
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(unread)?;
    Schema::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn check(path: &Path) -> Result<(), String> {
    let schema = read(path)?;
    let (prefixes, digest) = (schema.len(), schema.digest());
    say!("{}: {prefixes} prefixes, digest {digest}", escaped(&path.display().to_string()));
    Ok(())
}

/// Does something on all nodes; whether all is well there.
fn on(args: &StoreArgs, act: impl AsyncFnOnce(Cluster) -> bool) -> Result<bool, String> {
    let store = args.store.as_str();
    if !store.starts_with("redis://") && !store.starts_with("rediss://") {
        return Err(format!(
            "'{}' is no cluster; a schema is put on redis://HOST:PORT, and an embedded store gets its own from its program",
            without_passwords(store)
        ));
    }
    let store = args.login.in_url(store)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting the connections: {error}"))?;
    runtime.block_on(async {
        let cluster = connect(&store).await?;
        Ok(act(cluster).await)
    })
}

/// The nodes of a cluster, or a server and its replicas.
struct Cluster {
    builder: Builder,
    nodes: Vec<Node>,
    /// Those that belong to it and cannot be asked: which, and what to do about it.
    unreached: Vec<String>,
}

/// A node that has answered.
struct Node {
    address: String,
    is_replica: bool,
    connection: Dedicated,
    /// What it has now.
    schema: Schema,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.is_replica { "replica" } else { "primary" };
        write!(f, "{} ({role})", escaped(&self.address))
    }
}

/// Connects to all nodes and asks each for its schema.
///
/// # Errors
/// One of them does not answer: nothing was changed.
async fn connect(store: &str) -> Result<Cluster, String> {
    let builder = Store::cluster(store).connections().clone();
    let mut first = builder.dedicated(None).await.map_err(|error| error.to_string())?;
    let Places { places, unreached } = places(&mut first).await?;
    let mut nodes = Vec::with_capacity(places.len());
    for Place { address, is_replica } in places {
        let connection = builder.dedicated(Some(&address)).await;
        let mut connection = connection.map_err(|error| unchanged(&error.to_string()))?;
        let schema =
            schema_of(&mut connection).await.map_err(|error| unchanged(&format!("{address} {error}")))?;
        nodes.push(Node { address, is_replica, connection, schema });
    }
    Ok(Cluster { builder, nodes, unreached })
}

fn unchanged(error: &str) -> String {
    format!("{error}; every node has to answer first, so nothing was changed on any")
}

/// What a node has.
async fn schema_of(connection: &mut Dedicated) -> Result<Schema, String> {
    let reply = ask(connection, Words::new("CONFIG").arg("GET").arg(SETTING)).await?;
    let Reply::Array(pair) = reply else { return Err("answers CONFIG GET with something else".to_owned()) };
    let Some(Reply::Bytes(text)) = pair.get(1) else {
        return Err(format!(
            "has no setting {SETTING}: load the module there (loadmodule libclaret_module.so), or a newer one"
        ));
    };
    let text = text.as_str().ok_or_else(|| format!("has a {SETTING} that is no text"))?;
    Schema::parse(text).map_err(|error| format!("has a {SETTING} that this program does not read: {error}"))
}

/// Why a node did not do what it was asked for, in words that follow its name.
#[derive(Debug)]
enum Failure {
    /// It said no: nothing was done.
    Refused(String),
    /// It may have been done.
    Unheard(String),
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        match failure {
            Failure::Refused(words) | Failure::Unheard(words) => words,
        }
    }
}

/// Asks a node for one answer.
async fn ask(connection: &mut Dedicated, words: Words) -> Result<Reply, Failure> {
    match timeout(ANSWER_TIME, connection.ask(&words)).await {
        Err(_) => Err(Failure::Unheard(format!("does not answer within {ANSWER_TIME:?}"))),
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(CommandError::Server(error))) if error.code() == "NOPERM" => {
            let words = format!("refuses ({error}); the user needs +config and +cluster|nodes there");
            Err(Failure::Refused(words))
        }
        Ok(Err(CommandError::Server(error))) => Err(Failure::Refused(format!("says: {error}"))),
        Ok(Err(error)) => Err(Failure::Unheard(format!("is not heard: {error}"))),
    }
}

/// Where a node is.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    address: String,
    is_replica: bool,
}

/// Where the nodes are, and which have no place to ask at.
#[derive(Debug, Default, PartialEq, Eq)]
struct Places {
    places: Vec<Place>,
    unreached: Vec<String>,
}

/// All nodes of the cluster that this one is of, or it and its replicas.
async fn places(node: &mut Dedicated) -> Result<Places, String> {
    let own = node.node();
    match timeout(ANSWER_TIME, node.ask(&Words::new("CLUSTER").arg("NODES"))).await {
        Ok(Ok(Reply::Bytes(text))) => {
            places_of_cluster(&own, text.as_str().unwrap_or_default()).map_err(|error| unchanged(&error))
        }
        Ok(Err(CommandError::Server(error))) if error.to_string().contains("cluster support disabled") => {
            let role = ask(node, Words::new("ROLE")).await;
            let role = role.map_err(|failure| format!("{own} {}", String::from(failure)))?;
            places_of_one(&own, &role).map(|places| Places { places, unreached: Vec::new() })
        }
        Ok(Err(error)) => Err(format!("{own} does not tell its cluster's nodes: {error}")),
        Ok(Ok(_)) => Err(format!("{own} tells its cluster's nodes in a way that this program does not know")),
        Err(_) => Err(format!("{own} does not answer within {ANSWER_TIME:?}")),
    }
}

/// Reads `CLUSTER NODES`: in each line an id, an address, and flags.
fn places_of_cluster(own: &str, text: &str) -> Result<Places, String> {
    let Places { mut places, mut unreached } = Places::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(id), Some(address), Some(flags)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let is = |flag: &str| flags.split(',').any(|it| it == flag);
        if is("noaddr") {
            unreached.push(format!(
                "node {id} has no address that {own} knows: start it, or have the cluster forget it (CLUSTER FORGET {id})"
            ));
            continue;
        }
        let address = address.split(['@', ',']).next().unwrap_or_default();
        let address = match address.rsplit_once(':') {
            // It has not been told its own address.
            _ if is("myself") => own.to_owned(),
            Some((host, port)) if host.contains(':') => format!("[{host}]:{port}"),
            _ => address.to_owned(),
        };
        if is("handshake") {
            unreached
                .push(format!("{address} is about to join: wait until CLUSTER NODES shows it as a node"));
            continue;
        }
        if is("fail") {
            return Err(format!("{address} is down; start it, or have the cluster forget it"));
        }
        places.push(Place { address, is_replica: is("slave") });
    }
    match places.is_empty() {
        false => Ok(Places { places, unreached }),
        true => Err(format!("{own} tells no nodes of its cluster")),
    }
}

/// Reads `ROLE` of a server without a cluster.
fn places_of_one(own: &str, role: &Reply) -> Result<Vec<Place>, String> {
    let text = |reply: &Reply| match reply {
        Reply::Bytes(text) => text.to_string(),
        Reply::Int(number) => number.to_string(),
        _ => String::new(),
    };
    match role {
        Reply::Array(parts) if parts.first().is_some_and(|it| text(it) == "master") => {
            let mut places = vec![Place { address: own.to_owned(), is_replica: false }];
            if let Some(Reply::Array(replicas)) = parts.get(2) {
                for replica in replicas {
                    let Reply::Array(parts) = replica else { continue };
                    if let [host, port, ..] = &parts[..] {
                        places.push(Place {
                            address: format!("{}:{}", text(host), text(port)),
                            is_replica: true,
                        });
                    }
                }
            }
            Ok(places)
        }
        Reply::Array(parts) if parts.len() > 2 => {
            Err(format!("{own} is a replica of {}:{}; name that one", text(&parts[1]), text(&parts[2])))
        }
        _ => Err(format!("{own} answers ROLE in a way that this program does not know")),
    }
}

/// Puts it on all of them; whether it is on all.
async fn apply(cluster: Cluster, schema: &Schema) -> bool {
    let Cluster { builder, nodes, unreached } = cluster;
    if !unreached.is_empty() {
        output::error(unchanged(&unreached.join("; ")));
        return false;
    }
    let mut missing = Vec::new();
    for mut node in nodes {
        match put(&builder, &mut node, schema).await {
            Ok(done) => say!("{node}: {done}"),
            Err(failed) => {
                say!("{node}: {}", escaped(&failed));
                missing.push(node.address);
            }
        }
    }
    if !missing.is_empty() {
        output::error(format!(
            "the nodes may have different schemas, since it was not put on {}; run the command again once it is well there, \
             and claret schema show tells what each node has",
            missing.join(", ")
        ));
    }
    missing.is_empty()
}

/// Puts it on a node; what was done.
///
/// # Errors
/// The node refuses, or was not heard: then nobody knows which schema it has.
async fn put(builder: &Builder, node: &mut Node, schema: &Schema) -> Result<String, String> {
    let (before, digest) = (node.schema.digest(), schema.digest());
    let mut done = set(&mut node.connection, schema).await;
    if let Err(Failure::Unheard(_)) = done {
        done = put_again(builder, node, schema).await;
    }
    match done {
        Ok(()) => {
            let kept = keep(&mut node.connection).await;
            Ok(match before == digest {
                true => format!("had schema {digest} before, {kept}"),
                false => format!("schema {before} became {digest}, {kept}"),
            })
        }
        Err(Failure::Refused(why)) => Err(format!("still has schema {}: it {why}", node.schema.digest())),
        Err(Failure::Unheard(why)) => {
            Err(format!("was lost, and has schema {digest} or still {}: it {why}", node.schema.digest()))
        }
    }
}

async fn set(connection: &mut Dedicated, schema: &Schema) -> Result<(), Failure> {
    let set = Words::new("CONFIG").arg("SET").arg(SETTING).arg(schema.to_string());
    ask(connection, set).await.map(drop)
}

/// Nobody heard whether it was put there: over another connection the node says what it has, and is asked once more.
async fn put_again(builder: &Builder, node: &mut Node, schema: &Schema) -> Result<(), Failure> {
    let connection = builder.dedicated(Some(&node.address)).await;
    node.connection = connection.map_err(|error| Failure::Unheard(format!("is not heard: {error}")))?;
    node.schema = schema_of(&mut node.connection).await.map_err(Failure::Unheard)?;
    if node.schema == *schema {
        return Ok(());
    }
    set(&mut node.connection, schema).await
}

/// Has a node keep it when it starts again; what came of it.
async fn keep(connection: &mut Dedicated) -> String {
    match ask(connection, Words::new("CONFIG").arg("REWRITE")).await {
        Ok(_) => "and it is in the node's configuration file".to_owned(),
        Err(Failure::Refused(error)) if error.contains("without a config file") => {
            "but the node has no configuration file: when it starts again it has no schema; start it with a file, and \
             apply the schema again"
                .to_owned()
        }
        Err(failure) => {
            let why = String::from(failure);
            format!("but it is not in the node's configuration file: at CONFIG REWRITE it {}", escaped(&why))
        }
    }
}

/// Shows what they have; whether it is the same on all.
fn show(cluster: &Cluster) -> bool {
    let mut shown: Vec<Schema> = Vec::new();
    for node in &cluster.nodes {
        say!("# {node}: {}", node.schema.digest());
        if !shown.contains(&node.schema) {
            shown.push(node.schema.clone());
        }
    }
    let are_alike = shown.len() == 1;
    for schema in shown {
        if !are_alike {
            say!("\n# {}", schema.digest());
        }
        say!("{}", escaped(schema.to_string().trim_end()));
    }
    if !are_alike {
        output::error(
            "the nodes have different schemas: programs that have one are refused; apply one to all",
        );
    }
    for node in &cluster.unreached {
        output::error(format!("nobody knows which schema another node has: {node}"));
    }
    are_alike && cluster.unreached.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: &str, is_replica: bool) -> Place {
        Place { address: address.to_owned(), is_replica }
    }

    #[test]
    fn all_nodes_of_a_cluster_are_found() {
        let text = "a 127.0.0.1:7000@17000,host-a myself,master - 0 0 1 connected 0-100\n\
                    b 10.0.0.2:7001@17001 slave a 0 0 1 connected\n\
                    c ::1:7002@17002,,tls-port=1 master - 0 0 2 disconnected\n\
                    d :0@0 master,noaddr - 0 0 0 disconnected\n\
                    e 10.0.0.3:7003@17003 master,fail? - 0 0 3 connected\n\n";
        let found = places_of_cluster("me:7000", text).expect("nodes");
        let expected = [
            place("me:7000", false),
            place("10.0.0.2:7001", true),
            place("[::1]:7002", false),
            place("10.0.0.3:7003", false),
        ];
        assert_eq!(found.places, expected);
        let down = "a h:1@2 myself,master -\nb 10.0.0.2:7001@17001 slave,fail a\n";
        let error = places_of_cluster("h:1", down).expect_err("one is down");
        assert!(error.contains("10.0.0.2:7001 is down"), "{error}");
        assert!(places_of_cluster("h:1", "").is_err());
    }

    /// Bug: nodes that are about to join, or whose address is not known, were passed over. Consequence: the schema was said to be on
    /// every node, and was not.
    #[test]
    fn a_node_that_cannot_be_asked_is_named() {
        let text = "a 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-100\n\
                    b :0@0 slave,fail,noaddr a 0 0 0 disconnected\n\
                    c 10.0.0.4:7004@17004 handshake - 0 0 0 connected\n";
        let found = places_of_cluster("me:7000", text).expect("nodes");
        assert_eq!(found.places, [place("me:7000", false)]);
        let [unknown, joining] = &found.unreached[..] else { panic!("{found:?}") };
        assert!(
            unknown.starts_with("node b has no address") && unknown.contains("CLUSTER FORGET b"),
            "{unknown}"
        );
        assert!(joining.starts_with("10.0.0.4:7004 is about to join"), "{joining}");
    }

    #[test]
    fn a_server_without_a_cluster_names_its_replicas() {
        let text = |text: &str| Reply::Bytes(text.into());
        let replica = Reply::Array(vec![text("10.0.0.2"), text("7001"), text("15")]);
        let role = Reply::Array(vec![text("master"), Reply::Int(15), Reply::Array(vec![replica])]);
        let expected = [place("h:1", false), place("10.0.0.2:7001", true)];
        assert_eq!(places_of_one("h:1", &role).expect("nodes"), expected);
        let role = Reply::Array(vec![text("slave"), text("10.0.0.1"), Reply::Int(7000), text("connected")]);
        let error = places_of_one("h:1", &role).expect_err("a replica");
        assert!(error.contains("replica of 10.0.0.1:7000; name that one"), "{error}");
    }
}
