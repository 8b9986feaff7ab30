//! Transactions and plain commands driven by hand, for tests of what happens between the two.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use claret_core::AttemptId;
use claret_core::message::Response;
use redis::{Connection, RedisResult, Value};

use super::{Process, Server, wait_until};

/// Long enough for an answer that is going to come at once.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

pub(crate) fn run(connection: &mut Connection, line: &str) -> RedisResult<Value> {
    let mut words = line.split(' ');
    redis::cmd(words.next().expect("a name")).arg(words.collect::<Vec<_>>()).query(connection)
}

pub(crate) fn ok(connection: &mut Connection, line: &str) -> Value {
    run(connection, line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

pub(crate) fn error(connection: &mut Connection, line: &str) -> String {
    match run(connection, line) {
        Ok(value) => panic!("{line} answers {value:?}"),
        Err(error) => format!("{error:?}"),
    }
}

pub(crate) fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// A plain client that waits for its answer in a thread of its own.
pub(crate) struct Waits {
    answer: Receiver<RedisResult<Value>>,
    client: i64,
    watcher: RefCell<Connection>,
}

impl Waits {
    pub(crate) fn on(server: &Server, line: &str) -> Waits {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().expect("a name"));
        command.arg(words.collect::<Vec<_>>());
        Waits::on_command(server, command)
    }

    pub(crate) fn on_command(server: &Server, command: redis::Cmd) -> Waits {
        let (mut connection, watcher) = (server.connect(), RefCell::new(server.connect()));
        let client = redis::cmd("CLIENT").arg("ID").query(&mut connection).expect("its number");
        let (send, answer) = channel();
        std::thread::spawn(move || {
            let _ = send.send(command.query(&mut connection));
        });
        Waits { answer, client, watcher }
    }

    /// The command has come, and its client is blocked.
    pub(crate) fn still(&self) -> &Self {
        let list = ["LIST", "ID", &self.client.to_string()].map(str::to_owned);
        wait_until("it waits", || {
            let answer = self.answer.try_recv();
            assert!(matches!(answer, Err(TryRecvError::Empty)), "it waits: {answer:?}");
            let mut watcher = self.watcher.borrow_mut();
            let shown: String = redis::cmd("CLIENT").arg(&list).query(&mut *watcher).expect("it is there");
            let flags = shown.split(' ').find_map(|field| field.strip_prefix("flags="));
            flags.expect("its flags").contains('b')
        });
        self
    }

    pub(crate) fn outcome(&self) -> RedisResult<Value> {
        self.answer.recv_timeout(Duration::from_secs(10)).expect("an answer in time")
    }

    /// The text of an error, too.
    pub(crate) fn answer(&self) -> Value {
        self.outcome().unwrap_or_else(|error| Value::SimpleString(format!("{error:?}")))
    }
}

/// Begins a transaction that holds what its operation needs.
pub(crate) fn hold(process: &mut Process, key: &str, words: &str) -> AttemptId {
    let attempt = process.begin();
    hold_more(process, attempt, 1, key, words);
    attempt
}

pub(crate) fn hold_more(process: &mut Process, attempt: AttemptId, no: u32, key: &str, words: &str) {
    let execute = process.execute(attempt, no, key, words);
    let answers = process.frame(&[execute]);
    assert!(matches!(answers[..], [Response::Granted { .. }]), "{answers:?}");
}

pub(crate) fn commit(process: &mut Process, attempt: AttemptId, relies_on: u32) {
    let participants = [(process.shard, Some(process.incarnation))];
    let prepare = process.prepare_with(attempt, relies_on, &[], &participants);
    let answers = process.frame(&[prepare]);
    let is_done = |response: &Response| matches!(response, Response::Committed { .. });
    assert!(answers.iter().any(is_done), "{answers:?}");
}

/// As one of two participants: it has voted, and is not decided.
pub(crate) fn vote(process: &mut Process, attempt: AttemptId, relies_on: u32) {
    let participants =
        [(process.shard, Some(process.incarnation)), (claret_core::ShardId(process.shard.0 + 1), None)];
    let prepare = process.prepare_with(attempt, relies_on, &[], &participants);
    let answers = process.frame(&[prepare]);
    assert!(answers.iter().any(|response| matches!(response, Response::Voted { .. })), "{answers:?}");
}

pub(crate) fn rig() -> (Server, Process, Connection) {
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let process = Process::hello(&server, 7);
    let plain = server.connect();
    (server, process, plain)
}

pub(crate) fn number(connection: &mut Connection, name: &str) -> u64 {
    let shown: String = redis::cmd("INFO").arg("claret").query(connection).expect("its numbers");
    let line = shown.lines().find_map(|line| line.strip_prefix(&format!("claret_{name}:")));
    line.unwrap_or_else(|| panic!("{name} is not in {shown}")).parse().expect("a number")
}
