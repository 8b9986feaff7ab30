//! `Store::tx`: a transaction with bounds of its own, which is run with `run`.

use std::future::Future;
use std::time::Duration;

use crate::error::{Abort, Error};
use crate::once::OnceBuilder;
use crate::options::TxOptions;
use crate::store::{Store, doom_first, own_first};
use crate::tx::Tx;

/// A transaction that is about to be run, with bounds of its own: [`Store::tx`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is done before it is run"]
pub struct TxBuilder<'a> {
    pub(crate) store: &'a Store,
    pub(crate) options: TxOptions,
}

impl Store {
    /// A transaction with bounds of its own, and, with [`once`](TxBuilder::once), one that commits at most once for an id. Without any
    /// it is [`Store::transaction`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    ///
    /// use claret::{OnceOutcome, Records, Store};
    ///
    /// let store = Store::in_memory();
    /// let order = store.tx().deadline(Duration::from_secs(2)).once("order:ada:7");
    /// let ordered = order.run(async |tx| Ok(tx.counter("orders").add_returning(1).await?));
    /// assert_eq!(ordered.await?, OnceOutcome::First(1));
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn tx(&self) -> TxBuilder<'_> {
        TxBuilder { store: self, options: self.options }
    }
}

impl<'a> TxBuilder<'a> {
    /// The longest time, over all attempts.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options = self.options.deadline(deadline);
        self
    }

    /// The largest number of attempts (at least 1).
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.options = self.options.attempts(attempts);
        self
    }

    /// It looks without locks: see [`TxOptions::optimistic`].
    pub fn optimistic(mut self) -> Self {
        self.options = self.options.optimistic();
        self
    }

    /// All these bounds at once, in place of the store's.
    pub fn options(mut self, options: TxOptions) -> Self {
        self.options = options;
        self
    }

    /// It commits at most once for an id that the application chooses, such as an order number: see [`OnceBuilder`].
    pub fn once(self, id: &'a str) -> OnceBuilder<'a> {
        OnceBuilder::new(self, id)
    }

    /// Runs it: see [`Store::transaction`].
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    pub async fn run<T, F, Fut>(self, body: F) -> Result<T, Error>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, Abort>>,
    {
        self.store.attempts(self.options, body, doom_first).await.map_err(Error::from)
    }

    /// Runs it with a closure that has an error type of its own: see [`Store::try_transaction`].
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`] of the store. Nothing was applied, except perhaps under
    /// [`Error::Unknown`].
    pub async fn try_run<T, E, F, Fut>(self, body: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.store.attempts(self.options, body, own_first).await
    }
}
