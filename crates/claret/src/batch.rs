//! A one-shot transaction: all its operations are known up front and go together.
//!
//! It commits in one step. If nobody else's claims conflict it takes no lock at all.

use std::sync::Arc;

use claret_types::{Bytes, FromReply, Operation, Reply};
use parking_lot::Mutex;

use crate::backend::InstantOutcome;
use crate::call::Call;
use crate::error::Error;
use crate::nesting;
use crate::store::Store;
use crate::tx::{Tx, check, strange, writes};

/// Collected operations that commit together.
///
/// ```
/// # pollster::block_on(async {
/// use claret::{Records, Store};
/// let store = Store::in_memory();
/// let batch = store.batch();
/// batch.set("tags").add("red");
/// let size = batch.set("tags").len();
/// let done = batch.commit().await?;
/// assert_eq!(done.get(size)?, 1);
/// # Ok::<_, claret::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    store: Store,
    /// Shared by the clones that typed records hold. Locked only for a moment, and mostly by one thread.
    calls: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    all: Vec<Call>,
    /// The types against which the answers of servers are checked.
    wanted: Vec<Wanted>,
}

/// An answer that is wanted: its place, and whether it is of its kind.
type Wanted = (usize, fn(&Reply) -> bool);

/// Stands for an operation's answer until the batch is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the answer of a returning operation is found with its ticket; use the void variant otherwise"]
pub struct Ticket<R> {
    at: usize,
    kind: std::marker::PhantomData<fn() -> R>,
}

/// The answers of a committed batch.
#[derive(Debug)]
pub struct Replies(Vec<Reply>);

impl Replies {
    /// The answer of one operation.
    ///
    /// # Errors
    /// [`Error::OtherTicket`] if the ticket belongs to another batch.
    pub fn get<R: FromReply>(&self, ticket: Ticket<R>) -> Result<R, Error> {
        self.0.get(ticket.at).and_then(|reply| R::from_reply(reply.clone())).ok_or(Error::OtherTicket)
    }

    /// All answers, in the order of the operations.
    pub fn into_inner(self) -> Vec<Reply> {
        self.0
    }
}

impl Batch {
    pub(crate) fn new(store: Store) -> Self {
        Batch { store, calls: Default::default() }
    }

    /// Adds an operation.
    pub fn push<R: FromReply>(&self, key: impl Into<Bytes>, op: Operation) -> Ticket<R> {
        let call = Call { key: key.into(), op };
        let is_wanted = call.op.returns() && self.store.backend.checks_answers();
        let mut calls = self.calls.lock();
        let at = calls.all.len();
        if is_wanted {
            calls.wanted.push((at, |reply| R::from_reply(reply.clone()).is_some()));
        }
        calls.all.push(call);
        Ticket { at, kind: std::marker::PhantomData }
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.calls.lock().all.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.calls.lock().all.is_empty()
    }

    /// Commits all operations, or none.
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    pub async fn commit(self) -> Result<Replies, Error> {
        let Calls { all, wanted } = std::mem::take(&mut *self.calls.lock());
        let are_writing = all.iter().any(|call| writes(&call.op));
        let replies = self.store.run(all).await?;
        // It was carried out, or the server lies about that too.
        let are_fit = wanted.iter().all(|(at, is_fit)| replies.get(*at).is_some_and(is_fit));
        if are_fit { Ok(Replies(replies)) } else { Err(strange(are_writing)) }
    }

    /// [`Batch::commit`] on a thread without an async runtime.
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    pub fn commit_blocking(self) -> Result<Replies, Error> {
        pollster::block_on(self.commit())
    }
}

impl Store {
    /// Commits operations that are all known up front, and returns their answers in order. [`Batch`] and single
    /// operations use it.
    ///
    /// # Errors
    /// See [`Error`]. Nothing was applied, except perhaps under [`Error::Unknown`].
    pub async fn run_all(
        &self,
        calls: impl IntoIterator<Item = (Bytes, Operation)>,
    ) -> Result<Vec<Reply>, Error> {
        self.run(calls.into_iter().map(|(key, op)| Call { key, op }).collect()).await
    }

    pub(crate) async fn run(&self, calls: Vec<Call>) -> Result<Vec<Reply>, Error> {
        let limit = self.backend.limits().calls_max;
        if calls.len() > limit as usize {
            return Err(Error::TooManyCalls { limit });
        }
        if self.backend.is_closed() {
            return Err(Error::Closed);
        }
        for call in &calls {
            check(&*self.backend, &call.key, &call.op)
                .map_err(|error| Error::Invalid { key: call.key.clone(), error })?;
        }
        nesting::check(&self.backend, &calls)?;
        match self.backend.instant(&calls) {
            InstantOutcome::Done(replies) => Ok(replies),
            InstantOutcome::Failed { key, error } => Err(Error::Invalid { key, error }),
            InstantOutcome::Blocked => self.run_with_locks(&calls).await,
        }
    }

    /// Somebody holds a record: waits for its lock like any other transaction.
    async fn run_with_locks(&self, calls: &[Call]) -> Result<Vec<Reply>, Error> {
        let buffered = |tx: Tx| async move {
            tx.buffer(calls)?;
            Ok(tx)
        };
        let tx = self.transaction(buffered).await?;
        Ok(tx.committed_replies(calls.len()))
    }
}
