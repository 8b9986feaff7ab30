//! Errors as users meet them, on any host.

use std::future::Future;
use std::time::Duration;

use claret::Store;

pub(crate) mod itself;
pub(crate) mod late;
pub(crate) mod typed;

/// Far longer than anything here takes: what waits for ever ends the test.
const STALL: Duration = Duration::from_secs(60);

/// Where the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    InProcess,
    Cluster,
}

/// All of it, on keys that begin like this.
pub(crate) async fn all(store: &Store, prefix: &str, host: Host) {
    in_time(typed::all(store, prefix)).await;
    in_time(itself::all(store, prefix)).await;
    in_time(late::all(store, prefix, host)).await;
}

async fn in_time<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(STALL, test).await.expect("no stall")
}
