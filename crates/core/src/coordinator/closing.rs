//! Attempts that are over but that some participant may not know to be over. The abort is sent until every
//! participant has acknowledged it; only then may the session's low-water mark pass the transaction.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::Coordinator;
use crate::ids::{AttemptId, ShardId};
use crate::message::{Request, Response};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    pub(super) attempt: AttemptId,
    /// Who wrote no, or was never asked for its vote; `None` when no prepare ever left, so that no yes can exist, or when
    /// nobody knows the end.
    pub(super) refused_by: Option<ShardId>,
    /// Those who voted are to find out among themselves: it is not kept alive.
    pub(super) is_unknown: bool,
    /// Who has not acknowledged. Never empty.
    pub(super) waiting: SmallVec<[ShardId; 4]>,
}

impl Closing {
    pub(super) fn send(&self, sends: &mut VecDeque<(ShardId, Request)>) {
        let request = || Request::Abort { attempt: self.attempt, refused_by: self.refused_by };
        sends.extend(self.waiting.iter().map(|shard| (*shard, request())));
    }
}

impl Coordinator {
    /// A response about an attempt that is over, or about none that is known.
    pub(super) fn handle_closing(&mut self, from: ShardId, response: &Response) {
        let Some(attempt) = response.attempt() else { return };
        match response {
            Response::Aborted { .. } | Response::Refused { .. } => {
                for closing in self.closing.iter_mut().filter(|closing| closing.attempt == attempt) {
                    closing.waiting.retain(|shard| *shard != from);
                }
                self.closing.retain(|closing| !closing.waiting.is_empty());
            }
            Response::Granted { .. }
            | Response::Queued { .. }
            | Response::Busy { .. }
            | Response::Voted { .. }
            | Response::Committed { .. }
            | Response::Applied { .. }
            | Response::Elder { .. }
            | Response::Asked { .. }
            | Response::Behind { .. }
            | Response::Placed { .. }
            | Response::Done { .. }
            | Response::Ticked { .. }
            | Response::Looked { .. } => {} // Late news of an attempt that is over.
        }
        if self.is_over() {
            self.resend_at = None;
        }
    }
}
