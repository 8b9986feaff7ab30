//! A one-shot transaction: all its operations are known up front and go together.
//!
//! It commits in one step. If nobody else's claims conflict it takes no lock at all.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use claret_core::Cause;
use claret_core::message::Refusal;
use claret_types::{Access, Bytes, Command, FromReply, KeyspaceOp, OpError, Operation, Reply};
use parking_lot::Mutex;

use crate::backend::{InstantOutcome, Sent, SentOutcome, UntilDurable};
use crate::call::Call;
use crate::deadline::Deadline;
use crate::decode::{Decode, Keys};
use crate::error::{Abort, BeginError, Error, ExecuteError, HandleError, NestError};
use crate::nesting;
use crate::observe::Observed;
use crate::outcome::OutcomeId;
use crate::stats::{Measure, Outcome};
use crate::store::{Begun, Store, doom_first};
use crate::tx::{OneShot, Tx, as_error, check, in_order, key_of, strange, writes};

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
    pub(crate) store: Store,
    /// Shared by the clones that typed records hold. Locked only for a moment, and mostly by one thread.
    calls: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    all: Vec<Call>,
    /// The types against which the answers of servers are checked.
    wanted: Vec<Wanted>,
    /// The keys of calls whose answers may be values of another type, in their order.
    keys: Vec<(usize, Bytes)>,
    /// Why it cannot commit: a value that has no form as bytes.
    doomed: Option<Error>,
}

/// An answer that is wanted: its place, and whether it is of its kind.
type Wanted = (Place, fn(&Reply) -> bool);

/// Where an answer is among those of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    At(usize),
    /// An array of several answers.
    From {
        first: usize,
        count: usize,
    },
    /// Its operation was refused.
    Nowhere,
}

impl Place {
    fn find(self, replies: &[Reply]) -> Option<Reply> {
        match self {
            Place::At(at) => replies.get(at).cloned(),
            Place::From { first, count } => {
                let several = replies.get(first..first.checked_add(count)?)?;
                Some(Reply::Array(several.to_vec()))
            }
            Place::Nowhere => None,
        }
    }

    /// Those that came together were rolled back together.
    fn first(self) -> Option<usize> {
        match self {
            Place::At(first) | Place::From { first, .. } => Some(first),
            Place::Nowhere => None,
        }
    }
}

/// A command that the server of its key carries out.
pub(crate) fn command<W: AsRef<[u8]>>(access: Access, words: impl IntoIterator<Item = W>) -> Operation {
    let words: Vec<Bytes> = words.into_iter().map(|word| Bytes::copy_from(word.as_ref())).collect();
    Operation::from(KeyspaceOp::Run(Command::new(access, &words)))
}

/// Stands for an operation's answer until the batch is committed.
#[must_use = "the answer of a returning operation is found with its ticket; use the void variant otherwise"]
pub struct Ticket<R> {
    place: Place,
    read: Decode<R>,
}

impl<R> Ticket<R> {
    /// Of the operation in this place.
    pub(crate) fn at(place: usize, read: Decode<R>) -> Self {
        Ticket { place: Place::At(place), read }
    }

    /// Of several, whose answer is an array of theirs.
    pub(crate) fn from(first: usize, count: usize, read: Decode<R>) -> Self {
        Ticket { place: Place::From { first, count }, read }
    }

    /// Of an operation that was refused.
    pub(crate) fn of_nothing() -> Self {
        Ticket { place: Place::Nowhere, read: Decode::nothing() }
    }
}

impl<R> Clone for Ticket<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Ticket<R> {}

impl<R> fmt::Debug for Ticket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.place).finish()
    }
}

impl<R> PartialEq for Ticket<R> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<R> Eq for Ticket<R> {}

/// The answers of a committed batch.
#[derive(Debug)]
pub struct Replies {
    all: Vec<Reply>,
    keys: Vec<(usize, Bytes)>,
    /// Those that were rolled back, in their order.
    undone: Vec<usize>,
}

impl Replies {
    /// All answers, the keys of those that may be values of another type, and which were rolled back.
    pub(crate) fn of(all: Vec<Reply>, keys: Vec<(usize, Bytes)>, undone: Vec<usize>) -> Self {
        Replies { all, keys, undone }
    }

    /// The answer of one operation.
    ///
    /// # Errors
    /// [`HandleError::OtherTicket`](crate::errors::HandleError::OtherTicket) if the ticket belongs to another batch, [`NestError::RolledBack`](crate::errors::NestError::RolledBack) if it is of an operation of
    /// [`Tx::at_commit`](crate::Tx::at_commit) that was rolled back. [`ExecuteError::Value`](crate::errors::ExecuteError::Value) if the value is not of the type that
    /// was asked for; [`Replies::into_inner`] still has it.
    pub fn get<R>(&self, ticket: Ticket<R>) -> Result<R, Error> {
        let reply = ticket.place.find(&self.all).ok_or(Error::Handle(HandleError::OtherTicket))?;
        if ticket.place.first().is_some_and(|first| self.undone.binary_search(&first).is_ok()) {
            return Err(Error::Nest(NestError::RolledBack));
        }
        ticket.read.read(&self.keys_of(ticket.place), reply, || Error::Handle(HandleError::OtherTicket))
    }

    fn keys_of(&self, place: Place) -> Keys {
        let from = |at| self.keys.partition_point(|(known, _)| *known < at);
        match place {
            Place::At(at) => match self.keys.get(from(at)) {
                Some((known, key)) if *known == at => Keys::One(key.clone()),
                _ => Keys::None,
            },
            Place::From { first, count } => {
                let several = self.keys[from(first)..].iter().take(count);
                Keys::Many(several.map(|(_, key)| key.clone()).collect())
            }
            Place::Nowhere => Keys::None,
        }
    }

    /// All answers, in the order of the operations.
    pub fn into_inner(self) -> Vec<Reply> {
        self.all
    }
}

impl Batch {
    pub(crate) fn new(store: Store) -> Self {
        Batch { store, calls: Default::default() }
    }

    /// Adds an operation.
    pub fn push<R: FromReply>(&self, key: impl Into<Bytes>, op: Operation) -> Ticket<R> {
        self.push_as(key.into(), op, Decode::plain())
    }

    /// Has the server of this key carry out a command that is no operation of any type, with all else of the batch or not at all: `XADD`,
    /// `PFADD`, `GEOADD`. The words are the whole command, and its only key is this one. On a cluster alone; `docs/scripts.md` has the
    /// rules. O(the command).
    ///
    /// The answer is the server's. [`Reply::Failed`]: it failed when it was carried out, which is rare.
    ///
    /// # Errors
    /// The commit answers [`ExecuteError::Invalid`](crate::errors::ExecuteError::Invalid) with what the server says, where it cannot be done.
    pub fn command<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Ticket<Reply> {
        self.push(key, command(Access::Write, words))
    }

    /// The same of a command that only reads: others may read the record beside it.
    pub fn command_ro<W: AsRef<[u8]>>(
        &self,
        key: impl Into<Bytes>,
        words: impl IntoIterator<Item = W>,
    ) -> Ticket<Reply> {
        self.push(key, command(Access::Read, words))
    }

    pub(crate) fn push_as<R>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Ticket<R> {
        let is_wanted = op.returns() && self.store.backend.checks_answers();
        let mut calls = self.calls.lock();
        let at = calls.all.len();
        if is_wanted {
            calls.wanted.push((Place::At(at), read.fits()));
        }
        if read.may_fail() {
            calls.keys.push((at, key.clone()));
        }
        calls.all.push(Call { key, op });
        Ticket::at(at, read)
    }

    /// Adds operations whose answer is an array of theirs.
    pub(crate) fn push_many<R>(&self, added: Vec<(Bytes, Operation)>, read: Decode<R>) -> Ticket<R> {
        let mut calls = self.calls.lock();
        let (first, count) = (calls.all.len(), added.len());
        let place = Place::From { first, count };
        if self.store.backend.checks_answers() {
            calls.wanted.push((place, read.fits()));
        }
        for (key, op) in added {
            let at = calls.all.len();
            if read.may_fail() {
                calls.keys.push((at, key.clone()));
            }
            calls.all.push(Call { key, op });
        }
        Ticket::from(first, count, read)
    }

    /// The batch commits only if this operation answers that, seen together with all others of the batch: a *mini-transaction*
    /// (M. Aguilera and others, "Sinfonia", SOSP 2007), over all types. It costs no more than the batch does. What the operation
    /// would do is done only if all that is expected is so; to look without doing anything, expect of an operation that only reads.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{OpError, Records, Reply, Store};
    /// let store = Store::in_memory();
    /// let batch = store.batch();
    /// let owner = batch.register("lamp:owner").get::<String>();
    /// batch.expect(owner, "ann");
    /// batch.register("lamp:owner").set("bob");
    /// let unmet = batch.commit().await.unwrap_err();
    /// // Nobody owns it: nothing was done, and the error has what was found.
    /// let Some(OpError::Unexpected { found, .. }) = unmet.op_error() else { panic!("{unmet:?}") };
    /// assert_eq!(**found, Reply::Nil);
    /// # });
    /// ```
    ///
    /// # Errors
    /// The commit answers [`ExecuteError::Invalid`](crate::errors::ExecuteError::Invalid) with the key: [`OpError::Unexpected`] has the answer that was found. It waits, as other
    /// errors do, until nobody else holds the record. It is refused for an operation that answers nothing or has its answer already,
    /// and in the mode `none`.
    pub fn expect<R>(&self, ticket: Ticket<R>, answer: impl Into<Reply>) {
        let (mut calls, answer) = (self.calls.lock(), answer.into());
        let (first, answers) = match (ticket.place, answer) {
            (Place::At(at), answer) => (at, vec![answer]),
            (Place::From { first, count }, Reply::Array(answers)) if answers.len() == count => {
                (first, answers)
            }
            (Place::From { .. }, _) | (Place::Nowhere, _) => {
                let error =
                    OpError::Custom("as many answers have to be expected as there are operations".into());
                calls
                    .doomed
                    .get_or_insert(Error::Execute(ExecuteError::Invalid { key: Bytes::default(), error }));
                return;
            }
        };
        let Calls { all, doomed, .. } = &mut *calls;
        let Some(asked) = all.get_mut(first..first.saturating_add(answers.len())) else {
            doomed.get_or_insert(Error::Handle(HandleError::OtherTicket));
            return;
        };
        for (call, answer) in asked.iter_mut().zip(&answers) {
            let method = call.op.method().name;
            if call.op.returns() && !call.op.expects() && !call.op.is_command() {
                call.op = call.op.demanding(answer);
                continue;
            }
            let why = if call.op.is_command() {
                "answers when it is carried out, and nothing can be expected of it before"
            } else if call.op.expects() {
                "is to answer something else already"
            } else {
                "answers nothing that could be expected"
            };
            let error = OpError::Custom(format!("{method} {why}").into());
            doomed.get_or_insert(Error::Execute(ExecuteError::Invalid { key: call.key.clone(), error }));
        }
    }

    /// The commit answers this error, and the first one if there are several.
    pub(crate) fn doom(&self, error: Error) {
        self.calls.lock().doomed.get_or_insert(error);
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
        let Calls { all, wanted, keys, doomed } = std::mem::take(&mut *self.calls.lock());
        if let Some(error) = doomed {
            return Err(error);
        }
        let are_writing = are_writing(&all);
        let all = self.store.run(all).await?;
        // It was carried out, or the server lies about that too.
        let is_of_its_kind = |(place, fits): &Wanted| match place {
            Place::At(at) => all.get(*at).is_some_and(fits),
            place => place.find(&all).as_ref().is_some_and(fits),
        };
        match wanted.iter().all(is_of_its_kind) {
            true => Ok(Replies::of(all, keys, Vec::new())),
            false => Err(strange(are_writing)),
        }
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

    pub(crate) async fn run(&self, mut calls: Vec<Call>) -> Result<Vec<Reply>, Error> {
        let limit = self.backend.limits().calls_max;
        if calls.len() > limit as usize {
            return Err(Error::Execute(ExecuteError::TooManyCalls { limit }));
        }
        if self.backend.is_closed() {
            return Err(Error::Begin(BeginError::Closed));
        }
        for call in &mut calls {
            if call.op.is_timed() || call.op.is_command() {
                self.backend.resolve(&mut call.op);
            }
            check(&*self.backend, &call.key, &call.op)
                .map_err(|error| Error::Execute(ExecuteError::Invalid { key: call.key.clone(), error }))?;
        }
        nesting::check(&self.backend, &calls)?;
        if self.backend.has_log() {
            self.backend.check_log(are_writing(&calls))?;
        }
        let counts = self.backend.counts();
        let measure = counts.begin();
        let from = self.backend.noted();
        match self.backend.instant(&calls) {
            InstantOutcome::Done(replies) => match self.until_durable(|| are_writing(&calls)) {
                None => {
                    counts.end(Outcome::Committed, measure, None);
                    Ok(replies)
                }
                Some(until_durable) => {
                    let durable = Box::pin(self.instant_until_durable(
                        until_durable,
                        from,
                        are_writing(&calls),
                        measure,
                    ));
                    durable.await.map(|()| replies)
                }
            },
            InstantOutcome::Failed { key, error } => {
                counts.end(Outcome::Failed, measure, None);
                Err(Error::Execute(ExecuteError::Invalid { key, error }))
            }
            InstantOutcome::Blocked => {
                let are_writing = are_writing(&calls);
                match self.backend.send(calls) {
                    Ok(sent) => self.gather(sent, are_writing, measure).await,
                    Err(calls) if self.backend.commits_by_itself() => {
                        self.run_one_shot(&calls, measure).await
                    }
                    // In a box: it is large, and mostly nobody is in the way.
                    Err(calls) => Box::pin(self.run_with_locks(&calls, measure)).await,
                }
            }
        }
    }

    /// Waits for the answers to calls that were sent as they are. Where nobody knows whether they were carried out, those
    /// that only read are sent again.
    async fn gather(
        &self,
        mut sent: Arc<dyn Sent>,
        are_writing: bool,
        measure: Measure,
    ) -> Result<Vec<Reply>, Error> {
        let counts = self.backend.counts();
        let mut observed = Observed::begin(counts, Some(measure));
        let waited = OnceLock::new();
        let mut deadline = self.deadline(self.options);
        for made in 1.. {
            let span = observed.attempt(made);
            let ended = poll_fn(|cx| match sent.take(cx.waker()) {
                Some(outcome) => Poll::Ready(Some(outcome)),
                None if self.backend.is_closed() => Poll::Ready(None),
                None => {
                    counts.wait(&waited);
                    Poll::Pending
                }
            });
            let ended = deadline.race(ended).await.flatten();
            observed.note_wait(waited.get());
            let cause = match ended {
                Some(SentOutcome::Done(replies)) => {
                    observed.commits();
                    return Ok(replies);
                }
                Some(SentOutcome::Failed(refusal)) => return Err(observed.fails(as_error(&refusal))),
                Some(SentOutcome::Unknown) if are_writing => {
                    return Err(observed.fails(Error::Unknown(OutcomeId::nobody())));
                }
                Some(SentOutcome::Unknown) => Cause::Refused(Refusal::Unknown),
                None => return Err(observed.fails(self.backend.too_late(self.options.deadline))),
            };
            if let Err(error) =
                Box::pin(self.pause_before_again(made, &cause, self.options, &mut deadline)).await
            {
                return Err(observed.fails(error));
            }
            observed.restarts(&cause, key_of(&cause).as_slice(), &span);
            sent = sent.again();
        }
        unreachable!("attempts are bounded")
    }

    /// [`Store::wait_until_durable`] for what was done at once.
    async fn instant_until_durable(
        &self,
        until_durable: UntilDurable,
        from: u64,
        writes: bool,
        measure: Measure,
    ) -> Result<(), Error> {
        let after = self.options.deadline;
        let mut deadline = Deadline::new(&*self.backend, after);
        let durable = self.wait_until_durable((until_durable, from), writes, after, &mut deadline).await;
        let outcome = if durable.is_ok() { Outcome::Committed } else { Outcome::Failed };
        self.backend.counts().end(outcome, measure, None);
        durable
    }

    /// Commits them in one attempt; if that does not come to a commit, whatever it came to, as any other transaction.
    async fn run_one_shot(&self, calls: &[Call], measure: Measure) -> Result<Vec<Reply>, Error> {
        let mut observed = Observed::begin(self.backend.counts(), Some(measure));
        let span = observed.attempt(1);
        let mut deadline = self.deadline(self.options);
        let from = self.backend.noted();
        // Those of which spans tell go the long way, where these hear of their waits.
        let begun =
            (!span.is_told()).then(|| OneShot::begin(&self.backend, self.since(), calls).ok()).flatten();
        let tx = match begun {
            None => Tx::begin((&self.backend, self.since()), 0, &span),
            Some(one_shot) => {
                let waits = || one_shot.is_blocked();
                let committed = deadline.race_while(one_shot.committed(&*self.backend), waits).await;
                if let Some(replies) = committed.flatten() {
                    one_shot.end();
                    if let Some(until_durable) = self.until_durable(|| are_writing(calls)) {
                        let durable = self
                            .wait_until_durable(
                                (until_durable, from),
                                are_writing(calls),
                                self.options.deadline,
                                &mut deadline,
                            )
                            .await;
                        durable.map_err(|error| observed.fails(error))?;
                    }
                    observed.commits();
                    return Ok(in_order(replies, calls.len()));
                }
                one_shot.go_on(&self.backend, calls, &span)
            }
        };
        let begun = Begun { observed, span, tx, deadline };
        let tx = Box::pin(self.go_on(begun, self.options, buffered(calls), doom_first)).await?;
        Ok(tx.committed_replies(calls.len()))
    }

    /// Somebody holds a record: waits for its lock like any other transaction.
    async fn run_with_locks(&self, calls: &[Call], measure: Measure) -> Result<Vec<Reply>, Error> {
        let begun = Begun::new(self, self.options, Some(measure));
        let tx = self.go_on(begun, self.options, buffered(calls), doom_first).await?;
        Ok(tx.committed_replies(calls.len()))
    }
}

/// Whether any of these may change something.
fn are_writing(calls: &[Call]) -> bool {
    calls.iter().any(|call| writes(&call.op))
}

/// The closure of a transaction of these calls alone.
fn buffered(calls: &[Call]) -> impl FnMut(Tx) -> std::future::Ready<Result<Tx, Abort>> {
    |tx| std::future::ready(tx.buffer(calls).map(|()| tx).map_err(Abort::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each operation on a cluster makes one, and the allocator keeps what is no larger at hand.
    #[test]
    fn a_future_that_waits_for_locks_is_of_a_handy_size() {
        const HANDY: usize = 1_024;
        let store = Store::in_memory();
        let waits = store.run_with_locks(&[], store.backend.counts().begin());
        assert!(size_of_val(&waits) <= HANDY, "{} bytes", size_of_val(&waits));
    }
}
