//! `claret gateway`: a server for any Redis client, before a cluster or a store of its own.

mod lines;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use claret::cluster::without_passwords;
use claret_gateway::{Behind, Door, Gateway, GatewayHandle, GatewayLimits, WatchMode};

use self::lines::Lines;
use crate::output;

const HELP_AFTER: &str = "\
Any Redis client uses it as one plain Redis: MULTI, EXEC and WATCH work over all slots of the cluster, as transactions.
docs/gateway.md says what becomes of each command. SIGTERM and Ctrl-C end it in good order.

Examples:
  claret gateway --store redis://127.0.0.1:7000
  claret gateway --store redis://127.0.0.1:7000 --listen 0.0.0.0:6380 --tls-cert own.pem --tls-key own.key
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
    /// How long a client waits for anything but a command that blocks, in milliseconds: for an EXEC, a command over several slots, the
    /// answer of a node. Less than the time after which clients that were not answered send the same again.
    #[arg(long, value_name = "MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    wait_ms: u64,
    /// How long a loop of WATCH and EXEC has its turn on keys that others want, in milliseconds; 0: there are no turns.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    watch_ms: u64,
    /// What WATCH is of: all of a key, or what the connection reads of it by operations. GATEWAY WATCH says it for one connection.
    #[arg(long, value_name = "keys|answers", default_value = "keys", value_parser = watch_mode)]
    watch: WatchMode,
    /// Connections at once.
    #[arg(long, value_name = "N", default_value_t = GatewayLimits::default().connections_max, value_parser = at_least_one)]
    connections: usize,
    /// Users that are logged in at once.
    #[arg(long, value_name = "N", default_value_t = GatewayLimits::default().users_max, value_parser = at_least_one)]
    users: usize,
    /// The largest request, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = GatewayLimits::default().request_bytes_max, value_parser = at_least_one)]
    request_bytes: usize,
    /// Connections that send nothing for so long are closed, in seconds; 0: never.
    #[arg(long, value_name = "S", default_value_t = 0)]
    idle: u64,
    /// How long connections have to end after SIGTERM, in seconds.
    #[arg(long, value_name = "S", default_value_t = 10)]
    drain: u64,
    /// Answers Prometheus there, at /metrics.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
}

fn watch_mode(text: &str) -> Result<WatchMode, String> {
    match text {
        "keys" => Ok(WatchMode::Keys),
        "answers" => Ok(WatchMode::Answers),
        _ => Err("keys or answers".to_owned()),
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
    let behind = behind(&args.store)?;
    let limits = GatewayLimits {
        connections_max: args.connections,
        users_max: args.users,
        request_bytes_max: args.request_bytes,
        idle: Duration::from_secs(args.idle),
        ..GatewayLimits::default()
    };
    let lines = Lines::to(std::io::stderr());
    let mut gateway = Gateway::new(behind)
        .limits(limits)
        .watch_time(Duration::from_millis(args.watch_ms))
        .wait_time(Duration::from_millis(args.wait_ms))
        .watch_mode(args.watch)
        .drain_time(Duration::from_secs(args.drain))
        .logger({
            let lines = lines.clone();
            move |line| lines.say(line)
        });
    if args.open {
        gateway = gateway.open();
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
        let listener = listen(at)?;
        let at = listener.local_addr().map_or_else(|_| at.clone(), |at| at.to_string());
        output::say!("counts at http://{at}/metrics");
        serve_metrics(listener, handle.clone());
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

fn listen(at: &str) -> Result<TcpListener, String> {
    TcpListener::bind(at).map_err(|error| format!("cannot listen at {at}: {error}; choose another address"))
}

/// The first signal ends it in good order, the second at once.
fn stop_on_signals(handle: GatewayHandle, lines: Lines) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let wait = async move {
        let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        handle.stop();
        lines.say("no more connections are taken; those that are there have time to end");
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        std::process::exit(130);
    };
    std::thread::spawn(move || runtime.block_on(wait));
    Ok(())
}

/// Answers each request with the counts, on a thread of its own: one at a time, each within a second.
fn serve_metrics(listener: TcpListener, handle: GatewayHandle) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer_metrics(stream, &handle);
        }
    });
}

fn answer_metrics(mut stream: TcpStream, handle: &GatewayHandle) -> std::io::Result<()> {
    const REQUEST_BYTES_MAX: usize = 8 << 10;
    const TIME: Duration = Duration::from_secs(1);
    let until = Instant::now() + TIME;
    stream.set_read_timeout(Some(TIME))?;
    stream.set_write_timeout(Some(TIME))?;
    let mut request = Vec::new();
    let mut room = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        if Instant::now() > until {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut room)? {
            0 => break,
            read => request.extend_from_slice(&room[..read]),
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", handle.prometheus()),
        false => ("404 Not Found", "the counts are at /metrics\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
