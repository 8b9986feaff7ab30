//! The line of a record: who claims it in order, and where each stands (P73 to P77, P80).
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

use claret_types::{Held, Modes, Reply};
use smallvec::SmallVec;

use super::holder::Holder;
use super::{
    Applied, AttemptId, Birth, Bytes, Call, CallNo, Claims, Effect, External, Item, Lock, LockTable, Notice,
    Owner, Record, RecordIx, State, Stop, Time, expiry_of, footprint, rules,
};
use crate::ids::Timestamp;

/// Where somebody stands.
type Place = (Timestamp, AttemptId);

/// Somebody who has voted.
#[derive(Clone, Debug, Default)]
struct Standing {
    is_final: bool,
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

/// An attempt was carried out on a record, in its turn.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) attempt: AttemptId,
    pub(crate) record: RecordIx,
    /// If they were wanted.
    pub(crate) replies: Vec<(CallNo, Reply)>,
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
}

impl Lock {
    /// Whether those who claim the record in order are not in the way of claims by a lock.
    pub(super) fn admits_beside_line(&self, modes: &Modes, claims: &Claims) -> bool {
        self.line.as_ref().is_none_or(|line| line.claimed.admits_modes(modes, claims, std::iter::empty()))
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
                !standing.is_final || line.standing.iter().any(watches),
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
        let Record { state, lock, .. } = &self.records[record];
        if let Some(own) = lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt)) {
            return own.is_in_order();
        }
        self.orders(record)
            && calls.iter().all(|call| call.op.is_total() && call.op.is_builtin())
            && match (lock.as_ref().and_then(|lock| lock.kind), self.external) {
                // As long as somebody holds it the record is of that type, or is not there.
                (Some(kind), _) if !kind.is_of_any() => true,
                (_, None) => calls.iter().all(|call| state.as_ref().is_none_or(|it| call.op.fits(it))),
                (_, Some(External(records))) => records.may_order(&self.records[record].key, &calls[0].op),
            }
    }

    /// Whether calls on this record are ordered.
    fn orders(&self, _record: RecordIx) -> bool {
        self.switches.ordering == crate::switches::Ordered::Always
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
    fn claims_in_order(&self, record: RecordIx, call: &Call) -> Claims {
        let Record { state, lock, .. } = &self.records[record];
        let expires = expiry_of(state).is_some() || lock.as_ref().is_some_and(|lock| lock.expires);
        let claims = footprint(&self.switches, call, expires);
        if claims.list.is_empty() { call.op.footprint_with_expiry() } else { claims }
    }

    /// Whether no lock is in the way of a call that claims in order.
    pub(super) fn admits_in_order(&self, record: RecordIx, call: &Call) -> bool {
        let Some(lock) = &self.records[record].lock else { return true };
        let Some(kind) = lock.kind else { return !lock.vanished };
        let claims = self.claims_in_order(record, call);
        let admits = |modes| lock.held.admits_modes(modes, &claims, std::iter::empty());
        !lock.vanished && kind.common_modes(call.op.type_info()).is_some_and(admits)
    }

    pub(super) fn grant_in_order(&mut self, record: RecordIx, owner: Owner, call: &Call) -> bool {
        let claims = self.claims_in_order(record, call);
        let item = Item { member: call.member, claims, effect: None };
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
        self.clocks.before(*hash, kind, holder.claims())
    }

    /// An attempt votes with this timestamp on a record that it holds. Whether nobody who conflicts claims it in order.
    pub(crate) fn take_place(&mut self, record: RecordIx, attempt: AttemptId, at: Timestamp) -> bool {
        let Record { hash, lock: Some(lock), .. } = &mut self.records[record] else { return true };
        let Lock { kind, line, holders, .. } = &mut **lock;
        let (Some(kind), Some(holder)) = (*kind, holders.get_mut(&attempt)) else { return true };
        self.clocks.raise(*hash, kind, holder.claims(), at);
        let Some(line) = line else { return true };
        let is_alone = {
            let own = holder.claims();
            let admits = |claims: &Claims| line.claimed.admits_modes(&kind.modes, claims, own.clone());
            !holder.is_in_order() || own.clone().all(admits)
        };
        if let Some(in_order) = &mut holder.in_order {
            in_order.place = Some(at);
            line.standing.insert((at, attempt), Standing::default());
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
        self.execute_in_order(record, &calls, &mut copy).0
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
            self.clocks.raise(*hash, kind, holder.claims(), at);
        }
    }

    fn calls_in_order(&self, record: RecordIx, attempt: AttemptId) -> Option<SmallVec<[Call; 1]>> {
        let lock = self.records.get(record)?.lock.as_ref()?;
        Some(lock.holders.get(&attempt)?.in_order.as_ref()?.calls.clone())
    }

    /// Executes calls one on top of the other. In a shard's own memory that changes `state`; otherwise what is to be done is
    /// returned.
    fn execute_in_order(
        &mut self,
        record: RecordIx,
        calls: &[Call],
        state: &mut Option<State>,
    ) -> (Vec<(CallNo, Reply)>, SmallVec<[Effect; 4]>) {
        let (mut replies, mut effects) = (Vec::new(), SmallVec::<[Effect; 4]>::new());
        for call in calls {
            let unique = self.next_unique();
            self.looks += 1;
            let executed = match self.external {
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
            match (executed.effect, self.external) {
                (Some(effect), None) => drop(effect.apply(state)),
                (Some(effect), Some(_)) => effects.push(effect),
                (None, _) => {}
            }
        }
        (replies, effects)
    }

    /// An elder waits for somebody who stands in this line: those who stand before it are told of that elder, unless they are elder
    /// themselves, or know of one who is (P81).
    pub(crate) fn pass_on(&mut self, record: RecordIx, attempt: AttemptId, elder: Birth) {
        let Some(Record { lock: Some(lock), .. }) = self.records.get(record) else { return };
        let (Some(line), Some(holder)) = (&lock.line, lock.holders.get(&attempt)) else { return };
        let Some(place) = holder.stands().map(|at| (at, attempt)) else { return };
        let is_told = |other: &Holder| other.birth < elder || other.told.is_some_and(|told| told <= elder);
        let before = line.standing.range(..place).map(|((_, other), _)| *other);
        let before = before.filter(|other| {
            let other = lock.holders.get(other);
            other.is_some_and(|other| !is_told(other) && rules::goes_before(lock, other, holder))
        });
        let before: SmallVec<[AttemptId; 4]> = before.collect();
        let lock = self.records[record].lock.as_mut().expect("just seen");
        for attempt in before {
            lock.holders.get_mut(&attempt).expect("just seen").told = Some(elder);
            self.notices.push(Notice { attempt, elder });
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
        self.clocks.raise(*hash, kind, holder.claims(), at);
        let (Some(line), Some(in_order)) = (line, &mut holder.in_order) else { return };
        let watchers = in_order.place.map(|voted| line.leave((voted, attempt))).unwrap_or_default();
        (in_order.place, in_order.answers) = (Some(at), answers);
        line.standing.insert((at, attempt), Standing { is_final: true, watchers: SmallVec::new() });
        self.look_at(now, record, watchers.into_iter().chain([attempt]).collect());
    }

    /// Looks at those who have their final place and may be carried out now.
    pub(super) fn look_at(&mut self, now: Time, record: RecordIx, mut attempts: SmallVec<[AttemptId; 4]>) {
        while let Some(attempt) = attempts.pop() {
            let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) else { return };
            let Some(holder) = lock.holders.get(&attempt) else { continue };
            let (Some(place), Some(line)) = (holder.stands().map(|at| (at, attempt)), &lock.line) else {
                continue;
            };
            if !line.standing.get(&place).is_some_and(|standing| standing.is_final) {
                continue;
            }
            let stands_before = |(_, other): &&Place| {
                lock.holders.get(other).is_none_or(|other| rules::goes_before(lock, other, holder))
            };
            let before =
                line.standing.range(..place).rev().map(|(place, _)| place).find(stands_before).copied();
            match before {
                Some(before) => {
                    let line = lock.line.as_mut().expect("just seen");
                    let standing = line.standing.get_mut(&before).expect("just seen");
                    standing.watchers.push(attempt);
                }
                None => attempts.extend(self.carry_out(record, attempt)),
            }
        }
        self.settle(now, record);
        self.tidy(record);
    }

    /// Carries out what an attempt has in order on a record. Who is to be looked at again.
    fn carry_out(&mut self, record: RecordIx, attempt: AttemptId) -> SmallVec<[AttemptId; 2]> {
        let Some(calls) = self.calls_in_order(record, attempt) else { return SmallVec::new() };
        let has_vanished = self.has_vanished(record);
        let Record { state, lock, .. } = &mut self.records[record];
        let before = expiry_of(state);
        let mut content = match (has_vanished, lock) {
            (true, Some(lock)) => lock.before_it_vanished.take(),
            _ => state.take(),
        };
        let (replies, effects) = self.execute_in_order(record, &calls, &mut content);
        let Record { key, state, lock, .. } = &mut self.records[record];
        let lock = lock.as_mut().expect("it is held");
        match has_vanished {
            true => lock.before_it_vanished = content,
            false => *state = content,
        }
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
        self.carried.push_back(Carried { attempt, record, replies });
        watchers
    }

    /// Gives up what an attempt claims in order on a record. Who is to be looked at again.
    pub(super) fn leave_line(&mut self, record: RecordIx, attempt: AttemptId) -> SmallVec<[AttemptId; 2]> {
        let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) else {
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
            rules::reset(lock);
        }
        watchers
    }
}
