//! One attempt at one shard: what it holds, what it still waits for, and its write-once vote record (P2).
//!
//! ```text
//!   Open --prepare--> Preparing --all locked and executed--> Prepared --apply or abort--> gone
//!     \                  |                (yes is written)      (or: Placed --carried out--> gone)
//!      `---withdrawn, lease over, failed: no is written--> gone
//! ```
//!
//! Invariant: `Prepared` is yes; once there, only a decision ends it.

use std::collections::{BTreeMap, VecDeque, btree_map};

use claret_types::{Bytes, Reply};
use hashbrown::HashMap;
use indexmap::IndexMap;
use smallvec::{SmallVec, smallvec};

use super::lock_table::{LockTable, Owner, RecordIx};
use super::undone::Undoing;
use super::ways::Standing;
use crate::ids::{CallNo, Incarnation, ShardId, Time, Timestamp};
use crate::message::{Asks, Call, KeyedCall, Members, Participants, Status};
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;

/// Calls on one record, in their order. Mostly one.
pub(crate) type Calls = SmallVec<[Call; 1]>;

/// Calls on one record that could not go on: the first one waits in the record's queue (or was refused as
/// busy), the others stand behind it. Or there are too many to be executed at once, and all of them are put off.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    /// Where it waits. Without phases nobody waits in the record, and it may move. `None` when it is put off: that is no
    /// record's concern.
    pub(crate) record: Option<RecordIx>,
    /// It is in nobody's queue, since there is nothing for it yet: it sleeps (P91).
    pub(crate) sleeps: bool,
    pub(crate) calls: VecDeque<Call>,
}

impl Blocked {
    /// It waits in the queue of a record, if in one.
    pub(crate) fn in_queue(record: Option<RecordIx>, calls: VecDeque<Call>) -> Self {
        Blocked { record, sleeps: false, calls }
    }

    pub(crate) fn is_put_off(&self) -> bool {
        self.record.is_none() && !self.sleeps
    }
}

/// By key: at most one wait a record.
pub(crate) type AllBlocked = IndexMap<Bytes, Blocked, foldhash::fast::FixedState>;

/// The records where these wait.
pub(crate) fn queues_of(blocked: &AllBlocked) -> impl Iterator<Item = RecordIx> {
    blocked.values().filter_map(|it| it.record).filter(|_| !is_planted(Bug::PartedWaits))
}

/// Of these, those that sleep do so no more.
pub(crate) fn leave_beds(table: &mut LockTable, owner: Owner, blocked: &AllBlocked) {
    for (key, _) in blocked.iter().filter(|(_, blocked)| blocked.sleeps) {
        table.wake(key, (owner.birth, owner.attempt));
    }
}

/// What became of a call that came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heard {
    Waits,
    Granted,
    /// Its place among the answers.
    Answered(u32),
}

/// What a prepare said.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) participants: Participants,
    pub(crate) members: Members,
    /// What its yes is to be.
    pub(crate) asks: Asks,
    /// Its calls are ordered where they can be (P80).
    pub(crate) orders: bool,
    /// How many answers were there before the prepare: later ones travel with the vote.
    pub(crate) replies_before: usize,
    /// Where it stands in its way, if it does not go in two rounds.
    pub(crate) way: Option<Standing>,
    /// It locks nothing before its way goes on with it.
    pub(crate) waits_to_lock: bool,
    /// It is committed, and is carried out when nobody on its records comes before it any more.
    pub(crate) waits_to_apply: bool,
}

impl Round {
    /// One that goes in two rounds, and in which nothing was answered before.
    pub(crate) fn of(participants: Participants, members: Members, asks: Asks) -> Self {
        let (way, waits_to_lock, waits_to_apply) = (None, false, false);
        let (orders, replies_before) = (false, 0);
        Round { participants, members, asks, orders, replies_before, way, waits_to_lock, waits_to_apply }
    }
}

/// Where the attempt stands. See the module's text.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Open,
    Preparing(Round),
    Prepared {
        round: Round,
        /// With which timestamp, if it is stamped.
        place: Option<Place>,
        answers: SmallVec<[(ShardId, Status); 4]>,
        /// How long it waited after it asked the others last; 0 before that.
        asked_us: u64,
    },
    /// It is committed with this timestamp, and stands in some lines (P75).
    Placed {
        round: Round,
        /// What it had voted: its coordinator may ask again.
        voted: Place,
        at: Timestamp,
        behind: Timestamp,
        replies: Said,
        /// On so many records its turn has not come.
        unready: usize,
    },
}

/// What a vote with a timestamp said (P73 to P77).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: Timestamp,
    pub(crate) behind: Timestamp,
    pub(crate) said: Said,
}

/// Of the calls that came with a prepare: what was answered with the vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// All answers, and they count.
    All,
    /// All, and from this place on they count only if the vote is final.
    Tentative { locked: usize },
    /// None: some are not known yet.
    Nothing,
}

/// Calls of an attempt that were granted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Granted {
    pub(crate) count: u32,
    /// Some are commands of the server, which are carried out when it is applied, and answer then.
    pub(crate) has_commands: bool,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Participant {
    pub(crate) owner: Owner,
    pub(crate) stage: Stage,
    /// Records on which it holds something, each once.
    pub(crate) held: SmallVec<[RecordIx; 4]>,
    pub(crate) blocked: AllBlocked,
    /// Records that the prepare locks after the one for which it waits.
    pub(crate) behind: std::vec::IntoIter<(Bytes, Calls)>,
    /// Its turn, when it is put off.
    pub(crate) turn: Option<u64>,
    /// Calls that were granted.
    pub(crate) granted: Granted,
    /// Answers of calls that return something, in the order granted.
    pub(crate) replies: Vec<(CallNo, Reply)>,
    /// Calls that came with an execute, to tell doubles.
    pub(crate) seen: BTreeMap<CallNo, Heard>,
    /// What its user has undone, if anything.
    pub(crate) undone: Option<Box<Undoing>>,
    /// When its lease ends, or when it asks the others again.
    pub(crate) deadline: Option<Time>,
    /// Whose it is, as far as bytes are counted.
    pub(crate) account: u64,
    /// The incarnation that the shard is to its session.
    pub(crate) met_as: Incarnation,
    /// Calls that came, and bytes that they and answers take.
    pub(crate) calls: usize,
    pub(crate) bytes: usize,
}

impl Participant {
    pub(crate) fn new(owner: Owner, account: u64, met_as: Incarnation) -> Self {
        Participant {
            owner,
            stage: Stage::Open,
            held: SmallVec::new(),
            blocked: AllBlocked::default(),
            behind: Vec::new().into_iter(),
            turn: None,
            granted: Granted::default(),
            replies: Vec::new(),
            seen: BTreeMap::new(),
            undone: None,
            deadline: None,
            account,
            met_as,
            calls: 0,
            bytes: 0,
        }
    }

    /// Takes out what waits only for members that left their group (C13).
    pub(crate) fn leave_behind(&mut self, members: &Members) -> AllBlocked {
        let stays = |blocked: &Blocked| blocked.calls.iter().any(|call| members.includes(call.member));
        let blocked = std::mem::take(&mut self.blocked);
        let (blocked, left) = blocked.into_iter().partition(|(_, blocked)| stays(blocked));
        self.blocked = blocked;
        left
    }

    /// Whether a call of it may sleep: it holds nothing meanwhile, and has nothing else to do.
    pub(crate) fn may_sleep(&self) -> bool {
        let has_nothing = self.held.is_empty() || is_planted(Bug::SleepersHold);
        matches!(self.stage, Stage::Open) && has_nothing && self.blocked.is_empty()
    }

    /// Whether it may vote: everything is locked and executed (P1).
    pub(crate) fn may_vote(&self) -> bool {
        let has_all = self.blocked.is_empty() && self.behind.len() == 0 && !self.waits_to_lock();
        has_all || is_planted(Bug::VoteBeforeLastGrant)
    }

    /// The calls that did not come before. They come again when a message is doubled or sent again, and, without phases, when one of
    /// them was busy (P10).
    pub(crate) fn unseen(&mut self, switches: &Switches, mut calls: Calls) -> Calls {
        let comes_once = switches.is_direct() && switches.is_phased();
        if comes_once || is_planted(Bug::ExecuteTwice) {
            return calls;
        }
        calls.retain(|call| match self.seen.entry(call.no) {
            btree_map::Entry::Vacant(entry) => {
                entry.insert(Heard::Waits);
                true
            }
            btree_map::Entry::Occupied(_) => false,
        });
        calls
    }

    /// Whether it locks nothing before its way goes on with it.
    pub(crate) fn waits_to_lock(&self) -> bool {
        self.round().is_some_and(|round| round.waits_to_lock)
    }

    /// Whether it is committed, and is carried out later.
    pub(crate) fn waits_to_apply(&self) -> bool {
        self.round().is_some_and(|round| round.waits_to_apply)
    }

    /// Whether nothing came yet that it would know of.
    pub(crate) fn is_new(&self) -> bool {
        self.undone.is_none() && self.held.is_empty() && self.blocked.is_empty() && self.seen.is_empty()
    }

    /// What its prepare said, once that is here.
    pub(crate) fn round(&self) -> Option<&Round> {
        match &self.stage {
            Stage::Open => None,
            Stage::Preparing(round) | Stage::Prepared { round, .. } | Stage::Placed { round, .. } => {
                Some(round)
            }
        }
    }

    /// It writes yes, with a timestamp if it has a place.
    ///
    /// # Panics
    /// Unless it prepares.
    pub(crate) fn write_yes(&mut self, place: Option<Place>) {
        let Stage::Preparing(round) = std::mem::replace(&mut self.stage, Stage::Open) else {
            unreachable!("only a preparing one votes")
        };
        self.stage = Stage::Prepared { round, place, answers: SmallVec::new(), asked_us: 0 };
    }

    /// Whether it has voted with a timestamp.
    pub(crate) fn is_stamped(&self) -> bool {
        self.place().is_some()
    }

    pub(crate) fn is_prepared(&self) -> bool {
        matches!(self.stage, Stage::Prepared { .. } | Stage::Placed { .. })
    }

    /// What it voted, if it has with a timestamp.
    pub(crate) fn place(&self) -> Option<Place> {
        match self.stage {
            Stage::Prepared { place, .. } => place,
            Stage::Placed { voted, .. } => Some(voted),
            Stage::Open | Stage::Preparing(_) => None,
        }
    }

    /// Takes the answers from this one on.
    pub(crate) fn take_replies(&mut self, from: usize) -> Vec<(CallNo, Reply)> {
        match from {
            0 => std::mem::take(&mut self.replies), // Mostly; to split there would allocate.
            from => self.replies.split_off(from),
        }
    }

    /// The answers that travel with the vote.
    pub(crate) fn voted_answers(&self) -> &[(CallNo, Reply)] {
        self.round().map_or(&[], |round| &self.replies[round.replies_before..])
    }

    /// The same, to be said.
    pub(crate) fn voted_replies(&self) -> Vec<(CallNo, Reply)> {
        self.voted_answers().to_vec()
    }

    /// What influences what comes next, for a digest. Where calls are is known by what is held and what waits.
    pub(super) fn content<'a>(&'a self, table: &'a LockTable) -> impl std::fmt::Debug + use<'a> {
        let Participant {
            owner,
            stage,
            held,
            blocked,
            behind,
            turn: _,
            granted,
            replies,
            seen,
            undone,
            deadline,
            account: _,
            met_as,
            calls: _,
            bytes: _,
        } = self;
        let held: Vec<_> = held.iter().map(|record| table.key(*record)).collect();
        let undone = undone.as_ref().map_or(&[][..], |undone| undone.ranges());
        let blocked: Vec<_> =
            blocked.iter().map(|(key, it)| (key, &it.calls, it.is_put_off(), it.sleeps)).collect();
        (owner, stage, held, blocked, behind, granted, replies, seen, (deadline, met_as, undone))
    }
}

/// Groups calls by record, keeping the order of each record's calls. O(calls).
pub(crate) fn by_key(calls: Vec<KeyedCall>) -> Vec<(Bytes, Calls)> {
    // Where they are few, looking at all is cheaper than hashing.
    const FEW: usize = 8;
    if calls.len() > FEW {
        return many_by_key(calls);
    }
    let mut grouped: Vec<(Bytes, Calls)> = Vec::with_capacity(calls.len());
    for KeyedCall { key, call } in calls {
        match grouped.iter_mut().find(|(known, _)| *known == key) {
            Some((_, calls)) => calls.push(call),
            None => grouped.push((key, smallvec![call])),
        }
    }
    grouped
}

/// First counts, so that no group grows: memory that is touched for the first time costs more than all of this.
fn many_by_key(calls: Vec<KeyedCall>) -> Vec<(Bytes, Calls)> {
    let mut places: HashMap<&Bytes, u32, foldhash::fast::FixedState> =
        HashMap::with_capacity_and_hasher(calls.len(), foldhash::fast::FixedState::default());
    let mut counts: Vec<usize> = Vec::with_capacity(calls.len());
    let mut put_to: Vec<u32> = Vec::with_capacity(calls.len());
    for KeyedCall { key, .. } in &calls {
        let at = *places.entry(key).or_insert(counts.len() as u32);
        match counts.get_mut(at as usize) {
            Some(count) => *count += 1,
            None => counts.push(1),
        }
        put_to.push(at);
    }
    drop(places);
    let room = |count| (Bytes::default(), Calls::with_capacity(count));
    let mut grouped: Vec<(Bytes, Calls)> = counts.into_iter().map(room).collect();
    for (KeyedCall { key, call }, at) in calls.into_iter().zip(put_to) {
        let (known, calls) = &mut grouped[at as usize];
        if calls.is_empty() {
            *known = key;
        }
        calls.push(call);
    }
    grouped
}
