//! Records in the gateway's own process.

use crate::support::in_process;

#[test]
fn it_is_a_small_server() {
    let gateway = in_process();
    let mut client = gateway.client();
    let said = client.asks([
        "SET k 1 NX",
        "SET k 2 NX",
        "INCR k",
        "MULTI",
        "HSET h f 1 g 2",
        "HVALS h",
        "LPUSH l a b c",
        "LREM l 1 b",
        "ZADD z GT 5 m",
        "EXEC",
        "HGETALL h",
        "LRANGE l 0 -1",
        "TYPE z",
        "DBSIZE",
        "SCAN 0 MATCH h*",
        "FLUSHALL",
        "DBSIZE",
    ]);
    assert_eq!(said[..3], ["OK", "nil", "2"]);
    assert_eq!(
        said[9..14],
        ["[2, [\"1\", \"2\"], 3, 1, 1]", "[\"f\", \"1\", \"g\", \"2\"]", "[\"c\", \"a\"]", "zset", "4"]
    );
    assert_eq!(said[14..], ["[\"0\", [\"h\"]]", "OK", "0"]);
    for line in ["XGROUP CREATE s g $ MKSTREAM", "GEOADD g 1 1 m", "DUMP s", "CONFIG SET a b"] {
        let said = client.ask(line);
        assert!(said.contains("needs a server") && said.contains("--store redis://"), "{line}: {said}");
    }
}

#[test]
fn what_a_multi_asks_counts_what_it_wrote() {
    let gateway = in_process();
    let mut client = gateway.client();
    client.asks(["SET a 1", "SET b 2", "MULTI", "DBSIZE", "SET c 3", "DEL a", "DBSIZE", "KEYS *", "SCAN 0"]);
    client.asks(["KEYS z*", "SCAN 0 TYPE list", "RPUSH list x", "SCAN 0 TYPE list", "DEL b list"]);
    let said =
        client.asks(["RANDOMKEY", "DEL c", "RANDOMKEY", "CLIENT SETNAME me", "CLIENT GETNAME", "EXEC"]);
    let keys = "[\"b\", \"c\"], [\"0\", [\"b\", \"c\"]], [], [\"0\", []], 1, [\"0\", [\"list\"]]";
    assert_eq!(said[5], format!("[2, OK, 1, 2, {keys}, 2, \"c\", 1, nil, OK, \"me\"]"));
    // All or nothing, the name among it.
    let said = client.asks(["MULTI", "RPUSH l x", "CLIENT SETNAME you", "INCR l", "EXEC", "CLIENT GETNAME"]);
    assert!(said[4].starts_with("-EXECABORT"), "{said:?}");
    assert_eq!(said[5], "\"me\"");
    // What is wrong with a name shows before anything is done.
    let said = client.asks(["MULTI", "SET k 1", "CLIENT SETNAME a\u{7f}b", "EXEC", "EXISTS k"]);
    assert!(said[3].starts_with("-EXECABORT") && said[4] == "0", "{said:?}");
    client.ask("MULTI");
    for _ in 0..16 {
        assert_eq!(client.ask("DBSIZE"), "QUEUED");
    }
    assert!(client.ask("DBSIZE").contains("ask them outside of it"));
    client.ask("DISCARD");
    let said = client.asks(["MULTI", "GATEWAY ONCE id", "DBSIZE", "EXEC"]);
    assert!(said[2].contains("leave one of the two out"), "{said:?}");
    for line in ["CLIENT KILL ID 1", "CONFIG SET a b", "SAVE"] {
        let said = client.asks(["MULTI", line, "EXEC"]);
        assert!(said[1].contains("not allowed inside a transaction"), "{line}: {said:?}");
    }
}

#[test]
fn a_flush_cuts_a_multi_in_two() {
    let gateway = in_process();
    let mut client = gateway.client();
    client.ask("SET a 1");
    let said = client
        .asks(["MULTI", "GET a", "FLUSHDB", "DBSIZE", "SET c 3", "FLUSHALL", "SET d 4", "EXEC", "KEYS *"]);
    assert_eq!(said[7..], ["[\"1\", OK, 0, OK, OK, OK]", "[\"d\"]"]);
    let said = client.asks(["MULTI", "SET b 1", "FLUSHDB", "RPUSH l x", "INCR l", "EXEC", "KEYS *"]);
    assert!(said[5].starts_with("-EXECABORT what stands before FLUSHDB is done, FLUSHDB perhaps"));
    assert_eq!(said[6], "[]");
    let said = client.asks(["MULTI", "FLUSHDB NOW", "EXEC"]);
    assert!(said[1].starts_with("-ERR syntax") && said[2].starts_with("-EXECABORT"), "{said:?}");
    for first in [["WATCH k", "MULTI"], ["MULTI", "GATEWAY ONCE id"]] {
        client.asks(first);
        let said = client.asks(["FLUSHDB", "EXEC"]);
        assert!(said[0].contains("cuts a MULTI in two") && said[1].starts_with("-EXECABORT"), "{said:?}");
    }
}

/// `SCAN .. TYPE` was a syntax error, a cursor that is none an empty page, and one bound of BITCOUNT a number.
#[test]
fn it_reads_words_as_servers_do() {
    let gateway = in_process();
    let mut client = gateway.client();
    client.asks(["SET s 1", "INCR n", "RPUSH l a", "HSET h f 1", "ZADD z 0x10 m", "SADD t a"]);
    for (kind, keys) in [
        ("string", vec!["n", "s"]),
        ("LIST", vec!["l"]),
        ("hash", vec!["h"]),
        ("zset", vec!["z"]),
        ("set", vec!["t"]),
        ("nosuch", vec![]),
    ] {
        let said = client.ask(&format!("SCAN 0 COUNT 100 TYPE {kind}"));
        let mut found: Vec<&str> =
            said.trim_start_matches("[\"0\", [").trim_end_matches("]]").split(", ").collect();
        found.retain(|key| !key.is_empty());
        found.sort();
        let keys: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
        assert_eq!(found, keys, "{kind}: {said}");
    }
    assert_eq!(client.ask("SCAN 0 MATCH s* TYPE string"), "[\"0\", [\"s\"]]");
    assert_eq!(client.asks(["SCAN abc", "SCAN -1"]), ["-ERR invalid cursor"; 2]);
    assert_eq!(client.asks(["SCAN 7", "SCAN 0 TYPE"]), ["[\"0\", []]", "-ERR syntax error"]);
    assert_eq!(client.asks(["BITCOUNT s 0", "BITCOUNT s 0 -1"]), ["-ERR syntax error", "3"]);
    assert_eq!(client.asks(["ZSCORE z m", "ZADD z -0 n", "ZSCORE z n"]), ["\"16\"", "1", "\"0\""]);
}

/// All clients wait while the table of LCS is made, so it is bounded.
#[test]
fn what_takes_long_by_itself_is_bounded() {
    let gateway = in_process();
    let mut client = gateway.client();
    for (key, bytes) in [("a", 4_000), ("b", 4_000), ("c", 5_000)] {
        assert_eq!(client.ask(&format!("SET {key} {}", "x".repeat(bytes))), "OK");
    }
    assert_eq!(client.ask("LCS a b LEN"), "4000");
    assert!(client.ask("LCS c c LEN").contains("exceeds 65 MiB"));
}

#[test]
fn streams_are_kept_in_the_process() {
    let gateway = in_process();
    let (mut client, mut waits) = (gateway.client(), gateway.client());
    let said = client.asks([
        "XADD s 1-1 f v",
        "XADD s 1-1 f v",
        "XADD s 2-1 g w",
        "XLEN s",
        "TYPE s",
        "XRANGE s - + COUNT 1",
        "XREAD COUNT 1 STREAMS s t 0 0",
        "GET s",
        "XDEL s 1-1",
        "EXPIRE s 100",
        "TTL s",
    ]);
    assert!(said[1].contains("equal or smaller") && said[7].starts_with("-WRONGTYPE"), "{said:?}");
    assert_eq!(said[2..6], ["\"2-1\"", "2", "stream", "[[\"1-1\", [\"f\", \"v\"]]]"]);
    assert_eq!(said[6], "[[\"s\", [[\"1-1\", [\"f\", \"v\"]]]]]");
    assert_eq!(said[8..], ["1", "1", "100"]);
    let said = client.asks([
        "MULTI",
        "XADD t 1-1 f v",
        "INCR n",
        "XADD t 2-1 f v",
        "XLEN t",
        "EXPIRE t 50",
        "XTRIM t MAXLEN 1",
        "EXEC",
    ]);
    assert_eq!(said[7], "[\"1-1\", 1, \"2-1\", 2, 1, 1]");
    // All or nothing.
    let said = client.asks(["MULTI", "INCR n", "XADD t 1-1 f v", "EXEC", "GET n"]);
    assert!(said[3].contains("equal or smaller"), "{said:?}");
    assert_eq!(said[4], "\"1\"");
    client.send_words(&[
        "EVAL",
        "local id = redis.call('XADD','s','*','f','v') return {id, #id > 3, redis.call('XLEN','t')}",
        "0",
    ]);
    assert!(client.hear().ends_with(", 1, 1]"));
    // Who waits hears of what comes, whoever brings it.
    for bring in [vec!["XADD new * f v"], vec!["MULTI", "XADD new * f v", "EXEC"]] {
        waits.say("XREAD BLOCK 0 STREAMS none new $ $");
        while !client.ask("CLIENT LIST").contains("flags=b") {
            std::thread::yield_now();
        }
        bring.iter().for_each(|line| drop(client.ask(line)));
        assert!(waits.hear().starts_with("[[\"new\", [[\""));
    }
    assert_eq!(waits.ask("XREAD BLOCK 10 STREAMS none new $ $"), "nil[]");
}

#[test]
fn channels_are_those_of_the_process() {
    let gateway = in_process();
    let (mut client, mut listens, mut other) = (gateway.client(), gateway.client(), gateway.client());
    assert_eq!(listens.ask("SUBSCRIBE a b"), "[\"subscribe\", \"a\", 1]");
    assert_eq!(listens.hear(), "[\"subscribe\", \"b\", 2]");
    assert_eq!(listens.ask("PSUBSCRIBE a*"), "[\"psubscribe\", \"a*\", 3]");
    other.ask("HELLO 3");
    assert_eq!(other.ask("SSUBSCRIBE a"), "push[\"ssubscribe\", \"a\", 1]");
    assert_eq!(client.asks(["PUBLISH a x", "PUBLISH c x", "SPUBLISH a y"]), ["2", "0", "1"]);
    assert_eq!(listens.hear(), "[\"message\", \"a\", \"x\"]");
    assert_eq!(listens.hear(), "[\"pmessage\", \"a*\", \"a\", \"x\"]");
    assert_eq!(other.hear(), "push[\"smessage\", \"a\", \"y\"]");
    let said = client.asks([
        "PUBSUB CHANNELS",
        "PUBSUB NUMSUB a c",
        "PUBSUB NUMPAT",
        "PUBSUB SHARDCHANNELS",
        "PUBSUB WHAT",
    ]);
    assert_eq!(said[..4], ["[\"a\", \"b\"]", "[\"a\", 1, \"c\", 0]", "1", "[\"a\"]"]);
    assert!(said[4].contains("CHANNELS"), "{}", said[4]);
    // In a MULTI and in a script they leave with the commit, or not at all.
    client.asks(["SET text x", "MULTI", "PUBLISH b 1", "INCR text", "EXEC", "MULTI", "PUBLISH b 2", "EXEC"]);
    client.send_words(&["EVAL", "return redis.call('PUBLISH','b','3')", "0"]);
    assert_eq!(client.hear(), "0");
    assert_eq!([listens.hear(), listens.hear()].map(|it| it.contains("\"b\"")), [true, true]);
    assert!(listens.ask("GET text").contains("only (P|S)SUBSCRIBE"));
    let said =
        listens.asks(["PING", "UNSUBSCRIBE a", "UNSUBSCRIBE", "PUNSUBSCRIBE", "UNSUBSCRIBE", "GET text"]);
    assert_eq!(said[..2], ["[\"pong\", \"\"]", "[\"unsubscribe\", \"a\", 2]"]);
    assert_eq!(said[2..4], ["[\"unsubscribe\", \"b\", 1]", "[\"punsubscribe\", \"a*\", 0]"]);
    assert_eq!(said[4..], ["[\"unsubscribe\", nil, 0]", "\"x\""]);
    drop(other);
    while client.ask("SPUBLISH a y") != "0" {
        std::thread::yield_now();
    }
}
