//! Messages on their way, and how a script picks them.

use claret_core::message::{Link, PeerMessage, Request, Response};
use claret_core::{AttemptId, SessionId, ShardId};

use super::names::Names;
use crate::event::{describe_peer, describe_request, describe_response};

/// One message on its way.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) body: Body,
    /// Kept back until it is asked for.
    pub(super) held: bool,
    /// The transcript has it already.
    pub(super) told: bool,
}

/// What it says, and between whom.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Request { link: Link, to: ShardId, request: Request },
    Response { from: ShardId, to: SessionId, response: Response },
    Peer { from: ShardId, to: ShardId, message: PeerMessage },
}

impl Message {
    pub(super) fn new(body: Body) -> Self {
        Message { body, held: false, told: false }
    }

    /// Its two ends.
    fn ends(&self) -> (String, String) {
        match &self.body {
            Body::Request { link, to, .. } => (client_name(link.session), to.to_string()),
            Body::Response { from, to, .. } => (from.to_string(), client_name(*to)),
            Body::Peer { from, to, .. } => (from.to_string(), to.to_string()),
        }
    }

    /// The attempt it is about; heartbeats are about none.
    fn attempt(&self) -> Option<AttemptId> {
        match &self.body {
            Body::Request { request, .. } => match request {
                Request::Execute { attempt, .. }
                | Request::Prepare { attempt, .. }
                | Request::Apply { attempt }
                | Request::Withdraw { attempt }
                | Request::Abort { attempt, .. }
                | Request::Ask { attempt }
                | Request::AskBehind { attempt }
                | Request::ApplyAt { attempt, .. } => Some(*attempt),
                Request::Heartbeat { .. } | Request::Tick { .. } | Request::Look { .. } => None,
            },
            Body::Response { response, .. } => response.attempt(),
            Body::Peer { message, .. } => match message {
                PeerMessage::Inquire { attempt, .. }
                | PeerMessage::Answer { attempt, .. }
                | PeerMessage::Way { attempt, .. } => Some(*attempt),
                PeerMessage::AskClock { .. } | PeerMessage::Clock { .. } => None,
            },
        }
    }

    /// As a line of the transcript, with an arrow that says what becomes of it.
    pub(super) fn line(&self, arrow: &str, names: &Names) -> String {
        let (from, to) = self.ends();
        let connection = match &self.body {
            Body::Request { link, .. } if link.connection > 0 => format!("#{}", link.connection),
            _ => String::new(),
        };
        let mut line = format!("{from}{connection} {arrow} {to}: ");
        let written = match &self.body {
            Body::Request { request, .. } => describe_request(&mut line, request, names),
            Body::Response { response, .. } => describe_response(&mut line, response, names),
            Body::Peer { message, .. } => describe_peer(&mut line, message, names),
        };
        written.expect("a string takes all");
        line
    }
}

/// How a script calls a client.
pub(super) fn client_name(session: SessionId) -> String {
    format!("c{}", session.0)
}

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageKind(usize);

/// In the order of [`MessageKind::of`].
const KINDS: [&str; 20] = [
    "execute",
    "prepare",
    "apply",
    "withdraw",
    "abort",
    "heartbeat",
    "ask",
    "granted",
    "queued",
    "busy",
    "voted",
    "committed",
    "refused",
    "applied",
    "aborted",
    "elder",
    "asked",
    "inquire",
    "answer",
    "way",
];

impl MessageKind {
    pub(super) fn named(word: &str) -> Option<MessageKind> {
        KINDS.iter().position(|kind| *kind == word).map(MessageKind)
    }

    pub(super) fn names() -> String {
        KINDS.join(", ")
    }

    fn of(body: &Body) -> MessageKind {
        MessageKind(match body {
            Body::Request { request, .. } => match request {
                Request::Execute { .. } => 0,
                Request::Prepare { .. } => 1,
                Request::Apply { .. } | Request::ApplyAt { .. } => 2,
                Request::Withdraw { .. } => 3,
                Request::Abort { .. } => 4,
                Request::Heartbeat { .. } | Request::Tick { .. } | Request::Look { .. } => 5,
                Request::Ask { .. } | Request::AskBehind { .. } => 6,
            },
            Body::Response { response, .. } => match response {
                Response::Granted { .. } => 7,
                Response::Queued { .. } => 8,
                Response::Busy { .. } => 9,
                Response::Voted { .. } | Response::Placed { .. } => 10,
                Response::Committed { .. } => 11,
                Response::Refused { .. } => 12,
                Response::Applied { .. }
                | Response::Done { .. }
                | Response::Ticked { .. }
                | Response::Looked { .. } => 13,
                Response::Aborted { .. } => 14,
                Response::Elder { .. } => 15,
                Response::Asked { .. } | Response::Behind { .. } => 16,
            },
            Body::Peer { message, .. } => match message {
                PeerMessage::Inquire { .. } => 17,
                PeerMessage::Answer { .. } => 18,
                PeerMessage::Way { .. } => 19,
                PeerMessage::AskClock { .. } | PeerMessage::Clock { .. } => 20,
            },
        })
    }
}

/// Which messages are meant; the default is all that are not held.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selector {
    pub(super) kind: Option<MessageKind>,
    pub(super) tx: Option<String>,
    pub(super) attempt: Option<u32>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) held: bool,
    pub(super) first: bool,
    pub(super) last: bool,
}

impl Selector {
    /// Whether it means this message, `first` and `last` aside.
    pub(super) fn means(&self, message: &Message, names: &Names) -> bool {
        let (from, to) = message.ends();
        let attempt = message.attempt();
        self.held == message.held
            && self.kind.is_none_or(|kind| kind == MessageKind::of(&message.body))
            && self.from.as_ref().is_none_or(|wanted| *wanted == from)
            && self.to.as_ref().is_none_or(|wanted| *wanted == to)
            && self.tx.as_ref().is_none_or(|wanted| attempt.is_some_and(|it| names.is(it.tx, wanted)))
            && self.attempt.is_none_or(|wanted| attempt.is_some_and(|it| it.attempt == wanted))
    }

    /// The places of what it means.
    pub(super) fn choose(&self, messages: &[Message], names: &Names) -> Vec<usize> {
        let mut places: Vec<usize> =
            (0..messages.len()).filter(|at| self.means(&messages[*at], names)).collect();
        if self.first {
            places.truncate(1);
        }
        if self.last {
            places.drain(..places.len().saturating_sub(1));
        }
        places
    }
}
