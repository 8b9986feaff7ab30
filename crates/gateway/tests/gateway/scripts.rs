//! Scripts as transactions over any slots, and in the gateway's own process (G15, A1 to A29).

use std::time::Duration;

use claret::Store;
use claret_gateway::{Behind, Gateway};

use crate::support::{Client, Running, apart, cluster, gateway, in_process};

/// Both hosts, with keys that are apart where there are nodes.
fn on_both(prefix: &str, test: impl Fn(&Running, [String; 3])) {
    // Steps bound a script here, and not the time of a machine that has much to do.
    let patient = |behind| Running::start(Gateway::new(behind).wait_time(Duration::from_secs(300)));
    let servers = Behind::Servers(Box::new(Store::cluster(cluster().url())));
    test(&patient(servers), apart(&format!("scripts:{prefix}:")));
    test(&patient(Behind::Store(Store::in_memory())), ["a".into(), "b".into(), "c".into()]);
}

fn eval(client: &mut Client, text: &str, keys: &[&str], args: &[&str]) -> String {
    let count = keys.len().to_string();
    let words: Vec<&str> =
        ["EVAL", text, &count].into_iter().chain(keys.iter().copied()).chain(args.iter().copied()).collect();
    client.send_words(&words);
    client.hear()
}

const TRANSFER: &str = "local has = tonumber(redis.call('GET', ARGV[1]) or 0) \
     if has < tonumber(ARGV[3]) then return redis.error_reply('ERR not enough') end \
     local left = redis.call('DECRBY', ARGV[1], ARGV[3]) \
     redis.call('INCRBY', ARGV[2], ARGV[3]) return left";

#[test]
fn a_script_that_makes_its_keys_is_a_transaction_wherever_they_are() {
    on_both("keys", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        client.ask(&format!("SET {a} 100"));
        assert_eq!(eval(&mut client, TRANSFER, &[], &[&a, &b, "30"]), "70");
        assert_eq!(eval(&mut client, TRANSFER, &[], &[&a, &b, "71"]), "-ERR not enough");
        assert_eq!(client.asks([&format!("GET {a}"), &format!("GET {b}")]), ["\"70\"", "\"30\""]);
        // One key is declared, and others are used.
        let text = "redis.call('SET', KEYS[1], 1) redis.call('RPUSH', ARGV[1] .. ':l', 'x') return redis.call('GET', ARGV[1])";
        assert_eq!(eval(&mut client, text, &[&c], &[&b]), "\"30\"");
        assert_eq!(client.ask(&format!("LRANGE {b}:l 0 -1")), "[\"x\"]");
        // Of several slots, all declared.
        let text = "for i, key in ipairs(KEYS) do redis.call('SET', key, i) end return #KEYS";
        assert_eq!(eval(&mut client, text, &[&a, &b, &c], &[]), "3");
        assert_eq!(client.ask(&format!("MGET {a} {b} {c}")), "[\"1\", \"2\", \"3\"]");
    });
}

#[test]
fn a_script_that_fails_has_done_nothing_and_names_its_line() {
    on_both("fails", |gateway, [a, b, _]| {
        let mut client = gateway.client();
        client.asks([&format!("SET {a} 1"), &format!("RPUSH {b} x")]);
        let text = "redis.call('INCR', ARGV[1])\nredis.call('SADD', ARGV[1] .. ':s', 'm')\nreturn redis.call('INCR', ARGV[2])";
        let said = eval(&mut client, text, &[], &[&a, &b]);
        assert!(said.starts_with("-WRONGTYPE"), "{said}");
        assert!(said.contains("@user_script:3."), "{said}");
        let said = eval(&mut client, "redis.call('INCR', ARGV[1]) error('no')", &[], &[&a]);
        assert!(said.contains("user_script:1: no"), "{said}");
        assert_eq!(client.asks([&format!("GET {a}"), &format!("EXISTS {a}:s")]), ["\"1\"", "0"]);
        // What is tried and fails is undone, and the script goes on.
        let text = "redis.call('INCR', ARGV[1]) \
             local tried = redis.pcall('INCR', ARGV[2]) \
             local ok, why = pcall(function() return redis.call('LPOP', ARGV[1]) end) \
             return {tried.err, ok and 1 or 0, redis.call('GET', ARGV[1])}";
        let said = eval(&mut client, text, &[], &[&a, &b]);
        assert!(said.contains("WRONGTYPE") && said.ends_with("0, \"2\"]"), "{said}");
        assert_eq!(client.ask(&format!("GET {a}")), "\"2\"");
    });
}

#[test]
fn scripts_without_end_and_without_bounds_end_with_an_error() {
    on_both("bounds", |gateway, [a, ..]| {
        let mut client = gateway.client();
        client.ask(&format!("SET {a} 1"));
        for (text, why) in [
            ("redis.call('INCR', ARGV[1])\nwhile true do end", "steps"),
            ("redis.call('INCR', ARGV[1]) local s = 'x' while true do s = s .. s end", "memory"),
            ("redis.call('INCR', ARGV[1]) return string.rep('x', 1000000000)", "memory"),
            ("redis.call('INCR', ARGV[1]) local function f() return 1 + f() end return f()", "overflow"),
            ("redis.call('INCR', ARGV[1]) while true do pcall(error) end", "steps"),
        ] {
            let said = eval(&mut client, text, &[], &[&a]);
            assert!(said.starts_with('-') && said.contains(why), "{text}: {said}");
            assert_eq!(client.ask(&format!("GET {a}")), "\"1\"", "{text}");
        }
        let said = eval(&mut client, "return loadstring('return 1')()", &[], &[]);
        assert!(said.contains("loadstring") && said.contains("user_script:1:"), "{said}");
        let said = eval(&mut client, "return (", &[], &[]);
        assert!(said.starts_with("-ERR Error compiling script"), "{said}");
    });
}

#[test]
fn digests_are_known_where_they_were_loaded_and_at_every_gateway() {
    let (one, other) = (gateway(), gateway());
    let (mut client, mut second) = (one.client(), other.client());
    let [a, b, _] = apart("scripts:sha:");
    let text = format!("redis.call('SET', ARGV[1], '{a}') return redis.call('GET', ARGV[1])");
    client.send_words(&["SCRIPT", "LOAD", &text]);
    let digest = client.hear().trim_matches('"').to_owned();
    assert_eq!(digest.len(), 40);
    for client in [&mut client, &mut second] {
        assert_eq!(client.ask(&format!("SCRIPT EXISTS {digest} {}", "0".repeat(40))), "[1, 0]");
        assert_eq!(client.ask(&format!("EVALSHA {} 0 {b}", digest.to_uppercase())), format!("\"{a}\""));
    }
    assert!(client.ask(&format!("EVALSHA {} 0", "1".repeat(40))).starts_with("-NOSCRIPT"));
    let here = in_process();
    let mut client = here.client();
    assert_eq!(client.ask("SCRIPT LOAD return{1,ARGV[1]}").len(), 42);
    let digest = client.ask("SCRIPT LOAD return{1,ARGV[1]}").trim_matches('"').to_owned();
    assert_eq!(client.ask(&format!("EVALSHA {digest} 0 x")), "[1, \"x\"]");
    assert_eq!(client.asks(["SCRIPT FLUSH", &format!("SCRIPT EXISTS {digest}")]), ["OK", "[0]"]);
    assert!(client.ask(&format!("EVALSHA {digest} 0 x")).starts_with("-NOSCRIPT"));
}

#[test]
fn scripts_are_steps_of_a_multi() {
    on_both("multi", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        client.asks([&format!("SET {a} 10"), "MULTI", &format!("SET {c} 1")]);
        client.send_words(&["EVAL", TRANSFER, "0", &a, &b, "4"]);
        assert_eq!(client.hear(), "QUEUED");
        let said = client.asks([&format!("GET {b}"), "EXEC"]);
        assert_eq!(said[1], "[OK, 6, \"4\"]");
        // One that fails undoes the rest.
        client.asks(["MULTI", &format!("SET {c} 2")]);
        client.send_words(&["EVAL", "return redis.call('LPOP', ARGV[1])", "0", &a]);
        assert_eq!(client.hear(), "QUEUED");
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
        assert_eq!(client.ask(&format!("GET {c}")), "\"1\"");
    });
}

#[test]
fn what_servers_carry_out_is_answered_with_the_commit_and_messages_leave_then() {
    let gateway = gateway();
    let (mut client, mut listener) = (gateway.client(), gateway.client());
    let [a, b, channel] = apart("scripts:late:");
    assert!(listener.ask(&format!("SUBSCRIBE {channel}")).contains("subscribe"));
    let text = "local id = redis.call('XADD', ARGV[1], '7-1', 'f', 'v') \
         redis.call('EXPIRE', ARGV[1], 100) redis.call('SET', ARGV[2], 'x') \
         redis.call('PUBLISH', ARGV[3], 'done') return {'id', id}";
    assert_eq!(eval(&mut client, text, &[], &[&a, &b, &channel]), "[\"id\", \"7-1\"]");
    assert!(listener.hear().contains("done"));
    assert_eq!(client.asks([&format!("XLEN {a}"), &format!("GET {b}")]), ["1", "\"x\""]);
    assert_ne!(client.ask(&format!("TTL {a}")), "-1");
    // Who looks at it hears where, whatever is tried, and nothing is done.
    let text = "redis.call('SET', ARGV[2], 'y')\nlocal id = redis.call('XADD', ARGV[1], '*', 'f', 'v')\n\
         pcall(function() return id .. 'x' end)\nredis.call('PUBLISH', ARGV[3], 'never') return 1";
    let said = eval(&mut client, text, &[], &[&a, &b, &channel]);
    assert!(said.contains("is known when the script has ended") && said.contains(":3"), "{said}");
    assert_eq!(client.asks([&format!("XLEN {a}"), &format!("GET {b}")]), ["1", "\"x\""]);
    client.ask(&format!("PUBLISH {channel} after"));
    assert!(listener.hear().contains("after"), "nothing else left");
}

#[test]
fn scripts_that_only_read_may_not_write() {
    on_both("reads", |gateway, [a, b, _]| {
        let mut client = gateway.client();
        client.asks([&format!("SET {a} 1"), &format!("SET {b} 2")]);
        for (text, right) in [
            ("return {redis.call('GET', ARGV[1]), redis.call('GET', ARGV[2])}", "[\"1\", \"2\"]"),
            (
                "return redis.call('SET', ARGV[1], 5)",
                "-ERR Write commands are not allowed from read-only scripts.",
            ),
        ] {
            client.send_words(&["EVAL_RO", text, "0", &a, &b]);
            assert!(client.hear().starts_with(right), "{text}");
        }
        for (line, why) in [
            ("EVAL return", "wrong number"),
            ("EVAL return x", "not an integer"),
            ("EVAL x 3 a b", "greater than number of args"),
            ("EVAL x -1", "negative"),
        ] {
            let said = client.ask(line);
            assert!(said.contains(why), "{line}: {said}");
        }
    });
}

/// Two scripts that meet on hot keys are serializable, and none is lost.
#[test]
fn scripts_that_meet_lose_nothing() {
    on_both("meet", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        client.asks([&format!("SET {a} 0"), &format!("SET {b} 0"), &format!("SET {c} 0")]);
        let text = "local n = tonumber(redis.call('GET', ARGV[1])) \
             redis.call('SET', ARGV[1], n + 1) redis.call('INCR', ARGV[2]) return n";
        std::thread::scope(|scope| {
            for from in 0..4 {
                let (first, second) = if from % 2 == 0 { (&a, &b) } else { (&b, &a) };
                let mut client = gateway.client();
                scope.spawn(move || {
                    for _ in 0..25 {
                        let said = eval(&mut client, text, &[], &[first, second]);
                        assert!(!said.starts_with('-'), "{said}");
                    }
                });
            }
        });
        assert_eq!(client.asks([&format!("GET {a}"), &format!("GET {b}")]), ["\"100\"", "\"100\""]);
    });
}

/// Bugs that a reader found: each held up the gateway, used memory without bound, or did half of a transaction.
#[test]
fn what_is_returned_again_and_again_is_bounded_and_panics_nobody() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, _] = apart("scripts:again:");
    client.ask(&format!("XADD {a} 1-1 f v"));
    let error = "local e={err=string.rep('x',2e7)} local t={} for i=1,100000 do t[i]=e end return t";
    assert!(eval(&mut client, error, &[], &[]).contains("memory"));
    let late = "local x=redis.call('XRANGE',ARGV[1],'-','+') return {x, x}";
    assert!(eval(&mut client, late, &[], &[&a]).contains("returned once"));
    for text in ["return redis.call('SORT')", "return redis.call('GEORADIUS')", "return redis.call()"] {
        assert!(eval(&mut client, text, &[&b], &[]).starts_with('-'), "{text}");
    }
    let slow = "return string.find(string.rep('a',1e5),'.-.-.-.-b')";
    assert!(eval(&mut client, slow, &[], &[]).starts_with('-'));
    // Behind a script's command on a key nothing else of the MULTI can be done there.
    client.ask("MULTI");
    client.send_words(&["EVAL", "return redis.call('XADD',ARGV[1],'*','f','v')", "0", &a]);
    assert_eq!(client.hear(), "QUEUED");
    client.ask(&format!("DEL {a}"));
    client.send_words(&["EVAL", "return 1", "0"]);
    client.hear();
    assert!(client.ask("EXEC").contains("comes behind it"));
    assert_eq!(client.ask(&format!("XLEN {a}")), "1");
    // A MULTI that one node does has no scripts.
    let merge = format!("PFMERGE {{{b}}}:m {{{b}}}:n");
    let said = client.asks(["MULTI", &merge, "EVAL x 0", "EXEC"]);
    assert!(said[2].contains("leave one of the two out"), "{}", said[2]);
}

/// A script goes to a node only if it is sure to use no other keys: there it keeps what it did when it fails.
#[test]
fn scripts_whose_keys_are_not_sure_are_transactions() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, _] = apart("scripts:sure:");
    client.ask(&format!("RPUSH {b} x"));
    for text in [
        "redis.call('SET',KEYS[1],1) return redis.call('INCR',ARGV[1])",
        "redis.call('SET',KEYS[1],1) return redis.call('SUNIONSTORE',KEYS[1],unpack(ARGV))",
        "redis.call('SET',KEYS[1],1) return redis.call('ZUNIONSTORE',KEYS[1],1,ARGV[1])",
        "redis.call('SET',KEYS[1],1) local call = redis.call return call('INCR',ARGV[1])",
        "redis.call('SET',KEYS[1],1) KEYS[1] = ARGV[1] return redis.call('INCR',KEYS[1])",
        "redis.call('SET',KEYS[1],1) return redis.call('MSETNX',KEYS[1],1,unpack(ARGV))",
    ] {
        assert!(eval(&mut client, text, &[&a], &[&b]).starts_with('-'), "{text}");
        assert_eq!(client.ask(&format!("EXISTS {a}")), "0", "{text}");
    }
    // One that is sure keeps it, as on any server.
    let text = "redis.call('SET',KEYS[1],1) return redis.call('LPOP',KEYS[1])";
    assert!(eval(&mut client, text, &[&a], &[]).starts_with("-WRONGTYPE"));
    assert_eq!(client.ask(&format!("EXISTS {a}")), "1");
}

/// Bug: what runs in the gateway asked no node whether its user may run scripts.
#[test]
fn who_may_not_run_scripts_may_not_run_them_here() {
    let gateway = gateway();
    let (mut admin, mut eve) = (gateway.client(), gateway.client());
    let [a, b, _] = apart("scripts:rights:");
    admin.ask("ACL SETUSER scripts-eve on >secret ~* &* +@all -eval -evalsha");
    assert_eq!(eve.ask("AUTH scripts-eve secret"), "OK");
    assert!(eval(&mut eve, TRANSFER, &[], &[&a, &b, "0"]).starts_with("-NOPERM"));
    admin.send_words(&["SCRIPT", "LOAD", TRANSFER]);
    let digest = admin.hear().trim_matches('"').to_owned();
    assert!(eve.ask(&format!("EVALSHA {digest} 0 {a} {b} 0")).starts_with("-NOPERM"));
    eve.ask("MULTI");
    eve.send_words(&["EVAL", "return redis.call('SET', ARGV[1], 1)", "0", &a]);
    assert_eq!(eve.hear(), "QUEUED");
    assert!(eve.ask("EXEC").contains("NOPERM"));
    assert_eq!(eve.ask(&format!("EXISTS {a}")), "0");
    eve.send_words(&["EVAL_RO", "return redis.call('EXISTS', ARGV[1])", "0", &a]);
    assert_eq!(eve.hear(), "0", "it may read");
    admin.ask("ACL DELUSER scripts-eve");
}

/// A node that does not know a digest any more is sent the text, and a script that says so itself is not run again.
#[test]
fn a_node_that_knows_no_digest_is_sent_the_text() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, ..] = apart("scripts:flushed:");
    let text = "redis.call('INCR', KEYS[1]) return redis.error_reply('NOSCRIPT ' .. KEYS[1])";
    client.send_words(&["SCRIPT", "LOAD", text]);
    let digest = client.hear().trim_matches('"').to_owned();
    for round in 1..=2 {
        if round == 2 {
            for node in 0..cluster().masters() {
                cluster().query::<()>(node, &["SCRIPT", "FLUSH"]).expect("a node");
            }
        }
        assert_eq!(client.ask(&format!("EVALSHA {digest} 1 {a}")), format!("-NOSCRIPT {a}"));
        assert_eq!(client.ask(&format!("GET {a}")), format!("\"{round}\""), "it ran once");
    }
}
