//! Commands that are passed on as bytes, and connections through which everything goes as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use claret_redis::{Builder, Command, CommandError, Forward, Raw, slot_of};
use claret_rig::{Cluster, TestLimit};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::rig::{fresh, keys, prefix, shared};

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(60);

type Answer = Result<Vec<u8>, CommandError>;

/// A command as a client writes it.
fn written(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    [format!("*{}\r\n", words.len())].into_iter().chain(words).collect::<String>().into_bytes()
}

/// Keeps commands by their number, and hands their replies on.
struct Caller {
    commands: Mutex<Vec<Vec<u8>>>,
    answers: UnboundedSender<(u32, Answer)>,
}

impl Forward for Caller {
    fn encode(&self, no: u32, out: &mut BytesMut) {
        out.extend_from_slice(&self.commands.lock()[no as usize]);
    }

    fn receive(&self, no: u32, reply: Result<&[u8], CommandError>) {
        // The test may have heard enough.
        let _ = self.answers.send((no, reply.map(<[u8]>::to_vec)));
    }
}

/// A client's end.
struct Client {
    caller: Arc<Caller>,
    answers: UnboundedReceiver<(u32, Answer)>,
}

impl Client {
    fn new() -> Self {
        let (sender, answers) = unbounded_channel();
        Client { caller: Arc::new(Caller { commands: Mutex::default(), answers: sender }), answers }
    }

    fn add(&self, words: &[&str]) -> u32 {
        let mut commands = self.caller.commands.lock();
        commands.push(written(words));
        commands.len() as u32 - 1
    }

    fn forward(&self) -> Arc<dyn Forward> {
        Arc::clone(&self.caller) as Arc<dyn Forward>
    }

    async fn next(&mut self) -> (u32, Answer) {
        tokio::time::timeout(LONG, self.answers.recv()).await.expect("an answer").expect("it is here")
    }

    /// What a command for this key answers.
    async fn ask(&mut self, plain: &claret_redis::Cluster, key: &str, words: &[&str]) -> Answer {
        let no = self.add(words);
        plain.forward(self.forward(), no, Some(slot_of(key.as_bytes())));
        let (answered, answer) = self.next().await;
        assert_eq!(answered, no);
        answer
    }
}

async fn both() -> [claret_redis::Cluster; 2] {
    let builder = || Builder::new(shared().url());
    let two = builder().resp2().connect().await.expect("connected");
    [two, builder().connect().await.expect("connected")]
}

/// The same replies in both forms: byte by byte what a server says to a client of that protocol.
#[tokio::test]
async fn replies_come_as_the_server_wrote_them() {
    let _limit = TestLimit::begin();
    for (plain, at) in both().await.iter().zip(0..) {
        let (mut client, key) = (Client::new(), prefix());
        let name = |kind: &str| format!("{{{key}}}{kind}");
        let (hash, zset, set, text, none) = (name("h"), name("z"), name("s"), name("t"), name("none"));
        let long = "x".repeat(200_000);
        let long_reply = format!("$200000\r\n{long}\r\n");
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        let cases: &[(&[&str], [&str; 2])] = &[
            (&["HSET", &hash, "a", "b"], [":1\r\n"; 2]),
            (&["HGETALL", &hash], ["*2\r\n$1\r\na\r\n$1\r\nb\r\n", "%1\r\n$1\r\na\r\n$1\r\nb\r\n"]),
            (&["ZADD", &zset, "1.5", "m"], [":1\r\n"; 2]),
            (&["ZSCORE", &zset, "m"], ["$3\r\n1.5\r\n", ",1.5\r\n"]),
            (
                &["ZRANGE", &zset, "0", "-1", "WITHSCORES"],
                ["*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n", "*1\r\n*2\r\n$1\r\nm\r\n,1.5\r\n"],
            ),
            (&["SADD", &set, "e"], [":1\r\n"; 2]),
            (&["SMEMBERS", &set], ["*1\r\n$1\r\ne\r\n", "~1\r\n$1\r\ne\r\n"]),
            (&["GET", &none], ["$-1\r\n", "_\r\n"]),
            (&["LPOP", &none, "2"], ["*-1\r\n", "_\r\n"]),
            (&["MGET", &none, &none], ["*2\r\n$-1\r\n$-1\r\n", "*2\r\n_\r\n_\r\n"]),
            (&["LPUSH", &hash, "x"], [wrong; 2]),
            (&["SET", &text, &long], ["+OK\r\n"; 2]),
            (&["GET", &text], [&long_reply; 2]),
            (&["STRLEN", &none], [":0\r\n"; 2]),
        ];
        for (words, expected) in cases {
            let answer = client.ask(plain, &key, words).await.expect("a reply");
            assert_eq!(String::from_utf8_lossy(&answer), expected[at], "{words:?}");
        }
        // All at once, in their order.
        let numbers: Vec<u32> = cases.iter().map(|(words, _)| client.add(words)).collect();
        let slot = Some(slot_of(key.as_bytes()));
        plain.forward_all(&client.forward(), numbers.iter().map(|no| (*no, slot)));
        for (no, (words, expected)) in numbers.into_iter().zip(cases) {
            let (answered, answer) = client.next().await;
            let answer = answer.expect("a reply");
            assert_eq!(answered, no);
            let is_new = [":1\r\n", ":0\r\n"].contains(&expected[at]);
            assert!(is_new || answer == expected[at].as_bytes(), "{words:?}: {}", answer.escape_ascii());
        }
    }
}

/// What else a connection of the older protocol carries: who serves what, and commands whose replies are decoded.
#[tokio::test]
async fn the_older_protocol_is_decoded_as_the_newer_one() {
    let _limit = TestLimit::begin();
    let [two, three] = both().await;
    let sorted = |plain: &claret_redis::Cluster| {
        let mut nodes = plain.nodes();
        nodes.sort();
        nodes
    };
    assert_eq!(sorted(&two), sorted(&three));
    for key in keys(shared()) {
        assert_eq!(two.node_of(slot_of(key.as_bytes())), three.node_of(slot_of(key.as_bytes())));
        for (write, read) in [("RPUSH", "LRANGE 0 -1"), ("LPOP", "LLEN"), ("DEL", "LLEN"), ("SETNX", "GET")] {
            let (key, mut write) = (format!("{{{key}}}l"), Command::new(write).key(format!("{{{key}}}l")));
            if !["LPOP", "DEL"].contains(&&*write.words()[0].to_string()) {
                write = write.arg("v");
            }
            two.ask(write).await.expect("done");
            let (name, arguments) = read.split_once(' ').unwrap_or((read, ""));
            let read = arguments.split_whitespace().fold(Command::new(name).key(&key), Command::arg);
            assert_eq!(two.ask(read.clone()).await, three.ask(read).await);
        }
        let absent = Command::new("GET").key(format!("{{{key}}}none"));
        assert_eq!(two.ask(absent.clone()).await, Ok(claret_types::Reply::Nil));
        let mut own = two.dedicated(&key).await.expect("connected");
        assert_eq!(own.ask(&absent).await, Ok(claret_types::Reply::Nil));
        assert_eq!(own.nodes().await.expect("a topology").len(), 4);
    }
    assert_eq!(two.node_of(16_384), None);
}

#[tokio::test]
async fn a_node_is_asked_by_its_name_and_its_reply_is_whatever_it_says() {
    let _limit = TestLimit::begin();
    let [_, plain] = both().await;
    let mut client = Client::new();
    let key = &keys(shared())[0];
    let others = plain.node_of(slot_of(key.as_bytes())).expect("a node");
    let no = client.add(&["GET", key]);
    let node = plain.nodes().into_iter().find(|node| *node != others).expect("another");
    assert!(plain.forward_to(&node, client.forward(), no));
    let (_, answer) = client.next().await;
    let answer = String::from_utf8(answer.expect("a reply")).expect("a text");
    assert!(answer.starts_with("-MOVED ") && answer.contains(&others), "{answer}");
    assert!(!plain.forward_to("h:1", client.forward(), no), "there is no such node");
    let anywhere = client.add(&["ECHO", "hello"]);
    plain.forward(client.forward(), anywhere, None);
    assert_eq!(client.next().await, (anywhere, Ok(b"$5\r\nhello\r\n".to_vec())));
}

/// Adds one to each key of a slot, many at a time, and gives way when the topology changes. Returns how often.
async fn pipeline(plain: claret_redis::Cluster, keys: Vec<String>, is_over: Arc<AtomicBool>) -> u64 {
    const AT_ONCE: usize = 16;
    let mut client = Client::new();
    for key in &keys {
        client.add(&["INCR", key]);
    }
    let slot = Some(slot_of(keys[0].as_bytes()));
    let (mut sent, mut counts, mut under_way) = (0_u64, BTreeMap::<u32, u64>::new(), 0);
    let mut version = plain.topology_version();
    loop {
        let goes_on = !is_over.load(Ordering::Relaxed);
        if goes_on && under_way < AT_ONCE {
            let no = (sent % keys.len() as u64) as u32;
            if plain.forward_all_since(version, &client.forward(), [(no, slot)]) {
                (sent, under_way) = (sent + 1, under_way + 1);
                continue;
            }
        }
        if under_way == 0 {
            if !goes_on {
                return counts.values().sum();
            }
            version = plain.topology_version();
            continue;
        }
        let (no, answer) = client.next().await;
        under_way -= 1;
        let count = counts.entry(no).or_default();
        *count += 1;
        let answer = answer.expect("a reply");
        // Each is done once, and in its order.
        assert_eq!(String::from_utf8_lossy(&answer), format!(":{count}\r\n"), "{}", keys[no as usize]);
    }
}

/// A slot goes to and fro, key by key.
async fn move_to_and_fro(cluster: &Cluster, keys: &[String], owner: usize) {
    let slot = slot_of(keys[0].as_bytes()).to_string();
    for times in 0..6 {
        let (from, to) = if times % 2 == 0 { (owner, 2 - owner) } else { (2 - owner, owner) };
        let set_slot = |node: usize, words: &[&str]| {
            let words = [&["CLUSTER", "SETSLOT", &slot][..], words].concat();
            cluster.query::<()>(node, &words).expect("set");
        };
        let id = |node| cluster.query::<String>(node, &["CLUSTER", "MYID"]).expect("an id");
        set_slot(to, &["IMPORTING", &id(from)]);
        set_slot(from, &["MIGRATING", &id(to)]);
        let port = cluster.servers()[to].port().to_string();
        for key in keys {
            let words = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
            let since = Instant::now();
            // A node gives a key away while nobody uses it: it is asked again.
            while let Err(error) = cluster.query::<String>(from, &words) {
                assert!(since.elapsed() < LONG / 2, "{error}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for node in [to, from, 1] {
            set_slot(node, &["NODE", &id(to)]);
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_passed_on_while_its_slot_moves_is_done_once_and_in_order() {
    let _limit = TestLimit::begin();
    let cluster = fresh(3);
    for is_older in [false, true] {
        let builder = Builder::new(cluster.url());
        let builder = if is_older { builder.resp2() } else { builder };
        let plain = builder.connect().await.expect("connected");
        let tag = cluster.key_at(0, &prefix());
        let tag = if tag.contains('{') { tag } else { format!("{{{tag}}}") };
        let keys: Vec<String> = (0..8).map(|number| format!("{tag}{number}")).collect();
        let owner = cluster.owner(&keys[0]);
        assert_eq!(owner, 0);
        let (before, is_over) = (plain.topology_version(), Arc::new(AtomicBool::new(false)));
        let done = tokio::spawn(pipeline(plain.clone(), keys.clone(), Arc::clone(&is_over)));
        move_to_and_fro(&cluster, &keys, owner).await;
        is_over.store(true, Ordering::Relaxed);
        let done = done.await.expect("each in its order");
        let mut sum = 0;
        for key in &keys {
            let count = plain.ask(Command::new("GET").key(key)).await.expect("read").to_string();
            sum += count.trim_matches('"').parse::<u64>().expect("a number");
        }
        assert_eq!(sum, done, "each that was acknowledged, once");
        assert!(done > 100, "{done}");
        assert!(plain.topology_version() > before, "it moved, which is counted");
    }
}

#[tokio::test]
async fn what_was_under_way_when_its_node_died_is_told_so() {
    let _limit = TestLimit::begin();
    let mut cluster = fresh(2);
    let plain = Builder::new(cluster.url()).connect().await.expect("connected");
    let mut client = Client::new();
    let key = cluster.key_at(0, "k");
    // It waits on the server, as nothing should that is passed on.
    let no = client.add(&["BLPOP", &key, "0"]);
    plain.forward(client.forward(), no, Some(slot_of(key.as_bytes())));
    let list = cluster.query::<String>(0, &["PING"]);
    assert!(list.is_ok());
    tokio::time::sleep(Duration::from_millis(100)).await;
    cluster.server_mut(0).kill();
    let (_, answer) = client.next().await;
    assert!(matches!(answer, Err(CommandError::Lost { .. })), "{answer:?}");
}

async fn heard(raw: &mut Raw) -> (String, bool) {
    let said = tokio::time::timeout(LONG, raw.next()).await.expect("in time").expect("connected");
    (String::from_utf8_lossy(&said.bytes).into_owned(), said.is_push)
}

#[tokio::test]
async fn a_raw_connection_waits_on_the_server() {
    let _limit = TestLimit::begin();
    for plain in both().await {
        let key = prefix();
        let mut raw = plain.raw(Some(slot_of(key.as_bytes()))).await.expect("connected");
        raw.send(&written(&["BLPOP", &key, "0"])).await.expect("sent");
        for _ in 0..5 {
            // Given up, as where the client speaks first.
            let nothing = tokio::time::timeout(Duration::from_millis(20), raw.next()).await;
            assert!(nothing.is_err(), "{nothing:?}");
        }
        plain.ask(Command::new("RPUSH").key(&key).arg("v")).await.expect("pushed");
        let expected = format!("*2\r\n${}\r\n{key}\r\n$1\r\nv\r\n", key.len());
        assert_eq!(heard(&mut raw).await, (expected, false));
        // In pieces, as a client may write it.
        let ping = written(&["PING"]);
        for byte in &ping {
            raw.send(&[*byte]).await.expect("sent");
        }
        assert_eq!(heard(&mut raw).await, ("+PONG\r\n".to_owned(), false));
    }
}

#[tokio::test]
async fn a_raw_connection_hears_channels() {
    let _limit = TestLimit::begin();
    for (plain, sign) in both().await.iter().zip(["*", ">"]) {
        let channel = prefix();
        let mut raw = plain.raw_at(&plain.nodes()[0]).await.expect("connected");
        assert_eq!(raw.node(), plain.nodes()[0]);
        raw.queue(&written(&["SUBSCRIBE", &channel]));
        assert!(raw.queued() > 0);
        let length = channel.len();
        let is_push = sign == ">";
        let subscribed = format!("{sign}3\r\n$9\r\nsubscribe\r\n${length}\r\n{channel}\r\n:1\r\n");
        assert_eq!(heard(&mut raw).await, (subscribed, is_push));
        assert_eq!(raw.queued(), 0);
        for number in 0..200 {
            let said = Command::new("PUBLISH").arg(channel.as_str()).arg(format!("{number:03}"));
            plain.ask(said).await.expect("said");
        }
        for number in 0..200 {
            let message =
                format!("{sign}3\r\n$7\r\nmessage\r\n${length}\r\n{channel}\r\n$3\r\n{number:03}\r\n");
            assert_eq!(heard(&mut raw).await, (message, is_push));
        }
    }
}

/// WATCH, MULTI and EXEC of one node, as it does them; what the node refuses is a reply.
#[tokio::test]
async fn a_raw_connection_is_a_session_of_its_own() {
    let _limit = TestLimit::begin();
    for plain in both().await {
        let key = prefix();
        let mut raw = plain.raw(Some(slot_of(key.as_bytes()))).await.expect("connected");
        for (words, expected) in [
            (&["WATCH", &key][..], "+OK\r\n"),
            (&["MULTI"], "+OK\r\n"),
            (&["XADD", &key, "1-1", "a", "b"], "+QUEUED\r\n"),
            (&["XLEN", &key], "+QUEUED\r\n"),
            (&["EXEC"], "*2\r\n$3\r\n1-1\r\n:1\r\n"),
        ] {
            raw.send(&written(words)).await.expect("sent");
            assert_eq!(heard(&mut raw).await, (expected.to_owned(), false), "{words:?}");
        }
        let elsewhere =
            keys(shared()).into_iter().find(|other| shared().owner(other) != shared().owner(&key));
        raw.send(&written(&["GET", &elsewhere.expect("another shard")])).await.expect("sent");
        let (moved, _) = heard(&mut raw).await;
        assert!(moved.starts_with("-MOVED "), "{moved}");
        raw.send(b"*1\r\n$4\r\nQUIT\r\n").await.expect("sent");
        assert_eq!(heard(&mut raw).await.0, "+OK\r\n");
        let error = raw.next().await.expect_err("the server hung up");
        assert!(matches!(&error, CommandError::Lost { reason, .. } if reason.contains("closed")), "{error}");
    }
    let error = both().await[0].raw_at("nowhere").await.expect_err("no address").to_string();
    assert!(error.contains("'nowhere'"), "{error}");
}
