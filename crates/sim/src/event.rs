//! The events of the simulated world, each with a line of text and words for the hash of the trace.

use std::fmt::{self, Write};

use claret_core::message::{Asks, Call, Link, Listed, Members, PeerMessage, Request, Response};
use claret_core::{AttemptId, CallNo, Incarnation, SessionId, ShardId, Time, TxHandle, key_hash};
use claret_types::{Bytes, Operation, Reply};

use crate::network::Endpoint;
use crate::run::RunId;

/// One entry of the world's queue.
#[derive(Clone, Debug)]
pub(crate) enum SimEvent {
    /// A request arrives at a shard.
    Request { to: ShardId, link: Link, request: Request },
    /// A frame arrives at a shard.
    Frame { to: ShardId, link: Link, requests: Vec<Request> },
    /// The answer to a frame arrives at a process: it was not taken, or brought these responses.
    Answer { from: ShardId, session: SessionId, connection: u32, refused: bool, responses: Vec<Response> },
    /// What a shard says besides arrives at a process.
    Push { from: ShardId, session: SessionId, connection: u32, response: Response },
    /// Where shards are a call away: a response.
    Response { from: ShardId, session: SessionId, response: Response },
    /// A shard's message arrives at another.
    Peer { from: ShardId, to: ShardId, message: PeerMessage },
    /// A shard asked to be called at this time.
    ShardTimer(ShardId, Time),
    /// A process asked to be called at this time.
    ClientTimer(SessionId, Time),
    /// A connection looks what there is to write.
    Write(SessionId, ShardId, u32),
    /// A client begins a transaction.
    Begin(SessionId),
    /// A program goes on with its next step.
    Continue(RunId),
    /// A user takes back a commit that is under way.
    TakeBack(RunId),
    /// The run is over, and the next one begins.
    Rerun(RunId),
    /// The run is over, and its user goes on with it: so many more times.
    Stale(RunId, u32),
    /// The user leaves.
    Abandon(SessionId, TxHandle),
    /// A connection breaks.
    Break(SessionId, ShardId),
    /// A process connects anew to a shard; it knows that its last connection is broken, or not yet.
    Reconnect(SessionId, ShardId, bool),
    /// A shard is asked which incarnation it is.
    Handshake(SessionId, ShardId, u32),
    /// It answered.
    Connected(SessionId, ShardId, u32, Incarnation),
    /// A process finds that a connection is broken.
    Broken(SessionId, ShardId, u32),
    /// A process learns who serves what.
    Learn(SessionId),
    /// A process gives a node up.
    Part(SessionId, ShardId),
    /// A slot is to go to another shard.
    Move(u16, ShardId),
    /// A node that serves nothing leaves.
    Leave(ShardId),
    /// Two ends lose sight of each other.
    Cut(Endpoint, Endpoint, Time),
    /// An end stands still.
    Pause(Endpoint, Time),
    /// A shard restarts, and stands still until then.
    Restart(ShardId, Time),
    /// A primary hears that all its replicas have a batch: of which life, and which.
    Replicated(ShardId, u64, u64),
    /// A stale primary is gone: which of the shard's it was.
    EndStale(ShardId, u64),
    /// A shard refuses all that has not voted.
    Refuse(ShardId),
    /// Records of a shard expire, or are evicted.
    Expire(ShardId, Vec<Bytes>),
    /// All records of a shard are flushed.
    Flush(ShardId),
    /// A shard hears that the last connection of a session is closed.
    Desert(ShardId, SessionId),
    /// No connection of the session was open for long: the shard forgets of it what it may.
    Forget(ShardId, SessionId),
    /// A client asks a shard what became of a dead client's attempt.
    Ask(SessionId, ShardId, AttemptId),
    /// A session is dead for so long that no shard may have anything of it.
    Audit(SessionId),
}

impl SimEvent {
    /// Whose step it is; `None` for what befalls the world as a whole.
    pub(crate) fn at(&self) -> Option<Endpoint> {
        match self {
            SimEvent::Request { to, .. }
            | SimEvent::Frame { to, .. }
            | SimEvent::Peer { to, .. }
            | SimEvent::Handshake(_, to, _)
            | SimEvent::ShardTimer(to, _) => Some(Endpoint::Shard(*to)),
            SimEvent::Response { session, .. }
            | SimEvent::Answer { session, .. }
            | SimEvent::Push { session, .. }
            | SimEvent::Write(session, ..)
            | SimEvent::Connected(session, ..)
            | SimEvent::Broken(session, ..)
            | SimEvent::Learn(session)
            | SimEvent::Part(session, _)
            | SimEvent::Abandon(session, _)
            | SimEvent::Begin(session)
            | SimEvent::Reconnect(session, ..) => Some(Endpoint::Session(*session)),
            SimEvent::ClientTimer(session, _) | SimEvent::Ask(session, ..) => {
                Some(Endpoint::Session(*session))
            }
            SimEvent::Continue(run)
            | SimEvent::TakeBack(run)
            | SimEvent::Rerun(run)
            | SimEvent::Stale(run, _) => Some(Endpoint::Session(run.session)),
            SimEvent::Refuse(shard)
            | SimEvent::Leave(shard)
            | SimEvent::Expire(shard, _)
            | SimEvent::Flush(shard)
            | SimEvent::Desert(shard, _)
            | SimEvent::Forget(shard, _) => Some(Endpoint::Shard(*shard)),
            SimEvent::Cut(..)
            | SimEvent::Break(..)
            | SimEvent::Move(..)
            | SimEvent::Pause(..)
            | SimEvent::Restart(..)
            | SimEvent::Replicated(..)
            | SimEvent::EndStale(..)
            | SimEvent::Audit(_) => None,
        }
    }

    /// Whether it is nothing to tell of: what is written is seen when it arrives, and where each message goes its own way
    /// frames have nothing in them.
    pub(crate) fn is_without_words(&self) -> bool {
        match self {
            SimEvent::Write(..) => true,
            SimEvent::Frame { requests, .. } => requests.is_empty(),
            SimEvent::Answer { refused, responses, .. } => !refused && responses.is_empty(),
            _ => false,
        }
    }

    /// Whether a run that has come to rest still waits for it: a message on its way, a check.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(
            self,
            SimEvent::Request { .. }
                | SimEvent::Frame { .. }
                | SimEvent::Answer { .. }
                | SimEvent::Push { .. }
                | SimEvent::Response { .. }
                | SimEvent::Write(..)
                | SimEvent::Peer { .. }
                | SimEvent::Audit(_)
        )
    }

    /// Numbers that tell it from others, for the hash of the trace.
    pub(crate) fn words(&self) -> [u64; 5] {
        let of = attempt_words;
        let run = |kind: u64, run: &RunId| [kind, u64::from(run.run), run.session.0, run.tx.0, 0];
        match self {
            SimEvent::Request { to, link, request } => {
                let place = u64::from(to.0) << 32 | u64::from(link.connection);
                match request_attempt(request) {
                    Some((kind, attempt)) => of(kind, place, attempt),
                    None => [1, place, link.session.0, 0, 0],
                }
            }
            SimEvent::Response { from, response, .. } | SimEvent::Push { from, response, .. } => {
                let (kind, place) = (10 + response_kind(response), u64::from(from.0));
                response.attempt().map_or([kind, place, 0, 0, 0], |attempt| of(kind, place, attempt))
            }
            SimEvent::Frame { to, link, requests } => {
                [61, u64::from(to.0), link.session.0, u64::from(link.connection), requests.len() as u64]
            }
            SimEvent::Answer { from, session, connection, refused, responses } => {
                let place = u64::from(from.0) << 32 | u64::from(*connection);
                [62, place, session.0, u64::from(*refused), responses.len() as u64]
            }
            SimEvent::Peer { to, message, .. } => peer_words(*to, message),
            SimEvent::ShardTimer(shard, _) => [40, u64::from(shard.0), 0, 0, 0],
            SimEvent::ClientTimer(session, _) => [41, 0, session.0, 0, 0],
            SimEvent::Write(session, shard, number) => {
                [63, u64::from(shard.0), session.0, u64::from(*number), 0]
            }
            SimEvent::Handshake(session, shard, number) => {
                [64, u64::from(shard.0), session.0, u64::from(*number), 0]
            }
            SimEvent::Connected(session, shard, number, incarnation) => {
                [65, u64::from(shard.0), session.0, u64::from(*number), incarnation.0]
            }
            SimEvent::Broken(session, shard, number) => {
                [66, u64::from(shard.0), session.0, u64::from(*number), 0]
            }
            SimEvent::Learn(session) => [67, 0, session.0, 0, 0],
            SimEvent::Part(session, shard) => [68, u64::from(shard.0), session.0, 0, 0],
            SimEvent::Move(slot, to) => [69, u64::from(*slot), u64::from(to.0), 0, 0],
            SimEvent::Leave(shard) => [70, u64::from(shard.0), 0, 0, 0],
            SimEvent::Abandon(session, tx) => [71, session.0, tx.0, 0, 0],
            SimEvent::Replicated(shard, life, batch) => [73, u64::from(shard.0), *life, *batch, 0],
            SimEvent::EndStale(shard, life) => [74, u64::from(shard.0), *life, 0, 0],
            SimEvent::Break(session, shard) => [72, u64::from(shard.0), session.0, 0, 0],
            SimEvent::Begin(session) => [42, 0, session.0, 0, 0],
            SimEvent::Continue(id) => run(43, id),
            SimEvent::TakeBack(id) => run(44, id),
            SimEvent::Rerun(id) => run(45, id),
            SimEvent::Reconnect(session, shard, overlaps) => {
                [47, u64::from(shard.0), session.0, u64::from(*overlaps), 0]
            }
            SimEvent::Cut(_, _, until) => [48, until.0, 0, 0, 0],
            SimEvent::Pause(_, until) => [49, until.0, 0, 0, 0],
            SimEvent::Restart(shard, until) => [51, u64::from(shard.0), until.0, 0, 0],
            SimEvent::Ask(_, shard, attempt) => of(52, u64::from(shard.0), *attempt),
            SimEvent::Audit(session) => [53, session.0, 0, 0, 0],
            SimEvent::Stale(id, _) => run(54, id),
            SimEvent::Refuse(shard) => [55, u64::from(shard.0), 0, 0, 0],
            SimEvent::Expire(shard, keys) => {
                [56, u64::from(shard.0), keys.len() as u64, keys.first().map_or(0, |key| key_hash(key)), 0]
            }
            SimEvent::Flush(shard) => [57, u64::from(shard.0), 0, 0, 0],
            SimEvent::Desert(shard, session) => [58, u64::from(shard.0), session.0, 0, 0],
            SimEvent::Forget(shard, session) => [59, u64::from(shard.0), session.0, 0, 0],
        }
    }
}

fn attempt_words(kind: u64, place: u64, attempt: AttemptId) -> [u64; 5] {
    [kind, place, attempt.tx.session.0, attempt.tx.sequence.0, u64::from(attempt.attempt)]
}

fn peer_words(to: ShardId, message: &PeerMessage) -> [u64; 5] {
    let to = u64::from(to.0);
    match message {
        PeerMessage::Inquire { attempt, .. } => attempt_words(30, to, *attempt),
        PeerMessage::Answer { attempt, .. } => attempt_words(31, to, *attempt),
        PeerMessage::AskClock { want, .. } => [32, to, want.0, 0, 0],
        PeerMessage::Clock { clock, .. } => [33, to, clock.0, 0, 0],
        PeerMessage::Way { attempt, .. } => attempt_words(34, to, *attempt),
    }
}

/// As a line of a timeline.
impl fmt::Display for SimEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimEvent::Request { to, link, request } => {
                let Link { session, connection } = link;
                write!(f, "c{}#{connection} -> {to}: ", session.0)?;
                describe_request(f, request, &Numbers)
            }
            SimEvent::Response { from, session, response } => {
                write!(f, "{from} -> c{}: ", session.0)?;
                describe_response(f, response, &Numbers)
            }
            SimEvent::Push { from, session, connection, response } => {
                write!(f, "{from} -> c{}#{connection}: ", session.0)?;
                describe_response(f, response, &Numbers)
            }
            SimEvent::Frame { to, link, requests } => {
                write!(f, "c{}#{} -> {to}: a frame", link.session.0, link.connection)?;
                requests.iter().try_for_each(|request| {
                    f.write_str("; ")?;
                    describe_request(f, request, &Numbers)
                })
            }
            SimEvent::Answer { from, session, connection, refused, responses } => {
                let what = if *refused { "the frame is refused" } else { "the frame is taken" };
                write!(f, "{from} -> c{}#{connection}: {what}", session.0)?;
                responses.iter().try_for_each(|response| {
                    f.write_str("; ")?;
                    describe_response(f, response, &Numbers)
                })
            }
            SimEvent::Peer { from, to, message } => {
                write!(f, "{from} -> {to}: ")?;
                describe_peer(f, message, &Numbers)
            }
            SimEvent::ShardTimer(shard, _) => write!(f, "{shard}: time"),
            SimEvent::ClientTimer(session, _) => write!(f, "c{}: time", session.0),
            SimEvent::Continue(run) => write!(f, "{run}: goes on"),
            SimEvent::TakeBack(run) => write!(f, "{run}: its user takes the commit back"),
            SimEvent::Rerun(run) => write!(f, "{run}: is run again"),
            SimEvent::Stale(run, _) => write!(f, "{run}: is over, and its user goes on"),
            SimEvent::Refuse(shard) => write!(f, "{shard}: refuses all that has not voted"),
            SimEvent::Expire(shard, keys) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("'{key}'")).collect();
                write!(f, "{shard}: these expire, if they are there: {}", keys.join(" "))
            }
            SimEvent::Flush(shard) => write!(f, "{shard}: all its records are flushed"),
            SimEvent::Desert(shard, session) => write!(f, "{shard}: hears that c{} is gone", session.0),
            SimEvent::Forget(shard, session) => write!(f, "{shard}: forgets c{}", session.0),
            SimEvent::Cut(a, b, until) => write!(f, "{a} and {b} are cut off until {until}"),
            SimEvent::Pause(end, until) => write!(f, "{end} stands still until {until}"),
            SimEvent::Restart(shard, until) => {
                write!(f, "{shard}: restarts, and stands still until {until}")
            }
            SimEvent::Replicated(shard, life, batch) => {
                write!(f, "{shard}: its replicas have batch {life}.{batch}")
            }
            SimEvent::EndStale(shard, _) => write!(f, "{shard}: the stale primary is gone"),
            SimEvent::Ask(session, shard, attempt) => {
                write!(f, "c{}: asks {shard} what became of {attempt}", session.0)
            }
            SimEvent::Audit(session) => write!(f, "c{}: must have left nothing by now", session.0),
            other => other.describe_connection(f),
        }
    }
}

impl SimEvent {
    /// What happens to a connection, to a slot, or at the ends of a transaction, in a line.
    fn describe_connection(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimEvent::Write(session, shard, number) => {
                write!(f, "c{}#{number}: may write to {shard}", session.0)
            }
            SimEvent::Handshake(session, shard, number) => {
                write!(f, "c{}#{number} -> {shard}: who are you?", session.0)
            }
            SimEvent::Connected(session, shard, number, incarnation) => {
                write!(f, "c{}#{number}: serves {shard}@{}", session.0, incarnation.0)
            }
            SimEvent::Broken(session, shard, number) => {
                write!(f, "c{}#{number}: finds that it is cut off from {shard}", session.0)
            }
            SimEvent::Learn(session) => write!(f, "c{}: learns who serves what", session.0),
            SimEvent::Part(session, shard) => write!(f, "c{}: gives {shard} up", session.0),
            SimEvent::Break(session, shard) => write!(f, "c{}: its connection to {shard} breaks", session.0),
            SimEvent::Reconnect(session, shard, _) => write!(f, "c{}: reconnects to {shard}", session.0),
            SimEvent::Move(slot, to) => write!(f, "slot {slot} is to go to {to}"),
            SimEvent::Leave(shard) => write!(f, "{shard}: leaves for good, if it serves nothing"),
            SimEvent::Abandon(session, tx) => write!(f, "c{}.t{}: its user leaves", session.0, tx.0),
            SimEvent::Begin(session) => write!(f, "c{}: begins a transaction", session.0),
            _ => unreachable!("described before"),
        }
    }
}

fn request_attempt(request: &Request) -> Option<(u64, AttemptId)> {
    match request {
        Request::Heartbeat { .. } | Request::Tick { .. } | Request::Look { .. } => None,
        Request::Execute { attempt, .. } => Some((2, *attempt)),
        Request::Prepare { attempt, .. } => Some((3, *attempt)),
        Request::Apply { attempt } => Some((4, *attempt)),
        Request::Withdraw { attempt } => Some((5, *attempt)),
        Request::Abort { attempt, .. } => Some((6, *attempt)),
        Request::Ask { attempt } => Some((7, *attempt)),
        Request::AskBehind { attempt } => Some((8, *attempt)),
        Request::ApplyAt { attempt, .. } => Some((9, *attempt)),
    }
}

fn response_kind(response: &Response) -> u64 {
    match response {
        Response::Granted { .. } => 0,
        Response::Queued { .. } => 1,
        Response::Busy { .. } => 2,
        Response::Voted { .. } => 3,
        Response::Committed { .. } => 4,
        Response::Refused { .. } => 5,
        Response::Applied { .. } => 6,
        Response::Aborted { .. } => 7,
        Response::Elder { .. } => 8,
        Response::Asked { .. } => 9,
        Response::Behind { .. } => 10,
        Response::Placed { .. } => 11,
        Response::Done { .. } => 12,
        Response::Ticked { .. } => 13,
        Response::Looked { .. } => 14,
    }
}

/// How a description names what it speaks of: the world by numbers, a script as its author did.
pub(crate) trait Wording {
    /// An attempt.
    fn attempt(&self, attempt: AttemptId) -> String;
    /// An operation on a record.
    fn operation(&self, key: &Bytes, op: &Operation) -> String;
}

/// By the numbers that the protocol gives.
pub(crate) struct Numbers;

impl Wording for Numbers {
    fn attempt(&self, attempt: AttemptId) -> String {
        attempt.to_string()
    }

    fn operation(&self, key: &Bytes, op: &Operation) -> String {
        format!("{op:?} on '{key}'")
    }
}

/// A request in one line.
pub(crate) fn describe_request(f: &mut impl Write, request: &Request, wording: &impl Wording) -> fmt::Result {
    match request {
        Request::Execute { attempt, key, calls, .. } => {
            write!(f, "execute {}:", wording.attempt(*attempt))?;
            calls.iter().try_for_each(|call| describe_call(f, key, call, wording))
        }
        Request::Prepare { attempt, participants, relies_on, calls, members, asks, .. } => {
            let shards: Vec<String> = participants.iter().map(describe_listed).collect();
            write!(f, "prepare {} at {}", wording.attempt(*attempt), shards.join(","))?;
            if *relies_on > 0 {
                write!(f, ", relies on {relies_on} granted")?;
            }
            if let Members::Only(members) = members {
                let members: Vec<String> = members.iter().map(|member| member.0.to_string()).collect();
                write!(f, ", only of members {}", members.join(" "))?;
            }
            match asks {
                Asks::Decision if participants.len() > 1 => f.write_str(", the last")?,
                Asks::Place(suggested) => write!(f, ", about {suggested}")?,
                Asks::Way { number, .. } => write!(f, ", in way {number}")?,
                Asks::Decision | Asks::Vote => {}
            }
            f.write_char(':')?;
            calls.iter().try_for_each(|it| describe_call(f, &it.key, &it.call, wording))
        }
        Request::Apply { attempt } => write!(f, "apply {}", wording.attempt(*attempt)),
        Request::Withdraw { attempt } => write!(f, "withdraw {}", wording.attempt(*attempt)),
        Request::Abort { attempt, refused_by: Some(shard) } => {
            write!(f, "abort {}, refused by {shard}", wording.attempt(*attempt))
        }
        Request::Abort { attempt, refused_by: None } => {
            write!(f, "abort {}, refused by nobody", wording.attempt(*attempt))
        }
        Request::Heartbeat { live, low_water } => {
            let live: Vec<String> = live.iter().map(|attempt| wording.attempt(*attempt)).collect();
            write!(f, "alive [{}] low-water mark {}", live.join(" "), low_water.0)
        }
        Request::Ask { attempt } => write!(f, "ask {}", wording.attempt(*attempt)),
        Request::AskBehind { attempt } => write!(f, "ask whom {} waits for", wording.attempt(*attempt)),
        Request::ApplyAt { attempt, at } => write!(f, "apply {} {at}", wording.attempt(*attempt)),
        Request::Tick { want } => write!(f, "tick, wants {want}"),
        Request::Look { look, key, ops, at_once } => {
            let how = if *at_once { ", whoever has voted" } else { "" };
            write!(f, "look {} at '{key}'{how}: {ops:?}", look.0)
        }
    }
}

/// A response in one line.
pub(crate) fn describe_response(
    f: &mut impl Write,
    response: &Response,
    wording: &impl Wording,
) -> fmt::Result {
    let attempt = response.attempt().map_or(String::new(), |attempt| wording.attempt(attempt));
    match response {
        Response::Granted { no, reply, granted, .. } => {
            write!(f, "granted {attempt} #{}: {reply} ({granted} in all)", no.0)
        }
        Response::Queued { .. } => write!(f, "queued {attempt}"),
        Response::Busy { .. } => write!(f, "busy {attempt}"),
        Response::Voted { replies, .. } => write!(f, "voted {attempt}{}", describe_replies(replies)),
        Response::Committed { replies, .. } => write!(f, "committed {attempt}{}", describe_replies(replies)),
        Response::Refused { refusal, since, .. } => {
            write!(f, "refused {attempt}: {refusal}{}", describe_memory(*since))
        }
        Response::Applied { .. } => write!(f, "applied {attempt}"),
        Response::Aborted { .. } => write!(f, "aborted {attempt}"),
        Response::Elder { .. } => write!(f, "an elder waits for {attempt}"),
        Response::Asked { status, since, .. } => {
            write!(f, "{attempt} is {status:?}{}", describe_memory(*since))
        }
        Response::Behind { records, .. } => {
            write!(f, "{attempt} waits")?;
            records.iter().try_for_each(|(key, holder)| match holder {
                Some(holder) => write!(f, " for {} on '{key}'", wording.attempt(*holder)),
                None => write!(f, " behind others on '{key}'"),
            })
        }
        Response::Placed { at, behind, replies, is_tentative, .. } => {
            write!(f, "placed {attempt} {at}, behind {behind}")?;
            let replies = replies.as_deref().map_or(" answers later".to_owned(), describe_replies);
            write!(f, "{replies}{}", if *is_tentative { ", tentative" } else { "" })
        }
        Response::Done { at, replies, .. } => {
            write!(f, "done {attempt} {at}{}", describe_replies(replies.as_deref().unwrap_or_default()))
        }
        Response::Looked { look, seen } => write!(f, "looked {}: {seen:?}", look.0),
        Response::Ticked { clock, orders, .. } => {
            write!(f, "clock {clock}{}", if *orders { ", orders" } else { "" })
        }
    }
}

/// A message between shards in one line.
pub(crate) fn describe_peer(
    f: &mut impl Write,
    message: &PeerMessage,
    wording: &impl Wording,
) -> fmt::Result {
    match message {
        PeerMessage::Inquire { attempt, .. } => write!(f, "what of {}?", wording.attempt(*attempt)),
        PeerMessage::Answer { attempt, status, .. } => {
            write!(f, "{} is {status:?}", wording.attempt(*attempt))
        }
        PeerMessage::AskClock { want, .. } => write!(f, "what is your clock? wants {want}"),
        PeerMessage::Clock { clock, .. } => write!(f, "clock {clock}"),
        PeerMessage::Way { attempt, words, .. } => {
            write!(f, "way {}, of {}", words.number, wording.attempt(*attempt))
        }
    }
}

fn describe_call(f: &mut impl Write, key: &Bytes, call: &Call, wording: &impl Wording) -> fmt::Result {
    write!(f, " #{} {}", call.no.0, wording.operation(key, &call.op))?;
    let Some(reserve) = &call.reserve else { return Ok(()) };
    let modes = &call.op.type_info().modes;
    let mut names: Vec<&str> = reserve.list.iter().map(|claim| modes.name_of(claim.mode)).collect();
    names.dedup();
    write!(f, " reserving {}", names.join(" "))
}

/// A participant on the list, with its incarnation where it is named.
fn describe_listed(listed: &Listed) -> String {
    match listed.incarnation {
        Some(incarnation) => format!("{}@{}", listed.shard, incarnation.0),
        None => listed.shard.to_string(),
    }
}

/// How far back a shard remembers, where that is not to its beginning.
fn describe_memory(since: Incarnation) -> String {
    if since > Incarnation(1) { format!(" (remembers since @{})", since.0) } else { String::new() }
}

/// Answers by the numbers of their calls; nothing where there are none.
pub(crate) fn describe_replies(replies: &[(CallNo, Reply)]) -> String {
    replies.iter().map(|(no, reply)| format!(" #{}: {reply}", no.0)).collect()
}
