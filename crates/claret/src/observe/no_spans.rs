//! What `spans.rs` has, without the cargo feature `tracing`.

use claret_core::{AttemptId, Cause};

use crate::error::{BlockedOn, Error};
use crate::stats::RestartKey;

pub(crate) fn restarts_often(_often: &RestartKey) {}

#[derive(Debug)]
pub(crate) struct TransactionSpan;

#[derive(Clone, Debug)]
pub(crate) struct AttemptSpan;

#[derive(Debug)]
pub(crate) struct WaitEvents;

#[derive(Debug)]
#[must_use]
pub(crate) struct News;

impl TransactionSpan {
    #[inline]
    pub(crate) fn begin() -> Self {
        TransactionSpan
    }

    #[inline]
    pub(crate) fn attempt(&self, _number: u32) -> AttemptSpan {
        AttemptSpan
    }

    #[inline]
    pub(crate) fn fails(&self, _error: &Error, _is_bad: bool) {}

    #[inline]
    pub(crate) fn ends(&self, _outcome: &'static str, _attempts: u32) {}
}

impl AttemptSpan {
    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn enter(&self) {}

    #[inline]
    pub(crate) fn restarts(&self, _reason: &'static str, _cause: &Cause) {}
}

impl WaitEvents {
    #[inline]
    pub(crate) fn none() -> Self {
        WaitEvents
    }

    #[inline]
    pub(crate) fn of(_attempt: &AttemptSpan) -> Self {
        WaitEvents
    }

    #[inline]
    pub(crate) fn are_told(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn look(&mut self, _: Option<AttemptId>, _: Option<BlockedOn>, _goes_on: bool) {}

    #[inline]
    pub(crate) fn take_news(&mut self) -> News {
        News
    }

    #[inline]
    pub(crate) fn pause_us(&mut self) -> Option<u64> {
        None
    }
}

impl News {
    #[inline]
    pub(crate) fn tell(self) {}
}
