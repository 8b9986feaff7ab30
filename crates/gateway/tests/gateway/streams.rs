//! Streams of several slots: `XREAD` and `XREADGROUP`, which may wait (G16, A34).

use crate::support::{Client, Running, apart, cluster, gateway};

/// Until so many clients of this gateway wait, each known where it waits.
fn until_waiting(client: &mut Client, count: usize) {
    while client.ask("CLIENT LIST").matches("flags=b").count() != count {
        std::thread::yield_now();
    }
}

#[test]
fn streams_of_several_slots_are_read_at_once() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, c] = apart("streams:read:");
    assert_eq!(client.ask(&format!("XREAD STREAMS {a} {b} 0 0")), "nil[]");
    client.asks([&format!("XADD {a} 1-1 f 1"), &format!("XADD {c} 2-1 f 2")]);
    let of = |key: &str, id: &str, value: u32| format!("[\"{key}\", [[\"{id}\", [\"f\", \"{value}\"]]]]");
    let both = format!("[{}, {}]", of(&a, "1-1", 1), of(&c, "2-1", 2));
    assert_eq!(client.ask(&format!("XREAD COUNT 5 STREAMS {a} {b} {c} 0 0 0")), both);
    // What is there is answered at once, however long it would wait.
    assert_eq!(client.ask(&format!("XREAD BLOCK 0 STREAMS {b} {c} 0 0")), format!("[{}]", of(&c, "2-1", 2)));
    assert_eq!(client.ask(&format!("XREAD STREAMS {a} {c} $ 2-1")), "nil[]");
    let said = client.asks([
        "MULTI",
        &format!("XADD {b} 3-1 f 3"),
        &format!("XREAD BLOCK 0 STREAMS {a} {b} 1-1 0"),
        &format!("XREAD STREAMS {a} {b} 1-1 3-1"),
        "EXEC",
    ]);
    assert_eq!(said[4], format!("[\"3-1\", [{}], nil]", of(&b, "3-1", 3)));
    client.ask(&format!("SET {{{b}}}:text x"));
    for (line, told) in [
        (format!("XREAD STREAMS {a} {{{b}}}:text 0 0"), "WRONGTYPE"),
        (format!("XREAD STREAMS {a} {b} 0 x"), "Invalid stream ID"),
        (format!("XREAD BLOCK x STREAMS {a} {b} 0 0"), "timeout is not an integer"),
        (format!("XREAD BLOCK -1 STREAMS {a} {b} 0 0"), "timeout is negative"),
        (format!("XREADGROUP GROUP g me STREAMS {a} {b} > >"), "NOGROUP"),
    ] {
        assert!(client.ask(&line).contains(told), "{line}");
    }
    let script = "return redis.call('XREADGROUP','GROUP','g','me','STREAMS',ARGV[1],ARGV[2],'>','>')";
    client.send_words(&["EVAL", script, "0", &a, &b]);
    assert!(client.hear().contains("of several streams in a script"));
    client.ask("HELLO 3");
    let of = |key: &str, id: &str, value: u32| format!("\"{key}\", [[\"{id}\", [\"f\", \"{value}\"]]]");
    let told = client.ask(&format!("XREAD STREAMS {a} {c} 0 0"));
    assert_eq!(told, format!("{{{}, {}}}", of(&a, "1-1", 1), of(&c, "2-1", 2)));
}

#[test]
fn a_group_is_given_entries_of_several_slots_once() {
    let gateway = gateway();
    let (mut client, mut other) = (gateway.client(), gateway.client());
    let [a, b, _] = apart("streams:group:");
    for key in [&a, &b] {
        client.asks([&format!("XADD {key} 1-1 f v"), &format!("XGROUP CREATE {key} g 0")]);
    }
    let read = format!("XREADGROUP GROUP g me BLOCK 50 STREAMS {a} {b} > >");
    let said = client.ask(&read);
    assert!(said.contains(&a) && said.contains(&b), "{said}");
    assert_eq!(other.ask(&read), "nil[]");
    assert!(client.ask(&format!("XREADGROUP GROUP g me STREAMS {a} {b} 0 0")).contains("1-1"));
    for key in [&a, &b] {
        assert!(client.ask(&format!("XPENDING {key} g")).starts_with("[1, "), "{key}");
    }
}

#[test]
fn who_waits_for_streams_of_several_slots_hears_of_the_first() {
    let gateway = Running::before(&cluster().url());
    let (mut client, mut waits, mut group) = (gateway.client(), gateway.client(), gateway.client());
    let [a, b, c] = apart("streams:wait:");
    client.asks([&format!("XGROUP CREATE {a} g $ MKSTREAM"), &format!("XGROUP CREATE {b} g $ MKSTREAM")]);
    waits.say(&format!("XREAD BLOCK 0 STREAMS {a} {b} {c} $ $ 0"));
    group.say(&format!("XREADGROUP GROUP g me BLOCK 0 STREAMS {a} {b} > >"));
    until_waiting(&mut client, 2);
    client.ask(&format!("XADD {b} 7-1 f v"));
    let told = format!("[[\"{b}\", [[\"7-1\", [\"f\", \"v\"]]]]]");
    assert_eq!([waits.hear(), group.hear()], [told.clone(), told]);
    until_waiting(&mut client, 0);
    // A transaction over several nodes wakes as well.
    waits.say(&format!("XREAD BLOCK 0 STREAMS {a} {c} $ $"));
    until_waiting(&mut client, 1);
    client.asks(["MULTI", &format!("XADD {c} 8-1 f v"), &format!("SET {{{a}}}:k 1"), "EXEC"]);
    assert!(waits.hear().contains("8-1"));
    // The connections to nodes go on to others as they were.
    waits.say(&format!("XREAD BLOCK 20 STREAMS {a} {b} $ $"));
    assert_eq!(waits.hear(), "nil[]");
    assert_eq!(waits.ask(&format!("XLEN {b}")), "1");
}

#[test]
fn who_waits_for_streams_can_be_unblocked_and_may_go() {
    let gateway = Running::before(&cluster().url());
    let (mut client, mut waits, mut goes) = (gateway.client(), gateway.client(), gateway.client());
    let [a, b, _] = apart("streams:unblock:");
    let id = waits.ask("CLIENT ID");
    for (how, told) in [("TIMEOUT", "nil[]"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")] {
        waits.say(&format!("XREAD BLOCK 0 STREAMS {a} {b} $ $"));
        until_waiting(&mut client, 1);
        assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id} {how}")), "1");
        assert_eq!(waits.hear(), told);
    }
    client.asks([&format!("XGROUP CREATE {a} g $ MKSTREAM"), &format!("XGROUP CREATE {b} g $ MKSTREAM")]);
    goes.say(&format!("XREADGROUP GROUP g me BLOCK 0 STREAMS {a} {b} > >"));
    until_waiting(&mut client, 1);
    drop(goes);
    until_waiting(&mut client, 0);
    // Whoever has gone is given nothing: its connections to the nodes are gone as well.
    while client.ask(&format!("XINFO CONSUMERS {a} g")).contains("\"pending\", 1") {
        std::thread::yield_now();
    }
    waits.say(&format!("XREADGROUP GROUP g me BLOCK 0 STREAMS {a} {b} > >"));
    until_waiting(&mut client, 1);
    client.ask(&format!("XGROUP DESTROY {a} g"));
    assert!(waits.hear().contains("NOGROUP"));
    let many: Vec<String> = (0..70).map(|no| format!("{a}:{no}")).collect();
    let line = format!("XREAD BLOCK 0 STREAMS {} {}", many.join(" "), ["$"; 70].join(" "));
    assert!(client.ask(&line).contains("in over 64 slots"));
}
