//! Scripts as transactions over any slots, and in the gateway's own process (G15, A1 to A29).

use std::time::Duration;

use claret::Store;
use claret_gateway::{Behind, Gateway, ScriptsMode};

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

/// A33: what nobody wants an answer of goes with the commit; its errors name the line all the same, and undo everything.
#[test]
fn calls_whose_answers_are_dropped_are_left_for_the_commit() {
    on_both("dropped", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        client.ask(&format!("RPUSH {b} x"));
        let text = "redis.call('INCRBY', ARGV[1], 5)\nredis.call('HSET', ARGV[3], 'f', 'v')\nredis.call('INCR', ARGV[2])\nreturn 1";
        let said = eval(&mut client, text, &[], &[&a, &b, &c]);
        assert!(said.starts_with("-WRONGTYPE") && said.contains("@user_script:3."), "{said}");
        assert_eq!(client.ask(&format!("EXISTS {a} {c}")), "0");
        // One that is tried by itself answers, where it fails elsewhere.
        let text = "redis.call('SETNX', ARGV[2], 'v') return redis.call('SETNX', ARGV[2], 'v')";
        assert_eq!(eval(&mut client, text, &[], &[&a, &b]), "0");
        // What comes behind sees them.
        let text = "redis.call('SET', ARGV[1], 7) redis.call('INCRBY', ARGV[1], 5) redis.call('DEL', ARGV[2]) \
             redis.call('SADD', ARGV[2], 'm') redis.call('HSET', ARGV[3], 'f', 1) redis.call('EXPIRE', ARGV[3], 100) \
             return {redis.call('GET', ARGV[1]), redis.call('SCARD', ARGV[2]), redis.call('HINCRBY', ARGV[3], 'f', 2)}";
        assert_eq!(eval(&mut client, text, &[], &[&a, &b, &c]), "[\"12\", 1, 3]");
        assert_ne!(client.ask(&format!("TTL {c}")), "-1");
        // Read, then written: once that is known, the read takes the lock, and nobody gives way.
        let text = "local n = tonumber(redis.call('GET', ARGV[1])) redis.call('SET', ARGV[1], n + 1)";
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = gateway.client();
                    for _ in 0..25 {
                        assert_eq!(eval(&mut client, text, &[], &[&a]), "nil");
                    }
                });
            }
        });
        assert_eq!(client.ask(&format!("GET {a}")), "\"112\"");
    });
}

/// Numbers of Lua are floats: ids that were drawn in scripts came twice.
#[test]
fn unique_numbers_stay_so_in_scripts() {
    on_both("unique", |gateway, [a, ..]| {
        let mut client = gateway.client();
        let text = "local all = {} for i = 1, 20 do all[i] = redis.call('UID.NEXT', ARGV[1]) end return all";
        let said = eval(&mut client, text, &[], &[&a]);
        let mut ids: Vec<&str> = said.trim_matches(['[', ']']).split(", ").collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 20, "{said}");
    });
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
    let text = "redis.call('SET', ARGV[2], 'y')\nlocal new = redis.call('PFADD', ARGV[1] .. ':seen', 'v')\n\
         pcall(function() return new .. 'x' end)\nredis.call('PUBLISH', ARGV[3], 'never') return 1";
    let said = eval(&mut client, text, &[], &[&a, &b, &channel]);
    assert!(said.contains("is known when the script has ended") && said.contains(":3"), "{said}");
    assert_eq!(client.asks([&format!("EXISTS {a}:seen"), &format!("GET {b}")]), ["0", "\"x\""]);
    client.ask(&format!("PUBLISH {channel} after"));
    assert!(listener.hear().contains("after"), "nothing else left");
}

/// A18: it is asked under the lock of its key.
#[test]
fn what_servers_answer_to_a_command_that_only_reads_may_be_looked_at() {
    let gateway = gateway();
    let mut client = gateway.client();
    let [a, b, _] = apart("scripts:asked:");
    client.asks([
        &format!("XADD {a} 7-1 f v"),
        &format!("XADD {a} 8-1 f w"),
        &format!("GEOADD {b} 13.4 52.5 here"),
    ]);
    let text = "local n = redis.call('XLEN', ARGV[1]) \
         if n ~= 2 then return redis.error_reply('ERR it has ' .. n) end \
         local first = redis.call('XRANGE', ARGV[1], '-', '+')[1] \
         local near = redis.call('GEOSEARCH', ARGV[2], 'FROMLONLAT', 13, 52, 'BYRADIUS', 200, 'km') \
         redis.call('SET', ARGV[1] .. ':first', first[1] .. first[2][2] .. near[1]) \
         local tried = redis.pcall('XINFO', 'GROUPS', ARGV[2]) \
         return {n + 1, redis.call('GET', ARGV[1] .. ':first'), tried.err}";
    let said = eval(&mut client, text, &[], &[&a, &b]);
    assert!(said.starts_with("[3, \"7-1vhere\"") && said.contains("WRONGTYPE"), "{said}");
    // Of what the script has changed the server knows nothing yet: it answers with the commit.
    let text = "redis.call('XADD', ARGV[1], '9-1', 'f', 'x') return redis.call('XLEN', ARGV[1])";
    assert_eq!(eval(&mut client, text, &[], &[&a]), "3");
    let text = "redis.call('XADD', ARGV[1], '10-1', 'f', 'x')\nreturn redis.call('XLEN', ARGV[1]) + 1";
    let said = eval(&mut client, text, &[], &[&a]);
    assert!(said.contains("is known when the script has ended") && said.contains(":2"), "{said}");
    assert_eq!(client.ask(&format!("XLEN {a}")), "3");
}

/// A18: a script that looks at an id is run again with one that is made under the lock.
#[test]
fn the_id_of_an_entry_may_be_looked_at() {
    let gateway = gateway();
    let [a, b, _] = apart("scripts:ids:");
    let text = "local id = redis.call('XADD', ARGV[1], 'MAXLEN', '~', 100000, '*', 'f', 'v') \
         local next = redis.call('XADD', ARGV[1], '*', 'f', 'v') \
         redis.call('RPUSH', ARGV[2], id .. '<' .. next) return {id, next}";
    let mut client = gateway.client();
    client.ask(&format!("XADD {a} 99999999999999-7 f v"));
    let said = eval(&mut client, text, &[], &[&a, &b]);
    assert_eq!(said, "[\"99999999999999-8\", \"99999999999999-9\"]");
    assert_eq!(client.ask(&format!("LRANGE {b} 0 -1")), "[\"99999999999999-8<99999999999999-9\"]");
    // Scripts that meet draw different ones.
    let stream = format!("{a}:met");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = gateway.client();
                for _ in 0..10 {
                    let said = eval(&mut client, text, &[], &[&stream, &b]);
                    assert!(said.starts_with('['), "{said}");
                }
            });
        }
    });
    assert_eq!(client.ask(&format!("XLEN {stream}")), "80");
    let said = eval(&mut client, text, &[], &[&b, &a]);
    assert!(said.starts_with("-WRONGTYPE"), "a list: {said}");
    // Behind an id of its own the server makes the next one: nothing is told that is not so.
    let text = "local id = redis.call('XADD', ARGV[1], '*', 'f', 'v') local x = id .. '' \
         redis.call('XADD', ARGV[1], '99999999999999-100', 'f', 'v') return redis.call('XADD', ARGV[1], '*', 'f', 'v')";
    let said = eval(&mut client, text, &[], &[&format!("{stream}:own")]);
    assert_eq!(said, "\"99999999999999-101\"");
}

/// A18: not isolated, but what the script has written counts.
#[test]
fn scripts_find_keys_and_those_that_they_make() {
    let find = "local function found(pattern) \
           local cursor, all = '0', {} \
           repeat \
             local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 100) \
             cursor = page[1] \
             for _, key in ipairs(page[2]) do all[key] = true end \
           until cursor == '0' \
           local n = 0 \
           for _ in pairs(all) do n = n + 1 end \
           return n \
         end \
         local before = redis.call('DBSIZE') \
         redis.call('SET', ARGV[1] .. ':new', 1) redis.call('DEL', ARGV[1]) redis.call('SET', ARGV[2], 2) \
         local keys = redis.call('KEYS', ARGV[3]) \
         table.sort(keys) \
         local random = redis.call('RANDOMKEY') \
         return {keys, found(ARGV[3]), redis.call('DBSIZE') - before, random == ARGV[1] and 1 or 0}";
    on_both("found", |gateway, [a, b, _]| {
        let mut client = gateway.client();
        client.asks([&format!("SET {a} 1"), &format!("SET {b} 1")]);
        let pattern = if a.len() == 1 { "*".to_owned() } else { "scripts:found:*".to_owned() };
        let said = eval(&mut client, find, &[], &[&a, &b, &pattern]);
        let mut keys = [format!("\"{a}:new\""), format!("\"{b}\"")];
        keys.sort();
        // Tests beside this one make keys, and DBSIZE counts them.
        let right = format!("[[{}], 2, ", keys.join(", "));
        assert!(said.starts_with(&right) && said.ends_with(", 0]"), "{said}");
        // In a MULTI, too, behind what others of it write.
        let count = "redis.call('SET', ARGV[1], 2) return redis.call('DBSIZE')";
        client.ask("MULTI");
        client.asks([&format!("DEL {a}:x"), &format!("SET {a} 1")]);
        client.send_words(&["EVAL", count, "0", &b]);
        client.hear();
        let said = client.ask("EXEC");
        assert!(said.starts_with("[0, OK, ") && !said.contains('-'), "{said}");
        let hidden = "redis.call('SET', ARGV[1], 1) return redis.call('DB' .. 'SIZE')";
        let said = eval(&mut client, hidden, &[], &[&a]);
        assert!(said.contains("write redis.call('DBSIZE')"), "{said}");
    });
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
    let late = "redis.call('XDEL',ARGV[1],'1-1') local x=redis.call('XRANGE',ARGV[1],'-','+') return {x, x}";
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
    let [add, merge] = [format!("PFADD {{{b}}}:n x"), format!("PFMERGE {{{b}}}:m {{{b}}}:n")];
    let said = client.asks(["MULTI", &add, &merge, "EVAL x 0", "EXEC"]);
    assert!(said[3].contains("leave one of the two out"), "{}", said[3]);
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

const LIBRARY: &str = "#!lua name=NAME\n\
     local function has(key) return tonumber(redis.call('GET', key) or 0) end\n\
     redis.register_function('NAME_move', function(keys, args)\n\
       if has(keys[1]) < tonumber(args[1]) then return redis.error_reply('ERR not enough') end\n\
       redis.call('INCRBY', keys[1] .. ':to', args[1])\n\
       return redis.call('DECRBY', keys[1], args[1])\n\
     end)\n\
     redis.register_function{function_name='NAME_has', callback=function(keys) return has(keys[1]) end, flags={'no-writes'}}\n\
     redis.register_function('NAME_fails', function(keys)\n  redis.call('INCR', keys[1])\n  return redis.call('LPOP', keys[1])\nend)";

/// G15: functions run as scripts do, over any slots, and each gateway runs what was loaded at another one or at a node.
#[test]
fn functions_are_transactions_over_any_slots() {
    on_both("functions", |gateway, [a, b, _]| {
        let is_at_nodes = a.len() > 1;
        let name = if is_at_nodes { "suite" } else { "here" };
        let text = LIBRARY.replace("NAME", name);
        let mut client = gateway.client();
        client.ask(&format!("SET {a} 100"));
        client.send_words(&["FUNCTION", "LOAD", "REPLACE", &text]);
        assert_eq!(client.hear(), format!("\"{name}\""));
        client.send_words(&["FUNCTION", "LOAD", &text]);
        assert!(client.hear().contains("already exists"));
        assert_eq!(client.ask(&format!("FCALL {name}_move 2 {a} {b} 30")), "70");
        assert_eq!(client.ask(&format!("FCALL {name}_MOVE 1 {a} 71")), "-ERR not enough");
        assert_eq!(client.ask(&format!("MGET {a} {a}:to")), "[\"70\", \"30\"]");
        assert_eq!(client.ask(&format!("FCALL_RO {name}_has 1 {a}")), "70");
        assert!(client.ask(&format!("FCALL_RO {name}_move 1 {a} 1")).contains("write flag"));
        let said = client.ask(&format!("FCALL {name}_fails 1 {a}"));
        assert!(said.starts_with("-WRONGTYPE") && said.contains("@user_function:11."), "{said}");
        let said = client.asks([
            "MULTI",
            &format!("FCALL {name}_move 1 {a} 10"),
            &format!("SET {b} x"),
            &format!("FCALL_RO {name}_has 1 {a}"),
            "EXEC",
        ]);
        assert_eq!(said[4], "[60, OK, 60]", "{said:?}");
        assert_eq!(client.ask(&format!("FCALL {name}_none 0")), "-ERR Function not found");
        let said = client.ask(&format!("FUNCTION LIST LIBRARYNAME {name} WITHCODE"));
        assert!(said.contains(&format!("{name}_has")) && said.contains("register_function"), "{said}");
        client.send_words(&["FUNCTION", "LOAD", "#!lua name=bad\nredis.register_function('bad_f', load)"]);
        assert!(client.hear().starts_with('-'));
        if is_at_nodes {
            let other = self::gateway();
            assert_eq!(other.client().ask(&format!("FCALL {name}_move 2 {a} {b} 10")), "50");
            // One that the gateway cannot compile is its node's.
            let theirs = "#!lua name=theirs\nredis.register_function('theirs_f', function(keys) return loadstring('return 7')() end)";
            let servers = Behind::Servers(Box::new(Store::cluster(cluster().url())));
            let passing = Running::start(Gateway::new(servers).scripts_mode(ScriptsMode::Node));
            let mut by_nodes = passing.client();
            by_nodes.send_words(&["FUNCTION", "LOAD", "REPLACE", theirs]);
            assert_eq!(by_nodes.hear(), "\"theirs\"");
            assert_eq!(client.ask(&format!("FCALL theirs_f 1 {a}")), "7");
        }
        assert_eq!(client.ask(&format!("FUNCTION DELETE {name}")), "OK");
        assert_eq!(client.ask(&format!("FCALL {name}_has 1 {a}")), "-ERR Function not found");
    });
}

/// Bug: random numbers were the same for every run, and tokens that scripts made of them as well.
#[test]
fn random_numbers_are_others_for_every_run() {
    let gateway = gateway();
    let mut client = gateway.client();
    let mut draw = |text: &str| {
        client.send_words(&["EVAL", text, "0", "computed"]);
        client.hear()
    };
    // Its key is not sure, so that it runs in the gateway.
    let drawn = "redis.call('GET',ARGV[1]) return tostring(math.random())";
    assert_ne!(draw(drawn), draw(drawn));
    let seeded = "redis.call('GET',ARGV[1]) math.randomseed(7) return tostring(math.random())";
    assert_eq!(draw(seeded), draw(seeded));
}
