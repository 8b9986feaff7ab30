//! A client process that ends at any moment of a transaction over three shards: its locks are free within the bound
//! of docs/operations.md, and nothing is applied by half.
//!
//! The process is `claret shell`. Between it and each node stands a proxy that lets n messages pass, for every n until
//! the transaction comes through: then it dies (SIGKILL), or its host is cut off.

mod gate;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use claret_rig::{Cluster, Module};
use gate::{Ends, Gate, proxy};

const SHARDS: u16 = 3;
const LEASE: Duration = Duration::from_millis(1_000);
/// One round of asking, on a machine with other things to do.
const ROUND: Duration = Duration::from_millis(1_000);

/// A cluster whose nodes say that they are at their proxies.
struct Behind {
    cluster: Cluster,
    gate: Arc<Gate>,
    url: String,
    keys: Vec<String>,
}

impl Behind {
    fn start(ends: Ends) -> Self {
        let module = Module::of_sources().expect("the module");
        let lease = format!("claret.lease-ms {}", LEASE.as_millis());
        let options = Cluster::options(SHARDS, 0).module(module).config(&lease);
        let cluster = options.start().expect("a cluster");
        let gate = Arc::new(Gate::default());
        let ports: Vec<u16> =
            cluster.servers().iter().map(|server| proxy(server.port(), &gate, ends)).collect();
        for (number, port) in ports.iter().enumerate() {
            let set = ["CONFIG", "SET", "cluster-announce-port", &port.to_string()];
            cluster.query::<()>(number, &set).expect("set");
        }
        until("all nodes know the proxies", Duration::from_secs(20), || {
            let knows = |number: usize| {
                let nodes = cluster.query::<String>(number, &["CLUSTER", "NODES"]).expect("the nodes");
                ports.iter().all(|port| nodes.contains(&format!("127.0.0.1:{port}@")))
            };
            (0..usize::from(SHARDS)).all(knows)
        });
        let keys = (0..usize::from(SHARDS)).map(|shard| cluster.key_at(shard, "k")).collect();
        Behind { cluster, gate, url: format!("redis://127.0.0.1:{}", ports[0]), keys }
    }

    /// What each key holds, by plain reads that wait for nobody.
    fn values(&self) -> Vec<i64> {
        let value = |(shard, key): (usize, &String)| {
            let value: Option<i64> = self.cluster.query(shard, &["GET", key]).expect("a number");
            value.unwrap_or(0)
        };
        self.keys.iter().enumerate().map(value).collect()
    }

    fn is_free(&self) -> bool {
        (0..usize::from(SHARDS)).all(|shard| {
            let number = |name| self.cluster.servers()[shard].info("claret", name).expect("its numbers");
            ["claret_held_keys", "claret_open_attempts"]
                .map(number)
                .iter()
                .all(|it| it.as_deref() == Some("0"))
        })
    }

    /// How long it takes until all locks are free.
    fn time_to_free(&self, what: &str, bound: Duration) -> Duration {
        let began = Instant::now();
        until(what, bound, || self.is_free());
        began.elapsed()
    }
}

fn until(what: &str, bound: Duration, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < bound, "{what}: not within {bound:?}");
        sleep(Duration::from_millis(2));
    }
}

/// A client process in whose session lines are typed.
struct Client {
    child: Child,
    lines: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Client {
    fn start(url: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_claret"))
            .args(["shell", "--store", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut client = Client { child, lines, answers };
        // All connections are made.
        client.say(&["GET no-such-key"]);
        assert_eq!(client.hear(), "(nil)");
        client
    }

    fn say(&mut self, lines: &[impl AsRef<str>]) {
        let lines: String = lines.iter().map(|line| format!("{}\n", line.as_ref())).collect();
        self.lines.as_mut().expect("open").write_all(lines.as_bytes()).expect("it listens");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    /// All that it still says.
    fn rest(&mut self) -> String {
        drop(self.lines.take());
        let mut all = String::new();
        std::io::Read::read_to_string(&mut self.answers, &mut all).expect("it answers");
        self.child.wait().expect("it ends");
        all
    }

    /// Dies, as by SIGKILL.
    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
    }
}

/// Reads two keys, writes all three, and commits; each key gets one more.
fn transaction(keys: &[String]) -> Vec<String> {
    let [a, b, c] = keys else { panic!("three keys") };
    let line = |words: &str, key: &String| words.replace('k', key);
    vec![
        "BEGIN".into(),
        line("GET k", a),
        line("INCRBY.RETURNING k 1", b),
        line("INCRBY k 1", a),
        line("INCRBY k 1", c),
        "COMMIT".into(),
    ]
}

/// What became of the ends after each message.
#[derive(Debug, Default)]
struct Tally {
    boundaries: u32,
    applied: u32,
    longest: Duration,
}

/// Lets n messages pass for n = 0, 1, 2 and so on, ends the client each time, and looks at what it left.
fn at_every_boundary(behind: &Behind, bound: Duration, end: impl Fn(Client, &Gate)) -> Tally {
    let mut tally = Tally::default();
    for messages in 0.. {
        assert!(messages < 200, "the transaction never comes through: {tally:?}");
        let before = behind.values();
        let mut client = Client::start(&behind.url);
        behind.gate.count(messages);
        client.say(&transaction(&behind.keys));
        drop(client.lines.take());
        // Untouched it is over much sooner.
        let (gate, mut ended) = (&behind.gate, false);
        let began = Instant::now();
        while !ended && !gate.shut_within(Duration::from_millis(2)) {
            ended = client.child.try_wait().expect("asked").is_some();
            assert!(began.elapsed() < Duration::from_secs(20), "after {messages} messages it stands still");
        }
        if ended {
            let said = client.rest();
            assert!(said.ends_with("COMMITTED\n"), "after {} messages: {said}", gate.passed());
            gate.open();
            behind.time_to_free("after the last", bound);
            assert_eq!(behind.values(), before.iter().map(|value| value + 1).collect::<Vec<_>>());
            return tally;
        }
        end(client, gate);
        let free = behind.time_to_free(&format!("after {messages} messages"), bound);
        gate.open();
        let grown: Vec<i64> = behind.values().iter().zip(&before).map(|(now, before)| now - before).collect();
        assert!(grown == [0, 0, 0] || grown == [1, 1, 1], "after {messages} messages: {grown:?}");
        tally.boundaries += 1;
        tally.applied += u32::try_from(grown[0]).expect("0 or 1");
        tally.longest = tally.longest.max(free);
    }
    unreachable!("it has returned")
}

#[test]
fn a_process_that_is_killed_at_any_message_leaves_nothing_by_half_and_no_lock() {
    let behind = Behind::start(Ends::Heard);
    let tally = at_every_boundary(&behind, ROUND, |client, gate| {
        client.kill();
        gate.open();
    });
    println!("killed: {tally:?}");
    assert!(tally.boundaries > 10 && tally.applied > 0 && tally.applied < tally.boundaries, "{tally:?}");
}

#[test]
fn a_host_that_is_cut_off_at_any_message_leaves_nothing_by_half_and_no_lock_beyond_its_lease() {
    let behind = Behind::start(Ends::Unheard);
    let tally = at_every_boundary(&behind, LEASE + ROUND, |client, _| client.kill());
    println!("cut off: {tally:?}");
    assert!(tally.boundaries > 10 && tally.applied > 0 && tally.applied < tally.boundaries, "{tally:?}");
}
