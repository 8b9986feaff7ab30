//! What waits, for how long, and what becomes of it when its client is gone (G12).

use std::sync::Mutex;
use std::time::Duration;

use claret::blocking::Store as Blocking;
use claret::{Records, Store};
use claret_gateway::{Behind, Gateway};

use crate::support::{Client, Running, apart, cluster, gateway};

fn waits_for(time: Duration) -> Running {
    let behind = Behind::Servers(Box::new(Store::cluster(cluster().url())));
    Running::start(Gateway::new(behind).wait_time(time))
}

/// A transaction that holds a key while something else is done.
fn while_held<T>(key: &str, act: impl FnOnce() -> T) -> T {
    let store = Blocking::connect(cluster().url()).expect("a cluster");
    let mut act = Some(act);
    let options = claret::TxOptions::new().attempts(1).deadline(Duration::from_secs(60));
    store
        .tx()
        .options(options)
        .run(|tx| {
            tx.counter(key).get_for_update()?;
            Ok(act.take().expect("once")())
        })
        .expect("nobody takes it away")
}

fn clients(client: &mut Client) -> u64 {
    let info = client.ask("INFO gateway");
    let (_, rest) = info.split_once("gateway_connected_clients:").expect("it is counted");
    rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|it| it.parse().ok()).expect("a number")
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never comes");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bug: an EXEC went on to wait for a lock when its client was gone. A client that is not answered for five seconds sends the same again:
/// then it happened twice, and nobody was told.
#[test]
fn an_exec_that_waits_when_its_client_goes_is_not_done() {
    let gateway = waits_for(Duration::from_secs(600));
    let [held, other, _] = apart("wait:gone:");
    let mut watcher = gateway.client();
    while_held(&held, || {
        let mut client = gateway.client();
        client.asks(["MULTI", &format!("INCR {held}"), &format!("INCR {other}")]);
        client.say("EXEC");
        assert_eq!(clients(&mut watcher), 2);
        drop(client);
        until(|| clients(&mut watcher) == 1);
    });
    let said = watcher.asks(["MULTI", &format!("INCR {held}"), &format!("INCR {other}"), "EXEC"]);
    assert_eq!(said[3], "[1, 1]");
}

/// Answers that are there do not wait for one that is not, though they leave with it where it need not wait.
#[test]
fn what_was_answered_before_an_exec_that_waits_is_heard_meanwhile() {
    let gateway = waits_for(Duration::from_secs(600));
    let [held, other, _] = apart("wait:early:");
    let mut client = gateway.client();
    for round in 1..=3 {
        while_held(&held, || {
            client.send(format!("ECHO a\r\nMULTI\r\nINCR {held}\r\nINCR {other}\r\nEXEC\r\n").as_bytes());
            assert_eq!([(); 4].map(|()| client.hear()), ["\"a\"", "OK", "QUEUED", "QUEUED"]);
        });
        assert_eq!(client.hear(), format!("[{round}, {round}]"));
    }
}

/// Whoever sends a transaction and goes has it done, as on one server, if nobody is in its way.
#[test]
fn an_exec_that_need_not_wait_is_done_though_its_client_goes() {
    let gateway = gateway();
    let mut watcher = gateway.client();
    // The user is connected from here on.
    let [a, b, _] = apart("wait:first:");
    assert_eq!(watcher.asks(["MULTI", &format!("SET {a} 1"), &format!("SET {b} 1"), "EXEC"])[3], "[OK, OK]");
    for no in 0..50 {
        let keys = apart(&format!("wait:leaves:{no}:"));
        let mut client = gateway.client();
        let sets: String = keys.iter().map(|key| format!("SET {key} 1\r\n")).collect();
        client.send(format!("MULTI\r\n{sets}EXEC\r\n").as_bytes());
        drop(client);
        let asked = format!("MGET {}", keys.join(" "));
        until(|| watcher.ask(&asked) == "[\"1\", \"1\", \"1\"]");
    }
}

/// Bug: nothing bounded how long an EXEC waits, or a command that a node keeps waiting.
#[test]
fn nobody_waits_for_longer_than_was_said() {
    let gateway = waits_for(Duration::from_millis(300));
    let [held, other, _] = apart("wait:bound:");
    let mut client = gateway.client();
    while_held(&held, || {
        let exec = client.asks(["MULTI", &format!("INCR {held}"), &format!("INCR {other}"), "EXEC"]);
        assert!(exec[3].starts_with("-TRYAGAIN "), "{}", exec[3]);
        let several = client.ask(&format!("MSET {held} 1 {other} 1"));
        assert!(several.starts_with("-TRYAGAIN ") || several.starts_with("-UNKNOWN "), "{several}");
        let at_node =
            client.asks(["MULTI", &format!("XADD {{{held}}}s * f v"), &format!("INCR {held}"), "EXEC"]);
        assert!(at_node[3].starts_with("-TRYAGAIN "), "{}", at_node[3]);
        // What was sent to a node is there: nobody knows what becomes of it. Those behind it are answered in their order.
        client.send(format!("APPEND {held} 7\r\nECHO a\r\n").as_bytes());
        let append = client.hear();
        assert!(append.starts_with("-UNKNOWN it may have been done"), "{append}");
        assert_eq!(client.hear(), "\"a\"");
        assert_eq!(client.count("late_total"), 4, "each is counted");
    });
    // What it said after all is nobody's answer.
    until(|| client.ask(&format!("GET {held}")) == "\"7\"");
    assert_eq!(client.ask(&format!("STRLEN {held}")), "1");
    assert_eq!(
        client.ask(&format!("EXISTS {{{held}}}s {{{held}}}t")),
        "0",
        "nothing of what was refused was done"
    );
}

/// Bug: what became of an EXEC at its deadline was asked of a silent node for five seconds more: long enough for clients to send it again.
#[test]
fn an_exec_before_a_silent_node_is_answered_in_its_time() {
    let module = claret_rig::Module::of_sources().expect("the module");
    let cluster = claret_rig::Cluster::options(2, 0).module(module).start().expect("a cluster");
    let behind = Behind::Servers(Box::new(Store::cluster(cluster.url())));
    let gateway = Running::start(Gateway::new(behind).wait_time(Duration::from_millis(900)));
    let of = |node: u16| {
        let mut names = (0..).map(|no| format!("silent:{no}"));
        names.find(|key| claret_redis::slot_of(key.as_bytes()) / 8_192 == node).expect("one of them")
    };
    let exec = [&*format!("INCR {}", of(0)), &*format!("INCR {}", of(1))];
    let mut client = gateway.client();
    let exec = ["MULTI", exec[0], exec[1], "EXEC"];
    assert_eq!(client.asks(exec)[3], "[1, 1]");
    // Bug: nor was it bounded how long a user's first transaction waits for connections to all nodes.
    let rules = ["ACL", "SETUSER", "ann", "on", ">word", "~*", "resetchannels", "+@all"];
    (0..2).for_each(|node| cluster.query::<String>(node, &rules).map(drop).expect("a user"));
    let mut ann = gateway.client();
    assert_eq!(ann.ask("AUTH ann word"), "OK");
    cluster.servers()[1].pause();
    let said = [&mut client, &mut ann].map(|client| {
        let begun = std::time::Instant::now();
        (client.asks(exec)[3].clone(), begun.elapsed())
    });
    cluster.servers()[1].resume();
    for (said, took) in said {
        assert!(said.starts_with('-') && took < Duration::from_secs(4), "{said} after {took:?}");
    }
}

/// A client's own repeat hears the first answers, by whatever connection and in whatever protocol, and nothing is done twice.
#[test]
fn a_multi_with_an_id_is_done_once() {
    let gateway = gateway();
    let [a, b, c] = apart("wait:once:");
    let lines = |id: &str| {
        [
            "MULTI".to_owned(),
            format!("GATEWAY ONCE {id}"),
            format!("INCR {a}"),
            format!("HSET {b} f v"),
            format!("HGETALL {b}"),
            "EXEC".to_owned(),
        ]
    };
    let mut first = gateway.client();
    let said = |client: &mut Client, id: &str| lines(id).map(|line| client.ask(&line))[5].clone();
    let id = format!("{a}:order");
    first.ask(&format!("WATCH {a}"));
    let once = said(&mut first, &id);
    assert_eq!(once, "[OK, 1, 1, [\"f\", \"v\"]]");
    for protocol in [2, 3] {
        let mut again = gateway.client();
        again.ask(&format!("HELLO {protocol}"));
        // What it watches has changed, by the very thing that it sends again.
        again.ask(&format!("WATCH {a} {c}"));
        first.ask(&format!("SET {c} {protocol}"));
        let said = said(&mut again, &id);
        assert!(said.starts_with("[OK, 1, 1, "), "{said}");
    }
    assert_eq!(first.ask(&format!("GET {a}")), "\"1\"");
    assert_eq!(said(&mut first, &format!("{a}:next")), "[OK, 2, 0, [\"f\", \"v\"]]");
    assert!(first.ask("GATEWAY ONCE x").starts_with("-ERR GATEWAY ONCE belongs between"));
    let refused = first.asks(["MULTI", "GATEWAY ONCE x", "GATEWAY ONCE y"]);
    assert!(refused[2].contains("has an id already"), "{}", refused[2]);
}

/// The same on behalf of many at once, who all send the same.
#[test]
fn many_who_send_the_same_id_at_once_hear_one_answer() {
    let gateway = gateway();
    let [a, ..] = apart("wait:many:");
    let heard = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = gateway.client();
                let said = client.asks(["MULTI", &format!("GATEWAY ONCE {a}"), &format!("INCR {a}"), "EXEC"]);
                heard.lock().expect("nobody panics").push(said[3].clone());
            });
        }
    });
    assert_eq!(heard.into_inner().expect("nobody panics"), ["[OK, 1]"; 8]);
}
