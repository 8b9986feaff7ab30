//! Deciding about calls: each is executed on top of its owner's effects on the record, and its claims are checked
//! against everybody else's.
//!
//! Calls on one record that come together share a **view** of it: the owner's effects are added once, then the calls'
//! own, one after another, and at the end all are undone, before anybody else looks. So n calls cost n executions,
//! not n times what the transaction did there before.

use claret_types::{
    Access, Claims, Effect, Executed, Mode, Modes, OpError, Operation, Reply, Room, State, Unique,
};
use smallvec::SmallVec;

use super::{
    AttemptId, Call, External, Holder, Item, Lock, LockTable, Locks, Member, Owner, Read, Record, RecordIx,
    Time, same, union,
};
use crate::planted::{Bug, is_planted};

/// Why no further call was granted.
#[derive(Debug)]
pub(crate) enum Stop {
    /// All were.
    All,
    /// The next one waits.
    Queued,
    /// Somebody holds it, and there are no queues.
    Busy,
    Crowded,
    /// The next one cannot be done.
    Failed(OpError),
}

/// The answers of calls that were granted, unless they are given later; whether the owner held nothing on the record before.
pub(crate) type Answers = SmallVec<[(Option<Reply>, bool); 1]>;

/// A record as its owner sees it, for the time of some calls.
pub(super) enum View {
    /// A partial state of an external record, with the owner's effects added.
    Partial(Option<State>),
    /// The record itself; what undoes the effects that were added.
    InPlace(SmallVec<[Effect; 2]>),
}

impl LockTable {
    /// Asks for the locks of calls on one record, one after the other, and executes those that are granted, until one is
    /// not, or until more own effects than `enough` were added: where views are good for few calls, the rest has to begin
    /// again too often to be done at once. O(calls + own effects on the record).
    pub(crate) fn request(
        &mut self,
        now: Time,
        record: RecordIx,
        owner: Owner,
        calls: &[Call],
        enough: u64,
        answers: &mut Answers,
    ) -> Stop {
        let mut at = 0;
        let enough = self.dearness().saturating_add(enough);
        // A view is asked for no more calls than twice as many as the last one was good for.
        let mut asked = calls.len();
        while at < calls.len() && (at == 0 || self.dearness() <= enough) {
            let some = &calls[at..calls.len().min(at.saturating_add(asked))];
            let Some((view, covered)) = self.open(record, owner, some) else {
                match self.request_one(now, record, owner, &calls[at]) {
                    Ok(answer) => answers.push(answer),
                    Err(stop) => return stop,
                }
                at += 1;
                continue;
            };
            let covered = &calls[at..at + covered];
            let (stopped, granted) = self.go_through(now, record, owner, covered, view, enough, answers);
            if let Some(stop) = stopped {
                return stop;
            }
            at += granted;
            asked = 2 * covered.len().max(1);
        }
        Stop::All
    }

    /// The same for one call; not granted: why.
    pub(crate) fn request_one(
        &mut self,
        now: Time,
        record: RecordIx,
        owner: Owner,
        call: &Call,
    ) -> Result<(Option<Reply>, bool), Stop> {
        let decided = self.decide(record, owner, call);
        self.conclude(now, record, owner, call, decided)
    }

    /// What calls cost beside that they are executed, as if it was calls: effects that were added, and what was read and answered.
    pub(crate) fn dearness(&self) -> u64 {
        self.replays.saturating_add(self.read.cost() / Read::BYTES_WORTH)
    }

    /// Goes through calls that share a view, until that is enough. Why it stopped, and how many were granted.
    #[expect(clippy::too_many_arguments, reason = "those of `request`, and the view")]
    fn go_through(
        &mut self,
        now: Time,
        record: RecordIx,
        owner: Owner,
        calls: &[Call],
        mut view: View,
        enough: u64,
        answers: &mut Answers,
    ) -> (Option<Stop>, usize) {
        for (at, call) in calls.iter().enumerate() {
            let executed = self.execute_in(record, &view, call);
            let decided = self.judge(record, owner, call, executed);
            let Ok(Some((reply, item))) = decided else {
                self.close(record, view);
                let concluded = self.conclude(now, record, owner, call, decided);
                return (Some(concluded.expect_err("not granted")), at);
            };
            if !self.may_join(now, record, owner, call) {
                self.close(record, view);
                return (Some(self.enqueue(now, record, owner, call, false)), at);
            }
            self.read += Read::of_answer(&reply);
            let is_last = at + 1 == calls.len() || self.dearness() > enough;
            let effect = item.effect.clone().filter(|_| !is_last);
            answers.push((Some(reply), self.grant(record, owner, call, item, false)));
            if is_last {
                self.close(record, view);
                return (None, at + 1);
            }
            if let Some(effect) = effect
                && !is_planted(Bug::NoOverlay)
                && !self.extend(record, &mut view, call, effect)
            {
                return (None, at + 1);
            }
        }
        self.close(record, view);
        (None, calls.len())
    }

    /// What follows from a decision.
    fn conclude(
        &mut self,
        now: Time,
        record: RecordIx,
        owner: Owner,
        call: &Call,
        decided: Result<Option<(Reply, Item)>, OpError>,
    ) -> Result<(Option<Reply>, bool), Stop> {
        match decided {
            Ok(Some((reply, item))) if self.may_join(now, record, owner, call) => {
                self.read += Read::of_answer(&reply);
                Ok((Some(reply), self.grant(record, owner, call, item, false)))
            }
            Ok(_) => Err(self.enqueue(now, record, owner, call, false)),
            Err(error) => {
                self.tidy(record);
                Err(Stop::Failed(error))
            }
        }
    }

    /// Executes a call on top of its owner's effects and checks its claims against everybody else's.
    /// `None`: not now.
    pub(super) fn decide(
        &mut self,
        record: RecordIx,
        owner: Owner,
        call: &Call,
    ) -> Result<Option<(Reply, Item)>, OpError> {
        if self.has_vanished(record) {
            return Ok(None);
        }
        let executed = self.execute(record, owner, call);
        self.judge(record, owner, call, executed)
    }

    /// Checks the claims of a call that was executed.
    fn judge(
        &mut self,
        record: RecordIx,
        owner: Owner,
        call: &Call,
        executed: Result<(Executed, Room), OpError>,
    ) -> Result<Option<(Reply, Item)>, OpError> {
        let lock = &self.records[record].lock;
        let own = lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt));
        let alone = lock.as_ref().is_none_or(|lock| lock.holders.len() == usize::from(own.is_some()));
        let (executed, room) = match executed {
            Ok(executed) => executed,
            // No is always safe, and who looks again waits for those that have voted (O2).
            Err(OpError::Changed) => return Err(OpError::Changed),
            // An error tells of the state, too: what others hold may be committed already and told their users,
            // so it counts only once they are gone.
            Err(_) if !alone && !is_planted(Bug::ErrorCountsAtOnce) => return Ok(None),
            Err(error) => return Err(error),
        };
        let kind = call.op.type_info();
        let lock_kind = lock.as_ref().and_then(|lock| lock.kind).unwrap_or(kind);
        let shares_modes = lock_kind.common_modes(kind).is_some() || is_planted(Bug::TwoTypesShare);
        let mut claims = match (&self.switches.locks, &call.reserve) {
            _ if !shares_modes => Claims::record(Mode::EXCLUSIVE),
            (Locks::ReaderWriter, None) => call.op.reader_writer(),
            (Locks::ReaderWriter, Some(reserve)) => union(call.op.reader_writer(), reserve),
            (Locks::Abstract, None) => executed.claims,
            (Locks::Abstract, Some(reserve)) => union(executed.claims, reserve),
        };
        if own.is_some_and(|mates| mates.overdraws_with(call.member, &claims, room)) {
            return Err(OpError::Overflow("what one group draws".into(), format!("{:?}", call.op)));
        }
        let is_compared_read = call.op.is_seen() && call.op.method().access == Access::Read;
        if is_compared_read && is_planted(Bug::ComparedUnlocked) {
            claims = Claims::none();
        }
        let modes = lock_kind.common_modes(kind).unwrap_or(&lock_kind.modes);
        let claims_all = claims.list.iter().any(|claim| claim.mode == Mode::EXCLUSIVE);
        let admitted = match lock {
            None => true,
            // What it did stands on others, so whatever else it does there does, too.
            _ if own.is_some_and(|own| !own.follows.is_empty()) => false,
            Some(lock) => alone || self.admits(lock, own, modes, call.member, &claims, room),
        };
        if !admitted
            && let Some(lock) = lock
            && let Some((claims, effect)) = lock.to_follow(owner, call, &claims, executed.effect.as_ref())
        {
            return Ok(Some((executed.reply, Item { follows: true, ..Item::of(call, claims, effect) })));
        }
        if alone && !draws_fit(&claims, room) {
            // It would not fit beside anybody else's draw, so nobody else may hold the record with it.
            claims = Claims::record(Mode::EXCLUSIVE).drawing(claims.draw);
        }
        if claims_all
            && !admitted
            && let Some(lock) = &mut self.records[record].lock
        {
            lock.expires = true;
        }
        Ok(admitted.then(|| (executed.reply, Item::of(call, claims, executed.effect))))
    }

    /// Whether claims commute with what others hold, and what is drawn fits beside their draws.
    fn admits(
        &self,
        lock: &Lock,
        own: Option<&Holder>,
        modes: &Modes,
        member: Member,
        claims: &Claims,
        room: Room,
    ) -> bool {
        let commutes = match own {
            Some(own) => own.is_alone_in_the_way(&lock.held, modes, claims),
            None => lock.held.admits_modes(modes, claims, std::iter::empty()),
        };
        let commutes = commutes && lock.admits_beside_line(modes, claims);
        let drawn = || own.map_or((0, 0), |own| own.drawn_by(member));
        let draws = claims.draw.down > 0 || claims.draw.up > 0;
        let room = if is_planted(Bug::DepositsCount) { room_with_deposits(lock, room) } else { room };
        let fits =
            || lock.held.admits_draw_beside(claims.draw, room, drawn()) || is_planted(Bug::DrawsNotSummed);
        commutes && (!draws || fits())
    }

    /// Executes a call on top of its owner's effects, and says what room there is then.
    fn execute(&mut self, record: RecordIx, owner: Owner, call: &Call) -> Result<(Executed, Room), OpError> {
        let unique = self.next_unique();
        self.looks += 1;
        let Record { key, state, lock, .. } = &mut self.records[record];
        let own = lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt));
        if call.op.asks_version() && own.is_some_and(Holder::has_effects) {
            // The next transaction of a batch asks: for it the record has changed.
            return Ok((call.op.execute(Some(&of_own_change(unique)), unique)?, Room::UNBOUNDED));
        }
        if let Some(External(records)) = self.external {
            let own = own_effects(own, call.member, [&call.op].into_iter());
            self.replays += own.len() as u64;
            let partial = records.partial_state(key, &call.op, &own);
            self.read += records.take_read();
            let executed = partial.and_then(|it| call.op.execute_in_partial(it, &own, unique));
            return executed.or_else(|error| match error {
                OpError::Changed => Err(error),
                error => Ok((call.op.not_executed(error)?, Room::UNBOUNDED)),
            });
        }
        if call.op.asks_version() {
            let told = State::of_version(self.versions.of(key));
            return Ok((call.op.execute(Some(&told), unique)?, Room::UNBOUNDED));
        }
        let undo = overlay(own_effects(own, call.member, [&call.op].into_iter()), state);
        self.replays += undo.len() as u64;
        let executed = call.op.execute(state.as_ref(), unique);
        let room = call.op.room(state.as_ref());
        self.undo(record, undo);
        executed.map(|executed| (executed, room))
    }

    /// How many calls of an attempt are granted on a record.
    pub(crate) fn calls_of(&self, record: RecordIx, attempt: AttemptId) -> usize {
        let lock = self.records[record].lock.as_ref();
        lock.and_then(|lock| lock.holders.get(&attempt)).map_or(0, |own| own.items.len())
    }

    // --- views ---

    /// Makes a view for the first of these calls, if they are several: for how many. `None`: the first is decided by
    /// itself.
    fn open(&mut self, record: RecordIx, owner: Owner, calls: &[Call]) -> Option<(View, usize)> {
        let [first, _, ..] = calls else { return None };
        let alike =
            |call: &&Call| call.member == first.member && same(call.op.type_info(), first.op.type_info());
        // A version is nothing of what is in the record.
        let of_content = calls.iter().take_while(|call| alike(call) && !call.op.asks_version());
        let ops: SmallVec<[&Operation; 8]> = of_content.map(|call| &call.op).collect();
        if self.has_vanished(record) || ops.is_empty() {
            return None;
        }
        let Record { key, state, lock, .. } = &mut self.records[record];
        let own = lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt));
        if let Some(External(records)) = self.external {
            let own = own_effects(own, first.member, ops.iter().copied());
            self.replays += own.len() as u64;
            // What cannot be done shows once more when the call is decided by itself.
            let partial = records.partial_state_for_all(key, &ops, &own);
            self.read += records.take_read();
            let (mut partial, covered) = partial.ok()?;
            first.op.add_to_partial(&mut partial, &own).ok()?;
            return Some((View::Partial(partial), covered.clamp(1, ops.len())));
        }
        let undo = overlay(own_effects(own, first.member, ops.iter().copied()), state);
        self.replays += undo.len() as u64;
        Some((View::InPlace(undo), ops.len()))
    }

    fn execute_in(
        &mut self,
        record: RecordIx,
        view: &View,
        call: &Call,
    ) -> Result<(Executed, Room), OpError> {
        let unique = self.next_unique();
        self.looks += 1;
        let state = match view {
            View::Partial(state) => state,
            View::InPlace(_) => &self.records[record].state,
        };
        let executed = call.op.execute(state.as_ref(), unique)?;
        Ok((executed, call.op.room(state.as_ref())))
    }

    /// Adds the effect of a call that was granted. Whether the view is good for the next one.
    pub(super) fn extend(&mut self, record: RecordIx, view: &mut View, call: &Call, effect: Effect) -> bool {
        self.replays += 1;
        match view {
            View::Partial(state) => call.op.add_to_partial(state, &[&effect]).is_ok(),
            View::InPlace(undo) => {
                undo.push(effect.apply(&mut self.records[record].state));
                true
            }
        }
    }

    fn close(&mut self, record: RecordIx, view: View) {
        match view {
            View::Partial(_) => {}
            View::InPlace(undo) => self.undo(record, undo),
        }
    }

    pub(super) fn undo(&mut self, record: RecordIx, mut undo: SmallVec<[Effect; 2]>) {
        let state = &mut self.records[record].state;
        if is_planted(Bug::OverlayUndoneForwards) {
            undo.reverse();
        }
        // Last first (P12).
        let undone = undo.into_iter().rev().skip(usize::from(is_planted(Bug::OverlayStays)));
        undone.for_each(|effect| drop(effect.apply(state)));
    }
}

/// A member's effects on a record, on which its next call there is executed (P12).
fn own_effects<'a>(
    own: Option<&'a Holder>,
    member: Member,
    ops: impl Iterator<Item = &'a Operation>,
) -> SmallVec<[&'a Effect; 4]> {
    let own = own.filter(|_| !is_planted(Bug::NoOverlay));
    own.map_or_else(SmallVec::new, |own| own.effects_for(member, ops))
}

/// Of [`Bug::DepositsCount`]: the room as it will be if all that is pending makes room and nothing takes any.
fn room_with_deposits(lock: &Lock, room: Room) -> Room {
    let draws = || lock.holders.values().flat_map(Holder::claims).map(|claims| claims.draw);
    let (down, up): (u64, u64) = (draws().map(|it| it.down).sum(), draws().map(|it| it.up).sum());
    Room { down: room.down.saturating_add(up), up: room.up.saturating_add(down) }
}

/// Adds own effects for the time of some executions; undone by the returned ones in reverse.
fn overlay(own: SmallVec<[&Effect; 4]>, state: &mut Option<State>) -> SmallVec<[Effect; 2]> {
    own.into_iter().map(|effect| effect.clone().apply(state)).collect()
}

fn draws_fit(claims: &Claims, room: Room) -> bool {
    claims.draw.down <= room.down && claims.draw.up <= room.up
}

/// What is told instead of a version to whoever changed the record before, in the same attempt: nobody else is told that.
fn of_own_change(unique: Unique) -> State {
    State::of_version(format!("own {}", unique.0).into())
}
