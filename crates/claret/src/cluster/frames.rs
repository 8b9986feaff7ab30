//! Carries frames between one connection and the desk.
//!
//! A shard that cannot read a frame, or may not take it for its size, refuses all of it, and one request is to blame.
//! Its requests are then sent again one by one; the one that is refused alone can never be done, and its transaction
//! is told so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::BytesMut;
use claret_core::message::{Refusal, Request, Response};
use claret_core::{AttemptId, Incarnation, wire};
use claret_types::{Bytes, OpError};
use tokio::task::AbortHandle;

use super::connection::{Duty, refusal, unreachable_at};
use super::error::ConnectError;
use super::hub::{Hub, Lane};
use super::options::Address;
use super::resp::{self, Reader, Said, ServerError, Value};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Frames {
    hub: Arc<Hub>,
    node: Address,
    lane: Lane,
    incarnation: Incarnation,
    poll: Option<AbortHandle>,
    /// The requests of each frame that has no answer.
    sent: VecDeque<Vec<Request>>,
    /// Of frames that were refused: to be sent alone.
    suspects: VecDeque<Request>,
    /// Kept for their room.
    spare: Vec<Vec<Request>>,
    frame: Vec<u8>,
    responses: Vec<Response>,
}

impl Frames {
    pub(super) fn new(
        hub: Arc<Hub>,
        node: Address,
        lane: Lane,
        incarnation: Incarnation,
        poll: Option<AbortHandle>,
    ) -> Self {
        Frames {
            hub,
            node,
            lane,
            incarnation,
            poll,
            sent: VecDeque::new(),
            suspects: VecDeque::new(),
            spare: Vec::new(),
            frame: Vec::new(),
            responses: Vec::new(),
        }
    }

    /// Ends a frame of these requests.
    fn write(&mut self, requests: Vec<Request>, out: &mut BytesMut) {
        resp::encode(out, &[&b"CLARET.FRAME"[..], &self.frame]);
        self.frame.clear();
        self.sent.push_back(requests);
    }

    /// Writes requests as frames: their number.
    fn write_all(&mut self, mut requests: Vec<Request>, out: &mut BytesMut) -> usize {
        let mut frames = 0;
        let mut begun = 0;
        while begun < requests.len() {
            wire::append_request(&requests[begun], &mut self.frame);
            begun += 1;
            if self.frame.len() > wire::FRAME_BYTES_MAX && begun < requests.len() {
                let rest = requests.split_off(begun);
                self.write(std::mem::replace(&mut requests, rest), out);
                (begun, frames) = (0, frames + 1);
            }
        }
        match requests.is_empty() {
            true => self.spare.push(requests),
            false => {
                self.write(requests, out);
                frames += 1;
            }
        }
        frames
    }

    /// The responses in the reply to a frame.
    fn read_reply(&mut self, value: &Value<'_>) -> Result<(), ConnectError> {
        let Some(mut requests) = self.sent.pop_front() else {
            return Err(self.not_understood("a reply that nobody waits for".into()));
        };
        match value.bytes() {
            Some(payload) => self.read(payload)?,
            None => match value.reply() {
                Err(error) if error.code() == "ERR" => self.on_refused(&mut requests, &error),
                Err(error) => return Err(refusal(&self.node, error)),
                Ok(reply) => return Err(self.not_understood(format!("{reply} to a frame"))),
            },
        }
        requests.clear();
        self.spare.push(requests);
        Ok(())
    }

    fn read(&mut self, payload: &[u8]) -> Result<(), ConnectError> {
        let responses = wire::decode_responses(payload);
        self.responses.extend(responses.map_err(|error| self.not_understood(error.to_string()))?);
        Ok(())
    }

    fn not_understood(&self, reason: String) -> ConnectError {
        ConnectError::NotUnderstood { node: self.node.to_string(), reason }
    }

    /// The shard does not take the frame.
    fn on_refused(&mut self, requests: &mut Vec<Request>, error: &ServerError) {
        if requests.len() > 1 {
            // Of heartbeats the next one says more. This one would come behind requests of transactions that it does not list.
            let is_late = |request: &Request| matches!(request, Request::Heartbeat { .. });
            self.suspects.extend(requests.drain(..).filter(|request| !is_late(request)));
            return;
        }
        let Some((attempt, key)) = requests.first().and_then(blamed) else { return };
        // It will never say yes to what it cannot read. What it granted before goes with a no that it writes.
        self.suspects.push_back(Request::Withdraw { attempt });
        let refusal = Refusal::Operation { key, error: OpError::Told(error.to_string()) };
        let shard = self.lane.shard;
        self.responses.push(Response::Refused { attempt, shard, refusal, since: self.incarnation });
    }
}

/// The attempt that a request asks something for, and the first record that it names.
fn blamed(request: &Request) -> Option<(AttemptId, Bytes)> {
    match request {
        Request::Execute { attempt, key, .. } => Some((*attempt, key.clone())),
        Request::Prepare { attempt, calls, .. } => {
            Some((*attempt, calls.first().map(|call| call.key.clone()).unwrap_or_default()))
        }
        Request::Apply { .. }
        | Request::Withdraw { .. }
        | Request::Abort { .. }
        | Request::Heartbeat { .. }
        | Request::Ask { .. } => None,
    }
}

impl Duty for Frames {
    fn fill(&mut self, waker: &Waker, out: &mut BytesMut) -> bool {
        let Lane { shard, connection } = self.lane;
        let mut requests = self.spare.pop().unwrap_or_default();
        let is_done = self.hub.look(|desk| desk.take(shard, connection, waker, &mut requests));
        let counted = usize::from(!requests.is_empty());
        let mut frames = self.write_all(requests, out);
        while let Some(suspect) = self.suspects.pop_front() {
            frames += self.write_all(vec![suspect], out);
        }
        if frames > counted {
            let now = self.hub.now();
            self.hub.look(|desk| desk.add_frames(now, shard, connection, frames - counted));
        }
        is_done
    }

    fn take(&mut self, input: &[u8], reader: &mut Reader) -> Result<usize, ConnectError> {
        let (mut taken, mut frames) = (0, 0);
        while let Some((said, length)) = reader.next(&input[taken..]).map_err(|error| error.at(&self.node))? {
            match &said {
                Said::Reply(value) => {
                    frames += 1;
                    self.read_reply(value)?;
                }
                Said::Push(values) => match (values.first().and_then(Value::bytes), &values[..]) {
                    (Some(b"smessage"), [_, _, payload]) => self.read(payload.bytes().unwrap_or_default())?,
                    (Some(b"sunsubscribe"), _) => {
                        let reason = "its slots moved, and the channel of grants with them".to_owned();
                        return Err(unreachable_at(&self.node, reason));
                    }
                    _ => reader.note_push().map_err(|error| error.at(&self.node))?,
                },
            }
            taken += length;
        }
        self.hub.deliver(&self.lane, frames, &mut self.responses);
        Ok(taken)
    }

    fn waits(&self) -> Option<Duration> {
        let Lane { shard, connection } = self.lane;
        let since = self.hub.look(|desk| desk.owes_since(shard, connection))?;
        Some(Duration::from_micros(self.hub.now().since(since)))
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        if let Some(poll) = &self.poll {
            poll.abort();
        }
        let Lane { shard, connection } = self.lane;
        self.hub.look(|desk| desk.unbind(shard, connection));
    }
}

#[cfg(test)]
mod tests {
    use claret_core::{Sequence, SessionId, TxId};

    use super::super::bounds::ReplyLimits;
    use super::super::hub::tests::{CONNECTION, SHARD, hub};
    use super::*;

    /// It would come behind a transaction that it does not list, which the shard would take for over.
    #[test]
    fn a_heartbeat_of_a_frame_that_was_refused_is_not_said_again() {
        let lane = Lane { shard: SHARD, connection: CONNECTION };
        let node = Address { host: "h".into(), port: 1 };
        let mut frames = Frames::new(hub(), node, lane, Incarnation(5), None);
        let tx = TxId { session: SessionId(7), sequence: Sequence(1) };
        let withdraw = Request::Withdraw { attempt: AttemptId { tx, attempt: 1 } };
        let heartbeat = Request::Heartbeat { live: Vec::new(), floor: Sequence(1) };
        let mut out = BytesMut::new();
        frames.write_all(vec![heartbeat, withdraw.clone()], &mut out);
        let mut reader = Reader::new(ReplyLimits::default().of_work());
        let refused = b"-ERR message 1 of the frame cannot be read\r\n";
        assert_eq!(frames.take(refused, &mut reader), Ok(refused.len()));
        assert_eq!(frames.suspects, [withdraw]);
    }
}
