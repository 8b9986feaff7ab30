//! Gateways before a cluster: all clients, unchanged but for the port, also while gateways are killed and started again.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use std::thread;

use claret_rig::{Cluster, Module, SecretFile, TestLimit};

use crate::books::{Address, Books, Outcome};
use crate::languages::{example, ready};
use crate::{all_clients_against, outcome, run, transfers_and_sales};

/// A gateway in a process of its own.
struct Gateway {
    url: String,
    port: u16,
    process: Child,
    /// When it is closed, the process ends by itself, also if this one is killed.
    _input: ChildStdin,
}

fn program() -> PathBuf {
    example("gateway", &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

impl Gateway {
    fn start(url: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        Gateway::start_at(url, free.expect("a free port").port())
    }

    fn start_at(url: &str, port: u16) -> Self {
        let mut command = Command::new(program());
        command.args([url, &port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the gateway");
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says so");
        assert_eq!(line, "ready\n");
        let input = process.stdin.take().expect("it is piped");
        Gateway { url: url.to_owned(), port, process, _input: input }
    }

    /// Kills it, and starts another at the same port.
    fn kill_and_start(&mut self) {
        self.end();
        *self = Gateway::start_at(&self.url.clone(), self.port);
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end();
    }
}

fn cluster() -> Cluster {
    let module = Module::of_sources().expect("the module");
    Cluster::options(3, 0).module(module).start().expect("a cluster")
}

#[test]
fn all_clients_work_against_a_gateway() {
    ready();
    program();
    let _limit = TestLimit::begin();
    let cluster = cluster();
    let gateway = Gateway::start(&cluster.url());
    let outcomes = all_clients_against(&Address::local(gateway.port));
    assert!(outcomes.iter().all(|outcome| outcome.unknown_ids.is_empty()), "no connection was lost");
}

#[test]
fn gateways_that_are_killed_leave_unknown_outcomes_and_right_books() {
    ready();
    program();
    let _limit = TestLimit::begin();
    let cluster = cluster();
    let mut gateway = Gateway::start(&cluster.url());
    let address = Address::local(gateway.port);
    let mut killed = 0;
    let mut turn = 0;
    let outcomes = transfers_and_sales(&address, 400, 40, &mut || {
        turn += 1;
        if turn % 4 == 0 {
            gateway.kill_and_start();
            killed += 1;
        }
    });
    let unknown: usize = outcomes.iter().map(|outcome| outcome.unknown_ids.len()).sum();
    println!("{killed} gateways were killed, and {unknown} outcomes are unknown");
    assert!(killed > 0, "none was killed while the programs worked");
}

#[test]
fn the_examples_that_a_node_refuses_work_through_a_gateway() {
    ready();
    program();
    let _limit = TestLimit::begin();
    let cluster = cluster();
    let gateway = Gateway::start(&cluster.url());
    for example in &ready().examples {
        let on = |port: u16| example.command(&[&port.to_string()]).output().expect("it can be run");
        let refused = on(cluster.servers()[0].port());
        assert!(!refused.status.success(), "{example:?}");
        let output = on(gateway.port);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("70") && said.contains("30"), "{example:?}: {said}");
        println!("{}: {}", example.client, said.trim());
    }
}

/// Cluster clients as they are, without a gateway: `CLARET.DO` declares no keys, and goes to whichever node they choose.
#[test]
fn cluster_clients_give_transactions_to_any_node() {
    let all = ready();
    program();
    let _limit = TestLimit::begin();
    let secret = SecretFile::write().expect("a secret");
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(3, 0)
        .module(module)
        .config(&secret.setting())
        .config("claret.errands yes")
        .start()
        .expect("a cluster");
    let gateway = Gateway::start(&cluster.url());
    let books = Address::local(gateway.port);
    Books::open(&books);
    let givers = all.clients.iter().filter(|program| ["redis-py", "go-redis"].contains(&program.client));
    let givers: Vec<_> = givers.cycle().take(4 * usize::from(!all.clients.is_empty())).collect();
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let giving: Vec<_> = givers
            .iter()
            .enumerate()
            .map(|(number, program)| {
                let node = Address::local(cluster.servers()[number % 3].port());
                let worker = format!("{}-{number}", program.client);
                scope.spawn(move || {
                    let output = run(program, &node, &["errands", "30", &worker]);
                    outcome(program, &worker, 30, &output)
                })
            })
            .collect();
        giving.into_iter().map(|it| it.join().expect("a program that can be run")).collect()
    });
    for outcome in &outcomes {
        assert_eq!((outcome.committed, &outcome.errors[..]), (30, &[][..]), "{outcome:?}");
        println!("{}: 30 transactions, each given twice, are done once", outcome.client);
    }
    assert_eq!(Books::read(&books).problems_of_transfers(&outcomes), [""; 0]);
}
