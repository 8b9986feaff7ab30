//! The model: a state of the world, what can happen in it, and what comes of that.
//!
//! The machines are the real ones. They and the messages are shared between states; each carries the digest of its
//! content, so that a state is hashed by a handful of numbers.
//!
//! Some messages are delivered at once, because no order of theirs makes a difference ([`World::hurried`]).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use claret_core::message::{Link, Output, Request, Response, Status};
use claret_core::{AttemptId, Incarnation, LookNo, SessionId, Shard, ShardId, Survives, Time, Timestamp};

use super::client::{Client, Fate, NOW};
use super::plan::{Faults, KEYS, Plan, Step};
use super::step::{Input, Message, Sealed, Steps, seal_client, seal_shard};

/// A plan and the steps that its machines have taken.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) plan: Plan,
    steps: Steps,
}

impl Field {
    pub(crate) fn new(plan: Plan) -> Self {
        Field { plan, steps: Steps::default() }
    }
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A message arrives; its place among those under way.
    Deliver(usize),
    /// It arrives, and will again.
    Double(usize),
    /// It does not arrive.
    Lose(usize),
    /// A client dies.
    Die(usize),
    /// A shard restarts.
    Restart(usize),
    /// At one shard the time of one attempt is over.
    TimeOver(usize, AttemptId),
    /// A blocked client has waited long enough for its elder's sake.
    GiveWay(usize),
    /// A client sends again what was not answered.
    SendAgain(usize),
    /// A client's heartbeat arrives at a shard.
    Beat(usize, usize),
    /// A shard's clock comes to where a client wants it.
    Tick(usize, Timestamp),
    /// A client hears that all clocks have come to where it wants them.
    Hear(usize),
    /// A client sees what it looks at.
    Look(usize),
}

/// A yes that died with the incarnation that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LostYes {
    pub(crate) shard: usize,
    pub(crate) attempt: AttemptId,
    /// It was applied, and its effect stayed.
    pub(crate) applied: bool,
}

/// A state of the world.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) shards: Vec<Arc<Sealed<Shard>>>,
    pub(crate) clients: Vec<Arc<Sealed<Client>>>,
    /// In the order of their digests.
    pub(crate) messages: Vec<Arc<Sealed<Message>>>,
    /// What may still go wrong.
    pub(crate) faults: Faults,
    /// Attempts for which all participants had written yes at some moment.
    pub(crate) committed: Vec<AttemptId>,
    pub(crate) lost: Vec<LostYes>,
    /// What a machine's own check found.
    pub(crate) broken: Option<String>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shards.iter().for_each(|it| state.write_u64(it.digest));
        self.clients.iter().for_each(|it| state.write_u64(it.digest));
        state.write_usize(self.messages.len());
        self.messages.iter().for_each(|it| state.write_u64(it.digest));
        self.faults.hash(state);
        self.committed.hash(state);
        self.lost.hash(state);
        self.broken.hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        fn same<T>(a: &[Arc<Sealed<T>>], b: &[Arc<Sealed<T>>]) -> bool {
            a.iter().map(|it| it.digest).eq(b.iter().map(|it| it.digest))
        }
        same(&self.shards, &other.shards)
            && same(&self.clients, &other.clients)
            && same(&self.messages, &other.messages)
            && (self.faults, &self.committed, &self.lost, &self.broken)
                == (other.faults, &other.committed, &other.lost, &other.broken)
    }
}

impl World {
    /// All clients have begun, and nothing has arrived.
    pub(crate) fn new(field: &Field) -> Self {
        let plan = &field.plan;
        let shard = |number| Shard::new(ShardId(number), Incarnation(1), plan.switches(), plan.limits());
        let client = |number| seal_client(Client::new(plan, number));
        let mut world = World {
            shards: (0..plan.shards() as u32).map(shard).map(seal_shard).collect(),
            clients: (0..plan.programs.len()).map(client).collect(),
            messages: Vec::new(),
            faults: plan.faults,
            committed: Vec::new(),
            lost: Vec::new(),
            broken: None,
        };
        let at_once = (0..plan.programs.len()).filter(|number| !plan.begins_later(*number));
        at_once.for_each(|number| world.step_client(field, number, &Input::Begin));
        world
    }

    /// What can happen here.
    pub(crate) fn actions(&self, field: &Field, actions: &mut Vec<Action>) {
        if self.broken.is_some() {
            return;
        }
        for at in 0..self.messages.len() {
            // Of equal messages it does not matter which.
            if at > 0 && self.messages[at - 1].digest == self.messages[at].digest {
                continue;
            }
            actions.push(Action::Deliver(at));
            if self.faults.doubles > 0 {
                actions.push(Action::Double(at));
            }
            if self.faults.losses > 0 {
                actions.push(Action::Lose(at));
            }
        }
        let clients = || self.clients.iter().enumerate();
        actions.extend(clients().filter(|(_, it)| it.it.may_give_way()).map(|(at, _)| Action::GiveWay(at)));
        actions.extend(
            clients().filter(|(_, it)| it.it.looks_at(&field.plan).is_some()).map(|(at, _)| Action::Look(at)),
        );
        let idle = actions.is_empty();
        self.actions_of_clocks(actions);
        if self.faults.deaths > 0 {
            let alive = clients().filter(|(_, client)| client.it.coordinator.is_some());
            actions.extend(alive.map(|(at, _)| Action::Die(at)));
        }
        if self.faults.restarts > 0 {
            actions.extend((0..self.shards.len()).map(Action::Restart));
        }
        for (at, shard) in self.shards.iter().enumerate() {
            for client in &self.clients {
                // As long as a client keeps an attempt alive, its time is over only early.
                let due = client.it.all_attempts().filter(|it| shard.it.timeout_of(*it).is_some());
                let due =
                    due.filter(|it| self.faults.early_timeouts > 0 || idle && !client.it.keeps_alive(*it));
                actions.extend(due.map(|attempt| Action::TimeOver(at, attempt)));
            }
        }
        // Only what was lost has to be sent again; doubles have a budget of their own.
        if idle && field.plan.faults.losses + field.plan.faults.restarts > 0 {
            let waiting = clients().filter(|(_, client)| client.it.may_send_again());
            actions.extend(waiting.map(|(at, _)| Action::SendAgain(at)));
            // And only what was lost has to be told again.
            let alive = clients().filter(|(_, client)| client.it.coordinator.is_some());
            actions
                .extend(alive.flat_map(|(at, _)| (0..self.shards.len()).map(move |to| Action::Beat(at, to))));
        }
    }

    /// Clocks come further only where somebody waits for that: what a tick finds besides is a larger suggestion.
    fn actions_of_clocks(&self, actions: &mut Vec<Action>) {
        let safe_time = self.safe_time();
        for (at, client) in self.clients.iter().enumerate() {
            let Some(until) = client.it.awaits() else { continue };
            if until <= safe_time {
                actions.push(Action::Hear(at));
            }
            let late = (0..self.shards.len()).filter(|shard| self.shards[*shard].it.clock() < until);
            let ticks = late.map(|shard| Action::Tick(shard, until));
            actions.extend(ticks.filter(|tick| !actions.contains(tick)).collect::<Vec<_>>());
        }
    }

    fn safe_time(&self) -> Timestamp {
        self.shards.iter().map(|shard| shard.it.clock()).min().unwrap_or_default()
    }

    /// What comes of an action. `None` when it changes nothing.
    pub(crate) fn after(&self, field: &Field, action: Action) -> Option<World> {
        let mut next = self.clone();
        next.act(field, action);
        while let Some(at) = next.hurried(field) {
            let message = next.messages.remove(at);
            next.deliver(field, message);
        }
        (next != *self).then_some(next)
    }

    fn act(&mut self, field: &Field, action: Action) {
        match action {
            Action::Deliver(at) => {
                let message = self.messages.remove(at);
                self.deliver(field, message);
            }
            Action::Double(at) => {
                self.faults.doubles -= 1;
                self.deliver(field, self.messages[at].clone());
            }
            Action::Lose(at) => {
                self.faults.losses -= 1;
                self.messages.remove(at);
            }
            Action::Die(at) => {
                self.faults.deaths -= 1;
                self.step_client(field, at, &Input::Die);
            }
            Action::Restart(at) => {
                self.faults.restarts -= 1;
                self.note_lost(field, at);
                self.step_shard(field, at, &Input::Restart);
            }
            Action::TimeOver(at, attempt) => {
                let kept = self.clients.iter().any(|client| client.it.keeps_alive(attempt));
                let is_early = kept || !self.is_idle();
                self.faults.early_timeouts -= u8::from(is_early);
                self.step_shard(field, at, &Input::TimeOver(attempt));
            }
            Action::Tick(at, want) => self.step_shard(field, at, &Input::Tick(want)),
            Action::Hear(at) => self.step_client(field, at, &Input::SafeTime(self.safe_time())),
            Action::Look(at) => self.look(field, at),
            Action::GiveWay(at) => self.step_client(field, at, &Input::Late(Time(1))),
            Action::SendAgain(at) => self.step_client(field, at, &Input::Late(Time(u64::MAX))),
            Action::Beat(from, to) => {
                let beat = self.clients[from].it.heartbeat();
                let message = Message::Request { from, to, request: beat }.seal();
                self.step_shard(field, to, &Input::Message(message));
            }
        }
    }

    /// A look goes to the shard and comes back in one step: it leaves the shard as it is, and what the client sends after it may be as
    /// late as it likes. It does not wait for who has voted (O2), which is a matter of progress alone.
    fn look(&mut self, field: &Field, at: usize) {
        let Some((shard, op)) = self.clients[at].it.looks_at(&field.plan) else { return };
        let mut shard_now = self.shards[shard].it.clone();
        let key = claret_types::Bytes::from(KEYS[shard]);
        let look = LookNo(0);
        let ops = [op.clone()].into_iter().collect();
        let link = Link { session: SessionId(at as u64), connection: 0 };
        shard_now.handle(NOW, link, Request::Look { look, key, ops, at_once: true });
        let looked = std::iter::from_fn(|| shard_now.poll_output()).find_map(|output| match output {
            Output::Respond { response: Response::Looked { seen, .. }, .. } => Some(seen),
            _ => None,
        });
        self.step_client(field, at, &Input::Saw(looked.expect("a look is answered at once")));
    }

    /// Whether only time can pass.
    fn is_idle(&self) -> bool {
        self.messages.is_empty() && !self.clients.iter().any(|client| client.it.may_give_way())
    }

    /// A message that may as well arrive now, so that the search need not look at all the moments at which it might:
    ///
    /// - to a client that is dead or done: nobody hears it;
    /// - an acknowledgement, and any news of an attempt that is over for its client: it can only end resends;
    /// - that it waits, to the eldest of all, which gives way to nobody;
    /// - to a shard that has written its last word on the attempt and is left as it is: the answer is the same at
    ///   any time, and may itself be late. Not while a shard may still restart.
    fn hurried(&self, field: &Field) -> Option<usize> {
        self.messages.iter().position(|message| match &message.it {
            Message::Response { to, response, .. } => {
                let client = &self.clients[*to].it;
                client.coordinator.is_none()
                    || client.fate != Fate::Open
                    || response.attempt() != Some(client.attempt(client.attempts))
                    || matches!(response, Response::Applied { .. } | Response::Aborted { .. })
                    || *to == 0 && matches!(response, Response::Queued { .. })
            }
            Message::Request { to, .. } | Message::Peer { to, .. } => {
                let shard = &self.shards[*to];
                let written = shard.it.written(message.it.attempt());
                self.faults.restarts == 0
                    && matches!(written, Some(Status::Applied | Status::Refused))
                    && field
                        .steps
                        .of_shard(&field.plan, shard, &Input::Message(message.clone()))
                        .machine
                        .digest
                        == shard.digest
            }
        })
    }

    fn deliver(&mut self, field: &Field, message: Arc<Sealed<Message>>) {
        match message.it {
            Message::Request { to, .. } | Message::Peer { to, .. } => {
                self.step_shard(field, to, &Input::Message(message));
            }
            Message::Response { to, .. } => self.step_client(field, to, &Input::Message(message)),
        }
    }

    fn step_shard(&mut self, field: &Field, at: usize, input: &Input) {
        let stepped = field.steps.of_shard(&field.plan, &self.shards[at], input);
        self.shards[at] = stepped.machine.clone();
        self.post(&stepped.messages);
        self.broken = self.broken.take().or_else(|| stepped.broken.clone());
        self.note_committed(&field.plan);
    }

    fn step_client(&mut self, field: &Field, at: usize, input: &Input) {
        let known: Vec<Incarnation> = self.shards.iter().map(|shard| shard.it.incarnation()).collect();
        let stepped = field.steps.of_client(&field.plan, &self.clients[at], input, &known);
        let was_told = matches!(self.clients[at].it.fate, Fate::Told(_));
        self.clients[at] = stepped.machine.clone();
        self.post(&stepped.messages);
        self.broken = self.broken.take().or_else(|| stepped.broken.clone());
        if !was_told && matches!(self.clients[at].it.fate, Fate::Told(_)) {
            let later = field.plan.after.iter().filter(|(_, first)| *first == at);
            later.for_each(|(later, _)| self.step_client(field, *later, &Input::Begin));
        }
    }

    fn post(&mut self, messages: &[Arc<Sealed<Message>>]) {
        for message in messages {
            let at = self.messages.partition_point(|known| known.digest < message.digest);
            self.messages.insert(at, message.clone());
        }
    }

    // --- what the properties are about ---

    fn note_committed(&mut self, plan: &Plan) {
        for (client, program) in self.clients.iter().zip(&plan.programs) {
            for attempt in client.it.all_attempts() {
                let says_yes = |step: &Step| {
                    let written = self.shards[step.shard].it.written(attempt);
                    matches!(written, Some(Status::Prepared | Status::Applied))
                };
                if !self.committed.contains(&attempt) && program.iter().all(says_yes) {
                    self.committed.push(attempt);
                }
            }
        }
        self.committed.sort_unstable();
    }

    /// Notes what a restart without votes loses.
    fn note_lost(&mut self, field: &Field, at: usize) {
        if field.plan.survives == Survives::Votes {
            return;
        }
        for attempt in self.clients.iter().flat_map(|client| client.it.all_attempts()) {
            let written = self.shards[at].it.written(attempt);
            if matches!(written, Some(Status::Prepared | Status::Applied)) {
                let applied = written == Some(Status::Applied);
                self.lost.push(LostYes { shard: at, attempt, applied });
            }
        }
    }
}
