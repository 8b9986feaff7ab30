//! What is of all nodes, and what a node does as it is.

use crate::support::{Running, apart, cluster};
use claret_rig::{Cluster, Module};

#[test]
fn what_is_of_all_nodes_is_gathered() {
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(3, 0).module(module).start().expect("a cluster");
    let gateway = Running::before(&cluster.url());
    let mut client = gateway.client();
    for no in 0..300 {
        client.say(&format!("SET whole:{no} {no}"));
    }
    (0..300).for_each(|_| assert_eq!(client.hear(), "OK"));
    assert_eq!(client.ask("DBSIZE"), "300");
    let mut cursor = "0".to_owned();
    let mut found = std::collections::HashSet::new();
    loop {
        let page = client.ask(&format!("SCAN {cursor} MATCH whole:* COUNT 37"));
        let (next, keys) = page.trim_start_matches("[\"").split_once("\", [").expect("a page");
        keys.trim_end_matches("]]").split(", ").filter(|key| !key.is_empty()).for_each(|key| {
            found.insert(key.to_owned());
        });
        cursor = next.to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 300);
    assert_eq!(client.ask("KEYS whole:29?").matches("whole:29").count(), 10);
    assert!(client.ask("RANDOMKEY").contains("whole:"));
    assert_eq!(client.ask("SCAN x"), "-ERR invalid cursor");
    let sha = client.ask("SCRIPT LOAD \"return redis.call('get', KEYS[1])\"");
    let sha = sha.trim_matches('"');
    for no in 0..20 {
        assert_eq!(
            client.ask(&format!("EVALSHA {sha} 1 whole:{no}")),
            format!("\"{no}\""),
            "every node has it"
        );
    }
    assert_eq!(client.ask("CONFIG SET maxmemory-samples 7"), "OK");
    for server in 0..3 {
        let set: Vec<String> =
            cluster.query(server, &["CONFIG", "GET", "maxmemory-samples"]).expect("a setting");
        assert_eq!(set[1], "7");
    }
    assert_eq!(client.asks(["FLUSHALL", "DBSIZE", "RANDOMKEY"]), ["OK", "0", "nil"]);
}

#[test]
fn answers_are_those_of_the_protocol_that_was_chosen() {
    let gateway = Running::before(&cluster().url());
    let mut client = gateway.client();
    let [a, b, c] = apart("nodes:resp:");
    client.asks([&format!("HSET {a} f 1"), &format!("SADD {b} x"), &format!("ZADD {c} 1.5 m")]);
    let asked = [
        &format!("HGETALL {a}"),
        &format!("SMEMBERS {b}"),
        &format!("ZSCORE {c} m"),
        &format!("GET none:{a}"),
        &format!("ZRANGE {c} 0 -1 WITHSCORES"),
        &format!("BLPOP none:{a} 0.01"),
    ];
    let old = ["[\"f\", \"1\"]", "[\"x\"]", "\"1.5\"", "nil", "[\"m\", \"1.5\"]", "nil[]"];
    let new = ["{\"f\", \"1\"}", "<\"x\">", "1.5f", "nil", "[[\"m\", 1.5f]]", "nil"];
    for (version, expected) in [("2", old), ("3", new)] {
        assert!(client.ask(&format!("HELLO {version}")).contains("\"proto\", "));
        for (line, expected) in asked.iter().zip(expected) {
            assert_eq!(client.ask(line), expected, "{line} in RESP{version}");
            if line.starts_with("BLPOP") || line.starts_with("GET") {
                continue;
            }
            // The same by a transaction.
            client.asks(["MULTI", line]);
            assert_eq!(client.ask("EXEC"), format!("[{expected}]"), "{line} in MULTI in RESP{version}");
        }
    }
    assert_eq!(client.ask("HELLO 4"), "-NOPROTO unsupported protocol version");
}

/// On one server a time to live may end up to 9223372036854775807 milliseconds after 1970, and stays with what is written or moved.
#[test]
fn an_expiry_after_the_year_10889_is_not_lost_in_multi_nor_over_slots() {
    let gateway = Running::before(&cluster().url());
    let mut client = gateway.client();
    let [other, key, there] = apart("nodes:far:");
    for last in ["316516204800000", "9223372036854775807"] {
        assert_eq!(client.asks([&format!("SET {key} 5"), &format!("PEXPIREAT {key} {last}")]), ["OK", "1"]);
        let asked = [
            "MULTI",
            &format!("SET {other} 1"),
            &format!("PEXPIRETIME {key}"),
            &format!("SET {key} 6 KEEPTTL"),
            &format!("PEXPIREAT {key} {last} NX"),
            &format!("SET {other} 1 PXAT {last}"),
            "EXEC",
        ];
        let told = client.asks(asked);
        assert_eq!(told.last().map(String::as_str), Some(&*format!("[OK, {last}, OK, 0, OK]")));
        let expires = |key: &str| format!("PEXPIRETIME {key}");
        assert_eq!(client.asks([&expires(&key), &expires(&other)]), [last, last]);
        assert_eq!(client.asks([&format!("RENAME {key} {there}"), &expires(&there)]), ["OK", last]);
        assert_eq!(client.asks([&format!("COPY {there} {key}"), &expires(&key)]), ["1", last]);
        client.ask(&format!("DEL {other} {key} {there}"));
    }
}

#[test]
fn pops_that_block_wait_and_go_with_their_client() {
    let gateway = Running::before(&cluster().url());
    let (mut client, mut waits, mut goes) = (gateway.client(), gateway.client(), gateway.client());
    let [a, b, _] = apart("nodes:pop:");
    goes.say(&format!("BLPOP {a} 0"));
    while !client.ask("INFO gateway").contains("gateway_blocked_clients:1") {
        std::thread::yield_now();
    }
    drop(goes);
    while !client.ask("INFO gateway").contains("gateway_blocked_clients:0") {
        std::thread::yield_now();
    }
    waits.say(&format!("BLPOP {a} 0"));
    while !client.ask("INFO gateway").contains("gateway_blocked_clients:1") {
        std::thread::yield_now();
    }
    // A transaction over several nodes brings it.
    client.asks(["MULTI", &format!("RPUSH {a} item"), &format!("SET {b} 1"), "EXEC"]);
    assert_eq!(waits.hear(), format!("[\"{a}\", \"item\"]"));
    assert_eq!(waits.ask(&format!("XREAD COUNT 1 STREAMS {a}:s 0")), "nil[]");
}

#[test]
fn who_waits_can_be_unblocked_by_its_own_user() {
    let gateway = Running::before(&cluster().url());
    let (mut client, mut waits) = (gateway.client(), gateway.client());
    let [a, ..] = apart("nodes:unblock:");
    let id = waits.ask("CLIENT ID");
    assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id}")), "0", "it does not wait");
    for (how, told) in
        [("", "nil[]"), ("TIMEOUT", "nil[]"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    {
        waits.say(&format!("BLPOP {a} 0"));
        while client.ask(&format!("CLIENT UNBLOCK {id} {how}")) != "1" {
            std::thread::yield_now();
        }
        assert_eq!(waits.hear(), told, "{how}");
    }
    assert_eq!(waits.ask(&format!("LLEN {a}")), "0", "it is as before");
    assert_eq!(client.ask("CLIENT UNBLOCK 99999999"), "0");
    assert_eq!(client.ask("CLIENT UNBLOCK x"), "-ERR value is not an integer or out of range");
    assert!(client.ask("CLIENT UNBLOCK 1 SOON").starts_with("-ERR CLIENT UNBLOCK reason"));
}

/// A script that does not end keeps its node from all else; on a cluster of its own.
#[test]
fn a_script_without_end_is_ended_through_the_gateway() {
    let cluster = Cluster::options(3, 0)
        .module(Module::of_sources().expect("the module"))
        .config("lua-time-limit 10")
        .start()
        .expect("a cluster");
    let gateway = Running::before(&cluster.url());
    let (mut client, mut runs) = (gateway.client(), gateway.client());
    assert!(client.ask("SCRIPT KILL").starts_with("-NOTBUSY"));
    assert!(client.ask("FUNCTION KILL").starts_with("-NOTBUSY"));
    runs.say("EVAL \"while true do end\" 1 k");
    while !client.ask("GET k").starts_with("-BUSY") {
        std::thread::yield_now();
    }
    assert_eq!(client.ask("SCRIPT KILL"), "OK");
    assert!(runs.hear().contains("Script killed by user"));
    assert_eq!(client.ask("GET k"), "nil");
}

/// Commands that are sent on connections of their own follow a key that is on its way to another node, too: scripts and pops.
#[test]
fn keys_on_their_way_are_followed() {
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(2, 0).module(module).start().expect("a cluster");
    let gateway = Running::before(&cluster.url());
    let (mut client, mut waits) = (gateway.client(), gateway.client());
    let tag = cluster.key_at(0, "moves:");
    let (gone, list) = (format!("{{{tag}}}gone"), format!("{{{tag}}}list"));
    client.asks([&format!("SET {gone} 7"), &format!("SET {{{tag}}}stays 1")]);
    let slot = cluster.query::<u16>(0, &["CLUSTER", "KEYSLOT", &tag]).expect("a slot").to_string();
    let [from, to] = [0, 1].map(|node| cluster.query::<String>(node, &["CLUSTER", "MYID"]).expect("an id"));
    let set_slot = |node: usize, words: &[&str]| {
        cluster.query::<()>(node, &[&["CLUSTER", "SETSLOT", &slot][..], words].concat()).expect("it moves");
    };
    set_slot(1, &["IMPORTING", &from]);
    set_slot(0, &["MIGRATING", &to]);
    let port = cluster.servers()[1].port().to_string();
    let migrate = ["MIGRATE", "127.0.0.1", &port, "", "0", "10000", "REPLACE", "KEYS", &gone];
    cluster.query::<()>(0, &migrate).expect("it goes");
    let script = |says: &str| format!("EVAL \"redis.call('incr', KEYS[1]) return {says}\" 1 {gone}");
    assert_eq!(client.ask(&format!("GET {gone}")), "\"7\"");
    assert_eq!(client.ask(&script("redis.call('get', KEYS[1])")), "\"8\"");
    assert!(client.ask(&script("redis.error_reply('ASK 1 127.0.0.1:1')")).starts_with("-ASK 1"));
    assert_eq!(client.ask(&format!("GET {gone}")), "\"9\"", "it was done once");
    waits.say(&format!("BLPOP {list} 0"));
    while !client.ask("INFO gateway").contains("gateway_blocked_clients:1") {
        std::thread::yield_now();
    }
    assert_eq!(client.ask(&format!("RPUSH {list} x")), "1");
    assert_eq!(waits.hear(), format!("[\"{list}\", \"x\"]"));
    let stays = format!("EVAL \"return redis.call('get', KEYS[1])\" 1 {{{tag}}}stays");
    assert_eq!(client.ask(&stays), "\"1\"");
}

#[test]
fn what_cannot_be_says_what_to_do_instead() {
    let gateway = Running::before(&cluster().url());
    let mut client = gateway.client();
    for (line, way_out) in [
        ("WAIT 1 0", "min-replicas-to-write"),
        ("CLUSTER SLOTS", "connect to a node"),
        ("MONITOR", "connect to that node"),
        ("MOVE k 1", "RENAME"),
        ("CLIENT TRACKING on", "connect to a node"),
        ("SELECT 1", "database 0 only"),
    ] {
        let said = client.ask(line);
        assert!(said.starts_with("-ERR") && said.contains(way_out), "{line}: {said}");
    }
    let info = client.ask("INFO gateway");
    assert!(info.contains("gateway_refused_wait:1") && info.contains("gateway_refused_client:1"), "{info}");
    assert!(
        client
            .ask("NOSUCH a b")
            .starts_with("-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'")
    );
    assert_eq!(client.asks(["SELECT 0", "PING hi", "ECHO x"]), ["OK", "\"hi\"", "\"x\""]);
    assert!(client.ask("COMMAND DOCS GET").contains("\"gateway\", \"operation\""));
    assert_eq!(client.ask("COMMAND GETKEYS MSET a 1 b 2"), "[\"a\", \"b\"]");
    assert_eq!(client.ask("COMMAND LIST FILTERBY PATTERN [hl]set"), "[\"hset\", \"lset\"]");
}
