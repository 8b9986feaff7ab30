//! One client's slot in a process: its current transaction, over all attempts.

use claret_core::TxHandle;
use claret_types::Reply;

use super::client::{Call, Client, Stage};

/// What a client does when its timer goes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It begins its first transaction.
    Begin,
    /// It runs its transaction again.
    Restart,
    /// The application is done with its work between two operations.
    Call,
    /// The application is done with its work after a stage.
    Stage,
}

/// See the module's text.
pub(super) struct Terminal {
    pub(super) client: Box<dyn Client>,
    /// The kind of the transaction that is under way.
    pub(super) kind: usize,
    /// When it was drawn, in nanoseconds.
    pub(super) began: u64,
    pub(super) is_active: bool,
    /// Its handle; without transactions it has none.
    pub(super) tx: Option<TxHandle>,
    pub(super) attempts: u32,
    pub(super) stage: Stage,
    pub(super) calls: Vec<Call>,
    pub(super) replies: Vec<Reply>,
    /// The next call of the stage to be issued.
    pub(super) next: usize,
    /// Calls of this attempt before this stage: a call's number is its place in the stage and this.
    pub(super) before: u32,
    /// Calls that are not answered.
    pub(super) awaited: usize,
    /// Without transactions: calls that wait for the last stage, and their places in it.
    pub(super) later: Vec<(usize, Call)>,
    pub(super) is_committing: bool,
    pub(super) resting: Resting,
}

/// For what a terminal rests, until a timer.
pub(super) struct Resting {
    /// Which timer counts: the latest.
    timer: u64,
    rest: Rest,
}

impl Resting {
    /// Begins to rest. The number of its timer.
    pub(super) fn begin(&mut self, rest: Rest) -> u64 {
        self.rest = rest;
        self.forget();
        self.timer
    }

    /// For what, if this timer counts.
    pub(super) fn is_over(&self, timer: u64) -> Option<Rest> {
        (self.timer == timer).then_some(self.rest)
    }

    /// No timer that was set counts any more.
    pub(super) fn forget(&mut self) {
        self.timer += 1;
    }
}

impl Terminal {
    pub(super) fn new(client: Box<dyn Client>) -> Self {
        Terminal {
            client,
            kind: 0,
            began: 0,
            is_active: false,
            tx: None,
            attempts: 0,
            stage: Stage::Read,
            calls: Vec::new(),
            replies: Vec::new(),
            next: 0,
            before: 0,
            awaited: 0,
            later: Vec::new(),
            is_committing: false,
            resting: Resting { timer: 0, rest: Rest::Begin },
        }
    }

    /// Begins an attempt: its first stage is to be issued.
    pub(super) fn begin_attempt(&mut self) {
        self.calls.clear();
        self.later.clear();
        self.is_committing = false;
        self.before = 0;
        self.stage = self.client.stage(&[], &mut self.calls);
        self.begin_stage();
    }

    /// The last stage is answered: gets the next one.
    pub(super) fn next_stage(&mut self) {
        self.before += self.calls.len() as u32;
        self.calls.clear();
        self.stage = self.client.stage(&self.replies, &mut self.calls);
        self.begin_stage();
    }

    fn begin_stage(&mut self) {
        self.replies.clear();
        self.replies.resize(self.calls.len(), Reply::Ok);
        self.next = 0;
        self.awaited = 0;
        self.resting.forget(); // What an earlier stage waited for does not count any more.
    }

    /// Whether its user wants it rolled back.
    pub(super) fn is_rolled_back(&self) -> bool {
        self.stage == Stage::Commit && self.client.rolls_back()
    }

    /// Notes the answer of a call.
    pub(super) fn answer(&mut self, at: usize, reply: Reply) {
        self.replies[at] = reply;
        self.awaited -= 1;
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("kind", &self.kind).field("tx", &self.tx).finish_non_exhaustive()
    }
}
