//! What an optimistic transaction does otherwise: it looks at records without locks, and what it saw is checked when it commits
//! (`docs/optimistic.md`).

use claret_core::message::{Refusal, Seen};
use claret_core::{CallNo, Cause, Event};
use claret_types::{Bytes, Claims, Operation, Reply};

use super::committing::{Ending, Settling};
use super::observed::Optimistic;
use super::{End, Shared, State, Tx, as_error};
use crate::answer::Started;
use crate::call::Call;
use crate::error::Error;
use crate::options::TxOptions;

impl Tx {
    /// From now on it looks without locks, if its options say so and there are locks.
    pub(crate) fn observe(&self, options: TxOptions) {
        if options.is_optimistic && self.shared.backend.observes() {
            self.shared.state.lock().optimistic = Some(Box::new(Optimistic::new(options.optimistic_only)));
        }
    }

    /// Goes on with what another one knows, which could not.
    pub(crate) fn learn_from(&self, other: &Tx) {
        let mut optimistic = other.shared.state.lock().optimistic.take();
        optimistic.iter_mut().for_each(|it| it.begin_again());
        self.shared.state.lock().optimistic = optimistic;
    }

    /// Whether a call is looked at, and not executed under its lock.
    pub(super) fn looks_at(&self, key: &Bytes, op: &Operation, reserve: Option<&Claims>) -> bool {
        let state = self.shared.state.lock();
        let looks = |it: &Optimistic| !op.returns() || it.observations.looks_at(key, op);
        reserve.is_none() && state.optimistic.as_deref().is_some_and(looks)
    }

    /// Looks at a call that was let in, or keeps it for the commit. A call that locks comes back, with those that go before it.
    pub(super) fn start_looking(
        &self,
        state: &mut State,
        call: Call,
        reserve: Option<&Claims>,
    ) -> Result<Started, Call> {
        let innermost = state.levels.open.last().and_then(|level| level.observed);
        let State { optimistic: Some(optimistic), buffered, .. } = state else { return Err(call) };
        let observations = &mut optimistic.observations;
        if !call.op.returns() && reserve.is_none() && observations.is_locked_alone(&call.key) {
            return Err(call);
        }
        if !call.op.returns() && reserve.is_none() {
            observations.add(call.key, call.op);
            return Ok(Started::Ready(Ok(Reply::Ok)));
        }
        if reserve.is_some() || !observations.looks_at(&call.key, &call.op) {
            if observations.is_to_lock_from_start(&call.key, innermost) {
                self.shared.renounce(state, Refusal::Withdrawn);
                return Ok(Started::Ready(Err(Error::Restart)));
            }
            let own = observations.take_of(&call.key).into_iter();
            buffered.extend(own.map(|op| Call { key: call.key.clone(), op }));
            return Err(call);
        }
        if let Some(reply) = observations.known(&call.key, &call.op) {
            return Ok(Started::Ready(Ok(reply.clone())));
        }
        let (no, ops) = observations.look(call.key.clone(), call.op);
        optimistic.awaited += 1;
        state.answers.expect(no);
        let backend = &self.shared.backend;
        let Some(seen) = backend.look(&self.shared.mailbox, no, &call.key, ops) else {
            return Ok(Started::Waits { tx: self.clone(), no, timer: None });
        };
        self.shared.see(state, no, seen);
        Ok(match state.answer(no) {
            Some(answer) => Started::Ready(answer),
            None => Started::Waits { tx: self.clone(), no, timer: None },
        })
    }

    /// Whether the closure's error tells of what was only seen, and the attempt still runs.
    pub(crate) fn has_to_check(&self) -> bool {
        let mut state = self.shared.state.lock();
        self.shared.pump(&mut state);
        let is_running = state.attempt == self.attempt && state.end.is_none() && !state.committing;
        is_running && state.optimistic.as_ref().is_some_and(|it| it.observations.has_seen())
    }

    /// Checks what the attempt has seen, and does nothing: it ends as one that was aborted, if all is still so (O5).
    pub(crate) async fn check(&self) -> Option<End> {
        if let Some(optimistic) = &mut self.shared.state.lock().optimistic {
            optimistic.only_checks = true;
        }
        self.check_nested();
        while !self.begin_commit() {
            Settling { tx: self, timer: None }.await;
        }
        Ending { tx: self, timer: None, while_open: true }.await
    }

    /// Whether the attempt was only checked, so that nothing of it can have been done.
    pub(crate) fn only_checks(&self) -> bool {
        self.shared.state.lock().optimistic.as_ref().is_some_and(|it| it.checks())
    }
}

impl State {
    /// The answer of a call, or why there is none.
    pub(super) fn answer(&mut self, no: CallNo) -> Option<Result<Reply, Error>> {
        if let Some(error) = self.levels.error_of(no) {
            return Some(Err(error));
        }
        if self.levels.is_held_back(no) {
            return None;
        }
        if let Some(reply) = self.answers.take(no) {
            return Some(Ok(reply));
        }
        self.optimistic.as_mut()?.error_of(no).map(Err)
    }

    /// Brings what is to be committed, or only checked, to the other calls that are. Whether it is only checked.
    pub(super) fn gather_observed(&mut self) -> bool {
        let Some(optimistic) = &self.optimistic else { return false };
        let checks = optimistic.checks();
        let as_call = |(key, op): (&Bytes, &Operation)| Call { key: key.clone(), op: op.clone() };
        match checks {
            true => self.buffered.extend(optimistic.observations.to_check().into_iter().map(as_call)),
            false => self.buffered.extend(optimistic.observations.to_commit().map(as_call)),
        }
        if checks {
            self.issued.changed_nothing();
        }
        checks
    }
}

impl Shared {
    /// A look came back, and nothing else.
    pub(super) fn see(&self, state: &mut State, no: CallNo, seen: Seen) {
        self.hear(state, |_, note| note(Event::Seen { no, seen }));
    }

    /// The attempt found by itself that it cannot commit.
    pub(super) fn renounce(&self, state: &mut State, refusal: Refusal) {
        if state.end.is_some() {
            return;
        }
        if let (Some(optimistic), Refusal::Changed { key }) = (&mut state.optimistic, &refusal) {
            optimistic.observations.note_changed(key);
        }
        let restart = End::Restart(Cause::Refused(refusal.clone()));
        if let Some(driver) = &mut state.driver {
            // One that is over says how it ended; else what it says is what is known here.
            if driver.renounce(state.attempt, refusal).is_ok() {
                state.end = Some(restart.clone());
            }
            self.pump(state);
        }
        state.end.get_or_insert(restart);
        self.mailbox.wake();
    }

    /// Something may not be looked at.
    pub(super) fn refuse(&self, state: &mut State, refusal: Refusal) {
        self.end_by(state, End::Failed(as_error(&refusal)));
    }

    /// What an attempt found wrong ends it: at once, or once all that it saw was checked.
    pub(super) fn doom_all(&self, state: &mut State, error: Error) {
        match &mut state.optimistic {
            Some(optimistic) if optimistic.observations.has_seen() => {
                optimistic.doomed.get_or_insert(error);
            }
            _ => self.end_by(state, End::Failed(error)),
        }
    }

    /// Another attempt begins. Its driver is one from now on that knows of this one: it keeps the birth.
    pub(super) fn begin_again(&self, state: &mut State) {
        let Some(optimistic) = &mut state.optimistic else { return };
        optimistic.begin_again();
        if state.driver.is_none() {
            let mut driver = std::sync::Arc::clone(&self.backend).begin(&self.mailbox, self.since);
            let _ = driver.renounce(state.attempt, Refusal::Withdrawn);
            // It says that it is to be run again, and so it is.
            driver.exchange(&self.mailbox, &mut |_| ());
            state.driver = Some(driver);
        }
    }

    /// Nobody waits for looks any more.
    pub(super) fn leave_looks(&self, state: &mut State) {
        if state.optimistic.as_ref().is_some_and(|it| it.awaited > 0) {
            self.backend.leave_looks(&self.mailbox);
        }
    }
}
