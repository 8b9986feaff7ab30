//! Each command on a store in memory, line by line, with what it answers; and beside a real server.

mod against_server;
mod collections;
mod records;
mod strings;
/// How the gateway writes answers, so that they can be compared with the bytes of a server.
#[path = "../../../gateway/src/resp.rs"]
mod written;

use bytes::BytesMut;
use claret::{Store, Tx};
use claret_commands::{Answer, Command, Fault, Unbounded, Waiting, all, named};
use claret_types::{Bytes, Reply, builtin_types};

use self::written::{Protocol, write};

/// The words of a line; `''` is an empty one.
fn words(line: &str) -> Vec<Bytes> {
    line.split_whitespace()
        .map(|word| if word == "''" { Bytes::default() } else { Bytes::from(word) })
        .collect()
}

fn known(name: &Bytes) -> &'static Command {
    named(name).unwrap_or_else(|| panic!("{name} is no command"))
}

/// Runs a command in a transaction that is open.
async fn run(tx: &Tx, line: &str) -> Result<Answer, Fault> {
    let all = words(line);
    known(&all[0]).run(tx, &Unbounded, &all[1..]).await
}

/// Runs a line as a transaction of its own.
fn answer(store: &Store, line: &str) -> Answer {
    let run = async |tx: Tx| run(&tx, line).await;
    pollster::block_on(store.try_transaction(run)).unwrap_or_else(Answer::from)
}

/// An answer on one line: text as it is, what is none in round brackets.
fn shown(answer: &Answer) -> String {
    let all = |all: &[Answer]| all.iter().map(shown).collect::<Vec<_>>().join(" ");
    match answer {
        Answer::Ok => "OK".to_owned(),
        Answer::Simple(text) => format!("+{text}"),
        Answer::Status(text) => text.clone(),
        Answer::Bool(value) => value.to_string(),
        Answer::Int(number) => format!("({number})"),
        Answer::Bulk(text) if text.is_empty() => "''".to_owned(),
        Answer::Bulk(text) => text.escape_ascii().to_string(),
        Answer::Nil => "(nil)".to_owned(),
        Answer::NilArray => "(no array)".to_owned(),
        Answer::Array(list) => format!("[{}]", all(list)),
        Answer::Map(list) => format!("{{{}}}", all(list)),
        Answer::Set(list) => format!("<{}>", all(list)),
        Answer::Pairs(list) => format!("pairs[{}]", all(list)),
        Answer::Double(value) => format!("({value:?})"),
        Answer::Score(value) => value.to_string(),
        Answer::Verbatim(text) => format!("text {text}"),
        Answer::Error(text) => text.clone(),
        Answer::Raw(_) => "raw".to_owned(),
    }
}

/// Lines with what they answer, behind an arrow.
fn script(store: &Store, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" -> ").unwrap_or((line, "OK"));
        assert_eq!(shown(&answer(store, command)), expected.trim(), "{command}");
    }
}

/// The commands of servers that are carried out here.
fn commands() -> impl Iterator<Item = &'static Command> {
    all().iter().filter(|command| command.way.is_transactional() && !command.is_own)
}

#[test]
fn every_command_has_a_line_here() {
    let lines = [include_str!("strings.rs"), include_str!("collections.rs"), include_str!("records.rs")];
    let is_there = |name: &str| lines.iter().any(|text| text.contains(&format!("\n        {name} ")));
    let missing: Vec<_> = commands().map(|command| command.name).filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What a transaction did before is seen by what comes later in it.
#[test]
fn commands_see_what_came_before_in_their_transaction() {
    let store = Store::in_memory();
    let lines = [
        ("SET a 1", "OK"),
        ("INCR a", "(2)"),
        ("RPUSH l x y z", "(3)"),
        ("LSET l 1 Y", "OK"),
        ("LRANGE l 0 -1", "[x Y z]"),
        ("SADD s a b", "(2)"),
        ("SINTERSTORE t s s", "(2)"),
        ("SMEMBERS t", "<a b>"),
        ("SET t now", "OK"),
        ("GET t", "now"),
        ("APPEND t here", "(7)"),
        ("ZADD z 1 a 2 b", "(2)"),
        ("ZPOPMIN z", "[a (1.0)]"),
        ("ZCARD z", "(1)"),
        ("DEL a t", "(2)"),
        ("EXISTS a t l", "(1)"),
    ];
    let run = async |tx: Tx| -> Result<(), Fault> {
        for (line, expected) in lines {
            assert_eq!(shown(&run(&tx, line).await?), expected, "{line}");
        }
        Ok(())
    };
    pollster::block_on(store.try_transaction(run)).expect("it commits");
    script(&store, "LRANGE l 0 -1 -> [x Y z]\n EXISTS t -> (0)");
}

/// A command that cannot be done leaves nothing of its transaction.
#[test]
fn what_cannot_be_done_undoes_its_transaction() {
    let store = Store::in_memory();
    script(&store, "RPUSH l x -> (1)");
    let run = async |tx: Tx| {
        run(&tx, "SET k v").await?;
        run(&tx, "INCR l").await
    };
    let error = pollster::block_on(store.try_transaction(run)).expect_err("a list is no number");
    assert_eq!(error.text(), "WRONGTYPE Operation against a key holding the wrong kind of value");
    script(&store, "GET k -> (nil)");
}

/// Operations that are known up front commit as a batch, with the same answer.
#[test]
fn calls_are_the_same_in_a_batch() {
    let (one, other) = (Store::in_memory(), Store::in_memory());
    for line in [
        "SET k v",
        "GET k",
        "SET k 5",
        "INCR k",
        "INCRBYFLOAT k 0.5",
        "APPEND k x",
        "GETDEL k",
        "GET k",
        "SETNX k 1",
        "SETNX k 2",
        "RPUSH l a b c",
        "SETNX l 2",
        "MGET k l nothing",
        "LPOP l",
        "LRANGE l 0 -1",
        "LINDEX l 5",
        "HSET h a 1 b 2",
        "HGETALL h",
        "HVALS h",
        "HSTRLEN h a",
        "HSTRLEN h zz",
        "HMGET h a x",
        "SADD s a b a",
        "SMEMBERS s",
        "SMISMEMBER s a x",
        "ZADD z 1 a 2.5 b",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZSCORE z b",
        "ZSCORE z x",
        "ZMSCORE z a x",
        "ZINCRBY z 1 a",
        "EXPIRE k 100",
        "TTL k",
        "PERSIST k",
        "TTL k",
        "EXISTS k l l nothing",
        "DEL k l nothing",
        "MSET a 1 b 2",
        "SET s over",
        "SETEX s 100 v",
        "TTL s",
        "GETSET s w",
        "HINCRBY h a 5",
        "BCREATE stock 5 0 10",
        "BDECRBY.RETURNING stock 1",
    ] {
        let all = words(line);
        let calls = known(&all[0]).calls(&all[1..]);
        let calls = calls.unwrap_or_else(|| panic!("{line} is not known up front")).expect("good words");
        let batch = one.batch();
        calls.all().iter().for_each(|(key, op)| {
            let _ = batch.push::<Reply>(key.clone(), op.clone());
        });
        let replies = pollster::block_on(batch.commit()).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(calls.answer(replies.into_inner()), answer(&other, line), "{line}");
    }
}

/// A command alone answers as it does in a transaction. `HINCRBY` of a field that is no number said there what `INCR` says.
#[test]
fn commands_alone_are_the_same_as_in_a_transaction() {
    let (one, other) = (Store::in_memory(), Store::in_memory());
    for line in [
        "SET k v",
        "GETRANGE k 0 -1",
        "INCR k",
        "HSET h t text",
        "HINCRBY h t 1",
        "HINCRBY k t 1",
        "LPUSH l a b",
        "LPOP l 5",
        "ZADD z NX 1 a",
        "BCREATE stock 5 0 10",
        "XADD s * a 1",
    ] {
        let all = words(line);
        let alone = pollster::block_on(known(&all[0]).alone(&one, &Unbounded, &all[1..]));
        assert_eq!(alone.unwrap_or_else(Answer::from), answer(&other, line), "{line}");
    }
    assert_eq!(shown(&answer(&other, "HINCRBY h t 1")), "ERR hash value is not an integer");
}

/// What RESP2 has no form for.
#[test]
fn pairs_and_doubles_have_a_form_in_each_protocol() {
    let store = Store::in_memory();
    script(&store, "ZADD z 1.5 a -> (1)");
    let written = |protocol| {
        let mut out = BytesMut::new();
        write(&answer(&store, "ZRANGE z 0 -1 WITHSCORES"), &mut out, protocol);
        String::from_utf8(out.to_vec()).expect("text")
    };
    assert_eq!(written(Protocol::Resp2), "*2\r\n$1\r\na\r\n$3\r\n1.5\r\n");
    assert_eq!(written(Protocol::Resp3), "*1\r\n*2\r\n$1\r\na\r\n,1.5\r\n");
}

/// Operations of Claret's by their own names, and no command of a server's by accident.
#[test]
fn operations_have_their_own_names() {
    for kind in builtin_types() {
        for method in kind.methods {
            let command = named(method.name.as_bytes());
            let is_known = command.is_some_and(|command| command.way.is_transactional());
            assert!(is_known, "{} of {}", method.name, kind.name);
        }
    }
    for name in ["XADD", "GEOADD", "SUBSCRIBE"] {
        let command = named(name.as_bytes()).expect("a command");
        assert!(!command.way.is_transactional() && !command.is_own, "{name}");
    }
}

/// Too few words, or too many, are told, whoever has checked them before.
#[test]
fn no_count_of_words_is_too_much() {
    let store = Store::in_memory();
    for command in all().iter().filter(|command| command.way.is_transactional()) {
        for count in 0..6 {
            let all = vec![Bytes::from("1"); count];
            let run = async |tx: Tx| command.run(&tx, &Unbounded, &all).await;
            // Whatever it answers, it answers.
            let _ = pollster::block_on(store.try_transaction(run));
        }
    }
}

/// Whoever waits for a command keeps no room for the largest one.
#[test]
fn a_command_under_way_is_small() {
    let store = Store::in_memory();
    let size = |tx: Tx| async move {
        let (get, all) = (named(b"GET").expect("a command"), words("k"));
        Ok::<_, Fault>(size_of_val(&get.run(&tx, &Unbounded, &all)))
    };
    let size = pollster::block_on(store.try_transaction(size)).expect("it commits");
    assert!(size < 2048, "{size} bytes");
}

/// Commands of several steps side by side: what moves is never twice there, and never lost.
#[test]
fn steps_of_one_command_are_not_seen_by_another() {
    let store = Store::in_memory();
    script(&store, "RPUSH a 1 2 3 4 5 -> (5)\n SADD c 1 2 3 4 5 -> (5)\n SET n 0");
    let lines = [
        "RPOPLPUSH a b",
        "RPOPLPUSH b a",
        "LMOVE a b LEFT LEFT",
        "SMOVE c d 1",
        "SMOVE d c 1",
        "SMOVE c d 2",
        "SMOVE d c 2",
        "SETRANGE n 1 x",
        "LSET a 0 9",
        "SORT a STORE e",
        "SUNIONSTORE f c d",
        "ZUNIONSTORE g 2 c d",
    ];
    std::thread::scope(|scope| {
        for of in 0..4 {
            let store = &store;
            scope.spawn(move || {
                (0..300).for_each(|at| drop(answer(store, lines[(at * 7 + of * 5) % lines.len()])))
            });
        }
    });
    let counts = |store: &Store, keys: [&str; 2], count: &str| {
        let of = |key: &str| match answer(store, &format!("{count} {key}")) {
            Answer::Int(number) => number,
            other => panic!("{other:?}"),
        };
        keys.map(of).iter().sum::<i64>()
    };
    assert_eq!(counts(&store, ["a", "b"], "LLEN"), 5);
    assert_eq!(counts(&store, ["c", "d"], "SCARD"), 5);
    script(&store, "SUNIONSTORE all c d -> (5)");
}

/// Where a schema allows no set, a key's type is told all the same.
#[test]
fn a_schema_stands_in_no_question() {
    let schema = claret::Schema::new().prefix("cart:", claret::types::TypeName::Dict).expect("a prefix");
    let store = Store::builder().schema(schema).build();
    script(
        &store,
        "
        TYPE cart:1 -> +none
        HSET cart:1 a 1 -> (1)
        TYPE cart:1 -> +hash
        SORT cart:1 -> WRONGTYPE Operation against a key holding the wrong kind of value
        ",
    );
    for line in ["SET cart:1 v", "MGET cart:1", "SADD cart:1 v"] {
        let told = shown(&answer(&store, line));
        assert!(told.contains("breaks the schema"), "{line}: {told}");
    }
}
