//! One client process with one transaction: a coordinator and the program that it runs.

use claret_core::message::{Request, Response, Seen};
use claret_core::{
    AttemptId, Birth, Coordinator, Event, Incarnation, Sequence, SessionId, ShardId, Time, Timestamp, TxId,
    digest,
};
use claret_types::{Bytes, Operation, Reply, Unique};

use super::plan::{How, KEYS, Plan, Plant, Step};

/// Time stands still.
pub(crate) const NOW: Time = Time(0);

/// What the user knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    /// It was told that this attempt committed.
    Told(u32),
    /// It asks for no other attempt.
    GaveUp,
    /// It was told that nobody knows.
    Unknown,
    /// The process died before it was told anything.
    Dead,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) tx: TxId,
    /// `None` once nothing more will come of it.
    pub(crate) coordinator: Option<Coordinator>,
    pub(crate) fate: Fate,
    /// Attempts begun.
    pub(crate) attempts: u32,
    /// Steps of the program done in this attempt.
    done: usize,
    awaited: bool,
    /// Answers of this attempt by the number of the call, which is that of the step.
    pub(crate) answers: Vec<(u32, Reply)>,
}

impl Client {
    /// Begins a transaction. The lower its number, the elder it is.
    pub(crate) fn new(plan: &Plan, number: usize) -> Self {
        let tx = TxId { session: SessionId(number as u64), sequence: Sequence(1) };
        let birth = Birth { time: Time(number as u64), tx };
        Client {
            tx,
            coordinator: Some(Coordinator::new(birth, plan.switches(), plan.limits(), 1)),
            fate: Fate::Open,
            attempts: 1,
            done: 0,
            awaited: false,
            answers: Vec::new(),
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        let Client { tx, coordinator, fate, attempts, done, awaited, answers } = self;
        let coordinator = coordinator.as_ref().map(Coordinator::digest);
        digest(&(tx, coordinator, fate, attempts, done, awaited, answers))
    }

    pub(crate) fn number(&self) -> usize {
        self.tx.session.0 as usize
    }

    pub(crate) fn attempt(&self, number: u32) -> AttemptId {
        AttemptId { tx: self.tx, attempt: number }
    }

    /// Every attempt that it ever began.
    pub(crate) fn all_attempts(&self) -> impl Iterator<Item = AttemptId> + '_ {
        (1..=self.attempts).map(|number| self.attempt(number))
    }

    /// Whether its heartbeats would list the attempt, which renews the leases of it.
    pub(crate) fn keeps_alive(&self, attempt: AttemptId) -> bool {
        self.coordinator.as_ref().is_some_and(|coordinator| coordinator.live().any(|live| live == attempt))
    }

    /// That it lives. The low-water mark stays where it is: nothing is forgotten.
    pub(crate) fn heartbeat(&self) -> Request {
        let live = self.coordinator.iter().flat_map(Coordinator::live).collect();
        Request::Heartbeat { live, low_water: Sequence(0) }
    }

    /// Names the shards as its connections learned them.
    pub(crate) fn meet(&mut self, plan: &Plan, incarnations: &[Incarnation]) {
        let Some(coordinator) = &mut self.coordinator else { return };
        for (shard, incarnation) in incarnations.iter().enumerate() {
            if plan.plant != Plant::IncarnationUnmet {
                coordinator.meet(ShardId(shard as u32), *incarnation);
            }
        }
    }

    /// The process dies.
    pub(crate) fn die(&mut self) {
        if self.fate == Fate::Open {
            self.fate = Fate::Dead;
        }
        self.forget();
    }

    /// Does as much of the program as can be done now, and returns what it sends.
    pub(crate) fn go_on(&mut self, plan: &Plan, known: &[Incarnation]) -> Vec<(ShardId, Request)> {
        let hot: Vec<ShardId> = plan.hot.iter().map(|shard| ShardId(*shard as u32)).collect();
        loop {
            while let Some(event) = self.coordinator.as_mut().and_then(Coordinator::poll_event) {
                self.take_event(plan, known, event);
            }
            if !self.take_step(plan, &hot) {
                break;
            }
        }
        let Some(coordinator) = &mut self.coordinator else { return Vec::new() };
        let sends = std::iter::from_fn(|| coordinator.poll_send()).collect();
        if self.fate != Fate::Open && coordinator.is_over() {
            self.forget();
        }
        sends
    }

    fn take_event(&mut self, plan: &Plan, known: &[Incarnation], event: Event) {
        match event {
            Event::Answer { no, reply } => {
                self.answers.push((no.0, reply));
                self.awaited = false;
            }
            Event::Committed { replies } => {
                // Of what was seen the answer is known.
                let is_new = |no: u32| self.answers.iter().all(|(known, _)| *known != no);
                let new: Vec<_> = replies.into_iter().filter(|(no, _)| is_new(no.0)).collect();
                self.answers.extend(new.into_iter().map(|(no, reply)| (no.0, reply)));
                self.answers.sort_by_key(|(no, _)| *no);
                self.fate = Fate::Told(self.attempts);
            }
            Event::Restart { .. } if self.attempts < plan.attempts_max => self.restart(plan, known),
            Event::Restart { .. } => self.fate = Fate::GaveUp,
            Event::Unknown => self.fate = Fate::Unknown,
            other @ (Event::Aborted | Event::Failed { .. } | Event::Behind { .. } | Event::Seen { .. }) => {
                panic!("{}: {other:?}", self.tx)
            }
        }
    }

    fn restart(&mut self, plan: &Plan, known: &[Incarnation]) {
        self.meet(plan, known);
        let coordinator = self.coordinator.as_mut().expect("it told of it");
        coordinator.restart(coordinator.attempt()).expect("it told of it");
        self.attempts += 1;
        self.done = 0;
        self.awaited = false;
        self.answers.clear();
    }

    /// Does the next thing in the program. Returns whether there was one that could be done.
    fn take_step(&mut self, plan: &Plan, hot: &[ShardId]) -> bool {
        let (program, number) = (&plan.programs[self.number()], self.number());
        let Some(coordinator) = &mut self.coordinator else { return false };
        if !coordinator.is_running() || self.awaited {
            return false;
        }
        let attempt = coordinator.attempt();
        let Some(Step { shard, op, how }) = program.get(self.done) else {
            if let Some(suggested) = &plan.suggested {
                coordinator.stamp(Timestamp(suggested[number]));
            }
            coordinator.commit(NOW, attempt, hot).expect("it runs");
            return true;
        };
        let (shard, key) = (ShardId(*shard as u32), Bytes::from(KEYS[*shard]));
        match how {
            How::Now => {
                coordinator.execute(NOW, attempt, shard, key, op.clone(), None).expect("it runs");
            }
            How::Later => {
                coordinator.buffer(attempt, shard, key, op.clone()).expect("it runs");
            }
            How::Looked => {}
        }
        self.awaited = *how != How::Later;
        self.done += 1;
        true
    }

    /// What it asks to look at: shard and operation.
    pub(crate) fn looks_at<'a>(&self, plan: &'a Plan) -> Option<(usize, &'a Operation)> {
        let runs = self.coordinator.as_ref().is_some_and(Coordinator::is_running);
        let last = self.done.checked_sub(1).filter(|_| self.awaited && runs)?;
        let Step { shard, op, how } = plan.programs[self.number()].get(last)?;
        (*how == How::Looked).then_some((*shard, op))
    }

    /// What a look saw: the call travels with that.
    pub(crate) fn see(&mut self, plan: &Plan, seen: Seen) {
        // The number that went into it has no say in what a counter answers, and would tell states apart that are alike.
        let Seen::Answer { reply, unique: _ } = seen else { panic!("counters can be asked: {seen:?}") };
        let Some((shard, op)) = self.looks_at(plan) else { return };
        let op = match plan.plant {
            Plant::SeenForgotten => op.clone(),
            _ => op.seen(Ok(&reply), Unique(0)),
        };
        let coordinator = self.coordinator.as_mut().expect("it runs");
        let (attempt, key) = (coordinator.attempt(), Bytes::from(KEYS[shard]));
        let no = coordinator.buffer(attempt, ShardId(shard as u32), key, op).expect("it runs");
        self.answers.push((no.0, reply));
        self.awaited = false;
    }

    /// Nothing more comes of it; what the user was told stays.
    fn forget(&mut self) {
        self.coordinator = None;
        self.done = 0;
        self.awaited = false;
        if !matches!(self.fate, Fate::Told(_)) {
            self.answers.clear();
        }
    }

    /// Takes a response.
    pub(crate) fn hear(&mut self, from: ShardId, response: Response) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle_response(NOW, from, response);
        }
    }

    /// Up to where the clocks of all shards have to come before it is told.
    pub(crate) fn awaits(&self) -> Option<Timestamp> {
        self.coordinator.as_ref().and_then(Coordinator::awaits_safe_time)
    }

    /// It hears how far all clocks have come.
    pub(crate) fn hear_safe_time(&mut self, safe_time: Timestamp) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.hear_safe_time(safe_time);
        }
    }

    /// Whether it has waited long enough to give way to an elder.
    pub(crate) fn may_give_way(&self) -> bool {
        self.coordinator.as_ref().and_then(Coordinator::poll_timeout).is_some_and(|at| at == Time(1))
    }

    /// Whether it waits for an answer.
    pub(crate) fn may_send_again(&self) -> bool {
        self.coordinator.as_ref().is_some_and(|coordinator| coordinator.poll_timeout().is_some())
    }

    /// Time passes, for the coordinator alone.
    pub(crate) fn time_out(&mut self, at: Time) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle_timeout(at);
        }
    }
}
