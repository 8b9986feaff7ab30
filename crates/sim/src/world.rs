//! The simulated world: shards, clients, the network between them, and virtual time.
//!
//! All events are in one queue, ordered by (time, number); nothing else orders anything, and nothing is read from
//! outside. Each step hands one event to one state machine, drains what comes out, and checks that machine's
//! invariants. `drive.rs` has what clients do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use claret_core::message::{Link, Output, PeerMessage, Refusal, Request, Response, Status};
use claret_core::{
    AttemptId, Client, Sequence, SessionId, Shard, ShardId, Survives, Time, Timestamp, key_hash,
};
use claret_types::{Bytes, State};

use crate::asking::Asking;
use crate::check::{Ledger, LedgerEnd, Violation};
use crate::clock::Clock;
use crate::config::Config;
use crate::driven::Stageplay;
use crate::event::SimEvent;
use crate::host::Host;
use crate::moves::Moves;
use crate::network::{Endpoint, Network};
use crate::observed::judge;
use crate::outcome::Outcome;
use crate::plant::Plant;
use crate::probe;
use crate::process::Process;
use crate::queue::Queue;
use crate::random::{Random, Stream};
use crate::reference::Reference;
use crate::store::Store;
use crate::tamper::{Sent, Tamper, Tampering};
use crate::trace::Trace;
use crate::ways;
use crate::workload::Workload;

/// More steps than any run needs, or without phases from one transaction's end to the next one's: a storm of messages.
const STEPS_MAX: u64 = 800_000;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) config: Config,
    pub(crate) now: Time,
    queue: Queue,
    pub(crate) hosts: Vec<Host>,
    pub(crate) processes: BTreeMap<SessionId, Process>,
    /// The connection over which a shard last heard of a session.
    links: BTreeMap<(ShardId, SessionId), u32>,
    /// Up to which connection between two ends all is torn: what was on its way is lost.
    pub(crate) torn: BTreeMap<(SessionId, ShardId), u32>,
    /// Connections over which a heartbeat came, or was refused.
    pub(crate) begun: BTreeSet<(SessionId, ShardId, u32)>,
    /// While a shard handles a frame: whose it is, and what goes into the answer.
    pub(crate) answering: Option<(SessionId, Vec<Response>)>,
    pub(crate) moves: Moves,
    /// Shards whose nodes have left for good.
    pub(crate) removed: BTreeSet<ShardId>,
    pub(crate) network: Network,
    pub(crate) workload: Workload,
    pub(crate) stageplay: Stageplay,
    pub(crate) ledger: Ledger,
    pub(crate) asking: Asking,
    pub(crate) random: Random,
    /// What users do with runs that are over.
    pub(crate) stale: Random,
    /// When shards hear that a session is gone, and forget it.
    pub(crate) partings: Random,
    /// Which frames are refused.
    pub(crate) frames: Random,
    /// When replicas have what was sent to them, and who is promoted.
    pub(crate) replication: Random,
    pub(crate) plant: Plant,
    pub(crate) tamper: Tamper,
    /// Counts of sent messages at which the sender dies, in order.
    deaths: VecDeque<u64>,
    paused: BTreeMap<Endpoint, Time>,
    /// When a transaction was last over for its user, and after how many steps.
    pub(crate) last_end: (Time, u64),
    pub(crate) outcome: Outcome,
    pub(crate) trace: Trace,
}

impl World {
    pub(crate) fn new(
        seed: u64,
        config: Config,
        (plant, stageplay): (Plant, Stageplay),
        in_words: bool,
    ) -> Self {
        let mut setup = Random::new(seed, Stream::Setup);
        let workload = Workload::random(seed, &config, &mut setup);
        let moves = Moves::new(&config);
        let hosts = (0..config.shards).map(|number| Host::new(ShardId(number), &config, &moves));
        let until = Time(config.faults.until_us);
        let mut deaths = config.faults.deaths.clone();
        deaths.sort_unstable();
        let mut world = World {
            seed,
            now: Time(0),
            queue: Queue::default(),
            hosts: hosts.collect(),
            processes: BTreeMap::new(),
            links: BTreeMap::new(),
            torn: BTreeMap::new(),
            begun: BTreeSet::new(),
            answering: None,
            moves,
            removed: BTreeSet::new(),
            network: Network::new(config.network.clone(), Random::new(seed, Stream::Network), until),
            workload,
            stageplay,
            ledger: Ledger::new(config.is_ordered(), config.limits.answers_bytes_max),
            asking: Asking::default(),
            random: Random::new(seed, Stream::Client),
            stale: Random::new(seed, Stream::Stale),
            partings: Random::new(seed, Stream::Partings),
            frames: Random::new(seed, Stream::Frames),
            replication: Random::new(seed, Stream::Replicas),
            plant,
            tamper: Tamper::new(plant.tampering()),
            deaths: deaths.into(),
            paused: BTreeMap::new(),
            last_end: (Time(0), 0),
            outcome: Outcome::default(),
            trace: Trace::new(in_words),
            config,
        };
        for number in 0..world.config.shards {
            world.hosts[number as usize].clock = world.clock(Stream::Clock { end: u64::from(number) });
        }
        (0..world.config.shards).for_each(|number| world.tell_owners(ShardId(number)));
        match world.stageplay.scenario {
            Some(_) => world.load_scenario(),
            None => world.prepare_records(&mut setup),
        }
        for number in 0..u64::from(world.config.sessions) {
            world.add_process(SessionId(number), world.config.workers * world.config.transactions);
        }
        world.schedule_faults(&mut setup);
        world.schedule_vanishing();
        world.schedule_moves();
        world
    }

    /// Fills some records before the run.
    fn prepare_records(&mut self, random: &mut Random) {
        for key in self.workload.keys.clone() {
            let shard = self.shard_of(&key.name);
            for op in self.workload.preparation(&key, random) {
                if self.hosts[shard.0 as usize].prepare(&key.name, &op) {
                    self.ledger.note_preparation(&key.name, &op);
                }
            }
        }
    }

    fn schedule_faults(&mut self, random: &mut Random) {
        let faults = self.config.faults.clone();
        let shards = self.config.shards;
        let shard = |random: &mut Random| ShardId(random.below(u64::from(shards)) as u32);
        let sessions = u64::from(self.config.sessions);
        for _ in 0..faults.reconnects {
            let (session, shard) = (SessionId(random.below(sessions)), shard(random));
            self.schedule(Time(random.below(faults.until_us)), SimEvent::Break(session, shard));
        }
        for _ in 0..faults.outages {
            let other = match random.chance(500) {
                true => Endpoint::Shard(shard(random)),
                false => Endpoint::Session(SessionId(random.below(sessions))),
            };
            let at = random.below(faults.until_us);
            let until = Time(at + random.below(faults.span_us_max)).min(Time(faults.until_us));
            let cut = SimEvent::Cut(Endpoint::Shard(shard(random)), other, until);
            self.schedule(Time(at), cut);
        }
        for _ in 0..faults.pauses {
            let end = match random.chance(500) {
                true => Endpoint::Shard(shard(random)),
                false => Endpoint::Session(SessionId(random.below(sessions))),
            };
            let at = random.below(faults.until_us);
            let until = Time(at + random.below(faults.span_us_max)).min(Time(faults.until_us));
            self.schedule(Time(at), SimEvent::Pause(end, until));
        }
        for _ in 0..faults.restarts {
            let at = random.below(faults.until_us);
            let until = Time(at + random.below(faults.span_us_max)).min(Time(faults.until_us));
            self.schedule(Time(at), SimEvent::Restart(shard(random), until));
        }
        for _ in 0..faults.refusals {
            let at = Time(random.below(faults.until_us));
            self.schedule(at, SimEvent::Refuse(shard(random)));
        }
    }

    /// The clock of an end.
    pub(crate) fn clock(&self, stream: Stream) -> Clock {
        match self.config.faults.clocks {
            true => Clock::random(&mut Random::new(self.seed, stream), self.config.limits.lease_us),
            false => Clock::TRUE,
        }
    }

    /// What a session's clock shows.
    pub(crate) fn local(&self, session: SessionId) -> Time {
        self.processes.get(&session).map_or(self.now, |process| process.clock.shows(self.now))
    }

    pub(crate) fn schedule(&mut self, at: Time, event: SimEvent) {
        self.queue.push(at.max(self.now), event);
    }

    /// Runs until everything is done (in safety mode: until time is over), and checks the end.
    pub(crate) fn run(&mut self) -> Result<Outcome, Violation> {
        self.begin_replicas()?;
        while !self.is_quiet() {
            let Some((at, number, event)) = self.queue.pop() else {
                return Err(format!("nothing will happen any more\n{}", self.picture()));
            };
            if self.config.faults.endless && at.0 >= self.config.faults.until_us {
                break;
            }
            self.now = at;
            self.outcome.steps += 1;
            if self.is_late() {
                return Err(format!(
                    "not done after {} steps, {at}, faults stopped at {}us\n{}",
                    self.outcome.steps,
                    self.config.faults.until_us,
                    self.picture()
                ));
            }
            self.step(number, event)?;
        }
        // In the end all arrives: what shards have written counts, though nobody was told.
        (0..self.config.shards).try_for_each(|number| self.replicate_at_once(ShardId(number)))?;
        if !self.config.faults.endless {
            self.leave_nothing()?;
        }
        self.finish()?;
        Ok(self.outcome)
    }

    /// Whether everything should have been over by now. With phases everybody is the eldest in time. Without them nobody has a
    /// turn (P68): as long as others come to an end one after the other, who is unlucky may wait.
    fn is_late(&self) -> bool {
        let (at, steps) = if self.config.phasing { (Time(0), 0) } else { self.last_end };
        self.now > at.plus(self.config.deadline_us()) || self.outcome.steps - steps > STEPS_MAX
    }

    fn step(&mut self, number: u64, event: SimEvent) -> Result<(), Violation> {
        if let Some(end) = event.at()
            && let Some(until) = self.paused.get(&end).copied()
            && until > self.now
        {
            self.queue.put_off(number, until, event);
            return Ok(());
        }
        if !event.is_without_words() {
            self.trace.note(self.now, &event.words(), || event.to_string());
        }
        match event {
            SimEvent::Move(slot, to) => self.begin_move(slot, to),
            SimEvent::Leave(shard) => self.leave_cluster(shard),
            SimEvent::Cut(a, b, until) => {
                self.network.cut(a, b, until);
                self.break_between(a, b, until);
                Ok(())
            }
            SimEvent::Pause(end, until) => {
                self.outcome.faults += 1;
                self.pause(end, until);
                Ok(())
            }
            SimEvent::Restart(id, until) if self.config.is_replicated() => self.fail_over(id, until),
            SimEvent::Restart(id, until) => self.restart_shard(id, until),
            SimEvent::Replicated(id, life, batch) => self.have_replicated(id, life, batch),
            SimEvent::EndStale(id, life) => {
                self.end_stale(id, life);
                Ok(())
            }
            SimEvent::Audit(session) => self.audit(session),
            of_shard => self.step_shard(of_shard),
        }
    }

    /// Carries out what happens at a shard.
    fn step_shard(&mut self, event: SimEvent) -> Result<(), Violation> {
        match event {
            SimEvent::Request { to: id, .. }
            | SimEvent::Peer { to: id, .. }
            | SimEvent::ShardTimer(id, _)
            | SimEvent::Frame { to: id, .. }
            | SimEvent::Refuse(id)
            | SimEvent::Desert(id, _)
                if !self.removed.contains(&id) =>
            {
                self.expire_what_is_due(id)?
            }
            _ => {}
        }
        match event {
            SimEvent::Request { to, .. } if self.removed.contains(&to) => Ok(()),
            SimEvent::Request { to, link, request } => {
                if let Some(at) = self.stale_of(to, link) {
                    self.hear_as_stale((to, at), link, vec![request], false);
                    return Ok(());
                }
                let now = self.shard_time(to);
                self.note_link(to, link);
                self.host(to).shard.handle(now, link, request);
                self.drain_shard(to)
            }
            SimEvent::Peer { from, to, message } if self.removed.contains(&to) => {
                self.answer_for_removed(from, to, &message);
                Ok(())
            }
            SimEvent::Peer { from, to, message } => self.hear_peer(from, to, message),
            SimEvent::ShardTimer(id, due) => {
                let now = self.shard_time(id);
                let host = self.host(id);
                if host.timer != Some(due) {
                    return Ok(()); // It has asked for another time since.
                }
                host.timer = None;
                host.shard.handle_timeout(now);
                self.drain_shard(id)
            }
            SimEvent::Frame { to, link, requests } => self.handle_frame(to, link, requests),
            SimEvent::Handshake(session, shard, connection) => {
                self.shake_hands(session, shard, connection);
                Ok(())
            }
            SimEvent::Refuse(id) => {
                let now = self.shard_time(id);
                self.outcome.faults += 1;
                self.host(id).shard.refuse_unvoted(now, &Refusal::ReadOnly);
                self.drain_shard(id)
            }
            SimEvent::Expire(id, keys) => self.expire(id, keys),
            SimEvent::Flush(id) => self.flush(id),
            SimEvent::Desert(id, session) => {
                let now = self.shard_time(id);
                self.host(id).shard.deserted(now, session);
                self.drain_shard(id)
            }
            SimEvent::Forget(id, session) => {
                let now = self.shard_time(id);
                self.ledger.note_forgotten(id, session);
                self.host(id).shard.forget(now, session);
                self.drain_shard(id)
            }
            of_process => self.step_process(of_process),
        }
    }

    /// Whether nothing is left to wait for: every client is done, every shard knows it, no message is under way.
    fn is_quiet(&self) -> bool {
        self.queue.awaited() == 0
            && self.processes.values().all(Process::is_done)
            && self
                .hosts
                .iter()
                .all(|host| host.shard.open_attempts() == 0 || self.removed.contains(&host.shard.id()))
    }
}

/// Shards.
impl World {
    pub(crate) fn shard_of(&self, key: &Bytes) -> ShardId {
        self.moves.owner(slot_of(key, self.moves.slots()))
    }

    pub(crate) fn shard_time(&self, id: ShardId) -> Time {
        self.hosts[id.0 as usize].clock.shows(self.now)
    }

    /// A shard's process ends and begins again; all connect to it anew, each in its time.
    fn restart_shard(&mut self, id: ShardId, until: Time) -> Result<(), Violation> {
        let (now, survives) = (self.shard_time(id), self.config.survives());
        self.note_carried_out(id, survives);
        self.host(id).restart(now, survives);
        self.outcome.faults += 1;
        self.outcome.shard_restarts += 1;
        let clock = self.host(id).shard.clock();
        self.ledger.note_restart(id, survives, clock);
        self.pause(Endpoint::Shard(id), until);
        if !self.config.direct {
            self.break_all_to(id, until);
        }
        self.drain_shard(id)
    }

    /// A shard is about to restart, or to leave.
    pub(crate) fn note_carried_out(&mut self, id: ShardId, survives: Survives) {
        let shard = &self.hosts[id.0 as usize].shard;
        self.ledger.note_carried_out(id, survives, |attempt, key| shard.has_carried_out(attempt, key));
    }

    /// An end stands still, for the longest that any fault wants.
    pub(crate) fn pause(&mut self, end: Endpoint, until: Time) {
        let paused = self.paused.entry(end).or_insert(until);
        *paused = until.max(*paused);
    }

    pub(crate) fn host(&mut self, id: ShardId) -> &mut Host {
        &mut self.hosts[id.0 as usize]
    }

    pub(crate) fn shard(&mut self, id: ShardId) -> &mut Shard {
        &mut self.hosts[id.0 as usize].shard
    }

    /// The external store of a shard, if it has one.
    pub(crate) fn store(&self, id: ShardId) -> Option<&Store> {
        self.hosts[id.0 as usize].store.as_deref()
    }

    /// Up to here nobody votes at this moment, or later (P79).
    pub(crate) fn passed(&self) -> Timestamp {
        Timestamp(self.now.0.saturating_sub(self.config.limits.passed_us).saturating_sub(1))
    }

    /// Sends what a shard has to say, and checks it.
    pub(crate) fn drain_shard(&mut self, id: ShardId) -> Result<(), Violation> {
        self.ledger.note_clocks(std::iter::once(self.passed()));
        self.ask_back(id);
        while let Some(output) = self.host(id).shard.poll_output() {
            match output {
                Output::Respond { session, response } => self.send_response(id, session, response)?,
                Output::Tell { shard: to, message } => {
                    self.note_told(id, &message)?;
                    self.send_peer(id, to, message);
                }
            }
        }
        self.note_what_waits(id);
        self.replicate(id)?;
        self.finish_moves(id)?;
        self.gossip(id);
        // What this input had the shard say was decided before the input raised its clock.
        let owners = self.moves.owners();
        let owners = self.hosts.iter().filter(|host| owners.contains(&host.shard.id()));
        self.ledger.note_clocks(owners.map(|host| host.shard.clock_for_certain()));
        let host = self.host(id);
        host.shard.check_invariants();
        self.look_for_outcomes(id)?;
        let host = self.host(id);
        if host.shard.open_attempts() == 0 && host.store.as_ref().is_some_and(|store| store.holds_an_end()) {
            return Err(format!("{id}: an end is held, and nobody has voted"));
        }
        let due = host.shard.poll_timeout();
        if due != host.timer {
            host.timer = due;
            if let Some(due) = due {
                let at = host.clock.reaches(due);
                self.schedule(at, SimEvent::ShardTimer(id, due));
            }
        }
        Ok(())
    }

    /// Some words of a way say that their sender has written yes, where the client may not hear of that.
    fn note_told(&mut self, from: ShardId, message: &PeerMessage) -> Result<(), Violation> {
        match message {
            PeerMessage::Way { attempt, words, .. } if ways::says_yes(words) => {
                self.ledger.note_yes(*attempt, from, self.now)
            }
            PeerMessage::Way { .. }
            | PeerMessage::Inquire { .. }
            | PeerMessage::Answer { .. }
            | PeerMessage::AskClock { .. }
            | PeerMessage::Clock { .. } => Ok(()),
        }
    }

    fn send_response(
        &mut self,
        from: ShardId,
        session: SessionId,
        response: Response,
    ) -> Result<(), Violation> {
        let Some(mut response) = self.plant.on_response(from, response) else { return Ok(()) };
        if !self.tamper.respond(from, &mut response) {
            return Ok(());
        }
        self.check_not_stale(session, &response)?;
        let Host { shard, replicas, .. } = &self.hosts[from.0 as usize];
        // What has waited for replicas tells of what was written then: meanwhile it may be forgotten, and a no be there.
        let is_late = replicas.is_some() && matches!(response, Response::Applied { .. });
        let written = response.attempt().filter(|_| !is_late).and_then(|attempt| shard.written(attempt));
        self.ledger.note_response(from, &response, written, self.now)?;
        if let Response::Refused { attempt, refusal, .. } = &response
            && let Some(process) = self.processes.get(&session)
            && let [run] = process.members(*attempt)[..]
        {
            let life = self.life_of(from);
            self.ledger.note_failed(run, (from, life, *attempt), refusal);
        }
        if let Response::Voted { attempt, .. } = response
            && self.tamper.is(Tampering::ReleaseAtVote)
        {
            let link = Link { session, connection: self.link_of(from, session) };
            let request = Request::Apply { attempt };
            self.schedule(self.now, SimEvent::Request { to: from, link, request });
        }
        match &mut self.answering {
            Some((whose, responses)) if *whose == session => responses.push(response),
            _ if self.config.direct => {
                self.outcome.messages += 1;
                self.schedule(self.now, SimEvent::Response { from, session, response });
            }
            _ => self.push(from, session, response),
        }
        Ok(())
    }

    /// A shard hears of a session over a connection.
    pub(crate) fn note_link(&mut self, shard: ShardId, link: Link) {
        let known = self.links.entry((shard, link.session)).or_insert(link.connection);
        *known = link.connection.max(*known);
    }

    /// The connection over which a shard last heard of a session.
    pub(crate) fn link_of(&self, shard: ShardId, session: SessionId) -> u32 {
        self.links.get(&(shard, session)).copied().unwrap_or(0)
    }

    pub(crate) fn send_peer(&mut self, from: ShardId, to: ShardId, message: PeerMessage) {
        self.outcome.messages += 1;
        if !self.tamper.tell(from, to, &message) {
            return;
        }
        for at in self.network.arrivals(self.now, Endpoint::Shard(from), Endpoint::Shard(to)) {
            self.schedule(at, SimEvent::Peer { from, to, message: message.clone() });
        }
    }

    /// A shard hears of another.
    fn hear_peer(&mut self, from: ShardId, to: ShardId, message: PeerMessage) -> Result<(), Violation> {
        if self.peer_comes_to_stale(to, &message) {
            return Ok(());
        }
        if let PeerMessage::Inquire { attempt, .. } = message
            && self.tamper.is(Tampering::QuestionWritesNothing)
            && self.shard(to).written(attempt).is_none()
        {
            self.send_peer(to, from, PeerMessage::Answer { attempt, from: to, status: Status::Refused });
            return Ok(());
        }
        let now = self.shard_time(to);
        let forged = self.tamper.forge_answers(to, &message);
        for message in std::iter::once(message).chain(forged) {
            self.shard(to).handle_peer(now, message);
        }
        self.drain_shard(to)
    }

    /// What becomes of a request that leaves a process.
    pub(crate) fn leaves(&mut self, to: ShardId, link: Link, request: &mut Request) -> Sent {
        let last = ShardId(self.config.shards - 1);
        let sent = self.plant.on_request(to, last, request);
        if !sent.passes {
            return sent;
        }
        if let Request::Heartbeat { live, .. } = request
            && self.tamper.is(Tampering::HeartbeatOmitsIdle)
            && let Some(process) = self.processes.get(&link.session)
        {
            live.retain(|attempt| process.awaits_answers(*attempt));
        }
        self.tamper.send(to, link, request)
    }

    /// A process sends a request: it is noted, and the process may die of it. Returns whether it survived.
    pub(crate) fn may_send(&mut self, session: SessionId, to: ShardId, request: &Request) -> bool {
        if self.deaths.front().is_some_and(|at| *at <= self.outcome.messages) {
            self.deaths.pop_front();
            self.kill(session);
            return false;
        }
        self.outcome.messages += 1;
        let process = self.processes.get_mut(&session).expect("it sends");
        self.ledger.note_request(to, request, |attempt| process.members(attempt));
        true
    }

    /// Something of a process arrives at that time.
    pub(crate) fn note_arrival(&mut self, session: SessionId, at: Time) {
        if let Some(process) = self.processes.get_mut(&session) {
            process.last_arrival = process.last_arrival.max(at);
        }
    }

    /// Where shards are a call away: sends a request. Returns whether the process survived it.
    pub(crate) fn call_shard(&mut self, session: SessionId, to: ShardId, mut request: Request) -> bool {
        if !self.may_send(session, to, &request) {
            return false;
        }
        let link = Link { session, connection: 0 };
        let Sent { passes, forged } = self.leaves(to, link, &mut request);
        if let Some(response) = forged {
            self.schedule(self.now, SimEvent::Response { from: to, session, response });
        }
        if passes {
            self.note_arrival(session, self.now);
            self.schedule(self.now, SimEvent::Request { to, link, request });
        }
        true
    }
}

/// The end.
impl World {
    /// Raises all low-water marks, and checks that nothing is left.
    fn leave_nothing(&mut self) -> Result<(), Violation> {
        let ids: Vec<SessionId> = self.processes.keys().copied().collect();
        for number in 0..self.config.shards {
            let id = ShardId(number);
            if self.removed.contains(&id) {
                continue;
            }
            for session in &ids {
                self.say_farewell(*session, id);
            }
            self.drain_shard(id)?;
            let shard = &self.host(id).shard;
            let (locked, open) = (shard.locked_records(), shard.open_attempts());
            let remembered = shard.remembered();
            if locked + open + remembered > 0 {
                return Err(format!(
                    "{id} ends with {locked} records locked, {open} attempts open and {remembered} decisions \
                     remembered\n{}",
                    self.picture()
                ));
            }
        }
        Ok(())
    }

    /// Checks that everything was serializable, and sums up.
    fn finish(&mut self) -> Result<(), Violation> {
        self.check_end()?;
        self.judge_results()?;
        let recoveries = |host: &Host| host.recoveries + host.shard.stats().recoveries;
        self.outcome.recoveries = self.hosts.iter().map(recoveries).sum();
        self.outcome.committed = self.ledger.committed() as u64;
        let clients = self.processes.values().filter_map(|process| process.client.as_ref());
        self.outcome.combined += clients.map(Client::combined).sum::<u64>();
        self.outcome.torn = self.ledger.torn() as u64;
        self.outcome.faults += self.network.faults;
        self.outcome.micros = self.now.0;
        self.trace.note(self.now, &[self.outcome.committed, self.outcome.messages], || "done".to_owned());
        self.outcome.trace_hash = self.trace.hash();
        Ok(())
    }

    /// A last heartbeat; of a dead client, that its session is closed.
    fn say_farewell(&mut self, session: SessionId, to: ShardId) {
        if self.config.direct {
            return;
        }
        let process = &self.processes[&session];
        let low_water = process.client.as_ref().map_or(Sequence(u64::MAX), Client::low_water);
        let connection = process.dialled + 1;
        let now = self.shard_time(to);
        let request = Request::Heartbeat { live: Vec::new(), low_water };
        self.host(to).shard.handle(now, Link { session, connection }, request);
    }

    pub(crate) fn contents(&self) -> BTreeMap<Bytes, State> {
        self.hosts.iter().flat_map(Host::contents).collect()
    }

    pub(crate) fn check_serial(&self) -> Result<(), Violation> {
        let reference = match self.plant {
            Plant::ForgetEffects => Reference::forgetful(7),
            _ => Reference::default(),
        };
        let contents = self.contents();
        self.ledger.check_serial(LedgerEnd {
            reference,
            records: contents.iter().collect(),
            place: &|key| self.shard_of(key),
            is_carried_out: &|shard, attempt, key| {
                self.hosts[shard.0 as usize].shard.has_carried_out(attempt, key)
            },
            settled: !self.config.faults.endless,
        })
    }

    /// Judges what users saw, without the shards' word. Where votes or records were lost, there may be no order.
    fn judge_results(&mut self) -> Result<(), Violation> {
        if self.ledger.torn() > 0 || self.ledger.is_wiped() {
            return Ok(());
        }
        let contents = (!self.config.faults.endless).then(|| self.contents());
        let contents = contents.as_ref().map(BTreeMap::iter);
        let is_replicated = self.config.is_replicated();
        let history = probe::history(
            self.ledger.runs(),
            &self.workload.probes(),
            self.ledger.ends(),
            contents,
            is_replicated,
        );
        let judged = judge(&history)?;
        (self.outcome.judged, self.outcome.edges) = (judged.transactions, judged.edges);
        Ok(())
    }

    /// Who waits for whom, for a failure.
    fn picture(&self) -> String {
        let mut lines = Vec::new();
        let list =
            |attempts: &[AttemptId]| attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        for host in &self.hosts {
            for wait in host.shard.waits() {
                let (holders, waiters) = (list(&wait.holders), list(&wait.waiters));
                lines.push(format!(
                    "  {} '{}': held by [{holders}], wanted by [{waiters}]",
                    host.shard.id(),
                    wait.key
                ));
            }
        }
        for (id, process) in &self.processes {
            let live = process.client.as_ref().map(Client::live).unwrap_or_default();
            lines.push(format!("  c{}: at shards [{}], due {:?}", id.0, list(&live), process.timer));
            for (tx, transaction) in &process.transactions {
                lines.push(format!(
                    "  c{}.t{}/{}: at step {} of {}, {:?}",
                    id.0,
                    tx.0,
                    transaction.run,
                    transaction.at,
                    transaction.program.steps.len(),
                    transaction.stage,
                ));
            }
        }
        lines.join("\n")
    }
}

/// A key's slot.
pub(crate) fn slot_of(key: &Bytes, slots: u16) -> u16 {
    (key_hash(key) % u64::from(slots)) as u16
}
