//! How a backend lists keys: a page at a time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use claret_types::Bytes;

use crate::error::Error;

/// How many keys are looked at for one page, about.
pub(crate) const PAGE: usize = 1000;

/// A page of keys, or an end; later.
pub(crate) type PageFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Vec<Bytes>>, Error>> + Send + 'a>>;

/// A listing of keys, as a backend has it.
pub(crate) trait Pages: fmt::Debug + Send {
    /// The next page, which may be empty; `None` at the end.
    fn next_page(&mut self) -> PageFuture<'_>;
}
