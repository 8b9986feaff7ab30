//! Plain commands, and mode `none`.

use claret::cluster::{Command, PlainError};
use claret::{Bytes, Mode, Records, Reply, Store};

use crate::rig::{fresh, keys, prefix, shared};

#[tokio::test]
async fn commands_go_to_their_keys_and_replies_come_in_order() {
    let _limit = crate::limit::of_test();
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
    let _limit = crate::limit::of_test();
    let plain = Store::cluster(shared().url()).connect_plain().await.expect("connected");
    let key = prefix();
    let mut own = plain.dedicated(&key).await.expect("connected");
    assert_eq!(own.ask(&Command::new("WATCH").key(&key)).await, Ok(Reply::Ok));
    plain.ask(Command::new("SET").key(&key).arg("theirs")).await.expect("set");
    let mine = [Command::new("MULTI"), Command::new("SET").key(&key).arg("mine"), Command::new("EXEC")];
    let replies = own.run(&mine).await.expect("replies");
    assert_eq!(replies[2], Ok(Reply::Nil), "the other one was first");
}

#[tokio::test]
async fn a_slot_that_moved_is_followed() {
    let _limit = crate::limit::of_test();
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
    let _limit = crate::limit::of_test();
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
