//! The queue of events, and the model that processes it.
//!
//! All events are in one queue, ordered by (time, number); nothing else orders anything.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use claret_core::Time;
use claret_core::message::PeerMessage;
use claret_types::Reply;

use super::client::{Call, Client};
use super::measure::{Measured, Served};
use super::process::{Incoming, ModelProcess, place};
use super::server::Server;
use super::setup::{Mode, Pace, Setup};
use super::wire::{AskFrame, TellFrame};
use crate::random::{Random, Stream};

/// How long transactions that are under way at the end may take, in nanoseconds.
const FINISH_NS_MAX: u64 = 100_000_000_000;

#[derive(Debug)]
enum ModelEvent {
    Ask(usize, AskFrame),
    /// A shard is done with a piece of work.
    Served(usize),
    ShardTimer(usize),
    Tell(usize, TellFrame),
    /// Words of another shard arrive at this one.
    Peers(usize, Vec<PeerMessage>),
    Tick(usize),
    /// A process is done with a tick.
    Ticked(usize),
    ProcessTimer(usize),
    Timer {
        process: usize,
        terminal: usize,
        number: u64,
    },
    Watch(usize),
    /// From now on it counts.
    Warm,
    /// It counts no more, and no transaction begins.
    Over,
}

/// An entry of the queue; the earliest is the greatest.
#[derive(Debug)]
struct QueueEntry {
    at: Reverse<(u64, u64)>,
    event: ModelEvent,
}

impl PartialEq for QueueEntry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for QueueEntry {}

impl PartialOrd for QueueEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueueEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// The ways between processes and shards.
#[derive(Debug)]
struct Links {
    delay: u64,
    jitter: u64,
    shards: usize,
    random: Random,
    /// The last arrival on each link, by process and shard: there, and back.
    last: Vec<[u64; 2]>,
}

impl Links {
    /// When a frame arrives that leaves now.
    fn arrival(&mut self, leaves: u64, process: usize, shard: usize, back: bool) -> u64 {
        let extra = if self.jitter == 0 { 0 } else { self.random.below(self.jitter + 1) };
        let last = &mut self.last[process * self.shards + shard][usize::from(back)];
        *last = (*last).max(leaves + self.delay + extra);
        *last
    }
}

impl Links {
    /// When a frame from shard to shard arrives that leaves now: in any order.
    fn peer_arrival(&mut self, leaves: u64) -> u64 {
        let extra = if self.jitter == 0 { 0 } else { self.random.below(self.jitter + 1) };
        leaves + self.delay + extra
    }
}

/// Shards and processes in virtual time, and the one queue of all that is to happen to them.
#[derive(Debug)]
pub struct Model {
    setup: Arc<Setup>,
    now: u64,
    number: u64,
    queue: BinaryHeap<QueueEntry>,
    links: Links,
    servers: Vec<Server>,
    processes: Vec<ModelProcess>,
    before: Vec<Served>,
    after: Vec<Served>,
}

impl Model {
    /// Shards that hold nothing, and clients that have not begun.
    ///
    /// # Panics
    /// Without a shard, a process or a client; or [`Mode::OneServer`] on several shards, or one operation at a time.
    pub fn new(setup: Setup, clients: Vec<Box<dyn Client>>) -> Self {
        assert!(setup.shards > 0 && setup.processes > 0 && !clients.is_empty(), "nothing to run");
        let is_one_server = setup.mode == Mode::OneServer;
        assert!(!is_one_server || setup.shards == 1 && setup.pace == Pace::Together, "not on one server");
        let count = setup.processes as usize;
        let setup = Arc::new(setup);
        let mut dealt: Vec<Vec<Box<dyn Client>>> = (0..count).map(|_| Vec::new()).collect();
        for (number, client) in clients.into_iter().enumerate() {
            dealt[number % count].push(client);
        }
        let processes = dealt.into_iter().enumerate().map(|(id, mine)| ModelProcess::new(id, &setup, mine));
        let shards = setup.shards as usize;
        let links = Links {
            delay: setup.costs.delay,
            jitter: setup.costs.jitter,
            shards,
            random: Random::new(setup.seed, Stream::Network),
            last: vec![[0; 2]; count * shards],
        };
        Model {
            now: 0,
            number: 0,
            queue: BinaryHeap::new(),
            links,
            servers: (0..setup.shards).map(|id| Server::new(id, &setup)).collect(),
            processes: processes.collect(),
            before: Vec::new(),
            after: Vec::new(),
            setup,
        }
    }

    /// Carries out a call at once, in no time: to load records before a run, and to read them after it.
    ///
    /// # Panics
    /// When it cannot be done, or somebody holds the record.
    pub fn call(&mut self, call: &Call) -> Reply {
        let (hash, shard) = place(&self.setup, &call.key);
        let shard = &mut self.servers[shard].shard;
        let reply = shard.instant(hash, &call.key, &call.op).expect("it can be done");
        shard.finish_instant();
        reply.expect("nobody holds the record")
    }

    /// Records that are locked and attempts that are open: none after a run.
    pub fn left_behind(&self) -> (usize, usize) {
        let of = |count: fn(&Server) -> usize| self.servers.iter().map(count).sum();
        (of(|server| server.shard.locked_records()), of(|server| server.shard.open_attempts()))
    }

    /// Runs until everything that began is over, and says what it came to.
    ///
    /// # Errors
    /// When something is still under way long after the end.
    pub fn run(&mut self) -> Result<Measured, String> {
        for process in 0..self.processes.len() {
            for (at, terminal, number) in self.processes[process].starts() {
                self.schedule(at, ModelEvent::Timer { process, terminal, number });
            }
            let beat = self.setup.heartbeat_us * 1_000;
            self.schedule(beat + process as u64, ModelEvent::Watch(process));
        }
        let warm = self.setup.warm_up_us * 1_000;
        let over = warm + self.setup.measured_us * 1_000;
        self.schedule(warm, ModelEvent::Warm);
        self.schedule(over, ModelEvent::Over);
        while self.after.is_empty() || !self.is_quiet() {
            let Some(QueueEntry { at: Reverse((at, _)), event }) = self.queue.pop() else { break };
            self.now = at;
            if at > over + FINISH_NS_MAX {
                return Err("transactions are still under way long after the end of the run".into());
            }
            self.step(event);
        }
        let tallies = self.processes.drain(..).map(|process| process.finish());
        let (tallies, combined): (Vec<_>, Vec<_>) = tallies.unzip();
        let mut measured = Measured::new(tallies, &self.before, &self.after);
        measured.combined = combined.into_iter().sum();
        measured.events = self.number;
        Ok(measured)
    }

    fn is_quiet(&self) -> bool {
        self.processes.iter().all(ModelProcess::is_quiet)
    }

    fn schedule(&mut self, at: u64, event: ModelEvent) {
        self.number += 1;
        self.queue.push(QueueEntry { at: Reverse((at, self.number)), event });
    }

    fn step(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Ask(shard, frame) => {
                self.servers[shard].put(frame);
                self.serve(shard);
            }
            ModelEvent::Served(shard) => {
                self.servers[shard].is_busy = false;
                self.serve(shard);
            }
            ModelEvent::ShardTimer(shard) => {
                self.servers[shard].timer = None;
                self.serve(shard);
            }
            ModelEvent::Tell(process, frame) => self.hand(process, Incoming::Frame(frame)),
            ModelEvent::Peers(shard, messages) => {
                self.servers[shard].put_peers(messages);
                self.serve(shard);
            }
            ModelEvent::Timer { process, terminal, number } => {
                self.hand(process, Incoming::Timer { terminal, number });
            }
            ModelEvent::Watch(process) => {
                let next = self.now + self.setup.heartbeat_us * 1_000;
                self.schedule(next, ModelEvent::Watch(process));
                self.hand(process, Incoming::Watch);
            }
            ModelEvent::Tick(process) => self.tick(process),
            ModelEvent::Ticked(process) => {
                self.processes[process].is_awake = false;
                self.look(process);
            }
            ModelEvent::ProcessTimer(process) => {
                self.processes[process].timer = None;
                self.look(process);
            }
            ModelEvent::Warm => self.before = self.served(),
            ModelEvent::Over => {
                self.after = self.served();
                self.processes.iter_mut().for_each(|process| process.is_closing = true);
            }
        }
    }

    // --- shards ---

    /// Lets a shard work, if it is idle and there is something to do.
    fn serve(&mut self, shard: usize) {
        let time = Time(self.now / 1_000);
        let server = &mut self.servers[shard];
        if server.is_busy {
            return;
        }
        if server.has_work(time) {
            let worked = server.work(self.now, &self.setup.costs);
            let done = self.now + worked.ns;
            for (process, frame) in worked.frames {
                let arrives = self.links.arrival(done, process, shard, true);
                self.schedule(arrives, ModelEvent::Tell(process, frame));
            }
            for (to, messages) in worked.peers {
                let arrives = self.links.peer_arrival(done);
                self.schedule(arrives, ModelEvent::Peers(to, messages));
            }
            self.servers[shard].is_busy = true;
            self.schedule(done, ModelEvent::Served(shard));
        }
        // One timer stands in the queue; that it is early does no harm, since it is looked at again.
        let server = &mut self.servers[shard];
        let due = server.shard.poll_timeout();
        if let Some(due) = due.filter(|due| server.timer.is_none_or(|timer| *due < timer)) {
            server.timer = Some(due);
            self.schedule((due.0 * 1_000).max(self.now), ModelEvent::ShardTimer(shard));
        }
    }

    fn served(&self) -> Vec<Served> {
        self.servers.iter().map(|server| server.served(self.now)).collect()
    }

    // --- processes ---

    fn hand(&mut self, process: usize, incoming: Incoming) {
        self.processes[process].put(incoming);
        self.look(process);
    }

    /// Has a process tick, if it is idle and there is something to do: behind everything else of this instant.
    fn look(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.is_awake {
            return;
        }
        if process.has_work(Time(self.now / 1_000)) {
            process.is_awake = true;
            return self.schedule(self.now, ModelEvent::Tick(at));
        }
        let due = process.poll_timeout();
        if let Some(due) = due.filter(|due| process.timer.is_none_or(|timer| *due < timer)) {
            process.timer = Some(due);
            self.schedule(due.0 * 1_000, ModelEvent::ProcessTimer(at));
        }
    }

    fn tick(&mut self, at: usize) {
        let ticked = self.processes[at].tick(self.now);
        let done = self.now + ticked.ns;
        for (shard, frame) in ticked.frames {
            let arrives = self.links.arrival(done, at, shard, false);
            self.schedule(arrives, ModelEvent::Ask(shard, frame));
        }
        for (wakes, terminal, number) in ticked.timers {
            self.schedule(wakes, ModelEvent::Timer { process: at, terminal, number });
        }
        self.schedule(done, ModelEvent::Ticked(at));
    }
}
