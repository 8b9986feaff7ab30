//! `CLARET.OUTCOME` on real servers: it tells what is written for an attempt, to anybody, and ends nothing.

use crate::common::{Process, Server, cluster, wait_until};
use claret_core::AttemptId;
use claret_core::message::{Request, Response};

/// What a server says of an attempt.
fn outcome(server: &Server, attempt: AttemptId) -> String {
    let asked = redis::cmd("CLARET.OUTCOME").arg(attempt.to_string()).query(&mut server.connect());
    let (_, _, written): (i64, String, String) = asked.expect("three words");
    written
}

#[test]
fn asking_ends_no_attempt_that_is_open_or_has_not_come() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 1);
    let (open, late) = (process.begin(), process.begin());
    process.frame(&[process.execute(open, 0, "k", "GET")]);
    assert_eq!([outcome(&server, open), outcome(&server, late)], ["nothing", "nothing"]);
    for attempt in [open, late] {
        let prepare = match attempt == open {
            true => process.prepare_with(open, 1, &[], &[(process.shard, Some(process.incarnation))]),
            false => process.prepare(late, &[("other", "INCRBY 1")]),
        };
        let told = process.frame(&[prepare]);
        assert!(matches!(told.last(), Some(Response::Committed { .. })), "{told:?}");
        assert_eq!(outcome(&server, attempt), "applied");
    }
    let refused = process.begin();
    process.frame(&[Request::Ask { attempt: refused }]);
    assert_eq!(outcome(&server, refused), "refused", "the question of its own session ends it");
}

#[test]
fn of_a_session_that_nobody_knows_everything_is_lost() {
    let server = Server::start(&[]);
    let known = Process::hello(&server, 1);
    let mut unknown = Process { session: crate::common::session(9), ..known };
    assert_eq!(outcome(&server, unknown.begin()), "lost");
}

#[test]
fn what_is_no_attempt_is_refused() {
    let server = Server::start(&[]);
    for words in [&["CLARET.OUTCOME"][..], &["CLARET.OUTCOME", "1.2"], &["CLARET.OUTCOME", "1.2/3", "x"]] {
        let answer = redis::cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut server.connect());
        assert!(answer.is_err(), "{words:?}: {answer:?}");
    }
}

#[test]
fn another_process_hears_what_a_dead_one_left_until_its_session_is_forgotten() {
    let servers = cluster(2, &["--claret.forget-ms", "3000"]);
    let (mut here, mut there) = (Process::hello(&servers[0], 21), Process::hello(&servers[1], 21));
    let participants = [(here.shard, Some(here.incarnation)), (there.shard, Some(there.incarnation))];
    let attempt = here.begin();
    let first = here.prepare_with(attempt, 0, &[("bar", "INCRBY 7")], &participants);
    let second = there.prepare_with(attempt, 0, &[("foo", "INCRBY -7")], &participants);
    here.frame(&[first]);
    assert_eq!([outcome(&servers[0], attempt), outcome(&servers[1], attempt)], ["prepared", "nothing"]);
    there.frame(&[second]);
    assert_eq!([outcome(&servers[0], attempt), outcome(&servers[1], attempt)], ["prepared", "prepared"]);
    drop((here, there));
    let both_say =
        |word: &'static str| [0, 1].map(|at| outcome(&servers[at], attempt)).iter().all(|it| it == word);
    wait_until("both have applied it", || both_say("applied"));
    wait_until("both have forgotten it", || both_say("lost"));
}
