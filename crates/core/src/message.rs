//! Every message of the protocol, in the order of a transaction's life. A table in `docs/protocol.md` says who sends
//! what and when.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use claret_types::carried::{long_list, one_line, short_list};
use claret_types::{Bytes, Claims, OpError, Operation, Reply};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use thiserror::Error;

pub use crate::ways::{WayBody, WayWords};

use crate::ids::{
    AttemptId, Birth, CallNo, Incarnation, LookNo, Member, Sequence, SessionId, ShardId, Time, Timestamp,
};

/// One operation on its way to a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its place in the transaction.
    pub no: CallNo,
    /// The operation.
    pub op: Operation,
    /// Which member of a combined group asks (C4, C13).
    pub member: Member,
    /// Claims to take besides the operation's own: what an earlier attempt needed on this record, or what
    /// `get_for_update` announces (P22). Few calls have any, and many calls may come at once.
    pub reserve: Option<Box<Claims>>,
}

/// Calls of an attempt that its user has undone: all with these numbers (N1 of `docs/nesting.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// The first.
    pub from: CallNo,
    /// The one behind the last: it, and those after it, do not see what these did.
    pub to: CallNo,
}

impl Undone {
    /// Whether a call is one of them.
    pub fn has(&self, no: CallNo) -> bool {
        self.from <= no && no < self.to
    }
}

/// Ranges of calls that are undone. Mostly there are none, and messages with calls are no longer for them than by one word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "Vec<Undone>")]
pub struct UndoneCalls(#[expect(clippy::box_collection, reason = "one word")] Option<Box<Vec<Undone>>>);

impl From<Vec<Undone>> for UndoneCalls {
    fn from(ranges: Vec<Undone>) -> Self {
        UndoneCalls((!ranges.is_empty()).then(|| Box::new(ranges)))
    }
}

impl From<UndoneCalls> for Vec<Undone> {
    fn from(ranges: UndoneCalls) -> Self {
        ranges.0.map_or_else(Vec::new, |ranges| *ranges)
    }
}

impl std::ops::Deref for UndoneCalls {
    type Target = [Undone];

    fn deref(&self) -> &[Undone] {
        self.0.as_ref().map_or(&[], |ranges| &ranges[..])
    }
}

impl<'de> Deserialize<'de> for UndoneCalls {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        long_list::<D, Undone>(deserializer).map(UndoneCalls::from)
    }
}

/// A call and its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyedCall {
    /// The record.
    pub key: Bytes,
    /// The operation on it.
    pub call: Call,
}

/// A participant as the coordinator knew it when the attempt first met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The shard.
    pub shard: ShardId,
    /// The incarnation its grants came from, or that the host learned with its connection; `None` if it is met
    /// with the prepare only and nobody knows it.
    pub incarnation: Option<Incarnation>,
}

/// The participants of an attempt: immutable once the first prepare left (P8).
pub type Participants = Arc<[Listed]>;

/// From a coordinator to a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Lock and execute calls on one record, now; the last one returns something.
    Execute {
        /// The attempt.
        attempt: AttemptId,
        /// Its transaction's birth.
        birth: Birth,
        /// The incarnation that earlier grants came from.
        incarnation: Option<Incarnation>,
        /// The record.
        key: Bytes,
        /// Buffered operations of the transaction on this record, and then the one that is waited for (P10, P12).
        #[serde(deserialize_with = "short_list")]
        calls: SmallVec<[Call; 1]>,
        /// What the attempt has undone so far of what it did at this shard (N3).
        undone: UndoneCalls,
    },
    /// Round one. For a single participant, or the last one, it is the whole commit (P9).
    Prepare {
        /// The attempt.
        attempt: AttemptId,
        /// Its transaction's birth.
        birth: Birth,
        /// All participants.
        participants: Participants,
        /// How many calls this shard has granted and the coordinator relies on.
        relies_on: u32,
        /// What is still to be locked and executed here.
        #[serde(deserialize_with = "long_list")]
        calls: Vec<KeyedCall>,
        /// Members whose effects count; the others left the group.
        members: Members,
        /// What the yes is to be.
        asks: Asks,
        /// What the attempt has undone (N3). Calls of it that come with this are executed, and not carried out (N6).
        undone: UndoneCalls,
    },
    /// Round two: everybody voted yes.
    Apply {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Write no, unless yes is written already.
    Withdraw {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The attempt is over. A prepared participant heeds it only when a refusal is named (trap 1).
    Abort {
        /// The attempt.
        attempt: AttemptId,
        /// Who recorded a no, or was never asked for a vote; `None` when no prepare ever left, or nobody knows.
        refused_by: Option<ShardId>,
    },
    /// The session lives, with these attempts open; everything below the low-water mark is over everywhere.
    Heartbeat {
        /// Attempts that are still open.
        live: Vec<AttemptId>,
        /// No earlier transaction of the session is open (P28).
        low_water: Sequence,
    },
    /// What became of it? Answered from the write-once vote record, and writes no if nothing is there.
    Ask {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Whom does it wait for? Its caller asks when the deadline has passed (P72). Changes nothing.
    AskBehind {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Round two of a stamped attempt: everybody voted yes, and this is the final timestamp (P74).
    ApplyAt {
        /// The attempt.
        attempt: AttemptId,
        /// The largest of the votes.
        at: Timestamp,
    },
    /// The end of a frame: somebody waits for all clocks to come to here (P79).
    Tick {
        /// The largest final timestamp that a caller is to be told of; 0 for none.
        want: Timestamp,
    },
    /// What would operations on one record answer now, one after the other? Nothing is locked, done or kept (O1).
    Look {
        /// For the answer.
        look: LookNo,
        /// The record.
        key: Bytes,
        /// What the transaction did there before, and then what is asked.
        #[serde(deserialize_with = "short_list")]
        ops: SmallVec<[Operation; 1]>,
        /// Also where somebody has voted who is in the way (O2).
        at_once: bool,
    },
}

/// What a [look](Request::Look) saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Seen {
    /// The answer of the last operation.
    Answer {
        /// It.
        reply: Reply,
        /// The number that went into it.
        unique: u64,
    },
    /// One of them cannot be done. [`OpError::Changed`]: it would answer something else than was seen before.
    Fails {
        /// Which one, counted from 0.
        at: u32,
        /// Why.
        error: Box<OpError>,
        /// The number that went into it.
        unique: u64,
    },
    /// Somebody has voted who is in the way, or the shard has too much to do: it is to be asked again.
    Later,
    /// It may not be looked at here.
    Refused(Refusal),
}

impl Seen {
    /// About how much memory it takes beside itself, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Seen::Answer { reply, .. } => reply.size(),
            Seen::Fails { error, .. } => error.size(),
            Seen::Refused(refusal) => refusal.size(),
            Seen::Later => 0,
        }
    }
}

/// What a prepare asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asks {
    /// A vote.
    Vote,
    /// The decision: everybody else on the list has voted yes, and this yes is carried out at once (P9).
    Decision,
    /// A vote with a timestamp, about this one: the prepare is *stamped* (P73).
    Place(Timestamp),
    /// A vote, or the decision, in another way than in two rounds.
    Way {
        /// This yes is the decision.
        decides: bool,
        /// Which way: as of [`WayWords`], whose fields stand here for a prepare to be no longer.
        number: u8,
        /// What the way says.
        body: WayBody,
    },
}

/// Members of a group that commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Members {
    /// Everyone who has calls at the shard.
    All,
    /// Only these.
    Only(#[serde(deserialize_with = "short_list")] SmallVec<[Member; 4]>),
}

impl Members {
    /// Whether a member's effects count.
    pub fn includes(&self, member: Member) -> bool {
        match self {
            Members::All => true,
            Members::Only(list) => list.contains(&member),
        }
    }
}

/// A bound of a shard, by the name that it is set with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// [`Limits::calls_max`](crate::Limits).
    Calls,
    /// [`Limits::user_bytes_max`](crate::Limits).
    UserBytes,
    /// [`Limits::shard_bytes_max`](crate::Limits).
    ShardBytes,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Calls => "claret.calls-max operations of one transaction",
            Bound::UserBytes => "claret.user-bytes-max bytes that are kept for one user",
            Bound::ShardBytes => "claret.shard-bytes-max bytes that are kept for all users",
        })
    }
}

/// Why an attempt was refused.
#[derive(Clone, Debug, PartialEq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// An operation cannot be done; the same attempt would fail again.
    #[error("{error} (key '{key}')")]
    Operation {
        /// The record.
        key: Bytes,
        /// The error.
        error: Box<OpError>,
    },
    /// The coordinator took it back.
    #[error("withdrawn by its coordinator")]
    Withdrawn,
    /// A recovering participant, or one who asked, found nothing prepared here.
    #[error("refused to let another participant recover")]
    Recovered,
    /// No sign of life for longer than a lease.
    #[error("its lease ran out")]
    LeaseExpired,
    /// The shard restarted, or never saw what the prepare relies on.
    #[error("the shard lost its locks")]
    LostLocks,
    /// A participant that may have applied it lost its memory, and the others gave it up: what became of it, nobody
    /// knows. No recorded no, either.
    #[error("another shard lost its memory of what it had voted")]
    Unknown,
    /// Below the low-water mark, older than another attempt, or not listed as live: nobody waits for it any more.
    #[error("it is over")]
    Stale,
    /// A bound of the shard is reached.
    #[error("too many wait for key '{0}'; try again later")]
    Crowded(Bytes),
    /// Whoever asks may not do this with the record.
    #[error("not allowed on key '{key}': {reason}")]
    Denied {
        /// The record.
        key: Bytes,
        /// What the host says.
        #[serde(deserialize_with = "one_line")]
        reason: String,
    },
    /// The record is another shard's now.
    #[error("key '{key}' is served elsewhere now")]
    Elsewhere {
        /// The record.
        key: Bytes,
    },
    /// The host has no memory left for what the operation may add.
    #[error("no memory for key '{key}'; free some memory, or raise the host's limit")]
    NoMemory {
        /// The record.
        key: Bytes,
    },
    /// The host takes no writes at the moment, or lets no transaction begin.
    #[error("the shard takes no transactions at the moment")]
    ReadOnly,
    /// The record vanished by itself while it was held or waited for: it expired or was evicted (trap 18).
    #[error("key '{key}' vanished")]
    Vanished {
        /// The record.
        key: Bytes,
    },
    /// Its list of participants is not one that this shard could ask: it is not on it, or knows of no such shard.
    #[error("a participant is not a shard of this cluster")]
    Unlisted,
    /// An operator ended it before it had voted.
    #[error("an operator ended it")]
    Resolved,
    /// A bound of the shard is reached.
    #[error("over {bound}, which is {limit}; split the transaction, end others, or raise it")]
    TooMuch {
        /// Which.
        bound: Bound,
        /// How much may be.
        limit: u64,
    },
    /// It is not stamped, and the shard asks for timestamps or has something that is not settled (P87).
    #[error("calls are ordered there, and it has no timestamp")]
    Unstamped,
    /// As `Operation`, where calls are ordered: the error tells of a state that is behind this timestamp (P78).
    #[error("{error} (key '{key}')")]
    OperationBehind {
        /// The record.
        key: Bytes,
        /// The error.
        error: Box<OpError>,
        /// What it stands behind.
        behind: Timestamp,
    },
    /// An operation would answer something else than an optimistic transaction has seen (O3).
    #[error("what was seen of key '{key}' has changed")]
    Changed {
        /// The record.
        key: Bytes,
    },
    /// The shard does not commit in the way that the prepare asks for. In two rounds it does.
    #[error("the shard commits in two rounds only")]
    OnlyRounds,
    /// The host's schema has no such operation on the record, whatever it holds.
    #[error("{error} (key '{key}')")]
    AgainstSchema {
        /// The record.
        key: Bytes,
        /// What it breaks: [`OpError::AgainstSchema`].
        error: Box<OpError>,
    },
}

impl Refusal {
    /// Whether another attempt may fare better.
    pub fn is_retryable(&self) -> bool {
        match self {
            Refusal::Operation { .. }
            | Refusal::OperationBehind { .. }
            | Refusal::AgainstSchema { .. }
            | Refusal::Crowded(_)
            | Refusal::Denied { .. }
            | Refusal::NoMemory { .. }
            | Refusal::Resolved
            | Refusal::TooMuch { .. }
            | Refusal::Unknown => false,
            Refusal::Withdrawn
            | Refusal::Recovered
            | Refusal::LeaseExpired
            | Refusal::LostLocks
            | Refusal::Elsewhere { .. }
            | Refusal::ReadOnly
            | Refusal::Vanished { .. }
            | Refusal::Unlisted
            | Refusal::Unstamped
            | Refusal::OnlyRounds
            | Refusal::Changed { .. }
            | Refusal::Stale => true,
        }
    }

    /// Whether the next attempt should begin after a pause: the shard refused for its own sake, and not because others were in the way.
    pub fn wants_pause(&self) -> bool {
        use Refusal::{Operation, OperationBehind, Recovered, Withdrawn};
        !matches!(self, Withdrawn | Recovered | Operation { .. } | OperationBehind { .. })
    }

    /// That an operation cannot be done: on which record, and behind which timestamp it stood.
    pub fn of_operation(&self) -> Option<(&Bytes, Timestamp)> {
        match self {
            Refusal::Operation { key, .. } => Some((key, Timestamp::default())),
            Refusal::OperationBehind { key, behind, .. } => Some((key, *behind)),
            _ => None,
        }
    }

    /// What the caller hears.
    pub fn without_timestamp(self) -> Refusal {
        match self {
            Refusal::OperationBehind { key, error, .. } => Refusal::Operation { key, error },
            other => other,
        }
    }

    /// About how much memory its words take, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Refusal::Operation { key, error }
            | Refusal::OperationBehind { key, error, .. }
            | Refusal::AgainstSchema { key, error } => key.len() + error.size(),
            Refusal::Denied { key, reason } => key.len() + reason.len(),
            Refusal::Crowded(key)
            | Refusal::Elsewhere { key }
            | Refusal::NoMemory { key }
            | Refusal::Changed { key }
            | Refusal::Vanished { key } => key.len(),
            Refusal::Withdrawn
            | Refusal::Recovered
            | Refusal::LeaseExpired
            | Refusal::LostLocks
            | Refusal::Unknown
            | Refusal::Stale
            | Refusal::ReadOnly
            | Refusal::Unlisted
            | Refusal::Unstamped
            | Refusal::OnlyRounds
            | Refusal::Resolved
            | Refusal::TooMuch { .. } => 0,
        }
    }
}

/// What a participant has written, for those who ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Status {
    /// Yes, and waiting for the decision.
    Prepared,
    /// Decided and done.
    Applied,
    /// No.
    Refused,
    /// So long ago that it is forgotten.
    Forgotten,
    /// The shard lost its memory since; it cannot say (trap 8).
    Lost,
    /// Yes with this timestamp, and waiting for the decision (P84).
    PreparedAt(Timestamp),
    /// Decided, and done or about to be, with this final timestamp.
    AppliedAt(Timestamp),
}

/// From a shard to a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// A call that returns something has its lock and its answer.
    Granted {
        /// The attempt.
        attempt: AttemptId,
        /// Which call.
        no: CallNo,
        /// Its answer.
        reply: Reply,
        /// How many calls of the attempt this shard granted.
        granted: u32,
        /// Who grants.
        incarnation: Incarnation,
    },
    /// It waits; the grant follows.
    Queued {
        /// The attempt.
        attempt: AttemptId,
        /// Which of its calls; `None` where that was said before.
        no: Option<CallNo>,
    },
    /// Without phases: somebody holds it; ask again.
    Busy {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The vote, written once.
    Voted {
        /// The attempt.
        attempt: AttemptId,
        /// Who votes.
        shard: ShardId,
        /// Answers of the calls that came with the prepare and return something.
        replies: Vec<(CallNo, Reply)>,
    },
    /// The only participant, or the last one, executed and applied it.
    Committed {
        /// The attempt.
        attempt: AttemptId,
        /// Answers of the calls that came with the prepare and return something.
        replies: Vec<(CallNo, Reply)>,
    },
    /// No is written.
    Refused {
        /// The attempt.
        attempt: AttemptId,
        /// Who refuses.
        shard: ShardId,
        /// Why.
        refusal: Refusal,
        /// The first incarnation whose votes and decisions the shard remembers. If the list names an earlier one,
        /// this is no recorded no: what that one wrote, nobody knows (trap 8).
        since: Incarnation,
    },
    /// Applied, and the locks are gone.
    Applied {
        /// The attempt.
        attempt: AttemptId,
        /// Where.
        shard: ShardId,
    },
    /// Aborted, and the locks are gone.
    Aborted {
        /// The attempt.
        attempt: AttemptId,
        /// Where.
        shard: ShardId,
    },
    /// An elder waits for what the attempt holds: a level, sent again when it grows older (trap 11).
    Elder {
        /// The attempt.
        attempt: AttemptId,
        /// Where.
        shard: ShardId,
        /// When the eldest began. Not who it is: that is nobody's business but its own.
        birth: Time,
    },
    /// The answer to [`Request::Ask`].
    Asked {
        /// The attempt.
        attempt: AttemptId,
        /// What is written.
        status: Status,
        /// As in [`Response::Refused`].
        since: Incarnation,
    },
    /// The answer to [`Request::AskBehind`].
    Behind {
        /// The attempt.
        attempt: AttemptId,
        /// Records that it waits for here, none if it does not wait (any more); a few at most. With each one of its
        /// holders that are in the way; `None` where it stands behind others who wait.
        #[serde(deserialize_with = "short_list")]
        records: SmallVec<[(Bytes, Option<AttemptId>); 1]>,
    },
    /// A vote with a timestamp, written once (P73).
    Placed {
        /// The attempt.
        attempt: AttemptId,
        /// Who votes.
        shard: ShardId,
        /// Its place, as far as this shard knows.
        at: Timestamp,
        /// What it stands behind; [`Timestamp::MAX`] if something that conflicts is present (P77).
        behind: Timestamp,
        /// Answers of the calls that came with the prepare and return something; `None` if they come with
        /// [`Response::Done`].
        replies: Option<Vec<(CallNo, Reply)>>,
        /// Some of them are of ordered calls, and count only if `at` is final (P76).
        is_tentative: bool,
    },
    /// A stamped attempt was carried out, and nothing of it is left here.
    Done {
        /// The attempt.
        attempt: AttemptId,
        /// Where.
        shard: ShardId,
        /// Its final timestamp, and what it stands behind.
        at: Timestamp,
        /// As in [`Response::Placed`].
        behind: Timestamp,
        /// All answers of calls that came with the prepare, if not all came with the vote.
        replies: Option<Vec<(CallNo, Reply)>>,
    },
    /// The answer to [`Request::Tick`].
    Ticked {
        /// The shard's clock: no later vote there is that small.
        clock: Timestamp,
        /// Its own time.
        now: Time,
        /// Up to here no vote comes any more, from any shard: it is long ago (P79).
        passed: Timestamp,
        /// It asks for timestamps (P87).
        orders: bool,
        /// A digest of the shards that own keys, as far as it knows (P79). See [`owners_digest`].
        owners: u64,
    },
    /// The answer to [`Request::Look`].
    Looked {
        /// To which one.
        look: LookNo,
        /// What was seen.
        seen: Seen,
    },
}

impl Response {
    /// The attempt it is about, if it is about one.
    pub fn attempt(&self) -> Option<AttemptId> {
        match self {
            Response::Ticked { .. } | Response::Looked { .. } => None,
            Response::Granted { attempt, .. }
            | Response::Queued { attempt, .. }
            | Response::Busy { attempt }
            | Response::Voted { attempt, .. }
            | Response::Committed { attempt, .. }
            | Response::Refused { attempt, .. }
            | Response::Applied { attempt, .. }
            | Response::Aborted { attempt, .. }
            | Response::Elder { attempt, .. }
            | Response::Asked { attempt, .. }
            | Response::Behind { attempt, .. }
            | Response::Placed { attempt, .. }
            | Response::Done { attempt, .. } => Some(*attempt),
        }
    }
}

impl Response {
    /// About how much memory it takes, in bytes. O(parts of its answers).
    pub fn size(&self) -> usize {
        let of = |replies: &[(CallNo, Reply)]| replies.iter().map(|(_, reply)| reply.size()).sum::<usize>();
        let beside = match self {
            Response::Granted { reply, .. } => reply.size(),
            Response::Voted { replies, .. } | Response::Committed { replies, .. } => of(replies),
            Response::Placed { replies, .. } | Response::Done { replies, .. } => {
                replies.as_deref().map_or(0, of)
            }
            Response::Looked { seen, .. } => seen.size(),
            Response::Behind { records, .. } => records.iter().map(|(key, _)| key.len()).sum(),
            Response::Queued { .. }
            | Response::Busy { .. }
            | Response::Refused { .. }
            | Response::Applied { .. }
            | Response::Aborted { .. }
            | Response::Elder { .. }
            | Response::Asked { .. }
            | Response::Ticked { .. } => 0,
        };
        size_of::<Response>() + beside
    }
}

/// Between shards: recovery of attempts in doubt (P23 to P25), clocks (P79), and what ways to commit say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// What have you written? Writes no if nothing is there.
    Inquire {
        /// The attempt.
        attempt: AttemptId,
        /// Who asks, and is prepared.
        from: ShardId,
        /// The asked shard's incarnation on the list.
        listed: Option<Incarnation>,
    },
    /// This.
    Answer {
        /// The attempt.
        attempt: AttemptId,
        /// Who answers.
        from: ShardId,
        /// What is written there.
        status: Status,
    },
    /// What is your clock? Raises it to what is wanted (P79).
    AskClock {
        /// Who asks.
        from: ShardId,
        /// As which incarnation.
        incarnation: Incarnation,
        /// As of [`Request::Tick`]; the largest of all: the asking one lost its memory (P85).
        want: Timestamp,
    },
    /// This.
    Clock {
        /// Who answers.
        from: ShardId,
        /// The incarnation that asked.
        incarnation: Incarnation,
        /// As of [`Response::Ticked`].
        clock: Timestamp,
        /// As of [`Response::Ticked`]; 0 for one that lost its memory: so far ahead anything may be, and it is no clock.
        owners: u64,
    },
    /// Something of a way to commit.
    Way {
        /// The attempt.
        attempt: AttemptId,
        /// Who says so.
        from: ShardId,
        /// What.
        words: WayWords,
    },
}

impl PeerMessage {
    /// Who says that it sends it.
    pub fn from(&self) -> ShardId {
        match self {
            PeerMessage::Inquire { from, .. }
            | PeerMessage::Answer { from, .. }
            | PeerMessage::AskClock { from, .. }
            | PeerMessage::Clock { from, .. }
            | PeerMessage::Way { from, .. } => *from,
        }
    }
}

/// A digest of a set of shards, in any order, each once: whoever counts clocks counts those of all that own keys (P79).
pub fn owners_digest(shards: impl Iterator<Item = ShardId>) -> u64 {
    let hash = |shard: ShardId| foldhash::fast::FixedState::with_seed(0x6f_776e).hash_one(shard.0);
    shards.fold(0, |sum, shard| sum.wrapping_add(hash(shard) | 1))
}

/// What a shard wants delivered.
#[derive(Clone, Debug)]
pub enum Output {
    /// To the coordinators of a session.
    Respond {
        /// Whose.
        session: SessionId,
        /// What.
        response: Response,
    },
    /// To another shard.
    Tell {
        /// Which.
        shard: ShardId,
        /// What.
        message: PeerMessage,
    },
}

/// Where a request comes from: a session's connection. After a reconnect the number is higher, and what
/// still arrives over the old one is dropped (trap 19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The session.
    pub session: SessionId,
    /// Its connection to this shard, counted from 0.
    pub connection: u32,
}
