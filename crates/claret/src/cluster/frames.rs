//! Carries frames between one connection and the client state machine: what RESP adds to `claret_core::Pipeline`.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::BytesMut;
use claret_core::message::{Request, Response};
use claret_core::{Incarnation, Pipeline, Unexpected, wire};
use claret_planted::{Bug, is_planted};
use claret_redis::connection::{Handler, refusal, unreachable_at};
use claret_redis::resp::{self, Message, Reader, Value};
use claret_redis::{Address, ConnectError};
use tokio::task::AbortHandle;

use super::client::{ClusterClient, ShardLink};

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Frames {
    client: Arc<ClusterClient>,
    node: Address,
    link: ShardLink,
    poll: Option<AbortHandle>,
    pipeline: Pipeline,
    responses: Vec<Response>,
    /// Decisions that wait have let others speak.
    has_lingered: bool,
}

impl Frames {
    pub(super) fn new(
        client: Arc<ClusterClient>,
        node: Address,
        link: ShardLink,
        incarnation: Incarnation,
        poll: Option<AbortHandle>,
    ) -> Self {
        let pipeline = Pipeline::new(link.shard, incarnation);
        Frames { client, node, link, poll, pipeline, responses: Vec::new(), has_lingered: false }
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
                Err(error) if error.code() == "ERR" && !is_planted(Bug::RefusedFrameBreaks) => {
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
        let read = wire::read_responses(payload, &mut self.responses);
        read.map_err(|error| self.not_understood(error.to_string()))
    }

    fn not_understood(&self, reason: String) -> ConnectError {
        ConnectError::NotUnderstood { node: self.node.to_string(), reason }
    }
}

impl Handler for Frames {
    fn fill(&mut self, waker: &Waker, out: &mut BytesMut) -> bool {
        let ShardLink { shard, connection, .. } = self.link;
        let mut requests = self.pipeline.spare();
        let is_done = self.client.visit(|machine, _| machine.take(shard, connection, waker, &mut requests));
        let counted = usize::from(!requests.is_empty());
        let send = |_: &[Request], frame: &[u8]| resp::encode(out, &[&b"CLARET.FRAME"[..], frame]);
        let frames = self.pipeline.write(requests, wire::append_request, send);
        if frames > counted {
            let now = self.client.now();
            self.client.look(|machine| machine.client.add_frames(now, shard, connection, frames - counted));
        }
        is_done
    }

    /// Whoever is just told that it is committed mostly begins with another transaction, on the same shards. A frame with the decision
    /// alone costs as much as one with both, and what is said next would wait for its answer (P41).
    fn lingers(&mut self) -> bool {
        let ShardLink { shard, connection, .. } = self.link;
        self.has_lingered = !self.has_lingered
            && self.client.look(|machine| machine.client.has_only_decisions(shard, connection))
            && !is_planted(Bug::DecisionsLeaveAlone);
        self.has_lingered
    }

    fn take(&mut self, input: &[u8], reader: &mut Reader) -> Result<usize, ConnectError> {
        let (mut taken, mut frames) = (0, 0);
        while let Some((said, length)) = reader.next(&input[taken..]).map_err(|error| error.at(&self.node))? {
            match &said {
                Message::Reply(value) => {
                    frames += 1;
                    self.read_reply(value)?;
                }
                Message::Push(values) => match (values.first().and_then(Value::bytes), &values[..]) {
                    (Some(b"smessage"), [_, _, payload]) => {
                        self.read(if is_planted(Bug::PushUnread) {
                            &[]
                        } else {
                            payload.bytes().unwrap_or_default()
                        })?;
                    }
                    (Some(said), _) if said == b"sunsubscribe" && !is_planted(Bug::ChannelMovedUnheard) => {
                        let reason = "its slots moved, and the channel of grants with them".to_owned();
                        return Err(unreachable_at(&self.node, reason));
                    }
                    _ => reader.note_push().map_err(|error| error.at(&self.node))?,
                },
            }
            taken += length;
        }
        self.client.deliver(&self.link, frames, &mut self.responses);
        Ok(taken)
    }

    fn waits(&self) -> Option<Duration> {
        let ShardLink { shard, connection, .. } = self.link;
        let since = self.client.look(|machine| machine.client.owes_since(shard, connection))?;
        Some(Duration::from_micros(self.client.now().since(since)))
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        if let Some(poll) = &self.poll {
            poll.abort();
        }
        let ShardLink { shard, connection, .. } = self.link;
        self.client.look(|machine| machine.disconnected(shard, connection));
    }
}

#[cfg(test)]
mod tests {
    use claret_core::{AttemptId, Sequence, TxId};
    use claret_redis::ReplyLimits;

    use super::super::client::tests::{CONNECTION, SHARD, client};
    use super::*;

    /// The only connection of a process, to a server that is bytes alone.
    fn frames() -> Frames {
        let client = client();
        let node = Address::new("h", 1);
        Frames::new(
            client,
            node,
            ShardLink { shard: SHARD, name: SHARD, connection: CONNECTION },
            Incarnation(5),
            None,
        )
    }

    fn take(frames: &mut Frames, said: &[u8]) -> Result<usize, ConnectError> {
        frames.take(said, &mut Reader::new(ReplyLimits::default().of_work()))
    }

    /// A message on the channel of grants.
    fn pushed(payload: &[u8]) -> Vec<u8> {
        let head = format!(">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n${}\r\n", payload.len());
        [head.as_bytes(), payload, b"\r\n"].concat()
    }

    #[test]
    fn what_is_pushed_is_read() {
        let mut frames = frames();
        let tx = TxId { session: claret_core::SessionId(1), sequence: Sequence(1) };
        let queued = Response::Queued { attempt: AttemptId { tx, attempt: 1 }, no: None };
        let said = pushed(&wire::encode_responses(&[queued]));
        assert_eq!(take(&mut frames, &said), Ok(said.len()));
        let garbled = pushed(b"no frame of responses");
        let error = take(&mut frames, &garbled).expect_err("it is looked at");
        assert!(matches!(error, ConnectError::NotUnderstood { .. }), "{error}");
    }

    /// Its slots moved: a new connection is told another channel.
    #[test]
    fn a_connection_whose_channel_moved_is_made_anew() {
        let mut frames = frames();
        let error =
            take(&mut frames, b">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n").expect_err("it is deaf");
        assert!(error.is_retryable(), "{error}");
        let other = b">2\r\n+invalidate\r\n_\r\n";
        assert_eq!(take(&mut frames, other), Ok(other.len()), "any other push is not for it");
    }

    #[test]
    fn decisions_let_those_speak_first_who_are_told_of_them() {
        let mut frames = frames();
        let fill = |frames: &mut Frames| {
            let mut out = BytesMut::new();
            assert!(!frames.fill(Waker::noop(), &mut out));
            !out.is_empty()
        };
        assert!(!frames.lingers() && fill(&mut frames), "the first heartbeat");
        assert_eq!(take(&mut frames, b"$0\r\n\r\n"), Ok(6));
        let client = Arc::clone(&frames.client);
        let begin = || {
            client.visit(|machine, now| {
                let tx = machine.client.begin(now, 1);
                let op = claret_types::Operation::new::<claret_types::Set>(claret_types::SetOp::Len);
                machine.client.execute(now, (tx, 1), (0, "k".into()), op, None).expect("it is open");
                tx
            })
        };
        let tx = begin();
        assert!(!frames.lingers() && fill(&mut frames), "an operation waits for nobody");
        client.visit(|machine, now| machine.client.abort(now, tx));
        assert!(!frames.lingers() && !fill(&mut frames), "an answer is owed");
        assert_eq!(take(&mut frames, b"$0\r\n\r\n"), Ok(6));
        assert!(frames.lingers(), "others may have more");
        assert!(!frames.lingers() && fill(&mut frames), "they have not");
        assert_eq!(take(&mut frames, b"$0\r\n\r\n"), Ok(6));
        let tx = begin();
        client.visit(|machine, now| machine.client.abort(now, tx));
        begin();
        assert!(!frames.lingers() && fill(&mut frames), "they have");
    }

    #[test]
    fn a_frame_that_is_refused_breaks_no_connection() {
        let mut frames = frames();
        assert!(!frames.fill(Waker::noop(), &mut BytesMut::new()), "the first heartbeat");
        let refused = b"-ERR a frame of 99 bytes is longer than claret.frame-bytes-max\r\n";
        assert_eq!(take(&mut frames, refused), Ok(refused.len()));
        assert!(take(&mut frames, refused).is_err(), "it had one frame");
    }
}
