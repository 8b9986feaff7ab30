//! What a shard tells its replicas (S1 to S8 and S16, S17 of `docs/replication.md`), and what a replica makes of it.
//!
//! A [`Change`] is one thing that the shard has written beside its records. Records travel on the host's own way; the host sees to it
//! that a change and what it does to records reach a replica together or not at all. A [`Backup`] is what a replica knows:
//! [`Shard::promote`](crate::Shard::promote) makes a shard of it.
//!
//! Bounds are the primary's: a backup keeps what the primary keeps, but for what that has forgotten of sessions that are not gone as
//! a whole.

use std::collections::{BTreeMap, BTreeSet};

use claret_types::carried::{long_list, short_list};
use claret_types::{BUILTIN, Bytes, Claims, Effect, Reply, State, TypeInfo};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use crate::ids::{
    AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Timestamp, TxId,
};
use crate::message::{Call, Members, Participants};

/// One thing that a shard has written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Change {
    /// All that was said before counts no more: everything follows, or there is nothing.
    Began {
        /// The shard: whoever is promoted goes on as the same one.
        shard: ShardId,
        /// The first incarnation whose votes and decisions are all told.
        since: Incarnation,
    },
    /// The shard goes on as this incarnation, or is this one to some session: no later one may be as small.
    Incarnation(Incarnation),
    /// A session was greeted, and since when nothing of it was forgotten too soon (P59).
    Greeted {
        /// Whose.
        session: SessionId,
        /// Under which it is counted.
        account: u64,
        /// As the shard remembers it.
        since: Option<Incarnation>,
    },
    /// A yes.
    Voted(Box<Vote>),
    /// What had voted with a timestamp is committed, and stands here from now on. What it held by locks was carried out.
    Placed {
        /// The attempt.
        attempt: AttemptId,
        /// The final timestamp (P74).
        at: Timestamp,
    },
    /// What had voted was undone.
    Dropped(AttemptId),
    /// Decided for good: applied, or given up because nobody knows (P25).
    Decided {
        /// The attempt.
        attempt: AttemptId,
        /// Whether it was applied.
        is_applied: bool,
        /// Its answers, for doubles of its prepare; `None` when they were too many to keep.
        replies: Option<Vec<(CallNo, Reply)>>,
        /// The participants.
        listed: Option<Participants>,
        /// The final timestamp, if it was stamped.
        at: Option<Timestamp>,
    },
    /// A low-water mark (P28).
    Passed {
        /// Whose.
        session: SessionId,
        /// No earlier transaction of it is open.
        low_water: Sequence,
    },
    /// Nothing of a session is kept any more (P58).
    Forgotten(SessionId),
    /// A record vanished, and those who have voted on it come before that (P36).
    Vanished {
        /// The record.
        key: Bytes,
        /// What those see who stand in its line: as it was, with what was carried out of them since (P86).
        seen: Option<Box<State>>,
    },
    /// Timestamps up to here may have been used or published: whoever is promoted begins behind them (S17).
    Used(Timestamp),
    /// What the host wants whoever is promoted to know. The last one counts.
    OfHost(Bytes),
    /// What an attempt that was told as applied has answered its coordinator may not have heard (A24).
    AnsweredLate(AttemptId),
}

/// A yes, and all that it keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Vote {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its transaction's birth.
    pub birth: Birth,
    /// Whom it asks when in doubt.
    pub participants: Participants,
    /// Whose effects count.
    pub members: Members,
    /// The answers that travel with it.
    #[serde(deserialize_with = "long_list")]
    pub replies: Vec<(CallNo, Reply)>,
    /// Under which it is counted, and how much.
    pub account: u64,
    /// In bytes.
    pub bytes: u64,
    /// What it holds.
    #[serde(deserialize_with = "long_list")]
    pub held: Vec<HeldRecord>,
    /// With which timestamp, if it is stamped.
    pub place: Option<VotedPlace>,
}

/// What a vote with a timestamp said of it (P73 to P77).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotedPlace {
    /// The timestamp.
    pub at: Timestamp,
    /// What it stands behind.
    pub behind: Timestamp,
    /// Which answers it brought.
    pub answers: VotedAnswers,
}

/// Which answers a vote with a timestamp brought (P76).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VotedAnswers {
    /// All, and they count.
    All,
    /// All, but those behind the first so many count only if the vote is final.
    Tentative(u32),
    /// Those of ordered calls come when these are carried out.
    Later,
}

/// What a vote holds on one record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldRecord {
    /// The record.
    pub key: Bytes,
    /// The type whose modes are held.
    #[serde(serialize_with = "write_kind", deserialize_with = "read_kind")]
    pub kind: &'static TypeInfo,
    /// The record vanished, and the effects come to nothing.
    pub has_vanished: bool,
    /// The calls that were granted by locks.
    #[serde(deserialize_with = "long_list")]
    pub granted: Vec<Granted>,
    /// The calls that are executed when its turn comes: then it holds nothing by locks.
    #[serde(deserialize_with = "short_list")]
    pub in_order: SmallVec<[Call; 1]>,
}

/// A call that was granted: whose, what it claims, and what it does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Granted {
    /// Whose.
    pub member: Member,
    /// What it holds.
    pub claims: Claims,
    /// What is carried out when it is applied.
    pub effect: Option<Effect>,
}

fn write_kind<S: Serializer>(kind: &&'static TypeInfo, serializer: S) -> Result<S::Ok, S::Error> {
    match BUILTIN.iter().position(|known| known.id == kind.id) {
        Some(place) => serializer.serialize_u8(place as u8),
        None => Err(serde::ser::Error::custom(format_args!("type {} is not built in", kind.name))),
    }
}

fn read_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static TypeInfo, D::Error> {
    let place = u8::deserialize(deserializer)?;
    let kind = BUILTIN.get(usize::from(place)).copied();
    kind.ok_or_else(|| serde::de::Error::custom(format_args!("there is no type number {place}")))
}

/// What is known of a session.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) account: u64,
    pub(crate) since: Option<Incarnation>,
    pub(crate) low_water: Sequence,
    /// Decisions, by transaction and attempt.
    pub(crate) decided: BTreeMap<(Sequence, u32), KnownDecision>,
}

impl Default for Known {
    fn default() -> Self {
        Known { account: 0, since: None, low_water: Sequence(0), decided: BTreeMap::new() }
    }
}

/// A decision that may be asked for.
#[derive(Clone, Debug)]
pub(crate) struct KnownDecision {
    pub(crate) is_applied: bool,
    pub(crate) replies: Option<Vec<(CallNo, Reply)>>,
    pub(crate) listed: Option<Participants>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) is_unacknowledged: bool,
}

/// What a replica knows of its shard. See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Backup {
    /// The shard and since when all is known; `None` before the first [`Change::Began`].
    pub(crate) of: Option<(ShardId, Incarnation)>,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) votes: BTreeMap<AttemptId, Vote>,
    /// Final timestamps of those that are not carried out. Each has a vote with a timestamp.
    pub(crate) placed: BTreeMap<AttemptId, Timestamp>,
    /// What those see who stand in the line of a record that vanished. Somebody holds each.
    pub(crate) seen: BTreeMap<Bytes, Box<State>>,
    /// Timestamps up to here may have been used.
    pub(crate) used: Timestamp,
    pub(crate) sessions: BTreeMap<SessionId, Known>,
    of_host: Bytes,
}

impl Backup {
    /// Of which shard it is; `None`: it is of none, and nobody may be promoted to it.
    pub fn shard(&self) -> Option<ShardId> {
        self.of.map(|(shard, _)| shard)
    }

    /// The largest incarnation that it heard of.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// What the primary's host wanted to be known ([`Shard::note_of_host`](crate::Shard::note_of_host)).
    pub fn of_host(&self) -> &[u8] {
        &self.of_host
    }

    /// Votes that are not decided.
    pub fn votes(&self) -> usize {
        self.votes.len()
    }

    /// Decisions that are remembered. O(sessions).
    pub fn decisions(&self) -> usize {
        self.sessions.values().map(|known| known.decided.len()).sum()
    }

    /// Takes the next change, in the order in which the shard told them. O(log of what is known), but for marks and records that
    /// vanish.
    pub fn take(&mut self, change: Change) {
        match change {
            Change::Began { shard, since } => {
                *self = Backup { of: Some((shard, since)), incarnation: Some(since), ..Backup::default() };
            }
            Change::Incarnation(incarnation) => {
                self.incarnation = self.incarnation.max(Some(incarnation));
            }
            Change::Greeted { session, account, since } => {
                let known = self.sessions.entry(session).or_default();
                (known.account, known.since) = (account, since);
            }
            Change::Voted(vote) => {
                let known = self.sessions.entry(vote.attempt.tx.session).or_default();
                // A yes comes before what is decided of it: one that comes after is of nobody.
                if !known.decided.contains_key(&(vote.attempt.tx.sequence, vote.attempt.attempt)) {
                    self.end(vote.attempt);
                    self.votes.insert(vote.attempt, *vote);
                }
            }
            Change::Placed { attempt, at } => self.place(attempt, at),
            Change::Dropped(attempt) => self.end(attempt),
            Change::Decided { attempt, is_applied, replies, listed, at } => {
                self.end(attempt);
                let known = self.sessions.entry(attempt.tx.session).or_default();
                let place = (attempt.tx.sequence, attempt.attempt);
                if attempt.tx.sequence >= known.low_water {
                    let is_unacknowledged = false;
                    let known_decision = KnownDecision { is_applied, replies, listed, at, is_unacknowledged };
                    known.decided.insert(place, known_decision);
                }
            }
            Change::Passed { session, low_water } => {
                let known = self.sessions.entry(session).or_default();
                known.low_water = known.low_water.max(low_water);
                known.decided = known.decided.split_off(&(known.low_water, 0));
            }
            Change::Forgotten(session) => drop(self.sessions.remove(&session)),
            Change::Vanished { key, seen } => {
                let held = self.votes.values_mut().flat_map(|vote| &mut vote.held);
                let held = held.filter(|held| held.key == key);
                let is_held = held.fold(false, |_, held| {
                    held.has_vanished = true;
                    true
                });
                self.seen.remove(&key);
                self.seen.extend(seen.filter(|_| is_held).map(|seen| (key, seen)));
            }
            Change::Used(used) => self.used = self.used.max(used),
            Change::OfHost(note) => self.of_host = note,
            Change::AnsweredLate(attempt) => {
                let known = self.sessions.get_mut(&attempt.tx.session);
                let decided =
                    known.and_then(|it| it.decided.get_mut(&(attempt.tx.sequence, attempt.attempt)));
                decided.into_iter().for_each(|decided| decided.is_unacknowledged = true);
            }
        }
    }

    /// What an attempt held by locks was carried out, if it has voted with a timestamp.
    fn place(&mut self, attempt: AttemptId, at: Timestamp) {
        let Some(vote) = self.votes.get_mut(&attempt) else { return };
        let Some(place) = vote.place else { return };
        let (stays, goes): (Vec<_>, Vec<_>) =
            std::mem::take(&mut vote.held).into_iter().partition(|held| !held.in_order.is_empty());
        vote.held = stays;
        self.placed.insert(attempt, at.max(place.at));
        self.forget_seen(&goes);
    }

    fn end(&mut self, attempt: AttemptId) {
        self.placed.remove(&attempt);
        if let Some(vote) = self.votes.remove(&attempt) {
            self.forget_seen(&vote.held);
        }
    }

    /// These are held no more by one of those who held them.
    fn forget_seen(&mut self, held: &[HeldRecord]) {
        if self.seen.is_empty() {
            return; // Mostly.
        }
        for HeldRecord { key, .. } in held {
            if !self.seen.contains_key(key) {
                continue;
            }
            let mut others = self.votes.values().flat_map(|vote| &vote.held);
            if !others.any(|other| other.key == *key) {
                self.seen.remove(key);
            }
        }
    }

    /// All of it, as changes that make the same backup of an empty one.
    pub fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let began = self.of.map(|(shard, since)| Change::Began { shard, since });
        let incarnation = self.incarnation.map(Change::Incarnation);
        let sessions = self.sessions.iter().flat_map(|(session, known)| known.changes(*session));
        let votes = self.votes.values().map(|vote| Change::Voted(Box::new(vote.clone())));
        let of_host = (!self.of_host.is_empty()).then(|| Change::OfHost(self.of_host.clone()));
        let placed = self.placed.iter().map(|(attempt, at)| Change::Placed { attempt: *attempt, at: *at });
        let seen = self.seen.iter();
        let seen = seen.map(|(key, seen)| Change::Vanished { key: key.clone(), seen: Some(seen.clone()) });
        let used = (self.used > Timestamp::default()).then_some(Change::Used(self.used));
        let ordered = placed.chain(seen).chain(used);
        began.into_iter().chain(incarnation).chain(of_host).chain(sessions).chain(votes).chain(ordered)
    }

    /// Keys on which somebody holds something.
    pub fn held_keys(&self) -> BTreeSet<&Bytes> {
        self.votes.values().flat_map(|vote| &vote.held).map(|held| &held.key).collect()
    }
}

impl Known {
    fn changes(&self, session: SessionId) -> impl Iterator<Item = Change> + '_ {
        let Known { account, since, low_water, .. } = *self;
        let greeted = Change::Greeted { session, account, since };
        let passed = (low_water > Sequence(0)).then_some(Change::Passed { session, low_water });
        let decided = self.decided.iter().flat_map(move |((sequence, number), it)| {
            let attempt = AttemptId { tx: TxId { session, sequence: *sequence }, attempt: *number };
            let (is_applied, replies, listed, at) =
                (it.is_applied, it.replies.clone(), it.listed.clone(), it.at);
            let late = it.is_unacknowledged.then_some(Change::AnsweredLate(attempt));
            std::iter::once(Change::Decided { attempt, is_applied, replies, listed, at }).chain(late)
        });
        std::iter::once(greeted).chain(passed).chain(decided)
    }
}

/// Changes that leave together.
pub type Changes = SmallVec<[Change; 4]>;
