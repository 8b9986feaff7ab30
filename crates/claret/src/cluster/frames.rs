//! Carries frames between one connection and the client state machine: what RESP adds to `claret_core::Pipeline`.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::BytesMut;
use claret_core::message::{Request, Response};
use claret_core::{Incarnation, Pipeline, Unexpected, wire};
use tokio::task::AbortHandle;

use super::connection::{Duty, refusal, unreachable_at};
use super::error::ConnectError;
use super::hub::{Hub, Lane};
use super::options::Address;
use super::resp::{self, Reader, Said, Value};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Frames {
    hub: Arc<Hub>,
    node: Address,
    lane: Lane,
    poll: Option<AbortHandle>,
    pipeline: Pipeline,
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
        let pipeline = Pipeline::new(lane.shard, incarnation);
        Frames { hub, node, lane, poll, pipeline, responses: Vec::new() }
    }

    /// The responses in the reply to a frame.
    fn read_reply(&mut self, value: &Value<'_>) -> Result<(), ConnectError> {
        let ended = match value.bytes() {
            Some(payload) => {
                let taken = self.pipeline.taken();
                self.read(payload)?;
                taken
            }
            None => match value.reply() {
                Err(error) if error.code() == "ERR" => {
                    let refused = self.pipeline.refused(&error.to_string());
                    refused.map(|response| self.responses.extend(response))
                }
                Err(error) => return Err(refusal(&self.node, error)),
                Ok(reply) => return Err(self.not_understood(format!("{reply} to a frame"))),
            },
        };
        ended.map_err(|unexpected: Unexpected| self.not_understood(unexpected.to_string()))
    }

    fn read(&mut self, payload: &[u8]) -> Result<(), ConnectError> {
        let responses = wire::decode_responses(payload);
        self.responses.extend(responses.map_err(|error| self.not_understood(error.to_string()))?);
        Ok(())
    }

    fn not_understood(&self, reason: String) -> ConnectError {
        ConnectError::NotUnderstood { node: self.node.to_string(), reason }
    }
}

impl Duty for Frames {
    fn fill(&mut self, waker: &Waker, out: &mut BytesMut) -> bool {
        let Lane { shard, connection } = self.lane;
        let mut requests = self.pipeline.spare();
        let is_done = self.hub.look(|machine| machine.take(shard, connection, waker, &mut requests));
        let counted = usize::from(!requests.is_empty());
        let send = |_: &[Request], frame: &[u8]| resp::encode(out, &[&b"CLARET.FRAME"[..], frame]);
        let frames = self.pipeline.write(requests, wire::append_request, send);
        if frames > counted {
            let now = self.hub.now();
            self.hub.look(|machine| machine.client.add_frames(now, shard, connection, frames - counted));
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
        let since = self.hub.look(|machine| machine.client.owes_since(shard, connection))?;
        Some(Duration::from_micros(self.hub.now().since(since)))
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        if let Some(poll) = &self.poll {
            poll.abort();
        }
        let Lane { shard, connection } = self.lane;
        self.hub.look(|machine| machine.disconnected(shard, connection));
    }
}
