//! The blocking mirror: the same API for threads without an async runtime. A wait parks the thread.
//!
//! A store on a cluster needs a runtime that reads and writes while threads wait. `Store::connect` makes one, on a
//! thread of its own. A blocking store made from an async store uses the latter's runtime.
//!
//! A call that would have to wait on the only thread of a tokio runtime would stop what it waits for: it answers
//! [`BeginError::BlocksRuntime`] instead. On a cluster every call waits. Threads of `tokio::task::spawn_blocking` may wait.

use std::fmt;
use std::future::{Future, Ready, poll_fn, ready};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, DataType, FromReply, Operation, Reply};

use crate::at_commit::AtCommit;
use crate::backend::Backend;
use crate::batch::{Replies, Ticket};
use crate::caller::Caller;
use crate::deadline::Deadline;
use crate::decode::Decode;
use crate::durability::{BackupError, LogStatus};
use crate::error::{Abort, BeginError, Error};
use crate::keys;
use crate::mode::Mode;
use crate::once::OnceOutcome;
use crate::options::TxOptions;
use crate::outcome::{Outcome, OutcomeId};
use crate::records::{Scope, Ticketed, TxScope, Waited};
use crate::runtime;
use crate::stats::Stats;
use crate::tx::Savepoint;
use crate::value::{FromValue, IntoValue, ValueError};

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
    pub(crate) inner: crate::Tx,
    deadline: Duration,
    /// When the deadline passes; `None`: never.
    until: Option<Instant>,
}

impl Store {
    /// See [`crate::Store::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<(), Error> {
        let closed = pollster::block_on(self.inner.close());
        drop(self.thread);
        closed
    }

    /// See [`crate::Store::on_behalf_of`].
    pub fn on_behalf_of(&self, caller: &Caller) -> Store {
        Store { inner: self.inner.on_behalf_of(caller), thread: self.thread.clone() }
    }

    /// See [`crate::Store::with_options`].
    pub fn with_options(&self, options: TxOptions) -> Store {
        Store { inner: self.inner.with_options(options), thread: self.thread.clone() }
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
        self.tx().run(&mut body)
    }

    /// See [`crate::Store::tx`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use claret::{Records, Store};
    ///
    /// let store = Store::in_memory().blocking();
    /// store.tx().deadline(Duration::from_secs(2)).run(|tx| Ok(tx.counter("visits").add(1)?))?;
    /// # Ok::<_, claret::Error>(())
    /// ```
    pub fn tx(&self) -> TxBuilder<'_> {
        TxBuilder { store: self, inner: self.inner.tx() }
    }

    /// See [`crate::Store::outcome`].
    ///
    /// # Errors
    /// As there.
    pub fn outcome(&self, id: &OutcomeId) -> Result<Outcome, Error> {
        self.wait(self.inner.outcome(id))
    }

    /// See [`crate::Store::try_transaction`].
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`] of the store. Nothing was applied, except perhaps under
    /// [`Error::Unknown`].
    pub fn try_transaction<T, E: From<Error>>(&self, body: impl FnMut(&Tx) -> Result<T, E>) -> Result<T, E> {
        self.tx().try_run(body)
    }

    /// See [`crate::Store::run_all`].
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    pub fn run_all(&self, calls: impl IntoIterator<Item = (Bytes, Operation)>) -> Result<Vec<Reply>, Error> {
        self.wait(self.inner.run_all(calls))
    }

    /// See [`crate::Store::backup`].
    ///
    /// # Errors
    /// See [`BackupError`].
    pub fn backup(&self, folder: impl AsRef<Path>) -> Result<(), BackupError> {
        self.wait(self.inner.backup(folder))
    }

    /// See [`crate::Store::log_status`].
    ///
    /// # Errors
    /// As there.
    pub fn log_status(&self) -> Result<LogStatus, Error> {
        self.inner.log_status()
    }

    /// See [`crate::Store::stats`].
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// See [`crate::Store::check_invariants`].
    ///
    /// # Panics
    /// If one does not hold.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.inner.check_invariants();
    }

    /// See [`crate::Store::peek`].
    ///
    /// # Errors
    /// As there.
    pub fn peek<T: DataType>(&self, key: impl Into<Bytes>) -> Result<Option<T::State>, Error> {
        self.inner.peek::<T>(key)
    }

    /// See [`crate::Store::type_of`].
    ///
    /// # Errors
    /// As there.
    pub fn type_of(&self, key: impl Into<Bytes>) -> Result<Option<&'static str>, Error> {
        self.inner.type_of(key)
    }

    pub(crate) fn wait<T, E: From<Error>>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        wait_on(&*self.inner.backend, future)
    }

    /// See [`crate::Store::keys`].
    pub fn keys(&self, pattern: impl Into<Bytes>) -> Keys {
        Keys { inner: self.inner.keys(pattern), store: self.clone() }
    }

    /// See [`crate::Store::batch`].
    pub fn batch(&self) -> Batch {
        Batch { inner: self.inner.batch(), _thread: self.thread.clone() }
    }
}

/// A transaction that is about to be run, blocking: [`Store::tx`]. See [`crate::TxBuilder`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is done before it is run"]
pub struct TxBuilder<'a> {
    store: &'a Store,
    inner: crate::TxBuilder<'a>,
}

impl<'a> TxBuilder<'a> {
    /// See [`crate::TxBuilder::deadline`].
    pub fn deadline(self, deadline: Duration) -> Self {
        TxBuilder { inner: self.inner.deadline(deadline), ..self }
    }

    /// See [`crate::TxBuilder::attempts`].
    pub fn attempts(self, attempts: u32) -> Self {
        TxBuilder { inner: self.inner.attempts(attempts), ..self }
    }

    /// See [`crate::TxBuilder::optimistic`].
    pub fn optimistic(self) -> Self {
        TxBuilder { inner: self.inner.optimistic(), ..self }
    }

    /// See [`crate::TxBuilder::options`].
    pub fn options(self, options: TxOptions) -> Self {
        TxBuilder { inner: self.inner.options(options), ..self }
    }

    /// See [`crate::TxBuilder::once`].
    pub fn once(self, id: &'a str) -> OnceBuilder<'a> {
        OnceBuilder { store: self.store, inner: self.inner.once(id) }
    }

    /// See [`crate::TxBuilder::run`].
    ///
    /// # Errors
    /// As there.
    pub fn run<T>(self, body: impl FnMut(&Tx) -> Result<T, Abort>) -> Result<T, Error> {
        self.store.wait(self.inner.run(called(self.inner.options, body)))
    }

    /// See [`crate::TxBuilder::try_run`].
    ///
    /// # Errors
    /// As there.
    pub fn try_run<T, E: From<Error>>(self, body: impl FnMut(&Tx) -> Result<T, E>) -> Result<T, E> {
        self.store.wait(self.inner.try_run(called(self.inner.options, body)))
    }
}

/// A transaction that commits at most once for an id, blocking: [`TxBuilder::once`]. See [`crate::OnceBuilder`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is done before it is run"]
pub struct OnceBuilder<'a> {
    store: &'a Store,
    inner: crate::OnceBuilder<'a>,
}

impl OnceBuilder<'_> {
    /// See [`crate::OnceBuilder::keep_answer`].
    pub fn keep_answer(self, time: Duration) -> Self {
        OnceBuilder { inner: self.inner.keep_answer(time), ..self }
    }

    /// See [`crate::OnceBuilder::keep_mark`].
    pub fn keep_mark(self, time: Duration) -> Self {
        OnceBuilder { inner: self.inner.keep_mark(time), ..self }
    }

    /// See [`crate::OnceBuilder::run`].
    ///
    /// # Errors
    /// As there.
    pub fn run<T: IntoValue + FromValue>(
        self,
        body: impl FnMut(&Tx) -> Result<T, Abort>,
    ) -> Result<OnceOutcome<T>, Error> {
        self.store.wait(self.inner.run(called(self.inner.tx.options, body)))
    }

    /// See [`crate::OnceBuilder::try_run`].
    ///
    /// # Errors
    /// As there.
    pub fn try_run<T: IntoValue + FromValue, E: From<Error>>(
        self,
        body: impl FnMut(&Tx) -> Result<T, E>,
    ) -> Result<OnceOutcome<T>, E> {
        self.store.wait(self.inner.try_run(called(self.inner.tx.options, body)))
    }
}

/// Waits on this thread, unless that would stop what it waits for.
///
/// In the process most is done without a wait, and what has to wait can be dropped: it is aborted. Where a commit may be under
/// way elsewhere it must not be dropped, so nothing is begun.
fn wait_on<T, E: From<Error>>(
    backend: &dyn Backend,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let can_be_dropped = !backend.checks_answers() && !matches!(backend.mode(), Mode::Way(_));
    if !can_be_dropped && runtime::stops_by_waiting() {
        return Err(Error::Begin(BeginError::BlocksRuntime).into());
    }
    let mut future = pin!(future);
    pollster::block_on(poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Pending if can_be_dropped && runtime::stops_by_waiting() => {
            Poll::Ready(Err(Error::Begin(BeginError::BlocksRuntime).into()))
        }
        poll => poll,
    }))
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
    /// See [`crate::Tx::attempt`].
    pub fn attempt(&self) -> u32 {
        self.inner.attempt()
    }

    /// See [`crate::Tx::execute`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn execute(&self, key: impl Into<Bytes>, op: Operation) -> Result<Reply, Error> {
        self.wait(self.inner.execute(key, op))
    }

    /// See [`crate::Tx::ask`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn ask<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Reply, Error> {
        self.wait(self.inner.ask(key, words))
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

    /// See [`crate::Tx::nested`].
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`].
    pub fn nested<T, E: From<Error>>(&self, body: impl FnOnce(&Tx) -> Result<T, E>) -> Result<T, E> {
        let Tx { deadline, until, .. } = *self;
        self.inner.nested_now(|inner| body(&Tx { inner: inner.clone(), deadline, until }))
    }

    /// See [`crate::Tx::savepoint`].
    ///
    /// # Errors
    /// As there.
    pub fn savepoint(&self) -> Result<Savepoint, Error> {
        self.inner.savepoint()
    }

    /// See [`crate::Tx::rollback_to`].
    ///
    /// # Errors
    /// As there.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<(), Error> {
        self.inner.rollback_to(savepoint)
    }

    /// See [`crate::Tx::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(&self, savepoint: &Savepoint) -> Result<(), Error> {
        self.inner.release(savepoint)
    }

    /// See [`crate::Tx::at_commit`].
    pub fn at_commit(&self) -> AtCommit {
        self.inner.at_commit()
    }

    /// See [`crate::Tx::settle`].
    ///
    /// # Errors
    /// What cannot be done.
    pub fn settle(&self) -> Result<(), Error> {
        self.wait(self.inner.settle())
    }

    /// Waits for an answer until the deadline, and then ends the attempt. The closure holds the thread, so nobody else
    /// can end the wait.
    fn wait<R>(&self, answer: impl Future<Output = Result<R, Error>>) -> Result<R, Error> {
        let backend = &*self.inner.shared.backend;
        let answered = match self.until {
            None => wait_on(backend, answer),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                let mut deadline = Deadline::new(backend, left);
                wait_on(backend, async {
                    match deadline.race(answer).await {
                        Some(answered) => answered,
                        None => Err(self.inner.fail_all(self.inner.late(self.deadline).await)),
                    }
                })
            }
        };
        answered.map_err(|error| match error {
            Error::Begin(BeginError::BlocksRuntime) => self.inner.fail_all(error),
            error => error,
        })
    }
}

/// Collected operations that commit together, blocking. See [`crate::Batch`].
#[derive(Clone, Debug)]
pub struct Batch {
    inner: crate::Batch,
    /// Outlives what lives on it.
    _thread: Option<Arc<dyn Thread>>,
}

impl Batch {
    /// See [`crate::Batch::push`].
    pub fn push<R: FromReply>(&self, key: impl Into<Bytes>, op: Operation) -> Ticket<R> {
        self.inner.push(key, op)
    }

    /// See [`crate::Batch::command`].
    pub fn command<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Ticket<Reply> {
        self.inner.command(key, words)
    }

    /// See [`crate::Batch::command_ro`].
    pub fn command_ro<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Ticket<Reply> {
        self.inner.command_ro(key, words)
    }

    /// See [`crate::Batch::expect`].
    pub fn expect<R>(&self, ticket: Ticket<R>, answer: impl Into<Reply>) {
        self.inner.expect(ticket, answer);
    }

    /// See [`crate::Batch::len`].
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// See [`crate::Batch::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// See [`crate::Batch::commit`].
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    pub fn commit(self) -> Result<Replies, Error> {
        let backend = Arc::clone(&self.inner.store.backend);
        wait_on(&*backend, self.inner.commit())
    }
}

/// Keys that match a pattern, blocking: [`Store::keys`].
#[derive(Debug)]
pub struct Keys {
    inner: keys::Keys,
    store: Store,
}

impl Keys {
    /// See [`crate::keys::Keys::next_page`].
    ///
    /// # Errors
    /// See [`crate::keys::Keys::next_page`].
    pub fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        loop {
            match self.store.wait(self.inner.page())? {
                Some(keys) if keys.is_empty() => {}
                page => return Ok(page),
            }
        }
    }
}

impl Scope for Store {
    type Void = Result<(), Error>;
    type Answers = Waited;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        self.wait(self.inner.void(key, op))
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) -> Self::Void {
        self.wait(self.inner.void_many(calls))
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Result<R, Error> {
        self.wait(self.inner.answer(key, op, read))
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Result<R, Error> {
        self.wait(self.inner.answer_many(calls, read))
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) -> Self::Void {
        Err(error.at(key))
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Result<R, Error> {
        Err(error.at(key))
    }
}

impl Scope for Tx {
    type Void = Result<(), Error>;
    type Answers = Waited;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        let issued = self.inner.issue(key, op);
        if is_planted(Bug::VoidErrorSwallowed) { Ok(()) } else { issued }
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) -> Self::Void {
        self.inner.void_many(calls)
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Result<R, Error> {
        self.wait(self.inner.answer(key, op, read))
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Result<R, Error> {
        self.wait(self.inner.answer_many(calls, read))
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) -> Self::Void {
        self.inner.refuse_void(key, error)
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Result<R, Error> {
        Err(self.inner.fail(error.at(key)))
    }
}

impl TxScope for Tx {
    fn answer_for_update<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Result<R, Error> {
        self.wait(self.inner.answer_for_update(key, op, read))
    }
}

impl Scope for Batch {
    type Void = ();
    type Answers = Ticketed;

    fn void(&self, key: Bytes, op: Operation) {
        self.inner.void(key, op);
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) {
        self.inner.void_many(calls);
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Ticket<R> {
        self.inner.answer(key, op, read)
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Ticket<R> {
        self.inner.answer_many(calls, read)
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) {
        self.inner.refuse_void(key, error);
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Ticket<R> {
        self.inner.refuse(key, error)
    }
}
