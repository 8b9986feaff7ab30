//! Operations that run at the commit, on a cluster.

use claret::{Mode, Store};

use crate::at_commit_cases;
use crate::rig::{prefix, shared};

#[tokio::test]
async fn what_runs_at_the_commit_is_answered_with_it() {
    let _limit = crate::limit::of_test();
    for mode in at_commit_cases::MODES {
        let store = Store::cluster(shared().url()).mode(mode).connect().await.expect("a store");
        at_commit_cases::all(&store, &prefix(), mode != Mode::None).await;
        store.close().await;
    }
}
