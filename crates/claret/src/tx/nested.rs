//! Savepoints, and transactions within a transaction (`docs/nesting.md`).

use std::future::Future;
use std::sync::{Arc, Weak};

use claret_core::message::{Refusal, Undone};
use claret_core::wire::UNDONE_MAX;
use claret_core::{CallNo, Closed};

use super::levels::{Before, Level, Levels};
use super::{Shared, State, Tx};
use crate::answer::Started;
use crate::call::Call;
use crate::error::{Error, HandleError, NestError};

/// A point of a transaction to which it can be rolled back: see [`Tx::savepoint`]. It is of the attempt that made it.
#[derive(Clone, Debug)]
pub struct Savepoint {
    of: Weak<Shared>,
    attempt: u32,
    scope: u32,
    id: u32,
}

impl Tx {
    /// Runs a transaction within this one, with a handle of its own: all of what the closure does is done with this transaction, or,
    /// when it returns an error, nothing of it. It takes no message, holds what this transaction holds, and sees what it did.
    ///
    /// An operation that cannot be done ends the nested transaction alone: return the error, and this transaction may do something
    /// else instead. What was seen counts in any case: it stays locked, or is checked, until this transaction is over.
    ///
    /// Meanwhile this handle may not be used. 16 savepoints and nested transactions may be open at once.
    ///
    /// # Errors
    /// The closure's, or what it makes of an [`Error`]: of one that was ignored in it, for example. After [`Error::Restart`] this
    /// transaction is to be run again, too.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// store.bounded_counter("room 1").create(0, 0, 9).await?;
    /// store.transaction(async |tx| {
    ///     let booked = tx.nested(async |tx| {
    ///         tx.set("guests").add("ada")?;
    ///         tx.bounded_counter("room 1").take(1)?;
    ///         tx.settle().await
    ///     });
    ///     if booked.await.is_err() {
    ///         tx.set("waiting").add("ada")?;
    ///     }
    ///     Ok(())
    /// }).await?;
    /// assert!(store.set("waiting").contains("ada").await? && !store.set("guests").contains("ada").await?);
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub async fn nested<T, E, F, Fut>(&self, body: F) -> Result<T, E>
    where
        F: FnOnce(Tx) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let inner = self.begin_nested()?;
        // Dropped in mid-flight, or in a panic, it is rolled back.
        let open = Open(inner.clone());
        let result = body(inner).await;
        open.end(result)
    }

    /// The same of a closure that does not wait.
    pub(crate) fn nested_now<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&Tx) -> Result<T, E>,
    ) -> Result<T, E> {
        let open = Open(self.begin_nested()?);
        let result = body(&open.0);
        open.end(result)
    }

    fn begin_nested(&self) -> Result<Tx, Error> {
        let mut state = self.shared.state.lock();
        self.check_open(&mut state)?;
        let scope = self.open_level(&mut state, true)?;
        Ok(Tx { shared: Arc::clone(&self.shared), attempt: self.attempt, scope })
    }

    /// Marks the present point: [`Tx::rollback_to`] undoes all that is done from here on. It takes no message. From here on, an
    /// operation that cannot be done does not end the transaction, if it is rolled back: until then every further operation
    /// answers the same error, and so does the commit.
    ///
    /// # Errors
    /// [`NestError::TooDeep`](crate::errors::NestError::TooDeep): 16 are open at most.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// store.transaction(async |tx| {
    ///     tx.set("tags").add("red")?;
    ///     let before = tx.savepoint()?;
    ///     tx.set("tags").add("blue")?;
    ///     assert_eq!(tx.set("tags").len().await?, 2);
    ///     tx.rollback_to(&before)?;
    ///     Ok(())
    /// }).await?;
    /// assert_eq!(store.set("tags").len().await?, 1);
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn savepoint(&self) -> Result<Savepoint, Error> {
        let mut state = self.shared.state.lock();
        self.check_open(&mut state)?;
        let id = self.open_level(&mut state, false)?;
        Ok(Savepoint { of: Arc::downgrade(&self.shared), attempt: self.attempt, scope: self.scope, id })
    }

    fn open_level(&self, state: &mut State, is_nested: bool) -> Result<u32, Error> {
        let before = Before {
            buffered: state.buffered.len(),
            observed: state.here(),
            last: state.last.len(),
            noted: self.shared.nested.as_ref().map_or(0, |nested| nested.noted()),
        };
        state.levels.open(is_nested, before)
    }

    /// Undoes all that was done since the savepoint, which stays; later ones are gone. What was seen since then counts all the
    /// same: it stays locked, or is checked. Answers that are not there yet are not waited for. It takes no message.
    ///
    /// # Errors
    /// [`NestError::NoSavepoint`](crate::errors::NestError::NoSavepoint), [`NestError::TooManyRollbacks`](crate::errors::NestError::TooManyRollbacks) (128, of those that were executed or looked at), or that the transaction is
    /// over.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        let level = self.close_savepoint(&mut state, savepoint)?;
        let undone = self.undo(&mut state, &level);
        state.levels.reopen(level);
        undone
    }

    /// Forgets a savepoint, and later ones: what was done since then stands.
    ///
    /// # Errors
    /// [`NestError::NoSavepoint`](crate::errors::NestError::NoSavepoint), that the transaction is over, or that an operation since then cannot be done: then it is to be rolled
    /// back.
    pub fn release(&self, savepoint: &Savepoint) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        self.check_open(&mut state)?;
        self.close_savepoint(&mut state, savepoint).map(drop)
    }

    /// Ends the levels from a savepoint on.
    fn close_savepoint(&self, state: &mut State, savepoint: &Savepoint) -> Result<Level, Error> {
        self.check_handle(state)?;
        let is_own = std::ptr::eq(savepoint.of.as_ptr(), Arc::as_ptr(&self.shared))
            && (savepoint.attempt, savepoint.scope) == (self.attempt, self.scope);
        let level = is_own.then(|| state.levels.close(savepoint.id)).flatten();
        level.ok_or(Error::Nest(NestError::NoSavepoint))
    }

    /// Executes what waits for the commit, so that what cannot be done shows now, and not at the commit. It takes one round trip; an
    /// optimistic transaction looks, and what it finds may have changed by the commit.
    ///
    /// # Errors
    /// What cannot be done: that ends the innermost nested transaction, or the transaction.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// store.register("name").set("ada").await?;
    /// let error = store.transaction(async |tx| {
    ///     tx.set("name").add("x")?; // Kept for the commit.
    ///     let settled = tx.settle().await;
    ///     assert!(settled.is_err(), "it is another type");
    ///     Ok(settled?)
    /// }).await.unwrap_err();
    /// assert!(error.to_string().contains("WRONGTYPE"));
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub async fn settle(&self) -> Result<(), Error> {
        let awaited = self.begin_settling()?;
        for no in awaited {
            let mut started = Started::Waits { tx: self.clone(), no, timer: None };
            std::future::poll_fn(|cx| started.poll(cx)).await?;
        }
        // What came with others has no error of its own.
        self.check_open(&mut self.shared.state.lock())
    }

    fn begin_settling(&self) -> Result<Vec<CallNo>, Error> {
        let mut state = self.shared.state.lock();
        self.check_open(&mut state)?;
        if self.shared.backend.applies_at_once() {
            return Ok(Vec::new());
        }
        let mut awaited = self.settle_observed(&mut state);
        if state.driver.is_none() && state.buffered.is_empty() {
            return Ok(awaited);
        }
        if let Some(nested) = &self.shared.nested
            && let Err(error) = nested.check_commit(&self.shared.backend)
        {
            drop(state);
            return Err(self.fail(error));
        }
        state.issued.note_sent();
        let buffered = state.buffered.len();
        let settled = self.tell_inside(&mut state).and_then(|()| {
            let (driver, buffered) = self.shared.driver(&mut state);
            driver.settle(self.attempt, buffered)
        });
        let Ok(settled) = settled else { return Err(self.closed(&mut state)) };
        state.levels.note_settle(buffered, &settled);
        for (no, _) in &settled {
            state.answers.expect(*no);
        }
        self.shared.pump(&mut state);
        awaited.extend(settled.into_iter().map(|(no, _)| no));
        Ok(awaited)
    }

    /// Looks whether what an optimistic transaction keeps can be done.
    fn settle_observed(&self, state: &mut State) -> Vec<CallNo> {
        let Some(optimistic) = &mut state.optimistic else { return Vec::new() };
        let looks = optimistic.observations.settle();
        optimistic.awaited += looks.len() as u32;
        let mut awaited = Vec::new();
        for (no, key, ops) in looks {
            state.answers.expect(no);
            awaited.push(no);
            if let Some(seen) = self.shared.backend.look(&self.shared.mailbox, no, &key, ops) {
                self.shared.see(state, no, seen);
            }
        }
        awaited
    }

    /// Executes a call behind those that are buffered.
    pub(super) fn execute_call(
        &self,
        state: &mut State,
        call: Call,
        reserve: Option<claret_types::Claims>,
    ) -> Result<CallNo, Closed> {
        self.tell_inside(state)?;
        let State { levels, buffered, answers, .. } = state;
        for tried in levels.note_execute(buffered, &call.key, !call.op.expects()) {
            answers.expect(tried);
        }
        let (driver, buffered) = self.shared.driver(state);
        let no = driver.execute(self.attempt, buffered, call, reserve)?;
        assert_eq!(no.0 + 1, state.levels.next_call, "calls are numbered one after the other");
        state.answers.expect(no);
        Ok(no)
    }

    /// Tells the driver which calls may fail, where that has changed.
    fn tell_inside(&self, state: &mut State) -> Result<(), Closed> {
        let inside = state.levels.inside();
        if state.levels.told_inside != inside {
            let (driver, _) = self.shared.driver(state);
            driver.may_fail_from(self.attempt, inside)?;
            state.levels.told_inside = inside;
        }
        Ok(())
    }

    /// Undoes what was done in a level that has ended.
    fn undo(&self, state: &mut State, level: &Level) -> Result<(), Error> {
        let (from, next) = (level.first, state.levels.next_call);
        state.buffered.truncate(from.0.saturating_sub(next) as usize);
        state.last.undo(level.last);
        state.levels.undo(from);
        let mut abandoned = state.answers.undo(|no| Levels::is_call_from(no, from));
        if let (Some(optimistic), Some(observed)) = (&mut state.optimistic, level.observed) {
            let looks = optimistic.observations.undo(observed);
            state.answers.leave(&looks);
            abandoned.extend(looks);
        }
        state.levels.abandon(abandoned);
        if let Some(nested) = &self.shared.nested {
            nested.undo(level.noted, state.checked_from(level));
        }
        self.shared.mailbox.wake();
        let seen = state.optimistic.as_ref().map_or(0, |it| it.observations.ranges_undone());
        let sent = if from.0 < next { state.levels.note_range(from) } else { 0 };
        if seen.max(sent) > UNDONE_MAX / 2 {
            let error = Error::Nest(NestError::TooManyRollbacks { limit: UNDONE_MAX / 2 });
            self.shared.doom_all(state, error.clone());
            return Err(error);
        }
        if from.0 >= next {
            return Ok(());
        }
        let Some(driver) = &mut state.driver else { return Ok(()) };
        match driver.undo(self.attempt, from) {
            Ok(()) => Ok(()),
            Err(Closed) => Err(self.closed(state)),
        }
    }

    /// Whether this handle may be used: its attempt runs, and no transaction is open within its own.
    pub(super) fn check_handle(&self, state: &mut State) -> Result<(), Error> {
        self.check_attempt(state)?;
        match state.levels.scope() {
            scope if scope == self.scope => Ok(()),
            _ if !state.levels.is_open(self.scope) => Err(Error::Handle(HandleError::Finished)),
            _ => {
                self.shared.doom_all(state, Error::Nest(NestError::NestedOpen));
                Err(Error::Nest(NestError::NestedOpen))
            }
        }
    }
}

/// A nested transaction that is open. Dropped, it is rolled back.
struct Open(Tx);

impl Open {
    fn end<T, E: From<Error>>(self, result: Result<T, E>) -> Result<T, E> {
        match result {
            Ok(value) => match self.close(true) {
                Ok(()) => Ok(value),
                Err(error) => Err(error.into()),
            },
            Err(error) => {
                // Where that cannot be, the transaction is over.
                let _ = self.close(false);
                Err(error)
            }
        }
    }

    /// What was done in it is kept, if nothing in it failed, or undone. Once.
    fn close(&self, keeps: bool) -> Result<(), Error> {
        let mut state = self.0.shared.state.lock();
        let kept = match keeps {
            true => self.0.check_open(&mut state),
            false => self.0.check_attempt(&mut state),
        };
        if state.attempt != self.0.attempt {
            return kept;
        }
        let Some(level) = state.levels.close(self.0.scope) else { return kept };
        match keeps && kept.is_ok() {
            true => Ok(()),
            false if state.end.is_some() || state.committing => kept,
            false => {
                let undone = self.0.undo(&mut state, &level);
                kept.and(undone)
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.close(false);
    }
}

impl State {
    /// Where the next call of an optimistic transaction is going to stand.
    fn here(&self) -> Option<claret_core::Place> {
        self.optimistic.as_ref().map(|optimistic| optimistic.observations.here())
    }

    /// What was looked at in a level that is undone, and is checked all the same (N6).
    fn checked_from(&self, level: &Level) -> Vec<Call> {
        let (Some(optimistic), Some(from)) = (&self.optimistic, level.observed) else { return Vec::new() };
        let observations = &optimistic.observations;
        let all = observations.to_commit().zip(observations.places());
        let of_level = all.filter(|(_, place)| *place >= from);
        of_level.map(|((key, op), _)| Call { key: key.clone(), op: op.clone() }).collect()
    }

    /// Before the commit: what it cannot do though it has not been rolled back, or that a nested transaction is open.
    pub(super) fn fails_to_commit(&self) -> Option<Error> {
        match self.levels.scope() {
            0 => self.levels.doomed().cloned(),
            _ => Some(Error::Nest(NestError::NestedOpen)),
        }
    }

    /// The calls, by their numbers, which are executed with the commit and not carried out, as they are buffered behind so many.
    pub(super) fn only_checked(&self, behind: usize) -> Vec<Undone> {
        let Some(optimistic) = &self.optimistic else { return Vec::new() };
        let ranges = match optimistic.checks() {
            true => optimistic.observations.undone_in_check(),
            false => optimistic.observations.undone_in_commit(),
        };
        let first = self.levels.next_call + behind as u32;
        let at = |place: u32| CallNo(first + place);
        ranges.into_iter().map(|range| Undone { from: at(range.start), to: at(range.end) }).collect()
    }
}

impl Shared {
    /// What follows from what came.
    pub(super) fn follow(
        &self,
        state: &mut State,
        fails: Option<Error>,
        restarts: Option<Refusal>,
        refused: Option<Refusal>,
    ) {
        if let Some(error) = fails {
            self.doom_all(state, error);
        }
        if let Some(refusal) = restarts {
            self.renounce(state, refusal);
        }
        if let Some(refusal) = refused {
            self.refuse(state, refusal);
        }
    }

    /// What an operation found wrong ends the innermost nested transaction, or the attempt.
    pub(super) fn doom(&self, state: &mut State, error: Error) {
        if !state.levels.doom_innermost(&error) {
            self.doom_all(state, error);
        }
    }
}
