//! What a client costs: bytes that are kept for it, and work that others would wait for (G10).

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claret::Store;
use claret_gateway::{Behind, Gateway, GatewayLimits};

use crate::support::{Client, Running, apart, gateway, in_process, limited, limited_before_cluster};

/// Bug: a gateway that was owed a megabyte of answers read no further, and a client that writes all of a pipeline before it reads wrote no
/// further: both waited for ever. Mend: it reads on.
#[test]
fn a_pipeline_that_is_written_whole_before_any_answer_is_read_is_answered() {
    let key = format!("costs:{}", "k".repeat(2_000));
    let asked = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
    for gateway in [gateway(), in_process()] {
        let mut client = gateway.client();
        client.stream.get_ref().set_write_timeout(Some(Duration::from_secs(20))).expect("a time");
        client.send_words(&["SET", &key, &"x".repeat(4_000)]);
        assert_eq!(client.hear(), "OK");
        // Far more than sockets hold on the way, in both directions.
        client.send(asked.repeat(15_000).as_bytes());
        (0..15_000).for_each(|_| assert_eq!(client.hear().len(), 4_002));
        client.send_words(&["DEL", &key]);
        assert_eq!(client.hear(), "1");
        let mut other = gateway.client();
        assert_eq!((other.count("closed_for_bytes_total"), other.count("kept_bytes")), (0, 0));
    }
}

/// Bug: whatever a client had sent was served before others were looked at.
#[test]
fn who_sends_much_lets_others_go_on_after_so_many_requests_and_so_many_bytes() {
    let gateway = in_process();
    let mut client = gateway.client();
    client.send(&b"ECHO a\r\n".repeat(5 * 1_024 - 1));
    (0..5 * 1_024 - 1).for_each(|_| assert_eq!(client.hear(), "\"a\""));
    assert_eq!(client.count("gave_way_total"), 5);
    client.send_words(&["ECHO", &"b".repeat(300 << 10)]);
    assert_eq!(client.hear().len(), (300 << 10) + 2);
    assert_eq!(client.count("gave_way_total"), 6);
}

/// Asks for far more than it reads, until the other end has had enough.
fn ask_without_reading(client: &mut Client, line: &str) {
    client.stream.get_ref().set_write_timeout(Some(Duration::from_secs(20))).expect("a time");
    let lines = format!("{line}\r\n").repeat(64);
    while client.stream.get_mut().write_all(lines.as_bytes()).is_ok() {}
}

#[test]
fn who_does_not_read_is_closed_at_its_bound_and_the_log_says_why() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let its = Arc::clone(&log);
    let limits = GatewayLimits { client_bytes_max: 4 << 20, ..GatewayLimits::default() };
    let gateway = Gateway::new(Behind::Store(Store::in_memory())).limits(limits);
    let gateway =
        Running::start(gateway.logger(move |line| its.lock().expect("a log").push(line.to_owned())));
    let mut client = gateway.client();
    client.send_words(&["SET", "k", &"x".repeat(100_000)]);
    assert_eq!(client.hear(), "OK");
    ask_without_reading(&mut client, "GET k");
    let mut other = gateway.client();
    assert_eq!(other.ask("GET k").len(), 100_002, "others are served");
    assert_eq!(other.count("closed_for_bytes_total"), 1);
    let log = log.lock().expect("a log");
    assert!(log[0].contains("over 4194304 bytes") && log[0].contains("--client-bytes"), "{log:?}");
}

/// Bug: answers of nodes were bounded by the number of commands, not by their size. Mend: they are, in bytes.
#[test]
fn answers_of_nodes_that_nobody_reads_are_bounded_in_bytes() {
    let gateway =
        limited_before_cluster(GatewayLimits { client_bytes_max: 4 << 20, ..GatewayLimits::default() });
    let (mut client, mut other) = (gateway.client(), gateway.client());
    let [key, ..] = apart("costs:unread:");
    client.send_words(&["SET", &key, &"x".repeat(100_000)]);
    assert_eq!(client.hear(), "OK");
    ask_without_reading(&mut client, &format!("GET {key}"));
    assert_eq!((other.count("closed_for_bytes_total"), other.ask(&format!("DEL {key}")).as_str()), (1, "1"));
}

/// Bug: what came behind a command that waits was kept up to 64 MiB for each connection, and there was no sum. Mend: it is bounded for
/// each, and in sum.
#[test]
fn what_comes_behind_a_command_that_waits_is_bounded_for_each_and_in_sum() {
    let behind = |client: &mut Client, bytes: usize| {
        let _ = client.stream.get_mut().write_all(&b"*1\r\n$4\r\nPING\r\n".repeat(bytes / 14));
    };
    let [first_key, key, _] = apart("costs:behind:");
    let limits = GatewayLimits { client_bytes_max: 2 << 20, ..GatewayLimits::default() };
    let gateway = limited_before_cluster(limits);
    let (mut one, mut other) = (gateway.client(), gateway.client());
    one.say(&format!("BLPOP {first_key} 0"));
    behind(&mut one, 4 << 20);
    // It reads, so it is told, if that is not lost with what it sent.
    let told = one.try_hear();
    assert!(told.as_ref().map_or(true, |said| said.contains("--client-bytes")), "{told:?}");
    assert_eq!(other.count("closed_for_bytes_total"), 1);
    let gateway =
        limited_before_cluster(GatewayLimits { total_bytes_max: 8 << 20, ..GatewayLimits::default() });
    let (mut small, mut others) = (gateway.client(), [0; 3].map(|_| gateway.client()));
    small.say(&format!("BLPOP {key} 0"));
    behind(&mut small, 64 << 10);
    for client in &mut others {
        client.say(&format!("BLPOP {key} 0"));
        behind(client, 6 << 20);
    }
    let mut looks = gateway.client();
    while looks.count("closed_for_bytes_total") < 2 {}
    assert!(looks.count("kept_bytes") <= 16 << 20);
    looks.ask(&format!("RPUSH {key} small"));
    assert!(small.hear().contains("small"), "who keeps little goes on");
}

/// Bug: some hundred bytes of MULTI had a gateway make gigabytes. Mend: what a transaction makes, reads and answers is bounded, and nothing
/// of one is done that is over.
#[test]
fn a_transaction_that_would_make_too_much_is_refused_and_nothing_of_it_is_done() {
    let gateway = limited(GatewayLimits { client_bytes_max: 8 << 20, ..GatewayLimits::default() });
    let mut client = gateway.client();
    client.asks([
        "SADD s a b",
        "HSET h f v",
        "ZADD z 1 a",
        "RPUSH l 1 2 3 4 5 6 7 8 9 10",
        "SETRANGE big 999999 x",
    ]);
    let keys = |key: &str, count: usize| format!(" {key}").repeat(count);
    for (line, times) in [
        ("SETRANGE made 3000000 x".to_owned(), 3),
        ("SETBIT made 24000000 1".to_owned(), 3),
        ("SRANDMEMBER s -16777216".to_owned(), 1),
        ("SRANDMEMBER s -100000".to_owned(), 6),
        ("HRANDFIELD h -1000000 WITHVALUES".to_owned(), 1),
        ("ZRANDMEMBER z -1000000 WITHSCORES".to_owned(), 1),
        ("GETRANGE big 0 -1".to_owned(), 8),
        ("BITOP OR made big big".to_owned(), 4),
        (format!("BITOP XOR made{}", keys("big", 20)), 1),
        (format!("SORT l{}", keys("GET #", 20_000)), 1),
        (format!("SORT l{}", keys("GET w_*", 20_000)), 1),
        (format!("SUNION{}", keys("s", 60_000)), 1),
    ] {
        let before = client.count("refused_for_bytes_total");
        client.asks(["MULTI", "SET other 1"]);
        for _ in 0..times {
            client.send_words(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(client.hear(), "QUEUED");
        }
        let said = client.ask("EXEC");
        let shown = &line[..line.len().min(40)];
        assert!(said.starts_with("-EXECABORT") && said.contains("--client-bytes"), "{shown}: {:.200}", said);
        assert_eq!(client.ask("EXISTS other made"), "0", "{shown}");
        assert_eq!(client.count("refused_for_bytes_total"), before + 1, "{shown}");
        assert!(client.count("kept_bytes") < 64 << 10, "{shown}: it is let go");
    }
    // Half of it is no harm.
    client.asks(["MULTI", "SETRANGE made 1000000 x"]);
    assert_eq!(client.ask("EXEC"), "[1000001]");
}

/// Bug: what one client asked for was computed and written on the thread of all. Mend: whatever goes over many bytes or elements is done by
/// another: taking apart what was read, computing, and writing the answer, each by itself.
#[test]
fn long_work_of_one_client_is_not_done_on_the_thread_of_all() {
    let gateway = in_process();
    let mut client = gateway.client();
    let words = |name: &str, word: fn(usize) -> String| {
        let all: Vec<String> = (0..5_000).map(word).collect();
        format!("{name} {}", all.join(" "))
    };
    client.ask(&words("SADD s", |no| format!("m{no}")));
    client.ask(&words("RPUSH l", |no| no.to_string()));
    client.ask(&words("HSET h", |no| format!("f{no} {no}")));
    client.ask(&words("ZADD z", |no| format!("{no} m{no}")));
    client.asks(["SETRANGE big 299999 x", "SET short x"]);
    for (line, pieces) in [
        ("SETRANGE big 299999 x", 1),
        ("SETBIT big 80 1", 1),
        ("GETRANGE big 0 -1", 2),
        ("BITCOUNT big", 1),
        ("BITPOS big 1", 1),
        ("BITOP NOT made big", 1),
        ("LCS half half", 1),
        ("GET big", 1),
        ("SMEMBERS s", 2),
        ("LRANGE l 0 -1", 2),
        ("HGETALL h", 2),
        ("ZRANGE z 0 -1", 2),
        ("SUNION s s", 5),
        ("SDIFFSTORE made s short:none", 3),
        ("SRANDMEMBER s", 2),
        ("SRANDMEMBER short:set -5000", 3),
        ("SRANDMEMBER s 5000", 4),
        ("HRANDFIELD h 5000 WITHVALUES", 4),
        ("ZRANDMEMBER z -5000", 4),
        ("SSCAN s 0", 3),
        ("HSCAN h 0", 3),
        ("ZSCAN z 0", 3),
        ("ZUNION 2 z z WITHSCORES", 5),
        ("ZINTERSTORE made 1 z", 3),
        ("ZREVRANGEBYSCORE z +inf -inf", 4),
        ("ZRANGESTORE made z 0 -1", 3),
        ("LPOS l 4999", 2),
        ("LSET l 2500 2500", 2),
        ("LREM l 0 none", 2),
        ("LINSERT l BEFORE 2500 7", 2),
        ("SORT l DESC ALPHA", 6),
        ("SORT l GET # STORE made", 6),
        ("ZPOPMIN z 4500", 4),
        ("LPOP l 4500", 3),
        ("SPOP s 4500", 3),
    ] {
        client.asks(["SADD short:set a", "SETRANGE half 299 x"]);
        let before = client.count("work_aside_total");
        let said = client.ask(line);
        assert!(!said.starts_with('-'), "{line}: {said}");
        assert_eq!(client.count("work_aside_total") - before, pieces, "{line}");
    }
}
