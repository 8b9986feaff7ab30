//! Plain commands, and mode `none`.

use claret::cluster::{Command, PlainError};
use claret::{
    Bytes, Error, OpError, Operation, Records, Reply, Store,
    errors::ExecuteError,
    lab::{Mode, StoreLab},
};
use claret_types::BUILTIN;

use super::rig::{fresh, keys, prefix, shared};

#[tokio::test]
async fn commands_go_to_their_keys_and_replies_come_in_order() {
    let _limit = super::limit::of_test();
    let plain = Store::cluster(shared().url()).connect_plain().await.expect("connected");
    assert_eq!(plain.nodes().len(), 4);
    let keys = keys(shared());
    let writes = (0..100).map(|number| Command::new("INCRBY").key(&keys[number % 4]).arg(number.to_string()));
    let replies = plain.run(writes.collect()).await;
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    let reads = keys.iter().map(|key| Command::new("GET").key(key)).collect();
    let sums: Vec<Reply> = plain.run(reads).await.into_iter().map(|reply| reply.expect("read")).collect();
    let expected: Vec<Reply> =
        (0..4).map(|first| Reply::Bytes((first..100).step_by(4).sum::<usize>().to_string().into())).collect();
    assert_eq!(sums, expected);
    let error = plain.ask(Command::new("LPUSH").key(&keys[0]).arg("x")).await.expect_err("no list");
    assert!(matches!(&error, PlainError::Server(error) if error.code() == "WRONGTYPE"), "{error}");
    let node = &plain.nodes()[2];
    assert_eq!(plain.ask_at(node, Command::new("PING")).await, Ok(Reply::Bytes("PONG".into())));
    let error = plain.ask_at("h:1", Command::new("PING")).await.expect_err("no such node");
    assert!(matches!(error, PlainError::NoSuchNode(_)), "{error}");
}

#[tokio::test]
async fn watch_has_a_connection_of_its_own() {
    let _limit = super::limit::of_test();
    let plain = Store::cluster(shared().url()).connect_plain().await.expect("connected");
    let key = prefix();
    let mut own = plain.dedicated(&key).await.expect("connected");
    assert_eq!(own.ask(&Command::new("WATCH").key(&key)).await, Ok(Reply::Ok));
    plain.ask(Command::new("SET").key(&key).arg("theirs")).await.expect("set");
    let mine = [Command::new("MULTI"), Command::new("SET").key(&key).arg("mine"), Command::new("EXEC")];
    let replies = own.run(&mine).await.expect("replies");
    assert_eq!(replies[2], Ok(Reply::Nil), "the other one was first");
}

/// Whoever looks at a cluster that is not well talks to those who answer.
#[tokio::test]
async fn one_node_is_asked_whatever_the_others_do() {
    let _limit = super::limit::of_test();
    let mut cluster = fresh(2);
    let url = cluster.url();
    let builder = || Store::cluster(url.as_str());
    let mut first = builder().dedicated(None).await.expect("connected");
    let nodes = first.nodes().await.expect("a topology");
    assert!(nodes.len() == 2 && nodes.contains(&first.node()), "{nodes:?}");
    let other = nodes.iter().find(|node| **node != first.node()).expect("the other").clone();
    let mut second = builder().dedicated(Some(&other)).await.expect("connected");
    assert_eq!((second.node(), second.nodes().await), (other.clone(), Ok(nodes.clone())));
    assert_eq!(second.ask(&Command::new("PING")).await, Ok(Reply::Bytes("PONG".into())));
    let error = builder().dedicated(Some("nowhere")).await.expect_err("no address").to_string();
    assert!(error.contains("'nowhere'") && error.contains("host:port"), "{error}");
    cluster.server_mut(0).kill();
    let mut open = match first.ask(&Command::new("PING")).await {
        Ok(_) => first,
        Err(_) => second,
    };
    assert_eq!(open.nodes().await, Ok(nodes.clone()), "one that is down serves its slots still");
    let url = format!("redis://{},{}", nodes[0], nodes[1]);
    let answers = Store::cluster(url).dedicated(None).await.expect("one of the two answers");
    assert_eq!(answers.node(), open.node());
}

#[tokio::test]
async fn a_slot_that_moved_is_followed() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    let plain = Store::cluster(cluster.url()).connect_plain().await.expect("connected");
    let key = cluster.key_at(0, "k");
    let slot = cluster.query::<i64>(0, &["CLUSTER", "KEYSLOT", &key]).expect("a slot").to_string();
    let id = cluster.query::<String>(2, &["CLUSTER", "MYID"]).expect("an id");
    for shard in [2, 0, 1] {
        cluster.query::<()>(shard, &["CLUSTER", "SETSLOT", &slot, "NODE", &id]).expect("moved");
    }
    plain.ask(Command::new("SET").key(&key).arg("v")).await.expect("set");
    assert_eq!(cluster.query::<String>(2, &["GET", &key]).expect("read"), "v");
}

#[tokio::test]
async fn mode_none_is_plain_redis() {
    let _limit = super::limit::of_test();
    let store = Store::cluster(shared().url()).mode(Mode::None).connect().await.expect("a store");
    let keys = keys(shared());
    let seen = store
        .transaction(|tx| {
            let keys = keys.clone();
            async move {
                tx.set(&keys[0]).add("a")?;
                let fresh = tx.set(&keys[0]).add_returning("b").await?;
                tx.counter(&keys[1]).add(5)?;
                let sum = tx.counter(&keys[1]).add_returning(2).await?;
                tx.scored_set(&keys[2]).add("m", 1.5)?;
                Ok((fresh, sum))
            }
        })
        .await
        .expect("done");
    assert_eq!(seen, (true, 2), "what is buffered goes with the commit");
    assert_eq!(store.set(&keys[0]).len().await.expect("read"), 2);
    assert_eq!(store.counter(&keys[1]).get().await.expect("read"), 7);
    let ranked = store.scored_set(&keys[2]).range_with_scores(0, -1).await.expect("read");
    assert_eq!(ranked.0, [(Bytes::from("m"), 1.5)]);
    assert_eq!(shared().query::<String>(1, &["GET", &keys[1]]).expect("read"), "7");
    let error = store.list(&keys[0]).len().await.expect_err("a set");
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(store.register(prefix()).get::<Bytes>().await.expect("read"), None);
}

/// An operation as one would type it, of the type of this name.
fn op(kind: &str, words: &str) -> Operation {
    let kind = BUILTIN.iter().find(|it| it.name == kind).expect("a built-in type");
    let words: Vec<Bytes> = words.split(' ').map(Bytes::from).collect();
    (kind.parse)(words[0].as_str().expect("a name"), &words[1..]).expect("an operation")
}

/// What the operation answers on a record that the first one made.
async fn error_after(store: &Store, key: &str, made: &Operation, failing: &Operation) -> OpError {
    let execute = |op: &Operation| {
        let op = op.clone();
        store.transaction(move |tx| {
            let (key, op) = (key.to_owned(), op.clone());
            async move { Ok(tx.execute(key, op).await?) }
        })
    };
    execute(made).await.expect("made");
    match execute(failing).await {
        Err(Error::Execute(ExecuteError::Invalid { key: named, error })) if named == key.into() => error,
        other => panic!("{failing:?}: {other:?}"),
    }
}

/// Redis says it in its own words: the same variant as on the embedded store and in every mode of a cluster.
#[tokio::test]
async fn an_operation_fails_with_the_same_variant_on_every_host() {
    let _limit = super::limit::of_test();
    let url = || Store::cluster(shared().url());
    let plain = url().mode(Mode::None).connect().await.expect("a store");
    let cluster = url().connect().await.expect("a store");
    let embedded = Store::in_memory();
    for (made, failing) in [
        (op("list", "RPUSH a"), op("register", "GET")),
        (op("list", "RPUSH a"), op("set", "SADD.RETURNING a")),
        (op("list", "RPUSH a"), op("counter", "INCRBY 1")),
        (op("register", "SET x"), op("counter", "INCRBY 1")),
        (op("register", "SET x"), op("counter", "INCRBY.RETURNING 1")),
        (op("register", "SET x"), op("float-counter", "INCRBYFLOAT.RETURNING 1")),
        (op("dict", "HSET f x"), op("dict", "HINCRBY.RETURNING f 1")),
        (op("counter", "INCRBY 9223372036854775807"), op("counter", "INCRBY.RETURNING 1")),
        (op("dict", "HINCRBY f 9223372036854775807"), op("dict", "HINCRBY.RETURNING f 1")),
        (op("scored-set", "ZADD inf m"), op("scored-set", "ZINCRBY.RETURNING -inf m")),
    ] {
        let on_embedded = error_after(&embedded, &prefix(), &made, &failing).await;
        let on_cluster = error_after(&cluster, &prefix(), &made, &failing).await;
        let by_plain = error_after(&plain, &prefix(), &made, &failing).await;
        let variant = |error: &OpError| std::mem::discriminant(error);
        assert_eq!(variant(&on_cluster), variant(&on_embedded), "{on_cluster:?}, {on_embedded:?}");
        assert_eq!(variant(&by_plain), variant(&on_embedded), "{by_plain:?}, {on_embedded:?}");
        // A server knows a record by what it is there: a string, not a register.
        if !matches!(on_cluster, OpError::WrongType { .. }) {
            assert_eq!(on_cluster, on_embedded);
        }
    }
}
