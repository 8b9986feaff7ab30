//! A transaction in progress.
//!
//! [`Tx`] is an owned, cheaply cloned handle, so that it can be moved into tasks. All clones of one attempt share the
//! coordinator behind a mutex; the mutex is never held across an await. Once an attempt is decided (committed,
//! aborted, restarted) every clone answers [`HandleError::Finished`](crate::errors::HandleError::Finished) or [`Error::Restart`].
//!
//! The decision may come at any time, for example while the closure waits for something else. So every call, and the
//! commit, first reads what has arrived, and names its attempt to the driver, which may know more by then (P61).
//!
//! Dropping the future of `Store::transaction` in mid-flight, or a panic in the closure, aborts the attempt: its
//! locks are released and nothing is applied.

mod answers;
mod at_commit;
mod committing;
mod errors;
mod issued;
mod issuing;
mod last;
mod levels;
mod nested;
mod observed;
mod one_shot;
mod optimistic;
mod waiting;

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use claret_core::{CallNo, Cause, Closed, Time};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Operation, Reply};
use futures_timer::Delay;
use parking_lot::Mutex;

use crate::backend::{Backend, Behind, Driver};
use crate::call::Call;
use crate::error::{BeginError, Error, HandleError};
use crate::mailbox::Mailbox;
use crate::nesting::Nested;
use crate::observe::{AttemptSpan, WaitEvents};
use crate::outcome::OutcomeId;
use answers::Answers;
pub(crate) use errors::{as_error, key_of, strange};
use issued::Issued;
pub(crate) use issuing::{check, writes};
use last::Last;
use levels::Levels;
pub use nested::Savepoint;
use observed::Optimistic;
pub(crate) use one_shot::{OneShot, in_order};

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Committed,
    Aborted,
    Restart(Cause),
    Failed(Error),
    /// Nobody knows the outcome (P65).
    Unknown,
}

/// What the clones of a handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    /// It is as old as what began then.
    since: Option<Time>,
    mailbox: Arc<Mailbox>,
    /// It began within the closure of another transaction.
    pub(crate) nested: Option<Box<Nested>>,
    /// Attempts that were made before, by a driver that could not go on.
    earlier: u32,
    /// When it first had to wait, where that is measured.
    waited: OnceLock<Instant>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Once there is something to hold or to wait for.
    driver: Option<Box<dyn Driver>>,
    /// Operations for the commit that no driver knows of yet.
    buffered: Vec<Call>,
    attempt: u32,
    issued: Issued,
    answers: Answers,
    /// It looks without locks.
    optimistic: Option<Box<Optimistic>>,
    /// What runs at the commit, behind all others.
    last: Last,
    /// What is open within it.
    levels: Levels,
    /// What a shard said of who is in the way, once that was asked for.
    behind: Option<Option<Behind>>,
    /// What it waited for last: keys.
    waited_for: Vec<Bytes>,
    committing: bool,
    end: Option<End>,
    /// The driver said that the transaction is over, for all attempts.
    over: bool,
    wait_events: WaitEvents,
}

impl State {
    #[cold]
    fn look(&mut self) {
        let driver = self.driver.as_ref();
        let (name, wait) = driver.map_or((None, None), |driver| (driver.name(), driver.wait(None)));
        let goes_on = matches!(self.end, None | Some(End::Committed));
        self.wait_events.look(name, wait, goes_on);
    }
}

/// A transaction in progress: a cheaply cloned handle. Typed records come from
/// [`Records`](crate::Records), as in `tx.set("tags").add("red")`.
#[derive(Clone, Debug)]
pub struct Tx {
    pub(crate) shared: Arc<Shared>,
    /// As its driver counts them.
    pub(crate) attempt: u32,
    /// The nested transaction that it is the handle of; 0: of the transaction itself.
    scope: u32,
}

impl Tx {
    /// The first attempt, or the first one of another driver after some `earlier` ones.
    pub(crate) fn begin(on: (&Arc<dyn Backend>, Option<Time>), earlier: u32, span: &AttemptSpan) -> Self {
        Self::with_mailbox(on, earlier, span, Arc::default())
    }

    fn with_mailbox(
        (backend, since): (&Arc<dyn Backend>, Option<Time>),
        earlier: u32,
        span: &AttemptSpan,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        let (backend, nested) = (Arc::clone(backend), Nested::here());
        let shared = Shared {
            backend,
            since,
            mailbox,
            nested,
            earlier,
            waited: OnceLock::new(),
            state: Mutex::new(State {
                driver: None,
                buffered: Vec::new(),
                attempt: 1,
                issued: Issued::default(),
                answers: Answers::default(),
                optimistic: None,
                last: Last::default(),
                levels: Levels::default(),
                behind: None,
                waited_for: Vec::new(),
                committing: false,
                end: None,
                over: false,
                wait_events: WaitEvents::none(),
            }),
        };
        let tx = Tx::of(Arc::new(shared), 1);
        if span.is_told() {
            tx.shared.state.lock().wait_events = WaitEvents::of(span);
        }
        tx
    }

    pub(crate) fn of(shared: Arc<Shared>, attempt: u32) -> Self {
        Tx { shared, attempt, scope: 0 }
    }

    /// Which attempt of the transaction this handle is of: 1 for the first, and one more each time the store runs the
    /// closure again. For logs, and to see in a test that a closure was run again.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::Store;
    /// let attempt = Store::in_memory().transaction(async |tx| Ok(tx.attempt())).await?;
    /// assert_eq!(attempt, 1, "nobody was in its way");
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn attempt(&self) -> u32 {
        self.shared.earlier + self.attempt
    }

    /// The next attempt, once this one has ended in a restart.
    pub(crate) fn again(&self, span: &AttemptSpan) -> Result<Tx, Closed> {
        let mut state = self.shared.state.lock();
        self.shared.begin_again(&mut state);
        if state.over {
            return Err(Closed); // Nothing comes any more from a driver that said so.
        }
        if let Some(driver) = &mut state.driver {
            driver.restart(self.attempt)?;
        }
        state.attempt += 1;
        if !is_planted(Bug::BufferedCallsStay) {
            state.buffered.clear();
        }
        state.answers.begin_again();
        state.issued = Issued::default();
        state.last = Last::default();
        state.waited_for.clear();
        state.levels.begin_again();
        state.committing = false;
        state.end = None;
        state.wait_events = WaitEvents::of(span);
        if let Some(nested) = &self.shared.nested {
            nested.begin_again();
        }
        Ok(Tx { shared: Arc::clone(&self.shared), attempt: state.attempt, scope: 0 })
    }
}

/// Answers and the end.
impl Tx {
    /// Waits for the answer of a call.
    pub(crate) fn poll_answer(
        &self,
        cx: &mut Context<'_>,
        timer: &mut Option<Delay>,
        no: CallNo,
    ) -> Poll<Result<Reply, Error>> {
        let is_closed = |state: &State| !state.committing && self.shared.backend.is_closed();
        self.shared.poll(cx, timer, Some(no), |state| {
            if state.attempt != self.attempt {
                return Some(Err(Error::Handle(HandleError::Finished)));
            }
            if let Some(answer) = state.answer(no) {
                return Some(answer);
            }
            match &state.end {
                Some(end) => Some(Err(self.shared.after(end))),
                None => is_closed(state).then_some(Err(Error::Begin(BeginError::Closed))),
            }
        })
    }

    /// Names it for who asks later what became of it, after its end was not heard.
    pub(crate) fn outcome_id(&self) -> OutcomeId {
        let mut state = self.shared.state.lock();
        let named = state.driver.as_mut().and_then(|driver| driver.outcome_id());
        named.unwrap_or_else(OutcomeId::nobody)
    }

    /// Whether an operation of another transaction may wait for what this attempt has executed.
    pub(crate) fn conflicts_with(&self, key: &Bytes, op: &Operation) -> bool {
        let state = self.shared.state.lock();
        let is_running = state.attempt == self.attempt && state.end.is_none();
        is_running && state.driver.as_ref().is_some_and(|driver| driver.conflicts_with(key, op))
    }

    /// When the transaction first had to wait, where that is measured.
    pub(crate) fn waited(&self) -> Option<&Instant> {
        self.shared.waited.get()
    }

    /// Whether this attempt may have changed a record, if it committed.
    pub(crate) fn writes(&self) -> bool {
        self.shared.state.lock().issued.writes()
    }

    /// The transaction's user is done with it, whatever handles there still are: what is not committed is given up.
    pub(crate) fn leave(&self) {
        let mut state = self.shared.state.lock();
        self.shared.end_by(&mut state, End::Aborted);
        self.shared.leave_looks(&mut state);
        let State { driver: Some(driver), over, end, .. } = &mut *state else { return };
        driver.end(*over);
        *over = true;
        // Other tasks may wait for answers, and nobody will be told of an end that is still to come.
        end.get_or_insert(End::Unknown);
        self.shared.mailbox.wake();
    }

    /// Ends the attempt without committing it, unless it is committed already. `None`: it is part of a group that
    /// is committing, and how that ends is not known yet.
    pub(crate) fn abort(&self) -> Option<End> {
        let mut state = self.shared.state.lock();
        if state.attempt == self.attempt {
            self.shared.end_by(&mut state, End::Aborted);
        }
        state.end.clone()
    }

    /// Ends the attempt because of an error, whatever is open within it.
    pub(crate) fn fail_all(&self, error: Error) -> Error {
        let mut state = self.shared.state.lock();
        if let Err(over) = self.check_attempt(&mut state) {
            return over;
        }
        self.shared.doom_all(&mut state, error.clone());
        error
    }

    /// Ends the innermost nested transaction, or the attempt, because of an error, which is what it answers from now on; or what it
    /// answers, if it was over.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut state = self.shared.state.lock();
        if let Err(over) = self.check_open(&mut state) {
            return over;
        }
        self.shared.doom(&mut state, error.clone());
        error
    }

    /// Whether something may be done by this handle, by all that has come of it.
    fn check_open(&self, state: &mut State) -> Result<(), Error> {
        self.check_handle(state)?;
        state.levels.doomed().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Whether this attempt runs, by all that has come of it.
    fn check_attempt(&self, state: &mut State) -> Result<(), Error> {
        if state.attempt != self.attempt {
            return Err(Error::Handle(HandleError::Finished));
        }
        self.shared.pump(state);
        match &state.end {
            None if !state.committing => {
                let doom = state.optimistic.as_ref().and_then(|it| it.doomed.as_ref());
                doom.map_or(Ok(()), |error| Err(error.clone()))
            }
            None => Err(Error::Handle(HandleError::Finished)),
            Some(end) => Err(self.shared.after(end)),
        }
    }

    /// The driver did not take a call, for the attempt is over: why.
    fn closed(&self, state: &mut State) -> Error {
        let known = self.check_attempt(state).err();
        known.unwrap_or_else(|| {
            self.shared.end_by(state, End::Failed(Error::Handle(HandleError::Finished)));
            Error::Handle(HandleError::Finished)
        })
    }
}

impl Shared {
    /// What an operation of an attempt that ended like this answers.
    fn after(&self, end: &End) -> Error {
        match end {
            // It will not.
            End::Restart(_) if self.backend.is_closed() => Error::Begin(BeginError::Closed),
            End::Restart(_) => Error::Restart,
            End::Failed(error) => error.clone(),
            End::Committed | End::Aborted | End::Unknown => Error::Handle(HandleError::Finished),
        }
    }

    /// Ends the attempt without committing it, unless it turns out to be over already. Alone it never waits, since
    /// shards are a call away; in a group that is committing the end may come later.
    fn end_by(&self, state: &mut State, end: End) {
        // Where it is to be run again, that is its end: what its user found and gives up for may have been no more.
        self.pump(state);
        if state.end.is_some() {
            return;
        }
        let known = match &mut state.driver {
            None => true,
            Some(driver) => {
                driver.abort();
                self.pump(state);
                state.end.is_some()
            }
        };
        if known && matches!(state.end, None | Some(End::Aborted)) {
            state.end = Some(end);
        }
        self.mailbox.wake();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.optimistic.as_ref().is_some_and(|it| it.awaited > 0) {
            self.backend.leave_looks(&self.mailbox);
        }
        if let Some(driver) = &mut state.driver {
            driver.end(state.over);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::observe::TransactionSpan;
    use crate::store::Store;
    use crate::tx::Tx;

    /// A driver that cannot go on is replaced by another one, which begins to count anew.
    #[test]
    fn attempts_are_counted_over_all_drivers() {
        let (store, span) = (Store::in_memory(), TransactionSpan::begin());
        let first = Tx::begin((&store.backend, None), 0, &span.attempt(1));
        let second = first.again(&span.attempt(2)).expect("nothing is under way");
        let third = Tx::begin((&store.backend, None), second.attempt(), &span.attempt(3));
        let fourth = third.again(&span.attempt(4)).expect("nothing is under way");
        assert_eq!([first, second, third, fourth].map(|tx| tx.attempt()), [1, 2, 3, 4]);
    }
}
