//! Typed records: every handle, in every place where operations are issued (store, transaction, batch, and the
//! blocking mirrors).

use claret::types::{Counter, CounterOp};
use claret::{
    Bytes, Error, Records, Store,
    errors::HandleError,
    types::{Pairs, ScoreBound, Summary},
};

fn pairs(list: &[(&str, f64)]) -> Pairs<Bytes, f64> {
    Pairs(list.iter().map(|(member, score)| ((*member).into(), *score)).collect())
}

fn values(list: &[&str]) -> Vec<Bytes> {
    list.iter().map(|value| Bytes::from(*value)).collect()
}

#[tokio::test]
async fn a_scored_set_keeps_the_order_of_scores() {
    let store = Store::in_memory();
    let bids = store.scored_set("bids:42");
    bids.add("ada", 120.0).await.unwrap();
    assert!(bids.add_returning("bob", 80.0).await.unwrap());
    assert!(!bids.add_returning("bob", 90.0).await.unwrap());
    bids.increment("bob", 10.0).await.unwrap();
    assert_eq!(bids.score("bob").await.unwrap(), Some(100.0));
    assert_eq!(bids.score("cleo").await.unwrap(), None);

    let seen = store
        .transaction(|tx| async move {
            let bids = tx.scored_set("bids:42");
            bids.add("cleo", 110.0)?;
            let sum = bids.increment_returning("dan", 5.5).await?;
            Ok((sum, bids.rank("cleo").await?, bids.rank("eve").await?, bids.range(0, 1).await?))
        })
        .await
        .unwrap();
    assert_eq!(seen, (5.5, Some(2), None, values(&["dan", "bob"])));

    let batch = store.batch();
    batch.scored_set("bids:42").remove("dan");
    let gone = batch.scored_set("bids:42").remove_returning("eve");
    let best = batch.scored_set("bids:42").highest(2);
    let none = batch.scored_set("bids:42").highest(0);
    let size = batch.scored_set("bids:42").len();
    let replies = batch.commit().await.unwrap();
    assert!(!replies.get(gone).unwrap());
    assert_eq!(replies.get(best).unwrap(), pairs(&[("ada", 120.0), ("cleo", 110.0)]));
    assert_eq!(replies.get(none).unwrap(), pairs(&[]));
    assert_eq!(replies.get(size).unwrap(), 3);
}

#[test]
fn a_scored_set_answers_by_score_in_the_blocking_mirror() {
    let store = Store::in_memory().blocking();
    let range = store
        .transaction(|tx| {
            for (member, score) in [("ada", 1.0), ("bob", 2.0), ("cleo", 3.0)] {
                tx.scored_set("z").add(member, score)?;
            }
            Ok(tx.scored_set("z").range_with_scores(-2, -1)?)
        })
        .unwrap();
    assert_eq!(range, pairs(&[("bob", 2.0), ("cleo", 3.0)]));
    let (over_one, all) = (ScoreBound::Excluded(1.0), ScoreBound::Included(f64::INFINITY));
    assert_eq!(store.scored_set("z").between(over_one, all).unwrap(), pairs(&[("bob", 2.0), ("cleo", 3.0)]));
    assert_eq!(store.scored_set("z").count(ScoreBound::Included(1.0), all).unwrap(), 3);
}

#[tokio::test]
async fn a_top_k_keeps_the_best() {
    let store = Store::in_memory();
    assert_eq!(store.top_k("top", 2).max::<Bytes>().await.unwrap(), None);
    store.top_k("top", 2).add("ada", 3.0).await.unwrap();
    let best = store
        .transaction(|tx| async move {
            tx.top_k("top", 2).add("bob", 1.0)?;
            tx.top_k("top", 2).add("cleo", 2.0)?;
            Ok(tx.top_k("top", 2).list().await?)
        })
        .await
        .unwrap();
    assert_eq!(best, pairs(&[("ada", 3.0), ("cleo", 2.0)]));
    let batch = store.batch();
    let max = batch.top_k("top", 2).max();
    let count = batch.top_k("top", 2).count();
    let replies = batch.commit().await.unwrap();
    assert_eq!((replies.get(max).unwrap(), replies.get(count).unwrap()), (Some(("ada".to_owned(), 3.0)), 2));

    let blocking = store.blocking();
    assert_eq!(blocking.top_k("top", 2).best(1).unwrap(), pairs(&[("ada", 3.0)]));
    blocking.transaction(|tx| Ok(tx.top_k("top", 2).add("dan", 9.0)?)).unwrap();
    assert_eq!(blocking.top_k("top", 2).max().unwrap(), Some(("dan".to_owned(), 9.0)));
}

#[tokio::test]
async fn a_summary_bag_sums_up() {
    let store = Store::in_memory();
    let bag = store.summary_bag("bag");
    assert_eq!(bag.mean().await.unwrap(), None);
    assert_eq!(bag.summary().await.unwrap(), Summary::default());
    bag.add(4.0).await.unwrap();
    let mean = store
        .transaction(|tx| async move {
            tx.summary_bag("bag").add(-1.0)?;
            Ok(tx.summary_bag("bag").mean().await?)
        })
        .await
        .unwrap();
    assert_eq!(mean, Some(1.5));
    let batch = store.batch();
    batch.summary_bag("bag").add(6.0);
    let (min, max) = (batch.summary_bag("bag").min(), batch.summary_bag("bag").max());
    let replies = batch.commit().await.unwrap();
    assert_eq!((replies.get(min).unwrap(), replies.get(max).unwrap()), (Some(-1.0), Some(6.0)));

    let blocking = store.blocking();
    let summary = blocking.summary_bag("bag").summary().unwrap();
    assert_eq!(summary, Summary { count: 3, sum: 9.0, min: -1.0, max: 6.0 });
    let seen = blocking
        .transaction(|tx| Ok((tx.summary_bag("bag").count()?, tx.summary_bag("bag").sum()?)))
        .unwrap();
    assert_eq!(seen, (3, 9.0));
}

#[tokio::test]
async fn a_list_has_two_ends() {
    let store = Store::in_memory();
    let list = store.list("l");
    list.push_back("b").await.unwrap();
    list.push_front("a").await.unwrap();
    list.push_back_many(["c", "d"]).await.unwrap();
    assert_eq!(list.all::<String>().await.unwrap(), ["a", "b", "c", "d"]);
    let ends = store
        .transaction(|tx| async move {
            let list = tx.list("l");
            let length = list.push_back_returning("e").await?;
            Ok((length, list.pop_front().await?, list.pop_back().await?, list.get(-1).await?))
        })
        .await
        .unwrap();
    assert_eq!(ends, (5, Some("a".to_owned()), Some("e".to_owned()), Some("d".to_owned())));
    let batch = store.batch();
    let length = batch.list("l").push_front_returning("z");
    let middle = batch.list("l").range(1, 2);
    let replies = batch.commit().await.unwrap();
    assert_eq!((replies.get(length).unwrap(), replies.get(middle).unwrap()), (4, values(&["b", "c"])));

    let blocking = store.blocking();
    assert_eq!(blocking.list("l").len().unwrap(), 4);
    let none = blocking
        .transaction(|tx| Ok((tx.list("l").get::<Bytes>(9)?, tx.list("none").pop_back::<Bytes>()?)))
        .unwrap();
    assert_eq!(none, (None, None));
}

#[tokio::test]
async fn a_queue_and_a_stack_are_faces_of_one_list() {
    let store = Store::in_memory();
    store.queue("q").enqueue("first").await.unwrap();
    store.queue("q").enqueue("second").await.unwrap();
    let taken = store
        .transaction(|tx| async move {
            tx.queue("q").enqueue("third")?;
            Ok((tx.queue("q").dequeue().await?, tx.queue("q").peek().await?))
        })
        .await
        .unwrap();
    assert_eq!(taken, (Some("first".to_owned()), Some("second".to_owned())));

    let batch = store.batch();
    batch.stack("q").push("top");
    let (peek, length) = (batch.stack("q").peek(), batch.queue("q").len());
    let replies = batch.commit().await.unwrap();
    assert_eq!((replies.get(peek).unwrap(), replies.get(length).unwrap()), (Some("top".to_owned()), 3));

    let blocking = store.blocking();
    assert_eq!(blocking.stack("q").pop().unwrap(), Some("top".to_owned()));
    let left = blocking
        .transaction(|tx| {
            tx.stack("q").push("x")?;
            tx.stack("q").pop::<Bytes>()?;
            Ok((tx.stack("q").len()?, tx.queue("q").dequeue()?, tx.queue("none").dequeue::<Bytes>()?))
        })
        .unwrap();
    assert_eq!(left, (2, Some("second".to_owned()), None));
}

#[tokio::test]
async fn a_uid_generator_never_repeats_itself() {
    let store = Store::in_memory();
    let mut ids = vec![store.uid_generator("ids").next().await.unwrap()];
    let pair = store
        .transaction(|tx| async move {
            Ok([tx.uid_generator("ids").next().await?, tx.uid_generator("ids").next().await?])
        })
        .await
        .unwrap();
    ids.extend(pair);
    let batch = store.batch();
    let tickets = [batch.uid_generator("ids").next(), batch.uid_generator("ids").next()];
    let replies = batch.commit().await.unwrap();
    ids.extend(tickets.map(|ticket| replies.get(ticket).unwrap()));
    let blocking = store.blocking();
    ids.push(blocking.uid_generator("ids").next().unwrap());
    ids.push(blocking.transaction(|tx| Ok(tx.uid_generator("ids").next()?)).unwrap());

    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 7, "all are distinct");
    assert_eq!(store.uid_generator("ids").issued().await.unwrap(), 7);
}

#[tokio::test]
async fn the_older_handles_work_in_batches_and_in_the_blocking_mirror() {
    let store = Store::in_memory();
    let batch = store.batch();
    batch.register("r").set("v");
    batch.dict("d").set_many([("a", "1"), ("b", "2")]);
    batch.bounded_counter("b").create(2, 0, 3);
    batch.float_counter("f").add(0.5);
    batch.record::<Counter>("n").issue(CounterOp::Add(7));
    let (taken, refused) = (batch.bounded_counter("b").try_take(2), batch.bounded_counter("b").try_take(1));
    let all = batch.dict("d").all();
    let replies = batch.commit().await.unwrap();
    assert_eq!((replies.get(taken).unwrap(), replies.get(refused).unwrap()), (true, false));
    assert_eq!(replies.get(all).unwrap(), Pairs(vec![("a".to_owned(), 1), ("b".to_owned(), 2)]));

    let blocking = store.blocking();
    assert_eq!(blocking.register("r").replace("w").unwrap(), Some("v".to_owned()));
    let seen = blocking
        .transaction(|tx| {
            tx.dict("d").add("a", 4)?;
            tx.set("s").add("x")?;
            Ok((tx.dict("d").get("a")?, tx.set("s").members()?, tx.float_counter("f").get()?))
        })
        .unwrap();
    assert_eq!(seen, (Some(5), values(&["x"]), 0.5));
    assert_eq!(blocking.record::<Counter>("n").run::<i64>(CounterOp::Get).unwrap(), 7);
}

#[tokio::test]
async fn a_batch_and_its_commit_move_between_tasks() {
    let store = Store::in_memory();
    let batch = store.batch();
    batch.counter("n").add(1);
    let filled = tokio::spawn(async move {
        batch.counter("n").add(2);
        tokio::task::yield_now().await;
        batch
    });
    let batch = filled.await.unwrap();
    assert_eq!(batch.len(), 2);
    tokio::spawn(batch.commit()).await.unwrap().unwrap();
    assert_eq!(store.counter("n").get().await.unwrap(), 3);
}

/// Bug: a ticket of another batch ended the program.
#[tokio::test]
async fn a_ticket_of_another_batch_is_an_error() {
    let store = Store::in_memory();
    let (one, other) = (store.batch(), store.batch());
    let count = one.set("s").len();
    let first = other.register("r").get::<Bytes>();
    let second = other.register("r").get::<Bytes>();
    let counted = one.commit().await.unwrap();
    assert_eq!(counted.get(count), Ok(0));
    assert_eq!(counted.get(first), Err(Error::Handle(HandleError::OtherTicket)), "of another kind");
    assert_eq!(counted.get(second), Err(Error::Handle(HandleError::OtherTicket)), "there is no such one");
}
