//! What is said again, to who did not hear it.

use smallvec::SmallVec;

use super::{AttemptId, CallNo, Heard, Reply, Response, Shard};

impl Shard {
    /// Calls came again: those that return something and are done are answered once more. The last one first: the
    /// others came along with it, and may be known by now.
    pub(super) fn answer_again(&mut self, attempt: AttemptId, asked: &[CallNo]) {
        let participant = &self.attempts[&attempt];
        let mut again_bytes = self.again_bytes;
        let mut responses: SmallVec<[Response; 2]> = SmallVec::new();
        let mut waits = false;
        for no in asked.iter().rev() {
            match participant.seen.get(no) {
                // The rest is as if it was lost: it is asked for again.
                Some(Heard::Answered(_)) if again_bytes == 0 => {}
                Some(Heard::Answered(at)) => {
                    let (no, reply) = &participant.replies[*at as usize];
                    let (granted, incarnation) = (participant.granted, participant.met_as);
                    let (no, reply) = (*no, reply.clone());
                    again_bytes = again_bytes.saturating_sub(reply.size());
                    responses.push(Response::Granted { attempt, no, reply, granted, incarnation });
                }
                Some(Heard::Waits) => waits = true,
                Some(Heard::Granted) | None => {}
            }
        }
        if waits {
            // Of which call was said when it began to wait.
            responses.push(Response::Queued { attempt, no: None });
        }
        self.again_bytes = again_bytes;
        responses.into_iter().for_each(|response| self.respond(attempt, response));
    }

    /// A vote is said once more.
    pub(super) fn vote_again(&mut self, attempt: AttemptId) {
        if self.placed_at(attempt).is_some() && self.is_single(attempt) {
            return; // It is done soon, and says so.
        }
        if !self.says_answers_again(attempt) {
            return;
        }
        if self.participant(attempt).place().is_some() {
            return self.say_place(attempt);
        }
        let replies = self.participant(attempt).voted_replies();
        self.respond(attempt, Response::Voted { attempt, shard: self.id, replies });
    }

    /// Whether the answers that an attempt voted with are said again. Nothing is looked at when the input has done its share.
    pub(super) fn says_answers_again(&mut self, attempt: AttemptId) -> bool {
        if self.again_bytes == 0 {
            return false;
        }
        let voted = self.attempts.get(&attempt).map_or(&[][..], |participant| participant.voted_answers());
        let bytes: usize = voted.iter().map(|(_, reply)| reply.size()).sum();
        self.stats.visits += voted.len() as u64;
        self.again_bytes = self.again_bytes.saturating_sub(bytes);
        true
    }

    /// Whether answers are said again; if not, it is as if that word was lost.
    pub(super) fn says_again(&mut self, replies: &[(CallNo, Reply)]) -> bool {
        let is_said = self.again_bytes > 0;
        if is_said {
            let bytes = replies.iter().map(|(_, reply)| reply.size()).sum();
            self.again_bytes = self.again_bytes.saturating_sub(bytes);
        }
        is_said
    }
}
