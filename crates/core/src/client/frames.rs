//! The frames of one connection: what waits for the next one ([`Outbox`]), and those that were written and have no answer yet, in order
//! ([`Pipeline`]).
//!
//! Requests gather in the outbox until the connection takes them as one frame, applies and aborts first, because
//! these free locks (P41). While the shard owes an answer they gather until they are worth a frame of their own. An
//! outbox without a connection keeps nothing: its requests are lost, as messages may be, and are sent again over the
//! next connection (P40).
//!
//! A shard that cannot read a frame, or finds it too large, refuses all of it because of one request. The client then
//! sends the requests again one by one. The one that is refused alone can never be done, and its transaction hears so
//! (P43).

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;

use claret_types::{Bytes, OpError};

use super::Pacing;
use crate::ids::{AttemptId, Incarnation, ShardId, Time};
use crate::message::{Refusal, Request, Response, Seen};
use crate::planted::{Bug, is_planted};
use crate::wire;

/// Requests that wait in one outbox, at most. More are lost, and sent again later.
const REQUESTS_MAX: usize = 1 << 16;

/// Kept for their room, at most.
const SPARE_MAX: usize = 16;

/// The requests that wait to be sent to one shard, and when those left that are on their way there.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    pub(super) shard: ShardId,
    /// The last one that it led to; of a removed shard, one that never was.
    pub(super) incarnation: Incarnation,
    /// The shard is removed: the client answers for it.
    pub(super) is_removed: bool,
    /// The number of the connection that serves it.
    pub(super) connection: Option<u32>,
    /// Applies and aborts.
    first: VecDeque<Request>,
    rest: VecDeque<Request>,
    /// So many transactions that are gathered have calls for the shard (B2).
    gathered: usize,
    /// One of them is a heartbeat.
    heartbeat_waits: bool,
    /// Since when the oldest of them waits.
    since: Option<Time>,
    /// For each frame without an answer, since when its oldest request waits.
    in_flight: VecDeque<Time>,
    /// The connection found nothing to take and wants to hear when there is.
    is_awaited: bool,
    pub(super) is_closing: bool,
}

impl Outbox {
    pub(super) fn new(shard: ShardId) -> Self {
        Outbox {
            shard,
            incarnation: Incarnation(0),
            is_removed: false,
            connection: None,
            first: VecDeque::new(),
            rest: VecDeque::new(),
            gathered: 0,
            heartbeat_waits: false,
            since: None,
            in_flight: VecDeque::new(),
            is_awaited: false,
            is_closing: false,
        }
    }

    /// Forgets what waits and what is on its way: its connection is closed.
    pub(super) fn clear(&mut self) {
        self.first.clear();
        self.rest.clear();
        self.heartbeat_waits = false;
        self.in_flight.clear();
        self.since = None;
    }

    #[inline]
    pub(super) fn put(&mut self, now: Time, request: Request) {
        if self.connection.is_none() || self.first.len() + self.rest.len() >= REQUESTS_MAX {
            return;
        }
        match request {
            Request::Apply { .. } | Request::ApplyAt { .. } | Request::Abort { .. } => {
                self.first.push_back(request);
            }
            Request::Heartbeat { .. } if self.heartbeat_waits => return,
            _ => {
                self.heartbeat_waits |= is_heartbeat(&request);
                self.rest.push_back(request);
            }
        }
        self.since.get_or_insert(now);
    }

    /// A transaction is gathered that has calls for the shard.
    pub(super) fn gather(&mut self) {
        self.gathered += 1;
    }

    /// Whether a frame is to leave now with those that are gathered.
    pub(super) fn is_to_leave(&self, pacing: &Pacing) -> bool {
        self.gathered > 0 && self.may_send(pacing)
    }

    /// Whether some are gathered that have calls for the shard.
    pub(super) fn has_gathered(&self) -> bool {
        self.gathered > 0
    }

    /// Whether applies and aborts may leave, and nothing else waits.
    pub(super) fn has_only_decisions(&self, pacing: &Pacing) -> bool {
        let are_alone = self.rest.is_empty() && self.gathered == 0 && !self.is_closing;
        !self.first.is_empty() && are_alone && self.may_send(pacing)
    }

    /// All that were gathered have left.
    pub(super) fn left(&mut self) {
        self.gathered = 0;
    }

    /// Puts the last heartbeat, and the connection closes behind it. One that waits before other requests keeps its place: a
    /// connection begins with it (P40).
    pub(super) fn close(&mut self, now: Time, heartbeat: Request) {
        if self.rest.back().is_some_and(is_heartbeat) {
            self.rest.pop_back();
        }
        self.heartbeat_waits = false;
        self.put(now, heartbeat);
        self.is_closing = true;
    }

    /// Whether what waits is to leave now.
    fn may_send(&self, pacing: &Pacing) -> bool {
        let waiting = self.first.len() + self.rest.len() + self.gathered;
        match self.in_flight.len() {
            0 => true,
            owed => owed < pacing.frames_in_flight_max && waiting >= pacing.frame_requests_worth,
        }
    }

    /// The connection, if it is to be told that there is something to take: it wanted to hear, and hears once.
    #[inline]
    pub(super) fn tell_once(&mut self, pacing: &Pacing) -> Option<u32> {
        if !self.is_awaited || !(self.is_closing || self.may_send(pacing)) {
            return None;
        }
        self.is_awaited = false;
        self.connection
    }

    /// The connection is closed, and what waits for it and is on its way with it. Returns the one that wanted to hear of
    /// something to take: it hears that it has nothing more to do.
    pub(super) fn end_connection(&mut self) -> Option<u32> {
        if !is_planted(Bug::OutboxOutlivesConnection) {
            self.clear();
        }
        let connection = self.connection.take();
        connection.filter(|_| std::mem::take(&mut self.is_awaited))
    }

    /// Since when the oldest request waits that has no answer.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.in_flight.front().copied().or(self.since)
    }

    /// Since when the shard owes an answer.
    pub(super) fn owes_since(&self) -> Option<Time> {
        self.in_flight.front().copied()
    }

    /// Frames that are not answered.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Moves what may leave into `requests`, which is empty, as much as one frame may have.
    pub(super) fn take(&mut self, pacing: &Pacing, requests: &mut Vec<Request>) {
        self.is_awaited = true;
        let Some(since) = self.since.filter(|_| self.may_send(pacing)) else { return };
        move_front(&mut self.first, pacing.frame_requests_max, requests);
        move_front(&mut self.rest, pacing.frame_requests_max, requests);
        self.heartbeat_waits = self.heartbeat_waits && !requests.iter().any(is_heartbeat);
        self.in_flight.push_back(since);
        if self.first.is_empty() && self.rest.is_empty() {
            self.since = None;
        }
    }

    /// The connection sent so many frames more.
    pub(super) fn add_frames(&mut self, now: Time, more: usize) {
        self.in_flight.extend(std::iter::repeat_n(now, more));
    }

    /// So many frames are answered.
    pub(super) fn answered(&mut self, frames: usize) {
        self.in_flight.drain(..frames.min(self.in_flight.len()));
    }

    /// Whether nothing waits here and nothing is on its way.
    pub(super) fn is_quiet(&self) -> bool {
        self.oldest().is_none()
    }

    /// # Panics
    /// When one of its promises is broken.
    pub(super) fn check_invariants(&self) {
        let waiting = self.first.len() + self.rest.len();
        assert_eq!(self.since.is_some(), waiting > 0, "{}: since when it waits", self.shard);
        let heartbeats = self.rest.iter().filter(|request| is_heartbeat(request)).count();
        let are_right = match self.is_closing {
            true => heartbeats <= 2,
            false => heartbeats == usize::from(self.heartbeat_waits),
        };
        assert!(are_right, "{}: {heartbeats} heartbeats wait", self.shard);
        if self.connection.is_none() {
            assert!(waiting == 0 && self.in_flight.is_empty(), "{}: kept without a connection", self.shard);
        }
        assert!(!(self.is_removed && self.connection.is_some()), "{}: removed, and connected", self.shard);
    }
}

fn is_heartbeat(request: &Request) -> bool {
    matches!(request, Request::Heartbeat { .. })
}

/// Moves as much as a frame still may have. All of it goes in one piece.
fn move_front(queue: &mut VecDeque<Request>, most: usize, requests: &mut Vec<Request>) {
    let room = most - requests.len();
    if queue.len() > room {
        requests.extend(queue.drain(..room));
        return;
    }
    let mut all = Vec::from(std::mem::take(queue));
    requests.append(&mut all);
    *queue = all.into();
}

/// The frames of one connection that were written and have no answer yet, in order. If a shard refuses one as a whole, its
/// requests are sent again one by one. It stands beside its connection, and not behind the client's lock.
#[derive(Clone, Debug)]
pub struct Pipeline {
    shard: ShardId,
    incarnation: Incarnation,
    frame_bytes_max: usize,
    /// The requests of each frame that has no answer.
    sent: VecDeque<Vec<Request>>,
    /// Of frames that were refused: to be sent alone.
    suspects: VecDeque<Request>,
    /// Kept for their room.
    spare: Vec<Vec<Request>>,
    frame: Vec<u8>,
}

/// An answer came to a frame that was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexpected;

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reply that nobody waits for")
    }
}

impl Error for Unexpected {}

impl Pipeline {
    /// Of a connection that is new, to this incarnation of a shard.
    pub fn new(shard: ShardId, incarnation: Incarnation) -> Self {
        Self::with_frames_of(shard, incarnation, wire::FRAME_BYTES_MAX)
    }

    /// With frames that end once they are longer than so many bytes.
    pub fn with_frames_of(shard: ShardId, incarnation: Incarnation, frame_bytes_max: usize) -> Self {
        Pipeline {
            shard,
            incarnation,
            frame_bytes_max,
            sent: VecDeque::new(),
            suspects: VecDeque::new(),
            spare: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// An empty list, for requests of the next frame.
    pub fn spare(&mut self) -> Vec<Request> {
        self.spare.pop().unwrap_or_default()
    }

    fn keep(&mut self, mut requests: Vec<Request>) {
        requests.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(requests);
        }
    }

    /// Writes requests as frames, and behind them those that are to be sent alone. `append` writes one request, as
    /// [`wire::append_request`] does; `send` takes a frame, as requests and as bytes. Returns the number of frames.
    pub fn write(
        &mut self,
        requests: Vec<Request>,
        append: impl Fn(&Request, &mut Vec<u8>),
        mut send: impl FnMut(&[Request], &[u8]),
    ) -> usize {
        let mut frames = self.write_frames(requests, &append, &mut send);
        while let Some(suspect) = self.suspects.pop_front() {
            frames += self.write_frames(vec![suspect], &append, &mut send);
        }
        frames
    }

    fn write_frames(
        &mut self,
        mut requests: Vec<Request>,
        append: &impl Fn(&Request, &mut Vec<u8>),
        send: &mut impl FnMut(&[Request], &[u8]),
    ) -> usize {
        let mut frames = 0;
        let mut begun = 0;
        while begun < requests.len() {
            append(&requests[begun], &mut self.frame);
            begun += 1;
            if self.frame.len() > self.frame_bytes_max && begun < requests.len() {
                let rest = requests.split_off(begun);
                self.end_frame(std::mem::replace(&mut requests, rest), send);
                (begun, frames) = (0, frames + 1);
            }
        }
        match requests.is_empty() {
            true => self.keep(requests),
            false => {
                self.end_frame(requests, send);
                frames += 1;
            }
        }
        frames
    }

    fn end_frame(&mut self, requests: Vec<Request>, send: &mut impl FnMut(&[Request], &[u8])) {
        send(&requests, &self.frame);
        self.frame.clear();
        self.sent.push_back(requests);
    }

    /// Whether something waits to be sent alone.
    pub fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Frames that have no answer.
    pub fn unanswered(&self) -> usize {
        self.sent.len()
    }

    /// The first of the frames without an answer was taken.
    ///
    /// # Errors
    /// [`Unexpected`] when there is none.
    pub fn taken(&mut self) -> Result<(), Unexpected> {
        let requests = self.sent.pop_front().ok_or(Unexpected)?;
        self.keep(requests);
        Ok(())
    }

    /// The shard does not take the first of the frames without an answer: what follows from that alone.
    ///
    /// # Errors
    /// [`Unexpected`] when there is none.
    pub fn refused(&mut self, reason: &str) -> Result<Option<Response>, Unexpected> {
        let mut requests = self.sent.pop_front().ok_or(Unexpected)?;
        // It is not clear which of several is to blame: they go again, each alone (P43).
        let are_several = requests.len() > 1 || is_planted(Bug::RefusedAloneAgain);
        let response = match are_several && !is_planted(Bug::FirstIsBlamed) {
            true => {
                // Of heartbeats the next one says more. This one would come behind requests of transactions that it does
                // not list.
                let goes_again = |request: &Request| {
                    !matches!(request, Request::Heartbeat { .. }) || is_planted(Bug::HeartbeatSentAgain)
                };
                self.suspects.extend(requests.drain(..).filter(goes_again));
                None
            }
            false => match requests.first() {
                Some(Request::Look { look, key, .. }) => {
                    let refusal = Refusal::Operation { key: key.clone(), error: told(reason) };
                    Some(Response::Looked { look: *look, seen: Seen::Refused(refusal) })
                }
                first => first.and_then(blamed).map(|(attempt, key)| self.blame(attempt, key, reason)),
            },
        };
        self.keep(requests);
        Ok(response)
    }

    /// A request that the shard will never say yes to. What it granted before goes with a no that it writes.
    fn blame(&mut self, attempt: AttemptId, key: Bytes, reason: &str) -> Response {
        self.suspects.push_back(Request::Withdraw { attempt });
        let refusal = Refusal::Operation { key, error: told(reason) };
        Response::Refused { attempt, shard: self.shard, refusal, since: self.incarnation }
    }
}

fn told(reason: &str) -> Box<OpError> {
    Box::new(OpError::Told(reason.to_owned()))
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
        | Request::Ask { .. }
        | Request::AskBehind { .. }
        | Request::ApplyAt { .. }
        | Request::Tick { .. }
        | Request::Look { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Sequence, SessionId, TxId};
    use crate::message::Asks;

    const SHARD: ShardId = ShardId(3);

    fn attempt(sequence: u64) -> AttemptId {
        AttemptId { tx: TxId { session: SessionId(7), sequence: Sequence(sequence) }, attempt: 1 }
    }

    fn withdraw(sequence: u64) -> Request {
        Request::Withdraw { attempt: attempt(sequence) }
    }

    /// The frames that come of requests, each as the requests in it.
    fn written(pipeline: &mut Pipeline, requests: Vec<Request>) -> Vec<Vec<Request>> {
        let mut frames = Vec::new();
        let limits = crate::Limits::default();
        let count = pipeline.write(requests, wire::append_request, |requests, frame| {
            assert_eq!(wire::decode_requests(frame, &limits).expect("a frame"), requests);
            frames.push(requests.to_vec());
        });
        assert_eq!(count, frames.len());
        frames
    }

    /// It would come behind a transaction that it does not list, which the shard would take for over.
    #[test]
    fn a_heartbeat_of_a_frame_that_was_refused_is_not_said_again() {
        let mut pipeline = Pipeline::new(SHARD, Incarnation(5));
        let heartbeat = Request::Heartbeat { live: Vec::new(), low_water: Sequence(1) };
        assert_eq!(written(&mut pipeline, vec![heartbeat, withdraw(1)]).len(), 1);
        assert_eq!(pipeline.refused("ERR message 1 cannot be read"), Ok(None));
        assert_eq!(written(&mut pipeline, Vec::new()), [[withdraw(1)]]);
    }

    #[test]
    fn the_one_that_is_refused_alone_is_to_blame() {
        let mut pipeline = Pipeline::new(SHARD, Incarnation(5));
        let prepare = Request::Prepare {
            attempt: attempt(2),
            birth: crate::Birth { time: crate::Time(1), tx: attempt(2).tx },
            participants: std::sync::Arc::new([crate::message::Listed { shard: SHARD, incarnation: None }]),
            relies_on: 0,
            calls: Vec::new(),
            members: crate::message::Members::All,
            asks: Asks::Vote,
            undone: Default::default(),
        };
        assert_eq!(written(&mut pipeline, vec![withdraw(1), prepare.clone(), withdraw(3)]).len(), 1);
        assert_eq!(pipeline.refused("ERR too large"), Ok(None));
        let alone = written(&mut pipeline, Vec::new());
        assert_eq!(alone, [[withdraw(1)], [prepare], [withdraw(3)]]);
        assert_eq!(pipeline.taken(), Ok(()));
        let blamed = pipeline.refused("ERR too large").expect("a frame is owed");
        let Some(Response::Refused { attempt: refused, shard: SHARD, refusal, since }) = blamed else {
            panic!("{blamed:?}")
        };
        assert_eq!((refused, since), (attempt(2), Incarnation(5)));
        assert!(refusal.to_string().contains("too large") && !refusal.is_retryable(), "{refusal}");
        assert_eq!(pipeline.taken(), Ok(()));
        // What the shard granted the attempt before, it gives up.
        assert_eq!(written(&mut pipeline, Vec::new()), [[withdraw(2)]]);
        assert_eq!(pipeline.taken(), Ok(()));
        assert_eq!(pipeline.taken(), Err(Unexpected));
        assert_eq!(pipeline.refused("ERR"), Err(Unexpected));
    }

    #[test]
    fn a_frame_that_is_long_enough_is_ended() {
        let one = wire::encode_requests(&[withdraw(1)]).len();
        let mut pipeline = Pipeline::with_frames_of(SHARD, Incarnation(5), 2 * one);
        let requests: Vec<Request> = (1..=7).map(withdraw).collect();
        let frames = written(&mut pipeline, requests);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
        assert_eq!(pipeline.unanswered(), 3);
    }
}
