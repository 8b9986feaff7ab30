//! What is seen of transactions: spans and events, counts, metrics. The page "Observe it" shows what is checked here.

#[path = "../examples/observe/main.rs"]
#[allow(dead_code)]
mod example;

#[path = "claret/time.rs"]
mod time;

use std::future::pending;
use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use claret::{
    Abort, Error, Records, Store, TxOptions,
    errors::{BeginError, CommitError, ExecuteError},
    lab::{Mode, StoreLab},
    stats::Stats,
};
use tokio::sync::Notify;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level, Span, Subscriber};

use example::recorder::Recorder;
use time::in_time;

const PAGE: &str = include_str!("../../../docs/howto/observe.md");

/// Hears this thread's events until that is dropped. While there is one subscriber only, `tracing` asks the thread that comes to an
/// event first whether anybody listens to it, for all threads and for good; other tests' threads have none. So there are always two.
fn listen(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&ANOTHER);
    tracing::subscriber::set_default(subscriber)
}

/// What a subscriber has written, while it is that of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(level: Level) -> (Self, DefaultGuard) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .without_time()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let guard = listen(subscriber.finish());
        (log, guard)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }

    /// Its lines, but for how long things took.
    fn lines(&self) -> Vec<String> {
        timeless(&self.text())
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines with every time replaced.
fn timeless(text: &str) -> Vec<String> {
    let word = |word: &str| match word.split_once("_us=") {
        Some((name, _)) => format!("{name}_us=N"),
        None => word.to_owned(),
    };
    text.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")).collect()
}

/// A block of the page that begins with this line.
fn block_of_page(begins: &str) -> String {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let block = blocks.filter_map(|block| block.split_once('\n')).find(|(_, text)| text.starts_with(begins));
    block.unwrap_or_else(|| panic!("the page has no block that begins with {begins}")).1.to_owned()
}

#[tokio::test]
async fn the_trace_of_the_page_is_what_is_printed() {
    let (log, _listening) = Log::listen(Level::DEBUG);
    let store = Store::in_memory();
    in_time(example::two_orders(&store)).await.expect("both are done");
    let told = log.lines();
    assert_eq!(told, timeless(&block_of_page("DEBUG order{")), "{}", log.text());
    // Whatever the page says.
    let has = |parts: &[&str]| told.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    let (ada, bob) =
        (r#"order{buyer="ada"}:transaction{id=1.1}"#, r#"order{buyer="bob"}:transaction{id=1.2}"#);
    assert!(has(&[bob, "attempt{number=1}", "waits", "key=lamps", "holder=1.1/1"]));
    assert!(has(&[bob, "attempt{number=1}", "restarts", "reason=\"gave_way\""]));
    assert!(has(&[bob, "attempt{number=2}", "an event of the program's own attempt=2"]));
    assert!(has(&[bob, "committed", "attempts=2", "took_us=N"]));
    assert!(has(&[ada, "goes on", "key=shades", "waited_us=N"]));
}

#[test]
fn the_metrics_of_the_page_are_what_is_recorded() {
    let recorder = Recorder::default();
    let store = metrics::with_local_recorder(&recorder, Store::in_memory);
    pollster::block_on(example::two_orders(&store)).expect("both are done");
    let recorded = recorder.text();
    let shown = block_of_page("# HELP claret_restarts_total");
    // How long it took is another matter each time.
    let timeless = |text: &str| -> Vec<String> {
        let is_time = |line: &&str| line.starts_with("claret_transaction_seconds_sum ");
        text.lines().filter(|line| !is_time(line)).map(str::to_owned).collect()
    };
    assert_eq!(timeless(&recorded), timeless(&shown), "{recorded}");
    assert!(value(&recorder, "claret_transaction_seconds_sum") > Some(0.0));
    let described = recorded.lines().filter_map(|line| line.strip_prefix("# HELP "));
    for (name, text) in described.filter_map(|line| line.split_once(' ')) {
        let unit = if name.ends_with("_seconds") { "(seconds)" } else { "(count)" };
        assert!(text.ends_with(unit), "{name} {text}");
        assert!(PAGE.contains(&format!("| `{name}")), "the page has a line for {name}");
    }
}

/// A value that was recorded, by name and labels.
fn value(recorder: &Recorder, name: &str) -> Option<f64> {
    let recorded = recorder.text();
    let mut shown = recorded.lines().filter_map(|line| line.rsplit_once(' '));
    let (_, value) = shown.find(|(known, _)| *known == name)?;
    Some(value.parse().expect("a number"))
}

/// The rows of the page's tables that have a query: what they are about, and the query.
fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let tables = PAGE.split("\n\n").filter(|part| {
        part.lines()
            .next()
            .is_some_and(|head| head.starts_with("| ") && head.contains(" | query | bad | what to do |"))
    });
    tables.flat_map(|table| table.lines().skip(2)).map(|row| {
        let mut cells = row.split(" | ");
        let (about, query) = (cells.next().expect("a cell"), cells.next().expect("a query"));
        let query = query.strip_prefix('`').and_then(|query| query.strip_suffix('`'));
        (about, query.unwrap_or_else(|| panic!("no query: {row}")))
    })
}

/// Names of metrics, of whatever kind.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("claret_") || word.starts_with("store_"))
}

/// Of a store, of what the page records by hand, and of a node.
#[test]
fn each_number_has_a_query_and_each_query_is_of_numbers_that_there_are() {
    let recorder = Recorder::default();
    drop(metrics::with_local_recorder(&recorder, Store::in_memory));
    let described = recorder.text();
    let mut known: Vec<&str> = described.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(known.len(), 4, "{described}");
    let recorded_by_hand = PAGE.split("!(\"").skip(1).filter_map(|after| after.split('"').next());
    known.extend(recorded_by_hand.filter(|name| name.starts_with("store_")));
    let of_nodes =
        include_str!("../../../docs/commands.md").split("## INFO claret").nth(1).expect("the numbers");
    let of_nodes = of_nodes.split("\n## ").next().expect("a section");
    known.extend(of_nodes.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()));
    // It is a text, for people.
    known.retain(|name| *name != "claret_state");
    assert!(known.len() > 50, "{known:?}");

    let (mut asked, mut about) = (Vec::new(), Vec::new());
    for (row, query) in queries() {
        assert_eq!(query.matches('(').count(), query.matches(')').count(), "{query}");
        about.extend(names(row));
        asked.extend(names(query));
    }
    for name in &known {
        assert!(about.contains(name), "no row is about {name}");
        let is_asked =
            |asked: &&str| asked.strip_prefix(*name).is_some_and(|rest| ["", "_bucket"].contains(&rest));
        assert!(asked.iter().any(is_asked), "no query asks for {name}");
    }
    for name in asked {
        let plain =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(known.contains(&name) || plain == "claret_transaction_seconds", "there is no {name}");
    }
}

/// Every way in which a transaction ends, on the store and its counts.
async fn end_in_every_way(store: &Store) {
    store.counter("n").add(1).await.expect("a single operation");
    let aborted = store.transaction(async |_| Err::<(), _>(Abort::because("sold out"))).await;
    assert!(matches!(aborted, Err(Error::Aborted(_))));
    store.list("list").push_back("x").await.expect("pushed");
    assert!(
        matches!(store.counter("list").add(1).await, Err(Error::Execute(ExecuteError::Invalid { .. }))),
        "refused at once"
    );
    let refused = store.transaction(async |tx| Ok(tx.counter("list").get().await?)).await;
    assert!(matches!(refused, Err(Error::Execute(ExecuteError::Invalid { .. }))), "{refused:?}");

    let (holds, is_over) = (Notify::new(), Notify::new());
    let holder = store.transaction(async |tx| {
        tx.counter("held").get_for_update().await?;
        holds.notify_one();
        is_over.notified().await;
        Ok(())
    });
    let waiters = async {
        holds.notified().await;
        let options = TxOptions::new().deadline(Duration::from_millis(20));
        let late = store.tx().options(options).run(async |tx| Ok(tx.counter("held").get().await?)).await;
        assert!(matches!(late, Err(Error::Commit(CommitError::Deadline { .. }))), "{late:?}");
        let dropped = store.transaction(async |tx| {
            tx.counter("other").add(1)?;
            pending::<Result<(), Abort>>().await
        });
        assert!(is_pending(dropped).await, "it would never end");
        is_over.notify_one();
    };
    let (held, ()) = tokio::join!(holder, waiters);
    held.expect("nobody disturbed it");
}

/// Polls a future once, and drops it. Whether it was pending.
async fn is_pending(future: impl Future) -> bool {
    let mut future = Box::pin(future);
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn each_transaction_is_counted_once_by_how_it_ended() {
    for mode in [Mode::CommutingPhased, Mode::ReaderWriterPhased].into_iter().chain(Mode::ways()) {
        let recorder = Recorder::default();
        let store = metrics::with_local_recorder(&recorder, || Store::builder().mode(mode).build());
        in_time(end_in_every_way(&store)).await;
        let stats = store.stats();
        let Stats { commits, aborts, dropped, deadlines, failures, unknown, restarts, .. } = stats;
        assert_eq!((commits, aborts, dropped, deadlines, failures, unknown), (3, 1, 1, 1, 2, 0), "{mode:?}");
        assert_eq!(restarts, 0, "{mode:?}");
        let ended = |outcome: &str| {
            value(&recorder, &format!("claret_transactions_total{{outcome=\"{outcome}\"}}"))
                .unwrap_or_default()
        };
        let outcomes = ["committed", "aborted", "dropped", "deadline", "failed", "unknown"];
        assert_eq!(outcomes.map(ended), [3.0, 1.0, 1.0, 1.0, 2.0, 0.0], "{mode:?}");
        assert_eq!(value(&recorder, "claret_transactions_running"), Some(0.0), "{mode:?}");
        // Those that waited are measured, whichever else are.
        assert!(stats.latency.max() >= Duration::from_millis(20), "{mode:?}: {:?}", stats.latency.max());
        assert!(stats.latency.count() >= 1, "{mode:?}");
    }
}

/// At a level where programs run: only what somebody should look at, with all that is needed to.
#[tokio::test]
async fn a_deadline_is_a_warning_that_names_key_and_holder() {
    let (log, _listening) = Log::listen(Level::INFO);
    let store = Store::in_memory();
    in_time(end_in_every_way(&store)).await;
    let told = log.lines();
    assert_eq!(told.len(), 1, "{told:?}");
    let line = &told[0];
    assert!(line.starts_with("WARN claret: fails error=not committed within 20ms"), "{line}");
    assert!(line.contains("for key 'held', which transaction 1.") && line.contains("/1 holds"), "{line}");
}

#[tokio::test]
async fn every_end_of_a_transaction_is_told() {
    let (log, _listening) = Log::listen(Level::DEBUG);
    in_time(end_in_every_way(&Store::in_memory())).await;
    let told = log.lines();
    let count = |end: &str| told.iter().filter(|line| line.contains(end)).count();
    assert_eq!(count("claret: committed attempts=1"), 1, "single operations are not told: {told:?}");
    for end in ["aborted", "dropped", "deadline", "failed"] {
        assert_eq!(count(&format!("claret: {end} attempts=1")), 1, "{end}: {told:?}");
    }
    assert_eq!(count("claret: fails error="), 2, "{told:?}");
}

/// The span is entered while the closure is polled, and not while it waits.
#[tokio::test]
async fn a_transaction_that_waits_leaves_its_span() {
    let (_log, _listening) = Log::listen(Level::DEBUG);
    let store = Store::in_memory();
    let go_on = Notify::new();
    let mut transaction = Box::pin(store.transaction(async |_| {
        assert_eq!(Span::current().metadata().map(|span| span.name()), Some("attempt"));
        go_on.notified().await;
        assert_eq!(Span::current().metadata().map(|span| span.name()), Some("attempt"));
        Ok(())
    }));
    let poll =
        |cx: &mut std::task::Context<'_>| std::task::Poll::Ready(transaction.as_mut().poll(cx).is_pending());
    assert!(std::future::poll_fn(poll).await);
    assert!(Span::current().is_none(), "whoever runs now is not in it");
    go_on.notify_one();
    in_time(transaction).await.expect("committed");
    assert!(Span::current().is_none());
}

/// A subscriber is the program's own code. Told under a lock of the transaction, this would wait for itself.
#[tokio::test]
async fn a_subscriber_may_use_the_store_that_it_hears_of() {
    struct Counting(Store);

    impl Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let store = self.0.blocking();
            store.counter("lines").add(1).map_err(io::Error::other)?;
            // The record that the transactions of the example hold in turn.
            assert!(!matches!(store.counter("lamps").get(), Err(Error::Begin(BeginError::Closed))));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let store = Store::builder().transactions(TxOptions::new().deadline(Duration::from_millis(50))).build();
    let of_writer = store.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_writer(move || Counting(of_writer.clone()))
        .finish();
    let long = TxOptions::new().deadline(Duration::from_secs(20));
    let _listening = listen(subscriber);
    let transaction =
        store.tx().options(long).run(async |tx| Ok(tx.counter("other").add_returning(1).await?));
    assert_eq!(in_time(transaction).await, Ok(1));
    assert!(store.counter("lines").get().await.expect("read") >= 2);
}

/// Both count on from one attempt to the next, and begin with 1.
#[tokio::test]
async fn a_closure_knows_which_attempt_it_is() {
    let store = Store::in_memory();
    let seen = Mutex::new(Vec::new());
    let (elder_holds, younger_waits) = (Notify::new(), Notify::new());
    let elder = store.transaction(async |tx| {
        tx.counter("elder's").get_for_update().await?;
        elder_holds.notify_one();
        younger_waits.notified().await;
        Ok(tx.counter("younger's").get_for_update().await?)
    });
    let younger = async {
        elder_holds.notified().await;
        let younger = store.transaction(async |tx| {
            seen.lock().expect("no panic").push(tx.attempt());
            tx.counter("younger's").get_for_update().await?;
            let blocked = tx.counter("elder's").get();
            younger_waits.notify_one();
            Ok(blocked.await?)
        });
        younger.await
    };
    let (elder, younger) = in_time(async { tokio::join!(elder, younger) }).await;
    elder.and(younger).expect("both are done");
    assert_eq!(*seen.lock().expect("no panic"), [1, 2]);
    let stats = store.stats();
    assert_eq!((stats.restarts, stats.restart_reasons.gave_way), (1, 1));

    let attempt = store.blocking().transaction(|tx| Ok(tx.attempt()));
    assert_eq!(attempt, Ok(1));
}

/// The closure keeps the thread while it waits.
#[test]
fn a_wait_of_a_blocking_closure_is_told_while_it_lasts() {
    struct Waits(Sender<String>);

    impl Write for Waits {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let line = String::from_utf8_lossy(bytes);
            if line.contains("waits") {
                self.0.send(line.into_owned()).map_err(io::Error::other)?;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    for mode in [Mode::CommutingPhased].into_iter().chain(Mode::ways()) {
        let store = Store::builder().mode(mode).build().blocking();
        let (holds, held) = channel();
        let (waits, heard) = channel();
        let holder = {
            let store = store.clone();
            std::thread::spawn(move || {
                store.transaction(|tx| {
                    tx.counter("r").add_returning(1)?;
                    holds.send(()).map_err(Abort::because)?;
                    heard.recv_timeout(Duration::from_secs(60)).map_err(Abort::because)
                })
            })
        };
        held.recv().expect("it holds the record");
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || Waits(waits.clone()))
            .finish();
        let _listening = listen(subscriber);
        assert_eq!(store.transaction(|tx| Ok(tx.counter("r").add_returning(1)?)), Ok(2), "{mode:?}");
        let line: String = holder.join().expect("no panic").expect("it was heard before it let go");
        assert!(line.contains("attempt{number=1}: claret: waits key=r holder=1."), "{mode:?}: {line}");
    }
}
