//! A shard as a server: one thread, a queue of frames.
//!
//! The shard's state changes at the instant when a frame's work begins; the results leave when its cost has passed,
//! one frame for each process. Nobody can look in between, so this is the same as if the work were done at the end.

use std::collections::VecDeque;

use claret_core::message::{Link, Output, PeerMessage, Request, Response};
use claret_core::{AttemptId, Incarnation, SessionId, Shard, ShardId, Stats, Time};
use claret_types::{Bytes, Operation, Reply};

use super::costs::Costs;
use super::measure::Served;
use super::setup::Setup;
use super::wire::{AskFrame, Asked, Multi, Plain, ShardMessage, TellFrame};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) shard: Shard,
    id: usize,
    queue: VecDeque<Work>,
    pub(super) is_busy: bool,
    /// The timeout that stands in the queue of events.
    pub(super) timer: Option<Time>,
    /// Work begun so far, in nanoseconds, and when it is done.
    busy_ns: u64,
    free_at: u64,
    frames: u64,
    plain: u64,
}

/// What waits for a server.
#[derive(Debug)]
enum Work {
    Frame(AskFrame),
    /// Words of another shard that came together.
    Peers(Vec<PeerMessage>),
}

/// What a piece of work comes to.
#[derive(Debug)]
pub(super) struct Worked {
    /// How long it takes.
    pub(super) ns: u64,
    /// What leaves then, and for whom.
    pub(super) frames: Vec<(usize, TellFrame)>,
    /// And for other shards, one frame for each.
    pub(super) peers: Vec<(usize, Vec<PeerMessage>)>,
}

/// Attempts that the work at hand answers directly, and what else is to be said.
struct Saying<'a> {
    id: usize,
    costs: &'a Costs,
    worked: Worked,
}

impl Server {
    pub(super) fn new(id: u32, setup: &Setup) -> Self {
        let mut shard = Shard::new(ShardId(id), Incarnation(1), setup.switches(), setup.limits);
        shard.know_owners((0..setup.shards).map(ShardId));
        Server {
            shard,
            id: id as usize,
            queue: VecDeque::new(),
            is_busy: false,
            timer: None,
            busy_ns: 0,
            free_at: 0,
            frames: 0,
            plain: 0,
        }
    }

    /// What it has done up to now.
    pub(super) fn served(&self, now: u64) -> Served {
        let stats = self.shard.stats();
        Served {
            busy_ns: self.busy_ns - self.free_at.saturating_sub(now),
            frames: self.frames,
            operations: self.plain + stats.grants,
            waits: stats.waits,
        }
    }

    pub(super) fn put(&mut self, frame: AskFrame) {
        self.queue.push_back(Work::Frame(frame));
    }

    pub(super) fn put_peers(&mut self, messages: Vec<PeerMessage>) {
        self.queue.push_back(Work::Peers(messages));
    }

    /// Whether there is something to do at this time.
    pub(super) fn has_work(&self, now: Time) -> bool {
        !self.queue.is_empty() || self.shard.poll_timeout().is_some_and(|due| due <= now)
    }

    /// Does the next piece of work: what timers ask for, or else a frame.
    pub(super) fn work(&mut self, now_ns: u64, costs: &Costs) -> Worked {
        let now = Time(now_ns / 1_000);
        let worked = if self.shard.poll_timeout().is_some_and(|due| due <= now) {
            self.time_out(now, costs)
        } else {
            match self.queue.pop_front().expect("there is work") {
                Work::Frame(frame) => self.work_off(now, costs, frame),
                Work::Peers(messages) => self.hear(now, costs, messages),
            }
        };
        self.busy_ns += worked.ns;
        self.free_at = now_ns + worked.ns;
        worked
    }

    fn time_out(&mut self, now: Time, costs: &Costs) -> Worked {
        let before = self.shard.stats();
        self.shard.handle_timeout(now);
        let mut saying = Saying::new(self.id, costs, None, costs.message);
        self.say(&mut saying, None);
        saying.worked.ns += looked(costs, before, self.shard.stats());
        saying.worked
    }

    /// Other shards said something.
    fn hear(&mut self, now: Time, costs: &Costs, messages: Vec<PeerMessage>) -> Worked {
        self.frames += 1;
        let before = self.shard.stats();
        let mut saying = Saying::new(self.id, costs, None, costs.peer);
        self.shard.begin(now);
        for message in messages {
            saying.worked.ns += costs.message;
            self.shard.handle_further_peer(now, message);
        }
        self.say(&mut saying, None);
        saying.worked.ns += looked(costs, before, self.shard.stats());
        saying.worked
    }

    fn work_off(&mut self, now: Time, costs: &Costs, mut frame: AskFrame) -> Worked {
        frame.put_releases_first();
        self.frames += 1;
        let before = self.shard.stats();
        let mut saying = Saying::new(self.id, costs, Some(frame.process), costs.frame);
        let link = Link { session: SessionId(frame.process as u64), connection: 0 };
        for part in frame.parts {
            match part {
                Asked::Request(request) => {
                    let (own, ns) = price(costs, &request);
                    saying.worked.ns += ns;
                    self.shard.handle(now, link, request);
                    self.say(&mut saying, own);
                }
                Asked::Plain(plain) => self.carry_out(&mut saying, frame.process, plain),
                Asked::Multi(multi) => self.carry_out_all(&mut saying, frame.process, multi),
            }
        }
        saying.worked.ns += looked(costs, before, self.shard.stats());
        saying.worked
    }

    /// Without transactions: an operation is done when it comes.
    fn carry_out(&mut self, saying: &mut Saying<'_>, process: usize, plain: Plain) {
        let Plain { terminal, at, hash, key, op } = plain;
        let reply = self.unlocked(hash, &key, &op);
        saying.worked.ns += saying.costs.op;
        saying.tell(process, ShardMessage::Plain { terminal, at, reply });
    }

    /// With all keys on this server: `MULTI` and `EXEC` cost as much as an operation each.
    fn carry_out_all(&mut self, saying: &mut Saying<'_>, process: usize, multi: Multi) {
        saying.worked.ns += saying.costs.op * multi.commands();
        let Multi { terminal, calls } = multi;
        let replies = calls.iter().map(|(hash, key, op)| self.unlocked(*hash, key, op)).collect();
        saying.tell(process, ShardMessage::Exec { terminal, replies });
    }

    fn unlocked(&mut self, hash: u64, key: &Bytes, op: &Operation) -> Reply {
        let reply = self.shard.unlocked(hash, key, op).expect("workloads ask for nothing impossible");
        self.shard.finish_instant();
        self.plain += 1;
        reply
    }

    /// Takes what the shard has to say. The first word on `own` is the answer, and part of its work.
    fn say(&mut self, saying: &mut Saying<'_>, mut own: Option<AttemptId>) {
        while let Some(output) = self.shard.poll_output() {
            let (session, response) = match output {
                Output::Respond { session, response } => (session, response),
                Output::Tell { shard, message } => {
                    saying.tell_peer(shard.0 as usize, message);
                    continue;
                }
            };
            if own.is_some() && own == response.attempt() {
                own = None;
            } else {
                saying.worked.ns += saying.costs.message;
            }
            saying.tell(session.0 as usize, ShardMessage::Response(response));
        }
    }
}

impl<'a> Saying<'a> {
    /// A frame that was asked is answered, even if there is nothing to say.
    fn new(id: usize, costs: &'a Costs, asker: Option<usize>, ns: u64) -> Self {
        let answer = |process| (process, TellFrame { shard: id, parts: Vec::new(), is_answer: true });
        Saying {
            id,
            costs,
            worked: Worked { ns, frames: asker.map(answer).into_iter().collect(), peers: Vec::new() },
        }
    }

    fn tell(&mut self, process: usize, part: ShardMessage) {
        let known = self.worked.frames.iter_mut().find(|(to, _)| *to == process);
        if let Some((_, frame)) = known {
            return frame.parts.push(part);
        }
        self.worked.ns += self.costs.push;
        self.worked.frames.push((process, TellFrame { shard: self.id, parts: vec![part], is_answer: false }));
    }
    /// What is for one shard goes together.
    fn tell_peer(&mut self, shard: usize, message: PeerMessage) {
        self.worked.ns += self.costs.message;
        match self.worked.peers.iter_mut().find(|(to, _)| *to == shard) {
            Some((_, messages)) => messages.push(message),
            None => {
                self.worked.ns += self.costs.peer;
                self.worked.peers.push((shard, vec![message]));
            }
        }
    }
}

/// What a request costs besides its operations, and the attempt that it is about.
fn price(costs: &Costs, request: &Request) -> (Option<AttemptId>, u64) {
    match request {
        Request::Execute { attempt, .. } => (Some(*attempt), 0),
        Request::Prepare { attempt, .. }
        | Request::Apply { attempt }
        | Request::Withdraw { attempt }
        | Request::Abort { attempt, .. }
        | Request::Ask { attempt }
        | Request::AskBehind { attempt }
        | Request::ApplyAt { attempt, .. } => (Some(*attempt), costs.message),
        Request::Heartbeat { .. } | Request::Tick { .. } | Request::Look { .. } => (None, costs.message),
    }
}

/// Operations that were looked at and those that were granted.
fn looked(costs: &Costs, before: Stats, after: Stats) -> u64 {
    costs.lock * (after.looks - before.looks) + costs.op * (after.grants - before.grants)
}

/// How many messages a part counts for at the process: each answer, and otherwise one.
pub(super) fn told_weight(part: &ShardMessage) -> u64 {
    match part {
        ShardMessage::Response(Response::Voted { replies, .. } | Response::Committed { replies, .. }) => {
            replies.len().max(1) as u64
        }
        ShardMessage::Exec { replies, .. } => replies.len() as u64,
        ShardMessage::Response(_) | ShardMessage::Plain { .. } => 1,
    }
}
