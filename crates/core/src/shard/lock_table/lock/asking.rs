//! A call asks for its record: the decision, and what follows from it. It is granted, and its owner is a holder; it waits; or it fails.
//!
//! By claims in phases a call is executed on top of its owner's effects on the record, and its claims are checked against everybody
//! else's. To the lock, members of one combined group are one owner. But they do not see each other's effects, because any of them
//! may still leave (C4). In order nothing is executed yet: a call claims its footprint ([`Lock::admits_in_order`]).

use claret_types::{Claims, Executed, Mode, Modes, OpError, Reply, Room};
use smallvec::SmallVec;

use super::admitting::Behind;
use super::{Holder, Item, Lock, Owner, Used};
use crate::ids::{AttemptId, Birth, Member, Time};
use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::executor::View;
use crate::shard::lock_table::footprint::{footprint, union};
use crate::shard::lock_table::outbox::Outbox;
use crate::shard::lock_table::records::Record;
use crate::shard::phaser::Waiter;
use crate::switches::{Ordered, Switches};

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

/// What a call that was granted answers, unless that is given later; whether its owner held nothing on the record before.
pub(crate) type Answer = (Option<Reply>, bool);

pub(crate) type Answers = SmallVec<[Answer; 1]>;

/// What is decided about a call.
#[derive(Debug)]
pub(in super::super) enum Verdict<G> {
    Grant(G),
    /// Not now: others are in the way.
    Wait,
    Fail(OpError),
}

/// What is granted.
#[derive(Debug)]
pub(super) struct Grant {
    /// Unless it is given later.
    pub(super) reply: Option<Reply>,
    pub(super) item: Item,
    /// It claims the record in order (P80).
    pub(super) in_order: bool,
    /// Behind whom it is granted, whose claims conflict. Mostly nobody.
    pub(super) behind: Vec<AttemptId>,
}

impl Grant {
    fn of(reply: Reply, item: Item) -> Self {
        Grant { reply: Some(reply), item, in_order: false, behind: Vec::new() }
    }

    /// Of a call that is executed when its turn comes.
    pub(super) fn in_order(call: &Call, claims: Claims) -> Self {
        Grant { reply: None, item: Item::of(call, claims, None), in_order: true, behind: Vec::new() }
    }
}

/// Asking.
impl Record {
    /// See [`LockTable::request`](crate::shard::lock_table::LockTable::request).
    pub(in super::super) fn request(
        &mut self,
        around: &mut Around<'_>,
        now: Time,
        owner: Owner,
        calls: &[Call],
        enough: u64,
        answers: &mut Answers,
    ) -> Stop {
        let mut at = 0;
        let enough = around.counts.dearness().saturating_add(enough);
        // A view is asked for no more calls than twice as many as the last one was good for.
        let mut asked = calls.len();
        while at < calls.len() && (at == 0 || around.counts.dearness() <= enough) {
            let some = &calls[at..calls.len().min(at.saturating_add(asked))];
            // A command is looked at by itself, and so is what comes behind one.
            let before = some.iter().position(|call| call.op.is_command()).unwrap_or(some.len());
            let view = match before > 0 && !self.is_run_on_by(owner) {
                true => around.executor.open(around.counts, self, owner, &some[..before]),
                false => None,
            };
            let Some((view, covered)) = view else {
                match self.request_one(around, now, owner, &calls[at], false) {
                    Ok(answer) => answers.push(answer),
                    Err(stop) => return stop,
                }
                at += 1;
                continue;
            };
            let covered = &calls[at..at + covered];
            let (stopped, granted) =
                self.request_in_view(around, now, owner, covered, (view, enough), answers);
            if let Some(stop) = stopped {
                return stop;
            }
            at += granted;
            asked = 2 * covered.len().max(1);
        }
        Stop::All
    }

    /// Asks for the lock of one call, by either discipline. Not granted: why.
    pub(in super::super) fn request_one(
        &mut self,
        around: &mut Around<'_>,
        now: Time,
        owner: Owner,
        call: &Call,
        in_order: bool,
    ) -> Result<Answer, Stop> {
        let verdict = self.decide(around, owner, call, in_order);
        match self.beside_waiters(around, now, owner, call, verdict) {
            Verdict::Grant(mut grant) => {
                let reply = grant.reply.take();
                reply.iter().for_each(|reply| around.counts.answer(reply));
                Ok((reply, self.grant(around, owner, call, grant)))
            }
            Verdict::Wait => Err(self.enqueue(around, now, owner, call, in_order)),
            Verdict::Fail(error) => Err(Stop::Failed(error)),
        }
    }

    /// Goes through calls that share a view, until that is enough. Why it stopped, and how many were granted.
    fn request_in_view(
        &mut self,
        around: &mut Around<'_>,
        now: Time,
        owner: Owner,
        calls: &[Call],
        (mut view, enough): (View, u64),
        answers: &mut Answers,
    ) -> (Option<Stop>, usize) {
        for (at, call) in calls.iter().enumerate() {
            let executed = around.executor.execute_in(around.counts, self, &view, call);
            let verdict = self.judge(around.switches, owner, call, executed);
            let mut grant = match self.beside_waiters(around, now, owner, call, verdict) {
                Verdict::Grant(grant) => grant,
                Verdict::Wait => {
                    view.close(self);
                    return (Some(self.enqueue(around, now, owner, call, false)), at);
                }
                Verdict::Fail(error) => {
                    view.close(self);
                    return (Some(Stop::Failed(error)), at);
                }
            };
            let reply = grant.reply.take();
            reply.iter().for_each(|reply| around.counts.answer(reply));
            let is_last = at + 1 == calls.len() || around.counts.dearness() > enough;
            let effect = grant.item.effect.clone().filter(|_| !is_last);
            answers.push((reply, self.grant(around, owner, call, grant)));
            if is_last {
                view.close(self);
                return (None, at + 1);
            }
            if let Some(effect) = effect
                && !is_planted(Bug::NoOverlay)
                && !view.extend(around.counts, self, call, effect)
            {
                return (None, at + 1);
            }
        }
        view.close(self);
        (None, calls.len())
    }

    /// P17: a request that the holders admit waits all the same if it may not pass those who wait.
    fn beside_waiters(
        &mut self,
        around: &Around<'_>,
        now: Time,
        owner: Owner,
        call: &Call,
        verdict: Verdict<Grant>,
    ) -> Verdict<Grant> {
        let is_granted = matches!(verdict, Verdict::Grant(_));
        match &mut self.lock {
            Some(lock) if is_granted => match lock.may_join(around, now, owner, call) {
                true => verdict,
                false => Verdict::Wait,
            },
            _ => verdict,
        }
    }

    /// Makes a call's owner a holder of the record, if it is not one. Whether it was none.
    pub(super) fn grant(&mut self, around: &mut Around<'_>, owner: Owner, call: &Call, grant: Grant) -> bool {
        around.counts.grant();
        let Grant { reply: _, item, in_order, behind } = grant;
        let expires = || self.expiry().is_some() || self.lock.as_ref().is_some_and(|lock| lock.expires);
        let in_any_state = match around.switches.ordering() {
            Ordered::Never => None,
            _ if in_order => None,
            _ if is_planted(Bug::ClocksOfTheMoment) => None,
            // Where that counts for clocks: claims of the moment say what commutes in one state.
            _ => Some(Used::by(around.switches, call, expires())),
        };
        let lock = self.lock_or_take(around.idle);
        lock.take_modes_of(call.op.type_info());
        match in_order {
            true => lock.claim_in_order(call, &item.claims),
            false => lock.held.add(&item.claims),
        }
        let (kind, eldest) = (lock.kind, lock.phaser.eldest());
        let holder = lock.hold(owner);
        // A new holder is told, too (P20).
        if let Some(elder) = eldest
            && !is_planted(Bug::GrantTellsNoElder)
        {
            holder.tell(owner.attempt, elder, around.outbox);
        }
        if around.switches.ordering() != Ordered::Never {
            match kind.is_some_and(|kind| kind.common_modes(call.op.type_info()).is_some()) {
                true => {
                    match in_order {
                        true => holder.used.add_in_order(&item.claims),
                        false => holder.used.add(&item.claims),
                    }
                    holder.used.join(in_any_state.unwrap_or_default());
                }
                // Its owner has the record alone, and changes its type.
                false => holder.used.add(&Claims::record(Mode::EXCLUSIVE)),
            }
        }
        holder.push(item);
        if in_order {
            holder.will_do(call);
        }
        let is_first = holder.items.len() == 1;
        if !behind.is_empty() {
            lock.stand_behind(owner.attempt, behind);
        }
        is_first
    }

    fn enqueue(
        &mut self,
        around: &mut Around<'_>,
        now: Time,
        owner: Owner,
        call: &Call,
        in_order: bool,
    ) -> Stop {
        around.counts.wait();
        let Record { key, hash, .. } = self;
        around.hot.note(now, *hash, key, call.op.method().name);
        let lock = self.lock_or_take(around.idle);
        if !around.switches.is_phased() {
            return Stop::Busy;
        }
        if lock.phaser.len() >= around.limits.waiters_max {
            return Stop::Crowded;
        }
        let footprint = footprint(around.switches, call, lock.expires);
        let upgrade = lock.passes_waiters(owner);
        let kind = call.op.type_info();
        let waiter = Waiter { call: call.clone(), footprint, kind, in_order, pass: owner.pass };
        lock.phaser.enqueue(now, (owner.birth, owner.attempt), waiter, upgrade);
        lock.tell_holders(owner.birth, around.outbox);
        Stop::Queued
    }
}

/// The decision.
impl Record {
    /// Decides about a call of an owner who claims the record by the one discipline or, `in_order`, by the other.
    pub(super) fn decide(
        &mut self,
        around: &mut Around<'_>,
        owner: Owner,
        call: &Call,
        in_order: bool,
    ) -> Verdict<Grant> {
        if in_order {
            let claims = Lock::claims_in_order(around.switches, call);
            return match self.lock.as_ref().is_none_or(|lock| lock.admits_in_order(call, &claims)) {
                true => Verdict::Grant(Grant::in_order(call, claims)),
                false => Verdict::Wait,
            };
        }
        if self.has_vanished() {
            return Verdict::Wait;
        }
        if !call.op.is_command() && self.is_run_on_by(owner) {
            return Verdict::Fail(behind_commands(call));
        }
        let executed = around.executor.execute(around.counts, self, owner, call);
        self.judge(around.switches, owner, call, executed)
    }

    /// Whether an attempt runs a command of the server on the record: what that leaves nobody knows before.
    fn is_run_on_by(&self, owner: Owner) -> bool {
        let own = self.lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt));
        own.is_some_and(|own| own.runs_commands) && !is_planted(Bug::OperationsBehindCommands)
    }

    /// Decides about a call that was executed: checks its claims.
    pub(super) fn judge(
        &mut self,
        switches: &Switches,
        owner: Owner,
        call: &Call,
        executed: Result<(Executed, Room), OpError>,
    ) -> Verdict<Grant> {
        let lock = &self.lock;
        let own = lock.as_ref().and_then(|lock| lock.holders.get(&owner.attempt));
        let alone = lock.as_ref().is_none_or(|lock| lock.holders.len() == usize::from(own.is_some()));
        let (executed, room) = match executed {
            Ok(executed) => executed,
            // It is no answer: the call sleeps, and looks again when anybody leaves (P91).
            Err(error) if own.is_none() && call.op.finds_nothing(&error) => return Verdict::Fail(error),
            Err(error) => return judge_error(error, alone || is_planted(Bug::ErrorCountsAtOnce)),
        };
        let kind = call.op.type_info();
        let lock_kind = lock.as_ref().and_then(|lock| lock.kind).unwrap_or(kind);
        let shares_modes = lock_kind.common_modes(kind).is_some() || is_planted(Bug::TwoTypesShare);
        let mut claims = match (switches.discipline().is_abstract(), &call.reserve) {
            _ if !shares_modes => Claims::record(Mode::EXCLUSIVE),
            (false, None) => call.op.reader_writer(),
            (false, Some(reserve)) => union(call.op.reader_writer(), reserve),
            (true, None) => executed.claims,
            (true, Some(reserve)) => union(executed.claims, reserve),
        };
        if own.is_some_and(|mates| mates.overdraws_with(call.member, &claims, room)) {
            return Verdict::Fail(OpError::Overflow("what one group draws".into(), format!("{:?}", call.op)));
        }
        let is_compared_read = call.op.is_seen() && call.op.method().access == claret_types::Access::Read;
        if is_compared_read && is_planted(Bug::ComparedUnlocked) {
            claims = Claims::none();
        }
        let modes = lock_kind.common_modes(kind).unwrap_or(&lock_kind.modes);
        let claims_all = claims.list.iter().any(|claim| claim.mode == Mode::EXCLUSIVE);
        let admitted = match lock {
            None => true,
            // The attempt stands behind others here, so its later calls here must, too.
            _ if own.is_some_and(|own| !own.behind.is_empty()) => false,
            Some(lock) => alone || lock.admits(own, modes, call.member, &claims, room),
        };
        if !admitted
            && let Some(lock) = lock
            && let Some(Behind { claims, effect, others }) =
                lock.admits_by_way(owner, call, &claims, executed.effect.as_ref())
        {
            let grant = Grant::of(executed.reply, Item::of(call, claims, effect));
            return Verdict::Grant(Grant { behind: others, ..grant });
        }
        if alone && !draws_fit(&claims, room) {
            // It would not fit beside anybody else's draw, so nobody else may hold the record with it.
            claims = Claims::record(Mode::EXCLUSIVE).drawing(claims.draw);
        }
        if claims_all
            && !admitted
            && let Some(lock) = &mut self.lock
        {
            lock.expires = true;
        }
        match admitted {
            true => Verdict::Grant(Grant::of(executed.reply, Item::of(call, claims, executed.effect))),
            false => Verdict::Wait,
        }
    }
}

impl Lock {
    /// Whether claims commute with what others hold, and what is drawn fits beside their draws.
    fn admits(
        &self,
        own: Option<&Holder>,
        modes: &Modes,
        member: Member,
        claims: &Claims,
        room: Room,
    ) -> bool {
        let commutes = match own {
            Some(own) => own.is_alone_in_the_way(&self.held, modes, claims),
            None => self.held.admits_modes(modes, claims, std::iter::empty()),
        };
        let commutes = commutes && self.admits_beside_line(modes, claims);
        let drawn = || own.map_or((0, 0), |own| own.drawn_by(member));
        let draws = claims.draw.down > 0 || claims.draw.up > 0;
        let room = if is_planted(Bug::DepositsCount) { self.room_with_deposits(room) } else { room };
        let fits = || {
            self.held.admits_draw_beside(claims.draw, room, drawn())
                && self.leaves_room_in_order(claims.draw, room)
                || is_planted(Bug::DrawsNotSummed)
        };
        commutes && (!draws || fits())
    }

    /// Whether a command that is no operation has to wait, of which only claims are known.
    pub(in super::super) fn conflicts_with_any(
        &self,
        kind: &claret_types::TypeInfo,
        claims: &Claims,
    ) -> bool {
        self.vanished
            || self.held.draws_beside(claims.draw)
            || self.may_take_room(claims.draw)
            || self.kind.and_then(|held| held.common_modes(kind)).is_none_or(|modes| {
                !self.held.admits_modes(modes, claims, std::iter::empty())
                    || !self.admits_beside_line(modes, claims)
            })
    }

    /// Of [`Bug::DepositsCount`]: the room as it will be if all that is pending makes room and nothing takes any.
    fn room_with_deposits(&self, room: Room) -> Room {
        let draws = || self.holders.values().flat_map(Holder::claims).map(|claims| claims.draw);
        let (down, up): (u64, u64) = (draws().map(|it| it.down).sum(), draws().map(|it| it.up).sum());
        Room { down: room.down.saturating_add(up), up: room.up.saturating_add(down) }
    }
}

/// Those who wait.
impl Lock {
    /// P17: whether a request that the holders admit may pass those who wait.
    fn may_join(&mut self, around: &Around<'_>, now: Time, owner: Owner, call: &Call) -> bool {
        if self.phaser.is_empty() || self.passes_waiters(owner) {
            return true;
        }
        let footprint = footprint(around.switches, call, self.expires);
        let Some(eldest) = self.phaser.eldest_conflicting(call.op.type_info(), &footprint, false) else {
            return true;
        };
        let (joins_max, micros_max) = (around.limits.phase_joins_max, around.limits.phase_us_max);
        self.phaser.join(now, joins_max, micros_max) || owner.birth < eldest
    }

    /// Tells the younger holders that `elder` waits, unless they know of an elder one. All of them: what a waiter waits for shows only when
    /// it is executed (an error waits for everybody), and a holder that is told in vain gives way only if it is blocked itself.
    fn tell_holders(&mut self, elder: Birth, outbox: &mut Outbox) {
        if !self.phaser.tell(elder) || self.youngest.is_none_or(|youngest| youngest < elder) {
            return; // Mostly: who comes last is the youngest.
        }
        for (attempt, holder) in &mut self.holders {
            holder.tell(*attempt, elder, outbox);
        }
    }
}

/// An error tells of the state, too: what others hold may be committed already and told their users, so it counts only once they are
/// gone (P15).
pub(super) fn judge_error<G>(error: OpError, alone: bool) -> Verdict<G> {
    match error {
        // No is always safe, and who looks again waits for those that have voted (O2).
        OpError::Changed => Verdict::Fail(error),
        _ if alone => Verdict::Fail(error),
        _ => Verdict::Wait,
    }
}

fn draws_fit(claims: &Claims, room: Room) -> bool {
    claims.draw.down <= room.down && claims.draw.up <= room.up
}

/// A22: which operations come behind a command.
fn behind_commands(call: &Call) -> OpError {
    let name = call.op.method().name;
    OpError::Told(format!(
        "ERR behind a command of the server on this key a transaction has further commands alone, and {name} is an operation"
    ))
}
