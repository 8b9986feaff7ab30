//! A limit on waiting in tests: what hangs fails, and says so.

use std::time::Duration;

/// Far longer than anything takes that works, on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(60);

/// What comes of a future, which must be something.
#[track_caller]
pub(crate) fn in_time<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(LIMIT, future).await {
            Ok(output) => output,
            Err(_) => panic!("{place}: nothing came of it in {LIMIT:?}: it hangs"),
        }
    }
}
