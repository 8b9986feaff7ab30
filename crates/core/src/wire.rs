//! Messages as bytes, in postcard: variable-length numbers, and lists that begin with their length. `docs/wire.md`
//! describes the form, and how server commands carry it.
//!
//! A frame is messages, one after another, up to its end. Its leader keeps the length.
//!
//! A client that can send a frame can send any bytes. So reading one never panics, takes memory in proportion to its
//! length only, and yields nothing that a state machine cannot handle: an invalid message is refused here, together
//! with its whole frame. The host checks whether the sender may say it: that it speaks for its own session, and may
//! do this to that key.

mod answers;
mod frequent;
mod told;
mod writer;

use claret_types::{Bytes, Claims, Mode, OpError, Operation, TypeInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use smallvec::SmallVec;
use thiserror::Error;

use crate::backup::Change;
use crate::ids::{AttemptId, Birth, ShardId};
use crate::limits::Limits;
use crate::message::{Asks, Call, KeyedCall, Members, Participants, PeerMessage, Request, Response, Undone};

use writer::Writer;

/// What both sides must agree on before the first frame: changes with any change of a message, of the order of
/// types in [`BUILTIN`](claret_types::BUILTIN), or of the order of methods in a type.
pub const VERSION: u16 = 14;

/// Where the last request of a frame may begin, in bytes from the frame's start.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// Shards that can take part in one transaction: a cluster has no more slots to own.
pub const PARTICIPANTS_MAX: usize = 1 << 14;

/// Operations in one look: what the transaction did on the record before, and what is asked. With more of them it locks.
pub const LOOK_OPS_MAX: usize = 256;

/// So many ranges of calls that were undone an attempt has at a shard, and a message names, at most. Ranges are compared with each
/// other, so this bounds what a message costs.
pub const UNDONE_MAX: usize = 256;

/// Bytes that a way to commit adds to a prepare.
pub const WAY_BYTES_MAX: usize = 1 << 10;

/// Claims in one reserve.
pub const CLAIMS_MAX: usize = 1 << 16;

/// Room for most frames, so that writing one allocates once.
const SMALL_FRAME_BYTES: usize = 512;

/// Why bytes are no frame. The number of the message counts from 0.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WireError {
    /// It ends too early, or a number has no meaning where it stands.
    #[error("message {at} of the frame cannot be read: {problem}")]
    Malformed {
        /// Which message.
        at: usize,
        /// What the format says of it.
        problem: String,
    },
    /// There is no such operation, or not with such arguments.
    #[error("message {at} of the frame: {error} (key '{key}')")]
    Operation {
        /// Which message.
        at: usize,
        /// The record.
        key: Bytes,
        /// What is wrong.
        error: OpError,
    },
    /// More of something than is allowed.
    #[error("message {at} of the frame has {given} {what}, and {limit} are allowed; split the transaction")]
    Limit {
        /// Which message.
        at: usize,
        /// Of what.
        what: &'static str,
        /// So much.
        given: usize,
        /// That much may be.
        limit: usize,
    },
    /// A message that no coordinator sends.
    #[error("message {at} of the frame makes no sense: {what}")]
    Senseless {
        /// Which message.
        at: usize,
        /// What is strange about it.
        what: &'static str,
    },
    /// Something follows where nothing should.
    #[error("{0} bytes too many")]
    Trailing(usize),
}

/// A frame of requests, for one shard. Those of more than [`FRAME_BYTES_MAX`] are better divided by
/// [`encode_frames`].
///
/// # Panics
/// When an operation is not of a built-in type ([`Operation::is_builtin`]): hosts refuse it when it is issued.
pub fn encode_requests(requests: &[Request]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(SMALL_FRAME_BYTES);
    requests.iter().for_each(|request| append_request(request, &mut frame));
    frame
}

/// Appends one request to a frame.
///
/// # Panics
/// As [`encode_requests`].
pub fn append_request(request: &Request, frame: &mut Vec<u8>) {
    append(request, frame);
}

/// As many frames as these requests need, in their order: a new one begins where another request would begin
/// beyond [`FRAME_BYTES_MAX`].
///
/// # Panics
/// As [`encode_requests`].
pub fn encode_frames(requests: &[Request]) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for request in requests {
        match frames.last_mut() {
            Some(frame) if frame.len() <= FRAME_BYTES_MAX => append(request, frame),
            _ => frames.push(encode_requests(std::slice::from_ref(request))),
        }
    }
    frames
}

/// The requests of a frame, each within the limits.
///
/// # Errors
/// When it is no frame, or a request in it cannot be.
pub fn decode_requests(bytes: &[u8], limits: &Limits) -> Result<Vec<Request>, WireError> {
    let mut requests = Vec::with_capacity(messages_in(bytes));
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = requests.len();
        let begins = bytes.len() - rest.len();
        if begins > FRAME_BYTES_MAX {
            return Err(WireError::Limit {
                at,
                what: "bytes before it",
                given: begins,
                limit: FRAME_BYTES_MAX,
            });
        }
        let (request, behind) = match frequent::request(rest) {
            Some(read) => read,
            None => take(rest, at)?,
        };
        Checker { at, limits }.request(&request)?;
        requests.push(request);
        rest = behind;
    }
    Ok(requests)
}

/// About how many messages a frame has, so that their list need not grow. One frame says no more than it has bytes for.
fn messages_in(bytes: &[u8]) -> usize {
    const BYTES_OF_ONE: usize = 16;
    const MESSAGES_MAX: usize = 1_024;
    (bytes.len() / BYTES_OF_ONE).min(MESSAGES_MAX)
}

/// A frame of responses, for one session.
pub fn encode_responses(responses: &[Response]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(SMALL_FRAME_BYTES);
    responses.iter().for_each(|response| append_response(response, &mut frame));
    frame
}

/// Appends one response to a frame.
pub fn append_response(response: &Response, frame: &mut Vec<u8>) {
    if !frequent::append(response, frame) {
        append(response, frame);
    }
}

/// The responses of a frame.
///
/// # Errors
/// When it is no frame.
pub fn decode_responses(bytes: &[u8]) -> Result<Vec<Response>, WireError> {
    let mut responses = Vec::with_capacity(messages_in(bytes));
    read_responses(bytes, &mut responses)?;
    Ok(responses)
}

/// Puts the responses of a frame behind others: their memory can be used again.
///
/// # Errors
/// As [`decode_responses`]. Then those before what cannot be read are there.
pub fn read_responses(bytes: &[u8], responses: &mut Vec<Response>) -> Result<(), WireError> {
    let before = responses.len();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (response, behind) = match answers::response(rest) {
            Some(read) => read,
            None => take(rest, responses.len() - before)?,
        };
        responses.push(response);
        rest = behind;
    }
    Ok(())
}

/// A message between shards, on its own.
pub fn encode_peer(message: &PeerMessage) -> Vec<u8> {
    let mut frame = Vec::with_capacity(SMALL_FRAME_BYTES);
    append(message, &mut frame);
    frame
}

/// Appends one message between shards to others.
pub fn append_peer(message: &PeerMessage, frame: &mut Vec<u8>) {
    append(message, frame);
}

/// Messages between shards, one after another.
///
/// # Errors
/// When one of them cannot be read.
pub fn decode_peers(bytes: &[u8]) -> Result<Vec<PeerMessage>, WireError> {
    let mut messages = Vec::with_capacity(messages_in(bytes));
    let mut rest = bytes;
    while !rest.is_empty() {
        let (message, behind) = take(rest, messages.len())?;
        messages.push(message);
        rest = behind;
    }
    Ok(messages)
}

/// A message between shards.
///
/// # Errors
/// When it is none, or more than one.
pub fn decode_peer(bytes: &[u8]) -> Result<PeerMessage, WireError> {
    let (message, behind) = take(bytes, 0)?;
    if behind.is_empty() { Ok(message) } else { Err(WireError::Trailing(behind.len())) }
}

/// One thing that a shard tells its replicas, to stand behind others.
///
/// # Errors
/// It is of a type that is not built in, and has no form.
pub fn encode_change(change: &Change) -> Result<Vec<u8>, WireError> {
    let problem = |error: postcard::Error| WireError::Malformed { at: 0, problem: error.to_string() };
    postcard::to_extend(change, Vec::new()).map_err(problem)
}

/// The first of some changes, and the bytes behind it.
///
/// # Errors
/// When it is none, or no shard could be made of it.
pub fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), WireError> {
    let (change, behind) = take(bytes, 0)?;
    told::check(&change).map_err(|what| WireError::Senseless { at: 0, what })?;
    Ok((change, behind))
}

fn append(message: &impl Serialize, frame: &mut Vec<u8>) {
    message.serialize(&mut Writer(frame)).expect("all that is sent has a form");
}

fn take<T: DeserializeOwned>(bytes: &[u8], at: usize) -> Result<(T, &[u8]), WireError> {
    postcard::take_from_bytes(bytes).map_err(|error| WireError::Malformed { at, problem: error.to_string() })
}

/// Whether locks on records of a type have this mode.
fn is_mode_of(kind: &TypeInfo, mode: Mode) -> bool {
    mode.is_universal() || usize::from(mode.0) < kind.modes.names.len()
}

/// Holds one request of a frame against what a request can be.
struct Checker<'a> {
    at: usize,
    limits: &'a Limits,
}

impl Checker<'_> {
    fn request(&self, request: &Request) -> Result<(), WireError> {
        match request {
            Request::Execute { attempt, birth, key, calls, undone, .. } => {
                self.birth(*attempt, *birth)?;
                self.undone(undone)?;
                self.execute(key, calls)
            }
            Request::Prepare { attempt, birth, participants, calls, members, asks, undone, .. } => {
                self.birth(*attempt, *birth)?;
                self.asks(asks)?;
                self.undone(undone)?;
                self.prepare(participants, calls, members)
            }
            Request::Look { key, ops, .. } => self.look(key, ops),
            Request::Apply { .. }
            | Request::Withdraw { .. }
            | Request::Abort { .. }
            | Request::Heartbeat { .. }
            | Request::Ask { .. }
            | Request::AskBehind { .. }
            | Request::ApplyAt { .. }
            | Request::Tick { .. } => Ok(()),
        }
    }

    fn birth(&self, attempt: AttemptId, birth: Birth) -> Result<(), WireError> {
        if birth.tx == attempt.tx { Ok(()) } else { self.senseless("the birth of another transaction") }
    }

    fn execute(&self, key: &Bytes, calls: &[Call]) -> Result<(), WireError> {
        self.key(key)?;
        self.within("calls", calls.len(), self.limits.calls_max as usize)?;
        if calls.is_empty() {
            return self.senseless("an execute without a call");
        }
        calls.iter().try_for_each(|call| self.call(key, call))
    }

    fn prepare(
        &self,
        participants: &Participants,
        calls: &[KeyedCall],
        members: &Members,
    ) -> Result<(), WireError> {
        if participants.is_empty() {
            return self.senseless("a prepare without participants");
        }
        self.within("participants", participants.len(), PARTICIPANTS_MAX)?;
        let mut shards: SmallVec<[ShardId; 8]> = participants.iter().map(|listed| listed.shard).collect();
        shards.sort_unstable();
        if shards.windows(2).any(|two| two[0] == two[1]) {
            return self.senseless("a participant that is listed twice");
        }
        self.within("calls", calls.len(), self.limits.calls_max as usize)?;
        if let Members::Only(list) = members {
            self.within("members", list.len(), usize::from(self.limits.group_members_max))?;
        }
        calls.iter().try_for_each(|keyed| {
            self.key(&keyed.key)?;
            self.call(&keyed.key, &keyed.call)
        })
    }

    fn asks(&self, asks: &Asks) -> Result<(), WireError> {
        let Asks::Way { body, .. } = asks else { return Ok(()) };
        self.within("bytes of a way to commit", body.len(), WAY_BYTES_MAX)
    }

    fn undone(&self, undone: &[Undone]) -> Result<(), WireError> {
        self.within("undone ranges", undone.len(), UNDONE_MAX)?;
        match undone.iter().all(|range| range.from < range.to) {
            true => Ok(()),
            false => self.senseless("a range of undone calls that has none"),
        }
    }

    fn look(&self, key: &Bytes, ops: &[Operation]) -> Result<(), WireError> {
        self.key(key)?;
        self.within("calls", ops.len(), LOOK_OPS_MAX)?;
        if ops.is_empty() {
            return self.senseless("a look at nothing");
        }
        ops.iter().try_for_each(|op| self.op(key, op))
    }

    fn key(&self, key: &Bytes) -> Result<(), WireError> {
        if key.is_empty() {
            return self.senseless("an empty key");
        }
        self.within("bytes in a key", key.len(), self.limits.key_bytes_max)
    }

    fn call(&self, key: &Bytes, call: &Call) -> Result<(), WireError> {
        self.op(key, &call.op)?;
        call.reserve.as_ref().map_or(Ok(()), |claims| self.reserve(&call.op, claims))
    }

    fn op(&self, key: &Bytes, op: &Operation) -> Result<(), WireError> {
        let named = |error| WireError::Operation { at: self.at, key: key.clone(), error };
        op.check(self.limits.value_bytes_max).map_err(named)
    }

    fn reserve(&self, op: &Operation, claims: &Claims) -> Result<(), WireError> {
        self.within("claims in a reserve", claims.list.len(), CLAIMS_MAX)?;
        if !claims.list.iter().all(|claim| is_mode_of(op.type_info(), claim.mode)) {
            return self.senseless("a lock mode that the type does not have");
        }
        Ok(())
    }

    fn within(&self, what: &'static str, given: usize, limit: usize) -> Result<(), WireError> {
        if given <= limit { Ok(()) } else { Err(WireError::Limit { at: self.at, what, given, limit }) }
    }

    fn senseless(&self, what: &'static str) -> Result<(), WireError> {
        Err(WireError::Senseless { at: self.at, what })
    }
}
