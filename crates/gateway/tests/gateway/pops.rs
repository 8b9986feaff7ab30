//! Pops that block on keys in any slots, or in the gateway's own process (G14).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use claret::Store;
use claret_gateway::{Behind, Gateway};

use crate::support::{Client, Running, apart, cluster, gateway};

/// A gateway, and how to see how many calls sleep behind it.
struct Host {
    gateway: Running,
    /// The records in its process, if they are there.
    store: Option<Store>,
    /// On the cluster only one of these tests has sleepers.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Host {
    fn in_process() -> Host {
        let store = Store::in_memory();
        let gateway = Running::start(Gateway::new(Behind::Store(store.clone())));
        Host { gateway, store: Some(store), _alone: None }
    }

    fn before_cluster() -> Host {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Host { gateway: gateway(), store: None, _alone: Some(alone) }
    }

    fn client(&self) -> Client {
        self.gateway.client()
    }

    fn sleeping(&self) -> u64 {
        let Some(store) = &self.store else {
            let of = |number| {
                let info: String = cluster().query(number, &["INFO", "claret"]).expect("a node");
                let line = info.lines().find_map(|line| line.strip_prefix("claret_sleeping_calls:"));
                line.expect("it is shown").trim().parse::<u64>().expect("a number")
            };
            return (0..cluster().masters()).map(of).sum();
        };
        store.stats().open_attempts
    }

    /// Waits until so many calls sleep.
    fn until_asleep(&self, count: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.sleeping() != count {
            assert!(Instant::now() < until, "{} sleep, and not {count}", self.sleeping());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Both hosts, with keys that are apart where there are nodes.
fn on_both(prefix: &str, test: impl Fn(&Host, [String; 3])) {
    test(&Host::before_cluster(), apart(&format!("pops:{prefix}:")));
    test(&Host::in_process(), ["a".into(), "b".into(), "c".into()]);
}

#[test]
fn a_pop_takes_what_is_there_in_the_order_of_its_keys() {
    on_both("order", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        client.asks([
            &format!("RPUSH {b} 1 2 3"),
            &format!("RPUSH {a} x"),
            &format!("ZADD {c} 1 one 2 two 3 three"),
        ]);
        assert_eq!(client.ask(&format!("BLPOP {a} {b} 0")), format!("[\"{a}\", \"x\"]"));
        assert_eq!(client.ask(&format!("BRPOP {a} {b} 0")), format!("[\"{b}\", \"3\"]"));
        assert_eq!(
            client.ask(&format!("BLMPOP 0 2 {a} {b} LEFT COUNT 5")),
            format!("[\"{b}\", [\"1\", \"2\"]]")
        );
        let z = format!("{c}:none");
        assert_eq!(client.ask(&format!("BZPOPMAX {z} {c} 0")), format!("[\"{c}\", \"three\", \"3\"]"));
        assert_eq!(client.ask(&format!("BZMPOP 0 2 {z} {c} MIN")), format!("[\"{c}\", [[\"one\", \"1\"]]]"));
        client.ask(&format!("RPUSH {a} x"));
        assert_eq!(client.ask(&format!("BLMOVE {a} {b} LEFT RIGHT 0")), "\"x\"");
        assert_eq!(client.ask(&format!("BRPOPLPUSH {b} {a} 0")), "\"x\"");
        // Nothing, and the time is over.
        assert_eq!(client.ask(&format!("BLPOP {b} {z} 0.01")), "nil[]");
        assert_eq!(client.ask(&format!("BLMOVE {b} {a} LEFT LEFT 0.01")), "nil");
        for (line, why) in [
            (format!("BLPOP {a} {b} -1"), "timeout is negative"),
            (format!("BLPOP {a} {b} x"), "timeout is not a float"),
            (format!("BLMPOP 0 0 {a} {b} LEFT"), "numkeys should be greater"),
            (format!("BLMPOP 0 2 {a} {b} UP"), "syntax error"),
            (format!("BLPOP {c} {a} 0"), "WRONGTYPE"),
        ] {
            assert!(client.ask(&line).contains(why), "{line}");
        }
    });
}

#[test]
fn a_push_wakes_who_has_waited_longest_and_nobody_else() {
    on_both("wake", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        let mut waiters: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
        for (at, waiter) in waiters.iter_mut().enumerate() {
            waiter.say(&format!("BLPOP {a} {b} {c} 0"));
            gateway.until_asleep(3 * (at as u64 + 1));
        }
        for (at, key) in [&b, &c, &a].into_iter().enumerate() {
            // In a MULTI over slots, or alone.
            match at {
                0 => drop(client.asks([
                    "MULTI",
                    &format!("RPUSH {key} {at}"),
                    &format!("SET {a}:x 1"),
                    "EXEC",
                ])),
                _ => drop(client.ask(&format!("RPUSH {key} {at}"))),
            }
            assert_eq!(waiters[at].hear(), format!("[\"{key}\", \"{at}\"]"));
        }
        gateway.until_asleep(0);
        assert_eq!(client.ask(&format!("EXISTS {a} {b} {c}")), "0");
    });
}

/// Bug: a pop was woken on both, took both, and answered one.
#[test]
fn of_two_keys_that_come_together_one_is_taken() {
    on_both("both", |gateway, [a, b, _]| {
        let (mut client, mut waiter) = (gateway.client(), gateway.client());
        for round in 0..20 {
            waiter.say(&format!("BLPOP {a} {b} 0"));
            gateway.until_asleep(2);
            client.asks(["MULTI", &format!("RPUSH {a} {round}"), &format!("RPUSH {b} {round}"), "EXEC"]);
            let (first, second) = (format!("[\"{a}\", \"{round}\"]"), format!("[\"{b}\", \"{round}\"]"));
            let taken = waiter.hear();
            assert!(taken == first || taken == second, "{taken}");
            gateway.until_asleep(0);
            let rest = [client.ask(&format!("LPOP {a}")), client.ask(&format!("LPOP {b}"))];
            assert_eq!(rest.iter().filter(|it| *it == "nil").count(), 1, "{round}: {rest:?}");
        }
    });
}

#[test]
fn moves_and_sorted_sets_wait_as_well() {
    on_both("moves", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        let mut waiter = gateway.client();
        waiter.say(&format!("BLMOVE {a} {b} LEFT RIGHT 0"));
        gateway.until_asleep(1);
        client.ask(&format!("RPUSH {a} v"));
        assert_eq!(waiter.hear(), "\"v\"");
        assert_eq!(client.ask(&format!("LRANGE {b} 0 -1")), "[\"v\"]");
        waiter.say(&format!("BZPOPMIN {a} {c} 0"));
        gateway.until_asleep(2);
        // Another type is slept through.
        client.asks([&format!("RPUSH {a} list"), &format!("ZADD {c} 7 m")]);
        assert_eq!(waiter.hear(), format!("[\"{c}\", \"m\", \"7\"]"));
        waiter.say(&format!("BLMPOP 0 2 {c} {c}:other LEFT COUNT 2"));
        gateway.until_asleep(2);
        client.ask(&format!("RPUSH {c} 1 2 3"));
        assert_eq!(waiter.hear(), format!("[\"{c}\", [\"1\", \"2\"]]"));
    });
}

#[test]
fn who_has_gone_or_is_unblocked_takes_nothing() {
    on_both("gone", |gateway, [a, b, _]| {
        let mut client = gateway.client();
        let mut gone = gateway.client();
        gone.say(&format!("BLPOP {a} {b} 0"));
        gateway.until_asleep(2);
        drop(gone);
        gateway.until_asleep(0);
        let mut waiter = gateway.client();
        let id = waiter.ask("CLIENT ID");
        for (how, answer) in
            [("TIMEOUT", "nil[]"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")]
        {
            waiter.say(&format!("BLPOP {a} {b} 0"));
            gateway.until_asleep(2);
            assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id} {how}")), "1");
            assert_eq!(waiter.hear(), answer);
        }
        client.ask(&format!("RPUSH {a} 1"));
        assert_eq!(client.ask(&format!("LLEN {a}")), "1", "nobody took it");
        assert_eq!(waiter.ask(&format!("BLPOP {b} {a} 0")), format!("[\"{a}\", \"1\"]"));
    });
}

#[test]
fn in_a_multi_none_waits() {
    on_both("multi", |gateway, [a, b, c]| {
        let mut client = gateway.client();
        client.ask(&format!("RPUSH {b} 1 2"));
        let said = client.asks([
            "MULTI",
            &format!("BLPOP {a} {b} 0"),
            &format!("BLMOVE {a} {c} LEFT LEFT 0"),
            &format!("BLMOVE {b} {c} LEFT LEFT 0"),
            &format!("BZPOPMIN {a}:z {c}:z 0"),
            "EXEC",
        ]);
        assert_eq!(said[5], format!("[[\"{b}\", \"1\"], nil, \"2\", nil[]]"));
        assert_eq!(client.ask(&format!("LRANGE {c} 0 -1")), "[\"2\"]");
    });
}

/// Who waits at one gateway is woken by whoever uses another one, or the node itself.
#[test]
fn gateways_and_nodes_wake_each_other_and_who_came_first_is_first() {
    let host = Host::before_cluster();
    let other = gateway();
    let [a, b, c] = apart("pops:two:");
    let mut second = other.client();
    let mut waiters = [host.client(), other.client(), host.client()];
    for (at, waiter) in waiters.iter_mut().enumerate() {
        waiter.say(&format!("BLPOP {a} {b} {c} 0"));
        host.until_asleep(3 * (at as u64 + 1));
    }
    for (at, key) in [&a, &b, &a].into_iter().enumerate() {
        // As it is, at the node.
        second.ask(&format!("RPUSH {key} {at}"));
        assert_eq!(waiters[at].hear(), format!("[\"{key}\", \"{at}\"]"));
    }
    host.until_asleep(0);
}
