//! Transactions that commit at most once for an id, and whose answer can be had again.
//!
//! Such a transaction writes two records besides what its closure does: the mark `claret:done:<id>`, which does not go by
//! itself unless the caller says when ([`TxOptions::keep_mark`](crate::TxOptions)), and the closure's value,
//! `claret:answer:<id>`, which expires ([`TxOptions::keep_answer`](crate::TxOptions)). Both commit with it, or neither does. So whoever finds the mark knows that it was done, and whoever finds the value as well
//! answers with it.

use std::future::Future;
use std::time::Duration;

use claret_types::{Bytes, KeyspaceOp, Moment, Operation, Register, RegisterOp, Reply};
use parking_lot::Mutex;

use crate::error::{Abort, BeginError, Error};
use crate::options::TxOptions;
use crate::store::{doom_first, own_first};
use crate::tx::Tx;
use crate::tx_builder::TxBuilder;
use crate::value::{FromValue, IntoValue};

/// What a transaction with an id came to: its value, and whether this very call committed it.
///
/// Use the value either way. `First` is no place for what must follow a commit, such as a mail: after an
/// [`Error::Unknown`] nobody has heard `First`, though the transaction may be done. Do such things after both, so that
/// they bear repetition, or write them down in the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnceOutcome<T> {
    /// This call committed it.
    First(T),
    /// An earlier call committed it, and this is what that one answered. Nothing was done now.
    Again(T),
}

impl<T> OnceOutcome<T> {
    /// The value.
    pub fn into_value(self) -> T {
        match self {
            OnceOutcome::First(value) | OnceOutcome::Again(value) => value,
        }
    }

    /// Whether this call committed it.
    pub fn is_first(&self) -> bool {
        matches!(self, OnceOutcome::First(_))
    }
}

/// A transaction that commits at most once for an id that the application chooses, such as an order number, over all calls, processes
/// and restarts that share the store: [`TxBuilder::once`]. A later call with the same id does nothing, and answers what the first one
/// answered. The value may be any [`IntoValue`], such as a number, text, `()`, or `Json` of a type of your own.
///
/// What was done is an ordinary record, `claret:done:<id>`, which the transaction itself writes and which stays; delete it to forget
/// the id, or say when it goes ([`Self::keep_mark`]). Its value is another one, `claret:answer:<id>`, which expires
/// ([`Self::keep_answer`]). On a cluster the two are usually on different nodes; with a hash tag in the id, as in
/// `{order:17}`, they are on one, and on that of other keys with this tag.
///
/// ```
/// # pollster::block_on(async {
/// use claret::{OnceOutcome, Records, Store};
///
/// let store = Store::in_memory();
/// let order = || {
///     store.tx().once("order:ada:7").run(|tx| async move {
///         tx.counter("income:cents").add(11_800)?;
///         Ok(tx.counter("orders").add_returning(1).await?)
///     })
/// };
/// assert_eq!(order().await?, OnceOutcome::First(1));
/// assert_eq!(order().await?, OnceOutcome::Again(1));
/// assert_eq!(store.counter("income:cents").get().await?, 11_800);
/// # Ok::<_, claret::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is done before it is run"]
pub struct OnceBuilder<'a> {
    pub(crate) tx: TxBuilder<'a>,
    id: &'a str,
}

impl<'a> OnceBuilder<'a> {
    pub(crate) fn new(tx: TxBuilder<'a>, id: &'a str) -> Self {
        OnceBuilder { tx, id }
    }

    /// For how long its answer is kept: see [`TxOptions::keep_answer`].
    pub fn keep_answer(mut self, time: Duration) -> Self {
        self.tx.options = self.tx.options.keep_answer(time);
        self
    }

    /// For how long the store knows that it was done: see [`TxOptions::keep_mark`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{OnceOutcome, Records, Store};
    /// use std::time::Duration;
    ///
    /// let store = Store::in_memory();
    /// // The queue delivers a message again for an hour at most.
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let message = store.tx().deadline(Duration::from_secs(2)).once("message:17").keep_mark(day);
    /// let done = message.run(async |tx| Ok(tx.counter("n").add_returning(1).await?));
    /// assert_eq!(done.await?, OnceOutcome::First(1));
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn keep_mark(mut self, time: Duration) -> Self {
        self.tx.options = self.tx.options.keep_mark(time);
        self
    }

    /// Runs it, unless it was done.
    ///
    /// # Errors
    /// [`BeginError::AlreadyDone`](crate::errors::BeginError::AlreadyDone) if it was done and its value is gone, [`ExecuteError::Value`](crate::errors::ExecuteError::Value) if its value is of another type; else
    /// see [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`]: then call again with the same id.
    pub async fn run<T, F, Fut>(self, body: F) -> Result<OnceOutcome<T>, Error>
    where
        T: IntoValue + FromValue,
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, Abort>>,
    {
        let OnceBuilder { tx: TxBuilder { store, options }, id } = self;
        let body = Mutex::new(body);
        let once = |tx| once(id, tx, &body, options);
        store.attempts(options, once, doom_first).await.map_err(Error::from)
    }

    /// Runs it, unless it was done, with a closure that has an error type of its own: see [`Store::try_transaction`](crate::Store::try_transaction). An error that the
    /// closure returns is not kept: a later call with the same id tries again.
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`] of [`Self::run`].
    pub async fn try_run<T, E, F, Fut>(self, body: F) -> Result<OnceOutcome<T>, E>
    where
        T: IntoValue + FromValue,
        E: From<Error>,
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let OnceBuilder { tx: TxBuilder { store, options }, id } = self;
        let body = Mutex::new(body);
        let once = |tx| once(id, tx, &body, options);
        store.attempts(options, once, own_first).await
    }
}

/// The closure, unless the mark is there. It is called after the mark was looked for: one that blocks does all that it
/// does when it is called.
async fn once<T, E, F, Fut>(
    id: &str,
    tx: Tx,
    body: &Mutex<F>,
    options: TxOptions,
) -> Result<OnceOutcome<T>, E>
where
    T: IntoValue + FromValue,
    E: From<Error>,
    F: FnMut(Tx) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let mark = Bytes::from(format!("claret:done:{id}"));
    let answer = Bytes::from(format!("claret:answer:{id}"));
    let get = Operation::new::<Register>(RegisterOp::Get);
    if tx.execute_for_update(mark.clone(), get.clone()).await? != Reply::Nil {
        let Reply::Bytes(value) = tx.execute(answer.clone(), get).await? else {
            return Err(tx.fail(Error::Begin(BeginError::AlreadyDone { id: id.to_owned() })).into());
        };
        return Ok(OnceOutcome::Again(T::from_value(value).map_err(|error| error.at(answer))?));
    }
    let running = (body.lock())(tx.clone());
    let value = running.await?.into_value().map_err(|error| error.at(answer.clone()))?;
    // The answer goes by itself; the mark only if the caller has said when.
    tx.issue(answer.clone(), kept(value.clone(), options.keep_answer))?;
    tx.issue(mark, kept("1".into(), options.keep_mark.unwrap_or(Duration::MAX)))?;
    // As a later call will read it, so that the first one does not answer what no other can.
    Ok(OnceOutcome::First(T::from_value(value).map_err(|error| error.at(answer))?))
}

/// Writes a value that is there for this long. A time to live cannot be zero.
fn kept(value: Bytes, keep: Duration) -> Operation {
    match keep {
        Duration::MAX => Operation::new::<Register>(RegisterOp::Set(value)),
        keep => {
            let millis = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
            Operation::from(KeyspaceOp::SetUntil { value, at: Moment::In(millis.max(1)) })
        }
    }
}
