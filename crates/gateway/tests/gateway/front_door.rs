//! What comes to the front door and is no good: nothing crashes, grows or stays locked (G10, G11).

use std::time::{Duration, Instant};

use claret_gateway::GatewayLimits;

use crate::support::{gateway, in_process, limited};

#[test]
fn rubbish_is_named_and_its_connection_closed() {
    let gateway = in_process();
    for (bytes, said) in [
        (&b"*1\r\n:1\r\n"[..], "-ERR Protocol error: expected '$', got ':'"),
        (b"*-5x\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1048577\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"GET \"k\r\n", "-ERR Protocol error: unbalanced quotes in request"),
        (&[b'x'; 70_000], "-ERR Protocol error: too big inline request"),
    ] {
        let mut client = gateway.client();
        client.send(bytes);
        assert_eq!(client.hear(), said);
        assert!(client.is_closed());
    }
    assert!(gateway.client().ask("INFO gateway").contains("gateway_protocol_errors_total:6"));
}

#[test]
fn half_a_command_and_silence_costs_little_and_ends() {
    let gateway = limited(GatewayLimits { idle: Duration::from_millis(200), ..GatewayLimits::default() });
    let mut client = gateway.client();
    // A large one is announced, and does not come: no room is kept for it.
    client.send(b"*2\r\n$3\r\nSET\r\n$60000000\r\nabc");
    let since = Instant::now();
    assert!(client.is_closed());
    assert!(since.elapsed() >= Duration::from_millis(150));
}

#[test]
fn a_multi_without_end_is_refused_and_forgotten() {
    let gateway = limited(GatewayLimits { queued_max: 1_000, ..GatewayLimits::default() });
    let mut client = gateway.client();
    client.ask("MULTI");
    let many = "SET k v\r\n".repeat(1_001);
    client.send(many.as_bytes());
    (0..1_000).for_each(|_| assert_eq!(client.hear(), "QUEUED"));
    assert_eq!(
        client.hear(),
        "-ERR over 1000 commands or 67108864 bytes between MULTI and EXEC: split the transaction"
    );
    assert_eq!(
        client.asks(["EXEC", "GET k"]),
        ["-EXECABORT Transaction discarded because of previous errors.", "nil"]
    );
}

#[test]
fn a_gateway_at_its_limit_says_so() {
    let gateway = limited(GatewayLimits { connections_max: 2, ..GatewayLimits::default() });
    let (mut one, mut two) = (gateway.client(), gateway.client());
    assert_eq!([one.ask("PING"), two.ask("PING")], ["PONG", "PONG"]);
    let mut three = gateway.client();
    assert_eq!(three.hear(), "-ERR max number of clients reached");
    assert!(three.is_closed());
    drop(one);
    // Its place is free, once it is known that it is gone.
    let since = Instant::now();
    loop {
        let mut next = gateway.client();
        next.say("PING");
        if next.try_hear().is_ok_and(|said| said == "PONG") {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn connections_know_themselves_and_can_be_killed() {
    let gateway = in_process();
    let (mut one, mut two) = (gateway.client(), gateway.client());
    let id = two.ask("CLIENT ID");
    assert_eq!(two.asks(["CLIENT SETNAME shop", "CLIENT GETNAME"]), ["OK", "\"shop\""]);
    assert!(two.ask("CLIENT SETNAME \"a b\"").starts_with("-ERR Client names cannot"));
    assert!(one.ask("CLIENT LIST").contains("name=shop"));
    assert_eq!(one.ask(&format!("CLIENT KILL ID {id}")), "1");
    assert!(two.is_closed());
    one.say("CLIENT REPLY OFF\r\nSET k 1\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\nSET k 2\r\nGET k");
    assert_eq!([one.hear(), one.hear()], ["OK", "\"2\""]);
}

#[test]
fn the_end_comes_when_what_runs_is_done() {
    let gateway = gateway();
    let mut client = gateway.client();
    let mut idle = gateway.client();
    assert_eq!(client.asks(["PING", "SET drain:k 1"])[1], "OK");
    idle.asks(["MULTI", "SET drain:k 2"]);
    let address = gateway.address;
    gateway.join();
    assert!(client.is_closed() && idle.is_closed());
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// Bug: an empty array in pieces left the reader behind the end of what was there, and the connection's task panicked. Mend: it begins anew.
#[test]
fn an_empty_array_may_come_in_pieces() {
    let gateway = in_process();
    for pieces in
        [&["*0", "\r\n", "P", "ING\r\n"][..], &["*0", "\r\n\n", "PING\r\n"], &["*-1", "\r", "\nPING\r\n"]]
    {
        let mut client = gateway.client();
        for piece in pieces {
            client.send(piece.as_bytes());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(client.hear(), "PONG", "{pieces:?}");
    }
}

#[test]
fn what_a_browser_sends_is_not_carried_out() {
    let gateway = in_process();
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\nContent-Length: 20\r\n\r\nSET evil 1\r\n");
    assert!(client.is_closed());
    assert_eq!(gateway.client().ask("EXISTS evil"), "0");
}

#[test]
fn one_client_does_not_change_a_connection_that_others_use() {
    let gateway = gateway();
    let (mut client, mut other) = (gateway.client(), gateway.client());
    let [a, ..] = crate::support::apart("door:shared:");
    client.asks([&format!("XGROUP CREATE {a} streams $ MKSTREAM"), &format!("SET {{{a}}}:k 1")]);
    // A group named like a keyword: it waits, and nobody else does.
    client.say(&format!("XREADGROUP GROUP streams c NOACK BLOCK 0 STREAMS {a} >"));
    assert_eq!(other.ask(&format!("GET {{{a}}}:k")), "\"1\"");
    other.ask(&format!("XADD {a} 1-1 f v"));
    assert!(client.hear().contains("1-1"));
    for line in ["SCRIPT DEBUG YES", "CONFIG NOSUCH", "DEBUG SLEEP 0"] {
        assert!(client.ask(line).contains("not for the gateway"), "{line}");
    }
    // What a script says is no reason to run it again.
    let script = |says: &str| {
        format!("EVAL \"redis.call('incr', KEYS[1]) return redis.error_reply('{says}')\" 1 {{{a}}}:n")
    };
    for says in ["TRYAGAIN x", "CLUSTERDOWN x", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1", "LOADING x"] {
        assert!(client.ask(&script(says)).contains(says), "{says}");
    }
    assert_eq!(client.ask(&format!("GET {{{a}}}:n")), "\"5\"");
    // In a MULTI for a node nothing is sent that changes its connection.
    for line in ["CLIENT REPLY OFF", "SELECT 0"] {
        client.asks(["MULTI", &format!("PFADD {{{a}}}:n x"), &format!("PFMERGE {{{a}}}:m {{{a}}}:n")]);
        let said = client.ask(line);
        assert!(said.starts_with("-ERR"), "{line}: {said}");
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    }
    // Deep and long answers break nothing for others.
    let deep = "EVAL \"local t={} for i=1,60 do t={t} end return t\" 0";
    client.say(deep);
    let _ = client.hear();
    assert_eq!(other.ask(&format!("GET {{{a}}}:k")), "\"1\"");
}

#[test]
fn a_watch_of_very_many_keys_is_refused_at_once() {
    let gateway = in_process();
    let mut client = gateway.client();
    let keys: String = (0..200_000).map(|no| format!("\r\n$6\r\n{no:06}")).collect();
    client.send(format!("*200001\r\n$5\r\nWATCH{keys}\r\n").as_bytes());
    assert!(client.hear().starts_with("-ERR over 1024 keys"));
    assert_eq!(client.ask("PING"), "PONG");
}

/// Bug: `COMMAND LIST FILTERBY PATTERN` read a class of a mebibyte for each byte of each name, for seconds, and all waited. Mend: a pattern
/// has a bound, and is read once.
#[test]
fn a_very_long_pattern_is_refused_and_nobody_waits_for_it() {
    let gateway = in_process();
    let mut client = gateway.client();
    client.asks(["SET k v", "HSET h f v"]);
    let pattern = format!("*[{}", "~".repeat(1 << 20));
    for (words, rest) in [
        (
            &["COMMAND", "LIST", "FILTERBY", "PATTERN", &pattern][..],
            "a pattern of 1048578 bytes: it may have 1024",
        ),
        (&["HSCAN", "h", "0", "MATCH", &pattern], "a pattern of 1048578 bytes: it may have 1024"),
        (&["KEYS", &pattern], "1048578 bytes"),
        (&["SCAN", "0", "MATCH", &pattern], "1048578 bytes"),
    ] {
        client.send_words(words);
        let said = client.hear();
        assert!(said.starts_with("-ERR ") && said.contains(rest), "{}: {said}", words[0]);
    }
    let longest = "*".repeat(1_023) + "t";
    assert!(client.ask(&format!("COMMAND LIST FILTERBY PATTERN {longest}")).contains("\"get\""));
    assert_eq!(client.ask(&format!("HSCAN h 0 MATCH {}f", "*".repeat(1_023))), "[\"0\", [\"f\", \"v\"]]");
}
