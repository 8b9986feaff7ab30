//! `claret top` on real servers under load: what is hot, who waits for whom, what is wrong with a node; as text, as JSON, and on a
//! terminal, which is as before afterwards.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use claret::{Records, Store};
use claret_rig::{Cluster, Module, Server, TestLimit};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

fn module() -> Module {
    Module::of_sources().expect("the module")
}

fn cluster() -> Cluster {
    // A node that is killed is not taken for failed before a test is over.
    Cluster::options(2, 0).module(module()).node_timeout_ms(60_000).start().expect("a cluster")
}

fn top(url: &str, more: &[&str]) -> Output {
    let arguments = [&["top", "--store", url, "--once", "--every-ms", "300"], more].concat();
    Command::new(env!("CARGO_BIN_EXE_claret")).args(arguments).output().expect("the program starts")
}

/// Waits while others work.
async fn top_beside(url: &str, more: &'static [&'static str]) -> Output {
    let url = url.to_owned();
    tokio::task::spawn_blocking(move || top(&url, more)).await.expect("no panic")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Processes that read and write one record until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<u64>>,
}

impl Load {
    async fn on(url: &str, key: &str) -> Load {
        let stop = Arc::<AtomicBool>::default();
        let mut tasks = Vec::new();
        for _ in 0..4 {
            // Each as a process of its own, so that they meet at the node.
            let store = Store::connect(url).await.expect("a store");
            let (stop, key) = (Arc::clone(&stop), key.to_owned());
            tasks.push(tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let done = store.transaction(async |tx| {
                        let before: Option<i64> = tx.register(&key).get_for_update().await?;
                        tx.register(&key).set(before.unwrap_or(0) + 1)?;
                        Ok(())
                    });
                    count += u64::from(done.await.is_ok());
                }
                count
            }));
        }
        Load { stop, tasks }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            assert!(task.await.expect("no panic") > 0, "it did something");
        }
    }
}

/// What `CLARET.LOCKS` answers: each key, who holds it, who waits.
type Locks = Vec<(String, Vec<String>, Vec<String>)>;

/// A transaction that holds a record, and one that waits for it, until told to go on.
async fn stuck(url: &str, key: &str) -> (Arc<Notify>, [JoinHandle<()>; 2]) {
    let (holds, go_on) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let (store, key) = (Store::connect(url).await.expect("a store"), key.to_owned());
    let other = Store::connect(url).await.expect("a store");
    let held = {
        let (key, holds, go_on) = (key.clone(), Arc::clone(&holds), Arc::clone(&go_on));
        tokio::spawn(async move {
            let held = store.transaction(async |tx| {
                tx.counter(&key).add_returning(1).await?;
                holds.notify_one();
                go_on.notified().await;
                Ok(())
            });
            held.await.expect("nobody disturbs it");
        })
    };
    holds.notified().await;
    let waits = tokio::spawn(async move {
        other.counter(&key).add_returning(1).await.expect("it gets its turn");
    });
    (go_on, [held, waits])
}

/// The waits for a record. There are some in the end: what waits has to arrive first.
async fn waits_for(url: &str, key: &str) -> (Value, Value) {
    loop {
        let output = top_beside(url, &["--json"]).await;
        assert!(output.status.success(), "{}{}", out(&output), err(&output));
        let report: Value = serde_json::from_str(&out(&output)).expect("one JSON object");
        let waits = report["waits"].as_array().expect("a list");
        if let Some(wait) = waits.iter().find(|wait| wait["key"] == *key) {
            let wait = wait.clone();
            return (report, wait);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_hot_and_who_waits_is_shown_during_load() {
    let cluster = cluster();
    let _limit = TestLimit::begin();
    let url = cluster.url();
    let (hot, key) = (cluster.key_at(0, "hot:"), cluster.key_at(1, "stuck:"));
    let load = Load::on(&url, &hot).await;
    let (go_on, transactions) = stuck(&url, &key).await;

    let (report, wait) = waits_for(&url, &key).await;
    assert_eq!((&report["version"], &report["store"]), (&1.into(), &url.as_str().into()));
    let cluster_rates = &report["cluster"];
    assert_eq!((&cluster_rates["shards"], &cluster_rates["answered"]), (&2.into(), &2.into()));
    for rate in ["transactions", "commits", "operations", "frames", "grants"] {
        let rate = &cluster_rates[format!("{rate}_per_second")];
        assert!(rate.as_f64().is_some_and(|rate| rate > 0.0), "{report:#}");
    }
    assert!(cluster_rates["operations_per_frame"].as_f64() > Some(0.0), "{report:#}");
    assert_eq!(report["shards"].as_array().map(Vec::len), Some(2));

    // Who waits for whom, by the names that CLARET.RESOLVE takes.
    let [waiter, holder] = ["waiter", "holder"].map(|who| &wait[who]);
    assert!(waiter["attempt"] != holder["attempt"] && waiter["user"] == "default", "{wait:#}");
    assert_eq!((&wait["operation"], &holder["has_voted"]), (&"INCRBY.RETURNING".into(), &false.into()));
    assert!(wait["waited_ms"].as_f64() > Some(0.0), "{wait:#}");
    let locks: Locks = cluster.query(1, &["CLARET.LOCKS", &key]).expect("the locks");
    let [(_, held_by, waited_by)] = &locks[..] else { panic!("one key, not {locks:?}") };
    assert!(held_by[0].starts_with(holder["attempt"].as_str().expect("a name")), "{locks:?}");
    assert!(waited_by[0].starts_with(waiter["attempt"].as_str().expect("a name")), "{locks:?}");

    let keys = report["keys"].as_array().expect("a list");
    let of = |name: &str| {
        keys.iter().find(|it| it["key"] == *name).unwrap_or_else(|| panic!("{name}: {report:#}"))
    };
    assert_eq!((&of(&key)["holders"], &of(&key)["waiters"]), (&1.into(), &1.into()));
    assert!(of(&hot)["recent_waits"].as_u64() > Some(0), "{report:#}");
    assert!(of(&hot)["operations"].as_array().is_some_and(|it| !it.is_empty()), "{report:#}");
    assert_eq!(keys[0]["key"], *hot, "the hottest comes first");

    let shown = top_beside(&url, &[]).await;
    let text = out(&shown);
    assert!(shown.status.success(), "{text}{}", err(&shown));
    for part in ["2 of 2 shards", "TX/S", "OP/FRAME", &hot, &key, "INCRBY.RETURNING", "default@127.0.0.1:"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    go_on.notify_one();
    for transaction in transactions {
        transaction.await.expect("it commits");
    }
    load.end().await;
}

#[test]
fn what_cannot_be_looked_at_is_refused_by_name() {
    for (store, named) in [
        ("embedded", &["'embedded'", "--store redis://", "Store::stats"][..]),
        ("sim", &["'sim'", "--store redis://"]),
        ("cluster", &["'cluster'", "--store redis://"]),
        ("disk", &["'disk'", "embedded"]),
        ("redis://127.0.0.1:1", &["127.0.0.1:1", "check that the server runs"]),
        ("redis://shop:till7@127.0.0.1:1/?timeout=1", &["timeout"]),
    ] {
        let refused = top(store, &[]);
        let error = err(&refused);
        assert!(!refused.status.success() && out(&refused).is_empty(), "{}", out(&refused));
        assert!(!error.contains("till7"), "{error}");
        for name in named {
            assert!(error.contains(name), "{store}: {error}");
        }
    }
    let wrong =
        Command::new(env!("CARGO_BIN_EXE_claret")).args(["top", "--store", "redis://h", "--json"]).output();
    assert!(err(&wrong.expect("it starts")).contains("--once"), "JSON is of one reading");
}

#[test]
fn a_node_that_is_down_is_shown_in_its_row_and_the_others_go_on() {
    let mut cluster = cluster();
    let _limit = TestLimit::begin();
    let url = cluster.url();
    let down = cluster.servers()[1].address();
    cluster.server_mut(1).kill();
    let shown = top(&url, &["--json"]);
    assert_eq!(shown.status.code(), Some(1), "{}{}", out(&shown), err(&shown));
    let report: Value = serde_json::from_str(&out(&shown)).expect("JSON");
    let shards = report["shards"].as_array().expect("a list");
    for shard in shards {
        let is_down = shard["node"] == *down;
        assert_eq!(shard["error"].is_null(), !is_down, "{shard:#}");
        assert_eq!(shard["commits_per_second"].is_null(), is_down, "{shard:#}");
        assert!(
            !is_down || shard["error"].as_str().is_some_and(|it| it.contains("check that the server runs"))
        );
    }
    assert_eq!((shards.len(), &report["cluster"]["answered"]), (2, &1.into()));
    let text = out(&top(&url, &[]));
    assert!(text.contains("1 of 2 shards") && text.contains(&format!("{down} ")), "{text}");
}

#[test]
fn an_error_says_what_to_do() {
    let server = Server::options().module(module()).start().expect("a server");
    let without = Server::start().expect("a server");
    let _limit = TestLimit::begin();
    let shown = top(&without.url(), &[]);
    assert!(
        !shown.status.success() && out(&shown).contains("loadmodule libclaret_module.so"),
        "{}",
        out(&shown)
    );

    let rights = "on >pw ~* resetchannels +hello +auth +cluster|slots";
    for (user, more, named) in [
        ("notop", "+config|get", "ACL SETUSER notop +claret.top +config|get"),
        ("nooperator", "+claret.top", "ACL SETUSER nooperator +config|get"),
        ("noslots", "-cluster|slots", "ACL SETUSER noslots +cluster|slots"),
        ("enough", "+claret.top +config|get +type", "1 of 1 shards"),
    ] {
        let words = format!("ACL SETUSER {user} {rights} {more}");
        server.query::<()>(&words.split(' ').collect::<Vec<_>>()).expect("a user");
        let shown = top(&format!("redis://{user}:pw@{}", server.address()), &[]);
        let said = out(&shown) + &err(&shown);
        assert!(said.contains(named) && !said.contains(":pw@"), "{user}: {said}");
        assert_eq!(shown.status.success(), user == "enough", "{said}");
    }
}

/// Reads until a text has come.
fn read_until(from: &mut ChildStdout, wanted: &str) -> String {
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let count = from.read(&mut some).expect("it writes");
        all.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&all).into_owned();
        assert!(count > 0, "it ended before '{wanted}': {text}");
        if text.contains(wanted) {
            return text;
        }
    }
}

/// On a terminal of `script`, which is 30 lines high.
fn on_terminal(url: &str) -> Child {
    let program = env!("CARGO_BIN_EXE_claret");
    let line =
        format!("stty rows 30 cols 100; '{program}' top --store {url} --every-ms 200; echo code $?; stty -a");
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("script, of bsdutils")
}

#[test]
fn a_terminal_is_drawn_on_until_q_and_is_as_before_then() {
    let server = Server::options().module(module()).start().expect("a server");
    let _limit = TestLimit::begin();
    for key in ["q", "\u{3}"] {
        let mut child = on_terminal(&server.url());
        let mut shown = child.stdout.take().expect("piped");
        let before = read_until(&mut shown, "rates over 0.2 s");
        assert!(before.contains("\u{1b}[?1049h") && before.contains("\u{1b}[?25l"), "{before:?}");
        assert!(before.contains("nobody waits"), "{before:?}");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(key.as_bytes()).expect("it reads");
        let after = read_until(&mut shown, "echoctl");
        for part in ["\u{1b}[?1049l", "\u{1b}[?25h", "code 0"] {
            assert!(after.contains(part), "{after:?}");
        }
        assert!(after.contains("isig icanon") && after.contains(" echo "), "{after:?}");
        drop(input);
        child.wait().expect("it ends");
    }
}

#[test]
fn where_the_output_is_no_terminal_blocks_of_text_come() {
    let server = Server::options().module(module()).start().expect("a server");
    let _limit = TestLimit::begin();
    let arguments = ["top", "--store", &server.url(), "--every-ms", "100"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    let titles = lines.filter(|line| line.starts_with("claret top ") && !line.contains('\u{1b}'));
    assert_eq!(titles.take(2).count(), 2);
    // Nobody reads any more: it ends by itself.
    child.wait().expect("it ends");
}
