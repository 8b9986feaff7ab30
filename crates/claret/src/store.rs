//! The store: where transactions begin.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use claret_core::message::Refusal;
use claret_core::{Cause, Closed, Time};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, DataType, State};
use futures_timer::Delay;

use crate::backend::{Backend, UntilDurable};
use crate::batch::Batch;
use crate::caller::Caller;
use crate::deadline::Deadline;
use crate::error::{Abort, AttemptError, BeginError, CommitError, Error};
use crate::nesting;
use crate::observe::{AttemptSpan, Observed};
use crate::options::TxOptions;
use crate::outcome::{Outcome, OutcomeId};
use crate::stats::{Measure, Stats};
use crate::tx::{End, Tx};

/// So much of its deadline, and at least so long, a caller waits to learn what became of a transaction.
const OUTCOME_FRACTION: u32 = 3;
const OUTCOME_PATIENCE_MIN: Duration = Duration::from_millis(500);

/// A store of typed records. A cheaply cloned handle; use it from any thread and any task, under any async
/// runtime or none ([`Store::blocking`]).
#[derive(Clone)]
pub struct Store {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) options: TxOptions,
    /// For whom it is used, where that is known.
    pub(crate) caller: Option<Caller>,
}

impl Store {
    /// Runs a transaction: the closure reads and writes through its [`Tx`], and when it returns `Ok` the transaction
    /// commits. If the transaction must run again (it gave way to an older one) the store calls the closure again
    /// with a fresh `Tx`. So the closure must not have side effects outside the store. [`Store::tx`] has bounds for one transaction.
    ///
    /// An `async` closure borrows what it uses, so nothing is cloned for it; it works inside `tokio::spawn` too. A function
    /// that takes a `Tx`, and a closure that gives back a future (`|tx| async move { ... }`), do as well. Such a future cannot
    /// borrow from the closure: move references into it that were made before.
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// let page = String::from("visits:home");
    /// let total = store
    ///     .transaction(async |tx| {
    ///         tx.counter(&page).add(1)?;
    ///         Ok(tx.counter(&page).get().await?)
    ///     })
    ///     .await?;
    /// assert_eq!(total, 1);
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub async fn transaction<T, F, Fut>(&self, body: F) -> Result<T, Error>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, Abort>>,
    {
        self.attempts(self.options, body, doom_first).await.map_err(Error::from)
    }

    /// [`Store::transaction`] for a closure with an error type of its own, which can be made from the store's: then `?`
    /// works on both. The error that the closure returns aborts the transaction and comes back as it is.
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`] of the store. Nothing was applied, except perhaps under
    /// [`Error::Unknown`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Error, Records, Store};
    ///
    /// #[derive(Debug, PartialEq)]
    /// enum Purchase {
    ///     SoldOut,
    ///     Store(Error),
    /// }
    ///
    /// impl From<Error> for Purchase {
    ///     fn from(error: Error) -> Self {
    ///         Purchase::Store(error)
    ///     }
    /// }
    ///
    /// async fn buy(store: &Store, guest: &str) -> Result<(), Purchase> {
    ///     store
    ///         .try_transaction(|tx| async move {
    ///             if !tx.bounded_counter("seats").try_take(1).await? {
    ///                 return Err(Purchase::SoldOut);
    ///             }
    ///             tx.set("guests").add(guest)?;
    ///             Ok(())
    ///         })
    ///         .await
    /// }
    ///
    /// let store = Store::in_memory();
    /// store.bounded_counter("seats").create(1, 0, 1).await?;
    /// buy(&store, "ada").await?;
    /// assert_eq!(buy(&store, "bob").await, Err(Purchase::SoldOut));
    /// # Ok::<_, Purchase>(()) }).unwrap();
    /// ```
    pub async fn try_transaction<T, E, F, Fut>(&self, body: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.attempts(self.options, body, own_first).await
    }
}

/// Attempts.
impl Store {
    /// Since when what its transactions are for has been tried.
    pub(crate) fn since(&self) -> Option<Time> {
        let tried = self.caller.as_ref()?.tried_for()?;
        Some(Time(self.backend.now().0.saturating_sub(tried.as_micros() as u64)))
    }

    pub(crate) fn deadline(&self, options: TxOptions) -> Deadline<'_> {
        Deadline::new(&*self.backend, options.deadline).of(self.caller.as_ref())
    }

    /// For how long it is asked what became of a transaction with this deadline, if somebody waits for it who may leave.
    fn patience(&self, deadline: Duration) -> Option<Duration> {
        self.caller.as_ref().map(|_| (deadline / OUTCOME_FRACTION).max(OUTCOME_PATIENCE_MIN))
    }

    /// Attempts until one is the last. `both`: what to say where the closure returns an error, and the transaction was
    /// doomed by another.
    pub(crate) async fn attempts<T, E, F, Fut>(
        &self,
        options: TxOptions,
        body: F,
        both: fn(E, Error) -> E,
    ) -> Result<T, E>
    where
        E: From<Error>,
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        if self.backend.is_closed() {
            return Err(Error::Begin(BeginError::Closed).into());
        }
        self.go_on(Begun::new(self, options, None), options, body, both).await
    }

    /// [`Self::attempts`] with a transaction that has begun. It may be committing: then its closure has nothing to do.
    #[expect(clippy::manual_async_fn, reason = "an async function has room for its arguments twice")]
    pub(crate) fn go_on<'a, T, E, F, Fut>(
        &'a self,
        mut begun: Begun<'a>,
        options: TxOptions,
        mut body: F,
        both: fn(E, Error) -> E,
    ) -> impl Future<Output = Result<T, E>>
    where
        E: From<Error>,
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        async move {
            let Begun { observed, span, tx, deadline } = &mut begun;
            loop {
                let attempt = self.attempt((tx, span), options.deadline, deadline, &mut body);
                let (result, end) = match attempt.await {
                    Ok(ended) => ended,
                    Err(late) => {
                        observed.note_wait(tx.waited());
                        return Err(observed.fails(late).into());
                    }
                };
                observed.note_wait(tx.waited());
                match (result, end) {
                    (Ok(value), End::Committed) => {
                        observed.commits();
                        return Ok(value);
                    }
                    (_, End::Restart(cause)) => {
                        let prepared = self.prepare_restart(tx, &cause, options, deadline);
                        if let Err(error) = Box::pin(prepared).await {
                            return Err(observed.fails(error).into());
                        }
                        observed.restarts(&cause, &tx.restarted_for(&cause), span);
                        *span = observed.attempt(tx.attempt() + 1);
                        *tx = match tx.again(span) {
                            Ok(next) => next,
                            Err(Closed) if !tx.writes() => {
                                tx.leave();
                                let next = Tx::begin((&self.backend, self.since()), tx.attempt(), span);
                                next.learn_from(tx);
                                next
                            }
                            // A driver that said so lets it run again. If it does not, nobody knows what it did instead.
                            Err(Closed) => {
                                return Err(observed.fails(Error::Unknown(tx.outcome_id())).into());
                            }
                        };
                        if is_planted(Bug::DeadlineOfEachAttempt) {
                            *deadline = self.deadline(options);
                        }
                    }
                    (Ok(_), End::Failed(error)) => return Err(observed.fails(error).into()),
                    (Err(own), End::Failed(error)) => return Err(both(own, observed.fails(error))),
                    (Err(own), End::Aborted | End::Committed) => {
                        observed.aborts();
                        return Err(own);
                    }
                    (Ok(_), End::Aborted) => {
                        return Err(observed.fails(self.backend.too_late(options.deadline)).into());
                    }
                    (_, End::Unknown) => {
                        return Err(observed.fails(Error::Unknown(tx.outcome_id())).into());
                    }
                }
            }
        }
    }

    /// The pause before an attempt is run again.
    ///
    /// # Errors
    /// It is not: the store is closed, the attempts are used up, or the deadline passes. The transaction is left then.
    async fn prepare_restart(
        &self,
        tx: &Tx,
        cause: &Cause,
        options: TxOptions,
        deadline: &mut Deadline<'_>,
    ) -> Result<(), Error> {
        let guard = AbortOnDrop(tx);
        self.pause_before_again(tx.attempt(), cause, options, deadline).await?;
        std::mem::forget(guard);
        Ok(())
    }

    /// The same, of so many attempts that leave nothing behind.
    pub(crate) async fn pause_before_again(
        &self,
        made: u32,
        cause: &Cause,
        options: TxOptions,
        deadline: &mut Deadline<'_>,
    ) -> Result<(), Error> {
        if self.backend.is_closed() {
            return Err(Error::Begin(BeginError::Closed));
        }
        if made >= options.attempts {
            return Err(Error::Commit(CommitError::Attempts { made, last: AttemptError::of(cause) }));
        }
        if deadline.race_while(self.pause(cause, made), || true).await.is_none() {
            return Err(self.backend.too_late(options.deadline));
        }
        Ok(())
    }

    /// One attempt: what the closure returned, and how it ended.
    ///
    /// # Errors
    /// The closure was not done at the deadline.
    async fn attempt<T, E, F, Fut>(
        &self,
        (tx, span): (&Tx, &AttemptSpan),
        after: Duration,
        deadline: &mut Deadline<'_>,
        body: &mut F,
    ) -> Result<(Result<T, E>, End), Error>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let guard = AbortOnDrop(tx);
        let ended = {
            // It may be large: it stays where it is.
            let own = pin!(async { body(tx.clone()).await });
            match tx.is_committing() {
                true => Some(own.await),
                false => deadline.race_while(pin!(nesting::within(tx, span, own)), || tx.is_blocked()).await,
            }
        };
        let result = match ended {
            Some(result) => result,
            None => return Err(Box::pin(tx.late(after)).await),
        };
        let end = match &result {
            Ok(_) if self.backend.has_log() => Box::pin(self.commit_to_log(tx, after, deadline)).await,
            Ok(_) => match deadline.race_while(tx.commit(), || tx.is_blocked()).await.flatten() {
                Some(end) => end,
                // Too late, or the store was closed.
                None => Box::pin(tx.give_up(after, self.patience(after))).await,
            },
            // It tells of what was only seen.
            Err(_) if tx.has_to_check() => match deadline.race(Box::pin(tx.check())).await.flatten() {
                Some(end) => end,
                None => Box::pin(tx.give_up(after, self.patience(after))).await,
            },
            Err(_) => tx.abort_and_wait(self.patience(after)).await,
        };
        std::mem::forget(guard);
        let end = match end {
            // Whether it committed is the same: it has changed nothing.
            End::Unknown if !tx.writes() && result.is_err() && !tx.only_checks() => End::Aborted,
            End::Unknown if !tx.writes() => End::Restart(Cause::Refused(Refusal::Unknown)),
            end => end,
        };
        Ok((result, end))
    }

    /// Commits where the store has a log: it is written, and durable.
    async fn commit_to_log(&self, tx: &Tx, after: Duration, deadline: &mut Deadline<'_>) -> End {
        // One that is committing may be committed.
        if !tx.is_committing()
            && let Err(error) = self.backend.check_log(tx.writes())
        {
            tx.abort_and_wait(self.patience(after)).await;
            return End::Failed(error);
        }
        let from = self.backend.noted();
        tx.keep_unconfirmed(true);
        let end = match deadline.race_while(tx.commit(), || tx.is_blocked()).await.flatten() {
            Some(end) => end,
            None => tx.give_up(after, self.patience(after)).await,
        };
        match self.until_durable(|| tx.writes()) {
            Some(until_durable) if matches!(end, End::Committed) => {
                match self.wait_until_durable((until_durable, from), tx.writes(), after, deadline).await {
                    Ok(()) => {
                        tx.keep_unconfirmed(false);
                        End::Committed
                    }
                    Err(error) => End::Failed(error),
                }
            }
            _ => {
                tx.keep_unconfirmed(false);
                end
            }
        }
    }

    /// What a commit waits for, also of a transaction that only read.
    pub(crate) fn until_durable(&self, writes: impl FnOnce() -> bool) -> Option<UntilDurable> {
        let until_durable = self.backend.until_durable()?;
        (!is_planted(Bug::ReadsDoNotWait) || writes()).then_some(until_durable)
    }

    /// Waits until what was committed is durable, and was noted behind `from`. Nothing that only read is unknown: it may be run again (P65).
    ///
    /// # Errors
    /// It is not known to stay.
    pub(crate) async fn wait_until_durable(
        &self,
        (until_durable, from): (UntilDurable, u64),
        writes: bool,
        after: Duration,
        deadline: &mut Deadline<'_>,
    ) -> Result<(), Error> {
        match deadline.race(until_durable).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None if writes || is_planted(Bug::ReadsUnknown) => {
                Err(Error::Unknown(self.backend.name_in_log(from)))
            }
            Some(Err(_)) | None => {
                self.backend.check_log(true)?;
                Err(self.backend.too_late(after))
            }
        }
    }

    /// The pause before another attempt. A transaction that gave way waits in a queue next and need not pause.
    /// Without queues, a doubling pause with jitter keeps two transactions from meeting again and again.
    async fn pause(&self, cause: &Cause, made: u32) {
        let limits = self.backend.limits();
        let (least, most) = match cause {
            // Up to as long as an attempt holds on to its locks while it tries for another: otherwise a crowd that
            // shares one lock and a crowd that shares another, each after the other's, keep one another out for ever.
            Cause::Busy => {
                let most = limits.backoff_us_max.saturating_mul(u64::from(limits.lock_tries_max).max(1));
                (limits.backoff_us_min, most)
            }
            // A shard refused for reasons of its own: it restarted, its records are moving.
            Cause::Refused(refusal) => match self.backend.pause_after(refusal) {
                Some(bounds) => bounds,
                None => return,
            },
            Cause::GaveWay | Cause::Parted => return,
        };
        let longest = (least << made.min(20)).min(most);
        // Any number.
        let jitter = self.backend.now().0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Delay::new(Duration::from_micros(longest / 2 + jitter % (longest / 2 + 1))).await;
    }
}

/// What is asked outside of transactions.
impl Store {
    /// A batch: operations that are all known up front commit as one transaction in one step.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// What became of a transaction whose caller heard [`Error::Unknown`]. Asking changes nothing: a transaction that is not
    /// decided may still commit ([`Outcome::NotYet`](crate::Outcome::NotYet)). Any process may ask that uses the same store, and, of a store in a folder,
    /// whoever opens it next. `docs/unknown-outcomes.md` says for how long it is remembered.
    ///
    /// # Errors
    /// [`BeginError::Closed`](crate::errors::BeginError::Closed) if the store is closed. A node that does not answer is no error, but [`Outcome::NotYet`](crate::Outcome::NotYet).
    ///
    /// ```no_run
    /// use claret::{Error, Outcome, Records, Store};
    ///
    /// async fn pay(store: &Store) -> Result<bool, Error> {
    ///     match store.counter("account:ada").add(-30).await {
    ///         Ok(()) => Ok(true),
    ///         Err(Error::Unknown(id)) => Ok(store.outcome(&id).await? == Outcome::Committed),
    ///         Err(other) => Err(other),
    ///     }
    /// }
    /// ```
    pub async fn outcome(&self, id: &OutcomeId) -> Result<Outcome, Error> {
        match self.backend.outcome(id) {
            _ if self.backend.is_closed() => Err(Error::Begin(BeginError::Closed)),
            asking => asking.await,
        }
    }

    /// Counts. On a cluster they are those of this process: waits of its transactions, and attempts whose outcome
    /// some shard has not confirmed.
    pub fn stats(&self) -> Stats {
        self.backend.stats()
    }

    /// Checks the store's internal invariants; for tests. O(records).
    ///
    /// # Panics
    /// If one does not hold.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.backend.check_invariants();
    }

    /// Reads a record's committed content outside any transaction and without waiting; for tests and tools. `None` if there is no
    /// record, or one of another type.
    ///
    /// # Errors
    /// [`BeginError::Unsupported`](crate::errors::BeginError::Unsupported) on a cluster: ask the server there.
    pub fn peek<T: DataType>(&self, key: impl Into<Bytes>) -> Result<Option<T::State>, Error> {
        Ok(self.look(key.into(), |state| state.downcast::<T>().cloned())?.flatten())
    }

    /// The name of the type that made a committed record, read as by [`Store::peek`]; for tools. `None` if there is no record.
    ///
    /// # Errors
    /// [`BeginError::Unsupported`](crate::errors::BeginError::Unsupported) on a cluster: ask the server there.
    pub fn type_of(&self, key: impl Into<Bytes>) -> Result<Option<&'static str>, Error> {
        self.look(key.into(), |state| state.type_info().name)
    }

    fn look<T>(&self, key: Bytes, at: impl FnOnce(&State) -> T) -> Result<Option<T>, Error> {
        let (mut at, mut seen) = (Some(at), None);
        self.backend.peek(&key, &mut |state| seen = at.take().map(|at| at(state)))?;
        Ok(seen)
    }
}

impl Store {
    /// The same store, used for somebody who may leave. Once that one has left, a transaction that waits ends without effect: for a
    /// lock, for others to vote, or to be run again. What waits for nobody is carried out, and so is what was committed before that
    /// could be prevented. The error is that of a deadline.
    ///
    /// Where nodes are silent, what became of a transaction that ends is waited for a third of its deadline, and at least half a second:
    /// then, at its deadline, it is [`Error::Unknown`].
    ///
    /// It is for servers: without it, what a client asked for and gave up would happen behind its back, beside what it asks for next.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Caller, Records, Store};
    /// let (store, client) = (Store::in_memory(), Caller::new());
    /// client.leave();
    /// store.on_behalf_of(&client).counter("hits").add(1).await?;
    /// assert_eq!(store.counter("hits").get().await?, 1, "it waited for nobody");
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn on_behalf_of(&self, caller: &Caller) -> Store {
        Store { caller: Some(caller.clone()), ..self.clone() }
    }

    /// The same store, with these bounds for its transactions, batches and single operations.
    pub fn with_options(&self, options: TxOptions) -> Store {
        Store { options, ..self.clone() }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Store");
        self.backend.describe(&mut out);
        out.field("mode", &self.backend.mode()).finish()
    }
}

/// A transaction in its first attempt.
pub(crate) struct Begun<'a> {
    pub(crate) observed: Observed<'a>,
    pub(crate) span: AttemptSpan,
    pub(crate) tx: Tx,
    pub(crate) deadline: Deadline<'a>,
}

impl<'a> Begun<'a> {
    /// `measure`: since when, if it began before.
    pub(crate) fn new(store: &'a Store, options: TxOptions, measure: Option<Measure>) -> Self {
        let mut observed = Observed::begin(store.backend.counts(), measure);
        let span = observed.attempt(1);
        let tx = Tx::begin((&store.backend, store.since()), 0, &span);
        tx.observe(options);
        let deadline = store.deadline(options);
        Begun { observed, span, tx, deadline }
    }
}

/// Aborts the transaction when its future is dropped, its closure panics, or its deadline passes. The application may
/// have kept handles to it.
struct AbortOnDrop<'a>(&'a Tx);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What doomed a transaction says more than a closure that looked away from it.
pub(crate) fn doom_first(_: Abort, doom: Error) -> Abort {
    doom.into()
}

/// The error that a closure returns comes back as it is.
pub(crate) fn own_first<E>(own: E, _: Error) -> E {
    own
}
