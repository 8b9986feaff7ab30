//! A user with every command of the module except the operators', and no key, tries everything: frames of noise,
//! frames that are nearly right, of its own session and of others', hellos, polls, one-shot transactions. It gets
//! nowhere, and others notice nothing.
//!
//! `CLARET_SWEEP` says how many frames; the default is what a run of all tests has time for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::beside::{commit, hold, number, ok};
use crate::common::{Process, Server, identity, session, wait_until};
use claret_core::message::{Asks, Listed, Members, Request, Response};
use claret_core::{AttemptId, Birth, Sequence, SessionId, ShardId, Time, TxId, wire};
use claret_types::{Claims, Mode};
use redis::{Connection, Value};

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.roll(256) as u8).collect()
    }
}

const EVE: u64 = 66;
const ALICE: u64 = 7;

/// A request that a client process might send, were it somebody's who may.
fn request(eve: &Process, dice: &mut Dice) -> Request {
    let whose = dice.pick(&[session(EVE), session(EVE), session(ALICE), SessionId(0)]);
    let tx = TxId { session: whose, sequence: Sequence(dice.pick(&[1, 2, 3, 1 << 63, dice.0])) };
    let attempt = AttemptId { tx, attempt: dice.pick(&[0, 1, 2, u32::MAX]) };
    let birth = Birth { time: Time(dice.pick(&[0, 1 << 50, u64::MAX])), tx };
    let key = dice.pick(&["alice", "held", "nobody's", "{alice}:k"]);
    let words = dice.pick(&["SET x", "INCR", "GET", "DEL", "SADD.RETURNING m", "LPOP", "TOPK.ADD 3 1 m"]);
    let own = Listed { shard: eve.shard, incarnation: None };
    let other = Listed { shard: ShardId(dice.pick(&[1, 9, u32::MAX])), incarnation: None };
    match dice.roll(9) {
        0 | 1 => {
            let mut execute = eve.execute(attempt, 1, key, words);
            if let Request::Execute { birth: said, calls, .. } = &mut execute {
                *said = birth;
                calls[0].reserve =
                    dice.pick(&[false, true]).then(|| Box::new(Claims::record(Mode::EXCLUSIVE)));
            }
            execute
        }
        2 | 3 => {
            let calls = if dice.roll(3) == 0 { vec![] } else { vec![(key, words)] };
            let mut prepare = eve.prepare(attempt, &calls);
            if let Request::Prepare { birth: said, participants, asks, members, .. } = &mut prepare {
                *said = birth;
                *participants =
                    dice.pick(&[&[own][..], &[own, other], &[other], &[own, own], &[other, own]]).into();
                *asks = if dice.pick(&[true, false]) { Asks::Decision } else { Asks::Vote };
                *members = match dice.roll(4) {
                    0 => Members::Only([claret_core::Member(3)].into_iter().collect()),
                    _ => Members::All,
                };
            }
            prepare
        }
        4 => Request::Apply { attempt },
        5 => Request::Withdraw { attempt },
        6 => Request::Abort { attempt, refused_by: dice.pick(&[None, Some(ShardId(0)), Some(ShardId(9))]) },
        7 => Request::Heartbeat {
            live: vec![attempt; dice.roll(3)],
            low_water: Sequence(dice.pick(&[0, 2, u64::MAX])),
        },
        _ => Request::Ask { attempt },
    }
}

/// One command.
fn attempt(eve: &Process, dice: &mut Dice) -> redis::Cmd {
    let frame = |bytes: Vec<u8>| redis::cmd("CLARET.FRAME").arg(bytes).to_owned();
    let line = |line: &str| {
        let mut words = line.split(' ');
        redis::cmd(words.next().expect("a name")).arg(words.collect::<Vec<_>>()).to_owned()
    };
    match dice.roll(20) {
        0..6 => {
            let length = dice.roll(120);
            frame(dice.bytes(length))
        }
        6..10 => frame(wire::encode_requests(&[request(eve, dice)])),
        10..17 => {
            let mut bytes = wire::encode_requests(&[request(eve, dice), request(eve, dice)]);
            for _ in 0..=dice.roll(3) {
                let at = dice.roll(bytes.len());
                bytes[at] = dice.roll(256) as u8;
            }
            if dice.roll(3) == 0 {
                bytes.truncate(dice.roll(bytes.len()));
            }
            frame(bytes)
        }
        17 => {
            let key = identity(dice.pick(&[EVE, ALICE])).public().to_string();
            let proof = if dice.roll(2) == 0 { format!(" PROOF {}", "ab".repeat(64)) } else { String::new() };
            let (version, number) = (dice.pick(&[3, 4, 5]), dice.pick(&[0, 1, 2, u32::MAX]));
            line(&format!("CLARET.HELLO {version} {key} {number}{proof}"))
        }
        18 => line(&format!("CLARET.POLL {} 0", dice.pick(&[session(EVE), session(ALICE), SessionId(0)]).0)),
        _ => line(dice.pick(&[
            "CLARET.EXEC 3 SET alice x",
            "CLARET.EXEC 2 GET held",
            "CLARET.READ GET alice",
            "CLARET.WRITE DEL alice",
            "CLARET.WRITE EVAL return(redis.call('del','alice')) 0",
            "CLARET.LOCKS",
            "CLARET.TOP",
            "CLARET.RESOLVE USER default ABORT",
        ])),
    }
}

#[test]
fn a_user_without_keys_gets_nowhere() {
    let count: usize = std::env::var("CLARET_SWEEP").map_or(10_000, |count| count.parse().expect("a number"));
    let mut server = Server::start_with(&[("CLARET_PLANTED_SHARDS", "0")], &["--claret.lease-ms", "600000"]);
    let mut admin = server.connect();
    let rules = "ACL SETUSER eve on >pw resetkeys resetchannels -@all +claret.hello +claret.frame +claret.poll +claret.exec \
                 +claret.read +claret.write +eval +get +set +del +incrby +sadd +lpop +getset";
    ok(&mut admin, rules);
    ok(&mut admin, "CONFIG SET claret.plain-wait-ms 50");
    let mut holder = Process::hello(&server, 8);
    let held = hold(&mut holder, "held", "GETSET mine");
    let mut alice = Process::hello(&server, ALICE);
    let stop = Arc::new(AtomicBool::new(false));
    let works = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut commits = 0;
            while !stop.load(Ordering::Relaxed) {
                let answers = alice.commit("alice", "INCR");
                assert!(matches!(answers[..], [Response::Committed { .. }]), "{commits}: {answers:?}");
                let low_water = Sequence(alice.next);
                alice.frame(&[Request::Heartbeat { live: vec![], low_water }]);
                commits += 1;
            }
            commits
        })
    };
    let connect = || Process::over(server.connect_as("eve", "pw"), EVE, 1, &[]);
    let (mut eve, mut dice) = (connect(), Dice(1));
    let mut done = 0;
    while done < count {
        let mut packed = Vec::new();
        for _ in 0..100 {
            packed.extend(attempt(&eve, &mut dice).get_packed_command());
        }
        eve.connection.send_packed_command(&packed).expect("sent");
        let mut is_spent = false;
        for _ in 0..100 {
            match eve.connection.recv_response() {
                Ok(Value::BulkString(bytes)) => {
                    for response in wire::decode_responses(&bytes).expect("a frame") {
                        let whose = response.attempt().map(|attempt| attempt.tx.session);
                        assert_eq!(whose, Some(session(EVE)), "{response:?}");
                    }
                }
                Ok(Value::Array(_)) => {}
                Ok(Value::ServerError(error)) => {
                    let said = format!("{error:?}");
                    is_spent |= said.contains("another one") || said.contains("NOSESSION");
                }
                other => panic!("eve is answered {other:?}"),
            }
        }
        done += 100;
        // A connection has one wrong proof. Now and then everything is left behind as it is.
        if is_spent || dice.roll(10) == 0 {
            eve = connect();
        }
    }
    stop.store(true, Ordering::Relaxed);
    let commits: i64 = works.join().expect("nobody else's transaction ended");
    drop(eve);
    wait_until("what it began is over", || number(&mut admin, "open_attempts") == 1);
    commit(&mut holder, held, 1);
    assert_eq!(value(&mut admin, "alice"), commits.to_string());
    assert_eq!(value(&mut admin, "held"), "mine");
    assert_eq!(ok(&mut admin, "DBSIZE"), Value::Int(2));
    let left = ["held_keys", "in_doubt", "panics", "resolved"].map(|name| number(&mut admin, name));
    assert_eq!(left, [0; 4]);
    assert!(commits > 0 && server.runs());
}

fn value(admin: &mut Connection, key: &str) -> String {
    redis::cmd("GET").arg(key).query(admin).expect("a string")
}
