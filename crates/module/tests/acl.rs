//! Nobody does with Claret what their user may not do without it (R18).

mod common;

use claret_core::message::{Refusal, Request, Response};
use common::{Process, Server, hello, operation};
use redis::{Connection, Value};

fn acl(connection: &mut Connection, rules: &[&str]) {
    let () = redis::cmd("ACL").arg("SETUSER").arg(rules).query(connection).expect("a rule");
}

/// A user limited to keys that begin with `a:`.
fn limited() -> (Server, Connection) {
    let server = Server::start(&[]);
    let mut admin = server.connect();
    acl(&mut admin, &["al", "on", ">pw", "~a:*", "&al:*", "+@all"]);
    (server, admin)
}

fn is_denied(answers: &[Response]) -> bool {
    matches!(answers, [.., Response::Refused { refusal: Refusal::Denied { .. }, .. }])
}

#[test]
fn every_operation_on_a_key_that_is_not_the_users_is_denied_on_every_path() {
    let (server, mut admin) = limited();
    let () = redis::cmd("SET").arg("b:1").arg("secret").query(&mut admin).expect("set");
    let mut al = Process::over(server.connect_as("al", "pw"), 1, 1, &[]);
    for kind in claret_types::BUILTIN {
        for method in kind.methods {
            let count =
                method.arguments.split(' ').filter(|word| !word.is_empty() && !word.starts_with('[')).count();
            let words = format!("{}:{}{}", kind.name, method.name, " 1".repeat(count));
            let words = if method.name == "BCREATE" { format!("{}:BCREATE 1 0 2", kind.name) } else { words };
            assert_eq!(operation(&words).method().access, method.access, "{words}");
            let attempt = al.begin();
            let prepare = al.prepare(attempt, &[("b:1", &words)]);
            assert!(is_denied(&al.frame(&[prepare])), "prepare {words}");
            let attempt = al.begin();
            let execute = al.execute(attempt, 1, "b:1", &words);
            assert!(is_denied(&al.frame(&[execute])), "execute {words}");
        }
    }
    assert!(matches!(&al.commit("a:1", "SET x")[..], [Response::Committed { .. }]));
    let mut plain = server.connect_as("al", "pw");
    let denied = |line: &[&str]| redis::cmd("CLARET.EXEC").arg(line).to_owned();
    let refused = denied(&["2", "GET", "b:1"]).query::<Value>(&mut plain).expect_err("denied");
    assert!(
        format!("{refused:?}").contains("NOPERM") || refused.to_string().contains("may not run"),
        "{refused:?}"
    );
    let refused = denied(&["3", "SET", "a:1", "y", "2", "GET", "b:1"]).query::<Value>(&mut plain);
    assert!(refused.expect_err("denied").to_string().contains("may not run GET"));
    let refused = redis::cmd("CLARET.LOCKS").arg("b:1").query::<Value>(&mut plain);
    assert!(refused.expect_err("denied").to_string().contains("may not run TYPE"));
    let value: String = redis::cmd("GET").arg("a:1").query(&mut plain).expect("its own");
    assert_eq!(value, "x", "nothing of a denied transaction is done");
    let refused = hello(&mut plain, 2, 1, &["PUSH", "other"]);
    assert!(refused.expect_err("denied").to_string().contains("may not hear"));
    assert!(hello(&mut plain, 2, 1, &["PUSH", "al:2"]).is_ok());
}

#[test]
fn a_topk_needs_the_right_to_the_string_beside_it() {
    let (server, mut admin) = limited();
    let mut al = Process::over(server.connect_as("al", "pw"), 1, 1, &[]);
    assert!(is_denied(&al.commit("a:top", "TOPK.ADD 3 1 x")));
    acl(&mut admin, &["al", "~{a:*}:k"]);
    assert!(matches!(&al.commit("a:top", "TOPK.ADD 3 1 x")[..], [Response::Committed { .. }]));
}

#[test]
fn rights_are_looked_up_each_time_and_a_vote_outlives_them() {
    let (server, mut admin) = limited();
    let mut al = Process::over(server.connect_as("al", "pw"), 1, 1, &[]);
    assert!(matches!(&al.commit("a:1", "INCR")[..], [Response::Committed { .. }]));
    let attempt = al.begin();
    let both = [(al.shard, Some(al.incarnation)), (claret_core::ShardId(7), None)];
    let prepare = al.prepare_with(attempt, 0, &[("a:1", "INCR")], &both);
    assert!(matches!(&al.frame(&[prepare])[..], [Response::Voted { .. }]));
    acl(&mut admin, &["al", "-incrby"]);
    assert!(is_denied(&al.commit("a:2", "INCR")), "not a moment longer");
    assert!(matches!(&al.frame(&[Request::Apply { attempt }])[..], [Response::Applied { .. }]));
    let value: i64 = redis::cmd("GET").arg("a:1").query(&mut admin).expect("a number");
    assert_eq!(value, 2, "apply after a vote cannot fail for a permission");
    acl(&mut admin, &["al", "+incrby", "%R~b:*"]);
    assert!(matches!(&al.commit("b:1", "register:GET")[..], [Response::Committed { .. }]));
    assert!(is_denied(&al.commit("b:1", "INCR")), "reading is not writing");
}

#[test]
fn the_commands_themselves_are_in_categories() {
    let (server, mut admin) = limited();
    acl(&mut admin, &["ro", "on", ">pw", "~*", "&*", "+@read", "+@connection"]);
    let mut reader = server.connect_as("ro", "pw");
    assert!(hello(&mut reader, 5, 1, &[]).is_err());
    acl(&mut admin, &["op", "on", ">pw", "~*", "&*", "+@all", "-@admin"]);
    let mut user = server.connect_as("op", "pw");
    for command in [&["CLARET.LOCKS"][..], &["CLARET.RESOLVE", "1.1/1", "ABORT"]] {
        let refused = redis::cmd(command[0]).arg(&command[1..]).query::<Value>(&mut user);
        assert!(refused.is_err(), "{command:?}");
    }
    assert!(hello(&mut user, 6, 1, &[]).is_ok());
}
