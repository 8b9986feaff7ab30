//! Servers and clusters are started, broken and stopped; needs a server program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use claret_rig::{Cluster, Module, RigError, Server, end, nodes, runs_in};

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_there(pid: u32) -> bool {
    // What was killed and is waited for by nobody yet is still listed, without a command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[test]
fn a_server_answers_and_goes_with_its_directory() {
    let server = Server::options().config("maxmemory 100mb").start().expect("a server");
    server.query::<()>(&["SET", "k", "v"]).expect("written");
    assert_eq!(server.query::<String>(&["GET", "k"]).expect("read"), "v");
    assert_eq!(server.info("memory", "maxmemory").expect("read").as_deref(), Some("104857600"));
    let (pid, dir) = (server.pid().expect("it runs"), server.dir().to_owned());
    assert_eq!(runs_in(&dir, server.port()), Some(pid));
    drop(server);
    assert!(!is_there(pid) && !dir.exists());
}

#[test]
fn a_server_restarts_with_what_it_had() {
    let mut server = Server::options().config("appendonly yes").start().expect("a server");
    server.query::<()>(&["SET", "k", "v"]).expect("written");
    server.kill();
    assert!(!server.is_running() && server.pid().is_none());
    assert!(matches!(server.query::<String>(&["GET", "k"]), Err(RigError::Redis { .. })));
    server.restart().expect("it starts again");
    assert_eq!(server.query::<String>(&["GET", "k"]).expect("read"), "v");
    server.stop();
    assert!(!server.is_running());
}

#[test]
fn a_paused_server_says_nothing_until_it_goes_on() {
    let server = Server::start().expect("a server");
    let mut open = server.connection().expect("a connection");
    open.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    server.pause();
    redis::cmd("PING").query::<String>(&mut open).expect_err("no answer");
    server.resume();
    assert_eq!(server.query::<String>(&["PING"]).expect("an answer"), "PONG");
}

/// Bug: a connection of the rig had no limit to what it waits for. Consequence: a test of a server that had stopped never
/// ended. Mend: each has one, from the first word on.
#[test]
fn no_connection_waits_for_ever() {
    let server = Server::start().expect("a server");
    let time = Duration::from_millis(50);
    let mut open = claret_rig::connect_within(&server.url(), time).expect("a connection");
    server.pause();
    redis::cmd("PING").query::<String>(&mut open).expect_err("no answer");
    assert!(claret_rig::connect_within(&server.url(), time).is_err(), "it says nothing");
    server.resume();
}

#[test]
fn what_is_wrong_is_said() {
    let one = Server::start().expect("a server");
    let same = Server::options().port(one.port()).start().expect_err("the port is taken");
    assert!(matches!(same, RigError::PortInUse(port, _) if port == one.port()), "{same}");
    let high = Server::options().port(60_000).start().expect_err("no room for the bus");
    assert!(matches!(high, RigError::PortTooHigh(60_000)), "{high}");
    let wrong = Server::options().config("maxmemory many").start().expect_err("not a number");
    assert!(matches!(&wrong, RigError::Ended { log, .. } if log.contains("maxmemory many")), "{wrong}");
    let none = Server::options().program("redis-server-that-is-not").start().expect_err("no program");
    assert!(matches!(none, RigError::NoServer(_)), "{none}");
    let module = Module::at(Path::new("nowhere.so")).expect_err("no file");
    assert!(matches!(module, RigError::NoLibrary(_)), "{module}");
}

#[test]
fn a_password_is_asked_for() {
    let server = Server::options().password("secret7").start().expect("a server");
    assert_eq!(server.query::<String>(&["PING"]).expect("we know it"), "PONG");
    let url = format!("redis://{}", server.address());
    let mut stranger = redis::Client::open(url).expect("a URL").get_connection().expect("connected");
    let error = redis::cmd("PING").query::<String>(&mut stranger).expect_err("a stranger");
    assert!(error.to_string().contains("NOAUTH"), "{error}");
}

#[test]
fn a_server_left_running_is_found_and_ended() {
    let dir = std::env::temp_dir().join(format!("claret-rig-left-{}", std::process::id()));
    let server = Server::options().dir(&dir).start().expect("a server");
    let port = server.port();
    let pid = server.leave_running().expect("it runs");
    assert_eq!(runs_in(&dir, port), Some(pid));
    // Another process in the same directory is not the server.
    let mut other = Command::new("sleep").arg("60").current_dir(&dir).spawn().expect("sleep");
    std::fs::write(dir.join("redis.pid"), other.id().to_string()).expect("written");
    assert_eq!(runs_in(&dir, port), Some(pid));
    assert!(end(&dir, port) && !is_there(pid));
    std::fs::write(dir.join("redis.pid"), other.id().to_string()).expect("written");
    assert_eq!(runs_in(&dir, port), None);
    assert!(!end(&dir, port) && other.try_wait().expect("a child").is_none());
    other.kill().and_then(|()| other.wait()).expect("ended");
    std::fs::remove_dir_all(&dir).expect("left where it was");
}

/// Not a test of its own: what `a_server_ends_with_its_owner` runs and kills.
#[test]
fn owner_that_is_killed() {
    let Some(out) = std::env::var_os("RIG_TEST_OWNER") else { return };
    let server = Server::start().expect("a server");
    let line = format!("{} {}", server.pid().expect("it runs"), server.dir().display());
    std::fs::write(out, line).expect("written");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_server_ends_with_its_owner() {
    let out = std::env::temp_dir().join(format!("claret-rig-owner-{}", std::process::id()));
    let mut owner = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "owner_that_is_killed"])
        .env("RIG_TEST_OWNER", &out)
        .stdout(Stdio::null())
        .spawn()
        .expect("itself");
    let read = || std::fs::read_to_string(&out).unwrap_or_default();
    until("it tells its server", || read().contains('/'));
    let line = read();
    let (pid, dir) = line.split_once(' ').expect("a pid and a directory");
    let pid: u32 = pid.parse().expect("a pid");
    assert!(is_there(pid));
    owner.kill().and_then(|()| owner.wait()).expect("killed");
    until("the server ends", || !is_there(pid));
    until("its directory goes", || !Path::new(dir).exists());
    std::fs::remove_file(&out).expect("written above");
}

#[test]
fn a_cluster_is_of_one_mind_and_survives_a_master() {
    let mut told = Vec::new();
    let mut cluster = Cluster::options(3, 1)
        .node_timeout_ms(1_000)
        .start_seen(&mut |what| {
            told.push(what.to_owned());
            std::ops::ControlFlow::Continue(())
        })
        .expect("a cluster");
    assert_eq!(told.first().map(String::as_str), Some("starting 6 servers"));
    let view = nodes(&mut cluster.servers()[4].connection().expect("a connection")).expect("its view");
    assert_eq!((view.len(), view.iter().filter(|node| node.master.is_some()).count()), (6, 3));
    for master in 0..3 {
        let key = cluster.key_at(master, "k");
        cluster.query::<()>(master, &["SET", &key, "v"]).expect("its own key");
        let slot: u16 = cluster.query(master, &["CLUSTER", "KEYSLOT", &key]).expect("a slot");
        let (first, last) = cluster.slots(master);
        assert!((first..=last).contains(&slot));
    }
    let key = cluster.key_at(0, "k");
    let (replica, port) = (cluster.replica(0, 0), cluster.servers()[0].port());
    assert_eq!(
        cluster.servers()[replica].info("replication", "master_port").expect("read"),
        Some(port.to_string())
    );
    cluster.server_mut(0).kill();
    until("its replica takes over", || cluster.query::<()>(replica, &["SET", &key, "w"]).is_ok());
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well again");
    cluster.server_mut(0).restart().expect("it comes back");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well with all");
    assert_eq!(cluster.servers()[0].info("replication", "role").expect("read").as_deref(), Some("slave"));
}

#[test]
fn a_start_can_be_given_up() {
    let dir = std::env::temp_dir().join(format!("claret-rig-given-up-{}", std::process::id()));
    let mut seen = |what: &str| match what {
        "waiting for the cluster" => std::ops::ControlFlow::Break(()),
        _ => std::ops::ControlFlow::Continue(()),
    };
    let error = Cluster::options(2, 0).dir(&dir).start_seen(&mut seen).expect_err("given up");
    assert!(matches!(error, RigError::Interrupted), "{error}");
    for node in std::fs::read_dir(&dir).expect("a directory for each node") {
        let pid = std::fs::read_to_string(node.expect("an entry").path().join("redis.pid"));
        assert!(!is_there(pid.expect("it ran").trim().parse().expect("a pid")));
    }
    std::fs::remove_dir_all(&dir).expect("left where it was");
}

/// It says of itself `:PORT`: it has met nobody who could tell it its host.
#[test]
fn keys_are_deleted_from_a_cluster_of_one_node() {
    let cluster = Cluster::options(1, 0).start().expect("a cluster");
    cluster.query::<()>(0, &["SET", "run:a", "1"]).expect("written");
    cluster.query::<()>(0, &["SET", "other", "1"]).expect("written");
    claret_rig::delete_keys_everywhere(&cluster.url(), "run:*").expect("the node answers");
    assert_eq!(cluster.query::<Vec<String>>(0, &["KEYS", "*"]).expect("it answers"), ["other"]);
}

/// So long a machine may stop a program between two looks at the time.
const SLACK_S: i64 = 60;

/// The time of a server's day, in seconds of this host's.
fn ahead_by(server: &Server) -> i64 {
    let time: (String, String) = server.query(&["TIME"]).expect("a time");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after it");
    time.0.parse::<i64>().expect("seconds") - now.as_secs() as i64
}

#[cfg(target_os = "linux")]
#[test]
fn a_clock_jumps_and_is_right_again() {
    let clock = claret_rig::ShiftedClock::find().expect("the library");
    let mut server = Server::options().clock(clock).start().expect("a server");
    assert!(ahead_by(&server).abs() <= SLACK_S);
    for (seconds, is_back) in [(3_600, true), (600, false)] {
        server.shift_clock(Duration::from_secs(seconds), is_back).expect("shifted");
        let expected = if is_back { -(seconds as i64) } else { seconds as i64 };
        // It reads its clock now and then.
        let since = std::time::Instant::now();
        while (ahead_by(&server) - expected).abs() > SLACK_S {
            assert!(since.elapsed() < Duration::from_secs(10), "{}", ahead_by(&server));
        }
    }
    server.restart().expect("started");
    assert!((ahead_by(&server) - 600).abs() <= SLACK_S, "it stays shifted");
    server.shift_clock(Duration::ZERO, false).expect("put right");
    server.restart().expect("started");
    assert!(ahead_by(&server).abs() <= SLACK_S);
    let other = Server::start().expect("a server");
    other.shift_clock(Duration::ZERO, false).expect_err("it has none to shift");
}
