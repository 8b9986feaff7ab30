//! One suite for both hosts: the same random transactions, interactive and all at once, on a store in the process and on
//! a cluster. They answer the same, operation by operation, and in the end plain Redis commands read the same content.
//! Closures pause between their calls; `strikes.rs` says what must hold where their attempts are ended meanwhile.
//!
//! `CLARET_CASES` says how many seeds (default 6), `CLARET_SEED` which is the first (default 1). A failure prints the
//! seed and all that was done on the records of its last transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use claret::types::{BuiltIn, DataType, Examples, Native, UidGenerator, builtin_examples, with_types};
use claret::{Abort, Batch, Bytes, Error, Operation, Reply, Store};
use claret_redis::{Builder, Cluster, Command};

use super::rig::{all_ordered, shared};

/// A small generator: the same cases in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    /// Between two calls of a closure: mostly none.
    pub(crate) fn pause(&mut self) -> Duration {
        let pauses = self.below(8) == 0;
        Duration::from_millis(if pauses { 1 + self.below(4) as u64 } else { 0 })
    }
}

/// Operations that may meet on one record: those of the types that share it.
struct Family {
    name: &'static str,
    operations: Vec<Operation>,
    /// What a record in the process is, as a server would keep it; `None` if there is none.
    content: fn(&Store, &str) -> Option<Native>,
    /// The plain command that reads all of it, and what it makes of the words of the answer.
    read: &'static [&'static str],
    of_words: OfWords,
}

type OfWords = fn(Vec<Bytes>) -> Native;

impl Family {
    fn of<T: BuiltIn>() -> Self {
        let content = |store: &Store, key: &str| {
            let held = store.peek::<T>(key).expect("in this process").filter(|state| !T::is_absent(state));
            held.map(|state| in_order(T::native(&state)))
        };
        let (read, of_words): (&[&str], OfWords) = match T::NATIVE {
            "string" => (&["GET"], |words| Native::String(words.into_iter().next())),
            "list" => (&["LRANGE", "0", "-1"], Native::List),
            "set" => (&["SMEMBERS"], Native::Set),
            "hash" => (&["HGETALL"], |words| Native::Hash(pairs(&words))),
            "zset" => (&["ZRANGE", "0", "-1", "WITHSCORES"], |words| {
                Native::Zset(
                    pairs(&words).into_iter().map(|(member, value)| (member, score(&value))).collect(),
                )
            }),
            other => panic!("no plain command reads a {other}"),
        };
        Family { name: T::DESCRIBED_AS, operations: Vec::new(), content, read, of_words }
    }

    fn add<T: Examples>(&mut self) {
        self.operations.extend(T::operations().into_iter().map(Operation::new::<T>));
    }
}

fn bytes(reply: Reply) -> Bytes {
    match reply {
        Reply::Bytes(bytes) => bytes,
        Reply::Int(number) => number.to_string().into(),
        Reply::Float(number) => format!("{number:?}").into(),
        Reply::Ok | Reply::Nil | Reply::Array(_) | Reply::Failed(_) => panic!("a word, not {reply}"),
    }
}

fn pairs(words: &[Bytes]) -> Vec<(Bytes, Bytes)> {
    words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn score(text: &Bytes) -> f64 {
    text.as_str().and_then(|text| text.parse().ok()).expect("a number")
}

/// Where Redis promises no order, in one.
fn in_order(mut content: Native) -> Native {
    match &mut content {
        Native::Set(members) => members.sort_unstable(),
        Native::Hash(fields) => fields.sort_unstable(),
        Native::String(_) | Native::List(_) | Native::Zset(_) => {}
    }
    content
}

fn families() -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    fn add<T: BuiltIn>(families: &mut Vec<Family>) {
        match families.iter_mut().find(|family| family.name == T::DESCRIBED_AS) {
            Some(family) => family.add::<T>(),
            None => {
                families.push(Family::of::<T>());
                add::<T>(families);
            }
        }
    }
    macro_rules! each {
        ($($place:literal $type:ident),* $(,)?) => { $(add::<claret::types::$type>(&mut families);)* };
    }
    with_types!(each);
    families
}

/// What a plain command reads; `None` if there is nothing.
async fn plain_content(plain: &Cluster, family: &Family, key: &str) -> Option<Native> {
    let command = Command::new(family.read[0]).key(key);
    let command = family.read[1..].iter().fold(command, |command, word| command.arg(*word));
    let reply = plain.ask(command).await.expect("read");
    let mut words = Vec::new();
    flatten(reply, &mut words);
    (!words.is_empty()).then(|| in_order((family.of_words)(words)))
}

fn flatten(reply: Reply, words: &mut Vec<Bytes>) {
    match reply {
        Reply::Array(items) => items.into_iter().for_each(|item| flatten(item, words)),
        Reply::Nil => {}
        other => words.push(bytes(other)),
    }
}

/// How a transaction is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// All at once; answers come with the commit.
    Batch,
    /// One by one; those that answer nothing go with the commit.
    Interactive,
    /// One by one, and in the end the closure thinks better of it.
    Abandoned,
}

type Calls = Vec<(String, Operation)>;

/// `pauses`: of the closure, after each call.
async fn run(
    store: &Store,
    manner: Manner,
    calls: &Calls,
    pauses: &[Duration],
) -> Result<Vec<Reply>, String> {
    let ended = match manner {
        Manner::Batch => {
            let batch: Batch = store.batch();
            for (key, op) in calls {
                // All answers are taken together.
                let _ = batch.push::<Reply>(key.as_str(), op.clone());
            }
            batch.commit().await.map(claret::Replies::into_inner)
        }
        Manner::Interactive | Manner::Abandoned => {
            let all = store.transaction(|tx| async move {
                let mut replies = Vec::new();
                for ((key, op), pause) in calls.iter().zip(pauses) {
                    if op.returns() {
                        replies.push(tx.execute(key.as_str(), op.clone()).await?);
                    } else {
                        tx.issue(key.as_str(), op.clone())?;
                    }
                    if !pause.is_zero() {
                        tokio::time::sleep(*pause).await;
                    }
                }
                match manner {
                    Manner::Abandoned => Err(Abort::because(format!("{replies:?}"))),
                    Manner::Batch | Manner::Interactive => Ok(replies),
                }
            });
            all.await
        }
    };
    ended.map_err(|error: Error| error.to_string())
}

/// Ids are unique, and so differ; and Redis knows a record's native type alone.
fn blind(calls: &Calls, replies: Result<Vec<Reply>, String>) -> Result<Vec<Reply>, String> {
    let has_ids = calls.iter().any(|(_, op)| op.method().name == "UID.NEXT");
    match replies {
        Ok(replies) if has_ids => Ok(replies.iter().map(|_| Reply::Nil).collect()),
        Err(error) if has_ids && error.contains("aborted by") => Err("aborted".into()),
        Err(error) => match error.find(" WRONGTYPE ") {
            Some(at) => Err(error[..at].to_owned() + " WRONGTYPE"),
            None => Err(error),
        },
        other => other,
    }
}

/// Where several operations cannot be done, that of any shard may be named.
fn differ_in_key(here: &Result<Vec<Reply>, String>, there: &Result<Vec<Reply>, String>) -> bool {
    let key = |error: &str| Some(error.strip_prefix("key '")?.split_once("': ")?.0.to_owned());
    let (Err(here), Err(there)) = (here, there) else { return false };
    matches!((key(here), key(there)), (Some(here), Some(there)) if here != there)
}

#[derive(Debug, Default)]
struct Counted {
    transactions: usize,
    operations: usize,
    refused: usize,
    records: usize,
    /// Types of which something was done.
    types: BTreeSet<&'static str>,
}

const TRANSACTIONS: usize = 300;
/// Records of each family: few, so that operations meet.
const RECORDS: usize = 3;

async fn compare(seed: u64, embedded: &Store, cluster: &Store, plain: &Cluster, counted: &mut Counted) {
    let families = families();
    let mut random = Random(seed);
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..TRANSACTIONS {
        let manner = match random.below(8) {
            0..4 => Manner::Batch,
            4..7 => Manner::Interactive,
            _ => Manner::Abandoned,
        };
        let draw = |random: &mut Random| {
            let family = &families[random.below(families.len())];
            let op = family.operations[random.below(family.operations.len())].clone();
            // Now and then on another type's record: of those types that alone are what they are in Redis.
            let strays = matches!(family.name, "set" | "list") && random.below(8) == 0;
            let owner = if strays { &families[random.below(families.len())] } else { family };
            let name = owner.name;
            (format!("{seed}:{name}{}", random.below(RECORDS)), op)
        };
        let calls: Calls = (0..=random.below(5)).map(|_| draw(&mut random)).collect();
        let pauses: Vec<Duration> = calls.iter().map(|_| random.pause()).collect();
        for (key, op) in &calls {
            told.entry(key.clone()).or_default().push(format!("{manner:?} {op:?}"));
        }
        let here = blind(&calls, run(embedded, manner, &calls, &pauses).await);
        let there = blind(&calls, run(cluster, manner, &calls, &pauses).await);
        let history =
            || calls.iter().map(|(key, _)| format!("{key}: {:#?}", told[key])).collect::<Vec<_>>().join("\n");
        if !differ_in_key(&here, &there) {
            assert_eq!(there, here, "seed {seed}: {manner:?} {calls:#?}\n{}", history());
        }
        counted.transactions += 1;
        counted.operations += calls.len();
        counted.types.extend(calls.iter().map(|(_, op)| op.type_info().name));
        counted.refused += usize::from(here.is_err_and(|error| !error.contains("aborted")));
    }
    for family in &families {
        for number in 0..RECORDS {
            let key = format!("{seed}:{}{number}", family.name);
            // Another family's operation may have made it.
            let made = embedded.type_of(key.as_str()).expect("in this process");
            let is_of =
                |family: &&Family| family.operations.iter().any(|op| Some(op.type_info().name) == made);
            let family = families.iter().find(is_of).unwrap_or(family);
            // Numbers are unique, and so differ.
            if family.name != UidGenerator::NAME {
                let here = (family.content)(embedded, &key);
                let there = plain_content(plain, family, &key).await;
                assert_eq!(there, here, "seed {seed}, '{key}': {:#?}", told.get(&key));
            }
            counted.records += 1;
        }
    }
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect(name))
}

#[tokio::test]
async fn both_hosts_answer_the_same_and_plain_reads_find_the_same() {
    let _limit = super::limit::of_test();
    same_on(shared()).await;
}

#[tokio::test]
async fn both_hosts_answer_the_same_where_all_is_ordered() {
    let _limit = super::limit::of_test();
    same_on(all_ordered()).await;
}

async fn same_on(cluster: &claret_rig::Cluster) {
    let embedded = Store::in_memory();
    let plain = Builder::new(cluster.url()).connect().await.expect("plain commands");
    let cluster = Store::connect(cluster.url()).await.expect("a store");
    let mut counted = Counted::default();
    let (first, cases) = (number("CLARET_SEED", 1), number("CLARET_CASES", 6));
    for seed in first..first + cases {
        compare(seed, &embedded, &cluster, &plain, &mut counted).await;
    }
    println!("{counted:?}");
    let is_missing = |name: &&str| !counted.types.contains(name);
    let missing: Vec<_> = builtin_examples().map(|(kind, _)| kind.name).filter(is_missing).collect();
    assert!(missing.is_empty(), "nothing was done with {missing:?}");
    assert!(counted.refused > 0 && counted.refused < counted.transactions / 2, "{counted:?}");
    cluster.close().await.expect("it closes");
}
