//! What clients do by default while a key is held, a server is silent, a gateway is killed or an answer is lost: what is done at the store,
//! and what the client hears of it. Nothing may be done twice through a gateway without the client hearing of it where it is not so on
//! one server.
//!
//! The check runs what ends within seconds. With `CLARET_DEFAULTS=FILE` all is walked, which tools/client-defaults does: tables are
//! printed, and the file gets the same as JSON.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use claret::{Abort, Records, blocking};
use claret_rig::{Cluster, Module, Server, TestLimit, pause_process, resume_process};
use serde_json::{Value, json};

use crate::languages::{Program, claret, ready};
use crate::tap::Tap;

/// The node that has each second key of a program, and is stopped.
const NODE: usize = 0;

/// Who has heard nothing for so long, hears nothing.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a program does: `INCR x; INCR y` in a MULTI; a loop that watches `x`; both commands in a pipeline.
const KINDS: [&str; 3] = ["multi", "watch", "pipeline"];

/// What happens while programs work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    None,
    /// The second key is held by a transaction for so long, or until all have heard something.
    HeldFor(Duration),
    /// The same, and until that time is over.
    Held(Duration),
    /// The node of the second key, or the one server, is stopped (SIGSTOP) for so long.
    Stopped(Duration),
    /// The gateway is killed while EXEC waits for a key that is held, and started again.
    Killed,
    /// The answer to EXEC, or to the pipeline, is lost with its connection. What it did is done.
    Lost,
}

impl Fault {
    fn name(self) -> String {
        match self {
            Fault::None => "none".to_owned(),
            Fault::HeldFor(time) => format!("key held for up to {} s", time.as_secs()),
            Fault::Held(time) => format!("key held for {} s", time.as_secs()),
            Fault::Stopped(time) => format!("server stopped for {} s", time.as_secs()),
            Fault::Killed => "gateway killed in EXEC".to_owned(),
            Fault::Lost => "answer lost".to_owned(),
        }
    }

    /// What is the same for a client of one server.
    fn of_one_server(self) -> Fault {
        match self {
            Fault::HeldFor(time) | Fault::Held(time) => Fault::Stopped(time),
            Fault::Killed => Fault::Lost,
            other => other,
        }
    }
}

/// A program that works, with keys of its own.
struct Session {
    client: String,
    settings: Value,
    prefix: String,
    tap: Option<Tap>,
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
    since: Instant,
}

impl Session {
    /// Starts it. It has no name before it has said something.
    fn start(program: &Program, port: u16, kind: &str, prefix: &str, tap: Option<Tap>) -> Self {
        let port = tap.as_ref().map_or(port, Tap::port).to_string();
        let mut command = program.command(&["127.0.0.1", &port, "defaults", kind, prefix]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (said, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let line =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({ "ok": false, "heard": line }));
                let _ = said.send(line);
            }
        });
        let input = child.stdin.take().expect("it is piped");
        let (client, settings) = (program.client.to_owned(), Value::Null);
        Session {
            client,
            settings,
            prefix: prefix.to_owned(),
            tap,
            child,
            input,
            lines,
            since: Instant::now(),
        }
    }

    /// Waits until it is connected.
    fn meet(&mut self) {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|_| panic!("{} does not connect", self.client));
        let name = line["client"].as_str().unwrap_or_else(|| panic!("{}: {line}", self.client));
        name.clone_into(&mut self.client);
        self.settings = line["settings"].clone();
    }

    fn go(&mut self) {
        self.since = Instant::now();
        self.input.write_all(b"go\n").expect("it reads");
    }

    /// What it hears in the end: whether all was well, and the text.
    fn hear(&mut self) -> (bool, String, f64) {
        let left = PATIENCE.saturating_sub(self.since.elapsed());
        let heard = match self.lines.recv_timeout(left) {
            Ok(line) => (line["ok"] == true, line["heard"].as_str().unwrap_or_default().to_owned()),
            Err(_) => (false, format!("nothing in {} s", PATIENCE.as_secs())),
        };
        (heard.0, heard.1, self.since.elapsed().as_secs_f64())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Outcome {
    client: String,
    kind: &'static str,
    ok: bool,
    heard: String,
    seconds: f64,
    /// What `x` and `y` have in the end: how often each was done.
    done: (i64, i64),
}

impl Outcome {
    /// Whether the error that was heard says that nothing was done.
    fn denies(&self) -> bool {
        // Some clients make the code a class: TryAgainError.
        let (heard, codes) = (self.heard.to_ascii_lowercase(), ["tryagain", "execabort", "clusterdown"]);
        !self.ok && codes.iter().any(|code| heard.contains(code)) && !self.heard.contains("UNKNOWN")
    }

    /// Whether the client shows its user nothing of an error that EXEC is answered, whoever answers it: redis-rs from 1.0 on.
    fn is_not_shown(&self) -> bool {
        !self.ok && self.heard.contains("Invalid response when parsing multi response")
    }

    /// What is wrong with it by itself.
    fn wrong(&self) -> Option<&'static str> {
        let (x, y) = self.done;
        match () {
            // A client that sends the rest of a lost MULTI again without it says so: what it does then is its own.
            () if self.heard.contains("EXEC without MULTI") => None,
            () if self.ok && x.max(y) > 1 => Some("done twice, and heard nothing of it"),
            () if self.kind != "pipeline" && x != y => Some("torn"),
            () if self.ok && (x, y) != (1, 1) => Some("not done, and heard that it was"),
            () if self.kind != "pipeline" && self.denies() && y > 0 => {
                Some("done, and heard that it was not")
            }
            () => None,
        }
    }

    fn json(&self, fault: &str, target: &str) -> Value {
        json!({
            "client": self.client, "work": self.kind, "fault": fault, "target": target, "ok": self.ok,
            "heard": self.heard, "after_seconds": self.seconds, "x": self.done.0, "y": self.done.1, "wrong": self.wrong(),
        })
    }
}

/// A transaction that holds keys until it is told to end; then nothing has changed.
struct Holder {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Holder {
    fn hold(store: &blocking::Store, keys: Vec<String>) -> Self {
        let (end, ended) = channel();
        let (has, held) = channel();
        let store = store.clone();
        let thread = thread::spawn(move || {
            let done = store.transaction(|tx| {
                for key in &keys {
                    tx.counter(key).get_for_update()?;
                }
                let _ = has.send(());
                let _ = ended.recv();
                Err::<(), _>(Abort::because("it was only to hold them"))
            });
            assert!(done.is_err(), "it changes nothing");
        });
        held.recv().expect("it holds them");
        Holder { end, thread }
    }

    fn release(self) {
        let _ = self.end.send(());
        self.thread.join().expect("it ends");
    }
}

/// `claret gateway` in a process of its own.
struct Gateway {
    port: u16,
    words: Vec<String>,
    process: Child,
}

impl Gateway {
    fn start(url: &str, more: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let mut words = vec!["gateway".to_owned(), "--store".to_owned(), url.to_owned()];
        words.extend(["--listen".to_owned(), format!("127.0.0.1:{port}")]);
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let process = Gateway::process(&words);
        Gateway { port, words, process }
    }

    fn process(words: &[String]) -> Child {
        let mut command = Command::new(claret());
        let mut process = command.args(words).stdout(Stdio::piped()).spawn().expect("the gateway");
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says so");
        assert!(line.starts_with("gateway before"), "{words:?}: {line}");
        process
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn kill_and_start(&mut self) {
        self.end();
        self.process = Gateway::process(&self.words);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end();
    }
}

/// What programs work on.
enum Target {
    Gateway { gateway: Gateway, cluster: Cluster, store: blocking::Store },
    OneServer(Server),
}

impl Target {
    fn gateway(more: &[&str]) -> Self {
        let module = Module::of_sources().expect("the module");
        let cluster = Cluster::options(3, 0).module(module).start().expect("a cluster");
        let store = blocking::Store::connect(cluster.url()).expect("the store");
        Target::Gateway { gateway: Gateway::start(&cluster.url(), more), cluster, store }
    }

    fn name(&self) -> &'static str {
        match self {
            Target::Gateway { .. } => "gateway",
            Target::OneServer(_) => "one Redis",
        }
    }

    fn port(&self) -> u16 {
        match self {
            Target::Gateway { gateway, .. } => gateway.port,
            Target::OneServer(server) => server.port(),
        }
    }

    /// A prefix nobody has had, with `y` on the node that is stopped and `x` on another.
    fn prefix(&self, name: &str) -> String {
        let mut names = (0..).map(|number| format!("{name}:{number}"));
        let fits = |prefix: &String| match self {
            Target::Gateway { cluster, .. } => {
                cluster.owner(&format!("{prefix}:y")) == NODE && cluster.owner(&format!("{prefix}:x")) != NODE
            }
            Target::OneServer(_) => true,
        };
        names.find(fits).expect("there is one")
    }

    /// What the keys have in the end, once nobody else holds them.
    fn read(&self, prefix: &str) -> (i64, i64) {
        let (x, y) = (format!("{prefix}:x"), format!("{prefix}:y"));
        match self {
            Target::Gateway { store, .. } => {
                let read = store.transaction(|tx| {
                    Ok((tx.counter(&x).get_for_update()?, tx.counter(&y).get_for_update()?))
                });
                read.expect("the store answers")
            }
            Target::OneServer(server) => {
                let read: Vec<Option<i64>> = server.query(&["MGET", &x, &y]).expect("it answers");
                (read[0].unwrap_or(0), read[1].unwrap_or(0))
            }
        }
    }

    /// Lets the fault come and pass; meanwhile, or afterwards, all hear what they hear.
    fn suffer(&mut self, fault: Fault, sessions: &mut [Session]) -> Vec<(bool, String, f64)> {
        let holds = matches!(fault, Fault::HeldFor(_) | Fault::Held(_) | Fault::Killed);
        let holder = match self {
            Target::Gateway { store, .. } if holds => {
                Some(Holder::hold(store, sessions.iter().map(|it| format!("{}:y", it.prefix)).collect()))
            }
            _ => None,
        };
        let stopped = match (&*self, fault) {
            (Target::Gateway { cluster, .. }, Fault::Stopped(time)) => {
                Some((cluster.servers()[NODE].pid(), time))
            }
            (Target::OneServer(server), Fault::Stopped(time)) => Some((server.pid(), time)),
            _ => None,
        };
        let stopped = stopped.map(|(pid, time)| (pid.expect("it runs"), time));
        if let Some((pid, _)) = stopped {
            pause_process(pid);
        }
        let since = Instant::now();
        sessions.iter_mut().for_each(Session::go);
        thread::scope(|scope| {
            let hearing: Vec<_> = sessions.iter_mut().map(|it| scope.spawn(move || it.hear())).collect();
            let all_heard = || hearing.iter().all(|it| it.is_finished());
            match (fault, stopped) {
                (Fault::HeldFor(time), None) => {
                    while !all_heard() && since.elapsed() < time {
                        sleep(Duration::from_millis(20));
                    }
                }
                (Fault::Held(time), None) => sleep(time),
                (Fault::Killed, None) => {
                    sleep(Duration::from_secs(1));
                    if let Target::Gateway { gateway, .. } = self {
                        gateway.kill_and_start();
                    }
                    sleep(Duration::from_secs(2));
                }
                (_, Some((pid, time))) => {
                    sleep(time);
                    resume_process(pid);
                }
                _ => {}
            }
            if let Some(holder) = holder {
                holder.release();
            }
            hearing.into_iter().map(|it| it.join().expect("it hears")).collect()
        })
    }

    /// What these programs do and hear while this happens.
    fn run(
        &mut self,
        programs: &[Program],
        kind: &'static str,
        fault: Fault,
        notes: &mut Notes,
    ) -> Vec<Outcome> {
        let port = self.port();
        let marker = if kind == "pipeline" { ":Y\r\n" } else { "\r\nEXEC\r\n" };
        let start = |program: &Program| {
            let prefix = self.prefix(&format!(
                "defaults:{kind}:{}:{}",
                notes.next(),
                program.client.replace(' ', "-")
            ));
            let tap = match fault {
                Fault::Lost => Some(Tap::start(port, Some(marker))),
                Fault::None => Some(Tap::start(port, None)),
                _ => None,
            };
            Session::start(program, port, kind, &prefix, tap)
        };
        let mut sessions: Vec<Session> = programs.iter().map(start).collect();
        sessions.iter_mut().for_each(Session::meet);
        let heard = self.suffer(fault, &mut sessions);
        if notes.is_whole {
            // What somebody has sent and forgotten may come late.
            sleep(Duration::from_secs(5));
        }
        let outcomes = sessions.iter().zip(heard).map(|(session, (ok, heard, seconds))| {
            notes.add(session, kind, self.name());
            let lost = session.tap.as_ref().map(Tap::has_lost);
            assert!(fault != Fault::Lost || lost == Some(true), "{}: no answer was lost", session.client);
            let (client, done) = (session.client.clone(), self.read(&session.prefix));
            Outcome { client, kind, ok, heard, seconds, done }
        });
        outcomes.collect()
    }
}

/// What is learnt of clients beside.
#[derive(Default)]
struct Notes {
    is_whole: bool,
    number: std::cell::Cell<u64>,
    settings: BTreeMap<String, Value>,
    /// Of each client, work and target: handshake, pieces, errors that were answered.
    habits: Vec<Value>,
}

impl Notes {
    fn next(&self) -> u64 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    fn add(&mut self, session: &Session, kind: &str, target: &str) {
        self.settings.insert(session.client.clone(), session.settings.clone());
        let Some(tap) = &session.tap else { return };
        let said = tap.said();
        if tap.has_lost() {
            return;
        }
        let connections: Vec<Value> = said
            .iter()
            .map(|it| json!({ "handshake": it.handshake(), "sends": it.work(), "errors": it.errors }))
            .collect();
        self.habits.push(
            json!({ "client": session.client, "work": kind, "target": target, "connections": connections }),
        );
    }
}

/// What is wrong through a gateway and is not so on one server. Where that never holds a key, nothing it does is an excuse.
fn worse(gateway: &[Outcome], one_server: &[Outcome], fault: Fault) -> Vec<String> {
    let excused = !matches!(fault, Fault::HeldFor(_) | Fault::Held(_));
    let mut worse = Vec::new();
    for ours in gateway {
        let Some(wrong) = ours.wrong() else { continue };
        let there = one_server.iter().find(|it| it.client == ours.client && it.kind == ours.kind);
        if !excused || there.is_none_or(|there| there.wrong() != Some(wrong)) {
            worse.push(format!("{wrong}: {ours:?}; on one Redis: {there:?}"));
        }
    }
    worse
}

fn all_programs() -> Vec<Program> {
    ready().clients.iter().chain(&ready().older).cloned().collect()
}

/// Bug: `INCR x; INCR y` behind a key that another held for six seconds was sent again by a client that gives up after five. The gateway
/// carried out both, and the client heard nothing of it. Mend: what waits at a gateway is bounded, and then nothing was done.
#[test]
fn exec_behind_a_key_that_is_held_is_not_done_twice() {
    let programs = all_programs();
    claret();
    let _limit = TestLimit::begin();
    let mut target = Target::gateway(&["--wait-ms", "500"]);
    let mut notes = Notes::default();
    let outcomes = target.run(&programs, "multi", Fault::HeldFor(Duration::from_secs(6)), &mut notes);
    for outcome in &outcomes {
        println!("{outcome:?}");
        assert_eq!(outcome.wrong(), None, "{outcome:?}");
        let told = outcome.denies() || outcome.heard.contains("UNKNOWN") || outcome.is_not_shown();
        assert!(!outcome.ok && told, "it was held for longer than one waits: {outcome:?}");
        assert!(outcome.done.1 <= 1, "{outcome:?}");
    }
}

/// Clients that send again by themselves what was not answered do so on one server, too: no more is done through a gateway.
#[test]
fn a_lost_answer_is_no_worse_than_on_one_server() {
    let programs = all_programs();
    claret();
    let _limit = TestLimit::begin();
    let (mut gateway, mut notes) = (Target::gateway(&[]), Notes::default());
    let mut server = Target::OneServer(Server::start().expect("a server"));
    let ours = gateway.run(&programs, "multi", Fault::Lost, &mut notes);
    let theirs = server.run(&programs, "multi", Fault::Lost, &mut notes);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        println!(
            "{}: {:?} {}; on one Redis {:?} {}",
            ours.client, ours.done, ours.heard, theirs.done, theirs.heard
        );
    }
    assert_eq!(worse(&ours, &theirs, Fault::Lost), Vec::<String>::new());
}

fn knows_wait_ms() -> bool {
    let help = Command::new(claret()).args(["gateway", "--help"]).output().expect("it runs");
    String::from_utf8_lossy(&help.stdout).contains("--wait-ms")
}

/// All clients, all work and all faults, if a file is named for what comes of it.
#[test]
fn all_defaults_under_all_faults_are_no_worse_than_on_one_server() {
    let Some(file) = env::var_os("CLARET_DEFAULTS").filter(|file| !file.is_empty()) else { return };
    let programs = all_programs();
    let wait = if knows_wait_ms() { &["--wait-ms", "3000"][..] } else { &[] };
    let mut gateway = Target::gateway(wait);
    let mut server = Target::OneServer(Server::start().expect("a server"));
    let mut notes = Notes { is_whole: true, ..Notes::default() };
    let (six, twelve) = (Duration::from_secs(6), Duration::from_secs(12));
    let faults =
        [Fault::None, Fault::Held(six), Fault::Held(twelve), Fault::Stopped(six), Fault::Killed, Fault::Lost];
    let (mut lines, mut all_worse) = (Vec::new(), Vec::new());
    println!(
        "| client | work | fault | gateway: x, y done | heard | after s | one Redis: x, y done | heard | after s | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for kind in KINDS {
        let mut seen = BTreeMap::new();
        for fault in faults {
            let ours = gateway.run(&programs, kind, fault, &mut notes);
            let same = fault.of_one_server();
            let theirs =
                seen.entry(same).or_insert_with(|| server.run(&programs, kind, same, &mut notes)).clone();
            lines.extend(ours.iter().map(|it| it.json(&fault.name(), "gateway")));
            lines.extend(theirs.iter().map(|it| it.json(&same.name(), "one Redis")));
            for (our, their) in ours.iter().zip(&theirs) {
                print_row(our, their, fault);
            }
            all_worse.extend(worse(&ours, &theirs, fault));
        }
    }
    for (client, settings) in &notes.settings {
        println!("{client}: {settings}");
    }
    for habit in &notes.habits {
        println!("{habit}");
    }
    let all = json!({ "outcomes": lines, "settings": notes.settings, "habits": notes.habits, "worse": all_worse, "options": wait });
    fs::write(file, format!("{all:#}\n")).expect("the file can be written");
    assert!(all_worse.is_empty(), "{}", all_worse.join("\n"));
}

fn print_row(ours: &Outcome, theirs: &Outcome, fault: Fault) {
    let of = |it: &Outcome| {
        let text: String = it.heard.replace('|', "/").chars().take(110).collect();
        format!("{}, {} | {}{text} | {:.1}", it.done.0, it.done.1, if it.ok { "ok " } else { "" }, it.seconds)
    };
    let ours_alone = [ours.clone()];
    let verdict = match (ours.wrong(), worse(&ours_alone, std::slice::from_ref(theirs), fault).is_empty()) {
        (None, _) => String::new(),
        (Some(wrong), true) => format!("{wrong}, as on one Redis"),
        (Some(wrong), false) => format!("WORSE: {wrong}"),
    };
    println!(
        "| {} | {} | {} | {} | {} | {verdict} |",
        ours.client,
        ours.kind,
        fault.name(),
        of(ours),
        of(theirs)
    );
}
