//! A transaction in progress.
//!
//! [`Tx`] is an owned, cheaply cloned handle, so that it can be moved into tasks. All clones of one attempt share
//! the coordinator behind a mutex; the mutex is never held across an await. When the last word of an attempt is
//! spoken (committed, aborted, restarted) every clone answers [`OperationError::Finished`] or
//! [`OperationError::Restart`].
//!
//! Dropping the future of `Store::transaction` in mid-flight, or a panic in the closure, aborts the attempt: its
//! locks go and nothing is applied.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use claret_core::message::Refusal;
use claret_core::{CallNo, Cause, Coordinator, Event};
use claret_types::{Bytes, Claims, FromReply, Mode as LockMode, OpError, Operation, Reply};
use futures_timer::Delay;
use parking_lot::Mutex;

use crate::embedded::{Embedded, Instantly, Mailbox, Mode, Placed};
use crate::error::OperationError;

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Committed,
    Aborted,
    Restart(Cause),
    Failed(OperationError),
}

/// What the clones of a handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<Embedded>,
    mailbox: Arc<Mailbox>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    coordinator: Coordinator,
    attempt: u32,
    registered: bool,
    answers: Vec<(CallNo, Reply)>,
    /// Operations so far, held against the limit.
    calls: u32,
    end: Option<End>,
}

/// A transaction in progress: a cheaply cloned handle. Typed records come from
/// [`Records`](crate::Records), as in `tx.set("tags").add("red")`.
#[derive(Clone, Debug)]
pub struct Tx {
    pub(crate) shared: Arc<Shared>,
    attempt: u32,
}

impl Tx {
    pub(crate) fn begin(store: &Arc<Embedded>) -> Self {
        let birth = store.begin();
        let seed = birth.tx.sequence.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let coordinator = Coordinator::new(birth, store.switches, store.limits, seed);
        let state =
            State { coordinator, attempt: 1, registered: false, answers: Vec::new(), calls: 0, end: None };
        let shared = Shared { store: Arc::clone(store), mailbox: Arc::default(), state: Mutex::new(state) };
        Tx { shared: Arc::new(shared), attempt: 1 }
    }

    /// The next attempt, once this one has ended in a restart.
    pub(crate) fn again(&self) -> Tx {
        let mut state = self.shared.state.lock();
        state.coordinator.restart();
        state.attempt += 1;
        state.answers.clear();
        state.calls = 0;
        state.end = None;
        self.shared.store.restarts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Tx { shared: Arc::clone(&self.shared), attempt: state.attempt }
    }

    /// Runs an operation whose answer the transaction wants now.
    pub fn execute(&self, key: impl Into<Bytes>, op: Operation) -> Answer<Reply> {
        Answer::new(self.start(key.into(), op, None))
    }

    /// Runs a reading operation and takes the record's lock exclusively, so that a later write of this
    /// transaction to it neither waits nor restarts.
    pub fn execute_for_update(&self, key: impl Into<Bytes>, op: Operation) -> Answer<Reply> {
        self.execute_for_update_as(key.into(), op)
    }

    /// Adds an operation to what will be done at commit. Costs no message; its answer, if any, is dropped.
    ///
    /// # Errors
    /// Bad arguments and an ended transaction are refused here; whatever depends on the record, at commit. An
    /// operation that is refused dooms the transaction, also when the closure ignores the error.
    pub fn issue(&self, key: impl Into<Bytes>, op: Operation) -> Result<(), OperationError> {
        let mut state = self.shared.state.lock();
        let placed = self.admit(&mut state, key.into(), op)?;
        if self.shared.store.mode == Mode::None {
            return match self.shared.store.instant(&[placed]) {
                Instantly::Failed { key, error } => Err(OperationError::Invalid { key, error }),
                Instantly::Done(_) | Instantly::Blocked => Ok(()),
            };
        }
        state.coordinator.buffer(placed.shard, placed.key, placed.op);
        Ok(())
    }

    pub(crate) fn execute_as<R: FromReply>(&self, key: Bytes, op: Operation) -> Answer<R> {
        Answer::new(self.start(key, op, None))
    }

    pub(crate) fn execute_for_update_as<R: FromReply>(&self, key: Bytes, op: Operation) -> Answer<R> {
        Answer::new(self.start(key, op, Some(Claims::record(LockMode::EXCLUSIVE))))
    }

    fn start(&self, key: Bytes, op: Operation, reserve: Option<Claims>) -> Started {
        let mut state = self.shared.state.lock();
        let placed = match self.admit(&mut state, key, op) {
            Ok(placed) => placed,
            Err(error) => return Started::Ready(Err(error)),
        };
        if self.shared.store.mode == Mode::None {
            return Started::Ready(match self.shared.store.instant(&[placed]) {
                Instantly::Done(mut replies) => Ok(replies.pop().expect("one call")),
                Instantly::Failed { key, error } => Err(OperationError::Invalid { key, error }),
                Instantly::Blocked => unreachable!("without locks nothing blocks"),
            });
        }
        self.shared.register(&mut state);
        let now = self.shared.store.now();
        let no = state.coordinator.execute(now, placed.shard, placed.key, placed.op, reserve);
        self.shared.pump(&mut state);
        match state.take_answer(no) {
            Some(reply) => Started::Ready(Ok(reply)),
            None => Started::Waits { tx: self.clone(), no, timer: None },
        }
    }

    /// Ends the attempt by committing it. Returns how it ended.
    pub(crate) async fn commit(&self) -> End {
        // The application may have dropped an answer that is not there yet (`select!`, a timeout).
        if self.shared.state.lock().coordinator.awaits_answers() {
            Settling { tx: self, timer: None }.await;
        }
        {
            let mut state = self.shared.state.lock();
            if let Some(end) = state.end.clone() {
                return end;
            }
            if let Some(end) = self.shared.commit_instantly(&mut state) {
                state.end = Some(end.clone());
                return end;
            }
            self.shared.register(&mut state);
            let now = self.shared.store.now();
            state.coordinator.commit(now);
            self.shared.pump(&mut state);
        }
        Ending { tx: self, timer: None }.await
    }

    /// Adds a call whose answer comes with the commit.
    pub(crate) fn buffer(&self, call: &Placed) -> Result<(), OperationError> {
        let mut state = self.shared.state.lock();
        self.check_open(&state)?;
        state.coordinator.buffer(call.shard, call.key.clone(), call.op.clone());
        Ok(())
    }

    /// The answers of a committed transaction all of whose calls were buffered, in their order.
    pub(crate) fn committed_replies(&self, calls: usize) -> Vec<Reply> {
        let mut replies = vec![Reply::Ok; calls];
        for (no, reply) in self.shared.state.lock().answers.drain(..) {
            replies[no.0 as usize] = reply;
        }
        replies
    }

    /// Ends the attempt without committing it, unless it is committed already.
    pub(crate) fn abort(&self) -> End {
        let mut state = self.shared.state.lock();
        if state.end.is_none() && state.attempt == self.attempt {
            self.shared.end_by(&mut state, End::Aborted);
        }
        state.end.clone().unwrap_or(End::Aborted)
    }

    /// Whether this attempt has ended, and how.
    pub(crate) fn end(&self) -> Option<End> {
        self.shared.state.lock().end.clone()
    }

    /// Lets an operation in: the attempt runs, the operation is well-formed, and there are not too many.
    fn admit(&self, state: &mut State, key: Bytes, op: Operation) -> Result<Placed, OperationError> {
        self.check_open(state)?;
        let limit = self.shared.store.limits.calls_max;
        let error = match check(&self.shared.store, &key, &op) {
            Ok(()) if state.calls < limit => {
                state.calls += 1;
                return Ok(self.shared.store.place(key, op));
            }
            Ok(()) => OperationError::TooManyCalls { limit },
            Err(error) => OperationError::Invalid { key, error },
        };
        self.shared.end_by(state, End::Failed(error.clone()));
        Err(error)
    }

    fn check_open(&self, state: &State) -> Result<(), OperationError> {
        if state.attempt != self.attempt {
            return Err(OperationError::Finished);
        }
        match &state.end {
            None if state.coordinator.is_running() => Ok(()),
            Some(End::Restart(_)) => Err(OperationError::Restart),
            Some(End::Failed(error)) => Err(error.clone()),
            Some(End::Committed | End::Aborted) | None => Err(OperationError::Finished),
        }
    }
}

/// The error that a refusal is to an operation.
fn as_error(refusal: &Refusal) -> OperationError {
    match refusal {
        Refusal::Operation { key, error } => {
            OperationError::Invalid { key: key.clone(), error: error.clone() }
        }
        Refusal::Crowded(key) => OperationError::Crowded(key.clone()),
        Refusal::Withdrawn
        | Refusal::Recovered
        | Refusal::LeaseExpired
        | Refusal::LostLocks
        | Refusal::Stale => OperationError::Restart,
    }
}

/// Checks an operation and its key before anything is locked.
pub(crate) fn check(store: &Embedded, key: &Bytes, op: &Operation) -> Result<(), OpError> {
    if key.is_empty() {
        return Err(OpError::EmptyKey);
    }
    if key.len() > store.limits.key_bytes_max {
        return Err(OpError::TooLarge { what: "key", size: key.len(), limit: store.limits.key_bytes_max });
    }
    op.check(store.limits.value_bytes_max)
}

impl Shared {
    /// Ends the attempt without committing it, unless it turns out to be over already. Never waits: shards are
    /// a call away.
    fn end_by(&self, state: &mut State, end: End) {
        state.coordinator.abort(self.store.now());
        self.pump(state);
        if matches!(state.end, None | Some(End::Aborted)) {
            state.end = Some(end);
        }
        self.mailbox.wake();
    }

    fn register(&self, state: &mut State) {
        if !std::mem::replace(&mut state.registered, true) {
            self.store.register(state.coordinator.birth().tx, &self.mailbox);
        }
    }

    /// Everything was buffered and nobody is in the way: done at once. `None`: the long way.
    fn commit_instantly(&self, state: &mut State) -> Option<End> {
        let calls = state.coordinator.take_buffered()?;
        let placed: Vec<Placed> =
            calls.iter().map(|(_, it)| self.store.place(it.key.clone(), it.call.op.clone())).collect();
        match self.store.instant(&placed) {
            Instantly::Done(replies) => {
                state.answers.extend(calls.iter().map(|(_, it)| it.call.no).zip(replies));
                state.coordinator.close_instantly();
                Some(End::Committed)
            }
            Instantly::Blocked => {
                state.coordinator.put_back(calls);
                None
            }
            Instantly::Failed { key, error } => {
                state.coordinator.close_instantly();
                Some(End::Failed(OperationError::Invalid { key, error }))
            }
        }
    }

    /// Exchanges messages, then takes note of what they brought.
    fn pump(&self, state: &mut State) {
        self.store.pump(&mut state.coordinator, &self.mailbox);
        let mut news = false;
        while let Some(event) = state.coordinator.poll_event() {
            news = true;
            match event {
                Event::Answer { no, reply } => state.answers.push((no, reply)),
                Event::Committed { replies } => {
                    state.answers.extend(replies);
                    state.end = Some(End::Committed);
                }
                Event::Aborted => state.end = Some(End::Aborted),
                Event::Restart { cause } => state.end = Some(End::Restart(cause)),
                Event::Failed { refusal } => state.end = Some(End::Failed(as_error(&refusal))),
            }
        }
        if news && state.registered {
            // Answers may be for other tasks that share this transaction.
            self.mailbox.wake();
        }
    }

    /// Takes part in the exchange of messages until `done`, or arranges to be woken.
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        timer: &mut Option<Delay>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.state.lock();
        loop {
            self.pump(&mut state);
            if let Some(result) = done(&mut state) {
                return Poll::Ready(result);
            }
            if self.mailbox.watch(cx.waker()) {
                continue;
            }
            let Some(due) = state.coordinator.poll_timeout() else {
                *timer = None;
                return Poll::Pending;
            };
            let now = self.store.now();
            if due <= now {
                state.coordinator.handle_timeout(now);
                continue;
            }
            let mut delay = Delay::new(Duration::from_micros(due.since(now)));
            if Pin::new(&mut delay).poll(cx).is_pending() {
                *timer = Some(delay);
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.registered {
            self.store.unregister(state.coordinator.birth().tx);
        }
    }
}

impl State {
    fn take_answer(&mut self, no: CallNo) -> Option<Reply> {
        let at = self.answers.iter().position(|(answered, _)| *answered == no)?;
        Some(self.answers.swap_remove(at).1)
    }
}

#[derive(Debug)]
enum Started {
    Ready(Result<Reply, OperationError>),
    Waits { tx: Tx, no: CallNo, timer: Option<Delay> },
    Taken,
}

/// The answer of an operation: a future. The operation is under way from the moment it was called; two of them
/// that are awaited together (`join!`) cost one wait.
#[derive(Debug)]
#[must_use = "an answer nobody awaits is lost; use the void variant or `issue`"]
pub struct Answer<R> {
    started: Started,
    kind: PhantomData<fn() -> R>,
}

impl<R> Answer<R> {
    fn new(started: Started) -> Self {
        Answer { started, kind: PhantomData }
    }
}

impl<R: FromReply> Future for Answer<R> {
    type Output = Result<R, OperationError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match &mut self.started {
            Started::Ready(_) => {
                let Started::Ready(result) = std::mem::replace(&mut self.started, Started::Taken) else {
                    unreachable!("just matched")
                };
                result
            }
            Started::Waits { tx, no, timer } => {
                let (no, attempt) = (*no, tx.attempt);
                let answer = |state: &mut State| {
                    if state.attempt != attempt {
                        return Some(Err(OperationError::Finished));
                    }
                    if let Some(reply) = state.take_answer(no) {
                        return Some(Ok(reply));
                    }
                    state.end.as_ref().map(|end| {
                        Err(match end {
                            End::Restart(_) => OperationError::Restart,
                            End::Failed(error) => error.clone(),
                            End::Committed | End::Aborted => OperationError::Finished,
                        })
                    })
                };
                match tx.shared.poll(cx, timer, answer) {
                    Poll::Ready(result) => result,
                    Poll::Pending => return Poll::Pending,
                }
            }
            Started::Taken => panic!("an answer is awaited once"),
        };
        Poll::Ready(
            result.map(|reply| R::from_reply(reply).expect("the type's author answers as documented")),
        )
    }
}

/// Waits until every operation is answered, or the attempt has ended.
struct Settling<'a> {
    tx: &'a Tx,
    timer: Option<Delay>,
}

impl Future for Settling<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let tx = self.tx;
        let settled =
            |state: &mut State| (state.end.is_some() || !state.coordinator.awaits_answers()).then_some(());
        tx.shared.poll(cx, &mut self.timer, settled)
    }
}

/// Waits for the end of an attempt that is committing.
struct Ending<'a> {
    tx: &'a Tx,
    timer: Option<Delay>,
}

impl Future for Ending<'_> {
    type Output = End;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let tx = self.tx;
        tx.shared.poll(cx, &mut self.timer, |state| state.end.clone())
    }
}
