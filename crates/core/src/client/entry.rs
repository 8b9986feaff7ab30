//! What a client process has of one transaction: its coordinator, and where it stands.

use super::ways::batch::membership::{Left, Membership};
use crate::coordinator::Coordinator;
use crate::ids::Time;
use crate::planted::{Bug, is_planted};

/// One transaction that is not over everywhere.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) coordinator: Coordinator,
    /// Its user knows the end, or is gone.
    pub(super) ended: bool,
    pub(super) is_ready: bool,
    pub(super) timer: Option<Time>,
    /// It commits in a batch, or waits for others to do so with.
    pub(super) membership: Membership,
    pub(super) left: Left,
    /// Since when it is to commit, if its time counts.
    pub(super) committing_since: Option<Time>,
    /// When it is given up, as it carries others and waits.
    pub(super) breaks_at: Option<Time>,
}

impl Entry {
    pub(super) fn new(coordinator: Coordinator) -> Self {
        Entry {
            coordinator,
            ended: false,
            is_ready: false,
            timer: None,
            membership: Membership::Alone,
            left: Left::No,
            committing_since: None,
            breaks_at: None,
        }
    }

    /// When something is to be done for it.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.coordinator.poll_timeout().into_iter().chain(self.breaks_at).min()
    }

    /// Whether shards know it by its own name.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.membership, Membership::Alone | Membership::Carries)
    }

    /// Whether it may leave the table: its user knows the end, and so do all shards (P28).
    pub(super) fn is_forgotten(&self) -> bool {
        self.ended && (self.coordinator.is_over() || is_planted(Bug::ForgottenWhenTold))
    }

    /// It is good for another transaction: nothing of the last one is in it.
    pub(super) fn reset(&mut self) {
        self.ended &= is_planted(Bug::RecycledStaysEnded);
        self.is_ready = false;
        if !is_planted(Bug::RecycledKeepsTimer) {
            self.timer = None;
        }
        self.membership = Membership::Alone;
        self.left = Left::No;
        (self.committing_since, self.breaks_at) = (None, None);
    }

    /// Whether something follows from what its coordinator heard: it has something to say, is over, or is due sooner than was
    /// promised.
    pub(super) fn has_news(&self) -> bool {
        self.coordinator.has_output() || self.is_forgotten() || self.new_due().is_some()
    }

    /// When it is due, if that is to be promised. A later due than was promised needs no new promise: the old one looks again.
    pub(super) fn new_due(&self) -> Option<Time> {
        self.poll_timeout().filter(|due| self.timer.is_none_or(|timer| *due < timer))
    }
}
