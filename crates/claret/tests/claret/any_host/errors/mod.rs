//! Errors as users meet them, on any host.

use std::future::Future;
use std::time::Duration;

use claret::Store;

pub(crate) mod itself;
pub(crate) mod late;
pub(crate) mod once;
pub(crate) mod provoked;
pub(crate) mod table;
pub(crate) mod typed;

/// Far longer than anything here takes: what waits for ever ends the test.
const STALL: Duration = Duration::from_secs(60);

/// All of it, on keys that begin like this.
pub(crate) async fn all(store: &Store, prefix: &str) {
    in_time(typed::all(store, prefix)).await;
    in_time(itself::all(store, prefix)).await;
    in_time(once::all(store, prefix)).await;
    in_time(late::all(store, prefix)).await;
}

/// How long a store of these tests keeps an answer that is to expire.
pub(crate) const BRIEF: Duration = Duration::from_millis(50);

pub(crate) async fn in_time<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(STALL, test).await.expect("no stall")
}
