//! The decision about a call: it is granted, it waits, or it fails.
//!
//! By claims in phases a call is executed on top of its owner's effects on the record, and its claims are checked against everybody
//! else's. To the lock, members of one combined group are one owner. But they do not see each other's effects, because any of them
//! may still leave (C4). In order nothing is executed yet: a call claims its footprint ([`Lock::admits_in_order`]).
//!
//! An operation that is over at once ([`Lock::judge_instantly`]) is decided in the same words. But it has no owner: nothing that it
//! claims along, no member beside which it draws, nobody behind whom it could stand. It waits for whatever is not sure to commute with it.

use claret_types::{Claims, Executed, Mode, Modes, OpError, Operation, Reply, Room};

use super::admitting::Behind;
use super::{Holder, Item, Lock, Owner};
use crate::ids::{AttemptId, Member};
use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::footprint::union;
use crate::shard::lock_table::records::Record;
use crate::switches::{Discipline, Switches};

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
        let executed = around.executor.execute(around.counts, self, owner, call);
        self.judge(around.switches, owner, call, executed)
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
        let fits =
            || self.held.admits_draw_beside(claims.draw, room, drawn()) || is_planted(Bug::DrawsNotSummed);
        commutes && (!draws || fits())
    }

    /// Decides about an operation that was executed and is over at once. Its room is asked for only where somebody may draw.
    pub(in super::super) fn judge_instantly(
        lock: Option<&Lock>,
        discipline: Discipline,
        op: &Operation,
        executed: Result<Executed, OpError>,
        room: impl FnOnce() -> Room,
    ) -> Verdict<(Reply, Option<claret_types::Effect>)> {
        let Executed { reply, claims, effect } = match executed {
            Ok(executed) => executed,
            Err(error) => return judge_error(error, lock.is_none_or(|lock| !lock.is_held())),
        };
        match lock.is_none_or(|lock| lock.admits_instantly(discipline, op, claims, room())) {
            true => Verdict::Grant((reply, effect)),
            false => Verdict::Wait,
        }
    }

    /// Whether nobody's claims are in the way of an operation that is over at once.
    pub(in super::super) fn admits_instantly(
        &self,
        discipline: Discipline,
        op: &Operation,
        claims: Claims,
        room: Room,
    ) -> bool {
        let kind = self.kind.unwrap_or(op.type_info());
        let modes = kind.common_modes(op.type_info());
        let claims = match discipline.is_abstract() {
            _ if modes.is_none() => Claims::record(Mode::EXCLUSIVE),
            true => claims,
            false => op.reader_writer(),
        };
        let modes = modes.unwrap_or(&kind.modes);
        !self.vanished
            && self.held.admits(modes, &claims, room, std::iter::empty())
            && self.admits_beside_line(modes, &claims)
    }

    /// Whether a command that is no operation has to wait, of which only claims are known.
    pub(in super::super) fn conflicts_with_any(
        &self,
        kind: &claret_types::TypeInfo,
        claims: &Claims,
    ) -> bool {
        self.vanished
            || self.held.draws_beside(claims.draw)
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

/// An error tells of the state, too: what others hold may be committed already and told their users, so it counts only once they are
/// gone (P15).
fn judge_error<G>(error: OpError, alone: bool) -> Verdict<G> {
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
