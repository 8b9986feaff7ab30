//! The blocking mirror: the same API for threads without an async runtime. A wait parks the thread.
//!
//! A store on a cluster needs a runtime that reads and writes while threads wait. `Store::connect` makes one, on a
//! thread of its own. A blocking store made from an async store uses the latter's runtime; do not block that
//! runtime's only thread.

use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

use claret_types::{Bytes, FromReply, Operation, Reply};

use crate::batch::Batch;
use crate::deadline::Deadline;
use crate::error::{Abort, Error};
use crate::options::TxOptions;
use crate::planted;
use crate::records::Scope;
use crate::tx::Answer;

/// A thread for connections. It ends when it is dropped.
pub(crate) trait Thread: fmt::Debug + Send + Sync {}

/// A store, blocking. See [`crate::Store`].
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: crate::Store,
    /// Outlives what lives on it.
    pub(crate) thread: Option<Arc<dyn Thread>>,
}

/// A transaction in progress, blocking. See [`crate::Tx`].
#[derive(Clone, Debug)]
pub struct Tx {
    inner: crate::Tx,
    deadline: Duration,
    /// When the deadline passes; `None`: never.
    until: Option<Instant>,
}

impl Store {
    /// See [`crate::Store::close`].
    pub fn close(self) {
        pollster::block_on(self.inner.close());
        drop(self.thread);
    }

    /// See [`crate::Store::transaction`].
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    ///
    /// ```
    /// use claret::{Records, Store};
    /// let store = Store::in_memory().blocking();
    /// store.transaction(|tx| {
    ///     tx.counter("a").add(-10)?;
    ///     tx.counter("b").add(10)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(store.counter("b").get()?, 10);
    /// # Ok::<_, claret::Error>(())
    /// ```
    pub fn transaction<T>(&self, mut body: impl FnMut(&Tx) -> Result<T, Abort>) -> Result<T, Error> {
        self.transaction_with(self.inner.options, &mut body)
    }

    /// See [`crate::Store::transaction_with`].
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    pub fn transaction_with<T>(
        &self,
        options: TxOptions,
        body: impl FnMut(&Tx) -> Result<T, Abort>,
    ) -> Result<T, Error> {
        pollster::block_on(self.inner.transaction_with(options, called(options, body)))
    }

    /// See [`crate::Store::try_transaction`].
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`] of the store. Nothing was applied, except perhaps under
    /// [`Error::Unknown`].
    pub fn try_transaction<T, E: From<Error>>(&self, body: impl FnMut(&Tx) -> Result<T, E>) -> Result<T, E> {
        self.try_transaction_with(self.inner.options, body)
    }

    /// See [`crate::Store::try_transaction_with`].
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`] of the store. Nothing was applied, except perhaps under
    /// [`Error::Unknown`].
    pub fn try_transaction_with<T, E: From<Error>>(
        &self,
        options: TxOptions,
        body: impl FnMut(&Tx) -> Result<T, E>,
    ) -> Result<T, E> {
        pollster::block_on(self.inner.try_transaction_with(options, called(options, body)))
    }

    /// Operations that are all known up front; commit them with [`Batch::commit_blocking`].
    pub fn batch(&self) -> Batch {
        self.inner.batch()
    }
}

/// A closure that blocks, as one whose future is ready.
fn called<T, E>(
    options: TxOptions,
    mut body: impl FnMut(&Tx) -> Result<T, E>,
) -> impl FnMut(crate::Tx) -> Ready<Result<T, E>> {
    let deadline = options.deadline;
    let until = Instant::now().checked_add(deadline);
    move |inner| ready(body(&Tx { inner, deadline, until }))
}

impl Tx {
    /// See [`crate::Tx::execute`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn execute(&self, key: impl Into<Bytes>, op: Operation) -> Result<Reply, Error> {
        self.wait(self.inner.execute(key, op))
    }

    /// See [`crate::Tx::execute_for_update`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn execute_for_update(&self, key: impl Into<Bytes>, op: Operation) -> Result<Reply, Error> {
        self.wait(self.inner.execute_for_update(key, op))
    }

    /// See [`crate::Tx::issue`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn issue(&self, key: impl Into<Bytes>, op: Operation) -> Result<(), Error> {
        self.inner.issue(key, op)
    }

    /// Waits for an answer until the deadline, and then ends the attempt. The closure holds the thread, so nobody else
    /// can end the wait.
    fn wait<R: FromReply>(&self, answer: Answer<R>) -> Result<R, Error> {
        let Some(until) = self.until else { return pollster::block_on(answer) };
        let left = until.saturating_duration_since(Instant::now());
        let answered = pollster::block_on(Deadline::new(&*self.inner.shared.backend, left).race(answer));
        answered.unwrap_or_else(|| Err(self.inner.fail(self.inner.shared.backend.too_late(self.deadline))))
    }
}

impl Scope for Store {
    type Void = Result<(), Error>;
    type Value<R: FromReply> = Result<R, Error>;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        pollster::block_on(self.inner.void(key, op))
    }

    fn value<R: FromReply>(&self, key: Bytes, op: Operation) -> Self::Value<R> {
        pollster::block_on(self.inner.value(key, op))
    }
}

impl Scope for Tx {
    type Void = Result<(), Error>;
    type Value<R: FromReply> = Result<R, Error>;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        planted::issued(self.inner.issue(key, op))
    }

    fn value<R: FromReply>(&self, key: Bytes, op: Operation) -> Self::Value<R> {
        self.wait(self.inner.execute_as(key, op))
    }
}
