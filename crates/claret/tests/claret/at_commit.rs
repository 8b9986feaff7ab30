//! Operations that run at the commit, in the process.

use claret::{
    Error, Records, Store,
    errors::HandleError,
    lab::{Mode, StoreLab},
};

use crate::any_host::at_commit as cases;

#[tokio::test]
async fn what_runs_at_the_commit_is_answered_with_it() {
    for mode in cases::MODES.into_iter().chain(claret::lab::Mode::ways()) {
        let store = Store::builder().shards(4).mode(mode).build();
        cases::all(&store, "", mode != Mode::None).await;
        store.check_invariants();
    }
}

#[test]
fn the_blocking_mirror_has_it_too() {
    let store = Store::in_memory().blocking();
    let (last, place) = store
        .transaction(|tx| {
            let last = tx.at_commit();
            Ok((last.clone(), last.list("orders").push_back_returning("one")))
        })
        .expect("committed");
    assert_eq!(last.replies().expect("committed").get(place).expect("a number"), 1);
}

/// A handle that outlives its transaction, or its attempt, takes nothing.
#[tokio::test]
async fn what_comes_after_the_commit_is_refused() {
    let store = Store::in_memory();
    let last = store.transaction(async |tx| Ok(tx.at_commit())).await.expect("committed");
    assert!(matches!(last.counter("late").add(1), Err(Error::Handle(HandleError::Finished))));
    let ticket = last.counter("late").add_returning(1);
    assert!(last.replies().expect("committed").get(ticket).is_err());
    assert_eq!(store.counter("late").get().await.expect("read"), 0);
}
