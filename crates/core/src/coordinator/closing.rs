//! Attempts that are over but that some participant may not know to be over. The abort is sent until every
//! participant has acknowledged it; only then may the session's low-water mark pass the transaction.

use smallvec::SmallVec;

use super::out::Out;
use crate::ids::{AttemptId, ShardId};
use crate::message::{Request, Response};

/// One of them.
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
    fn send(&self, out: &mut Out) {
        for shard in &self.waiting {
            out.send(*shard, Request::Abort { attempt: self.attempt, refused_by: self.refused_by });
        }
    }
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Closings(Vec<Closing>);

impl Closings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An attempt is over: tells everybody who may hold something of it. Whether anybody does.
    pub(super) fn close(&mut self, closing: Closing, out: &mut Out) -> bool {
        if closing.waiting.is_empty() {
            return false;
        }
        closing.send(out);
        self.0.push(closing);
        true
    }

    /// Tells everybody again who has not acknowledged.
    pub(super) fn send_again(&self, out: &mut Out) {
        self.0.iter().for_each(|closing| closing.send(out));
    }

    /// Attempts that are to be kept alive.
    pub(super) fn live(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.0.iter().filter(|closing| !closing.is_unknown).map(|closing| closing.attempt)
    }

    /// A response about an attempt that is over, or about none that is known.
    pub(super) fn handle_response(&mut self, from: ShardId, response: &Response) {
        let Some(attempt) = response.attempt() else { return };
        match response {
            Response::Aborted { .. } | Response::Refused { .. } => {
                for closing in self.0.iter_mut().filter(|closing| closing.attempt == attempt) {
                    closing.waiting.retain(|shard| *shard != from);
                }
                self.0.retain(|closing| !closing.waiting.is_empty());
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
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        self.0
            .iter()
            .for_each(|closing| assert!(!closing.waiting.is_empty(), "{closing:?} waits for nobody"));
    }
}
