//! What the application hears of its transaction.

use std::error::Error;
use std::fmt;

use claret_types::{Bytes, Reply};

use crate::ids::{AttemptId, CallNo};
use crate::message::{Refusal, Seen};

/// What the application hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The answer of a call that was executed at once, or buffered and then sent with one on its record.
    Answer {
        /// Which call.
        no: CallNo,
        /// Its answer.
        reply: Reply,
    },
    /// All participants have voted yes. Told before anything is applied (P3).
    Committed {
        /// Answers of the calls that were buffered until commit and return something, in no useful order.
        replies: Vec<(CallNo, Reply)>,
    },
    /// Aborted as asked; nothing of it will ever be applied.
    Aborted,
    /// This attempt is over and another may fare better: run it again from its start, after
    /// [`Coordinator::restart`](crate::Coordinator::restart).
    Restart {
        /// Why.
        cause: Cause,
    },
    /// Refused for good; nothing of it will ever be applied.
    Failed {
        /// Why.
        refusal: Refusal,
    },
    /// The answer to [`Client::ask_behind`](crate::client::Client::ask_behind): a record that it waits for, and who holds
    /// that, if it is known. `None`: it waits for nothing (any more).
    Behind {
        /// The record and one of its holders.
        record: Option<(Bytes, Option<AttemptId>)>,
    },
    /// The answer to [`Client::look`](crate::Client::look), for whom the host says it belongs to.
    Seen {
        /// As [`Observations::look`](crate::Observations::look) numbered it.
        no: CallNo,
        /// What was seen.
        seen: Seen,
    },
    /// A participant lost its memory after the prepare had left: whether the transaction committed there, nobody
    /// knows any more. It is not run again (P55, P65).
    Unknown,
}

impl Event {
    /// Whether the transaction is over with it, and not only the attempt.
    pub fn is_last(&self) -> bool {
        !matches!(
            self,
            Event::Answer { .. } | Event::Restart { .. } | Event::Behind { .. } | Event::Seen { .. }
        )
    }
}

/// Why an attempt restarts.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// An elder waited for what it held, while it waited itself (P21).
    GaveWay,
    /// Without phases: a lock was refused too often.
    Busy,
    /// A shard refused.
    Refused(Refusal),
    /// It was taken out of its combined group: it conflicted with the others, or kept them waiting (C12).
    Parted,
}

/// A call, a commit or a restart names an attempt that does not run, or not any more. Nothing was done (P61).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attempt is over")
    }
}

impl Error for Closed {}
