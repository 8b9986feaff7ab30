//! MULTI and EXEC over any slots (G3 to G5), and commands with keys in several.

use crate::support::{apart, gateway};

#[test]
fn a_multi_over_all_nodes_is_done_as_one() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("multi:one:");
    let said = client.asks([
        "MULTI",
        &format!("INCRBY {a} 30"),
        &format!("SET {b} x EX 100"),
        &format!("RPUSH {c} 1 2"),
        &format!("GET {a}"),
        "PING",
        "EXEC",
    ]);
    assert_eq!(said, ["OK", "QUEUED", "QUEUED", "QUEUED", "QUEUED", "QUEUED", "[30, OK, 2, \"30\", PONG]"]);
    assert_eq!(client.ask(&format!("TTL {b}")), "100");
    let said = client.asks([
        "EXEC",
        "DISCARD",
        "MULTI",
        "MULTI",
        &format!("DEL {a}"),
        "DISCARD",
        &format!("GET {a}"),
    ]);
    assert_eq!(
        said,
        [
            "-ERR EXEC without MULTI",
            "-ERR DISCARD without MULTI",
            "OK",
            "-ERR MULTI calls can not be nested",
            "QUEUED",
            "OK",
            "\"30\""
        ]
    );
    // As in Valkey: what was refused in it ends it.
    let said = client.asks(["MULTI", "MULTI", &format!("DEL {a}"), "EXEC", &format!("GET {a}")]);
    assert_eq!(said[3], "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(said[4], "\"30\"");
}

/// What is asked goes to all nodes, and keys of the transaction count though nothing is committed yet.
#[test]
fn a_multi_asks_all_nodes() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("multi:asked:");
    client.asks([&format!("SET {a} 1"), &format!("SET {b} 1")]);
    client.asks(["MULTI", "KEYS multi:asked:*", &format!("DEL {a} {b}"), &format!("SET {c} 1")]);
    let said =
        client.asks(["KEYS multi:asked:*", "DBSIZE", "CONFIG GET maxmemory-policy", "INFO server", "EXEC"]);
    let all = said[4].trim_start_matches("[[").split_once("], ").expect("the first answer");
    let mut first: Vec<&str> = all.0.split(", ").collect();
    first.sort_unstable();
    let mut wanted = [format!("\"{a}\""), format!("\"{b}\"")];
    wanted.sort_unstable();
    assert_eq!(first, wanted);
    assert!(all.1.starts_with(&format!("2, OK, [\"{c}\"], ")), "{}", all.1);
    assert!(
        all.1.contains("[\"maxmemory-policy\", \"noeviction\"]") && all.1.contains("# Server"),
        "{}",
        all.1
    );
    let said = client.asks(["MULTI", "LASTSAVE", "ACL WHOAMI", "SCRIPT EXISTS ab", "CLIENT ID", "EXEC"]);
    let (saved, rest) = said[5].trim_start_matches('[').split_once(", ").expect("answers");
    assert!(saved.parse::<u64>().is_ok() && rest.starts_with("\"default\", [0], "), "{}", said[5]);
    // A MULTI that a node does as it is has no other nodes.
    let [add, merge] = [format!("PFADD {{{a}}}:n x"), format!("PFMERGE {{{a}}}:m {{{a}}}:n")];
    let said = client.asks(["MULTI", &add, &merge, "DBSIZE", "EXEC"]);
    assert!(said[3].contains("leave one of the two out"), "{said:?}");
    // One whose steps are carried out by the servers of their keys has.
    client.ask(&format!("DEL {a}"));
    let said = client.asks(["MULTI", &format!("XADD {a} 1-1 f v"), &format!("KEYS {a}"), "EXEC"]);
    assert_eq!(said[3], format!("[\"1-1\", [\"{a}\"]]"));
}

/// A node of a cluster refuses patterns, for what they name may be elsewhere.
#[test]
fn sort_reads_keys_of_all_slots() {
    let gateway = gateway();
    let (mut client, mut other) = (gateway.client(), gateway.client());
    let [list, ..] = apart("multi:sort:");
    client.ask(&format!("RPUSH {list} 1 2 3"));
    for (element, weight) in [(1, 30), (2, 10), (3, 20)] {
        client.asks([
            &format!("SET {list}:w{element} {weight}"),
            &format!("HSET {list}:h{element} name n{element}"),
        ]);
    }
    let sort = format!("SORT {list} BY {list}:w* GET # GET {list}:h*->name");
    let sorted = "[\"2\", \"n2\", \"3\", \"n3\", \"1\", \"n1\"]";
    assert_eq!(client.ask(&sort), sorted);
    assert_eq!(client.asks(["MULTI", &sort, "EXEC"])[2], format!("[{sorted}]"));
    assert_eq!(client.ask(&format!("SORT {list} GET # LIMIT 0 1")), "[\"1\"]");
    assert_eq!(client.ask(&format!("SORT_RO {list} BY {list}:w* GET {list}:w*")), "[\"10\", \"20\", \"30\"]");
    assert_eq!(client.ask(&format!("SORT {list} BY nosort DESC")), "[\"3\", \"2\", \"1\"]");
    // What it reads of a watched key is what WATCH saw.
    client.ask(&format!("WATCH {list}:w1"));
    other.ask(&format!("SET {list}:w1 5"));
    assert!(client.ask(&sort).starts_with("[\"1\""));
    other.ask(&format!("SET {list}:w1 30"));
    assert_eq!(client.asks(["MULTI", "PING", "EXEC"])[2], "nil[]");
}

#[test]
fn exec_does_all_or_nothing() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, _] = apart("multi:all:");
    assert_eq!(client.ask(&format!("RPUSH {b} x")), "1");
    let said =
        client.asks(["MULTI", &format!("SET {a} 1"), &format!("INCR {b}"), "EXEC", &format!("EXISTS {a}")]);
    let wrong = "-EXECABORT Transaction discarded because of: WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(said, ["OK", "QUEUED", "QUEUED", wrong, "0"]);
    // What servers refuse when it is queued.
    let said = client.asks(["MULTI", "NOSUCH x", &format!("SET {a} 1"), "EXEC", "MULTI", "GET", "EXEC"]);
    assert!(said[1].starts_with("-ERR unknown command 'NOSUCH'"), "{}", said[1]);
    assert_eq!(said[3], "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(said[5], "-ERR wrong number of arguments for 'get' command");
    assert_eq!(said[6], "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(client.ask(&format!("EXISTS {a}")), "0");
}

#[test]
fn commands_with_keys_in_several_slots_are_one_transaction() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("multi:keys:");
    let said = client.asks([
        &format!("MSET {a} 1 {b} 2"),
        &format!("MGET {a} {b} {c}"),
        &format!("EXISTS {a} {b} {c} {a}"),
        &format!("RENAME {a} {c}"),
        &format!("MGET {a} {b} {c}"),
        &format!("COPY {c} {a}"),
        &format!("DEL {a} {b} {c}"),
        &format!("SADD {a} x y"),
        &format!("SADD {b} y z"),
        &format!("SINTER {a} {b}"),
        &format!("SMOVE {a} {c} x"),
        &format!("SUNIONSTORE {c} {b} {c}"),
        &format!("RPUSH list:{a} 1 2 3"),
        &format!("LMOVE list:{a} list:{b} LEFT RIGHT"),
        &format!("RPOPLPUSH list:{a} list:{b}"),
        &format!("LRANGE list:{b} 0 -1"),
        &format!("MSETNX {b} 1 new:{b} 2"),
    ]);
    assert_eq!(said[..5], ["OK", "[\"1\", \"2\", nil]", "3", "OK", "[nil, \"2\", \"1\"]"]);
    assert_eq!(said[5..12], ["1", "3", "2", "2", "[\"y\"]", "1", "3"]);
    assert_eq!(said[12..], ["3", "\"1\"", "\"3\"", "[\"3\", \"1\"]", "0"]);
    assert_eq!(client.ask(&format!("RENAME {a}none {b}")), "-ERR no such key");
}

#[test]
fn what_a_node_alone_can_do_has_to_be_on_one() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, _] = apart("multi:node:");
    let tagged = |key: &str| format!("{{{a}}}:{key}");
    let (seen, more, other) = (tagged("seen"), tagged("more"), tagged("other"));
    client.asks([&format!("PFADD {seen} a"), &format!("PFADD {more} b")]);
    let said = client.asks(["MULTI", &format!("PFMERGE {seen} {more}"), &format!("SET {other} 1"), "EXEC"]);
    assert_eq!(said, ["OK", "QUEUED", "QUEUED", "[OK, OK]"]);
    // Behind a step on one of its keys it is done by the node, with all of the MULTI (G5).
    let (add, merge) = (format!("PFADD {seen} c"), format!("PFMERGE {more} {seen}"));
    let said = client.asks(["MULTI", &add, &merge, "EXEC", &format!("PFCOUNT {more}")]);
    assert_eq!(said[3..], ["[1, OK]", "3"]);
    let set = format!("SET {b} 1");
    let said = client.asks(["MULTI", &add, &merge, &set, "EXEC", &format!("EXISTS {b}")]);
    assert!(said[3].starts_with("-CROSSSLOT 'pfmerge' is done by one node"), "{}", said[3]);
    assert_eq!(said[4..], ["-EXECABORT Transaction discarded because of previous errors.", "0"]);
    let script = "\"return redis.call('incr', KEYS[1])\"";
    let said =
        client.asks([&format!("EVAL {script} 1 {b}"), "MULTI", &format!("EVAL {script} 1 {b}"), "EXEC"]);
    assert_eq!(said, ["1", "OK", "QUEUED", "[2]"]);
    assert_eq!(client.ask(&format!("FCALL f 2 {b} {b}")), "-ERR Function not found");
}

#[test]
fn operations_that_no_server_has_are_commands() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, _] = apart("multi:own:");
    let said = client.asks([
        &format!("BCREATE {a} 2 0 100"),
        "MULTI",
        &format!("BDECRBY.RETURNING {a} 1"),
        &format!("SADD {b} ada"),
        "EXEC",
        &format!("BGET {a}"),
        "MULTI",
        &format!("BDECRBY {a} 5"),
        &format!("SADD {b} bob"),
        "EXEC",
        &format!("SMEMBERS {b}"),
    ]);
    assert_eq!(said[..6], ["OK", "OK", "QUEUED", "QUEUED", "[1, 1]", "1"]);
    assert!(
        said[9].starts_with("-EXECABORT Transaction discarded because of: ERR insufficient"),
        "{}",
        said[9]
    );
    assert_eq!(said[10], "[\"ada\"]");
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let gateway = gateway();
    let mut client = gateway.client();
    let keys: Vec<String> = (0..500).map(|no| format!("pipeline:{no}")).collect();
    let mut all = String::new();
    for (no, key) in keys.iter().enumerate() {
        all += &format!("SET {key} {no}\r\nMGET {key} pipeline:0\r\nGET {key}\r\n");
    }
    client.send(all.as_bytes());
    for no in 0..keys.len() {
        assert_eq!(
            [client.hear(), client.hear(), client.hear()],
            ["OK".to_owned(), format!("[\"{no}\", \"0\"]"), format!("\"{no}\"")]
        );
    }
}
