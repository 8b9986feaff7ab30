//! Every operation of every type, on a real server and in memory: answers, errors and what is left agree.
//!
//! Each case begins with one of the type's states, written with plain commands, and goes on with random operations of
//! the type's examples in transactions of one to three, so that operations also meet their own transaction's effects.

use std::time::SystemTime;

use crate::common::{Process, Server, birth, call};
use claret_core::message::{Asks, Call, KeyedCall, Listed, Members, Refusal, Request, Response};
use claret_types::{
    BuiltIn, Bytes, Content, DataType, Dict, KeyspaceOp, List, Moment, Native, OpError, Operation, Register,
    Reply, ScoredSet, Set, State, TopK, Unique, with_types,
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

/// The plain commands that write a state, as its type says that a server keeps it.
fn written<T: BuiltIn>(key: &str, content: &T::State) -> Vec<Cmd> {
    let cmd = |name: &str, words: &[&[u8]]| redis::cmd(name).arg(key).arg(words).to_owned();
    let mut commands: Vec<Cmd> = match T::native(content) {
        Native::String(text) => text.iter().map(|text| cmd("SET", &[text])).collect(),
        Native::List(values) => values.iter().map(|value| cmd("RPUSH", &[value])).collect(),
        Native::Set(members) => members.iter().map(|member| cmd("SADD", &[member])).collect(),
        Native::Hash(fields) => fields.iter().map(|(field, value)| cmd("HSET", &[field, value])).collect(),
        Native::Zset(members) => members
            .iter()
            .map(|(member, score)| cmd("ZADD", &[format!("{score:?}").as_bytes(), member]))
            .collect(),
    };
    if let Some(best) = State::new::<T>(content.clone()).downcast::<TopK>()
        && best.capacity() > 0
    {
        commands.push(redis::cmd("SET").arg(format!("{{{key}}}:k")).arg(best.capacity()).to_owned());
    }
    commands
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

/// Whether what its records are in Redis is read back as this type, and not as another one.
fn is_read_back<T: BuiltIn>() -> bool {
    let read_back = [Register::NAME, Set::NAME, Dict::NAME, ScoredSet::NAME, TopK::NAME, List::NAME];
    read_back.contains(&T::DESCRIBED_AS)
}

/// What can be done to records of any type, with times that no test sees the end of.
fn on_any<T: BuiltIn>() -> Vec<Operation> {
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
    if is_read_back::<T>() {
        ops.extend([KeyspaceOp::Content, KeyspaceOp::Digest]);
    }
    if T::DESCRIBED_AS == Register::NAME {
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

fn compare<T: BuiltIn>(connection: &mut Connection, process: &mut Process, cases: usize) -> usize {
    let own: Vec<Operation> = T::operations().into_iter().map(Operation::new::<T>).collect();
    let both = [&own[..], &on_any::<T>()].concat();
    compare_of::<T>(connection, process, cases, &own) + compare_of::<T>(connection, process, cases, &both)
}

fn compare_of<T: BuiltIn>(
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
            for write in written::<T>(&key, &start) {
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
    macro_rules! each {
        ($($place:literal $type:ident),* $(,)?) => {
            $(compared += compare::<claret_types::$type>(connection, process, 60);)*
        };
    }
    with_types!(each);
    println!("{compared} operations compared");
    assert!(compared > 60_000, "only {compared} operations were compared");
}
