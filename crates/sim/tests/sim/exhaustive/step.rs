//! One step of one machine: an input goes in, messages come out.
//!
//! Machines are deterministic, so a step that was taken once is looked up from then on. There are few machines'
//! states and a multitude of states of the world that they make up; without this the search would take hours.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, RwLock};

use claret_core::message::{Link, Output, PeerMessage, Request, Response, Seen, Status};
use claret_core::{AttemptId, Incarnation, SessionId, Shard, ShardId, Time, Timestamp, digest, with_bug};

use super::client::{Client, NOW};
use super::plan::{Plan, Plant};

/// Something with its digest.
#[derive(Debug)]
pub(crate) struct Sealed<T> {
    pub(crate) it: T,
    pub(crate) digest: u64,
}

/// A message under way. The network keeps no order among them.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Request { from: usize, to: usize, request: Request },
    Response { from: usize, to: usize, response: Response },
    Peer { to: usize, message: PeerMessage },
}

impl Message {
    /// The attempt it is about.
    pub(crate) fn attempt(&self) -> AttemptId {
        match self {
            Message::Request { request, .. } => match request {
                Request::Execute { attempt, .. }
                | Request::Prepare { attempt, .. }
                | Request::Apply { attempt }
                | Request::Withdraw { attempt }
                | Request::Abort { attempt, .. }
                | Request::Ask { attempt }
                | Request::AskBehind { attempt } => *attempt,
                Request::ApplyAt { attempt, .. } => *attempt,
                Request::Heartbeat { .. } | Request::Tick { .. } | Request::Look { .. } => {
                    unreachable!("a heartbeat arrives at once")
                }
            },
            Message::Response { response, .. } => response.attempt().expect("nobody asks for clocks here"),
            Message::Peer { message: PeerMessage::Inquire { attempt, .. }, .. }
            | Message::Peer { message: PeerMessage::Answer { attempt, .. }, .. }
            | Message::Peer { message: PeerMessage::Way { attempt, .. }, .. } => *attempt,
            Message::Peer { message: PeerMessage::AskClock { .. } | PeerMessage::Clock { .. }, .. } => {
                unreachable!("shards that always order do not ask for clocks")
            }
        }
    }

    pub(crate) fn seal(self) -> Arc<Sealed<Message>> {
        Arc::new(Sealed { digest: digest(&self), it: self })
    }
}

impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Message::Request { from, to, request } => write!(f, "client {from} to shard {to}: {request:?}"),
            Message::Response { from, to, response } => {
                write!(f, "shard {from} to client {to}: {response:?}")
            }
            Message::Peer { to, message } => write!(f, "to shard {to}: {message:?}"),
        }
    }
}

/// What a machine is given.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Message(Arc<Sealed<Message>>),
    /// To a client: its transaction begins.
    Begin,
    /// To a client: it dies.
    Die,
    /// To a client: so late it is.
    Late(Time),
    /// To a shard: the time of an attempt is over.
    TimeOver(AttemptId),
    /// To a shard: it restarts.
    Restart,
    /// To a shard: its clock is wanted to be here.
    Tick(Timestamp),
    /// To a client: so far all clocks have come.
    SafeTime(Timestamp),
    /// To a client: this is what it looks at.
    Saw(Seen),
}

impl Input {
    fn hash(&self, state: &mut impl Hasher) {
        std::mem::discriminant(self).hash(state);
        match self {
            Input::Message(message) => message.digest.hash(state),
            Input::Late(time) => time.hash(state),
            Input::TimeOver(attempt) => attempt.hash(state),
            Input::Tick(at) | Input::SafeTime(at) => at.hash(state),
            Input::Saw(seen) => digest(seen).hash(state),
            Input::Begin | Input::Die | Input::Restart => {}
        }
    }
}

/// What comes of a step.
#[derive(Debug)]
pub(crate) struct Stepped<T> {
    pub(crate) machine: Arc<Sealed<T>>,
    pub(crate) messages: Vec<Arc<Sealed<Message>>>,
    /// What the machine's own check found.
    pub(crate) broken: Option<String>,
}

/// Steps that were taken, by the digests of all that goes in.
#[derive(Debug)]
struct Taken<T>(RwLock<HashMap<u64, Arc<Stepped<T>>>>);

impl<T> Default for Taken<T> {
    fn default() -> Self {
        Taken(RwLock::default())
    }
}

impl<T> Taken<T> {
    fn get_or(&self, key: u64, step: impl FnOnce() -> Stepped<T>) -> Arc<Stepped<T>> {
        if let Some(known) = self.0.read().expect("no holder panics").get(&key) {
            return known.clone();
        }
        let stepped = Arc::new(step());
        self.0.write().expect("no holder panics").entry(key).or_insert(stepped).clone()
    }
}

/// The steps of all machines of one plan.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    shards: Taken<Shard>,
    clients: Taken<Client>,
}

impl Steps {
    pub(crate) fn of_shard(&self, plan: &Plan, shard: &Sealed<Shard>, input: &Input) -> Arc<Stepped<Shard>> {
        let mut key = DefaultHasher::new();
        shard.digest.hash(&mut key);
        input.hash(&mut key);
        self.shards.get_or(key.finish(), || {
            let mut machine = shard.it.clone();
            let mut outputs = Vec::new();
            let broken = caught(|| {
                with_bug(plan.bug, || feed_shard(plan, &mut machine, input));
                outputs.extend(std::iter::from_fn(|| machine.poll_output()));
                machine.check_invariants();
            });
            let from = machine.id().0 as usize;
            // Who waits for clocks looks at them.
            let is_clock =
                |output: &Output| matches!(output, Output::Respond { response: Response::Ticked { .. }, .. });
            outputs.retain(|output| !is_clock(output));
            let messages = outputs.into_iter().map(|output| match output {
                Output::Respond { session, response } => {
                    Message::Response { from, to: session.0 as usize, response }
                }
                Output::Tell { shard, message } => Message::Peer { to: shard.0 as usize, message },
            });
            let messages = sealed(plan, messages);
            Stepped { machine: seal_shard(machine), messages, broken }
        })
    }

    /// `known` are the shards' incarnations as the client's connections learn them.
    pub(crate) fn of_client(
        &self,
        plan: &Plan,
        client: &Sealed<Client>,
        input: &Input,
        known: &[Incarnation],
    ) -> Arc<Stepped<Client>> {
        let mut key = DefaultHasher::new();
        client.digest.hash(&mut key);
        input.hash(&mut key);
        known.hash(&mut key);
        self.clients.get_or(key.finish(), || {
            let mut machine = client.it.clone();
            let mut sends = Vec::new();
            let broken = caught(|| {
                sends = with_bug(plan.bug, || {
                    feed_client(plan, &mut machine, input, known);
                    machine.go_on(plan, known)
                });
                machine.coordinator.iter().for_each(|it| it.check_invariants());
            });
            let from = machine.number();
            let requests =
                sends.into_iter().map(|(to, request)| Message::Request { from, to: to.0 as usize, request });
            let messages = sealed(plan, requests);
            Stepped { machine: seal_client(machine), messages, broken }
        })
    }
}

fn feed_shard(plan: &Plan, shard: &mut Shard, input: &Input) {
    match input {
        Input::Message(message) => match message.it.clone() {
            Message::Request { from, request, .. } => {
                shard.handle(NOW, Link { session: SessionId(from as u64), connection: 0 }, request);
            }
            Message::Peer { message, .. } => shard.handle_peer(NOW, message),
            Message::Response { .. } => unreachable!("it is for a client"),
        },
        Input::TimeOver(attempt)
            if plan.plant == Plant::LeaseEndsVoted && shard.written(*attempt) == Some(Status::Prepared) =>
        {
            let abort = Request::Abort { attempt: *attempt, refused_by: Some(shard.id()) };
            shard.handle(NOW, Link { session: attempt.tx.session, connection: 0 }, abort);
        }
        Input::TimeOver(attempt) => shard.handle_timeout_of(NOW, *attempt),
        Input::Restart => shard.restart(NOW, Incarnation(shard.incarnation().0 + 1), plan.survives),
        Input::Tick(want) => {
            let link = Link { session: SessionId(0), connection: 0 };
            shard.handle(NOW, link, Request::Tick { want: *want });
        }
        Input::Begin | Input::Die | Input::Late(_) | Input::SafeTime(_) | Input::Saw(_) => {
            unreachable!("it is for a client")
        }
    }
}

fn feed_client(plan: &Plan, client: &mut Client, input: &Input, known: &[Incarnation]) {
    match input {
        Input::Message(message) => match message.it.clone() {
            Message::Response { from, response, .. } => client.hear(ShardId(from as u32), response),
            Message::Request { .. } | Message::Peer { .. } => unreachable!("it is for a shard"),
        },
        Input::Begin => client.meet(plan, known),
        Input::Die => client.die(),
        Input::Late(time) => client.time_out(*time),
        Input::SafeTime(at) => client.hear_safe_time(*at),
        Input::Saw(seen) => client.see(plan, seen.clone()),
        Input::TimeOver(_) | Input::Restart | Input::Tick(_) => unreachable!("it is for a shard"),
    }
}

/// Runs a step, and returns what it panics with.
fn caught(step: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(step)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Some(text.unwrap_or_default())
}

pub(crate) fn seal_shard(shard: Shard) -> Arc<Sealed<Shard>> {
    Arc::new(Sealed { digest: shard.digest(), it: shard })
}

pub(crate) fn seal_client(client: Client) -> Arc<Sealed<Client>> {
    Arc::new(Sealed { digest: client.digest(), it: client })
}

fn sealed(plan: &Plan, messages: impl Iterator<Item = Message>) -> Vec<Arc<Sealed<Message>>> {
    messages.filter_map(|message| tampered(plan, message)).map(Message::seal).collect()
}

/// Breaks what the plan says. `None` when the message is withheld.
fn tampered(plan: &Plan, message: Message) -> Option<Message> {
    Some(match (plan.plant, message) {
        (Plant::RefusalInvented, Message::Request { from, to, request: Request::Withdraw { attempt } }) => {
            let refused_by = Some(ShardId(to as u32));
            Message::Request { from, to: 1 - to, request: Request::Abort { attempt, refused_by } }
        }
        (Plant::VoteForged, Message::Response { from, to, response: Response::Queued { attempt, .. } }) => {
            let shard = ShardId(from as u32);
            Message::Response { from, to, response: Response::Voted { attempt, shard, replies: Vec::new() } }
        }
        (Plant::EldersUnheard, Message::Response { response: Response::Elder { .. }, .. }) => return None,
        (
            Plant::RefusalDenied,
            Message::Peer { to, message: PeerMessage::Answer { attempt, from, status: Status::Refused } },
        ) => Message::Peer { to, message: PeerMessage::Answer { attempt, from, status: Status::Prepared } },
        (_, message) => message,
    })
}
