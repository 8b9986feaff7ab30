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
    for line in ["XADD s * f v", "EVAL 'return 1' 0", "BLPOP l 0", "SUBSCRIBE c", "CONFIG SET a b"] {
        let said = client.ask(line);
        assert!(said.contains("needs a server") && said.contains("--store redis://"), "{line}: {said}");
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
