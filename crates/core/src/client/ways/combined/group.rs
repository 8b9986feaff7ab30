//! A combined group: transactions of one process that commit together, as one attempt (C1 to C16).
//!
//! Every transaction begins as the leader and only member of its own group, and most stay alone. The group's
//! coordinator speaks to the shards under the leader's id, with the leader's birth.
//!
//! Invariants: the operations of any two present members on one record commute whatever the state
//! ([`Uses::check_invariants`]); a member's number is never given twice; nobody joins or leaves once the prepare has
//! left.

use claret_types::{Access, Bytes, Claims, Held, Mode, Modes, Operation, TypeInfo};
use indexmap::IndexMap;
use smallvec::SmallVec;

use crate::coordinator::Coordinator;
use crate::ids::{CallNo, Member, ShardId, Time, TxHandle};
use crate::limits::Limits;
use crate::message::Members;
use crate::planted::{Bug, is_planted};

/// A call of the group: the coordinator's numbers, in order, are the places in [`Group::calls`].
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) member: Member,
    /// Its number in the member's own count.
    pub(super) no: CallNo,
    /// What to register once it is granted: a read of a member without writes on the record.
    pub(super) read: Option<(Bytes, Operation)>,
}

/// A call that waits until another member's call on the record is answered.
#[derive(Clone, Debug)]
pub(super) struct Deferred {
    pub(super) tx: TxHandle,
    pub(super) no: CallNo,
    pub(super) shard: ShardId,
    pub(super) key: Bytes,
    pub(super) op: Operation,
    pub(super) reserve: Option<Claims>,
    /// It may be answered by a held read.
    pub(super) shareable: bool,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) coordinator: Coordinator,
    /// The transaction that this group's id belongs to; `None` once it is over or goes on under another id.
    pub(super) owner: Option<TxHandle>,
    /// Members that have not left, in the order they joined. Empty between attempts and afterwards.
    pub(super) present: SmallVec<[(Member, TxHandle); 1]>,
    /// How many ever joined this attempt.
    pub(super) joined: u16,
    pub(super) calls: Vec<Called>,
    pub(super) deferred: Vec<Deferred>,
    /// Members that want to commit.
    pub(super) ready: SmallVec<[Member; 1]>,
    /// Of these, those whose calls are only checked (O5).
    pub(super) checking: SmallVec<[Member; 1]>,
    /// Since when somebody wants to.
    pub(super) ready_since: Option<Time>,
    /// Members that asked for an abort after the prepare left.
    pub(super) regretting: SmallVec<[Member; 1]>,
    /// What the members use, once there are two.
    pub(super) uses: Option<Uses>,
    /// Records on which it has held reads registered.
    pub(super) read_keys: Vec<Bytes>,
    /// The deadline it is listed under.
    due: Option<Time>,
}

impl Group {
    pub(super) fn new(coordinator: Coordinator, owner: TxHandle) -> Self {
        let mut group = Group {
            coordinator,
            owner: Some(owner),
            present: SmallVec::new(),
            joined: 0,
            calls: Vec::new(),
            deferred: Vec::new(),
            ready: SmallVec::new(),
            checking: SmallVec::new(),
            ready_since: None,
            regretting: SmallVec::new(),
            uses: None,
            read_keys: Vec::new(),
            due: None,
        };
        group.found(owner);
        group
    }

    /// A new attempt begins, with its leader as the only member.
    pub(super) fn found(&mut self, leader: TxHandle) {
        self.dissolve();
        self.present.push((Member(0), leader));
        self.joined = 1;
    }

    /// The attempt is over, or the leader joins another group.
    pub(super) fn dissolve(&mut self) {
        debug_assert!(self.read_keys.is_empty(), "a closed group shares nothing");
        self.present.clear();
        self.joined = 0;
        self.calls.clear();
        self.deferred.clear();
        self.ready.clear();
        self.checking.clear();
        self.ready_since = None;
        self.regretting.clear();
        self.uses = None;
    }

    /// The deadline it is listed under from now on. The one before.
    pub(super) fn replace_due(&mut self, due: Option<Time>) -> Option<Time> {
        std::mem::replace(&mut self.due, due)
    }

    /// Admits a member and gives it a number.
    pub(super) fn admit(&mut self, tx: TxHandle) -> Member {
        let member = Member(self.joined);
        self.joined += 1;
        self.present.push((member, tx));
        member
    }

    /// Takes a member out; the others stay.
    pub(super) fn part(&mut self, member: Member) {
        let tx = self.tx_of(member);
        self.present.retain(|(number, _)| *number != member);
        self.deferred.retain(|deferred| Some(deferred.tx) != tx);
        self.ready.retain(|number| *number != member);
        self.checking.retain(|number| *number != member);
        if self.ready.is_empty() {
            self.ready_since = None;
        }
        if let Some(uses) = &mut self.uses {
            uses.remove(member);
        }
        self.coordinator.leave(member);
    }

    /// Whose effects count.
    pub(super) fn members(&self) -> Members {
        let is_all = self.present.len() == usize::from(self.joined) && self.checking.is_empty();
        if is_all && !is_planted(Bug::MatesLeftBehind) {
            return Members::All;
        }
        let present = self.present.iter().map(|(number, _)| *number);
        let counts = present.filter(|number| !self.checking.contains(number));
        Members::Only(counts.take(if is_planted(Bug::MatesLeftBehind) { 1 } else { usize::MAX }).collect())
    }

    pub(super) fn tx_of(&self, member: Member) -> Option<TxHandle> {
        self.present.iter().find(|(number, _)| *number == member).map(|(_, tx)| *tx)
    }

    /// Whether it has, or had, more members than the leader.
    pub(super) fn is_combined(&self) -> bool {
        self.joined > 1
    }

    /// Whether all members want to commit.
    pub(super) fn is_ready(&self) -> bool {
        !self.present.is_empty() && self.present.len() == self.ready.len() && self.coordinator.is_running()
    }

    /// When those who want to commit stop waiting for the others. An elder that waits for what the group holds
    /// makes it sooner: waiting for a mate counts as blocked (trap 14).
    pub(super) fn patience_ends(&self, limits: &Limits) -> Option<Time> {
        let since = self.ready_since.filter(|_| self.coordinator.is_running())?;
        let patience = match self.coordinator.waiting_elder() {
            Some(_) => limits.give_way_us.min(limits.group_wait_us_max),
            None => limits.group_wait_us_max,
        };
        Some(since.plus(patience))
    }
}

/// What one record is used for.
#[derive(Clone, Debug)]
struct Used {
    kind: &'static TypeInfo,
    reads: Claimed,
    writes: Claimed,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Claimed {
    sum: Held,
    list: Vec<(Member, Claims)>,
}

/// What the members of a group use, record by record: the check that the shard, which sees one owner, cannot
/// make (trap 13).
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    by_key: IndexMap<Bytes, Used, foldhash::fast::FixedState>,
}

impl Uses {
    /// Whether an operation commutes with everything that other members do on the record, whatever its state.
    /// O(modes x own operations on the record).
    pub(super) fn admit(&self, member: Option<Member>, key: &Bytes, op: &Operation) -> bool {
        let Some(used) = self.by_key.get(key) else { return true };
        let claims = used.claims_of(op);
        // Of two types all conflicts, but with what the member did itself.
        let modes = used.kind.common_modes(op.type_info()).unwrap_or(&used.kind.modes);
        // Reads commute, though what they may claim in different states does not: a member that is in and one
        // that is not.
        let reads = (op.method().access == Access::Write).then_some(&used.reads);
        reads
            .into_iter()
            .chain([&used.writes])
            .all(|claimed| claimed.admit(modes, member, &claims) || is_planted(Bug::MembersUnchecked))
    }

    pub(super) fn add(&mut self, member: Member, key: &Bytes, op: &Operation) {
        let fresh = || Used { kind: op.type_info(), reads: Claimed::default(), writes: Claimed::default() };
        let used = self.by_key.entry(key.clone()).or_insert_with(fresh);
        let claims = used.claims_of(op);
        if used.kind.is_of_any() {
            used.kind = op.type_info();
        }
        let claimed = match op.method().access {
            Access::Read => &mut used.reads,
            Access::Write => &mut used.writes,
        };
        claimed.sum.add(&claims);
        claimed.list.push((member, claims));
    }

    fn remove(&mut self, member: Member) {
        self.by_key.retain(|_, used| {
            used.reads.remove(member);
            used.writes.remove(member);
            !(used.reads.list.is_empty() && used.writes.list.is_empty())
        });
    }

    /// # Panics
    /// When two members conflict.
    pub(super) fn check_invariants(&self) {
        for (key, used) in &self.by_key {
            for (one, a) in &used.writes.list {
                let all = used.writes.list.iter().chain(&used.reads.list);
                for (other, b) in all.filter(|(other, _)| other != one) {
                    let conflict = a.conflict_with(b, &used.kind.modes);
                    assert!(!conflict, "'{key}': members {} and {} conflict", one.0, other.0);
                }
            }
        }
    }
}

impl Claimed {
    pub(super) fn admit(&self, modes: &Modes, member: Option<Member>, claims: &Claims) -> bool {
        let own = self.list.iter().filter(|(of, _)| Some(*of) == member).map(|(_, claims)| claims);
        self.sum.admits_modes(modes, claims, own)
    }

    fn remove(&mut self, member: Member) {
        for (_, claims) in self.list.iter().filter(|(of, _)| *of == member) {
            self.sum.remove(claims);
        }
        self.list.retain(|(of, _)| *of != member);
    }
}

impl Used {
    /// What an operation claims on the record, whatever there is. Two types on one record commute in nothing.
    fn claims_of(&self, op: &Operation) -> Claims {
        match self.kind.common_modes(op.type_info()) {
            None => Claims::record(Mode::EXCLUSIVE),
            Some(_) if is_planted(Bug::GroupForgetsExpiry) => op.footprint(),
            // What the record may do besides: expire (P71).
            Some(_) => op.footprint_with_expiry(),
        }
    }
}
