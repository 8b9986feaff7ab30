//! Every operation of every type, on a real server and in memory: answers, errors and what is left agree.
//!
//! Each case begins with one of the type's states, written with plain commands, and goes on with random operations of
//! the type's examples in transactions of one to three, so that operations also meet their own transaction's effects.

use std::time::SystemTime;

use crate::common::{Process, Server, birth, call};
use claret_core::message::{Asks, Call, KeyedCall, Listed, Members, Refusal, Request, Response};
use claret_types::{
    Best, Bounded, BoundedCounter, Bytes, Content, Counter, DataType, Dict, DictOp, DictState, Document,
    DocumentState, Examples, FloatCounter, Issued, KeyspaceOp, List, ListState, Moment, OpError, Operation,
    Ranking, Register, Reply, ScoredSet, Set, SetOp, SetState, State, Summary, SummaryBag, Text, TopK,
    UidGenerator, Unique,
};
use redis::{Cmd, Connection};

/// A small generator: the same cases in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// How a state is written with plain commands.
trait Native: Examples {
    fn write(key: &str, state: &Self::State) -> Vec<Cmd>;
}

fn cmd(name: &str, key: &str) -> Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(key);
    cmd
}

fn text(key: &str, state: &Text) -> Vec<Cmd> {
    state.to_bytes().map(|bytes| cmd("SET", key).arg(&bytes[..]).to_owned()).into_iter().collect()
}

macro_rules! texts {
    ($($kind:ty),*) => {$(
        impl Native for $kind {
            fn write(key: &str, state: &Text) -> Vec<Cmd> {
                text(key, state)
            }
        }
    )*};
}
texts!(Register, Counter, FloatCounter);

impl Native for UidGenerator {
    fn write(key: &str, state: &Issued) -> Vec<Cmd> {
        if state.0 == 0 { Vec::new() } else { vec![cmd("SET", key).arg(state.0).to_owned()] }
    }
}

impl Native for BoundedCounter {
    fn write(key: &str, state: &Option<Bounded>) -> Vec<Cmd> {
        let fields = |it: &Bounded| [("value", it.value), ("min", it.min), ("max", it.max)];
        state.iter().map(|state| cmd("HSET", key).arg(&fields(state)[..]).to_owned()).collect()
    }
}

impl Native for SummaryBag {
    fn write(key: &str, state: &Summary) -> Vec<Cmd> {
        if state.count == 0 {
            return Vec::new();
        }
        let mut write = cmd("HSET", key);
        write.arg("count").arg(state.count);
        for (name, value) in [("sum", state.sum), ("min", state.min), ("max", state.max)] {
            write.arg(name).arg(value.to_string());
        }
        vec![write]
    }
}

/// All that a state holds, as the operation that reads all of it answers.
fn all<T: DataType>(state: &T::State, op: &T::Op) -> Vec<Bytes> {
    let Ok(Reply::Array(items)) = T::execute(state, op, Unique(0)).map(|it| it.reply) else {
        panic!("an array")
    };
    items
        .into_iter()
        .filter_map(|item| if let Reply::Bytes(bytes) = item { Some(bytes) } else { None })
        .collect()
}

impl Native for Set {
    fn write(key: &str, state: &SetState) -> Vec<Cmd> {
        let members = all::<Set>(state, &SetOp::Members);
        members.iter().map(|member| cmd("SADD", key).arg(&member[..]).to_owned()).collect()
    }
}

impl Native for Dict {
    fn write(key: &str, state: &DictState) -> Vec<Cmd> {
        let pairs = all::<Dict>(state, &DictOp::All);
        pairs.chunks(2).map(|pair| cmd("HSET", key).arg(&pair[0][..]).arg(&pair[1][..]).to_owned()).collect()
    }
}

impl Native for Document {
    fn write(key: &str, state: &DocumentState) -> Vec<Cmd> {
        let write = |(field, node): (&Bytes, &claret_types::DocumentNode)| {
            cmd("HSET", key).arg(&field[..]).arg(&node.to_bytes()[..]).to_owned()
        };
        state.fields().map(write).collect()
    }
}

fn ranked(key: &str, ranking: &Ranking) -> Vec<Cmd> {
    ranking
        .iter()
        .map(|(member, score)| cmd("ZADD", key).arg(format!("{score:?}")).arg(&member[..]).to_owned())
        .collect()
}

impl Native for ScoredSet {
    fn write(key: &str, state: &Ranking) -> Vec<Cmd> {
        ranked(key, state)
    }
}

impl Native for TopK {
    fn write(key: &str, state: &Best) -> Vec<Cmd> {
        let mut commands = ranked(key, state.ranking());
        if state.capacity() > 0 {
            commands.push(cmd("SET", &format!("{{{key}}}:k")).arg(state.capacity()).to_owned());
        }
        commands
    }
}

impl Native for List {
    fn write(key: &str, state: &ListState) -> Vec<Cmd> {
        state.iter().map(|value| cmd("RPUSH", key).arg(&value[..]).to_owned()).collect()
    }
}

/// What a transaction answers in memory: the answers of those that return something, or the error; and what is left.
fn in_memory(state: &mut Option<State>, ops: &[Operation]) -> Result<Vec<Reply>, OpError> {
    let mut worked = state.clone();
    let mut replies = Vec::new();
    for op in ops {
        let executed = op.execute(worked.as_ref(), Unique(7))?;
        if op.returns() {
            replies.push(executed.reply);
        }
        if let Some(effect) = executed.effect {
            effect.apply(&mut worked);
        }
    }
    *state = worked;
    Ok(replies)
}

/// The same on the server.
fn on_server(process: &mut Process, key: &str, ops: &[Operation]) -> Result<Vec<Reply>, OpError> {
    let attempt = process.begin();
    let calls = ops.iter().enumerate().map(|(at, op)| {
        let call: Call = call(at as u32 + 1, op.clone());
        KeyedCall { key: Bytes::from(key), call }
    });
    let listed = Listed { shard: process.shard, incarnation: Some(process.incarnation) };
    let prepare = Request::Prepare {
        attempt,
        birth: birth(attempt),
        participants: [listed].into(),
        relies_on: 0,
        calls: calls.collect(),
        members: Members::All,
        asks: Asks::Decision,
        undone: Default::default(),
    };
    match process.frame(&[prepare]).pop() {
        Some(Response::Committed { mut replies, .. }) => {
            replies.sort_by_key(|(no, _)| *no);
            Ok(replies.into_iter().map(|(_, reply)| reply).collect())
        }
        Some(Response::Refused { refusal: Refusal::Operation { error, .. }, .. }) => Err(*error),
        other => panic!("{other:?}"),
    }
}

/// Ids are unique, and so differ.
fn shown(op: &[Operation], result: Result<Vec<Reply>, OpError>) -> Result<Vec<Reply>, String> {
    let result = result.map_err(|error| error.to_string())?;
    let returning = op.iter().filter(|op| op.returns());
    let blind =
        |(op, reply): (&Operation, Reply)| if op.method().name == "UID.NEXT" { Reply::Nil } else { reply };
    Ok(returning.zip(result).map(blind).collect())
}

/// Types whose records are, in Redis, also those of another type: as what they are read back says nothing of them.
const KNOWN_AS_ANOTHER: [&str; 4] =
    [BoundedCounter::NAME, SummaryBag::NAME, UidGenerator::NAME, Document::NAME];

/// What can be done to records of any type, with times that no test sees the end of.
fn on_any<T: Native>() -> Vec<Operation> {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as u64;
    let (early, late) = (Moment::At(now + 1_000_000_000), Moment::At(now + 2_000_000_000));
    let expire = |at, only_later, returning| KeyspaceOp::Expire { at, only_later, returning };
    let mut ops = vec![
        KeyspaceOp::Delete { returning: false },
        KeyspaceOp::Delete { returning: true },
        KeyspaceOp::Exists,
        KeyspaceOp::ExpiryTime,
        KeyspaceOp::Persist { returning: false },
        KeyspaceOp::Persist { returning: true },
        expire(Moment::At(1), false, true),
    ];
    for returning in [false, true] {
        ops.extend([expire(early, false, returning), expire(early, true, returning)]);
        ops.extend([expire(late, false, returning), expire(late, true, returning)]);
    }
    if !KNOWN_AS_ANOTHER.contains(&T::NAME) {
        ops.extend([KeyspaceOp::Content, KeyspaceOp::Digest]);
    }
    if T::NATIVE == "string" && T::NAME != UidGenerator::NAME {
        ops.push(KeyspaceOp::SetUntil { value: "5".into(), at: early });
    }
    let there = T::states().into_iter().filter(|state| !T::is_absent(state));
    let content = |state| Content::of(&State::new::<T>(state)).expect("a small one");
    ops.extend(there.map(|state| KeyspaceOp::Put(content(state))));
    let resolved = |op| {
        let mut op = Operation::from(op);
        op.resolve(|| now);
        op
    };
    ops.into_iter().map(resolved).collect()
}

fn compare<T: Native>(connection: &mut Connection, process: &mut Process, cases: usize) -> usize {
    let own: Vec<Operation> = T::operations().into_iter().map(Operation::new::<T>).collect();
    let both = [&own[..], &on_any::<T>()].concat();
    compare_of::<T>(connection, process, cases, &own) + compare_of::<T>(connection, process, cases, &both)
}

fn compare_of<T: Native>(
    connection: &mut Connection,
    process: &mut Process,
    cases: usize,
    operations: &[Operation],
) -> usize {
    let mut random = Random(T::NAME.len() as u64 * 31);
    let mut compared = 0;
    for (at, start) in T::states().into_iter().enumerate() {
        for case in 0..cases {
            let key = format!("{}:{}:{at}:{case}", T::NAME, operations.len());
            let mut state = (!T::is_absent(&start)).then(|| State::new::<T>(start.clone()));
            for write in T::write(&key, &start) {
                let () = write.query(connection).expect("a plain command");
            }
            let mut told = Vec::new();
            for _ in 0..6 {
                let count = 1 + random.below(3);
                let ops: Vec<Operation> =
                    (0..count).map(|_| operations[random.below(operations.len())].clone()).collect();
                told.push(format!("{ops:?}"));
                let here = shown(&ops, in_memory(&mut state, &ops));
                let there = shown(&ops, on_server(process, &key, &ops));
                assert_eq!(there, here, "{} from {start:?}: {told:#?}", T::NAME);
                compared += count;
            }
        }
    }
    compared
}

/// What the server keeps of any other kind has a digest, too: of what it would dump, and of when it ends.
#[test]
fn whatever_is_no_record_has_a_digest() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 78);
    let mut plain = server.connect();
    let mut digest = |key: &str| match process.commit(key, "keyspace:RECORD.DIGEST").pop() {
        Some(Response::Committed { mut replies, .. }) => match replies.pop() {
            Some((_, Reply::Bytes(digest))) => {
                assert_eq!(digest.len(), 32);
                Some(digest)
            }
            Some((_, Reply::Nil)) => None,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let mut done = |words: &str| {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().expect("a name"));
        let () = command.arg(words.collect::<Vec<_>>()).query(&mut plain).expect("done");
    };
    assert_eq!(digest("s"), None);
    let mut seen = Vec::new();
    for words in ["XADD s 1-1 a b", "XADD s 2-1 a b", "XDEL s 1-1", "PEXPIREAT s 4102444800000", "PERSIST s"]
    {
        done(words);
        let now = digest("s");
        assert!(now.is_some() && digest("s") == now, "{words}");
        seen.push(now);
    }
    assert_eq!(seen[2], seen[4], "as before it had an end");
    seen.truncate(4);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "each change shows");
    // What is no record as well as what is one.
    for (words, key) in [("PFADD log x", "log"), ("SETBIT bits 7 1", "bits"), ("GEOADD geo 1 1 x", "geo")] {
        done(words);
        assert!(digest(key).is_some(), "{words}");
    }
}

#[test]
fn every_type_answers_on_a_server_as_it_does_in_memory() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 77);
    let mut connection = server.connect();
    let (connection, process) = (&mut connection, &mut process);
    let mut compared = 0;
    compared += compare::<Register>(connection, process, 60);
    compared += compare::<Counter>(connection, process, 60);
    compared += compare::<FloatCounter>(connection, process, 60);
    compared += compare::<BoundedCounter>(connection, process, 60);
    compared += compare::<Set>(connection, process, 60);
    compared += compare::<Dict>(connection, process, 60);
    compared += compare::<Document>(connection, process, 60);
    compared += compare::<ScoredSet>(connection, process, 60);
    compared += compare::<TopK>(connection, process, 60);
    compared += compare::<SummaryBag>(connection, process, 60);
    compared += compare::<List>(connection, process, 60);
    compared += compare::<UidGenerator>(connection, process, 60);
    println!("{compared} operations compared");
    assert!(compared > 60_000, "only {compared} operations were compared");
}
