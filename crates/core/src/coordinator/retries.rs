//! When an attempt tries again: what has no answer is sent again, and busy locks are asked for again where there are no queues.

use crate::ids::Time;
use crate::limits::Limits;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Retries {
    /// When what has no answer is sent again. Set while anything has none, where messages may be lost.
    resend_at: Option<Time>,
    /// When busy locks are tried again, where there are no queues.
    backoff_at: Option<Time>,
    /// How often busy locks were tried again, in this attempt.
    tries: u32,
    /// The state of a random number. Never zero.
    jitter: u64,
}

impl Retries {
    pub(super) fn new(seed: u64) -> Self {
        Retries { resend_at: None, backoff_at: None, tries: 0, jitter: seed | 1 }
    }

    /// Something has no answer: it is sent again at this time, or earlier if that was said before.
    pub(super) fn resend_at(&mut self, at: Time) {
        self.resend_at.get_or_insert(at);
    }

    /// Whether anything has no answer.
    pub(super) fn will_resend(&self) -> bool {
        self.resend_at.is_some()
    }

    /// All is answered, or about to be sent again.
    pub(super) fn clear_resend(&mut self) {
        self.resend_at = None;
    }

    /// Whether it is time to send again.
    pub(super) fn is_resend_due(&self, now: Time) -> bool {
        self.resend_at.is_some_and(|at| at <= now)
    }

    /// A lock is busy: it is tried again after a pause that doubles with each refusal, with jitter (P68). `false`: when the attempt has tried often enough.
    #[must_use]
    pub(super) fn back_off(&mut self, now: Time, limits: &Limits) -> bool {
        self.tries += 1;
        if self.tries > limits.lock_tries_max {
            return false;
        }
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let doubled = limits.backoff_us_min << self.tries.min(20);
        let longest = doubled.min(limits.backoff_us_max);
        self.backoff_at = Some(now.plus(longest / 2 + self.jitter % (longest / 2 + 1)));
        true
    }

    /// Whether busy locks are to be tried again now: once.
    pub(super) fn take_due_backoff(&mut self, now: Time) -> bool {
        let is_due = self.backoff_at.is_some_and(|at| at <= now);
        if is_due {
            self.backoff_at = None;
        }
        is_due
    }

    /// The attempt asks for no lock any more.
    pub(super) fn clear_backoff(&mut self) {
        self.backoff_at = None;
    }

    /// When something is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.resend_at, self.backoff_at].into_iter().flatten().min()
    }

    /// The next attempt tries as often as the first one.
    pub(super) fn begin_next(&mut self) {
        self.tries = 0;
    }
}
