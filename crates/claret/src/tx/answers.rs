//! What a transaction has been answered, and what it still is to be.

use claret_core::CallNo;
use claret_types::Reply;

use crate::by_call::ByCall;

/// Of one attempt.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Operations that were sent and are not answered.
    unanswered: ByCall<()>,
    /// Of operations whose answers the closure waits for.
    replies: ByCall<Reply>,
    /// Of those whose answers came with the commit.
    committed: Vec<(CallNo, Reply)>,
    /// What was committed is not known to stay: its answers are not told.
    is_unconfirmed: bool,
}

impl Answers {
    /// An operation is sent.
    #[inline]
    pub(super) fn expect(&mut self, no: CallNo) {
        self.unanswered.put(no, ());
    }

    /// An answer comes. `false`: nobody waits for it.
    #[inline]
    pub(super) fn come(&mut self, no: CallNo) -> bool {
        self.unanswered.take(no).is_some()
    }

    /// Keeps an answer for the closure.
    #[inline]
    pub(super) fn put(&mut self, no: CallNo, reply: Reply) {
        self.replies.put(no, reply);
    }

    /// For the closure, once.
    #[inline]
    pub(super) fn take(&mut self, no: CallNo) -> Option<Reply> {
        self.replies.take(no)
    }

    /// Whether all that was sent is answered.
    #[inline]
    pub(super) fn are_complete(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// These are undone: which of them are not answered, then which have answers that nobody has taken.
    pub(super) fn undo(&mut self, is_undone: impl Fn(CallNo) -> bool) -> Vec<CallNo> {
        let mut undone = self.unanswered.take_where(&is_undone);
        undone.extend(self.replies.take_where(&is_undone));
        undone
    }

    /// Nobody waits for these looks any more.
    pub(super) fn leave(&mut self, looks: &[CallNo]) {
        self.unanswered.take_where(|no| looks.contains(&no));
    }

    /// These came with the commit.
    #[inline]
    pub(super) fn commit(&mut self, replies: Vec<(CallNo, Reply)>) {
        self.committed = replies;
    }

    /// It was committed at once, with these.
    pub(super) fn commit_at_once(&mut self, replies: Vec<Reply>) {
        self.committed.extend((0..).map(CallNo).zip(replies));
    }

    /// Those of the commit, in any order.
    pub(super) fn take_committed(&mut self) -> Vec<(CallNo, Reply)> {
        std::mem::take(&mut self.committed)
    }

    /// Whether those of the commit are still to be kept back, until it is durable.
    pub(super) fn keep_unconfirmed(&mut self, is_unconfirmed: bool) {
        self.is_unconfirmed = is_unconfirmed;
    }

    /// Those of the commit; `None`: it is not known to stay.
    pub(super) fn told(&self) -> Option<&[(CallNo, Reply)]> {
        (!self.is_unconfirmed).then_some(&self.committed)
    }

    /// Another attempt begins.
    pub(super) fn begin_again(&mut self) {
        self.unanswered.clear();
        self.replies.clear();
        self.committed.clear();
    }
}
