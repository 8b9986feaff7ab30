//! Spans and events of `tracing`, for a subscriber that the program has installed (cargo feature `tracing`).
//!
//! A transaction is a span, and within it each attempt is one, in which the closure runs. All of that is of the level `DEBUG`;
//! where somebody should look, a warning says so. The target is `claret`.
//!
//! A subscriber is the program's own code, which may do anything, also use a store. So events are told while no lock is
//! held: who holds one takes [`News`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use claret_core::{AttemptId, Cause, TxId};
use claret_types::Bytes;
use tracing::field::{Empty, display};
use tracing::level_filters::LevelFilter;
use tracing::span::Entered;
use tracing::{Span, debug, debug_span, warn};

use crate::error::{BlockedOn, Error};
use crate::stats::RestartKey;

const TARGET: &str = "claret";

/// Where nobody tells that a call waits, as the shards of a cluster tell only its process: the first time after which that is
/// looked at again, and the longest, in microseconds.
const PAUSE_US: (u64, u64) = (1_000, 1_000_000);

/// What is there only where somebody listens. Where nobody does, it costs one look to find that out, also when it is dropped.
#[derive(Clone, Debug)]
struct Rare<T>(Option<T>);

impl<T> Drop for Rare<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            Self::drop_it(value);
        }
    }
}

impl<T> Rare<T> {
    #[cold]
    #[inline(never)]
    fn drop_it(_: T) {}
}

/// Attempts are run again for a key, again and again.
#[cold]
pub(crate) fn restarts_often(often: &RestartKey) {
    let (key, restarts, hint) = (&often.key, often.restarts, often.hint());
    warn!(target: TARGET, %key, restarts, hint, "attempts were run again for this key");
}

/// A transaction, over all its attempts; nothing where nobody listens.
#[derive(Debug)]
pub(crate) struct TransactionSpan(Rare<Arc<Told>>);

#[derive(Debug)]
struct Told {
    span: Span,
    began: Instant,
    /// Its id was recorded.
    is_named: AtomicBool,
}

impl TransactionSpan {
    #[inline]
    pub(crate) fn begin() -> Self {
        // Mostly nobody listens to anything so detailed, and this is all that is looked at.
        TransactionSpan(Rare(if LevelFilter::current() >= LevelFilter::DEBUG { Told::begin() } else { None }))
    }

    #[inline]
    pub(crate) fn attempt(&self, number: u32) -> AttemptSpan {
        AttemptSpan(Rare(self.0.0.as_ref().map(|told| told.attempt(number))))
    }

    /// What the store answers where it gives the transaction up. `is_bad`: somebody should look.
    pub(crate) fn fails(&self, error: &Error, is_bad: bool) {
        let span = self.0.0.as_ref().and_then(|told| told.span.id());
        if is_bad {
            warn!(target: TARGET, parent: span, %error, "fails");
        } else {
            debug!(target: TARGET, parent: span, %error, "fails");
        }
    }

    #[inline]
    pub(crate) fn ends(&self, outcome: &'static str, attempts: u32) {
        if let Some(told) = &self.0.0 {
            told.ends(outcome, attempts);
        }
    }
}

impl Told {
    #[cold]
    fn begin() -> Option<Arc<Self>> {
        // Its id is known when it first has something to hold or to wait for.
        let span = debug_span!(target: TARGET, "transaction", id = Empty);
        let told = |span| Told { span, began: Instant::now(), is_named: AtomicBool::new(false) };
        (!span.is_disabled()).then(|| Arc::new(told(span)))
    }

    #[cold]
    fn attempt(self: &Arc<Self>, number: u32) -> Arc<AttemptTold> {
        let span = debug_span!(target: TARGET, parent: &self.span, "attempt", number);
        debug!(target: TARGET, parent: &span, "begins");
        Arc::new(AttemptTold { transaction: Arc::clone(self), span })
    }

    #[cold]
    fn ends(&self, outcome: &'static str, attempts: u32) {
        let took_us = self.began.elapsed().as_micros() as u64;
        debug!(target: TARGET, parent: &self.span, attempts, took_us, "{outcome}");
    }
}

/// An attempt of a transaction; nothing where nobody listens.
#[derive(Clone, Debug)]
pub(crate) struct AttemptSpan(Rare<Arc<AttemptTold>>);

#[derive(Debug)]
struct AttemptTold {
    transaction: Arc<Told>,
    span: Span,
}

impl AttemptSpan {
    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        self.0.0.is_some()
    }

    /// What this thread does is within the attempt until that is dropped: for one poll of a future, not longer.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        self.0.0.as_ref().map(|told| told.span.enter())
    }

    /// It has ended, and another one is to begin.
    pub(crate) fn restarts(&self, reason: &'static str, cause: &Cause) {
        let Some(told) = &self.0.0 else { return };
        let refusal = match cause {
            Cause::Refused(refusal) => Some(display(refusal)),
            Cause::GaveWay | Cause::Busy | Cause::Parted => None,
        };
        debug!(target: TARGET, parent: &told.span, reason, refusal, "restarts");
    }
}

/// What was told of an attempt's waits; nothing where nobody listens.
#[derive(Debug)]
pub(crate) struct WaitEvents(Rare<Box<WaitsTold>>);

#[derive(Debug)]
struct WaitsTold {
    attempt: Arc<AttemptTold>,
    /// The record that it was said to wait for, and since when.
    wait: Option<(Bytes, Instant)>,
    pause_us: u64,
    /// To be told once no lock is held.
    news: Vec<What>,
}

impl WaitEvents {
    #[inline]
    pub(crate) fn none() -> Self {
        WaitEvents(Rare(None))
    }

    #[inline]
    pub(crate) fn of(attempt: &AttemptSpan) -> Self {
        WaitEvents(Rare(attempt.0.0.as_ref().map(WaitsTold::begin)))
    }

    #[inline]
    pub(crate) fn are_told(&self) -> bool {
        self.0.0.is_some()
    }

    /// Compares what was told with what is. `goes_on`: a wait that is over ended well.
    #[cold]
    pub(crate) fn look(&mut self, name: Option<AttemptId>, wait: Option<BlockedOn>, goes_on: bool) {
        let Some(told) = &mut self.0.0 else { return };
        let mut tell = |what| told.news.push(what);
        if let Some(name) = name
            && !told.attempt.transaction.is_named.swap(true, Ordering::Relaxed)
        {
            tell(What::Name(name.tx));
        }
        if told.wait.as_ref().map(|(key, _)| key) == wait.as_ref().map(|wait| &wait.key) {
            return;
        }
        told.pause_us = PAUSE_US.0;
        if let Some((key, since)) = told.wait.take().filter(|_| goes_on) {
            tell(What::GoesOn { key, waited: since.elapsed() });
        }
        if let Some(wait) = wait {
            let now = Instant::now();
            told.wait = Some((wait.key.clone(), now.checked_sub(wait.time).unwrap_or(now)));
            tell(What::Waits(wait));
        }
    }

    /// What there is to tell since this was called last.
    #[inline]
    pub(crate) fn take_news(&mut self) -> News {
        News(Rare(self.0.0.as_deref_mut().and_then(WaitsTold::take_news)))
    }

    /// When to look again, in microseconds, if it has to wait now: it may be that nobody tells.
    pub(crate) fn pause_us(&mut self) -> Option<u64> {
        let told = self.0.0.as_mut().filter(|told| told.wait.is_none())?;
        let pause = told.pause_us;
        told.pause_us = (pause * 2).min(PAUSE_US.1);
        Some(pause)
    }
}

impl WaitsTold {
    #[cold]
    fn begin(attempt: &Arc<AttemptTold>) -> Box<Self> {
        let attempt = Arc::clone(attempt);
        Box::new(WaitsTold { attempt, wait: None, pause_us: PAUSE_US.0, news: Vec::new() })
    }

    #[cold]
    fn take_news(&mut self) -> Option<Box<(Arc<AttemptTold>, Vec<What>)>> {
        let news = std::mem::take(&mut self.news);
        (!news.is_empty()).then(|| Box::new((Arc::clone(&self.attempt), news)))
    }
}

/// What is to be told of an attempt once no lock is held.
#[derive(Debug)]
#[must_use]
pub(crate) struct News(Rare<Box<(Arc<AttemptTold>, Vec<What>)>>);

#[derive(Debug)]
enum What {
    Name(TxId),
    Waits(BlockedOn),
    GoesOn { key: Bytes, waited: Duration },
}

impl News {
    #[inline]
    pub(crate) fn tell(mut self) {
        if let Some(news) = self.0.0.take() {
            tell_all(*news);
        }
    }
}

#[cold]
fn tell_all((attempt, news): (Arc<AttemptTold>, Vec<What>)) {
    news.into_iter().for_each(|what| what.tell(&attempt));
}

impl What {
    #[cold]
    fn tell(self, AttemptTold { transaction, span }: &AttemptTold) {
        match self {
            What::Name(id) => drop(transaction.span.record("id", display(id))),
            What::Waits(BlockedOn { key, holder, .. }) => {
                debug!(target: TARGET, parent: span, %key, holder = holder.map(display), "waits");
            }
            What::GoesOn { key, waited } => {
                let waited_us = waited.as_micros() as u64;
                debug!(target: TARGET, parent: span, %key, waited_us, "goes on");
            }
        }
    }
}
