//! Transactions and plain commands beside them, by hand: for the tests of what happens between the two.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use claret_core::AttemptId;
use claret_core::message::Response;
use redis::{Connection, RedisResult, Value};

use super::{Process, Server};

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
pub(crate) struct Waits(Receiver<Value>);

impl Waits {
    pub(crate) fn on(server: &Server, line: &str) -> Waits {
        let (mut connection, line) = (server.connect(), line.to_owned());
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let answer = run(&mut connection, &line);
            let _ = send.send(answer.unwrap_or_else(|error| Value::SimpleString(format!("{error:?}"))));
        });
        Waits(receive)
    }

    pub(crate) fn still(&self) -> &Self {
        assert_eq!(self.0.recv_timeout(A_MOMENT), Err(RecvTimeoutError::Timeout), "it waits");
        self
    }

    pub(crate) fn answer(&self) -> Value {
        self.0.recv_timeout(Duration::from_secs(10)).expect("an answer in time")
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
