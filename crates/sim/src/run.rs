//! What one user did and heard in one run of a transaction's program: the observer's notes, from which the checks
//! start. Nothing in it comes from inside the protocol.

use claret_core::{SessionId, Time, TxHandle};
use claret_types::{Bytes, Operation, Reply};

use crate::probe::Probe;

/// One run of a transaction: a user sees an attempt as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId {
    pub(crate) session: SessionId,
    pub(crate) tx: TxHandle,
    /// From 1.
    pub(crate) run: u32,
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "c{}.t{}/{}", self.session.0, self.tx.0, self.run)
    }
}

/// How a run ended, as far as its user knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing yet; or the user has left.
    #[default]
    Nothing,
    Committed(Time),
    /// Aborted, refused, or to be run again.
    Void,
}

/// One operation, in the order in which the program issued them.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) key: Bytes,
    pub(crate) op: Operation,
    /// What it is to the judge of observed results.
    pub(crate) probe: Option<Probe>,
    /// What the user heard.
    pub(crate) reply: Option<Reply>,
    /// The user heard that it cannot be done.
    pub(crate) fails: bool,
    /// It is undone, and those issued from here on do not see what it did.
    pub(crate) undone_at: Option<usize>,
}

impl Issued {
    /// Whether it may be that no shard has heard of it.
    pub(crate) fn is_unsent(&self) -> bool {
        self.undone_at.is_some() && self.reply.is_none() && !self.fails
    }
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunLog {
    pub(crate) began: Time,
    pub(crate) issued: Vec<Issued>,
    pub(crate) told: Told,
    /// It was only checked, and nothing of it done: these of its operations, in their order.
    pub(crate) checked: Option<Vec<usize>>,
}
