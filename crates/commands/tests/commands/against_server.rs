//! The same random commands go to a real server, and to a store in memory or on a cluster: the answers are the same bytes, in both
//! protocols, and so is what is there afterwards.
//!
//! Where Claret differs on purpose stands in [`DIFFERENCES`].

mod draw;
mod resp;

use std::net::TcpStream;

use bytes::BytesMut;
use claret::Store;
use claret_commands::{Answer, Fault, Unbounded, named};
use claret_rig::{Cluster, Module, Server, TestLimit};
use claret_types::{Bytes, Reply};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;

use self::draw::{KEYS, OTHER_KEYS, command};
use self::resp::{Resp, ask};
use crate::written::{Protocol, write};

/// What is not the same, and what this test does about it.
#[expect(dead_code, reason = "it is a table to be read")]
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "INCRBYFLOAT, HINCRBYFLOAT",
        "Claret adds floats of 64 bits, servers of 80: only numbers are drawn of which both have the same sum",
    ),
    (
        "SMEMBERS, HGETALL and other answers without order",
        "Claret's are in bytewise order: they are compared sorted",
    ),
    (
        "SPOP, SRANDMEMBER, HRANDFIELD, ZRANDMEMBER",
        "chance: compared are how many, and that they are members",
    ),
    ("HSCAN, SSCAN, ZSCAN", "Claret has one page; so have servers for few elements: compared sorted"),
    (
        "BYLEX on members of different scores",
        "not defined by servers: all scores are the same where it is drawn",
    ),
    ("the empty key", "Claret refuses it: it is not drawn"),
    ("TTL and its like", "the clock goes on: a second of tolerance"),
    (
        "SORT",
        "a server takes numbers for none where it has read one before that is out of range (`errno`): not compared then",
    ),
    ("SET IFEQ", "of newer servers: not drawn"),
];

/// So many commands a seed.
const COMMANDS: usize = 4000;

/// How often all contents are compared.
const COMPARED_EVERY: usize = 250;

/// So many differences are enough.
const DIFFERENCES_SHOWN: usize = 25;

const SEEDS: std::ops::Range<u64> = 0..4;

/// Where commands are carried out.
enum Host {
    Memory(Store),
    /// Of real nodes.
    Cluster(Store, Runtime),
}

impl Host {
    /// What a command answers: as steps of a transaction, or, every other time that it is known up front, as a batch.
    fn answer(&self, words: &[String], in_a_batch: bool, protocol: Protocol) -> Resp {
        let command = named(words[0].as_bytes()).unwrap_or_else(|| panic!("{} is no command", words[0]));
        let rest: Vec<Bytes> = words[1..].iter().map(Bytes::from).collect();
        let store = match self {
            Host::Memory(store) | Host::Cluster(store, _) => store,
        };
        let answer = async {
            // In a batch nobody tells one error from another.
            match command.calls(&rest) {
                Some(Ok(calls)) if in_a_batch && command.name != "HINCRBY" => {
                    let batch = store.batch();
                    for (key, op) in calls.all() {
                        let _ = batch.push::<Reply>(key.clone(), op.clone());
                    }
                    Ok(calls.answer(batch.commit().await?.into_inner()))
                }
                _ => {
                    let run = async |tx: claret::Tx| command.run(&tx, &Unbounded, &rest).await;
                    store.try_transaction(run).await
                }
            }
        };
        let answer: Result<Answer, Fault> = match self {
            Host::Memory(_) => pollster::block_on(answer),
            Host::Cluster(_, runtime) => runtime.block_on(answer),
        };
        let mut bytes = BytesMut::new();
        write(&answer.unwrap_or_else(Answer::from), &mut bytes, protocol);
        Resp::of(&bytes)
    }

    /// Nothing is there.
    fn begin_again(&mut self) {
        match self {
            Host::Memory(store) => *store = Store::in_memory(),
            Host::Cluster(..) => {
                let all = ["DEL"].into_iter().chain(KEYS).chain(OTHER_KEYS);
                self.answer(&all.map(str::to_owned).collect::<Vec<_>>(), false, Protocol::Resp2);
            }
        }
    }
}

/// One of the two at a time.
struct Both {
    host: Host,
    commands: usize,
    protocol: Protocol,
    server: TcpStream,
}

impl Both {
    fn ours(&mut self, words: &[String]) -> Resp {
        self.commands += 1;
        self.host.answer(words, self.commands.is_multiple_of(2), self.protocol)
    }

    fn theirs(&mut self, words: &[String]) -> Resp {
        ask(&mut self.server, words)
    }

    /// Nothing is there.
    fn begin_again(&mut self) {
        self.theirs_of("FLUSHALL");
        self.host.begin_again();
    }

    fn theirs_of(&mut self, line: &str) -> Resp {
        self.theirs(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    /// Asks both; what differs.
    fn compare(&mut self, words: &[String]) -> Result<(), String> {
        let name = words[0].as_str();
        if name == "SPOP" {
            return self.compare_spop(words);
        }
        if name.ends_with("FLOAT") && self.is_long_number(words) {
            return Ok(());
        }
        let theirs = self.theirs(words);
        let ours = self.ours(words);
        if ours == Resp::Error("ERR a key cannot be empty; name one".to_owned()) {
            self.begin_again();
            return Ok(());
        }
        let is_same = match name {
            "SRANDMEMBER" | "HRANDFIELD" | "ZRANDMEMBER" => self.is_as_random(&words[1], &ours, &theirs),
            "SORT" | "SORT_RO" => theirs == no_number() || self.is_as_sorted(words, &ours, &theirs),
            "INCRBYFLOAT" | "HINCRBYFLOAT" if ours != theirs && ours.is_as_float(&theirs) => {
                // The texts differ from now on.
                self.begin_again();
                true
            }
            "TTL" | "EXPIRETIME" => ours.is_near(&theirs, 1),
            "PTTL" | "PEXPIRETIME" => ours.is_near(&theirs, 1000),
            _ => normal(name, ours.clone()) == normal(name, theirs.clone()),
        };
        if is_same { Ok(()) } else { Err(format!("{ours:?}, a server answers {theirs:?}")) }
    }

    /// In the same order, where there is one.
    fn is_as_sorted(&mut self, words: &[String], ours: &Resp, theirs: &Resp) -> bool {
        let by = words.iter().position(|word| word == "BY").and_then(|at| words.get(at + 1));
        let has_order = by.is_none_or(|pattern| pattern.contains('*'));
        let is_set = self.theirs_of(&format!("TYPE {}", words[1])).text() == "set";
        let name = if is_set && !has_order { "SMEMBERS" } else { "SORT" };
        normal(name, ours.clone()) == normal(name, theirs.clone())
    }

    /// Of so many digits that floats of 64 bits and of 80 have other sums.
    fn is_long_number(&mut self, words: &[String]) -> bool {
        let held = match words[0].as_str() {
            "INCRBYFLOAT" => self.theirs_of(&format!("GET {}", words[1])),
            _ => self.theirs_of(&format!("HGET {} {}", words[1], words[2])),
        };
        matches!(held, Resp::Bulk(Some(held)) if held.len() > 12)
    }

    /// What was taken here is taken there.
    fn compare_spop(&mut self, words: &[String]) -> Result<(), String> {
        let key = &words[1];
        let before = self.theirs_of(&format!("SMEMBERS {key}"));
        let ours = self.ours(words);
        let taken: Vec<String> = match &ours {
            Resp::Array(Some(all)) | Resp::Set(all) => all.iter().map(Resp::text).collect(),
            Resp::Bulk(Some(_)) => vec![ours.text()],
            Resp::Bulk(None) | Resp::Null => Vec::new(),
            _ => {
                let theirs = self.theirs(words);
                return if ours == theirs {
                    Ok(())
                } else {
                    Err(format!("{ours:?}, a server answers {theirs:?}"))
                };
            }
        };
        let members: Vec<String> = before.elements().iter().map(Resp::text).collect();
        let asked = words.get(2).map_or(1, |count| count.parse().unwrap_or(usize::MAX));
        let distinct: std::collections::BTreeSet<_> = taken.iter().collect();
        let is_right = taken.iter().all(|member| members.contains(member))
            && distinct.len() == taken.len()
            && taken.len() == asked.min(members.len());
        if !is_right {
            return Err(format!("{taken:?} of {members:?}"));
        }
        if !taken.is_empty() {
            let mut remove = vec!["SREM".to_owned(), key.clone()];
            remove.extend(taken);
            self.theirs(&remove);
        }
        Ok(())
    }

    /// As many, and all are there.
    fn is_as_random(&mut self, key: &str, ours: &Resp, theirs: &Resp) -> bool {
        let there = match self.theirs_of(&format!("TYPE {key}")).text().as_str() {
            "set" => self.theirs_of(&format!("SMEMBERS {key}")),
            "hash" => self.theirs_of(&format!("HGETALL {key}")),
            "zset" => self.theirs_of(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
            _ => return ours == theirs,
        };
        let is_alike = match (ours, theirs) {
            (Resp::Array(Some(ours)), Resp::Array(Some(theirs))) => ours.len() == theirs.len(),
            (Resp::Bulk(Some(_)), Resp::Bulk(Some(_))) => true,
            _ => return ours == theirs,
        };
        let there = there.leaves();
        is_alike && ours.leaves().iter().all(|it| there.contains(it))
    }

    /// What each key holds, and when it expires.
    fn compare_contents(&mut self) -> Result<(), String> {
        for key in KEYS {
            let kind = self.theirs_of(&format!("TYPE {key}")).text();
            let read = match kind.as_str() {
                "string" => format!("GET {key}"),
                "list" => format!("LRANGE {key} 0 -1"),
                "set" => format!("SMEMBERS {key}"),
                "hash" => format!("HGETALL {key}"),
                _ => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            };
            for line in [format!("TYPE {key}"), read, format!("TTL {key}")] {
                let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                self.compare(&words).map_err(|differs| format!("{line}: {differs}"))?;
            }
        }
        Ok(())
    }
}

/// What a server says of numbers, too, that it sorts, where an earlier one was out of range.
fn no_number() -> Resp {
    Resp::Error("ERR One or more scores can't be converted into double".to_owned())
}

/// Without an order where a command has none.
fn normal(name: &str, answer: Resp) -> Resp {
    match (name, answer) {
        ("SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "HKEYS" | "HVALS", Resp::Array(Some(all))) => {
            sorted(all, 1)
        }
        ("HGETALL", Resp::Array(Some(all))) => sorted(all, 2),
        (_, Resp::Map(all)) => Resp::Map(in_order(all, 2)),
        (_, Resp::Set(all)) => Resp::Set(in_order(all, 1)),
        ("HSCAN" | "ZSCAN", Resp::Array(Some(page))) => page_of(page, 2),
        ("SSCAN", Resp::Array(Some(page))) => page_of(page, 1),
        (_, answer) => answer,
    }
}

fn sorted(all: Vec<Resp>, width: usize) -> Resp {
    Resp::Array(Some(in_order(all, width)))
}

fn in_order(all: Vec<Resp>, width: usize) -> Vec<Resp> {
    let mut groups: Vec<Vec<Resp>> = all.chunks(width).map(<[Resp]>::to_vec).collect();
    groups.sort();
    groups.concat()
}

fn page_of(mut page: Vec<Resp>, width: usize) -> Resp {
    if let Some(Resp::Array(Some(all))) = page.pop() {
        page.push(sorted(all, width));
    }
    Resp::Array(Some(page))
}

#[test]
fn answers_are_those_of_a_server() {
    compare_all(SEEDS, COMMANDS, || Host::Memory(Store::in_memory()));
}

#[test]
fn answers_on_a_cluster_are_those_of_a_server() {
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(2, 0).module(module).start().expect("a cluster");
    compare_all(SEEDS, COMMANDS / 4, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let store = runtime.block_on(Store::connect(&cluster.url())).expect("it is there");
        Host::Cluster(store, runtime)
    });
}

/// Draws commands of each seed, and compares what a new host answers with a server's answers.
fn compare_all(seeds: std::ops::Range<u64>, commands: usize, host: impl Fn() -> Host) {
    let _limit = TestLimit::begin();
    let more = std::env::var("CLARET_SEEDS").ok().and_then(|count| count.parse().ok());
    let seeds = more.map_or(seeds, |count| 0..count);
    let server = Server::start().expect("a server");
    let version = server.info("server", "redis_version").expect("it answers").unwrap_or_default();
    let is_new = !version.starts_with("7.0") && !version.starts_with("6.");
    let mut differences: Vec<String> = Vec::new();
    for seed in seeds {
        let connection = TcpStream::connect(server.address()).expect("it answers");
        let mut both = Both { host: host(), commands: 0, protocol: Protocol::Resp2, server: connection };
        if seed % 2 == 1 {
            both.theirs_of("HELLO 3");
            both.protocol = Protocol::Resp3;
        }
        both.begin_again();
        let mut random = StdRng::seed_from_u64(seed);
        let mut done: Vec<String> = Vec::new();
        for step in 0..commands {
            let words = command(&mut random, is_new);
            let line = words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ");
            done.push(line.clone());
            let mut compared = both.compare(&words).map_err(|differs| format!("{line} answers {differs}"));
            if compared.is_ok() && step % COMPARED_EVERY == COMPARED_EVERY - 1 {
                compared = both.compare_contents().map_err(|differs| format!("then {differs}"));
            }
            if let Err(differs) = compared {
                let earlier = earlier(&done, &words);
                differences.push(format!("seed {seed}, step {step}: {differs}\n{earlier}"));
                assert!(differences.len() < DIFFERENCES_SHOWN, "of {version}:\n{}", differences.join("\n\n"));
                both.begin_again();
            }
            if random.random_range(0..400) == 0 {
                both.begin_again();
            }
        }
    }
    assert!(differences.is_empty(), "of {version}:\n{}", differences.join("\n\n"));
}

/// The latest commands on the same keys.
fn earlier(done: &[String], words: &[String]) -> String {
    let keys: Vec<_> = words[1..].iter().filter(|word| KEYS.contains(&word.as_str())).collect();
    let is_on_one = |line: &&String| keys.iter().any(|key| line.contains(key.as_str()));
    let mut all: Vec<_> =
        done.iter().rev().filter(is_on_one).take(12).map(|line| format!("    {line}")).collect();
    all.reverse();
    all.join("\n")
}
