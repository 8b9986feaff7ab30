//! The steps of a transaction whose deadline passed: word of who is in the way, and the end of a commit that was not done. Other tasks
//! may share it meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use claret_core::Cause;
use claret_types::Bytes;
use futures_timer::Delay;

use super::committing::Ending;
use super::{End, State, Tx, key_of};
use crate::deadline::Deadline;
use crate::error::{CommitError, Error};

/// This part of a deadline may be spent to learn who was in the way, and no longer than that.
const BEHIND_FRACTION: u32 = 10;
const BEHIND_PATIENCE_MAX: Duration = Duration::from_millis(100);

impl State {
    /// It is going to wait: what for says why, if another one has to begin anew.
    pub(super) fn note_wait(&mut self) {
        let keys = self.driver.as_ref().map(|driver| driver.waits_for()).unwrap_or_default();
        if !keys.is_empty() {
            self.waited_for = keys;
        }
    }
}

impl Tx {
    /// The keys for which it is run again: what it waited for when it had to give way, or what a shard names.
    pub(crate) fn restarted_for(&self, cause: &Cause) -> Vec<Bytes> {
        match cause {
            Cause::GaveWay | Cause::Busy | Cause::Parted => self.shared.state.lock().waited_for.clone(),
            Cause::Refused(_) => key_of(cause).into_iter().collect(),
        }
    }

    /// Whether this attempt waits for other transactions, as far as it has heard.
    pub(crate) fn is_blocked(&self) -> bool {
        let state = self.shared.state.lock();
        state.attempt == self.attempt && state.driver.as_ref().is_some_and(|driver| driver.is_blocked())
    }

    /// The deadline has passed: that, or what is known to be in the way. Where another process has to be asked, that takes a
    /// fraction of the deadline at most, and never long (P72).
    pub(crate) async fn late(&self, after: Duration) -> Error {
        let late = self.shared.backend.too_late(after);
        if !matches!(late, Error::Commit(CommitError::Deadline { .. })) {
            return late;
        }
        if self.ask_behind() {
            let patience = (after / BEHIND_FRACTION).min(BEHIND_PATIENCE_MAX);
            let mut deadline = Deadline::new(&*self.shared.backend, patience);
            deadline.race(Hearing { tx: self, timer: None }).await;
        }
        let state = self.shared.state.lock();
        let driver = state.driver.as_ref().filter(|_| state.attempt == self.attempt && state.end.is_none());
        let told = state.behind.as_ref().and_then(Option::as_ref);
        Error::Commit(CommitError::Deadline {
            after,
            blocked_on: driver.and_then(|driver| driver.wait(told)).map(Box::new),
        })
    }

    fn ask_behind(&self) -> bool {
        let mut state = self.shared.state.lock();
        if state.attempt != self.attempt || state.end.is_some() {
            return false;
        }
        state.behind = None;
        state.driver.as_mut().is_some_and(|driver| driver.ask_behind())
    }

    /// [`Tx::abort`], and waits for the end. On a cluster not for ever: what a shard that does not answer has written
    /// stays unknown; and for no longer than `most`.
    pub(crate) async fn abort_and_wait(&self, most: Option<Duration>) -> End {
        if let Some(end) = self.abort() {
            return end;
        }
        let ended = async {
            let ending = Ending { tx: self, timer: None, while_open: false };
            let Some(patience) = self.shared.backend.patience() else { return ending.await };
            let patience = most.map_or(patience, |most| patience.min(most));
            let mut deadline = Deadline::new(&*self.shared.backend, patience);
            deadline.race(ending).await.flatten()
        };
        // In a box, as it waits for a moment at most, and every transaction would have room for it.
        Box::pin(ended).await.unwrap_or(End::Unknown)
    }

    /// Ends a commit that was not done by the deadline. The votes may be in all the same; then it is committed, and that is what
    /// we say (P65).
    pub(crate) async fn give_up(&self, after: Duration, most: Option<Duration>) -> End {
        let late = self.late(after).await;
        match self.abort_and_wait(most).await {
            End::Aborted => End::Failed(late),
            end => end,
        }
    }
}

/// Waits until a shard has said who is in the way, or the attempt has ended.
pub(super) struct Hearing<'a> {
    pub(super) tx: &'a Tx,
    pub(super) timer: Option<Delay>,
}

impl Future for Hearing<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let tx = self.tx;
        let is_closed = || tx.shared.backend.is_closed();
        let heard =
            |state: &mut State| (state.end.is_some() || state.behind.is_some() || is_closed()).then_some(());
        tx.shared.poll(cx, &mut self.timer, None, heard)
    }
}
