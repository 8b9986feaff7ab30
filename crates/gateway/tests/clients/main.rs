//! Clients that people use, from their registries, as they are: each moves money by its own `MULTI`, sells by its own loop with
//! `WATCH`, and tours the types that it decodes. `clients/README.md` has what each program does.
//!
//! A language whose tools or registry are not there is skipped, which is printed; with `CLARET_CLIENTS=all` that fails.

mod books;
mod defaults;
mod gateway;
mod languages;
mod server_tools;
mod tap;

use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

use claret_rig::{Cluster, Server, TestLimit};

use crate::books::{Address, Books, Outcome};
use crate::languages::{Program, ready};
use crate::server_tools::tools_of_the_server;

/// How many processes work at once, of all clients together.
const PROCESSES: usize = 16;

/// How many checks each tour has: 15 in each protocol, and one of authentication.
const CHECKS: u64 = 31;

/// How often something is done to the server while programs work.
/// Where all connections are ended each time, a client of sixteen that is slow to connect and to sell must have time between.
const OFTEN: Duration = Duration::from_millis(600);

/// The programs are ready, and no other test of this file runs its own meanwhile: sixteen processes are enough for two cores. The
/// limit counts from then on.
fn begin() -> (MutexGuard<'static, ()>, TestLimit) {
    static TURN: Mutex<()> = Mutex::new(());
    ready();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (turn, TestLimit::begin())
}

/// What each of these processes says of its work, which they do at once; meanwhile `disturb` is called again and again.
fn work(address: &Address, mode: &str, count: u64, disturb: &mut dyn FnMut()) -> Vec<Outcome> {
    let programs = ready().clients.iter().cycle().take(PROCESSES);
    let processes: Vec<_> = programs
        .enumerate()
        .map(|(number, program)| {
            let (program, address, mode) = (program.clone(), address.clone(), mode.to_owned());
            let worker = format!("{}-{number}", program.client);
            thread::spawn(move || {
                let count_text = count.to_string();
                let output = run(&program, &address, &[&mode, &count_text, &worker]);
                outcome(&program, &worker, count, &output)
            })
        })
        .collect();
    while processes.iter().any(|process| !process.is_finished()) {
        sleep(OFTEN);
        disturb();
    }
    processes.into_iter().map(|process| process.join().expect("a program that can be run")).collect()
}

fn run(program: &Program, address: &Address, arguments: &[&str]) -> Output {
    let port = address.port.to_string();
    let arguments = [&[address.host.as_str(), port.as_str()], arguments].concat();
    program.command(&arguments).output().unwrap_or_else(|error| panic!("{program:?} cannot be run: {error}"))
}

fn outcome(program: &Program, worker: &str, count: u64, output: &Output) -> Outcome {
    let printed = String::from_utf8_lossy(&output.stdout);
    let outcome = Outcome::parse(worker, count, &printed).unwrap_or_else(|error| {
        panic!("{}: {error}\n{printed}\n{}", program.client, String::from_utf8_lossy(&output.stderr))
    });
    assert_eq!(
        output.status.success(),
        outcome.errors.is_empty(),
        "{outcome:?} and it ends with {}",
        output.status
    );
    assert!(outcome.client.starts_with(program.client), "{outcome:?} of {program:?}");
    outcome
}

/// Prints what each process did, for whoever looks at a failure.
fn tell(outcomes: &[Outcome]) {
    for outcome in outcomes {
        println!(
            "{} ({}): {} committed, {} unknown, {} attempts",
            outcome.client,
            outcome.worker,
            outcome.committed,
            outcome.unknown_ids.len(),
            outcome.attempts
        );
    }
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Transfers and sales by all clients at once, and what is in the books afterwards.
fn transfers_and_sales(
    address: &Address,
    transfers: u64,
    sales: u64,
    disturb: &mut dyn FnMut(),
) -> Vec<Outcome> {
    Books::open(address);
    let mut outcomes = work(address, "transfer", transfers, disturb);
    tell(&outcomes);
    assert_none(&Books::read(address).problems_of_transfers(&outcomes));
    let sellers = work(address, "watch", sales, disturb);
    tell(&sellers);
    assert_none(&Books::read(address).problems_of_sales(&sellers));
    outcomes.extend(sellers);
    outcomes
}

/// The tour of each client, all at once.
fn tours(address: &Address) {
    let tours: Vec<_> = ready()
        .clients
        .iter()
        .map(|program| {
            let address = address.clone();
            thread::spawn(move || {
                let output = run(program, &address, &["types", &format!("types:{}", program.client)]);
                outcome(program, program.client, CHECKS, &output)
            })
        })
        .collect();
    for tour in tours {
        let tour = tour.join().expect("a program that can be run");
        println!("{}: {} of {} checks", tour.client, tour.committed, tour.attempts);
        assert_none(&tour.errors);
        assert_eq!((tour.committed, tour.attempts), (CHECKS, CHECKS), "{tour:?}");
    }
}

/// All that clients do while nothing is broken, against the server at this address: one plain server here, and a gateway's address
/// goes in the same way. It says of each process what it did.
fn all_clients_against(address: &Address) -> Vec<Outcome> {
    let outcomes = transfers_and_sales(address, 100, 20, &mut || {});
    tours(address);
    tools_of_the_server(address);
    outcomes
}

/// The programs are right about a server that is: whatever they find wrong elsewhere is not their own fault.
#[test]
fn against_one_plain_server() {
    let _turn = begin();
    let server = Server::start().expect("a server");
    let outcomes = all_clients_against(&Address::local(server.port()));
    assert!(outcomes.iter().all(|outcome| outcome.unknown_ids.is_empty()), "no connection was lost");
}

#[test]
fn lost_connections_leave_unknown_outcomes_and_right_books() {
    let _turn = begin();
    let server = Server::start().expect("a server");
    let mut lost = 0;
    let outcomes = transfers_and_sales(&Address::local(server.port()), 400, 40, &mut || {
        lost +=
            server.query::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).expect("it answers");
    });
    let unknown: usize = outcomes.iter().map(|outcome| outcome.unknown_ids.len()).sum();
    println!("{lost} connections were ended, and {unknown} outcomes are unknown");
    assert!(lost > 0, "no connection was ended while the programs worked");
}

#[test]
fn each_client_finds_a_sum_that_does_not_hold() {
    let _turn = begin();
    let server = Server::start().expect("a server");
    let address = Address::local(server.port());
    Books::open(&address);
    let outcomes = work(&address, "transfer", 100_000, &mut || {
        server.query::<i64>(&["INCR", "account:ada"]).expect("it answers");
    });
    for outcome in &outcomes {
        assert!(outcome.errors.iter().any(|error| error.contains("make")), "{outcome:?}");
    }
    assert!(
        !Books::read(&address).problems_of_transfers(&outcomes).is_empty(),
        "somebody else changed an account"
    );
}

#[test]
fn the_examples_work_on_one_server_and_a_node_of_a_cluster_refuses_them() {
    let _turn = begin();
    let server = Server::start().expect("a server");
    let cluster = Cluster::options(1, 0).start().expect("a cluster");
    for example in &ready().examples {
        let on = |port: u16| example.command(&[&port.to_string()]).output().expect("it can be run");
        let output = on(server.port());
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("70") && said.contains("30"), "{example:?}: {said}");
        let refused = on(cluster.servers()[0].port());
        let said = String::from_utf8_lossy(&refused.stderr);
        let line = said.lines().find(|line| line.to_uppercase().contains("CROSSSLOT"));
        assert!(!refused.status.success() && line.is_some(), "{example:?}: {said}");
        println!("{}: {}", example.client, line.unwrap_or_default());
    }
}
