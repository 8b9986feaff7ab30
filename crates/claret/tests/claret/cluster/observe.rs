//! What is seen of transactions on a cluster, in the program and at its nodes.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use claret::{
    Records, Store,
    lab::{Mode, StoreLab},
};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Level;
use tracing::subscriber::{NoSubscriber, set_default};

use super::rig::{keys, shared};

const PAGE: &str = include_str!("../../../../../docs/howto/observe.md");

/// Hands on each line that a subscriber writes.
struct Lines(UnboundedSender<String>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The test may have heard enough.
        let _ = self.0.send(String::from_utf8_lossy(bytes).trim().to_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The next line that has all of these parts.
async fn heard(lines: &mut UnboundedReceiver<String>, parts: &[&str]) -> String {
    let mut others = Vec::new();
    let found = async {
        loop {
            let line = lines.recv().await.expect("the subscriber is there");
            if parts.iter().all(|part| line.contains(part)) {
                return line;
            }
            others.push(line);
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), found).await;
    found.unwrap_or_else(|_| panic!("{parts:?} not heard, but {others:#?}"))
}

/// Shards tell of a wait when they are asked, and to the process alone.
#[tokio::test]
async fn a_wait_is_told_with_its_key_while_it_lasts() {
    let _limit = super::limit::of_test();
    let (sender, mut lines) = unbounded_channel();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || Lines(sender.clone()))
        .finish();
    // While there is one subscriber only, `tracing` asks the thread that comes to an event first whether anybody listens to it, for
    // all threads and for good; other tests' threads have none.
    let _another = tracing::Dispatch::new(NoSubscriber::new());
    let _listening = set_default(subscriber);
    for mode in [Mode::CommutingPhased].into_iter().chain(Mode::ways()) {
        let store = Store::cluster(shared().url()).mode(mode).connect().await.expect("a store");
        let key = &keys(shared())[1];
        let (holds, go_on) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let holder = store.transaction(async |tx| {
            tx.counter(key).add_returning(1).await?;
            holds.notify_one();
            go_on.notified().await;
            Ok(())
        });
        let waiter = async {
            holds.notified().await;
            store.transaction(async |tx| Ok(tx.counter(key).add_returning(1).await?)).await
        };
        let look = async {
            let waits = heard(&mut lines, &["waits", &format!("key={key}")]).await;
            assert!(!waits.contains("holder="), "only the node knows it: {waits}");
            let id = waits.split("transaction{id=").nth(1).and_then(|rest| rest.split('}').next());
            let id = id.unwrap_or_else(|| panic!("it has a name: {waits}")).to_owned();
            let at_node: redis::Value = shared().query(1, &["CLARET.LOCKS", key]).expect("the locks");
            assert!(
                format!("{at_node:?}").contains(&format!("{id}/1")),
                "{id} waits at the node: {at_node:?}"
            );
            go_on.notify_one();
            heard(&mut lines, &[&id, "goes on", &format!("key={key}"), "waited_us="]).await;
            heard(&mut lines, &[&id, "committed"]).await;
        };
        let (held, waited, ()) = tokio::join!(holder, waiter, look);
        held.expect("nobody disturbed it");
        assert_eq!(waited, Ok(2));
        let stats = store.stats();
        assert_eq!((stats.commits, stats.aborts, stats.failures), (2, 0, 0), "{mode:?}");
        assert_eq!(stats.latency.count(), 2, "all are measured");
        store.close().await.expect("it closes");
    }
}

/// The command of the page makes of the numbers of a node what Prometheus reads.
#[test]
fn the_numbers_of_a_node_are_made_metrics() {
    let _limit = super::limit::of_test();
    let command = PAGE.split("redis-cli INFO claret | ").nth(1).and_then(|rest| rest.split(" > ").next());
    let command = command.expect("the page has a command");
    let ask = || -> String { shared().query(0, &["INFO", "claret"]).expect("the numbers") };
    let mut shown = ask();
    // It may have started just now: it says so from its next look on.
    while shown.contains("claret_serving:0") {
        std::thread::sleep(Duration::from_millis(10));
        shown = ask();
    }
    let mut child = Command::new("sh");
    let mut child =
        child.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    child.stdin.take().expect("piped").write_all(shown.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    let made = String::from_utf8(output.stdout).expect("text");
    // `claret_state` is a text, for people.
    let is_number = |line: &&str| line.starts_with("claret_") && !line.starts_with("claret_state:");
    let numbers = shown.lines().filter(is_number).count();
    assert!(numbers > 50, "{shown}");
    assert_eq!(made.lines().count(), numbers, "each of them: {made}");
    for line in made.lines() {
        let (name, value) = line.split_once(' ').expect("a name and a value");
        assert!(name.starts_with("claret_") && value.parse::<u64>().is_ok(), "{line}");
    }
    assert!(made.lines().any(|line| line == "claret_serving 1"), "{made}");
}
