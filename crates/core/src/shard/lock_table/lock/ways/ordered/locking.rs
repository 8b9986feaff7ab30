//! What a lock does with its timestamp queue: who is let in, where each stands, and who is carried out (P73 to P77, P80).

use claret_types::{Bytes, Claims, Draw, Held, Mode, Modes, Reply, Room, State, TypeInfo};
use smallvec::SmallVec;

use super::clocks::Clocks;
use super::line::{Carried, Line, Place, Standing};
use crate::ids::{AttemptId, Birth, CallNo, Time, Timestamp};
use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::records::External;
use crate::shard::lock_table::Owner;
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::executor::{Executor, blind_effects};
use crate::shard::lock_table::footprint::footprint;
use crate::shard::lock_table::lock::Lock;
use crate::shard::lock_table::lock::holder::Holder;
use crate::shard::lock_table::outbox::Outbox;
use crate::shard::lock_table::records::Record;
use crate::switches::Switches;

/// More calls of one attempt on one record are not ordered if one of them looks at it: they are carried out at once, without a bound of
/// what that costs (P38), and each may see all before it.
const SEEING_MAX: usize = 1_024;

/// Who claims this may set an expiry.
const SETS_EXPIRY: u16 = 1 << Mode::EXTEND_EXPIRY.0;

impl Lock {
    // --- deciding ---

    /// What a call claims in order: whatever it may claim in any state.
    pub(in crate::shard::lock_table::lock) fn claims_in_order(switches: &Switches, call: &Call) -> Claims {
        let claims = footprint(switches, call, false);
        if claims.list.is_empty() { call.op.footprint_with_expiry() } else { claims }
    }

    /// Whether no lock is in the way of a call that claims in order. Others who do are not: they are carried out one after the other.
    pub(in crate::shard::lock_table::lock) fn admits_in_order(&self, call: &Call, claims: &Claims) -> bool {
        let Some(kind) = self.kind else { return !self.vanished };
        let admits = |modes| {
            let admits = self.held.admits_modes(modes, claims, std::iter::empty());
            admits || is_planted(Bug::OrderedPassesLocks)
        };
        !self.vanished
            && !self.held.have(SETS_EXPIRY)
            && kind.common_modes(call.op.type_info()).is_some_and(admits)
    }

    /// Whether those who claim the record in order are not in the way of claims by a lock.
    pub(in crate::shard::lock_table::lock) fn admits_beside_line(
        &self,
        modes: &Modes,
        claims: &Claims,
    ) -> bool {
        self.line.as_ref().is_none_or(|line| {
            let admits = || line.claimed.admits_modes(modes, claims, std::iter::empty());
            !claims.have(SETS_EXPIRY) && (admits() || is_planted(Bug::LocksPassOrdered))
        })
    }

    pub(in crate::shard::lock_table::lock) fn claim_in_order(&mut self, call: &Call, claims: &Claims) {
        let line = self.line.get_or_insert_default();
        line.claimed.add(claims);
        line.partial += usize::from(!call.op.is_total());
    }

    /// Whether what somebody draws by a lock leaves ample room beside all others, if somebody in order needs that: of those who do, some
    /// may have calls that are not let in yet, and whose room nobody looks at again (P82).
    pub(in crate::shard::lock_table::lock) fn leaves_room_in_order(&self, draw: Draw, room: Room) -> bool {
        let Some(line) = self.line.as_ref().filter(|line| line.partial > 0) else { return true }; // Mostly.
        let Room { down, up } = self.room_left(line, room);
        let left = Room { down: down.saturating_sub(draw.down), up: up.saturating_sub(draw.up) };
        draw == Draw::default() || left.is_ample() || is_planted(Bug::DrawsInOrderForgotten)
    }

    /// Whether somebody in order needs room, and whoever draws may leave too little of it.
    pub(in crate::shard::lock_table::lock) fn may_take_room(&self, draw: Draw) -> bool {
        draw != Draw::default() && self.line.as_ref().is_some_and(|line| line.partial > 0)
    }

    /// What is left of a room beside all that is drawn by locks and in order.
    fn room_left(&self, line: &Line, room: Room) -> Room {
        self.held.room_beside(line.claimed.room_beside(room))
    }

    // --- looking ---

    /// Whether somebody claims the record in order.
    #[inline]
    pub(in crate::shard::lock_table) fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// Whether an attempt claims the record in order.
    #[inline]
    pub(in crate::shard::lock_table) fn stands(&self, attempt: AttemptId) -> bool {
        self.holders.get(&attempt).is_some_and(Holder::is_in_order)
    }

    /// Whether an attempt has calls in order that answer something.
    pub(in crate::shard::lock_table) fn answers_later(&self, attempt: AttemptId) -> bool {
        let in_order = self.holders.get(&attempt).and_then(|holder| holder.in_order.as_ref());
        in_order.is_some_and(|in_order| in_order.calls.iter().any(|call| call.op.returns()))
    }

    // --- standing ---

    /// Who claims the record in order, and holds it, stands in its line at this timestamp.
    pub(in crate::shard::lock_table) fn stand(&mut self, attempt: AttemptId, at: Timestamp) {
        let (Some(line), Some(holder)) = (&mut self.line, self.holders.get_mut(&attempt)) else { return };
        if let Some(in_order) = &mut holder.in_order {
            in_order.place = Some(at);
            line.standing.insert((at, attempt), Standing::default());
        }
    }

    /// An elder waits, on this record or another one, for somebody who stands in this line: that one knows so here from now on, and
    /// who goes before it is told (P81).
    pub(in crate::shard::lock_table) fn pass_on(
        &mut self,
        attempt: AttemptId,
        elder: Birth,
        outbox: &mut Outbox,
    ) {
        let (Some(line), Some(holder)) = (&self.line, self.holders.get_mut(&attempt)) else { return };
        let Some(place) = holder.stands().map(|at| (at, attempt)) else { return };
        holder.told = Some(holder.told.map_or(elder, |told| told.min(elder)));
        if let Some(before) = line.standing.get(&place).and_then(|standing| standing.behind) {
            self.tell(before, elder, outbox);
        }
    }

    /// Tells somebody who holds the record of an elder.
    fn tell(&mut self, attempt: AttemptId, elder: Birth, outbox: &mut Outbox) {
        if let Some(holder) = self.holders.get_mut(&attempt) {
            holder.tell(attempt, elder, outbox);
        }
    }

    /// Looks at those who have their final place, and says of whom the turn has come on this record.
    pub(in crate::shard::lock_table::lock) fn look_at(
        &mut self,
        mut attempts: SmallVec<[AttemptId; 4]>,
        outbox: &mut Outbox,
    ) {
        while let Some(attempt) = attempts.pop() {
            let Some(holder) = self.holders.get(&attempt) else { continue };
            let (Some(place), Some(line)) = (holder.stands().map(|at| (at, attempt)), &self.line) else {
                continue;
            };
            if !line.standing.get(&place).is_some_and(|standing| standing.is_final && !standing.is_ready) {
                continue;
            }
            let stands_before = |((_, other), standing): &(&Place, &Standing)| {
                // They conflict, whether or not its place is final (P75).
                let passed = if standing.is_final { Bug::PassesFinal } else { Bug::PassesVoted };
                let goes_first =
                    |other| self.kind.is_none_or(|kind| holder.conflicts_with(&kind.modes, other));
                self.holders.get(other).is_none_or(|other| goes_first(other) && !is_planted(passed))
            };
            let before = line.standing.range(..place).rev().find(stands_before).map(|(place, _)| *place);
            let standing = &mut self.line.as_mut().expect("just seen").standing;
            standing.get_mut(&place).expect("just seen").behind = before.map(|(_, before)| before);
            match before {
                Some(before) => {
                    standing.get_mut(&before).expect("just seen").watchers.push(attempt);
                    // The eldest who waits for this one, itself included (P81).
                    let Holder { birth, told, .. } = self.holders[&attempt];
                    let elder = told.map_or(birth, |told| told.min(birth));
                    let elder = if is_planted(Bug::OwnBirthKept) { told } else { Some(elder) };
                    elder.into_iter().for_each(|elder| self.tell(before.1, elder, outbox));
                }
                None => {
                    standing.get_mut(&place).expect("just seen").is_ready = true;
                    outbox.say_ready(attempt);
                }
            }
        }
    }

    /// # Panics
    /// When an invariant of the line does not hold.
    pub(in crate::shard::lock_table::lock) fn check_line(&self, key: &Bytes, claimed: &Held) {
        let Some(line) = &self.line else {
            return assert!(claimed.is_empty(), "'{key}' is claimed in order, and has no line");
        };
        assert!(line.claimed == *claimed, "'{key}': what is claimed in order does not add up");
        let calls = self.holders.values().filter_map(Holder::calls_in_order).flatten();
        let partial = calls.filter(|call| !call.op.is_total()).count();
        assert_eq!(line.partial, partial, "'{key}': calls that need what they found do not add up");
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
    pub(in crate::shard::lock_table::lock) fn is_in_order(&self) -> bool {
        self.in_order.is_some()
    }

    /// What it is going to do, if it claims in order.
    pub(in crate::shard::lock_table::lock) fn calls_in_order(&self) -> Option<&SmallVec<[Call; 1]>> {
        self.in_order.as_ref().map(|in_order| &in_order.calls)
    }

    /// It is granted this call in order.
    pub(in crate::shard::lock_table::lock) fn will_do(&mut self, call: &Call) {
        self.in_order.get_or_insert_default().calls.push(call.clone());
    }

    fn wants_answers(&self) -> bool {
        self.in_order.as_ref().is_some_and(|in_order| in_order.answers)
    }

    fn stands(&self) -> Option<Timestamp> {
        self.in_order.as_ref()?.place
    }
}

impl Record {
    // --- asking ---

    /// Whether calls that come together claim the record in order: they can be done whatever comes before them (P82), and their owner
    /// holds nothing of it by locks.
    pub(in crate::shard::lock_table) fn is_in_order(
        &self,
        executor: &Executor,
        owner: Owner,
        calls: &[Call],
    ) -> bool {
        if let Some(own) = self.lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt)) {
            return own.is_in_order();
        }
        may_order(&self.key, Some(self), calls, executor)
    }

    // --- voting ---

    /// The largest clock of the record for what conflicts with what an attempt claims there: its vote has to be larger (P73).
    pub(in crate::shard::lock_table) fn clock_before(
        &self,
        clocks: &Clocks,
        attempt: AttemptId,
    ) -> Timestamp {
        let holder = self.lock.as_ref().and_then(|lock| Some((lock.kind?, lock.holders.get(&attempt)?)));
        holder.map_or(Timestamp::default(), |(kind, holder)| clocks.before(self.hash, kind, holder.used))
    }

    /// An attempt votes with this timestamp on the record that it holds. Whether nobody who conflicts claims it in order.
    pub(in crate::shard::lock_table) fn take_place(
        &mut self,
        clocks: &mut Clocks,
        attempt: AttemptId,
        at: Timestamp,
    ) -> bool {
        let Record { hash, lock: Some(lock), .. } = self else { return true };
        let Lock { kind, line, holders, .. } = &mut **lock;
        let (Some(kind), Some(holder)) = (*kind, holders.get_mut(&attempt)) else { return true };
        raise(clocks, *hash, kind, holder, at);
        let Some(line) = line else { return true };
        let is_met = |claims| !holder.is_alone_in_the_way(&line.claimed, &kind.modes, claims);
        let is_alone = !holder.is_in_order() || !holder.claims().any(is_met);
        if let Some(in_order) = &mut holder.in_order {
            in_order.place = Some(at);
            line.standing.insert((at, attempt), Standing::default());
        }
        is_alone
    }

    /// The final timestamp of who holds the record by a lock is known.
    pub(in crate::shard::lock_table) fn raise(&self, clocks: &mut Clocks, attempt: AttemptId, at: Timestamp) {
        let Some(lock) = &self.lock else { return };
        if let (Some(kind), Some(holder)) = (lock.kind, lock.holders.get(&attempt)) {
            raise(clocks, self.hash, kind, holder, at);
        }
    }

    /// What the calls of an attempt in order answer as things are.
    pub(in crate::shard::lock_table) fn answers_in_order(
        &self,
        around: &mut Around<'_>,
        attempt: AttemptId,
    ) -> Vec<(CallNo, Reply)> {
        let Some(calls) = self.calls_in_order(attempt) else { return Vec::new() };
        if !calls.iter().any(|call| call.op.returns()) {
            return Vec::new();
        }
        let mut copy = match around.executor.external() {
            None => self.state.clone(),
            Some(_) => None,
        };
        around.executor.execute_all(around.counts, &self.key, calls, &mut copy, false).0
    }

    fn calls_in_order(&self, attempt: AttemptId) -> Option<&SmallVec<[Call; 1]>> {
        self.lock.as_ref()?.holders.get(&attempt)?.calls_in_order()
    }

    // --- being carried out ---

    /// The final timestamp of an attempt that stands in line is known (P75). `answers`: they are wanted when it is carried out.
    /// Who is to be looked at, if it is known here.
    pub(in crate::shard::lock_table) fn finish_place(
        &mut self,
        clocks: &mut Clocks,
        attempt: AttemptId,
        at: Timestamp,
        answers: bool,
    ) -> Option<SmallVec<[AttemptId; 4]>> {
        let Record { hash, lock, .. } = self;
        let Lock { kind, line, holders, .. } = &mut **lock.as_mut()?;
        let (Some(kind), Some(holder)) = (*kind, holders.get_mut(&attempt)) else { return None };
        clocks.raise(*hash, kind, holder.used, at);
        let (Some(line), Some(in_order)) = (line, &mut holder.in_order) else { return None };
        let watchers = in_order.place.map(|voted| line.leave((voted, attempt))).unwrap_or_default();
        (in_order.place, in_order.answers) = (Some(at), answers);
        line.standing.insert((at, attempt), Standing { is_final: true, ..Standing::default() });
        Some(watchers.into_iter().chain([attempt]).collect())
    }

    /// Looks at those who have their final place, and lets in who can be.
    pub(in crate::shard::lock_table) fn look_at(
        &mut self,
        around: &mut Around<'_>,
        now: Time,
        attempts: SmallVec<[AttemptId; 4]>,
    ) {
        if let Some(lock) = &mut self.lock {
            lock.look_at(attempts, around.outbox);
        }
        self.settle(around, now);
    }

    /// Carries out what an attempt has in order. [`Self::look_at`] must follow.
    pub(in crate::shard::lock_table) fn carry_out(
        &mut self,
        around: &mut Around<'_>,
        attempt: AttemptId,
    ) -> Option<Carried> {
        let calls = self.calls_in_order(attempt)?.clone();
        let has_vanished = self.has_vanished();
        let Record { key, hash: _, state, lock } = self;
        let lock = lock.as_mut().expect("it is held");
        let content = if has_vanished { &mut lock.before_it_vanished } else { state };
        let executed = around.executor.execute_all(around.counts, key, &calls, content, has_vanished);
        let (replies, effects) = executed;
        around.executor.has_changed(key);
        let has_ended = !has_vanished && around.executor.apply_outside(key, &effects);
        let wanted = lock.holders.get(&attempt).is_some_and(Holder::wants_answers);
        let watchers = self.leave_line(around.clocks, attempt);
        if let Some(lock) = self.lock.as_mut().filter(|lock| has_ended && lock.is_held()) {
            lock.vanished = true;
            around.outbox.say_ended(self.key.clone());
        }
        let replies = if wanted { replies } else { Vec::new() };
        Some(Carried { replies, watchers, is_seen: has_vanished })
    }

    /// Gives up what an attempt claims in order. Who is to be looked at again.
    pub(in crate::shard::lock_table) fn leave_line(
        &mut self,
        clocks: &mut Clocks,
        attempt: AttemptId,
    ) -> SmallVec<[AttemptId; 2]> {
        let Record { hash, lock: Some(lock), .. } = self else { return SmallVec::new() };
        let Some(holder) = lock.holders.swap_remove(&attempt) else { return SmallVec::new() };
        let Some(line) = &mut lock.line else { return SmallVec::new() };
        holder.claims().for_each(|claims| line.claimed.remove(claims));
        let calls = holder.calls_in_order().into_iter().flatten();
        line.partial -= calls.filter(|call| !call.op.is_total()).count();
        let watchers = holder.stands().map(|at| line.leave((at, attempt))).unwrap_or_default();
        if line.is_empty() {
            lock.line = None;
        }
        if lock.holders.is_empty() {
            lock.reset(clocks, *hash);
        }
        watchers
    }
}

/// Whether these calls can be done whatever of their type comes before them, on a record of their type that does not end by its time.
pub(in crate::shard::lock_table) fn may_order(
    key: &Bytes,
    record: Option<&Record>,
    calls: &[Call],
    executor: &Executor,
) -> bool {
    let kind = calls[0].op.type_info();
    let is_lasting = |call: &Call| call.op.is_lasting() && call.op.is_builtin();
    if !calls.iter().all(|call| is_lasting(call) && call.op.type_info().id == kind.id)
        || calls.len() > SEEING_MAX && blind_effects(calls).is_none()
    {
        return false;
    }
    let fits = |state: &State| state.expiry().is_none() && calls.iter().all(|call| call.op.fits(state));
    let lock = record.and_then(|record| record.lock.as_ref());
    let is_of_type = match (lock.is_some_and(|lock| lock.has_line()), executor.external()) {
        // As long as somebody stands in line it is of that type, or is not there; others wait for that.
        (true, _) => true,
        (false, None) => record.and_then(|record| record.state.as_ref()).is_none_or(fits),
        (false, Some(External(records))) => records.may_order(key, &calls[0].op),
    };
    let partial = calls.iter().find(|call| !call.op.is_total());
    is_of_type && partial.is_none_or(|call| is_possible(key, record, call, executor))
}

/// Whether a lasting call could be done now, and has ample room beside all that is drawn: then it can be done later, too.
fn is_possible(key: &Bytes, record: Option<&Record>, call: &Call, executor: &Executor) -> bool {
    let state = record.and_then(|record| record.state.as_ref());
    let Ok((_, room)) = executor.try_instantly(key, state, &call.op) else {
        return is_planted(Bug::OrderedThoughImpossible);
    };
    let lock = record.and_then(|record| record.lock.as_ref());
    let left = match lock.map(|lock| (lock, &lock.line)) {
        Some((lock, Some(line))) => lock.room_left(line, room),
        Some((lock, None)) => lock.held.room_beside(room),
        None => room,
    };
    left.is_ample() || is_planted(Bug::OrderedNearBounds)
}

/// A vote raises the clocks of a record, whether its owner claims that in order or by locks (P73, P80).
fn raise(clocks: &mut Clocks, hash: u64, kind: &'static TypeInfo, holder: &Holder, at: Timestamp) {
    if holder.is_in_order() || !is_planted(Bug::LockedRaiseNothing) {
        clocks.raise(hash, kind, holder.used, at);
    }
}
