//! Operations that run at the commit, on a cluster.

use claret::{
    Store,
    lab::{Mode, StoreLab},
};

use super::rig::{prefix, shared};
use crate::any_host::at_commit;

#[tokio::test]
async fn what_runs_at_the_commit_is_answered_with_it() {
    let _limit = super::limit::of_test();
    for mode in at_commit::MODES.into_iter().chain(claret::lab::Mode::ways()) {
        let store = Store::cluster(shared().url()).mode(mode).connect().await.expect("a store");
        at_commit::all(&store, &prefix(), mode != Mode::None).await;
        store.close().await.expect("it closes");
    }
}
