//! The keys of a store by pattern, a page at a time, outside of transactions.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use claret_types::{Bytes, OpError};

use crate::backend::Backend;
use crate::error::{BeginError, Error, ExecuteError};
pub use crate::glob::{Pattern, matches_pattern};
use crate::pages::{PageFuture, Pages};
use crate::store::Store;

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// A pattern that nobody can take.
#[derive(Debug)]
struct BadPattern(Error);

impl Pages for BadPattern {
    fn next_page(&mut self) -> PageFuture<'_> {
        let error = self.0.clone();
        Box::pin(async move { Err(error) })
    }
}

/// Keys that match a pattern: [`Store::keys`].
#[derive(Debug)]
pub struct Keys {
    backend: Arc<dyn Backend>,
    pages: Box<dyn Pages>,
}

impl Keys {
    fn of(store: &Store, pattern: Bytes) -> Self {
        let backend = Arc::clone(&store.backend);
        let pages = match pattern.len() {
            0..=PATTERN_BYTES_MAX => Arc::clone(&backend).keys(pattern),
            size => {
                let error = OpError::TooLarge { what: "pattern".into(), size, limit: PATTERN_BYTES_MAX };
                Box::new(BadPattern(Error::Execute(ExecuteError::Invalid { key: pattern, error })))
            }
        };
        Keys { backend, pages }
    }

    /// The next keys, some at least and a thousand or so at most, in no useful order; `None` when there are no more.
    ///
    /// # Errors
    /// [`BeginError::Closed`]; on a cluster also [`CommitError::NoAnswer`](crate::errors::CommitError::NoAnswer) and [`ExecuteError::Refused`]. One may ask again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        loop {
            match self.page().await? {
                // Others get their turn.
                Some(keys) if keys.is_empty() => yield_now().await,
                page => return Ok(page),
            }
        }
    }

    pub(crate) async fn page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        if self.backend.is_closed() {
            return Err(Error::Begin(BeginError::Closed));
        }
        self.pages.next_page().await
    }
}

/// Comes back at once, behind what is ready by now.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Store {
    /// Lists the keys that match a pattern: `*` is any bytes, `?` any one, `[ab]`, `[^ab]` and `[a-z]` one of these, and `\\`
    /// takes the next byte as it is. At most 1,024 bytes.
    ///
    /// This is outside of transactions: each page is as of another moment. A key that is there all the while is listed, one that
    /// comes or goes meanwhile may be. On a cluster (`SCAN` over all nodes) a key may be listed twice, and one whose slot moves
    /// meanwhile may be missed; records that Claret keeps for itself (`claret:done:*`, and the capacity beside a TopK) are
    /// listed too. A page costs about what a thousand reads do, whatever it finds.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// store.counter("visits:home").add(1).await?;
    /// let mut keys = store.keys("visits:*");
    /// while let Some(page) = keys.next_page().await? {
    ///     assert_eq!(page, [claret::Bytes::from("visits:home")]);
    /// }
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn keys(&self, pattern: impl Into<Bytes>) -> Keys {
        Keys::of(self, pattern.into())
    }
}
