//! `claret gateway`: a server for any Redis client, before a cluster or a store of its own.

mod counts;
mod lines;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use claret_gateway::{Behind, Door, Gateway, GatewayHandle, GatewayLimits, ScriptsMode, WatchMode};
use claret_redis::without_passwords;

use self::lines::Lines;
use super::password::PasswordFile;
use crate::output;

const HELP_AFTER: &str = "\
Any Redis client uses it as one plain Redis: MULTI, EXEC and WATCH work over all slots of the cluster, as transactions.
docs/gateway.md says what becomes of each command. SIGTERM and Ctrl-C end it in good order.

Examples:
  claret gateway --store redis://127.0.0.1:7000
  claret gateway --store redis://127.0.0.1:7000 --password-file /etc/claret/password --listen 0.0.0.0:6380
  claret gateway --store redis://127.0.0.1:7000 --listen 0.0.0.0:6380 --tls-cert own.pem --tls-key own.key --tls-ca ours.pem
  claret gateway --store file:/var/lib/shop --listen 127.0.0.1:6380 --unix /run/shop.sock
  redis-cli -p 6380 INFO gateway";

/// Arguments of `claret gateway`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP_AFTER)]
pub(crate) struct Args {
    /// redis://HOST:PORT, a cluster or a single server with the module; embedded: an empty store in this process; file:FOLDER: one
    /// that is kept there.
    #[arg(long)]
    store: String,
    /// The password is the first line of this file. Before servers it is that of the URL's user, which is better not in the URL, where
    /// everybody on this machine sees it who runs ps. Before records in this process clients have to say it: AUTH PASSWORD.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Where clients connect. May be given several times.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6380")]
    listen: Vec<String>,
    /// A Unix socket beside it.
    #[arg(long, value_name = "PATH")]
    unix: Vec<PathBuf>,
    /// Clients speak TLS: the gateway's certificate chain, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<String>,
    /// And its private key, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<String>,
    /// Clients have to show a certificate of this authority, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<String>,
    /// Clients that have not said AUTH act as the user of the URL. Without this they are the nodes' default user, if that one needs no
    /// password.
    #[arg(long)]
    open: bool,
    /// Serve everybody who reaches an address that is not 127.0.0.1 or ::1, also who has no password to say.
    #[arg(long)]
    unprotected: bool,
    /// How long a client waits for anything but a command that blocks, in milliseconds: for an EXEC, a command over several slots, the
    /// answer of a node. Less than the time after which clients that were not answered send the same again.
    #[arg(long, value_name = "MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    wait_ms: u64,
    /// How long a loop of WATCH and EXEC has its turn on keys that others want, in milliseconds, a quarter of --wait-ms at most; 0: there
    /// are no turns.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    watch_ms: u64,
    /// What WATCH is of: all of a key, or what the connection reads of it by operations. GATEWAY WATCH says it for one connection.
    #[arg(long, value_name = "keys|answers", default_value = "keys", value_parser = watch_mode)]
    watch: WatchMode,
    /// Where scripts run: at the node of their keys; there if all are in one slot and sure to be those that are declared, else here, as
    /// transactions over any slots; or always here.
    #[arg(long, value_name = "node|several|all", default_value = "several", value_parser = scripts_mode)]
    scripts: ScriptsMode,
    /// Connections at once.
    #[arg(long, value_name = "N", default_value_t = GatewayLimits::default().connections_max, value_parser = at_least_one)]
    connections: usize,
    /// Users that are logged in at once.
    #[arg(long, value_name = "N", default_value_t = GatewayLimits::default().users_max, value_parser = at_least_one)]
    users: usize,
    /// Logins that wait at once until a node has judged them.
    #[arg(long, value_name = "N", default_value_t = GatewayLimits::default().logins_max, value_parser = at_least_one)]
    logins: usize,
    /// The largest request, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = GatewayLimits::default().request_bytes_max, value_parser = at_least_one)]
    request_bytes: usize,
    /// What one connection may have the gateway keep, in bytes: requests, commands that wait, what its transaction makes, reads and
    /// answers, and answers that it has not read. A transaction over it is refused; otherwise the connection is closed.
    #[arg(long, value_name = "BYTES", default_value_t = GatewayLimits::default().client_bytes_max, value_parser = at_least_one)]
    client_bytes: usize,
    /// The same of all connections together; over it, the connection that keeps most is closed.
    #[arg(long, value_name = "BYTES", default_value_t = GatewayLimits::default().total_bytes_max, value_parser = at_least_one)]
    total_bytes: usize,
    /// Connections that send nothing for so long are closed, in seconds; 0: never.
    #[arg(long, value_name = "S", default_value_t = 0)]
    idle: u64,
    /// How long connections have to end after SIGTERM, in seconds.
    #[arg(long, value_name = "S", default_value_t = 10)]
    drain: u64,
    /// Answers Prometheus there, at /metrics.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Also at an address that is not 127.0.0.1 or ::1: whoever reaches it reads the counts, which need no password.
    #[arg(long, requires = "metrics")]
    metrics_unprotected: bool,
}

fn watch_mode(text: &str) -> Result<WatchMode, String> {
    match text {
        "keys" => Ok(WatchMode::Keys),
        "answers" => Ok(WatchMode::Answers),
        _ => Err("keys or answers".to_owned()),
    }
}

fn scripts_mode(text: &str) -> Result<ScriptsMode, String> {
    match text {
        "node" => Ok(ScriptsMode::Node),
        "several" => Ok(ScriptsMode::Several),
        "all" => Ok(ScriptsMode::All),
        _ => Err("node, several or all".to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a number from 1 on".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

fn serve(args: Args) -> Result<(), String> {
    let login = PasswordFile { password_file: args.password_file.clone() };
    let is_here = args.store.starts_with("file:") || !args.store.contains("://");
    let behind = behind(&if is_here { args.store.clone() } else { login.in_url(&args.store)? })?;
    let limits = GatewayLimits {
        connections_max: args.connections,
        users_max: args.users,
        logins_max: args.logins,
        request_bytes_max: args.request_bytes,
        client_bytes_max: args.client_bytes,
        total_bytes_max: args.total_bytes,
        idle: Duration::from_secs(args.idle),
        ..GatewayLimits::default()
    };
    let lines = Lines::to(std::io::stderr());
    let mut gateway = Gateway::new(behind)
        .limits(limits)
        // Whoever waits for one such turn, and then for its own, is answered in time.
        .watch_time(Duration::from_millis(args.watch_ms.min(args.wait_ms / 4)))
        .wait_time(Duration::from_millis(args.wait_ms))
        .watch_mode(args.watch)
        .scripts_mode(args.scripts)
        .drain_time(Duration::from_secs(args.drain))
        .logger({
            let lines = lines.clone();
            move |line| lines.say(line)
        });
    if args.open {
        gateway = gateway.open();
    }
    if args.unprotected {
        gateway = gateway.unprotected();
    }
    if let Some(password) = login.read()?.filter(|_| is_here) {
        gateway = gateway.password(password);
    }
    if let (Some(chain), Some(key)) = (&args.tls_cert, &args.tls_key) {
        gateway = gateway.tls(chain, key, args.tls_ca.as_deref()).map_err(|error| error.to_string())?;
    }
    let mut doors = Vec::new();
    let mut places = Vec::new();
    for at in &args.listen {
        let listener = listen(at)?;
        places.push(listener.local_addr().map_or_else(|_| at.clone(), |at| at.to_string()));
        doors.push(Door::Tcp(listener));
    }
    for path in args.unix {
        places.push(path.display().to_string());
        doors.push(Door::Unix(path));
    }
    let handle = GatewayHandle::default();
    if let Some(at) = &args.metrics {
        serve_counts(at, args.metrics_unprotected, &handle)?;
    }
    stop_on_signals(handle.clone(), lines.clone())?;
    let store = without_passwords(&args.store);
    let ready = || output::say!("gateway before {store} at {}", places.join(", "));
    let ran = gateway.run(doors, &handle, ready).map_err(|error| error.to_string());
    lines.flush();
    ran
}

fn behind(store: &str) -> Result<Behind, String> {
    match store {
        "embedded" => Ok(Behind::Store(claret::Store::in_memory())),
        folder if folder.starts_with("file:") => {
            let store = claret::Store::open(&folder["file:".len()..]).map_err(|error| error.to_string())?;
            Ok(Behind::Store(store))
        }
        url if url.starts_with("redis://") || url.starts_with("rediss://") => {
            Ok(Behind::Servers(Box::new(claret::Store::cluster(url))))
        }
        other => Err(format!(
            "there is no store '{}'; the stores are embedded, file:FOLDER and redis://HOST:PORT",
            without_passwords(other)
        )),
    }
}

fn serve_counts(at: &str, is_unprotected: bool, handle: &GatewayHandle) -> Result<(), String> {
    let listener = listen(at)?;
    let bound = listener.local_addr().map_err(|error| format!("{at}: {error}"))?;
    if !bound.ip().to_canonical().is_loopback() && !is_unprotected {
        return Err(format!(
            "at {bound} everybody who reaches it would read the counts, without a password: say --metrics 127.0.0.1:PORT, or \
             --metrics-unprotected"
        ));
    }
    output::say!("counts at http://{bound}/metrics");
    counts::serve(listener, handle.clone());
    Ok(())
}

fn listen(at: &str) -> Result<TcpListener, String> {
    TcpListener::bind(at).map_err(|error| format!("cannot listen at {at}: {error}; choose another address"))
}

/// The first signal ends it in good order, the second at once.
fn stop_on_signals(handle: GatewayHandle, lines: Lines) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    // Before anybody is told that it is there: who is told may send one at once.
    let on = |kind| {
        let _within = runtime.enter();
        signal(kind).map_err(|error| format!("signals cannot be heard: {error}"))
    };
    let (mut term, mut int) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    let wait = async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        handle.stop();
        lines.say("no more connections are taken; those that are there have time to end");
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        std::process::exit(130);
    };
    std::thread::spawn(move || runtime.block_on(wait));
    Ok(())
}
