//! The line of a record: who claims it in order, and where each stands (P73 to P77, P80).
//!
//! A record that stands in line does not end by its time: one that expires is not ordered, and nobody sets an expiry beside a line.
//!
//! Claims in order are footprints. They do not conflict with each other: who has voted stands in the line by its timestamp, and
//! is carried out when nobody who conflicts stands before it. Beside locks they are claims like any other.
//!
//! A line is looked through only when somebody in it gets its final place or leaves. Who cannot be carried out then notes itself
//! with the nearest one before it that conflicts, and is looked at again when that one goes. So each is looked at about twice,
//! however long the line is.
//!
//! Invariants ([`Line::check_invariants`]): `claimed` is the sum of the claims of all holders in order; who is final and still here
//! is noted with one that stands before it.

use std::collections::BTreeMap;

use claret_types::{Held, Mode, Modes, Operation, Reply, TypeInfo};
use smallvec::SmallVec;

use super::holder::{Holder, Used};
use super::{
    AttemptId, Birth, Bytes, Call, CallNo, Claims, Clocks, Effect, External, Item, Lock, LockTable, Notice,
    Owner, Record, RecordIx, State, Stop, Time, expiry_of, footprint, key_hash,
};
use crate::ids::Timestamp;
use crate::planted::{Bug, is_planted};
use crate::records::Applied;
use crate::switches::Ordered;

/// Who claims this may set an expiry.
const SETS_EXPIRY: u16 = 1 << Mode::EXTEND_EXPIRY.0;

/// Where somebody stands.
type Place = (Timestamp, AttemptId);

/// Somebody who has voted.
#[derive(Clone, Debug, Default)]
struct Standing {
    is_final: bool,
    /// Nobody who conflicts stands before it, nor ever will.
    is_ready: bool,
    /// The nearest one before it that conflicts, and goes first.
    behind: Option<AttemptId>,
    /// Those who are looked at again when this one goes.
    watchers: SmallVec<[AttemptId; 2]>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) claimed: Held,
    standing: BTreeMap<Place, Standing>,
}

/// What a holder in order is going to do.
#[derive(Clone, Debug, Default)]
pub(super) struct InOrder {
    calls: SmallVec<[Call; 1]>,
    /// Where it stands, once it has voted.
    place: Option<Timestamp>,
    /// Its answers are wanted when it is carried out.
    answers: bool,
}

/// What came of carrying out an attempt on a record.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// If they were wanted.
    pub(crate) replies: Vec<(CallNo, Reply)>,
    /// Who stood behind it, to be looked at.
    pub(crate) watchers: SmallVec<[AttemptId; 2]>,
    /// The record had vanished, and others see it changed.
    pub(crate) is_seen: bool,
}

impl Line {
    /// Takes somebody out. Who has to be looked at again.
    fn leave(&mut self, place: Place) -> SmallVec<[AttemptId; 2]> {
        self.standing.remove(&place).map(|standing| standing.watchers).unwrap_or_default()
    }

    /// Who stands where: for digests. Who watches whom follows from that.
    pub(super) fn content(&self) -> impl std::fmt::Debug + '_ {
        self.standing.iter().map(|(place, standing)| (place, standing.is_final)).collect::<Vec<_>>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.claimed.is_empty() && self.standing.is_empty()
    }

    /// How many stand in it.
    pub(super) fn len(&self) -> usize {
        self.standing.len()
    }
}

impl Lock {
    /// Whether those who claim the record in order are not in the way of claims by a lock.
    pub(super) fn admits_beside_line(&self, modes: &Modes, claims: &Claims) -> bool {
        self.line.as_ref().is_none_or(|line| {
            let admits = || line.claimed.admits_modes(modes, claims, std::iter::empty());
            !claims.have(SETS_EXPIRY) && (admits() || is_planted(Bug::LocksPassOrdered))
        })
    }

    /// Who claims the record in order, and holds it, stands in its line at this timestamp.
    pub(super) fn stand(&mut self, attempt: AttemptId, at: Timestamp) {
        let (Some(line), Some(holder)) = (&mut self.line, self.holders.get_mut(&attempt)) else { return };
        if let Some(in_order) = &mut holder.in_order {
            in_order.place = Some(at);
            line.standing.insert((at, attempt), Standing::default());
        }
    }

    /// # Panics
    /// When an invariant of the line does not hold.
    pub(super) fn check_line(&self, key: &Bytes, claimed: &Held) {
        let Some(line) = &self.line else {
            return assert!(claimed.is_empty(), "'{key}' is claimed in order, and has no line");
        };
        assert!(line.claimed == *claimed, "'{key}': what is claimed in order does not add up");
        for (place, standing) in &line.standing {
            let holder = self.holders.get(&place.1);
            assert!(
                holder.is_some_and(|it| it.stands() == Some(place.0)),
                "'{key}': {} stands elsewhere",
                place.1
            );
            let watches =
                |(before, it): (&Place, &Standing)| before < place && it.watchers.contains(&place.1);
            assert!(
                !standing.is_final || standing.is_ready || line.standing.iter().any(watches),
                "'{key}': nobody is going to look at {} again",
                place.1
            );
        }
    }
}

impl Holder {
    /// Whether it claims in order, not by locks.
    pub(super) fn is_in_order(&self) -> bool {
        self.in_order.is_some()
    }

    /// What it is going to do, if it claims in order.
    pub(super) fn calls_in_order(&self) -> Option<&SmallVec<[Call; 1]>> {
        self.in_order.as_ref().map(|in_order| &in_order.calls)
    }

    fn wants_answers(&self) -> bool {
        self.in_order.as_ref().is_some_and(|in_order| in_order.answers)
    }

    fn stands(&self) -> Option<Timestamp> {
        self.in_order.as_ref()?.place
    }

    pub(super) fn conflicts_with(&self, lock: &Lock, other: &Holder) -> bool {
        let Some(kind) = lock.kind else { return true };
        self.claims().any(|own| other.claims().any(|its| own.conflict_with(its, &kind.modes)))
    }
}

impl LockTable {
    // --- asking ---

    /// Whether calls on a record that come together claim it in order: the record is one for that, they can be done whatever
    /// comes before them (P82), and their owner holds nothing of it by locks.
    pub(crate) fn is_in_order(&self, record: RecordIx, owner: Owner, calls: &[Call]) -> bool {
        let lock = &self.records[record].lock;
        if let Some(own) = lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt)) {
            return own.is_in_order();
        }
        let record = &self.records[record];
        self.orders(record.hash) && self.may_order(&record.key, Some(record), calls)
    }

    /// Whether anybody claims this record in order, or may begin to.
    #[inline]
    pub(crate) fn may_be_in_order(&self, record: RecordIx) -> bool {
        let Record { hash, lock, .. } = &self.records[record];
        self.orders(*hash) || lock.as_ref().is_some_and(|lock| lock.line.is_some())
    }

    /// Whether calls that come together, each group on one record, can all be ordered.
    pub(crate) fn may_order_all(&self, groups: &[(Bytes, SmallVec<[Call; 1]>)]) -> bool {
        groups.iter().all(|(key, calls)| {
            let hash = key_hash(key);
            let record = self.find(hash, key).map(|record| &self.records[record]);
            self.orders(hash) && self.may_order(key, record, calls)
        })
    }

    /// Whether these calls can be done whatever comes before them, on a record of their type that does not end by its time.
    fn may_order(&self, key: &Bytes, record: Option<&Record>, calls: &[Call]) -> bool {
        let kind = calls[0].op.type_info();
        let is_total = |call: &Call| call.op.is_total() && call.op.is_builtin();
        if !calls.iter().all(|call| is_total(call) && call.op.type_info().id == kind.id) {
            return false;
        }
        let fits = |state: &State| state.expiry().is_none() && calls.iter().all(|call| call.op.fits(state));
        let lock = record.and_then(|record| record.lock.as_ref());
        match (lock.is_some_and(|lock| lock.line.is_some()), self.external) {
            // As long as somebody stands in line it is of that type, or is not there; others wait for that.
            (true, _) => true,
            (false, None) => record.and_then(|record| record.state.as_ref()).is_none_or(fits),
            (false, Some(External(records))) => records.may_order(key, &calls[0].op),
        }
    }

    /// So many have to meet on a record from now on, for it to be ordered.
    pub(crate) fn set_meets_min(&mut self, meets_min: u32) {
        self.limits.ordered_meets_min = meets_min;
        self.heat.set_meets_min(meets_min);
    }

    /// Whether calls on this record are ordered.
    #[inline]
    fn orders(&self, hash: u64) -> bool {
        match self.switches.ordering {
            Ordered::Never => false,
            Ordered::Hot => self.heat.is_ordered(hash),
            Ordered::Always => true,
        }
    }

    /// Whether some of these calls, each group on one record, are to be ordered.
    pub(crate) fn is_any_ordered(&self, groups: &[(Bytes, SmallVec<[Call; 1]>)]) -> bool {
        self.heat.has_any() && groups.iter().any(|(key, _)| self.heat.is_ordered(key_hash(key)))
    }

    /// Claims a record in order for one call, or waits. Whether the owner held nothing of it before.
    pub(crate) fn request_in_order(
        &mut self,
        now: Time,
        record: RecordIx,
        owner: Owner,
        call: &Call,
    ) -> Result<bool, Stop> {
        if self.admits_in_order(record, call) && self.may_join(now, record, owner, call) {
            Ok(self.grant_in_order(record, owner, call))
        } else {
            Err(self.enqueue(now, record, owner, call, true))
        }
    }

    /// What a call claims in order: whatever it may claim in any state.
    fn claims_in_order(&self, call: &Call) -> Claims {
        let claims = footprint(&self.switches, call, false);
        if claims.list.is_empty() { call.op.footprint_with_expiry() } else { claims }
    }

    /// Whether no lock is in the way of a call that claims in order.
    pub(super) fn admits_in_order(&self, record: RecordIx, call: &Call) -> bool {
        let Some(lock) = &self.records[record].lock else { return true };
        let Some(kind) = lock.kind else { return !lock.vanished };
        let claims = self.claims_in_order(call);
        let admits = |modes| {
            let admits = lock.held.admits_modes(modes, &claims, std::iter::empty());
            admits || is_planted(Bug::OrderedPassesLocks)
        };
        !lock.vanished
            && !lock.held.have(SETS_EXPIRY)
            && kind.common_modes(call.op.type_info()).is_some_and(admits)
    }

    /// Whether a call that waits to claim the record in order still can: it may be of another type by now.
    pub(super) fn may_still_order(&self, record: RecordIx, owner: Owner, call: &Call) -> bool {
        self.is_in_order(record, owner, std::slice::from_ref(call))
    }

    pub(super) fn grant_in_order(&mut self, record: RecordIx, owner: Owner, call: &Call) -> bool {
        let claims = self.claims_in_order(call);
        let item = Item::of(call, claims, None);
        let first = self.grant(record, owner, call, item, true);
        let lock = self.records[record].lock.as_mut().expect("just granted");
        let holder = lock.holders.get_mut(&owner.attempt).expect("just granted");
        holder.in_order.get_or_insert_default().calls.push(call.clone());
        first
    }

    // --- voting ---

    /// The largest clock of a record for what conflicts with what an attempt claims there: its vote has to be larger (P73).
    pub(crate) fn clock_before(&self, record: RecordIx, attempt: AttemptId) -> Timestamp {
        let Record { hash, lock: Some(lock), .. } = &self.records[record] else {
            return Timestamp::default();
        };
        let (Some(kind), Some(holder)) = (lock.kind, lock.holders.get(&attempt)) else {
            return Timestamp::default();
        };
        self.clocks.before(*hash, kind, holder.used)
    }

    /// The largest clock of a record for what conflicts with an operation.
    pub(crate) fn clock_before_op(&self, hash: u64, op: &Operation) -> Timestamp {
        let mut used = Used::default();
        used.add(&op.footprint_with_expiry());
        self.clocks.before(hash, op.type_info(), used)
    }

    /// The largest clock of a record, whatever the modes.
    pub(crate) fn latest_clock(&self, hash: u64) -> Timestamp {
        self.clocks.latest(hash)
    }

    /// An attempt votes with this timestamp on a record that it holds. Whether nobody who conflicts claims it in order.
    pub(crate) fn take_place(
        &mut self,
        now: Time,
        record: RecordIx,
        attempt: AttemptId,
        at: Timestamp,
    ) -> bool {
        let Record { hash, lock: Some(lock), .. } = &mut self.records[record] else { return true };
        let Lock { kind, line, holders, .. } = &mut **lock;
        let (Some(kind), Some(holder)) = (*kind, holders.get_mut(&attempt)) else { return true };
        raise(&mut self.clocks, *hash, kind, holder, at);
        let Some(line) = line else { return true };
        let is_alone = {
            let own = holder.claims();
            let admits = |claims: &Claims| line.claimed.admits_modes(&kind.modes, claims, own.clone());
            !holder.is_in_order() || own.clone().all(admits)
        };
        if let Some(in_order) = &mut holder.in_order {
            in_order.place = Some(at);
            line.standing.insert((at, attempt), Standing::default());
            let is_other = |(_, it): &Place| it.tx.session != attempt.tx.session;
            let mut ends = line.standing.keys().next().into_iter().chain(line.standing.keys().next_back());
            if !is_alone && self.switches.ordering == Ordered::Hot && ends.any(is_other) {
                self.heat.note(now, &self.limits, *hash);
            }
        }
        is_alone
    }

    /// What the calls of an attempt in order answer as things are.
    pub(crate) fn answers_in_order(&mut self, record: RecordIx, attempt: AttemptId) -> Vec<(CallNo, Reply)> {
        let Some(calls) = self.calls_in_order(record, attempt) else { return Vec::new() };
        if !calls.iter().any(|call| call.op.returns()) {
            return Vec::new();
        }
        let mut copy = match self.external {
            None => self.records[record].state.clone(),
            Some(_) => None,
        };
        self.execute_in_order(record, &calls, &mut copy, false).0
    }

    /// Whether an attempt stands in the line of a record.
    pub(crate) fn stands_in(&self, record: RecordIx, attempt: AttemptId) -> bool {
        let lock = self.records[record].lock.as_ref();
        lock.and_then(|lock| lock.holders.get(&attempt)).is_some_and(Holder::is_in_order)
    }

    /// Whether an attempt has calls in order on a record that answer something.
    pub(crate) fn answers_later(&self, record: RecordIx, attempt: AttemptId) -> bool {
        let lock = self.records[record].lock.as_ref();
        let holder = lock.and_then(|lock| lock.holders.get(&attempt));
        let in_order = holder.and_then(|holder| holder.in_order.as_ref());
        in_order.is_some_and(|in_order| in_order.calls.iter().any(|call| call.op.returns()))
    }

    /// The final timestamp of who holds a record by a lock is known.
    pub(crate) fn raise(&mut self, record: RecordIx, attempt: AttemptId, at: Timestamp) {
        let Record { hash, lock: Some(lock), .. } = &self.records[record] else { return };
        if let (Some(kind), Some(holder)) = (lock.kind, lock.holders.get(&attempt)) {
            raise(&mut self.clocks, *hash, kind, holder, at);
        }
    }

    fn calls_in_order(&self, record: RecordIx, attempt: AttemptId) -> Option<SmallVec<[Call; 1]>> {
        let lock = self.records.get(record)?.lock.as_ref()?;
        lock.holders.get(&attempt)?.calls_in_order().cloned()
    }

    /// Executes calls one on top of the other. In a shard's own memory, and on the copy of a record that has vanished, that
    /// changes `state`; otherwise what is to be done is returned.
    fn execute_in_order(
        &mut self,
        record: RecordIx,
        calls: &[Call],
        state: &mut Option<State>,
        is_copy: bool,
    ) -> (Vec<(CallNo, Reply)>, SmallVec<[Effect; 4]>) {
        let (mut replies, mut effects) = (Vec::new(), SmallVec::<[Effect; 4]>::new());
        for call in calls {
            let unique = self.next_unique();
            self.looks += 1;
            let executed = match self.external.filter(|_| !is_copy) {
                None => call.op.execute(state.as_ref(), unique),
                Some(External(records)) => {
                    let own: SmallVec<[&Effect; 4]> = effects.iter().collect();
                    let partial = records.partial_state(&self.records[record].key, &call.op, &own);
                    let executed = partial.and_then(|it| call.op.execute_in_partial(it, &own, unique));
                    executed.map(|(executed, _)| executed)
                }
            };
            // A total operation has no errors (P82); if one had, it would have done nothing.
            let Ok(executed) = executed else { continue };
            if call.op.returns() {
                replies.push((call.no, executed.reply));
            }
            match (executed.effect, self.external.filter(|_| !is_copy)) {
                (Some(effect), None) => drop(effect.apply(state)),
                (Some(effect), Some(_)) => effects.push(effect),
                (None, _) => {}
            }
        }
        (replies, effects)
    }

    /// An elder waits, on this record or another one, for somebody who stands in this line: that one knows so here from now on, and
    /// who goes before it is told (P81).
    pub(crate) fn pass_on(&mut self, record: RecordIx, attempt: AttemptId, elder: Birth) {
        let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) else { return };
        let Lock { line, holders, .. } = &mut **lock;
        let (Some(line), Some(holder)) = (line, holders.get_mut(&attempt)) else { return };
        let Some(place) = holder.stands().map(|at| (at, attempt)) else { return };
        holder.told = Some(holder.told.map_or(elder, |told| told.min(elder)));
        if let Some(before) = line.standing.get(&place).and_then(|standing| standing.behind) {
            tell(lock, before, elder, &mut self.notices);
        }
    }

    // --- being carried out ---

    /// The final timestamp of an attempt that stands in line is known (P75). `answers`: they are wanted when it is carried out.
    pub(crate) fn finish_place(
        &mut self,
        now: Time,
        record: RecordIx,
        attempt: AttemptId,
        at: Timestamp,
        answers: bool,
    ) {
        let Some(Record { hash, lock: Some(lock), .. }) = self.records.get_mut(record) else { return };
        let Lock { kind, line, holders, .. } = &mut **lock;
        let (Some(kind), Some(holder)) = (*kind, holders.get_mut(&attempt)) else { return };
        self.clocks.raise(*hash, kind, holder.used, at);
        let (Some(line), Some(in_order)) = (line, &mut holder.in_order) else { return };
        let watchers = in_order.place.map(|voted| line.leave((voted, attempt))).unwrap_or_default();
        (in_order.place, in_order.answers) = (Some(at), answers);
        line.standing.insert((at, attempt), Standing { is_final: true, ..Standing::default() });
        self.look_at(now, record, watchers.into_iter().chain([attempt]).collect());
    }

    /// Looks at those who have their final place, and says of whom the turn has come on this record.
    pub(crate) fn look_at(&mut self, now: Time, record: RecordIx, mut attempts: SmallVec<[AttemptId; 4]>) {
        while let Some(attempt) = attempts.pop() {
            let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) else { return };
            let Some(holder) = lock.holders.get(&attempt) else { continue };
            let (Some(place), Some(line)) = (holder.stands().map(|at| (at, attempt)), &lock.line) else {
                continue;
            };
            if !line.standing.get(&place).is_some_and(|standing| standing.is_final && !standing.is_ready) {
                continue;
            }
            let stands_before = |((_, other), standing): &(&Place, &Standing)| {
                // They conflict, whether or not its place is final (P75).
                let passed = if standing.is_final { Bug::PassesFinal } else { Bug::PassesVoted };
                let goes_first = |other| holder.conflicts_with(lock, other);
                lock.holders.get(other).is_none_or(|other| goes_first(other) && !is_planted(passed))
            };
            let before = line.standing.range(..place).rev().find(stands_before).map(|(place, _)| *place);
            let standing = &mut lock.line.as_mut().expect("just seen").standing;
            standing.get_mut(&place).expect("just seen").behind = before.map(|(_, before)| before);
            match before {
                Some(before) => {
                    standing.get_mut(&before).expect("just seen").watchers.push(attempt);
                    // The eldest who waits for this one, itself included (P81).
                    let Holder { birth, told, .. } = lock.holders[&attempt];
                    let elder = told.map_or(birth, |told| told.min(birth));
                    let elder = if is_planted(Bug::OwnBirthKept) { told } else { Some(elder) };
                    elder.into_iter().for_each(|elder| tell(lock, before.1, elder, &mut self.notices));
                }
                None => {
                    standing.get_mut(&place).expect("just seen").is_ready = true;
                    self.ready.push_back(attempt);
                }
            }
        }
        self.settle(now, record);
        self.tidy(record);
    }

    /// Carries out what an attempt has in order on a record. [`Self::look_at`] must follow.
    pub(crate) fn carry_out(&mut self, record: RecordIx, attempt: AttemptId) -> Option<Carried> {
        let calls = self.calls_in_order(record, attempt)?;
        let has_vanished = self.has_vanished(record);
        let Record { state, lock, .. } = &mut self.records[record];
        let before = expiry_of(state);
        let mut content = match (has_vanished, lock) {
            (true, Some(lock)) => lock.before_it_vanished.take(),
            _ => state.take(),
        };
        let (replies, effects) = self.execute_in_order(record, &calls, &mut content, has_vanished);
        let Record { key, state, lock, .. } = &mut self.records[record];
        let lock = lock.as_mut().expect("it is held");
        match has_vanished {
            true => lock.before_it_vanished = content,
            false => *state = content,
        }
        self.versions.changed(key);
        let mut has_ended = false;
        if let Some(External(records)) = self.external
            && !has_vanished
            && !effects.is_empty()
        {
            let effects: SmallVec<[&Effect; 4]> = effects.iter().collect();
            has_ended = records.apply(key, &effects) == Applied::Ended;
        }
        let after = expiry_of(state);
        let (key, wanted) = (key.clone(), lock.holders.get(&attempt).is_some_and(Holder::wants_answers));
        self.note_expiry(record, before, after);
        let watchers = self.leave_line(record, attempt);
        if has_ended && self.is_held(self.records[record].hash, &key) {
            if let Some(lock) = &mut self.records[record].lock {
                lock.vanished = true;
            }
            self.ended.push(key);
        }
        let replies = if wanted { replies } else { Vec::new() };
        Some(Carried { replies, watchers, is_seen: has_vanished })
    }

    /// Gives up what an attempt claims in order on a record. Who is to be looked at again.
    pub(super) fn leave_line(&mut self, record: RecordIx, attempt: AttemptId) -> SmallVec<[AttemptId; 2]> {
        let Some(Record { hash, lock: Some(lock), .. }) = self.records.get_mut(record) else {
            return SmallVec::new();
        };
        let Some(holder) = lock.holders.swap_remove(&attempt) else { return SmallVec::new() };
        let Some(line) = &mut lock.line else { return SmallVec::new() };
        holder.claims().for_each(|claims| line.claimed.remove(claims));
        let watchers = holder.stands().map(|at| line.leave((at, attempt))).unwrap_or_default();
        if line.is_empty() {
            lock.line = None;
        }
        if lock.holders.is_empty() {
            lock.reset(&mut self.clocks, *hash);
        }
        watchers
    }
}

/// Tells somebody who holds a record of an elder, unless it is elder itself, or knows of one who is.
fn tell(lock: &mut Lock, attempt: AttemptId, elder: Birth, notices: &mut Vec<Notice>) {
    let Some(holder) = lock.holders.get_mut(&attempt) else { return };
    if elder < holder.birth && holder.told.is_none_or(|told| elder < told) {
        holder.told = Some(elder);
        notices.push(Notice { attempt, elder });
    }
}

/// A vote raises the clocks of a record, whether its owner claims that in order or by locks (P73, P80).
fn raise(clocks: &mut Clocks, hash: u64, kind: &'static TypeInfo, holder: &Holder, at: Timestamp) {
    if holder.is_in_order() || !is_planted(Bug::LockedRaiseNothing) {
        clocks.raise(hash, kind, holder.used, at);
    }
}
