//! Errors as users meet them, on a cluster.

use std::time::Duration;

use claret::cluster::ConnectError;
use claret::{
    Error, Limits, OpError, Operation, Records, Store, TxOptions,
    errors::{CommitError, ExecuteError},
    lab::{Mode, StoreLab},
};

use super::rig::{fresh, prefix, shared};
use super::schema::against_schema;
use crate::any_host::errors;
use crate::any_host::errors::late::{Way, late};
use crate::any_host::errors::provoked::{matched, while_held};
use crate::any_host::errors::table::{Ground, Host, Provoked, walk};
use crate::faulty::{Faulty, FaultyOp};

#[tokio::test]
async fn errors_reach_their_users_on_a_cluster() {
    let _limit = super::limit::of_test();
    for mode in [Mode::CommutingPhased].into_iter().chain(Mode::ways()) {
        let store = Store::cluster(shared().url()).mode(mode).connect().await.expect("a store");
        errors::all(&store, &prefix()).await;
        store.close().await.expect("it closes");
        let brief = TxOptions::new().keep_answer(errors::BRIEF);
        let brief = Store::cluster(shared().url()).mode(mode).transactions(brief);
        let brief = brief.connect().await.expect("a store");
        errors::in_time(errors::once::an_answer_expires(&brief, &prefix())).await;
    }
}

#[tokio::test]
async fn every_error_of_the_table_can_be_matched_on_a_cluster() {
    let _limit = super::limit::of_test();
    let url = shared().url();
    let small = Limits::new().calls_max(3).value_bytes_max(8);
    let store = Store::connect(url.clone()).await.expect("a store");
    let closing = Store::connect(url.clone()).await.expect("a store");
    let small = Store::cluster(url).limits(small).connect().await.expect("a store");
    let ground = Ground { store: &store, small: &small, closing: &closing, prefix: prefix() };
    let mut own = vec![refused().await, not_on_the_cluster(&store).await, against_schema().await];
    own.extend(of_a_node_in_trouble().await);
    walk(Host::Cluster, &ground, own).await;
}

/// The holder that a deadline names is who `CLARET.LOCKS` says holds the record.
#[tokio::test]
async fn a_deadline_names_the_holder_as_the_node_knows_it() {
    let _limit = super::limit::of_test();
    let store = Store::connect(shared().url()).await.expect("a store");
    let (key, free) = (prefix(), prefix());
    let (late, locks) = while_held(&store, &key, async {
        let late = late(&store, &key, &free, Way::Commit).await;
        (
            late,
            shared().query::<Vec<(String, Vec<String>, Vec<String>)>>(
                shared().owner(&key),
                &["CLARET.LOCKS", &key],
            ),
        )
    })
    .await;
    let Error::Commit(CommitError::Deadline { blocked_on: Some(wait), .. }) = late else {
        panic!("{late:?}")
    };
    let holder = wait.holder.expect("it is named");
    let locks = locks.expect("the locks");
    let [(held, holders, _)] = &locks[..] else { panic!("{locks:?}") };
    assert_eq!(held, &key);
    assert!(holders.iter().any(|it| it.starts_with(&format!("{holder} "))), "{holder}: {holders:?}");
}

/// A user who may not count.
async fn refused() -> Provoked {
    let cluster = shared();
    for shard in 0..cluster.masters() {
        let rights = ["ACL", "SETUSER", "reader", "on", ">pw", "~*", "&*", "+@all", "-incrby"];
        cluster.query::<()>(shard, &rights).expect("a user");
    }
    let url = cluster.url().replace("redis://", "redis://reader:pw@");
    let (store, key) = (Store::connect(url).await.expect("a store"), prefix());
    let error = matched!(store.counter(&key).add(1).await, Error::Execute(ExecuteError::Refused(text)) if text.contains("NOPERM"));
    Provoked::new(error, [&key, "user 'reader' may not run"])
}

async fn not_on_the_cluster(store: &Store) -> Provoked {
    let key = prefix();
    let read = store.transaction(|tx| {
        let key = key.clone();
        async move { Ok(tx.execute(key, Operation::new::<Faulty>(FaultyOp::Get)).await?) }
    });
    let port = shared().servers()[0].address();
    let error = matched!(
        read.await,
        Error::Execute(ExecuteError::Invalid { error: OpError::NotOnCluster { kind, nodes }, .. }) if kind == "faulty" && nodes.contains(&port)
    );
    Provoked::new(error, [&key, "use an embedded store"])
}

/// A node that takes no writes, and then is dead: a plain command that is refused, a read that nobody answers, and a write of
/// which nobody knows.
async fn of_a_node_in_trouble() -> Vec<Provoked> {
    let mut cluster = fresh(1);
    let deadline = TxOptions::new().deadline(Duration::from_millis(700));
    let builder = || Store::cluster(cluster.url()).transactions(deadline);
    let store = builder().response_timeout(Duration::from_millis(500)).connect().await.expect("a store");
    let plain = builder().mode(Mode::None).connect().await.expect("a store");
    let address = cluster.servers()[0].address();
    store.counter("k").add(1).await.expect("counted");
    cluster.query::<()>(0, &["CONFIG", "SET", "min-replicas-to-write", "1"]).expect("set");
    let told = plain.counter("k").add(1).await;
    let told = matched!(
        told,
        Error::Execute(ExecuteError::Invalid { key, error: OpError::Told(text) }) if *key == "k".into() && text.starts_with("NOREPLICAS")
    );
    cluster.query::<()>(0, &["CONFIG", "SET", "min-replicas-to-write", "0"]).expect("set");
    let renamed = plain.rename("k", "other").await.map(|_| ());
    let renamed = matched!(
        renamed,
        Error::Execute(ExecuteError::Invalid { key, error: OpError::NoPlainCommand { method } })
            if *key == "k".into() && method.starts_with("RECORD.")
    );
    plain.close().await.expect("it closes");
    cluster.server_mut(0).kill();
    let read = store.transaction(|tx| async move { Ok(tx.counter("k").get().await?) }).await;
    let unanswered = matched!(
        read,
        Error::Commit(CommitError::NoAnswer { after, reason }) if after.as_millis() == 700 && reason.to_string().contains(&address) && reason.is::<ConnectError>()
    );
    let unknown = matched!(store.counter("k").add(1).await, Error::Unknown(_));
    vec![
        Provoked::new(renamed, ["key 'k'", "use a mode other than none, or RENAME to move a record"]),
        Provoked::new(told, ["key 'k'", "Not enough good replicas to write"]),
        Provoked::new(unanswered, [&address, "check that the server runs"]),
        Provoked::new(
            unknown,
            ["it is unknown whether the transaction committed", "use Store::tx().once(id)"],
        ),
    ]
}
