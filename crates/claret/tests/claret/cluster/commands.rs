//! Commands of the server as steps of a transaction (docs/scripts.md), on a cluster of locks and on one whose calls are ordered.

use claret::{Abort, Records, Reply, Store};

use super::rig::{all_ordered, prefix, shared};

/// Tasks each append to two streams and count in one transaction: all or nothing, and the answers are the ids that the streams have.
async fn appended(store: &Store) {
    const TASKS: usize = 6;
    const EACH: usize = 20;
    let prefix = prefix();
    let [one, other, sum] = ["one", "other", "sum"].map(|name| format!("{prefix}{name}"));
    let tasks = (0..TASKS).map(|task| {
        let (store, one, other, sum) = (store.clone(), one.clone(), other.clone(), sum.clone());
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for number in 0..EACH {
                let value = format!("{task}:{number}");
                let (last, first, second) = store
                    .transaction(async |tx| {
                        tx.counter(&sum).add(1)?;
                        let last = tx.at_commit();
                        let first = last.command(&one, ["XADD", &one, "*", "of", &value]);
                        let second = last.command(&other, ["XADD", &other, "*", "of", &value]);
                        let _ = last.command_ro(&other, ["XLEN", &other]);
                        Ok((last, first, second))
                    })
                    .await
                    .expect("it commits");
                let replies = last.replies().expect("they are here");
                ids.push((replies.get(first).expect("an id"), replies.get(second).expect("an id")));
            }
            ids
        })
    });
    let mut answered = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        answered.extend(task.await.expect("no task panics"));
    }
    assert_eq!(store.counter(&sum).get().await.expect("read"), (TASKS * EACH) as i64);
    for (stream, is_first) in [(&one, true), (&other, false)] {
        let batch = store.batch();
        let all = batch.command_ro(stream, ["XRANGE", stream, "-", "+"]);
        let Reply::Array(entries) = batch.commit().await.expect("read").get(all).expect("entries") else {
            panic!("entries")
        };
        let mut ids: Vec<String> = entries
            .iter()
            .map(|entry| match entry {
                Reply::Array(parts) => parts[0].to_string(),
                other => panic!("{other}"),
            })
            .collect();
        let mut told: Vec<String> = answered
            .iter()
            .map(|(first, second)| if is_first { first.to_string() } else { second.to_string() })
            .collect();
        ids.sort_unstable();
        told.sort_unstable();
        assert_eq!(ids, told, "each id was told to one");
    }
}

#[tokio::test]
async fn commands_are_steps_where_calls_lock() {
    let _limit = super::limit::of_test();
    appended(&Store::connect(shared().url()).await.expect("a store")).await;
}

#[tokio::test]
async fn commands_are_steps_where_all_is_ordered() {
    let _limit = super::limit::of_test();
    appended(&Store::connect(all_ordered().url()).await.expect("a store")).await;
}

#[tokio::test]
async fn a_command_is_refused_where_its_answer_is_needed_or_no_server_is() {
    let _limit = super::limit::of_test();
    let store = Store::connect(shared().url()).await.expect("a store");
    let (stream, sum) = (format!("{}stream", prefix()), format!("{}sum", prefix()));
    let add = store.batch();
    let _ = add.command(&stream, ["XADD", &stream, "5-1", "f", "v"]);
    add.commit().await.expect("committed");
    let batch = store.batch();
    batch.counter(&sum).add(1);
    let _ = batch.command(&stream, ["XADD", &stream, "5-1", "f", "v"]);
    let error = batch.commit().await.expect_err("an id that is too small").to_string();
    assert!(error.contains("equal or smaller"), "{error}");
    assert_eq!(store.counter(&sum).get().await.expect("read"), 0, "nothing of it is done");
    let op = claret::types::Operation::from(claret::types::KeyspaceOp::Run(claret::types::Command::new(
        claret::types::Access::Read,
        &["XLEN".into(), stream.as_str().into()],
    )));
    let asked = store.transaction(async |tx| Ok(tx.execute(stream.as_str(), op.clone()).await?)).await;
    let error = asked.expect_err("it is answered with the commit").to_string();
    assert!(error.contains("Tx::at_commit"), "{error}");
    let batch = Store::in_memory().batch();
    let _ = batch.command("s", ["PFADD", "s", "x"]);
    let error = batch.commit().await.expect_err("no server").to_string();
    assert!(error.contains("PFADD is carried out by servers"), "{error}");
}

#[tokio::test]
async fn commands_are_steps_of_optimistic_transactions_and_go_with_what_is_rolled_back() {
    let _limit = super::limit::of_test();
    let store = Store::connect(shared().url()).await.expect("a store");
    let (stream, sum) = (format!("{}stream", prefix()), format!("{}sum", prefix()));
    for optimistic in [false, true] {
        let tx = if optimistic { store.tx().optimistic() } else { store.tx() };
        let (last, kept, undone) = tx
            .run(async |tx| {
                tx.counter(&sum).get().await?;
                tx.counter(&sum).add(1)?;
                let last = tx.at_commit();
                let savepoint = tx.savepoint()?;
                let undone = last.command(&stream, ["XADD", &stream, "*", "f", "undone"]);
                tx.rollback_to(&savepoint)?;
                let kept = last.command(&stream, ["XADD", &stream, "*", "f", "kept"]);
                Ok((last, kept, undone))
            })
            .await
            .expect("it commits");
        let replies = last.replies().expect("they are here");
        assert!(matches!(replies.get(kept), Ok(Reply::Bytes(_))), "an id");
        assert!(replies.get(undone).is_err(), "it was rolled back");
    }
    let batch = store.batch();
    let length = batch.command_ro(&stream, ["XLEN", &stream]);
    assert_eq!(batch.commit().await.expect("read").get(length).expect("it"), Reply::Int(2));
    let batch = store.batch();
    let _ = batch.command(&stream, [""; 0]);
    let error = batch.commit().await.expect_err("no command").to_string();
    assert!(error.contains("is not a command"), "{error}");
    assert_eq!(store.counter(&sum).get().await.expect("nobody else was harmed"), 2);
}

/// A31.
#[tokio::test]
async fn a_transaction_asks_a_server_and_goes_by_the_answer() {
    let _limit = super::limit::of_test();
    let store = Store::connect(shared().url()).await.expect("a store");
    let stream = format!("{}asked", prefix());
    let add = |most: i64| {
        let (store, stream) = (store.clone(), stream.clone());
        async move {
            store
                .transaction(async |tx| {
                    let Reply::Int(length) = tx.ask(stream.as_str(), ["XLEN", &stream]).await? else {
                        return Err(Abort::because("no length"));
                    };
                    if length >= most {
                        return Err(Abort::because("full"));
                    }
                    let _ = tx.at_commit().command(&stream, ["XADD", &stream, "*", "f", "v"]);
                    Ok(length)
                })
                .await
        }
    };
    let tasks: Vec<_> = (0..12).map(|_| tokio::spawn(add(8))).collect();
    let mut lengths = Vec::new();
    for task in tasks {
        lengths.extend(task.await.expect("no task panics").ok());
    }
    lengths.sort_unstable();
    assert_eq!(lengths, (0..8).collect::<Vec<_>>(), "each found another length, and none is beyond");
    let trim = ["XTRIM", &stream, "MAXLEN", "0"];
    let error = store.transaction(async |tx| Ok(tx.ask(stream.as_str(), trim).await?));
    assert!(error.await.expect_err("it writes").to_string().contains("may write"));
    let here = Store::in_memory();
    let error = here.transaction(async |tx| Ok(tx.ask("s", ["PFCOUNT", "s"]).await?));
    assert!(error.await.expect_err("no server").to_string().contains("use a cluster"));
}
