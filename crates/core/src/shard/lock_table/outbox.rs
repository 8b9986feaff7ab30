//! What the lock table has for its shard: who was let in, whose turn has come, who is told of an elder, which records ended. The
//! shard takes it before its input is over.

use std::collections::VecDeque;
use std::fmt::Debug;

use claret_types::{Bytes, OpError, Reply};

use crate::ids::{AttemptId, Birth, CallNo};

/// A waiter that left the queue by itself: granted, or found impossible.
#[derive(Clone, Debug)]
pub(crate) struct Woken {
    pub(crate) attempt: AttemptId,
    pub(crate) key: Bytes,
    pub(crate) no: CallNo,
    /// Its answer, unless it is given later; whether nothing was held before.
    pub(crate) result: Result<(Option<Reply>, bool), OpError>,
}

/// A holder is told that an elder waits.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) attempt: AttemptId,
    pub(crate) elder: Birth,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    woken: VecDeque<Woken>,
    /// Whose turn has come on a record, once for each (P75).
    ready: VecDeque<AttemptId>,
    /// Before whom nobody comes any more on a record, once for each.
    foremost: VecDeque<AttemptId>,
    notices: VecDeque<Notice>,
    /// External records that have ended when effects were carried out, and that somebody holds.
    ended: Vec<Bytes>,
}

impl Outbox {
    #[inline]
    pub(super) fn wake(&mut self, woken: Woken) {
        self.woken.push_back(woken);
    }

    #[inline]
    pub(super) fn say_ready(&mut self, attempt: AttemptId) {
        self.ready.push_back(attempt);
    }

    #[inline]
    pub(super) fn say_foremost(&mut self, attempt: AttemptId) {
        self.foremost.push_back(attempt);
    }

    /// `elder` waits for `attempt`.
    #[inline]
    pub(crate) fn notify(&mut self, attempt: AttemptId, elder: Birth) {
        self.notices.push_back(Notice { attempt, elder });
    }

    #[inline]
    pub(super) fn say_ended(&mut self, key: Bytes) {
        self.ended.push(key);
    }

    #[inline]
    pub(crate) fn poll_woken(&mut self) -> Option<Woken> {
        self.woken.pop_front()
    }

    #[inline]
    pub(crate) fn poll_ready(&mut self) -> Option<AttemptId> {
        self.ready.pop_front()
    }

    #[inline]
    pub(crate) fn poll_foremost(&mut self) -> Option<AttemptId> {
        self.foremost.pop_front()
    }

    #[inline]
    pub(crate) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    pub(crate) fn take_ended(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.ended)
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether anybody's turn has come. Between inputs only after a promotion.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Nobody is told of an elder: everybody who waited is gone.
    pub(crate) fn drop_notices(&mut self) {
        debug_assert!(self.woken.is_empty());
        self.notices.clear();
    }

    /// For digests. Whose turn has come is what the lines of records say, and nothing else is left between inputs.
    pub(super) fn content(&self) -> impl Debug + '_ {
        (&self.woken, &self.notices)
    }

    /// # Panics
    /// When the shard left what it takes within each input.
    pub(super) fn check(&self) {
        assert!(self.woken.is_empty(), "somebody was let in and did not go on");
        assert!(self.foremost.is_empty(), "nobody stands before somebody, who did not go on");
    }
}
