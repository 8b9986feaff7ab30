//! Commands that servers carry out as steps of a MULTI over any slots (G3, A19 to A22).

use crate::support::{apart, gateway};

#[test]
fn a_multi_over_all_nodes_has_commands_that_servers_carry_out() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("steps:all:");
    let said = client.asks([
        "MULTI",
        &format!("XADD {a} 1-1 f v"),
        &format!("INCRBY {b} 3"),
        &format!("PFADD {c} ann bob"),
        &format!("XLEN {a}"),
        &format!("EXPIRE {a} 100"),
        &format!("GEOADD {{{b}}}:map 13.4 52.5 berlin"),
        &format!("BITFIELD {{{c}}}:bits SET u8 0 200 GET u8 0"),
        &format!("XRANGE {a} - +"),
        "EXEC",
    ]);
    assert_eq!(said[9], "[\"1-1\", 3, 1, 1, 1, 1, [0, 200], [[\"1-1\", [\"f\", \"v\"]]]]");
    assert_eq!(client.ask(&format!("TTL {a}")), "100");
    assert_eq!(client.ask(&format!("PFCOUNT {c}")), "2");
    // It may be among commands that are computed from what is read.
    client.ask(&format!("SET {b} abc"));
    let said = client.asks([
        "MULTI",
        &format!("XADD {a} 2-1 f v"),
        &format!("SETRANGE {b} 1 x"),
        &format!("XLEN {a}"),
        &format!("GET {b}"),
        "EXEC",
    ]);
    assert_eq!(said[5], "[\"2-1\", 3, 2, \"axc\"]");
}

#[test]
fn a_step_that_cannot_be_done_undoes_the_others() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("steps:undone:");
    client.asks([&format!("XADD {a} 5-1 f v"), &format!("SET {b} x")]);
    for (step, why) in [
        (format!("XADD {a} 5-1 f v"), "equal or smaller"),
        (format!("XADD {b} * f v"), "WRONGTYPE"),
        (format!("XADD {a} wrong f v"), "Invalid stream ID"),
    ] {
        let said = client.asks(["MULTI", &format!("SET {c} 1"), &step, "EXEC"]);
        assert!(said[3].starts_with("-EXECABORT") && said[3].contains(why), "{step}: {}", said[3]);
        assert_eq!(client.ask(&format!("EXISTS {c}")), "0", "{step}");
    }
    assert_eq!(client.ask(&format!("XLEN {a}")), "1");
}

#[test]
fn what_comes_behind_a_command_of_the_server_is_one_too() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("steps:behind:");
    let said = client.asks([
        "MULTI",
        &format!("SET {b} 1"),
        &format!("SET {a} x"),
        &format!("DEL {a}"),
        &format!("XADD {a} 1-1 f v"),
        &format!("EXISTS {a}"),
        &format!("DEL {a}"),
        &format!("XADD {a} 1-1 f v"),
        &format!("TTL {a}"),
        "EXEC",
    ]);
    assert_eq!(said[9], "[OK, OK, 1, \"1-1\", 1, 1, \"1-1\", -1]");
    let said = client.asks(["MULTI", &format!("XADD {a} 2-1 f v"), &format!("RENAME {a} {c}"), "EXEC"]);
    assert!(said[3].contains("'rename' has several keys"), "{}", said[3]);
    let said = client.asks(["MULTI", &format!("XADD {a} 2-1 f v"), &format!("RECORD.DIGEST {a}"), "EXEC"]);
    assert!(said[3].contains("is an operation of Claret"), "{}", said[3]);
    assert_eq!(client.ask(&format!("XLEN {a}")), "1");
}

#[test]
fn a_watched_stream_counts() {
    let gateway = gateway();
    let (mut client, mut other) = (gateway.client(), gateway.client());
    let [a, b, _] = apart("steps:watched:");
    client.asks([&format!("WATCH {a}"), "MULTI", &format!("XADD {a} 1-1 f v"), &format!("INCR {b}")]);
    assert_eq!(client.ask("EXEC"), "[\"1-1\", 1]");
    client.asks([&format!("WATCH {a}"), "MULTI", &format!("XADD {a} 2-1 f v"), &format!("INCR {b}")]);
    other.ask(&format!("XADD {a} 1-2 f v"));
    assert_eq!(client.ask("EXEC"), "nil[]");
    assert_eq!(client.ask(&format!("GET {b}")), "\"1\"");
    let said = client.asks(["MULTI", "GATEWAY ONCE steps:id", &format!("XADD {a} * f v")]);
    assert!(said[2].contains("GATEWAY ONCE keeps the answers"), "{}", said[2]);
    client.ask("DISCARD");
}

/// A18, A29: a message leaves when all is done, once, and its answer counts who heard it.
#[test]
fn messages_leave_when_all_is_done_and_not_otherwise() {
    let gateway = gateway();
    let (mut client, mut listener) = (gateway.client(), gateway.client());
    let [a, b, channel] = apart("steps:publish:");
    assert!(listener.ask(&format!("SUBSCRIBE {channel}")).contains("subscribe"));
    let said = client.asks([
        "MULTI",
        &format!("RPUSH {a} 1"),
        &format!("PUBLISH {channel} first"),
        &format!("RPUSH {b} 1"),
        &format!("PUBLISH {channel} second"),
        "EXEC",
    ]);
    assert!(said[5].starts_with("[1, ") && said[5].contains(", 1, "), "{}", said[5]);
    let failed = client.asks([
        "MULTI",
        &format!("PUBLISH {channel} never"),
        &format!("INCR {a}"),
        &format!("SET {b} 1"),
        "EXEC",
    ]);
    assert!(failed[4].starts_with("-EXECABORT"), "{}", failed[4]);
    client.asks(["MULTI", &format!("PUBLISH {channel} third"), "EXEC"]);
    for word in ["first", "second", "third"] {
        assert!(listener.hear().contains(word), "{word}");
    }
    let said = client.asks(["MULTI", "GATEWAY ONCE steps-publish", &format!("PUBLISH {channel} x"), "EXEC"]);
    assert!(said[2].contains("leave one of the two out"), "{}", said[2]);
}

/// A34. What is computed here is what a node computes where it has all the keys.
#[test]
fn counts_of_several_slots_are_merged_as_a_node_merges_them() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("steps:counts:");
    for (count, from) in [(3, 0), (5_000, 1), (60_000, 100)] {
        let [ours, others] = [from..from + count, from + count / 2..from + 2 * count]
            .map(|numbers| numbers.map(|number| number.to_string()).collect::<Vec<_>>());
        client.asks([
            &format!("DEL {a}"),
            &format!("DEL {b}"),
            &format!("DEL {c}"),
            &format!("DEL {{{c}}}:n {{{c}}}:1 {{{c}}}:2"),
        ]);
        for (elements, keys) in [(&ours, [&a, &format!("{{{c}}}:1")]), (&others, [&b, &format!("{{{c}}}:2")])]
        {
            for (key, part) in
                keys.into_iter().flat_map(|key| elements.chunks(1_000).map(move |it| (key, it)))
            {
                let mut words = vec!["PFADD", key];
                words.extend(part.iter().map(String::as_str));
                client.send_words(&words);
                client.hear();
            }
        }
        let by_node = client.ask(&format!("PFCOUNT {{{c}}}:1 {{{c}}}:2"));
        assert_eq!(client.ask(&format!("PFCOUNT {a} {b}")), by_node, "{count}");
        client.ask(&format!("PFADD {c} x"));
        client.asks([&format!("DEL {c}"), &format!("PFADD {c}"), &format!("EXPIRE {c} 100")]);
        assert_eq!(client.ask(&format!("PFMERGE {c} {a} {b}")), "OK");
        client.ask(&format!("PFMERGE {{{c}}}:n {{{c}}}:1 {{{c}}}:2"));
        assert_eq!(client.ask(&format!("TTL {c}")), "100");
        // The node's own count of what was written, and the registers as it has them.
        assert_eq!(client.ask(&format!("PFCOUNT {c}")), by_node, "{count}");
        let lengths = client.asks([&format!("STRLEN {c}"), &format!("STRLEN {{{c}}}:n")]);
        assert_eq!(lengths[0], lengths[1], "as runs, or packed");
    }
    client.asks([&format!("SET {a} text"), &format!("RPUSH {{{a}}}:list x")]);
    assert_eq!(
        client.ask(&format!("PFCOUNT {b} {a}")),
        "-WRONGTYPE Key is not a valid HyperLogLog string value."
    );
    assert!(client.ask(&format!("PFMERGE {b} {{{a}}}:list")).starts_with("-WRONGTYPE"));
}

#[test]
fn places_that_are_near_are_written_to_another_slot() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, _] = apart("steps:places:");
    client.ask(&format!("GEOADD {a} 13.4 52.5 berlin 2.35 48.85 paris 12.5 41.9 rome"));
    for (command, source, rest) in [
        ("GEOSEARCHSTORE", &a, "FROMLONLAT 10 50 BYRADIUS 800 km ASC"),
        ("GEOSEARCHSTORE", &a, "FROMMEMBER rome BYBOX 3000 3000 km COUNT 2 ANY"),
        ("GEOSEARCHSTORE", &a, "FROMLONLAT 0 0 BYRADIUS 1 m"),
        ("GEORADIUS", &a, "10 50 800 km STORE"),
        ("GEORADIUSBYMEMBER", &a, "paris 900 km STORE"),
    ] {
        let line = |target: &str| match command {
            "GEOSEARCHSTORE" => format!("{command} {target} {source} {rest}"),
            _ => format!("{command} {source} {rest} {target}"),
        };
        let (here, there) = (b.clone(), format!("{{{a}}}:found"));
        client.asks([&format!("SET {here} before"), &format!("SET {there} before")]);
        let said = client.asks([&line(&here), &line(&there)]);
        assert_eq!(said[0], said[1], "{command} {rest}");
        let found = [here, there].map(|key| client.ask(&format!("ZRANGE {key} 0 -1 WITHSCORES")));
        assert_eq!(found[0], found[1], "{command} {rest}");
    }
    client.ask(&format!("GEOSEARCHSTORE {b} {a} FROMMEMBER paris BYRADIUS 900 km STOREDIST"));
    let stored = client.ask(&format!("ZRANGE {b} 0 -1 WITHSCORES"));
    assert!(stored.starts_with("[\"paris\", \"0\", \"berlin\", \"877.04"), "{stored}");
    let none = client.ask(&format!("GEORADIUSBYMEMBER {a} nowhere 900 km STORE {b}"));
    assert!(none.contains("could not decode requested zset member"), "{none}");
    assert!(
        client.ask(&format!("GEORADIUS {a} 10 50 800 km WITHDIST STORE {b}")).contains("is not compatible")
    );
    // Its answer alone is as before.
    let said = client.asks(["MULTI", &format!("GEORADIUS {a} 10 50 800 km"), "EXEC"]);
    assert_eq!(said[2], "[[\"paris\", \"berlin\"]]");
}
