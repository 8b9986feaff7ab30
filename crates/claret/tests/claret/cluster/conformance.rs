//! One suite for both hosts: the same random transactions, interactive and all at once, on a store in the process and on
//! a cluster. They answer the same, operation by operation, and in the end plain Redis commands read the same content.
//! Closures pause between their calls; `strikes.rs` says what must hold where their attempts are ended meanwhile.
//!
//! `CLARET_CASES` says how many seeds (default 6), `CLARET_SEED` which is the first (default 1). A failure prints the
//! seed and all that was done on the records of its last transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use claret::types::{
    Bounded, BoundedCounter, Counter, DataType, Dict, DictOp, Document, Examples, FloatCounter, List, ListOp,
    Ranking, Register, RegisterOp, ScoredSet, Set, SetOp, SummaryBag, TopK, UidGenerator,
};
use claret::{Abort, Batch, Bytes, Error, Operation, Reply, Store};
use claret_redis::{Builder, Cluster, Command};

use super::rig::shared;

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

/// Operations that may meet on one record.
struct Family {
    name: &'static str,
    operations: Vec<Operation>,
    /// The type's, for the operation that reads all of a record.
    content: fn(&Store, &str) -> Content,
    /// The same by a plain command.
    read: &'static [&'static str],
}

impl Family {
    fn new(
        name: &'static str,
        operations: Vec<Operation>,
        content: fn(&Store, &str) -> Content,
        read: &'static [&'static str],
    ) -> Self {
        Family { name, operations, content, read }
    }
}

/// What a record holds, as a plain command shows it; in no order where Redis promises none.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    Text(Option<Bytes>),
    Listed(Vec<Bytes>),
    Unordered(Vec<Bytes>),
    Pairs(BTreeMap<Bytes, Bytes>),
    Numbers(BTreeMap<Bytes, f64>),
    /// Ids are unique, and so differ.
    Ids,
}

fn operations<T: Examples>() -> Vec<Operation> {
    T::operations().into_iter().map(Operation::new::<T>).collect()
}

/// What an operation that reads everything answers of a record in the process.
fn shown<T: DataType>(store: &Store, key: &str, op: T::Op) -> Vec<Bytes> {
    let read = store.run_all([(Bytes::from(key), Operation::new::<T>(op))]);
    let reply = pollster(read).expect("read").pop().expect("one reply");
    match reply {
        Reply::Array(items) => items.into_iter().map(bytes).collect(),
        Reply::Nil => Vec::new(),
        other => vec![bytes(other)],
    }
}

/// In the process a future is ready when it is first asked, as long as nobody holds a lock.
fn pollster<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("nobody holds a lock"),
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

fn pairs(words: Vec<Bytes>) -> BTreeMap<Bytes, Bytes> {
    words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn numbers(words: Vec<Bytes>) -> BTreeMap<Bytes, f64> {
    let number = |text: Bytes| text.as_str().and_then(|text| text.parse().ok()).expect("a number");
    pairs(words).into_iter().map(|(name, value)| (name, number(value))).collect()
}

fn bounded(store: &Store, key: &str) -> Content {
    let held = store.peek::<BoundedCounter>(key).expect("in this process").flatten();
    let fields = |it: Bounded| [("value", it.value), ("min", it.min), ("max", it.max)];
    let words = held.into_iter().flat_map(fields).map(|(name, value)| (name.into(), value as f64));
    Content::Numbers(words.collect())
}

fn bag(store: &Store, key: &str) -> Content {
    let Some(held) = store.peek::<SummaryBag>(key).expect("in this process").filter(|it| it.count > 0) else {
        return Content::Numbers(BTreeMap::new());
    };
    let fields = [("count", held.count as f64), ("sum", held.sum), ("min", held.min), ("max", held.max)];
    Content::Numbers(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn ranked(ranking: &Ranking) -> Content {
    Content::Numbers(ranking.iter().map(|(member, score)| (member.clone(), score)).collect())
}

fn families() -> Vec<Family> {
    let mut texts = operations::<Register>();
    texts.extend(operations::<Counter>());
    texts.extend(operations::<FloatCounter>());
    let text = |store: &Store, key: &str| {
        Content::Text(shown::<Register>(store, key, RegisterOp::Get).into_iter().next())
    };
    let scored = |store: &Store, key: &str| {
        ranked(&store.peek::<ScoredSet>(key).expect("in this process").unwrap_or_default())
    };
    let top = |store: &Store, key: &str| {
        ranked(store.peek::<TopK>(key).expect("in this process").unwrap_or_default().ranking())
    };
    let set = |store: &Store, key: &str| unordered(shown::<Set>(store, key, SetOp::Members));
    let dict = |store: &Store, key: &str| Content::Pairs(pairs(shown::<Dict>(store, key, DictOp::All)));
    let document = |store: &Store, key: &str| {
        let held = store.peek::<Document>(key).expect("in this process").unwrap_or_default();
        Content::Pairs(held.fields().map(|(field, node)| (field.clone(), node.to_bytes())).collect())
    };
    let list = |store: &Store, key: &str| {
        Content::Listed(shown::<List>(store, key, ListOp::Range { start: 0, stop: -1 }))
    };
    let ranks: &[&str] = &["ZRANGE", "0", "-1", "WITHSCORES"];
    vec![
        Family::new("text", texts, text, &["GET"]),
        Family::new("bounded", operations::<BoundedCounter>(), bounded, &["HGETALL"]),
        Family::new("bag", operations::<SummaryBag>(), bag, &["HGETALL"]),
        Family::new("set", operations::<Set>(), set, &["SMEMBERS"]),
        Family::new("dict", operations::<Dict>(), dict, &["HGETALL"]),
        Family::new("document", operations::<Document>(), document, &["HGETALL"]),
        Family::new("scored", operations::<ScoredSet>(), scored, ranks),
        Family::new("top", operations::<TopK>(), top, ranks),
        Family::new("list", operations::<List>(), list, &["LRANGE", "0", "-1"]),
        Family::new("uid", operations::<UidGenerator>(), |_, _| Content::Ids, &["GET"]),
    ]
}

fn unordered(mut words: Vec<Bytes>) -> Content {
    words.sort_unstable();
    Content::Unordered(words)
}

/// What a plain command reads, in the manner of what is expected.
async fn plain_content(plain: &Cluster, family: &Family, key: &str, like: &Content) -> Content {
    let command = Command::new(family.read[0]).key(key);
    let command = family.read[1..].iter().fold(command, |command, word| command.arg(*word));
    let reply = plain.ask(command).await.expect("read");
    let mut words = Vec::new();
    flatten(reply, &mut words);
    match like {
        Content::Text(_) => Content::Text(words.into_iter().next()),
        Content::Listed(_) => Content::Listed(words),
        Content::Unordered(_) => unordered(words),
        Content::Pairs(_) => Content::Pairs(pairs(words)),
        Content::Numbers(_) => Content::Numbers(numbers(words)),
        Content::Ids => Content::Ids,
    }
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
            let here = (family.content)(embedded, &key);
            let there = plain_content(plain, family, &key, &here).await;
            assert_eq!(there, here, "seed {seed}, '{key}': {:#?}", told.get(&key));
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
    let embedded = Store::in_memory();
    let cluster = Store::connect(shared().url()).await.expect("a store");
    let plain = Builder::new(shared().url()).connect().await.expect("plain commands");
    let mut counted = Counted::default();
    let (first, cases) = (number("CLARET_SEED", 1), number("CLARET_CASES", 6));
    for seed in first..first + cases {
        compare(seed, &embedded, &cluster, &plain, &mut counted).await;
    }
    println!("{counted:?}");
    assert!(counted.refused > 0 && counted.refused < counted.transactions / 2, "{counted:?}");
    cluster.close().await.expect("it closes");
}
