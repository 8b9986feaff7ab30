//! `CLARET.DO` (docs/errands.md): any node carries out operations on keys of all, for any client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use claret_rig::{SecretFile, pause_process, resume_process, slot_of};
use redis::{Connection, RedisResult, Value};

use crate::common::beside::{Waits, commit, error, hold, number, ok};
use crate::common::{Process, Server, cluster, wait_until};

/// Nodes that take errands, and what they sign with.
struct Nodes {
    servers: Vec<Server>,
    _secret: SecretFile,
}

impl Nodes {
    fn start(options: &[&str]) -> Nodes {
        let secret = SecretFile::write().expect("a secret");
        let line = secret.setting();
        let (name, path) = line.split_once(' ').expect("a name and a file");
        let name = format!("--{name}");
        let mut all = vec![name.as_str(), path, "--claret.errands", "yes"];
        all.extend(options);
        let nodes = Nodes { servers: cluster(3, &all), _secret: secret };
        for server in &nodes.servers {
            wait_until("it knows all", || run(&mut server.connect(), &gets()).is_ok());
        }
        nodes
    }

    fn connect(&self, at: usize) -> Connection {
        self.servers[at].connect()
    }
}

/// A key of this node of three.
fn key(at: usize, name: &str) -> String {
    let slots = at * 16_384 / 3..(at + 1) * 16_384 / 3;
    let mut keys = (0..).map(|number| format!("{{{number}}}{name}"));
    keys.find(|key| slots.contains(&usize::from(slot_of(key)))).expect("one of them")
}

fn gets() -> String {
    (0..3).map(|at| format!("2 GET {}", key(at, "none"))).collect::<Vec<_>>().join(" ")
}

fn run(connection: &mut Connection, line: &str) -> RedisResult<Value> {
    redis::cmd("CLARET.DO").arg(line.split(' ').collect::<Vec<_>>()).query(connection)
}

fn refused(connection: &mut Connection, line: &str) -> String {
    format!("{:?}", run(connection, line).expect_err(line))
}

fn read(nodes: &Nodes, at: usize, key: &str) -> Option<String> {
    redis::cmd("GET").arg(key).query(&mut nodes.connect(at)).expect("a text")
}

#[test]
fn any_node_carries_out_operations_on_keys_of_all_or_none() {
    let nodes = Nodes::start(&[]);
    let [a, b, c] = [0, 1, 2].map(|at| key(at, "count"));
    let list = key(1, "list");
    for (given, home) in (0..3).cycle().take(9).enumerate() {
        let line = format!(
            "3 INCRBY.RETURNING {a} 1 3 INCRBY.RETURNING {b} 2 3 RPUSH {list} {given} 2 GET {c} 3 SET {c} {given}"
        );
        let answers = run(&mut nodes.connect(home), &line).expect("done");
        let Value::Array(answers) = answers else { panic!("{answers:?}") };
        let before =
            given.checked_sub(1).map_or(Value::Nil, |it| Value::BulkString(it.to_string().into_bytes()));
        let sums = [Value::Int(given as i64 + 1), Value::Int(2 * given as i64 + 2)];
        assert_eq!((&answers[..2], &answers[3]), (&sums[..], &before), "of node {home}");
    }
    assert_eq!(read(&nodes, 0, &a).as_deref(), Some("9"));
    // Of one other node alone, and of this one alone.
    for at in 0..3 {
        run(&mut nodes.connect(0), &format!("3 INCRBY {} 5", key(at, "alone"))).expect("done");
        assert_eq!(read(&nodes, at, &key(at, "alone")).as_deref(), Some("5"));
    }
    let wrong = refused(&mut nodes.connect(2), &format!("3 INCRBY {a} 100 3 INCRBY {list} 1"));
    assert!(wrong.contains("WRONGTYPE"), "{wrong}");
    assert_eq!(read(&nodes, 0, &a).as_deref(), Some("9"), "nothing was done");
    let mut plain = nodes.connect(0);
    assert!(number(&mut plain, "errands") > 3 && number(&mut plain, "letters_out") > 3);
    assert_eq!((number(&mut plain, "errands_open"), number(&mut plain, "errands_unknown")), (0, 0));
}

/// Each moves something from one hot counter to another, and each who looks sees that nothing is missing.
#[test]
fn what_many_move_at_once_is_all_there_whenever_somebody_looks() {
    let nodes = Nodes::start(&[]);
    let keys = [0, 1, 2].map(|at| key(at, "sum"));
    let all = keys.iter().map(|key| format!("2 GET {key}")).collect::<Vec<_>>().join(" ");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking: Vec<_> = (0..3)
            .map(|home| {
                let (nodes, all, is_over) = (&nodes, &all, &is_over);
                scope.spawn(move || {
                    let mut connection = nodes.connect(home);
                    let mut looks = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let seen = run(&mut connection, all).expect("read");
                        let Value::Array(seen) = seen else { panic!("{seen:?}") };
                        let sum: i64 = seen
                            .iter()
                            .cloned()
                            .map(|it| {
                                redis::from_redis_value::<Option<i64>>(it).expect("a number").unwrap_or(0)
                            })
                            .sum();
                        assert_eq!(sum, 0, "{seen:?}");
                        looks += 1;
                    }
                    looks
                })
            })
            .collect();
        let moving: Vec<_> = (0..9)
            .map(|mover| {
                let (nodes, keys) = (&nodes, &keys);
                scope.spawn(move || {
                    let mut connection = nodes.connect(mover % 3);
                    for turn in 0..60 {
                        let (from, to) = (&keys[(mover + turn) % 3], &keys[(mover + turn + 1) % 3]);
                        run(&mut connection, &format!("3 INCRBY {from} -{mover} 3 INCRBY {to} {mover}"))
                            .expect("moved");
                    }
                })
            })
            .collect();
        moving.into_iter().for_each(|it| it.join().expect("it moved all"));
        is_over.store(true, Ordering::Relaxed);
        assert!(looking.into_iter().all(|it| it.join().expect("it saw all") > 0));
    });
    for server in &nodes.servers {
        wait_until("nothing is held", || number(&mut server.connect(), "held_keys") == 0);
    }
}

#[test]
fn it_waits_for_a_holder_elsewhere_and_gives_up_in_time() {
    let nodes = Nodes::start(&["--claret.plain-wait-ms", "300"]);
    let (here, there) = (key(0, "k"), key(1, "k"));
    let mut process = Process::hello(&nodes.servers[1], 1);
    let held = hold(&mut process, &there, "GETSET a");
    let line = format!("3 SET {here} 1 2 GET {there}");
    let began = Instant::now();
    let late = refused(&mut nodes.connect(0), &line);
    assert!(late.contains("TryAgain") && late.contains("not free within 300 ms"), "{late}");
    assert!(began.elapsed() >= Duration::from_millis(299));
    assert_eq!(read(&nodes, 0, &here), None, "nothing was done");
    let () = redis::cmd("CONFIG")
        .arg("SET")
        .arg("claret.plain-wait-ms")
        .arg(10_000)
        .query(&mut nodes.connect(0))
        .expect("set");
    let waits = Waits::on(&nodes.servers[0], &format!("CLARET.DO {line}"));
    wait_until("it waits there", || number(&mut nodes.connect(1), "open_attempts") == 2);
    waits.still();
    commit(&mut process, held, 1);
    assert_eq!(waits.answer(), Value::Array(vec![Value::Okay, Value::BulkString(b"a".to_vec())]));
}

#[test]
fn rights_are_those_of_the_node_that_has_the_key() {
    let nodes = Nodes::start(&[]);
    let keys = [0, 1, 2].map(|at| key(at, "k"));
    for (at, rules) in [(0, "on >secret ~* +@all"), (1, "on >secret ~* +get"), (2, "off >secret ~* +@all")] {
        ok(&mut nodes.connect(at), &format!("ACL SETUSER ada {rules}"));
    }
    let mut ada = nodes.connect(0);
    ok(&mut ada, "AUTH ada secret");
    assert!(run(&mut ada, &format!("3 SET {} 1 2 GET {}", keys[0], keys[1])).is_ok());
    let denied = refused(&mut ada, &format!("3 SET {} 2 3 SET {} 2", keys[0], keys[1]));
    assert!(denied.contains("NoPerm") && denied.contains("may not run SET"), "{denied}");
    let off = refused(&mut ada, &format!("3 SET {} 3 2 GET {}", keys[0], keys[2]));
    assert!(off.contains("NoPerm") && off.contains("unknown or off at node"), "{off}");
    assert_eq!(read(&nodes, 0, &keys[0]).as_deref(), Some("1"), "nothing was done");
    // What changes there counts at once, also where the user came already.
    ok(&mut nodes.connect(1), "ACL SETUSER ada +set");
    assert!(run(&mut ada, &format!("3 SET {} 4 3 SET {} 4", keys[0], keys[1])).is_ok());
    ok(&mut nodes.connect(1), "ACL SETUSER ada off");
    let off = refused(&mut ada, &format!("3 SET {} 5 3 SET {} 5", keys[0], keys[1]));
    assert!(off.contains("NoPerm"), "{off}");
    ok(&mut nodes.connect(2), "ACL SETUSER ada on");
    wait_until("it is let in", || run(&mut ada, &format!("3 SET {} 6 3 SET {} 6", keys[0], keys[2])).is_ok());
}

#[test]
fn what_cannot_be_is_said_by_name_and_nothing_is_done() {
    let bare = cluster(3, &[]);
    let line = format!("3 SET {} 1 3 SET {} 1", key(0, "k"), key(1, "k"));
    let off = refused(&mut bare[0].connect(), &line);
    assert!(off.contains("claret.peer-secret-file and claret.errands yes"), "{off}");
    wait_until("its own keys", || run(&mut bare[0].connect(), &format!("3 SET {} 1", key(0, "k"))).is_ok());
    drop(bare);
    let nodes = Nodes::start(&[]);
    let mut plain = nodes.connect(0);
    let many = format!("2 INCR {} ", key(0, "k")).repeat(1_024) + &format!("2 INCR {}", key(1, "k"));
    assert!(refused(&mut plain, &many).contains("1025 operations"));
    let long = format!("3 SET {} {} 2 GET {}", key(0, "k"), "x".repeat(70_000), key(1, "k"));
    assert!(refused(&mut plain, &long).contains("of 65536 at most"));
    ok(&mut plain, "MULTI");
    ok(&mut plain, &format!("CLARET.DO {line}"));
    let answers = format!("{:?}", redis::cmd("EXEC").query::<Value>(&mut plain));
    assert!(answers.contains("outside MULTI"), "{answers}");
    assert!(error(&mut plain, "CLARET.DO 2 NONSENSE k").contains("unknown operation"));
    let () = redis::cmd("CLUSTER")
        .arg("DELSLOTSRANGE")
        .arg(16_383)
        .arg(16_383)
        .query(&mut nodes.connect(2))
        .expect("gone");
    assert_eq!(read(&nodes, 1, &key(1, "k")), None);
}

/// A node that stands still is waited for; what was given meanwhile is done when it goes on.
#[test]
fn a_node_that_stands_still_is_waited_for() {
    let nodes = Nodes::start(&["--cluster-node-timeout", "20000"]);
    let (here, there) = (key(0, "k"), key(1, "k"));
    let pid = nodes.servers[1].pid();
    pause_process(pid);
    let waits =
        Waits::on(&nodes.servers[0], &format!("CLARET.DO 3 INCRBY {here} 1 3 INCRBY.RETURNING {there} 1"));
    waits.still();
    std::thread::sleep(Duration::from_millis(1_500));
    resume_process(pid);
    assert_eq!(waits.answer(), Value::Array(vec![Value::Okay, Value::Int(1)]));
    assert_eq!(
        (read(&nodes, 0, &here).as_deref(), read(&nodes, 1, &there).as_deref()),
        (Some("1"), Some("1"))
    );
}

/// Nobody who dies leaves a lock: neither who gave an errand nor its home.
#[test]
fn a_giver_or_a_home_that_dies_leaves_nothing_held() {
    let mut nodes = Nodes::start(&["--cluster-require-full-coverage", "no", "--claret.lease-ms", "1000"]);
    let (here, there) = (key(1, "k"), key(2, "k"));
    let line = format!("CLARET.DO 3 SET {here} 1 3 SET {there} 1");
    let mut process = Process::hello(&nodes.servers[2], 1);
    let held = hold(&mut process, &there, "GETSET a");
    let giver = Waits::on(&nodes.servers[1], &line);
    wait_until("it waits there", || number(&mut nodes.connect(2), "open_attempts") == 2);
    giver.still();
    drop(giver);
    let killed = {
        let mut home = nodes.connect(1);
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut home).expect("them");
        let giver = clients.lines().find(|line| line.contains("cmd=claret.do")).expect("it waits");
        let id = giver.split_once("id=").and_then(|(_, rest)| rest.split(' ').next()).expect("its number");
        redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query::<i64>(&mut home).expect("killed")
    };
    assert_eq!(killed, 1);
    wait_until("it waits no more", || number(&mut nodes.connect(2), "open_attempts") == 1);
    // A home that dies while its errand waits.
    let home = Waits::on(&nodes.servers[0], &format!("CLARET.DO 3 SET {here} 2 3 SET {there} 2"));
    wait_until("it waits there", || number(&mut nodes.connect(2), "open_attempts") == 2);
    home.still();
    drop(nodes.servers.remove(0));
    commit(&mut process, held, 1);
    for server in &nodes.servers {
        wait_until("nothing is held", || number(&mut server.connect(), "held_keys") == 0);
    }
    let both = [(0, &here), (1, &there)].map(|(at, key)| read(&nodes, at, key));
    assert!(
        both == [None, Some("a".to_owned())] || both == [Some("2".to_owned()), Some("2".to_owned())],
        "{both:?}"
    );
}

/// Bug: what its own shard refused a home tried again within the same turn of the server's loop, without end. Consequence: the server stood still.
#[test]
fn a_home_that_takes_nothing_now_says_so_in_time_and_serves_others() {
    let nodes = Nodes::start(&["--claret.plain-wait-ms", "300"]);
    let (here, there) = (key(0, "k"), key(1, "k"));
    let line = format!("3 SET {here} 1 3 SET {there} 1");
    let mut home = nodes.connect(0);
    ok(&mut home, "CONFIG SET claret.drain 1");
    let began = Instant::now();
    refused(&mut home, &line);
    assert!(began.elapsed() < Duration::from_secs(5));
    ok(&mut home, "CONFIG SET claret.drain 0");
    run(&mut home, &line).expect("done");
    ok(&mut home, "PING");
}

/// Whoever gives an id again, at whichever node, hears what was answered first, and nothing is done.
#[test]
fn an_id_is_carried_out_once_whichever_nodes_it_is_given_to() {
    let nodes = Nodes::start(&[]);
    let [a, b, c] = [0, 1, 2].map(|at| key(at, "k"));
    let line = format!("3 INCRBY.RETURNING {a} 2 3 RPUSH {b} x 2 GET {c} 4 LRANGE {b} 0 -1");
    let x = || Value::BulkString(b"x".to_vec());
    let answers = |sum, elements| {
        Value::Array(vec![Value::Int(sum), Value::Okay, Value::Nil, Value::Array(vec![x(); elements])])
    };
    for home in [0, 1, 2, 0] {
        let heard = run(&mut nodes.connect(home), &format!("ONCE order:7 {line}")).expect("done");
        assert_eq!(heard, answers(2, 1), "at {home}");
    }
    let other =
        run(&mut nodes.connect(0), &format!("once order:8 {line} 3 PEXPIRE claret:done:order:8 60000"));
    let Value::Array(mut other) = other.expect("done") else { panic!("one answer for each") };
    assert_eq!((other.pop(), Value::Array(other)), (Some(Value::Okay), answers(4, 2)));
    // Bug: its operations were executed beside the look at its mark. Consequence: where they cannot be done any more, as after the last piece
    // was taken, who gave the id again heard an error, though it was done.
    ok(&mut nodes.connect(0), &format!("RENAME {a} {a}.kept"));
    ok(&mut nodes.connect(0), &format!("HSET {a} field 1"));
    assert_eq!(run(&mut nodes.connect(1), &format!("ONCE order:7 {line}")).expect("done"), answers(2, 1));
    ok(&mut nodes.connect(0), &format!("DEL {a}"));
    ok(&mut nodes.connect(0), &format!("RENAME {a}.kept {a}"));
    let mark = |id: &str, command: &str| {
        let key = format!("claret:done:{id}");
        let at = usize::from(slot_of(&key)) * 3 / 16_384;
        redis::cmd(command).arg(&key).query::<i64>(&mut nodes.connect(at)).expect("a number")
    };
    assert_eq!(mark("order:7", "PTTL"), -1, "it stays");
    assert!(mark("order:8", "PTTL") > 0, "it stays as long as it was told");
    // What fails leaves its id free.
    let wrong = refused(&mut nodes.connect(1), &format!("ONCE order:9 3 INCRBY {a} 100 3 INCRBY {b} 1"));
    assert!(wrong.contains("WRONGTYPE"), "{wrong}");
    assert_eq!(mark("order:9", "EXISTS"), 0);
    assert_eq!(read(&nodes, 0, &a).as_deref(), Some("4"), "nothing was done");
    assert!(run(&mut nodes.connect(1), &format!("ONCE order:9 3 INCRBY {a} 1 3 SET {c} 1")).is_ok());
    for server in &nodes.servers {
        wait_until("nothing is held", || number(&mut server.connect(), "held_keys") == 0);
    }
}

#[test]
fn an_id_that_many_give_at_once_is_carried_out_once_and_all_hear_the_same() {
    let nodes = Nodes::start(&[]);
    let [a, b] = [0, 1].map(|at| key(at, "k"));
    for round in 1..=20 {
        let line = format!("ONCE round:{round} 3 INCRBY.RETURNING {a} 1 3 INCRBY.RETURNING {b} 1");
        let heard: Vec<Value> = std::thread::scope(|scope| {
            let giving: Vec<_> = (0..6)
                .map(|giver| {
                    let (nodes, line) = (&nodes, &line);
                    scope.spawn(move || run(&mut nodes.connect(giver % 3), line).expect("done"))
                })
                .collect();
            giving.into_iter().map(|it| it.join().expect("it heard")).collect()
        });
        let answers = Value::Array(vec![Value::Int(round), Value::Int(round)]);
        assert!(heard.iter().all(|it| *it == answers), "{heard:?}");
    }
}

/// Its home dies while it waits: given again at another node it is done, once.
#[test]
fn an_id_whose_home_died_may_be_given_again() {
    let mut nodes = Nodes::start(&["--cluster-require-full-coverage", "no", "--claret.lease-ms", "1000"]);
    let (here, there) = (key(1, "k"), key(2, "k"));
    let id = key(1, "order");
    let line = format!("ONCE {id} 3 INCRBY.RETURNING {here} 1 3 INCRBY.RETURNING {there} 1");
    let mut process = Process::hello(&nodes.servers[2], 1);
    let held = hold(&mut process, &there, "GETSET 5");
    let home = Waits::on(&nodes.servers[0], &format!("CLARET.DO {line}"));
    wait_until("it waits there", || number(&mut nodes.connect(2), "open_attempts") == 2);
    home.still();
    drop(nodes.servers.remove(0));
    commit(&mut process, held, 1);
    let answers = Value::Array(vec![Value::Int(1), Value::Int(6)]);
    for home in [0, 1, 0] {
        let mut connection = nodes.connect(home);
        wait_until("it is answered", || match run(&mut connection, &line) {
            Ok(heard) => {
                assert_eq!(heard, answers);
                true
            }
            Err(error) => {
                assert!(format!("{error:?}").contains("TryAgain"), "{error:?}");
                false
            }
        });
    }
}

#[test]
fn what_is_no_id_or_kept_by_others_is_said_by_name() {
    let nodes = Nodes::start(&[]);
    let tag = key(1, "order");
    let (here, there) = (key(0, "k"), key(1, "k"));
    let line = format!("ONCE {tag} 3 INCRBY {here} 1 3 INCRBY {there} 1");
    let mut plain = nodes.connect(1);
    run(&mut nodes.connect(0), &line).expect("done");
    ok(&mut plain, &format!("DEL claret:answer:{tag}"));
    let gone = refused(&mut nodes.connect(0), &line);
    assert!(gone.contains("DONE") && gone.contains("was done before"), "{gone}");
    ok(&mut plain, &format!("SET claret:answer:{tag} 17"));
    let others = refused(&mut nodes.connect(2), &line);
    assert!(others.contains("not written by CLARET.DO"), "{others}");
    assert_eq!(read(&nodes, 0, &here).as_deref(), Some("1"));
    for (words, why) in [("ONCE 7 x", "number of its words"), ("ONCE 7 2", "number of its words")] {
        let said = refused(&mut plain, words);
        assert!(said.contains(why), "{said}");
    }
    let empty =
        redis::cmd("CLARET.DO").arg("ONCE").arg("").arg(2).arg("GET").arg(&there).query::<Value>(&mut plain);
    assert!(format!("{empty:?}").contains("ONCE wants an id"), "{empty:?}");
    for at in 0..3 {
        ok(&mut nodes.connect(at), &format!("ACL SETUSER ada on >secret ~{here} ~{there} +@all"));
    }
    ok(&mut plain, "AUTH ada secret");
    let denied = refused(&mut plain, &line);
    assert!(denied.contains("NoPerm") && denied.contains(&format!("claret:done:{tag}")), "{denied}");
}

/// All keys at one node need no settings, on a server without a cluster neither.
#[test]
fn an_id_whose_keys_are_all_at_one_node_needs_no_settings() {
    let alone = Server::start(&[]);
    let nodes = cluster(2, &[]);
    for server in [&alone, &nodes[0]] {
        let mut plain = server.connect();
        let line = "ONCE {bar}7 2 INCR {bar}1 2 INCR.RETURNING {bar}2";
        wait_until("it is served", || run(&mut plain, line).is_ok());
        let answers = Value::Array(vec![Value::Okay, Value::Int(1)]);
        assert_eq!(run(&mut plain, line).expect("done"), answers);
    }
    let off = refused(&mut nodes[0].connect(), "ONCE {foo}7 2 INCR {bar}1");
    assert!(off.contains("claret.peer-secret-file and claret.errands yes"), "{off}");
}
