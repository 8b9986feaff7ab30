//! An attempt that is over, while some participant may not know it. Its abort is sent until everybody has
//! acknowledged it; only then may the session's floor pass the transaction.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::ids::{AttemptId, ShardId};
use crate::message::Request;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) attempt: AttemptId,
    /// Who wrote no; `None` when no prepare ever left, so that no yes can exist.
    pub(super) refused_by: Option<ShardId>,
    /// Who has not acknowledged. Never empty.
    pub(super) waiting: SmallVec<[ShardId; 4]>,
}

impl Closing {
    pub(super) fn send(&self, sends: &mut VecDeque<(ShardId, Request)>) {
        let request = || Request::Abort { attempt: self.attempt, refused_by: self.refused_by };
        sends.extend(self.waiting.iter().map(|shard| (*shard, request())));
    }
}
