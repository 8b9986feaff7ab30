//! The desk: one mutex with all transactions of the process and what waits to be sent to each shard.
//!
//! A **lane** leads to a shard. Requests gather in it until its connection takes all of them as one frame, applies
//! and aborts first, for they free locks (R13). A lane without a connection keeps nothing: what is sent there is
//! lost, as messages may be, and is sent again when the next connection is made. When a shard is gone for good its lane
//! leads back: the desk answers for it (P26b).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use claret_core::message::{Request, Response};
use claret_core::{
    Closed, Event, Incarnation, Limits, Sequence, SessionId, ShardId, Switches, Time, TxHandle,
};
use claret_types::{Bytes, Operation};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::book::{Book, Outlet};
use super::options::Address;
use super::topology::{SLOTS, Topology};
use crate::host::{Mailbox, Placed};

/// Frames on the way to one shard that it has not answered, at most.
const FRAMES_IN_FLIGHT_MAX: usize = 16;

/// While the shard owes an answer, requests gather until they are so many. A frame costs both sides as much as several
/// requests, and what leaves sooner would mostly wait at the shard.
const FRAME_REQUESTS_WORTH: usize = 12;

/// Requests in one frame, at most: what a shard does without looking up.
const FRAME_REQUESTS_MAX: usize = 512;

/// So many transactions that are over everywhere are told before the next beat is due. What a shard remembers of them is in
/// its way: its caches hold little.
const OVER_WORTH: u64 = 512;

/// For each shard so many: with many shards each has a part of them in few.
const OVER_WORTH_OF_A_SHARD: u64 = 128;

/// For each live one, which a heartbeat to each shard lists, so many.
const OVER_WORTH_OF_A_LIVE_ONE: u64 = 2;

/// Requests that wait in one lane, at most. More are lost, and sent again later.
const LANE_REQUESTS_MAX: usize = 1 << 16;

pub(super) type Wakers = SmallVec<[Waker; 8]>;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) book: Book,
    post: Post,
    /// The shard of each slot.
    slots: Box<[ShardId]>,
    topology: Topology,
    /// Which shard each node said it is.
    shards: Vec<(Address, ShardId)>,
    /// Shards whose nodes left. They are gone once other shards have all their slots.
    leaving: Vec<ShardId>,
    resend_us: u64,
    /// From which floor on all shards are told of it.
    next_floor: Sequence,
    /// When the timer is going to look.
    promised: Option<Time>,
    /// Requests that had to wait for a lock.
    pub(super) waits: u64,
}

/// Lanes, mailboxes, and whom to wake.
#[derive(Debug, Default)]
struct Post {
    /// One for each shard: few.
    lanes: Vec<Lane>,
    mailboxes: HashMap<TxHandle, Arc<Mailbox>, foldhash::fast::FixedState>,
    woken: Wakers,
    now: Time,
    /// What shards that are gone answered.
    echoes: Vec<(ShardId, Response)>,
    /// What is sent now was sent before: of no use where the first copy is still on its way. So long ago that was.
    repeats_after: Option<u64>,
}

#[derive(Debug)]
struct Lane {
    shard: ShardId,
    /// The last one that it led to; of a shard that is gone, one that never was.
    incarnation: Incarnation,
    is_gone: bool,
    /// The number of the connection that serves it.
    connection: Option<u32>,
    /// Applies and aborts.
    first: VecDeque<Request>,
    rest: VecDeque<Request>,
    /// Since when the oldest of them waits.
    since: Option<Time>,
    /// For each frame without an answer, since when its oldest request waits.
    in_flight: VecDeque<Time>,
    waker: Option<Waker>,
    is_closing: bool,
}

impl Lane {
    fn new(shard: ShardId) -> Self {
        Lane {
            shard,
            incarnation: Incarnation(0),
            is_gone: false,
            connection: None,
            first: VecDeque::new(),
            rest: VecDeque::new(),
            since: None,
            in_flight: VecDeque::new(),
            waker: None,
            is_closing: false,
        }
    }

    fn clear(&mut self) {
        self.first.clear();
        self.rest.clear();
        self.in_flight.clear();
        self.since = None;
    }

    #[inline]
    fn put(&mut self, now: Time, request: Request) {
        if self.connection.is_none() || self.first.len() + self.rest.len() >= LANE_REQUESTS_MAX {
            return;
        }
        match request {
            Request::Apply { .. } | Request::Abort { .. } => self.first.push_back(request),
            _ => self.rest.push_back(request),
        }
        self.since.get_or_insert(now);
    }

    /// Whether what waits is to leave now.
    fn may_send(&self) -> bool {
        let waiting = self.first.len() + self.rest.len();
        match self.in_flight.len() {
            0 => true,
            owed => owed < FRAMES_IN_FLIGHT_MAX && waiting >= FRAME_REQUESTS_WORTH,
        }
    }

    /// Since when the oldest request waits that has no answer.
    fn oldest(&self) -> Option<Time> {
        self.in_flight.front().copied().or(self.since)
    }
}

impl Post {
    fn lane(&mut self, shard: ShardId) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.shard == shard)
    }
}

impl Outlet for Post {
    fn send(&mut self, to: ShardId, request: Request) {
        // Not by `lane`, which would borrow all of it.
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.shard == to) else { return };
        if lane.is_gone {
            self.echoes
                .extend(request.answer_of_the_gone(to, lane.incarnation).map(|response| (to, response)));
            return;
        }
        let on_its_way = |after| lane.oldest().is_some_and(|since| self.now.since(since) >= after);
        if self.repeats_after.is_some_and(on_its_way) {
            return;
        }
        lane.put(self.now, request);
        if let Some(waker) = lane.waker.take() {
            self.woken.push(waker);
        }
    }

    fn tell(&mut self, tx: TxHandle, event: Event) {
        if event.is_last() {
            // Nobody says that he is gone, after this.
            if let Some(mailbox) = self.mailboxes.remove(&tx) {
                mailbox.put_event(event, &mut self.woken);
            }
        } else if let Some(mailbox) = self.mailboxes.get(&tx) {
            mailbox.put_event(event, &mut self.woken);
        }
    }
}

impl Desk {
    pub(super) fn new(session: SessionId, switches: Switches, limits: Limits) -> Self {
        Desk {
            book: Book::new(session, switches, limits),
            post: Post::default(),
            slots: vec![ShardId(u32::MAX); SLOTS].into(),
            topology: Topology::default(),
            shards: Vec::new(),
            leaving: Vec::new(),
            resend_us: limits.resend_us,
            next_floor: Sequence(OVER_WORTH),
            promised: None,
            waits: 0,
        }
    }

    // --- places ---

    /// A call, at the shard of its slot. Every slot has one since the store was opened.
    pub(super) fn place(&self, call: Placed) -> (ShardId, Bytes, Operation) {
        (self.slots[call.hash as usize], call.key, call.op)
    }

    pub(super) fn adopt(&mut self, now: Time, topology: &Topology) {
        self.topology = topology.clone();
        let (shards, nodes) = (&self.shards, topology.nodes());
        let is_back =
            |shard: &ShardId| shards.iter().any(|(node, known)| known == shard && nodes.contains(node));
        self.leaving.retain(|shard| !is_back(shard));
        self.assign(now);
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The shard that the topology has at a node, or, of one that serves nothing any more, that which it said it was.
    pub(super) fn expected_at(&self, node: &Address) -> Option<ShardId> {
        let said = || self.shards.iter().find(|(known, _)| known == node).map(|(_, shard)| *shard);
        match self.topology.slot_at(node) {
            Some(_) => self.topology.shard_at(node),
            None => said(),
        }
    }

    /// Slots of nodes that did not say yet which shard they are stay where they were.
    fn assign(&mut self, now: Time) {
        for range in &self.topology.ranges {
            let said = self.shards.iter().find(|(node, _)| *node == range.node);
            if let Some((_, shard)) = said {
                self.slots[usize::from(range.first)..=usize::from(range.last)].fill(*shard);
            }
        }
        // Who placed a call at one that is gone would place it there again.
        let slots = &self.slots;
        for shard in self.leaving.extract_if(.., |shard| !slots.contains(shard)) {
            let Some(lane) = self.post.lanes.iter_mut().find(|lane| lane.shard == shard) else { continue };
            lane.clear();
            lane.connection = None;
            lane.is_gone = true;
            lane.incarnation = Incarnation(lane.incarnation.0 + 1);
            self.shards.retain(|(_, known)| *known != shard);
            self.book.meet(now, shard, lane.incarnation);
        }
    }

    /// A node left the cluster, or became a replica, and what its shard had in memory is lost.
    pub(super) fn part_with(&mut self, now: Time, node: &Address) {
        if self.topology.nodes().contains(node) {
            return; // It is back.
        }
        let shard = self.shards.iter().find(|(known, _)| known == node).map(|(_, shard)| *shard);
        if let Some(shard) = shard.filter(|shard| !self.leaving.contains(shard)) {
            self.leaving.push(shard);
            self.assign(now);
        }
    }

    // --- transactions ---

    pub(super) fn begin(&mut self, now: Time, mailbox: &Arc<Mailbox>) -> TxHandle {
        let tx = self.book.begin(now);
        self.post.mailboxes.insert(tx, Arc::clone(mailbox));
        tx
    }

    /// Keeps calls for the commit.
    pub(super) fn buffer(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        calls: &mut Vec<Placed>,
    ) -> Result<(), Closed> {
        if calls.is_empty() {
            return Ok(());
        }
        let slots = &self.slots;
        let calls = calls.drain(..).map(|call| (slots[call.hash as usize], call.key, call.op));
        self.book.buffer(now, tx, calls)
    }

    /// The user is gone.
    pub(super) fn leave(&mut self, now: Time, tx: TxHandle) {
        self.post.mailboxes.remove(&tx);
        self.book.leave(now, tx);
    }

    /// Sends what is to be sent and tells what is to be told.
    pub(super) fn settle(&mut self, now: Time) {
        self.post.now = now;
        self.drain();
    }

    fn drain(&mut self) {
        self.book.drain(&mut self.post);
        while !self.post.echoes.is_empty() {
            for (shard, response) in std::mem::take(&mut self.post.echoes) {
                self.book.handle_response(self.post.now, shard, response);
            }
            self.book.drain(&mut self.post);
        }
    }

    /// Whom to wake, once the desk is unlocked.
    pub(super) fn woken(&mut self) -> Option<Wakers> {
        (!self.post.woken.is_empty()).then(|| std::mem::take(&mut self.post.woken))
    }

    // --- time ---

    /// Does what is due. What is sent again for its sake is not, where the first copy is still on its way.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.book.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        // What was to be sent before is no repetition.
        self.post.now = now;
        self.drain();
        self.post.repeats_after = Some(self.resend_us);
        self.book.handle_timeout(now);
        self.drain();
        self.post.repeats_after = None;
    }

    /// When the timer looks next, if that is sooner than it is going to.
    pub(super) fn sooner(&mut self) -> bool {
        let due = self.book.poll_timeout();
        let is_sooner = due.is_some_and(|due| self.promised.is_none_or(|promised| due < promised));
        if is_sooner {
            self.promised = due;
        }
        is_sooner
    }

    /// The timer looks: when it is to look again.
    pub(super) fn promise(&mut self) -> Option<Time> {
        self.promised = self.book.poll_timeout();
        self.promised
    }

    /// Tells all shards that the process lives, and what is over (P28).
    pub(super) fn heartbeat(&mut self, now: Time) {
        self.post.now = now;
        let (live, floor) = (self.book.live(), self.book.floor());
        let shards: SmallVec<[ShardId; 8]> = self.shards.iter().map(|(_, shard)| *shard).collect();
        let each = OVER_WORTH_OF_A_SHARD.max(OVER_WORTH_OF_A_LIVE_ONE * live.len() as u64);
        self.next_floor = Sequence(floor.0 + OVER_WORTH.max(each * shards.len() as u64));
        for shard in shards {
            self.post.send(shard, Request::Heartbeat { live: live.clone(), floor });
        }
    }

    // --- connections ---

    /// A connection serves a shard from now on. It begins with a heartbeat: what the shard had over an earlier
    /// connection and is not in it is over (trap 19).
    pub(super) fn bind(
        &mut self,
        now: Time,
        connection: u32,
        node: &Address,
        shard: ShardId,
        incarnation: Incarnation,
    ) {
        let at = self.post.lanes.iter().position(|lane| lane.shard == shard).unwrap_or_else(|| {
            self.post.lanes.push(Lane::new(shard));
            self.post.lanes.len() - 1
        });
        let lane = &mut self.post.lanes[at];
        if lane.connection.is_some_and(|newer| newer > connection) {
            return; // A greeting that took long: the shard listens to the newer one alone (P29).
        }
        lane.clear();
        lane.incarnation = incarnation.max(lane.incarnation);
        (lane.connection, lane.is_gone) = (Some(connection), false);
        self.post.woken.extend(lane.waker.take());
        lane.put(now, Request::Heartbeat { live: self.book.live(), floor: self.book.floor() });
        // A node of another name is another one, whatever its address.
        let renamed = self.shards.iter().filter(|(known, was)| known == node && *was != shard);
        self.leaving.extend(renamed.map(|(_, was)| *was));
        self.shards.retain(|(known, was)| known != node && *was != shard);
        self.shards.push((node.clone(), shard));
        self.leaving.retain(|leaving| *leaving != shard);
        self.assign(now);
        self.book.meet(now, shard, incarnation);
    }

    /// The connection is gone.
    pub(super) fn unbind(&mut self, shard: ShardId, connection: u32) {
        if let Some(lane) = self.lane(shard, connection) {
            lane.clear();
            lane.connection = None;
        }
    }

    fn lane(&mut self, shard: ShardId, connection: u32) -> Option<&mut Lane> {
        self.post.lane(shard).filter(|lane| lane.connection == Some(connection))
    }

    /// Moves what waits for a shard into `requests`, as much as one frame may have, and wakes the connection when
    /// there is more. Returns whether the connection has nothing more to do.
    pub(super) fn take(
        &mut self,
        shard: ShardId,
        connection: u32,
        waker: &Waker,
        requests: &mut Vec<Request>,
    ) -> bool {
        let Some(lane) = self.lane(shard, connection) else { return true };
        if lane.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            lane.waker = Some(waker.clone());
        }
        let Some(since) = lane.since.filter(|_| lane.may_send()) else {
            return lane.is_closing && lane.oldest().is_none();
        };
        move_front(&mut lane.first, requests);
        move_front(&mut lane.rest, requests);
        lane.in_flight.push_back(since);
        if lane.first.is_empty() && lane.rest.is_empty() {
            lane.since = None;
        }
        false
    }

    /// What was taken became more than one frame.
    pub(super) fn add_frames(&mut self, now: Time, shard: ShardId, connection: u32, more: usize) {
        if let Some(lane) = self.lane(shard, connection) {
            lane.in_flight.extend(std::iter::repeat_n(now, more));
        }
    }

    /// A shard answered so many frames, with these responses, and with what it had to say besides.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        shard: ShardId,
        connection: u32,
        frames: usize,
        responses: impl Iterator<Item = Response>,
    ) {
        let Some(lane) = self.lane(shard, connection) else { return };
        lane.in_flight.drain(..frames.min(lane.in_flight.len()));
        for response in responses {
            self.waits += u64::from(matches!(response, Response::Queued { .. } | Response::Busy { .. }));
            self.book.handle_response(now, shard, response);
        }
        if self.book.floor() >= self.next_floor {
            self.heartbeat(now);
        }
    }

    /// Since when the shard owes an answer.
    pub(super) fn owes_since(&mut self, shard: ShardId, connection: u32) -> Option<Time> {
        self.lane(shard, connection)?.in_flight.front().copied()
    }

    /// The node that owes an answer for the longest time.
    pub(super) fn most_owing(&self) -> Option<(Address, Time)> {
        let lane = |shard: &ShardId| self.post.lanes.iter().find(|lane| lane.shard == *shard);
        let since = |shard: &ShardId| lane(shard).and_then(Lane::oldest);
        let owing = self.shards.iter().filter_map(|(node, shard)| Some((node.clone(), since(shard)?)));
        owing.min_by_key(|(_, since)| *since)
    }

    /// The process ends: tells all shards that nothing of it lives, and lets their connections close behind that.
    pub(super) fn farewell(&mut self, now: Time) {
        let floor = self.book.floor();
        for lane in &mut self.post.lanes {
            lane.put(now, Request::Heartbeat { live: Vec::new(), floor });
            lane.is_closing = true;
            self.post.woken.extend(lane.waker.take());
        }
    }
}

/// Moves as much as a frame still may have. All of it goes in one piece.
fn move_front(queue: &mut VecDeque<Request>, requests: &mut Vec<Request>) {
    let room = FRAME_REQUESTS_MAX - requests.len();
    if queue.len() > room {
        requests.extend(queue.drain(..room));
        return;
    }
    let mut all = Vec::from(std::mem::take(queue));
    requests.append(&mut all);
    *queue = all.into();
}

#[cfg(test)]
mod tests {
    use claret_core::{AttemptId, Delivery, TxId};
    use claret_types::{Counter, CounterOp};

    use super::*;
    use crate::host::Mode;

    const SHARD: ShardId = ShardId(0);

    fn desk() -> Desk {
        let mut desk =
            Desk::new(SessionId(7), Mode::BoostPhase.switches(Delivery::Network), Limits::default());
        let node = Address { host: "h".into(), port: 1 };
        desk.adopt(Time(0), &Topology::alone(node.clone()));
        desk.bind(Time(0), 1, &node, SHARD, Incarnation(5));
        desk
    }

    fn attempt(sequence: u64) -> AttemptId {
        AttemptId { tx: TxId { session: SessionId(7), sequence: Sequence(sequence) }, attempt: 1 }
    }

    fn frame(desk: &mut Desk) -> Vec<Request> {
        let mut requests = Vec::new();
        desk.take(SHARD, 1, Waker::noop(), &mut requests);
        requests
    }

    #[test]
    fn a_new_connection_begins_with_a_heartbeat() {
        assert!(matches!(frame(&mut desk())[..], [Request::Heartbeat { .. }]));
    }

    #[test]
    fn applies_and_aborts_go_first() {
        let mut desk = desk();
        frame(&mut desk);
        desk.deliver(Time(1), SHARD, 1, 1, std::iter::empty());
        desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
        desk.post.send(SHARD, Request::Abort { attempt: attempt(2), refused_by: None });
        desk.post.send(SHARD, Request::Withdraw { attempt: attempt(3) });
        desk.post.send(SHARD, Request::Apply { attempt: attempt(4) });
        let names: Vec<u64> = frame(&mut desk)
            .iter()
            .map(|request| match request {
                Request::Apply { attempt }
                | Request::Withdraw { attempt }
                | Request::Abort { attempt, .. } => attempt.tx.sequence.0,
                _ => 0,
            })
            .collect();
        assert_eq!(names, [2, 4, 1, 3]);
    }

    #[test]
    fn while_an_answer_is_owed_requests_gather() {
        let mut desk = desk();
        assert!(!frame(&mut desk).is_empty());
        for gathered in 1..FRAME_REQUESTS_WORTH {
            desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
            assert!(frame(&mut desk).is_empty(), "{gathered} are not worth a frame");
        }
        desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
        assert_eq!(frame(&mut desk).len(), FRAME_REQUESTS_WORTH);
        desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
        desk.deliver(Time(1), SHARD, 1, 2, std::iter::empty());
        assert_eq!(frame(&mut desk).len(), 1);
    }

    #[test]
    fn frames_in_flight_are_bounded_and_answers_make_room() {
        let send = |desk: &mut Desk| {
            for _ in 0..FRAME_REQUESTS_WORTH {
                desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
            }
        };
        let mut desk = desk();
        for _ in 0..FRAMES_IN_FLIGHT_MAX {
            send(&mut desk);
            assert!(!frame(&mut desk).is_empty());
        }
        send(&mut desk);
        assert!(frame(&mut desk).is_empty());
        desk.deliver(Time(1), SHARD, 1, 1, std::iter::empty());
        assert_eq!(frame(&mut desk).len(), FRAME_REQUESTS_WORTH);
    }

    #[test]
    fn what_is_on_its_way_is_not_sent_again() {
        let mut desk = desk();
        frame(&mut desk);
        desk.post.now = Time(600);
        desk.post.repeats_after = Some(500);
        desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
        assert!(frame(&mut desk).is_empty(), "the heartbeat's frame is not answered yet");
        desk.deliver(Time(600), SHARD, 1, 1, std::iter::empty());
        desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
        assert_eq!(frame(&mut desk).len(), 1);
    }

    /// A transaction that adds to a counter at the shard, with its prepare on the way.
    fn in_commit(desk: &mut Desk) -> (Arc<Mailbox>, TxHandle) {
        let mailbox = Arc::default();
        let tx = desk.begin(Time(1), &mailbox);
        let op = Operation::new::<Counter>(CounterOp::Add(1));
        let calls = std::iter::once((SHARD, "k".into(), op));
        desk.book.buffer(Time(1), (tx, 1), calls).expect("it runs");
        desk.book.commit(Time(1), (tx, 1)).expect("it runs");
        desk.settle(Time(1));
        (mailbox, tx)
    }

    #[test]
    fn what_is_over_is_told_before_the_next_beat() {
        let mut desk = desk();
        let mut floors = Vec::new();
        for sequence in 1..=OVER_WORTH + 1 {
            let (_, tx) = in_commit(&mut desk);
            assert_eq!(tx, TxHandle(sequence));
            let requests = frame(&mut desk);
            floors.extend(requests.iter().filter_map(|request| match request {
                Request::Heartbeat { floor, .. } => Some(*floor),
                _ => None,
            }));
            let committed = Response::Committed { attempt: attempt(sequence), replies: Vec::new() };
            desk.deliver(Time(1), SHARD, 1, 1, std::iter::once(committed));
            desk.settle(Time(1));
        }
        assert_eq!(floors, [Sequence(1), Sequence(OVER_WORTH)]);
    }

    #[test]
    fn for_a_shard_that_is_gone_the_desk_answers_once_others_have_its_slots() {
        let mut desk = desk();
        frame(&mut desk);
        let (mailbox, _) = in_commit(&mut desk);
        let (old, new) = (Address { host: "h".into(), port: 1 }, Address { host: "h".into(), port: 2 });
        desk.adopt(Time(2), &Topology::alone(new.clone()));
        desk.part_with(Time(2), &old);
        desk.settle(Time(2));
        assert!(!desk.book.is_over(), "nobody else has its slots");
        desk.bind(Time(3), 2, &new, ShardId(1), Incarnation(6));
        desk.settle(Time(3));
        assert!(desk.book.is_over(), "its end is as known as it will ever be");
        let events = mailbox.take_events();
        assert!(matches!(events[..], [Event::Unknown]), "{events:?}");
        // A greeting over an earlier connection than the one it has is not heard.
        desk.bind(Time(3), 1, &new, ShardId(1), Incarnation(5));
        assert_eq!(desk.post.lane(ShardId(1)).and_then(|lane| lane.connection), Some(2));
        // And it may come back.
        desk.adopt(Time(4), &Topology::alone(old.clone()));
        desk.bind(Time(4), 3, &old, SHARD, Incarnation(9));
        in_commit(&mut desk);
        let mut requests = Vec::new();
        desk.take(SHARD, 3, Waker::noop(), &mut requests);
        assert!(matches!(requests[..], [Request::Heartbeat { .. }, Request::Prepare { .. }]), "{requests:?}");
    }

    #[test]
    fn a_node_that_comes_back_is_not_parted_with() {
        let mut desk = desk();
        frame(&mut desk);
        in_commit(&mut desk);
        let (old, new) = (Address { host: "h".into(), port: 1 }, Address { host: "h".into(), port: 2 });
        desk.adopt(Time(2), &Topology::alone(new.clone()));
        desk.part_with(Time(2), &old);
        desk.adopt(Time(3), &Topology::alone(old.clone()));
        desk.part_with(Time(3), &old);
        desk.bind(Time(4), 2, &new, ShardId(1), Incarnation(6));
        desk.adopt(Time(4), &Topology::alone(new));
        desk.settle(Time(4));
        assert!(!desk.book.is_over(), "it may answer for itself");
    }

    #[test]
    fn a_node_that_says_another_name_is_another_shard() {
        let mut desk = desk();
        frame(&mut desk);
        in_commit(&mut desk);
        desk.bind(Time(3), 2, &Address { host: "h".into(), port: 1 }, ShardId(1), Incarnation(6));
        desk.settle(Time(3));
        assert!(desk.book.is_over());
    }

    #[test]
    fn a_lane_without_a_connection_keeps_nothing_and_an_old_connection_takes_nothing() {
        let mut desk = desk();
        desk.unbind(SHARD, 1);
        desk.post.send(SHARD, Request::Withdraw { attempt: attempt(1) });
        let node = Address { host: "h".into(), port: 1 };
        desk.bind(Time(9), 2, &node, SHARD, Incarnation(5));
        assert!(frame(&mut desk).is_empty());
        let mut requests = Vec::new();
        desk.take(SHARD, 2, Waker::noop(), &mut requests);
        assert!(matches!(requests[..], [Request::Heartbeat { .. }]));
        desk.unbind(SHARD, 1);
        assert!(desk.owes_since(SHARD, 2).is_some(), "the new one is not closed with the old one");
    }
}
