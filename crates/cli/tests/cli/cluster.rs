//! `claret cluster`: started, looked at, disturbed and stopped, with the real server and the real module.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use claret_rig::Module;

/// A directory that goes with the test, and takes with it the cluster that a failed test may have left there.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("claret-cluster-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Place(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }

    fn node(&self, port: u16) -> PathBuf {
        self.0.join(port.to_string())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        claret(&["cluster", "stop", "--dir", self.path()]);
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn command() -> Command {
    static MODULE: OnceLock<Module> = OnceLock::new();
    let module = MODULE.get_or_init(|| Module::of_sources().expect("the module"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.env("CLARET_MODULE", &module.path).stdin(Stdio::null());
    command
}

fn claret(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("the program starts")
}

fn start(place: &Place, more: &[&str]) -> Output {
    claret(&[&["cluster", "start", "--dir", place.path()], more].concat())
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn first_port(output: &Output) -> u16 {
    let text = out(output);
    let port = text.trim().strip_prefix("redis://127.0.0.1:").and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("{text}{}", err(output)))
}

fn pid(place: &Place, port: u16) -> String {
    fs::read_to_string(place.node(port).join("redis.pid")).expect("a pid file").trim().to_owned()
}

fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([name, pid]).status().expect("kill").success());
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: not within 60 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_cluster_is_started_shown_and_stopped() {
    let place = Place::new("whole");
    let started = start(&place, &["--shards", "3", "--replicas", "1"]);
    let first = first_port(&started);
    assert!(
        err(&started).contains(&format!("claret cluster stop --dir {}", place.path())),
        "{}",
        err(&started)
    );

    let again = start(&place, &[]);
    assert!(!again.status.success() && out(&again).is_empty());
    assert!(err(&again).contains(&format!("running already: redis://127.0.0.1:{first}")), "{}", err(&again));

    let status = claret(&["cluster", "status", "--dir", place.path()]);
    let text = out(&status);
    assert!(status.status.success(), "{text}");
    assert!(text.starts_with(&format!("redis://127.0.0.1:{first}\n")), "{text}");
    assert_eq!(text.matches(" master  5,46").count(), 3, "{text}");
    assert_eq!(text.matches(" replica ").count(), 3, "{text}");
    assert_eq!(text.matches(" 0.1.0 ").count(), 6, "{text}");

    // The demo moves money between two of the shards, which plain Redis refuses, and leaves nothing behind.
    let url = format!("redis://127.0.0.1:{first}");
    for _ in 0..2 {
        let demo = claret(&["demo", "transfer", "--store", &url]);
        let text = out(&demo);
        assert!(demo.status.success(), "{text}{}", err(&demo));
        assert!(text.contains("transfer 30: committed. Ada has 70, Bob has 30."), "{text}");
        assert!(text.contains("MOVED ") && text.contains("CROSSSLOT "), "{text}");
    }

    // A server that is gone is told of, and does not keep the others from being stopped.
    signal("-KILL", &pid(&place, first + 5));
    until("the server ends", || {
        out(&claret(&["cluster", "status", "--dir", place.path()])).contains("does not run")
    });
    assert!(!claret(&["cluster", "status", "--dir", place.path()]).status.success());

    let others = pid(&place, first);
    fs::write(place.0.join("notes.txt"), "mine").expect("written");
    let stopped = claret(&["cluster", "stop", "--dir", place.path()]);
    assert!(stopped.status.success(), "{}", err(&stopped));
    assert!(!Path::new("/proc").join(others).join("cwd").exists(), "a server is still there");
    let left: Vec<_> =
        fs::read_dir(&place.0).expect("it is kept").map(|it| it.expect("one").file_name()).collect();
    assert_eq!(left, ["notes.txt"]);

    let nothing = claret(&["cluster", "stop", "--dir", place.path()]);
    assert!(!nothing.status.success() && err(&nothing).contains("there is no cluster in"));
}

/// What this writes is for its owner alone: a password or a key is in it.
fn is_private(path: &Path) -> bool {
    fs::metadata(path).expect("a file").permissions().mode() & 0o077 == 0
}

#[test]
fn a_cluster_with_tls_password_and_users_takes_transactions_of_those_who_may() {
    let place = Place::new("tls");
    let users = std::env::temp_dir().join(format!("claret-users-{}", std::process::id()));
    fs::write(&users, "# of the shop\n\nshop on >till7 ~shop:* &claret:shop:* +@all\n").expect("written");
    let started =
        start(&place, &["--shards", "2", "--tls", "--password", "--users", users.to_str().expect("UTF-8")]);
    fs::remove_file(users).expect("written above");
    let url = out(&started).trim().to_owned();
    let told = err(&started);
    assert!(
        url.starts_with("rediss://:") && url.contains("@127.0.0.1:") && url.contains("tls-key="),
        "{url}{told}"
    );
    assert!(told.contains("REDISCLI_AUTH=") && told.contains("--tls --cacert"), "{told}");
    let shell = |url: &str, script: &str| claret(&["shell", "--store", url, "--strict", "-c", script]);

    let transaction =
        "BEGIN; INCRBY shop:income 30; SADD shop:guests ada; COMMIT; GET shop:income; SCARD shop:guests";
    let ran = shell(&url, transaction);
    assert!(
        ran.status.success() && out(&ran).contains("COMMITTED\n\"30\"\n(integer) 1"),
        "{}{}",
        out(&ran),
        err(&ran)
    );
    let bench =
        ["hot", "--store", &url, "--modes", "claret,redis-lock", "--seconds", "0.2", "--clients", "4"];
    let ran = claret(&[&["bench"], &bench[..]].concat());
    assert!(ran.status.success(), "{}{}", out(&ran), err(&ran));

    let (login, rest) = url.split_once('@').expect("a login");
    let password = login.strip_prefix("rediss://:").expect("a password");
    let shop = shell(&format!("rediss://shop:till7@{rest}"), "INCRBY shop:income 5; GET shop:income");
    assert!(shop.status.success() && out(&shop).contains("\"35\""), "{}", err(&shop));
    let elsewhere = shell(&format!("rediss://shop:till7@{rest}"), "INCRBY other 5");
    assert!(!elsewhere.status.success(), "{}", out(&elsewhere));
    let (address, _) = rest.split_once('/').unwrap_or_else(|| rest.split_once('?').expect("parameters"));
    for wrong in [
        format!("rediss://:{}@{rest}", "0".repeat(32)),
        format!("rediss://{rest}"),
        // No certificate, an authority that did not sign, and no TLS.
        format!("rediss://:{password}@{address}/?connect-timeout-ms=1000"),
        format!("redis://:{password}@{address}/?connect-timeout-ms=1000"),
    ] {
        let refused = shell(&wrong, "GET shop:income");
        assert!(!refused.status.success() && !err(&refused).contains(password), "{}", out(&refused));
    }

    let status = claret(&["cluster", "status", "--dir", place.path()]);
    assert!(status.status.success() && out(&status).starts_with(&url), "{}{}", out(&status), err(&status));
    let port = address.rsplit(':').next().expect("a port").parse().expect("a number");
    let private = [
        place.node(port).join("redis.conf"),
        place.0.join("claret-cluster.json"),
        place.0.join("tls/node.key"),
    ];
    assert!(private.iter().chain([&place.0.join("tls/client.key")]).all(|path| is_private(path)));
    let again = start(&place, &[]);
    assert!(err(&again).contains("running already") && !err(&again).contains(password), "{}", err(&again));
    assert!(claret(&["cluster", "stop", "--dir", place.path()]).status.success());
    assert!(!place.0.exists());
}

#[test]
fn its_own_directory_goes_with_it() {
    let state = Place::new("state");
    let run = |action: &[&str]| {
        command().env("XDG_STATE_HOME", &state.0).arg("cluster").args(action).output().expect("it starts")
    };
    let started = run(&["start", "--shards", "1"]);
    let first = first_port(&started);
    assert!(err(&started).contains("claret cluster stop   (ends it"), "{}", err(&started));
    assert!(state.0.join("claret/cluster").join(first.to_string()).exists());
    assert!(run(&["stop"]).status.success());
    assert!(!state.0.join("claret/cluster").exists());
}

#[test]
fn what_cannot_be_started_leaves_nothing() {
    let place = Place::new("refused");
    let refused = |output: Output, named: &[&str]| {
        assert!(!output.status.success() && out(&output).is_empty(), "{}", out(&output));
        for name in named {
            assert!(err(&output).contains(name), "{}", err(&output));
        }
        assert!(!place.0.exists());
    };
    let outgoing = claret_rig::ephemeral_ports();
    let is_safe =
        |port: &u16| !outgoing.contains(port) && !outgoing.contains(&(port + claret_rig::BUS_OFFSET));
    let listener =
        (20_000..22_000).filter(is_safe).find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    if let Some(listener) = listener {
        let taken = listener.local_addr().expect("bound").port();
        refused(
            start(&place, &["--shards", "1", "--port", &taken.to_string()]),
            &["in use", "--port", &taken.to_string()],
        );
        // Its bus would be at one of the ports that the system gives to outgoing connections.
        let inside = (outgoing.start().saturating_sub(claret_rig::BUS_OFFSET)).to_string();
        let named = [inside.as_str(), &outgoing.start().to_string(), "outgoing connections", "--port"];
        refused(start(&place, &["--shards", "1", "--port", &inside]), &named);
    }
    refused(start(&place, &["--port", "60000"]), &["60000", "cluster bus"]);
    refused(start(&place, &["--password-file", "no-such-file"]), &["no-such-file"]);
    refused(start(&place, &["--password-file", "Cargo.toml"]), &["Cargo.toml", "letters and digits"]);
    refused(start(&place, &["--users", "Cargo.toml"]), &["--users needs --password"]);
    refused(start(&place, &["--shards", "0"]), &["--shards"]);
    // Bug: two masters with a replica each started, and none of these could ever be elected.
    for shards in ["1", "2"] {
        let named = [&format!("--shards {shards} --replicas 1"), "majority", "--shards 3"];
        refused(start(&place, &["--shards", shards, "--replicas", "1"]), &named);
    }
    refused(start(&place, &["--server", "no-such-server"]), &["no-such-server"]);
    refused(start(&place, &["--module", "no-such-module.so"]), &["no-such-module.so"]);
    // A file that is no module: what the server says about it.
    refused(start(&place, &["--module", "Cargo.toml"]), &["Cargo.toml", "Can't load module"]);
    let mut without = command();
    without.env("PATH", "/nowhere").env_remove("CLARET_SERVER");
    let without = without.args(["cluster", "start", "--dir", place.path()]).output().expect("it starts");
    refused(without, &["apt-get install redis-server", "CLARET_SERVER"]);

    fs::create_dir_all(&place.0).expect("made");
    fs::write(place.0.join("notes.txt"), "mine").expect("written");
    let full = start(&place, &[]);
    assert!(!full.status.success() && err(&full).contains("is not empty"), "{}", err(&full));
    assert!(place.0.join("notes.txt").exists());
}

/// Bug: a strict shard of which a node had died served nothing, and `cluster status` and `top` said `ok`; and nothing started the node
/// again.
#[test]
fn a_strict_shard_whose_node_died_says_so_until_start_node_brings_it_back() {
    let place = Place::new("strict");
    let started = start(&place, &["--shards", "3", "--replicas", "1", "--durability", "strict"]);
    let first = first_port(&started);
    let cluster = |words: &[&str]| claret(&[&["cluster"], words, &["--dir", place.path()]].concat());
    let top = || {
        let other = format!("redis://127.0.0.1:{}", first + 1);
        claret(&["top", "--store", &other, "--once", "--every-ms", "100"])
    };
    until("all serve", || cluster(&["status"]).status.success());
    let shown = top();
    assert!(shown.status.success(), "{}{}", out(&shown), err(&shown));

    signal("-KILL", &pid(&place, first));
    // The second where the new master had not heard all of the old one.
    let why = [
        "no transactions are served here, because 0 of its 1 replicas are connected and acknowledge",
        "no transactions are served here, because 0 of 1 replicas have said what they know",
    ];
    let is_told = |text: &str, node: &str| why.iter().any(|why| text.contains(&format!("{node}{why}")));
    let alone = format!("127.0.0.1:{}: ", first + 3);
    let mut told = String::new();
    until("its replica takes over, and is alone", || {
        let now = out(&cluster(&["status"]));
        if now != told {
            println!("{now}");
            told = now;
        }
        is_told(&told, &alone)
    });
    let status = cluster(&["status"]);
    let text = out(&status);
    assert!(!status.status.success() && text.contains("serves nothing"), "{text}");
    let advice = format!("it does not run; 'claret cluster start-node --dir {}' starts it", place.path());
    assert!(text.contains(&advice), "{text}");
    let shown = top();
    assert_eq!(shown.status.code(), Some(1), "{}{}", out(&shown), err(&shown));
    assert!(is_told(&out(&shown), ""), "{}", out(&shown));

    let back = cluster(&["start-node", &first.to_string()]);
    assert!(back.status.success(), "{}", err(&back));
    assert!(err(&back).contains(&format!("127.0.0.1:{first} runs again, as a replica")), "{}", err(&back));
    assert!(cluster(&["status"]).status.success(), "{}", out(&cluster(&["status"])));
    let shown = top();
    assert!(shown.status.success(), "{}{}", out(&shown), err(&shown));

    let again = cluster(&["start-node", &first.to_string()]);
    assert!(!again.status.success() && err(&again).contains("runs already"), "{}", err(&again));
    let nobody = cluster(&["start-node", "1"]);
    assert!(!nobody.status.success() && err(&nobody).contains(&(first + 5).to_string()), "{}", err(&nobody));
    let nothing = cluster(&["start-node"]);
    assert!(nothing.status.success() && err(&nothing).contains("All 6 servers"), "{}", err(&nothing));
}

/// A master that starts again before its replica has taken its place has nothing, and the replica would copy that.
#[test]
fn a_master_that_is_started_again_at_once_does_not_empty_its_replica() {
    let place = Place::new("again");
    let started = start(&place, &["--shards", "3", "--replicas", "1", "--password"]);
    assert!(started.status.success(), "{}", err(&started));
    let described = fs::read_to_string(place.0.join("claret-cluster.json")).expect("written");
    let described: serde_json::Value = serde_json::from_str(&described).expect("JSON");
    let password = described["password"].as_str().expect("a password");
    let first = described["ports"][0].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    let ask = |port: u16, words: &[&str]| -> u64 {
        let url = format!("redis://:{password}@127.0.0.1:{port}");
        let mut connection = claret_rig::connect(&url).expect("it answers");
        claret_rig::query(&mut connection, words).expect("a number")
    };
    let script: String = (0..60).map(|number| format!("SET k{number} v; ")).collect();
    let url = format!("redis://:{password}@127.0.0.1:{}", first + 1);
    let written = claret(&["shell", "--store", &url, "--strict", "-c", &script]);
    assert!(written.status.success(), "{}", err(&written));
    let keys = ask(first, &["DBSIZE"]);
    assert!(keys > 0);
    until("its replica has them", || ask(first + 3, &["DBSIZE"]) == keys);

    signal("-KILL", &pid(&place, first));
    until("it has ended", || claret_rig::runs_in(&place.node(first), first).is_none());
    let back = claret(&["cluster", "start-node", "--dir", place.path()]);
    assert!(back.status.success(), "{}", err(&back));
    assert_eq!([first, first + 3].map(|port| ask(port, &["DBSIZE"])), [keys; 2]);
}

#[test]
fn an_interrupted_start_leaves_nothing() {
    for name in ["-INT", "-KILL"] {
        let place = Place::new(&format!("cut{name}"));
        let mut starter = command();
        starter.args(["cluster", "start", "--shards", "3", "--dir", place.path()]).stderr(Stdio::null());
        let mut starter = starter.stdout(Stdio::null()).spawn().expect("it starts");
        let servers = || {
            let entries = fs::read_dir(&place.0).into_iter().flatten().flatten();
            entries.filter(|entry| entry.path().join("redis.pid").exists()).count()
        };
        until("three servers start", || servers() == 3);
        let pids: Vec<String> = fs::read_dir(&place.0)
            .expect("there")
            .filter_map(|entry| fs::read_to_string(entry.expect("one").path().join("redis.pid")).ok())
            .collect();
        signal(name, &starter.id().to_string());
        assert!(!starter.wait().expect("it ends").success());
        for pid in &pids {
            until("the server ends", || !Path::new("/proc").join(pid.trim()).join("cwd").exists());
        }
        // What a killed start could not remove is no obstacle to the next one.
        assert_eq!(place.0.exists(), name == "-KILL");
        let started = start(&place, &["--shards", "1"]);
        assert!(started.status.success(), "{name}: {}", err(&started));
    }
}
