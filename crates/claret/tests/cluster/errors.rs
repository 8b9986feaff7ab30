//! Errors as users meet them, on a cluster.

use claret::{Mode, Store};

use crate::rig::{prefix, shared};

#[tokio::test]
async fn errors_reach_their_users_on_a_cluster() {
    let _limit = crate::limit::of_test();
    for mode in [Mode::CommutingPhased, Mode::CommutingPhasedCombined] {
        let store = Store::cluster(shared().url()).mode(mode).connect().await.expect("a store");
        crate::errors::all(&store, &prefix(), false).await;
        store.close().await;
    }
}
