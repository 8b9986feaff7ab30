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

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use claret_core::message::Refusal;
use claret_core::{CallNo, Cause, Closed, Event, Time};
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, OpError, Operation, Reply};
use futures_timer::Delay;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::backend::{Backend, Behind, Driver, InstantOutcome};
use crate::call::Call;
use crate::error::{BeginError, Error, ExecuteError, HandleError};
use crate::mailbox::Mailbox;
use crate::nesting::Nested;
use crate::observe::{AttemptSpan, WaitEvents};
use crate::outcome::OutcomeId;
use answers::Answers;
pub(crate) use errors::{as_error, key_of, strange};
use issued::Issued;
use last::Last;
use levels::Levels;
pub use nested::Savepoint;
use observed::{Optimistic, Seeing};
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

    /// Begins the commit, or finds that the attempt is over. Not while an answer is missing: then it returns false.
    fn begin_commit(&self) -> bool {
        let mut state = self.shared.state.lock();
        self.shared.pump(&mut state);
        if state.end.is_some() || state.committing {
            return true;
        }
        if self.shared.backend.is_closed() {
            self.shared.end_by(&mut state, End::Failed(Error::Begin(BeginError::Closed)));
            return true;
        }
        if !state.answers.are_complete() {
            return false;
        }
        if let Some(error) = state.fails_to_commit() {
            self.shared.doom_all(&mut state, error);
            if state.end.is_some() {
                return true;
            }
        }
        let only_checked = state.only_checked(state.buffered.len());
        let checks = state.gather_observed();
        if !checks {
            state.gather_last();
        }
        if only_checked.is_empty()
            && let Some(end) = self.shared.commit_instantly(&mut state, checks)
        {
            match end {
                End::Restart(Cause::Refused(refusal)) => self.shared.renounce(&mut state, refusal),
                end => state.end = Some(end),
            }
            return true;
        }
        let (driver, buffered) = self.shared.driver(&mut state);
        let told = match only_checked.is_empty() {
            true => Ok(()),
            false => driver.only_check(self.attempt, &only_checked),
        };
        let begun = told.and_then(|()| match checks {
            true => driver.check(self.attempt, buffered),
            false => driver.commit(self.attempt, buffered),
        });
        match begun {
            Ok(()) => {
                state.committing = true;
                self.shared.pump(&mut state);
            }
            Err(Closed) => drop(self.closed(&mut state)),
        }
        true
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

    /// Lets an operation in: the attempt runs, the operation is well-formed, and there are not too many.
    fn admit(&self, state: &mut State, key: Bytes, mut op: Operation) -> Result<Call, Error> {
        self.check_open(state)?;
        if op.is_timed() {
            self.shared.backend.resolve(&mut op);
        }
        let limit = self.shared.backend.limits().calls_max;
        let error = match check(&*self.shared.backend, &key, &op) {
            _ if self.shared.backend.is_closed() => Error::Begin(BeginError::Closed),
            Ok(()) if state.issued.add(limit, writes(&op)) => return Ok(Call { key, op }),
            Ok(()) => Error::Execute(ExecuteError::TooManyCalls { limit }),
            Err(error) => Error::invalid(key, error),
        };
        self.shared.doom(state, error.clone());
        Err(error)
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

/// Whether an operation may change its record. What only reads leaves nothing that could be unknown (P65).
pub(crate) fn writes(op: &Operation) -> bool {
    op.method().access == Access::Write
}

/// Checks an operation and its key before anything is locked.
pub(crate) fn check(backend: &dyn Backend, key: &Bytes, op: &Operation) -> Result<(), OpError> {
    if key.is_empty() {
        return Err(OpError::EmptyKey);
    }
    let limits = backend.limits();
    if key.len() > limits.key_bytes_max {
        return Err(OpError::TooLarge { what: "key".into(), size: key.len(), limit: limits.key_bytes_max });
    }
    backend.knows(op)?;
    op.check(limits.value_bytes_max)?;
    backend.schema().map_or(Ok(()), |schema| schema.check(key, op))
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

    /// The transaction's driver, and what is buffered and goes to it with the next call or the commit.
    fn driver<'a>(&self, state: &'a mut State) -> (&'a mut dyn Driver, &'a mut Vec<Call>) {
        let State { driver, buffered, .. } = state;
        let driver = driver.get_or_insert_with(|| Arc::clone(&self.backend).begin(&self.mailbox, self.since));
        (&mut **driver, buffered)
    }

    /// Everything was buffered and nobody is in the way: done at once. `None`: the long way.
    fn commit_instantly(&self, state: &mut State, checks: bool) -> Option<End> {
        if state.issued.was_sent() {
            return None;
        }
        let outcome = match checks {
            true if state.buffered.is_empty() => InstantOutcome::Done(Vec::new()),
            true => self.backend.check_instantly(&state.buffered),
            false => self.backend.instant(&state.buffered),
        };
        match outcome {
            InstantOutcome::Done(replies) => {
                state.answers.commit_at_once(replies);
                Some(Optimistic::end_of_commit(state.optimistic.as_deref()))
            }
            InstantOutcome::Blocked => None,
            InstantOutcome::Failed { key, error: OpError::Changed } => {
                Some(End::Restart(Cause::Refused(Refusal::Changed { key })))
            }
            InstantOutcome::Failed { key, error } => {
                let refusal = Refusal::Operation { key, error: Box::new(error) };
                Some(match state.optimistic.as_mut().is_some_and(|it| it.locks_after(&refusal)) {
                    true => End::Restart(Cause::Refused(refusal)),
                    false => End::Failed(as_error(&refusal)),
                })
            }
        }
    }

    /// Exchanges messages, then takes note of what they brought.
    fn pump(&self, state: &mut State) {
        match (&state.driver, &state.optimistic) {
            (Some(_), _) => self.hear(state, |driver, note| {
                driver.iter_mut().for_each(|driver| driver.exchange(&self.mailbox, note));
            }),
            // Looks need none.
            (None, Some(_)) => self.hear(state, |_, note| {
                self.mailbox.take_events().into_iter().for_each(note);
            }),
            (None, None) => {}
        }
    }

    /// Takes note of what comes.
    fn hear(
        &self,
        state: &mut State,
        bring: impl FnOnce(&mut Option<Box<dyn Driver>>, &mut dyn FnMut(Event)),
    ) {
        let State { driver, answers, issued, optimistic, levels, behind, end, over, .. } = state;
        let mut answered = SmallVec::<[CallNo; 8]>::new();
        let (mut is_news, mut restarts, mut refused, mut fails) = (false, None, None, None);
        bring(driver, &mut |event| {
            *over |= event.is_last();
            match event {
                // It was given up between two attempts, before word of the restart was noted.
                Event::Aborted if matches!(end, Some(End::Restart(_))) => *end = Some(End::Aborted),
                _ if end.is_some() => {} // The first word of an end is the last one of the attempt.
                // That of an issued call, which went along, nobody waits for.
                Event::Answer { no, reply } => {
                    if answers.come(no) {
                        fails = fails.take().or(levels.hear(no, reply, answers, &mut answered));
                    }
                    return;
                }
                Event::Seen { no, seen } => match optimistic.as_mut().map(|it| it.take(no, seen)) {
                    Some(Seeing::Answer(reply)) => {
                        answers.come(no);
                        answers.put(no, reply);
                        return answered.push(no);
                    }
                    Some(Seeing::Fails { error, at }) => {
                        answers.come(no);
                        fails = fails.take().or(levels.hear_seen(error, at));
                    }
                    Some(Seeing::Restarts(refusal)) => restarts = Some(refusal),
                    Some(Seeing::Refused(refusal)) => refused = Some(refusal),
                    Some(Seeing::Nothing) | None => return,
                },
                Event::Behind { record } => *behind = Some(record),
                Event::Committed { replies } => {
                    answers.commit(replies);
                    *end = Some(Optimistic::end_of_commit(optimistic.as_deref()));
                }
                Event::Aborted => *end = Some(End::Aborted),
                Event::Restart { cause } => {
                    optimistic.iter_mut().for_each(|it| it.note_restart(&cause));
                    *end = Some(End::Restart(cause));
                }
                // It tells of what was seen as well, which may not be so any more.
                Event::Failed { refusal }
                    if optimistic.as_mut().is_some_and(|it| it.locks_after(&refusal)) =>
                {
                    // Nothing of it was done, and its driver is over.
                    issued.changed_nothing();
                    *end = Some(End::Restart(Cause::Refused(refusal)));
                }
                Event::Failed { refusal } => *end = Some(End::Failed(as_error(&refusal))),
                Event::Unknown => *end = Some(End::Unknown),
            }
            is_news = true;
        });
        // Other tasks may share this transaction.
        if is_news {
            self.mailbox.wake();
        } else if !answered.is_empty() {
            self.mailbox.wake_for(&answered);
        }
        self.follow(state, fails, restarts, refused);
    }

    /// Takes part in the exchange of messages until `done`, or arranges to be woken: by this answer and by what is no
    /// answer, or by everything.
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        timer: &mut Option<Delay>,
        answer: Option<CallNo>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.state.lock();
        let polled = loop {
            self.pump(&mut state);
            if let Some(result) = done(&mut state) {
                self.look(&mut state);
                break Poll::Ready(result);
            }
            if self.mailbox.watch(cx.waker(), answer) {
                continue;
            }
            let due = state.driver.as_ref().and_then(|driver| driver.poll_timeout());
            let now = due.map(|_| self.backend.now());
            if let (Some(due), Some(now)) = (due, now)
                && due <= now
            {
                if let Some(driver) = &mut state.driver {
                    driver.handle_timeout(now);
                }
                continue;
            }
            self.backend.counts().wait(&self.waited);
            state.note_wait();
            self.look(&mut state);
            let left = due.zip(now).map(|(due, now)| due.since(now));
            let Some(left) = left.into_iter().chain(state.wait_events.pause_us()).min() else {
                *timer = None;
                break Poll::Pending;
            };
            let mut delay = Delay::new(Duration::from_micros(left));
            if Pin::new(&mut delay).poll(cx).is_pending() {
                *timer = Some(delay);
                break Poll::Pending;
            }
        };
        let news = state.wait_events.take_news();
        drop(state);
        news.tell();
        polled
    }

    /// Collects what is to be told of the attempt's waits.
    #[inline]
    fn look(&self, state: &mut State) {
        if state.wait_events.are_told() {
            state.look();
        }
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
