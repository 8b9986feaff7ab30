//! The requests that wait to be sent to one shard, and those that are on their way there.
//!
//! Requests gather in the outbox until the connection takes them as one frame, applies and aborts first, because
//! these free locks (P41). While the shard owes an answer they gather until they are worth a frame of their own. An
//! outbox without a connection keeps nothing: its requests are lost, as messages may be, and are sent again over the
//! next connection (P40).

use std::collections::VecDeque;

use super::Pacing;
use crate::ids::{Incarnation, ShardId, Time};
use crate::message::Request;
use crate::planted::{Bug, is_planted};

/// Requests that wait in one outbox, at most. More are lost, and sent again later.
const REQUESTS_MAX: usize = 1 << 16;

/// See the module's text.
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
