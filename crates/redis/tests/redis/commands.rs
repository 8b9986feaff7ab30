//! Commands whose replies are decoded, on real clusters.

use claret_redis::{Builder, Command, CommandError};
use claret_rig::TestLimit;
use claret_types::Reply;

use crate::rig::{fresh, keys, prefix, shared};

#[tokio::test]
async fn commands_go_to_their_keys_and_replies_come_in_order() {
    let _limit = TestLimit::begin();
    let plain = Builder::new(shared().url()).connect().await.expect("connected");
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
    assert!(matches!(&error, CommandError::Server(error) if error.code() == "WRONGTYPE"), "{error}");
    let node = &plain.nodes()[2];
    assert_eq!(plain.ask_at(node, Command::new("PING")).await, Ok(Reply::Bytes("PONG".into())));
    let error = plain.ask_at("h:1", Command::new("PING")).await.expect_err("no such node");
    assert!(matches!(error, CommandError::NoSuchNode(_)), "{error}");
}

#[tokio::test]
async fn watch_has_a_connection_of_its_own() {
    let _limit = TestLimit::begin();
    let plain = Builder::new(shared().url()).connect().await.expect("connected");
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
    let _limit = TestLimit::begin();
    let mut cluster = fresh(2);
    let url = cluster.url();
    let builder = || Builder::new(url.as_str());
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
    let answers = Builder::new(url).dedicated(None).await.expect("one of the two answers");
    assert_eq!(answers.node(), open.node());
}

#[tokio::test]
async fn a_slot_that_moved_is_followed() {
    let _limit = TestLimit::begin();
    let cluster = fresh(3);
    let plain = Builder::new(cluster.url()).connect().await.expect("connected");
    let key = cluster.key_at(0, "k");
    let slot = cluster.query::<i64>(0, &["CLUSTER", "KEYSLOT", &key]).expect("a slot").to_string();
    let id = cluster.query::<String>(2, &["CLUSTER", "MYID"]).expect("an id");
    for shard in [2, 0, 1] {
        cluster.query::<()>(shard, &["CLUSTER", "SETSLOT", &slot, "NODE", &id]).expect("moved");
    }
    plain.ask(Command::new("SET").key(&key).arg("v")).await.expect("set");
    assert_eq!(cluster.query::<String>(2, &["GET", &key]).expect("read"), "v");
}
