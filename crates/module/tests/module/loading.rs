//! When the module refuses to load, and how replicas load their records beside it.

use crate::common::beside::{bulk, error, ok, run};
use crate::common::{Server, module, wait_until};
use redis::Value;

/// Bug: with `rename-command COMMAND ""` the module knew no command, and loaded. Consequence: nothing was looked at, and
/// plain commands wrote over what transactions held. Mend: it does not load, and says why.
#[test]
fn it_does_not_load_where_commands_have_other_names() {
    for (command, name, says) in [
        ("COMMAND", "", "needs the command COMMAND"),
        ("HSET", "", "needs the command HSET"),
        ("SET", "PUT", "needs the command SET"),
        ("EXEC", "RUN", "has changed exec"),
        ("BLPOP", "TAKE", "has changed blpop"),
    ] {
        let server = Server::start_renamed(command, name);
        let mut plain = server.connect();
        let refused = error(&mut plain, &format!("MODULE LOAD {}", module().display()));
        assert!(refused.contains("Error loading"), "{command}: {refused}");
        assert!(server.log().contains(says), "{command}: {}", server.log());
        assert!(matches!(ok(&mut plain, "MODULE LIST"), Value::Array(list) if list.is_empty()));
    }
    // What is taken away and not needed does no harm.
    let server = Server::start_renamed("FLUSHALL", "");
    ok(&mut server.connect(), &format!("MODULE LOAD {}", module().display()));
}

/// Bug: transactions were carried out in whatever database was selected, and the guard looks at the first alone.
#[test]
fn transactions_are_of_the_first_database() {
    let server = Server::start(&[]);
    let mut plain = server.connect();
    wait_until("the shard begins", || run(&mut plain, "CLARET.EXEC 2 INCR k").is_ok());
    ok(&mut plain, "SELECT 5");
    for line in ["CLARET.EXEC 2 INCR k", "CLARET.FRAME x"] {
        let refused = error(&mut plain, line);
        assert!(refused.contains("database 0"), "{line}: {refused}");
    }
    assert_eq!(ok(&mut plain, "EXISTS k"), Value::Int(0));
    ok(&mut plain, "SELECT 0");
    assert_eq!(ok(&mut plain, "GET k"), bulk("1"));
    ok(&mut plain, "CLARET.EXEC 2 INCR k");
}

/// Bug: the module did not say that it minds nothing there, and so a replica that may load beside its old records did not.
#[test]
fn a_replica_may_load_beside_its_old_records() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&["--repl-diskless-load", "swapdb"]);
    let (mut to, mut from) = (primary.connect(), replica.connect());
    wait_until("the shard begins", || run(&mut to, "CLARET.EXEC 2 INCR k").is_ok());
    ok(&mut from, "SET old 1");
    ok(&mut from, &format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("it has the records", || matches!(run(&mut from, "GET k"), Ok(value) if value == bulk("1")));
    assert_eq!(ok(&mut from, "EXISTS old"), Value::Int(0));
    let log = replica.log();
    assert!(!log.contains("Skipping diskless-load"), "{log}");
    assert!(log.contains("Swapping active DB"), "{log}");
    let refused = error(&mut from, "CLARET.EXEC 2 INCR k");
    assert!(refused.to_uppercase().contains("READONLY"), "a replica has no shard: {refused}");
    ok(&mut from, "REPLICAOF NO ONE");
    wait_until("the shard begins", || run(&mut from, "CLARET.EXEC 2 INCR k").is_ok());
    assert_eq!(ok(&mut from, "GET k"), bulk("2"));
}
