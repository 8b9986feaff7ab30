//! Responses that wait to be pushed to a session, polled by it, or sent with its next frame. Their number and bytes
//! are bounded: beyond that the oldest are dropped, and the protocol asks for them again.

use std::collections::VecDeque;

use claret_core::message::Response;
use claret_planted::{Bug, is_planted};

/// See the module's text.
#[derive(Default)]
pub(crate) struct Outbox {
    responses: VecDeque<Response>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn len(&self) -> usize {
        self.responses.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    pub(crate) fn push(&mut self, response: Response) {
        self.bytes += response.size();
        self.responses.push_back(response);
    }

    /// Puts back, in front, what was taken.
    pub(crate) fn put_back(&mut self, responses: Vec<Response>) {
        for response in responses.into_iter().rev() {
            self.bytes += response.size();
            match is_planted(Bug::PutBackBehind) {
                true => self.responses.push_back(response),
                false => self.responses.push_front(response),
            }
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Response> {
        self.bytes = 0;
        std::mem::take(&mut self.responses).into()
    }

    /// Drops the oldest of what is too much; how many. The latest stays, however large it is.
    pub(crate) fn keep_within(&mut self, count_max: u64, bytes_max: u64) -> u64 {
        let mut dropped = 0;
        while self.responses.len() > 1
            && (self.responses.len() as u64 > count_max || self.bytes as u64 > bytes_max)
        {
            let newest_first = is_planted(Bug::NewestDropped);
            let oldest = if newest_first { self.responses.pop_back() } else { self.responses.pop_front() };
            let Some(oldest) = oldest else { break };
            self.bytes -= oldest.size();
            dropped += 1;
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use claret_core::message::Response;
    use claret_core::{AttemptId, CallNo, Incarnation, Sequence, SessionId, TxId};
    use claret_types::Reply;

    use super::Outbox;

    fn answer(no: u32, bytes: usize) -> Response {
        let tx = TxId { session: SessionId(1), sequence: Sequence(1) };
        let (attempt, reply) = (AttemptId { tx, attempt: 1 }, Reply::Bytes(vec![b'x'; bytes].into()));
        Response::Granted { attempt, no: CallNo(no), reply, granted: no, incarnation: Incarnation(1) }
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_too_much() {
        let mut outbox = Outbox::default();
        (0..5).for_each(|no| outbox.push(answer(no, 10)));
        assert_eq!(outbox.keep_within(3, u64::MAX), 2);
        outbox.push(answer(5, 1_000_000));
        assert_eq!(outbox.keep_within(100, 1_000), 3);
        assert_eq!(outbox.take(), [answer(5, 1_000_000)]);
        assert_eq!((outbox.bytes(), outbox.len()), (0, 0));
        outbox.put_back(vec![answer(0, 1), answer(1, 1)]);
        assert_eq!(outbox.bytes(), 2 * answer(0, 1).size());
    }
}
