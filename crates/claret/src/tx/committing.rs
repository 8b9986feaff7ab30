//! The commit of a transaction, and the exchange of messages until its end is known.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use claret_core::message::Refusal;
use claret_core::{CallNo, Cause, Closed, Event};
use claret_types::OpError;
use futures_timer::Delay;
use smallvec::SmallVec;

use super::errors::as_error;
use super::observed::{Optimistic, Seeing};
use super::{End, Shared, State, Tx};
use crate::backend::{Driver, InstantOutcome};
use crate::call::Call;
use crate::error::{BeginError, Error};

/// The commit.
impl Tx {
    /// Ends the attempt by committing it. Returns how it ended; `None` if the store was closed meanwhile.
    pub(crate) async fn commit(&self) -> Option<End> {
        self.check_nested();
        // The application may have dropped an answer that is not there yet (`select!`, a timeout), and another of its
        // tasks may ask for one meanwhile.
        while !self.begin_commit() {
            Settling { tx: self, timer: None }.await;
        }
        Ending { tx: self, timer: None, while_open: true }.await
    }

    /// Fails if what was issued would wait for the transaction in whose closure this one is.
    pub(super) fn check_nested(&self) {
        if let Some(nested) = &self.shared.nested
            && let Err(error) = nested.check_commit(&self.shared.backend)
        {
            self.shared.end_by(&mut self.shared.state.lock(), End::Failed(error));
        }
    }

    /// Begins the commit, or finds that the attempt is over. Not while an answer is missing: then it returns false.
    pub(super) fn begin_commit(&self) -> bool {
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
}

impl Shared {
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
}

/// The exchange of messages.
impl Shared {
    /// The transaction's driver, and what is buffered and goes to it with the next call or the commit.
    pub(super) fn driver<'a>(&self, state: &'a mut State) -> (&'a mut dyn Driver, &'a mut Vec<Call>) {
        let State { driver, buffered, .. } = state;
        let driver = driver.get_or_insert_with(|| Arc::clone(&self.backend).begin(&self.mailbox, self.since));
        (&mut **driver, buffered)
    }

    /// Exchanges messages, then takes note of what they brought.
    pub(super) fn pump(&self, state: &mut State) {
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
    pub(super) fn hear(
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
    pub(super) fn poll<T>(
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

/// Waits until every operation is answered, or the attempt has ended.
pub(super) struct Settling<'a> {
    pub(super) tx: &'a Tx,
    pub(super) timer: Option<Delay>,
}

impl Future for Settling<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let tx = self.tx;
        let is_closed = || tx.shared.backend.is_closed();
        let settled = |state: &mut State| {
            (state.end.is_some() || state.answers.are_complete() || is_closed()).then_some(())
        };
        tx.shared.poll(cx, &mut self.timer, None, settled)
    }
}

/// Waits for the end of an attempt that is committing.
pub(super) struct Ending<'a> {
    pub(super) tx: &'a Tx,
    pub(super) timer: Option<Delay>,
    /// No longer than the store is open: then it is `None`.
    pub(super) while_open: bool,
}

impl Future for Ending<'_> {
    type Output = Option<End>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<End>> {
        let (tx, while_open) = (self.tx, self.while_open);
        let gives_up = || while_open && tx.shared.backend.is_closed();
        tx.shared.poll(cx, &mut self.timer, None, |state| match &state.end {
            Some(end) => Some(Some(end.clone())),
            None => gives_up().then_some(None),
        })
    }
}
