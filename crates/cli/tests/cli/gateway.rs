//! `claret gateway`: it says where it listens, serves, counts, and ends in good order; and what it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn claret() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.arg("gateway").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = claret().args(arguments).output().expect("it runs");
    assert!(!status.success(), "{arguments:?}");
    String::from_utf8_lossy(&stderr).into_owned()
}

/// The lines that it prints when it is ready, as many as are asked for.
fn lines(child: &mut Child, count: usize) -> Vec<String> {
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    output.lines().take(count).map(|line| line.expect("a line")).collect()
}

fn ask(mut stream: impl Read + Write, text: &str) -> String {
    stream.write_all(text.as_bytes()).expect("it is read");
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    said
}

#[test]
fn it_serves_until_it_is_told_to_end() {
    let folder = claret_rig::TestFolder::new();
    let socket = folder.path().join("gateway.sock");
    let mut child = claret()
        .args(["--store", "embedded", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--unix"])
        .arg(&socket)
        .spawn()
        .expect("it runs");
    let lines = lines(&mut child, 2);
    let metrics = lines[0].strip_prefix("counts at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let places = lines[1].strip_prefix("gateway before embedded at ").expect("where it listens");
    let (tcp, unix) = places.split_once(", ").expect("two places");
    assert_eq!(unix, socket.to_str().expect("a path"));
    let said = ask(TcpStream::connect(tcp).expect("it listens"), "MULTI\r\nINCR k\r\nEXEC\r\nQUIT\r\n");
    assert_eq!(said, "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n+OK\r\n");
    let said = ask(UnixStream::connect(&socket).expect("it listens"), "GET k\r\nQUIT\r\n");
    assert_eq!(said, "$1\r\n1\r\n+OK\r\n");
    let connect = || TcpStream::connect(metrics.expect("where the counts are")).expect("it listens");
    let said = ask(connect(), "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    assert!(said.contains("claret_gateway_connections_total 2\n"), "{said}");
    assert!(ask(connect(), "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let ended = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(ended.success());
    assert!(child.wait().expect("it ends").success());
    assert!(!socket.exists(), "its socket is gone");
}

/// Sends SIGTERM, and waits for the end.
fn ends_on_sigterm(mut child: Child) -> bool {
    let told = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(told.success());
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("it is a child") {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it is a child");
    child.wait().expect("it ends");
    false
}

/// The thread that was to end it panicked, since it could not print that it does.
#[test]
fn sigterm_ends_it_where_nobody_reads_what_it_says() {
    let mut child =
        claret().args(["--store", "embedded", "--listen", "127.0.0.1:0"]).spawn().expect("it runs");
    // Then the pipe is closed, at this end.
    assert!(lines(&mut child, 1)[0].starts_with("gateway before embedded"));
    drop(child.stderr.take());
    assert!(ends_on_sigterm(child), "it goes on");
}

/// The same where the pipe is full: whoever is at the other end has it open and does not read.
#[test]
fn it_serves_and_ends_where_what_it_says_is_never_read() {
    let mut child =
        claret().args(["--store", "embedded", "--listen", "127.0.0.1:0"]).spawn().expect("it runs");
    let unread = child.stderr.take();
    let lines = lines(&mut child, 1);
    let at = lines[0].strip_prefix("gateway before embedded at ").expect("where it listens");
    // Each such connection is a line of the log; a pipe holds 64 KiB.
    for _ in 0..2_000 {
        ask(TcpStream::connect(at).expect("it listens"), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(ask(TcpStream::connect(at).expect("it listens"), "PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
    assert!(ends_on_sigterm(child), "it goes on");
    drop(unread);
}

/// Whoever reached the machine was served, without a word.
#[test]
fn open_addresses_without_a_password_are_asked_for() {
    let open = ["--store", "embedded", "--listen", "0.0.0.0:0"];
    let said = refused(&open);
    assert!(
        said.contains("at 0.0.0.0:") && said.contains("--unprotected") && said.contains("--password-file"),
        "{said}"
    );
    let metrics = ["--store", "embedded", "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"];
    let said = refused(&metrics);
    assert!(said.contains("would read the counts") && said.contains("--metrics-unprotected"), "{said}");
    // Where its counts are is told before it serves.
    for (arguments, more, told) in
        [(&open[..], "--unprotected", 1), (&metrics[..], "--metrics-unprotected", 2)]
    {
        let mut child = claret().args(arguments).arg(more).spawn().expect("it runs");
        assert!(lines(&mut child, told)[told - 1].starts_with("gateway before"), "{more}");
        assert!(ends_on_sigterm(child));
    }
}

/// A password in a URL is seen by whoever runs ps.
#[test]
fn a_password_comes_from_a_file() {
    let folder = claret_rig::TestFolder::new();
    let file = folder.path().join("password");
    std::fs::write(&file, "sekret\n").expect("a file");
    let module = claret_rig::Module::of_sources().expect("the module");
    let server = claret_rig::Server::options().module(module).password("sekret").start().expect("a server");
    let store = format!("redis://127.0.0.1:{}", server.port());
    // Before a server it is the gateway's own, before records in this process its clients'.
    for store in [store.as_str(), "embedded"] {
        let mut child = claret()
            .args(["--store", store, "--listen", "127.0.0.1:0", "--password-file"])
            .arg(&file)
            .spawn()
            .expect("it runs");
        let lines = lines(&mut child, 1);
        let (before, at) = lines[0].split_once(" at ").expect("where it listens");
        assert_eq!(before, format!("gateway before {store}"));
        let said =
            ask(TcpStream::connect(at).expect("it listens"), "GET k\r\nAUTH sekret\r\nGET k\r\nQUIT\r\n");
        assert_eq!(said, "-NOAUTH Authentication required.\r\n+OK\r\n$-1\r\n+OK\r\n", "{store}");
        assert!(ends_on_sigterm(child));
    }
    let shell = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
        command.args(["shell", "--store", &store, "-c", "SET k 1; GET k"]).args(more);
        command.output().expect("it runs")
    };
    let said = shell(&["--password-file", file.to_str().expect("a path")]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(!shell(&[]).status.success());
    let file = file.to_str().expect("a path");
    let twice = format!("redis://:x@127.0.0.1:{}", server.port());
    assert!(refused(&["--store", &twice, "--password-file", file]).contains("in the URL and one in"));
    assert!(refused(&["--store", &store, "--password-file", "/nowhere"]).contains("cannot read /nowhere"));
}

/// One that said nothing held up all others for a second.
#[test]
fn counts_are_told_while_others_say_nothing() {
    let mut child = claret()
        .args(["--store", "embedded", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .spawn()
        .expect("it runs");
    let lines = lines(&mut child, 2);
    let at = lines[0].strip_prefix("counts at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let connect = || TcpStream::connect(at.expect("where the counts are")).expect("it listens");
    // Each has a second: on a machine that is slow it may be over before the other is answered, so it is tried some times. Where one is
    // answered after the other, it never is.
    let answers_meanwhile = || {
        let silent = connect();
        let said = ask(connect(), "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
        silent.set_nonblocking(true).expect("a socket");
        let read = (&silent).read(&mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!((0..30).any(|_| answers_meanwhile()), "one is answered after the other");
    assert!(ends_on_sigterm(child));
}

#[test]
fn what_cannot_be_is_named() {
    assert!(refused(&["--store", "nowhere"]).contains("there is no store 'nowhere'"));
    assert!(refused(&[]).contains("--store"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address").to_string();
    assert!(refused(&["--store", "embedded", "--listen", &at]).contains(&format!("cannot listen at {at}")));
    assert!(refused(&["--store", "embedded", "--tls-cert", "/nowhere"]).contains("--tls-key"));
    let tls =
        ["--store", "embedded", "--listen", "127.0.0.1:0", "--tls-cert", "/nowhere", "--tls-key", "/nowhere"];
    assert!(refused(&tls).contains("TLS: /nowhere"));
    assert!(refused(&["--store", "embedded", "--connections", "0"]).contains("a number from 1 on"));
    // Nobody is there, and the password is not shown.
    let said = refused(&[
        "--store",
        &format!("redis://ann:secret@{at}/?connect-timeout-ms=200"),
        "--listen",
        "127.0.0.1:0",
    ]);
    assert!(said.contains(&at) && !said.contains("secret"), "{said}");
}
