//! Shards with replicas (`docs/replication.md`): a primary dies or is cut off, and a replica that may be behind goes on as the
//! shard.
//!
//! All replicas of a shard are one here (`replicas.rs`). The one that is promoted has some of what is on its way. A primary that is
//! cut off lives on for a while as the *stale* one, with the connections that it had; nobody tells it that its batches arrived. Its
//! replica may be cut off like itself: then there are two.

use std::collections::BTreeMap;

use claret_core::message::{Link, Output, PeerMessage, Request, Response};
use claret_core::{
    Change, Incarnation, SessionId, Shard, ShardId, Survives, Time, Timestamp, Vote, VotedAnswers, VotedPlace,
};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::host::incarnations_apart;
use crate::network::Endpoint;
use crate::replicas::{Replicas, Stale};
use crate::store::Lease;
use crate::world::World;

/// How long a batch and its acknowledgement take at most, in microseconds; now and then many times that.
const ACKNOWLEDGED_US_MAX: u64 = 400;
const LAGS_US_MAX: u64 = 30_000;

/// So many incarnations are between a primary and whoever is promoted: it may have gone on without being heard of (S4).
const APART: u64 = 1_000;

impl World {
    /// Shards have replicas from the beginning, and these have all.
    pub(crate) fn begin_replicas(&mut self) -> Result<(), Violation> {
        if !self.config.is_replicated() {
            return Ok(());
        }
        for number in 0..self.config.shards {
            let id = ShardId(number);
            self.host(id).replicas = Some(Replicas::default());
            self.shard(id).replicate();
            self.replicate_at_once(id)?;
        }
        Ok(())
    }

    /// How many primaries there were of a shard.
    pub(crate) fn life_of(&self, id: ShardId) -> u64 {
        self.cluster.host(id).replicas.as_ref().map_or(0, |replicas| replicas.life)
    }

    /// Sends what a shard wrote to its replicas.
    pub(crate) fn replicate(&mut self, id: ShardId) -> Result<(), Violation> {
        if self.host(id).replicas.is_none() {
            return Ok(()); // Mostly.
        }
        while let Some((number, changes)) = self.shard(id).poll_changes() {
            let lags = self.draws.replication.chance(30);
            let most = if lags { LAGS_US_MAX } else { ACKNOWLEDGED_US_MAX };
            let takes = 1 + self.draws.replication.below(most);
            let (soonest, records) = (self.now.plus(takes), self.cluster.host(id).contents());
            let Some(replicas) = &mut self.host(id).replicas else { return Ok(()) };
            let at = replicas.send(number, changes, records, soonest);
            let life = replicas.life;
            self.schedule(at, SimEvent::Replicated(id, life, number));
        }
        let host = self.host(id);
        let told = host.replicas.as_ref().map_or(0, Replicas::votes_told);
        let voted = host.shard.voted_attempts();
        match told == voted {
            true => Ok(()),
            false => Err(format!("{id}: {voted} attempts have voted, and replicas were told of {told}")),
        }
    }

    /// The same, and all of it arrives now.
    pub(crate) fn replicate_at_once(&mut self, id: ShardId) -> Result<(), Violation> {
        self.replicate(id)?;
        let Some(replicas) = &self.host(id).replicas else { return Ok(()) };
        let (life, last) = (replicas.life, replicas.last_sent());
        last.map_or(Ok(()), |number| self.have_replicated(id, life, number))?;
        // A record that nobody holds vanishes without a word of the shard.
        self.have_records(id);
        Ok(())
    }

    /// A primary hears that all its replicas have a batch, and all before it.
    pub(crate) fn have_replicated(&mut self, id: ShardId, life: u64, number: u64) -> Result<(), Violation> {
        let host = self.host(id);
        let Some(replicas) = host.replicas.as_mut().filter(|replicas| replicas.life == life) else {
            return Ok(());
        };
        replicas.arrive_up_to(number);
        let waited = host.shard.unreplicated();
        host.shard.replicated(number);
        host.met = host.met.saturating_sub(waited - host.shard.unreplicated());
        self.drain_shard(id)
    }

    /// What a shard says is decided when it is written, and is said when its replicas know: what it stands behind then (P87, P78).
    pub(crate) fn note_what_waits(&mut self, id: ShardId) {
        let passed = self.passed();
        let host = self.cluster.host_mut(id);
        let Some(replicas) = &host.replicas else { return };
        // What this input wrote stands behind what was settled before it.
        let settled = host.settled.max(passed);
        for output in host.shard.waiting_outputs(host.met) {
            if let Output::Respond { response, .. } = output {
                self.ledger.note_settled(id, replicas.life, response, settled);
            }
        }
        host.met = host.shard.unreplicated();
        host.settled = host.shard.safe_time();
    }

    /// The replicas of a shard have all its records as they are, and nothing is on its way to them.
    pub(crate) fn have_records(&mut self, id: ShardId) {
        let host = self.host(id);
        let records = host.contents();
        if let Some(replicas) = &mut host.replicas {
            replicas.have(records);
        }
    }

    /// A primary is gone, or cut off. A replica has some of what was on its way, and is promoted.
    pub(crate) fn fail_over(&mut self, id: ShardId, until: Time) -> Result<(), Violation> {
        self.outcome.faults += 1;
        self.outcome.shard_restarts += 1;
        let (lives_on, now) = (self.draws.replication.chance(500), self.shard_time(id));
        let on_its_way = self.host(id).replicas.as_ref().map_or(0, Replicas::on_their_way);
        for _ in 0..self.draws.replication.below(on_its_way as u64 + 1) {
            let changes = self.host(id).replicas.as_mut().map(Replicas::arrive).unwrap_or_default();
            changes.iter().try_for_each(|change| self.note_arrived(id, change))?;
        }
        let before = self.promote(id, now)?;
        let clock = self.shard(id).clock();
        self.ledger.note_restart(id, Survives::Votes, clock);
        let host = self.host(id);
        (host.met, host.settled) = (0, host.shard.safe_time());
        if lives_on {
            self.leave_stale(id, before, until);
        } else {
            self.faults.pause(Endpoint::Shard(id), until);
            self.break_all_to(id, until);
        }
        self.replicate_at_once(id)
    }

    /// What arrived, and nobody was told of, is decided all the same.
    fn note_arrived(&mut self, id: ShardId, change: &Change) -> Result<(), Violation> {
        let response = match change {
            Change::Voted(vote) => voted(id, vote),
            Change::Decided { attempt, is_applied: true, replies, at: None, .. } => {
                let replies = replies.clone().unwrap_or_default();
                Response::Committed { attempt: *attempt, replies }
            }
            Change::Decided { attempt, is_applied: true, replies, at: Some(at), .. } => Response::Done {
                attempt: *attempt,
                shard: id,
                at: *at,
                behind: Timestamp::MAX,
                replies: replies.clone(),
            },
            _ => return Ok(()),
        };
        self.ledger.note_response(id, &response, None, self.now)
    }

    /// Makes a shard of what a replica has. Returns the one that was.
    fn promote(&mut self, id: ShardId, now: Time) -> Result<(Shard, Option<Lease>), Violation> {
        let (switches, limits) = (self.config.switches(), self.config.limits);
        self.cluster.slots.stay(id);
        let apart = APART * incarnations_apart(self.config.is_external());
        let store = self.config.is_external().then(|| Lease::new(id, &self.cluster.slots));
        let host = self.host(id);
        let replicas = host.replicas.as_mut().expect("it has replicas");
        let (backup, records) = replicas.promote();
        let heard_of = backup.incarnation().expect("it began");
        let next = Incarnation(heard_of.0 + apart);
        let external = store.as_ref().map(Lease::as_external);
        if let Some(store) = external {
            store.hold(records.clone());
        }
        let external = external.map(|store| store as &'static dyn claret_core::Records);
        let promoted = Shard::promote(backup, external, now, next, switches, limits);
        let mut shard = promoted.ok_or_else(|| format!("{id}: a replica knows of no shard"))?;
        if store.is_none() {
            records.into_iter().for_each(|(key, state)| shard.load(key, state));
        }
        shard.replicate();
        host.recoveries += host.shard.stats().recoveries;
        host.timer = None;
        let before = std::mem::replace(&mut host.shard, shard);
        let store_before = std::mem::replace(&mut host.store, store);
        self.tell_owners(id);
        Ok((before, store_before))
    }

    /// The one that was goes on for those who are connected to it.
    fn leave_stale(&mut self, id: ShardId, before: (Shard, Option<Lease>), until: Time) {
        let sessions: Vec<SessionId> = self.processes.keys().copied().collect();
        let mut connections = BTreeMap::new();
        for session in sessions {
            if let Some(number) = self.processes[&session].connection_to(id) {
                connections.insert(session, number);
            }
            let span = until.since(self.now) + 1;
            let at = self.now.plus(self.draws.replication.below(span));
            self.schedule(at, SimEvent::Break(session, id));
        }
        let host = self.host(id);
        let life = host.replicas.as_ref().map_or(0, |replicas| replicas.life);
        host.stale.push(Stale::new(life, before, connections));
        self.schedule(until.plus(1), SimEvent::EndStale(id, life));
    }

    /// A stale primary is gone, with what was on its way to it.
    pub(crate) fn end_stale(&mut self, id: ShardId, life: u64) {
        let ended = self.host(id).stale.extract_if(.., |stale| stale.life == life).next();
        let Some(stale) = ended else { return };
        for (session, number) in stale.connections {
            self.lines.tear_up_to(session, id, number);
            if self.processes.get(&session).and_then(|it| it.connection_to(id)) == Some(number) {
                self.tear(session, id);
                self.reconnect_later(session, id);
            }
        }
    }

    /// The place of the stale primary to which this connection leads, if it leads to one: the oldest that had it.
    pub(crate) fn stale_of(&self, id: ShardId, link: Link) -> Option<usize> {
        self.cluster.host(id).stale.iter().position(|stale| stale.is_at(link))
    }

    /// A stale primary takes requests, and says what it does not have to wait for. The answer to a frame, if it is one.
    pub(crate) fn hear_as_stale(
        &mut self,
        (id, at): (ShardId, usize),
        link: Link,
        requests: Vec<Request>,
        is_frame: bool,
    ) {
        let said = self.with_stale((id, at), |shard, now| {
            requests.into_iter().for_each(|request| shard.handle(now, link, request));
        });
        let Link { session, connection } = link;
        let (own, others): (Vec<_>, Vec<_>) =
            said.into_iter().partition(|(to, _)| is_frame && *to == session);
        self.push_as_stale((id, at), others);
        let responses = own.into_iter().map(|(_, response)| response).collect();
        if is_frame && let Some(at) = self.stream(Endpoint::Shard(id), Endpoint::Session(session), connection)
        {
            let answer = SimEvent::Answer { from: id, session, connection, refused: false, responses };
            self.schedule(at, answer);
        }
    }

    /// Another shard's word reaches whoever it takes for the shard. Whether it was a stale primary.
    pub(crate) fn peer_comes_to_stale(&mut self, id: ShardId, message: &PeerMessage) -> bool {
        let stale = self.host(id).stale.len();
        if stale == 0 || !self.draws.replication.chance(500) {
            return false;
        }
        let at = if stale == 1 { 0 } else { self.draws.replication.below(stale as u64) as usize };
        let said = self.with_stale((id, at), |shard, now| shard.handle_peer(now, message.clone()));
        self.push_as_stale((id, at), said);
        true
    }

    fn push_as_stale(&mut self, (id, at): (ShardId, usize), said: Vec<(SessionId, Response)>) {
        for (session, response) in said {
            let number = self.host(id).stale[at].connections.get(&session).copied();
            self.push_over(id, session, number.unwrap_or_default(), response);
        }
    }

    fn with_stale(
        &mut self,
        (id, at): (ShardId, usize),
        input: impl FnOnce(&mut Shard, Time),
    ) -> Vec<(SessionId, Response)> {
        let now = self.shard_time(id);
        let (said, told) = self.host(id).stale[at].hear(now, input);
        told.into_iter().for_each(|(shard, message)| self.send_peer(id, shard, message));
        said
    }
}

/// What a vote said.
fn voted(shard: ShardId, vote: &Vote) -> Response {
    let (attempt, replies) = (vote.attempt, vote.replies.clone());
    let Some(VotedPlace { at, behind, answers }) = vote.place else {
        return Response::Voted { attempt, shard, replies };
    };
    let replies = (answers != VotedAnswers::Later).then_some(replies);
    let is_tentative = matches!(answers, VotedAnswers::Tentative(_));
    Response::Placed { attempt, shard, at, behind, replies, is_tentative }
}
