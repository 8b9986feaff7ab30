//! What follows from a verdict: a call that is granted makes its owner a holder, another one makes it wait or fail.

use claret_types::{Claims, Mode, OpError, Reply};
use smallvec::SmallVec;

use super::deciding::{Grant, Verdict};
use super::{Lock, Owner, Used};
use crate::ids::{Birth, Time};
use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::executor::View;
use crate::shard::lock_table::footprint::footprint;
use crate::shard::lock_table::outbox::Outbox;
use crate::shard::lock_table::records::Record;
use crate::shard::phaser::Waiter;
use crate::switches::Ordered;

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
            let Some((view, covered)) = around.executor.open(around.counts, self, owner, some) else {
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
            true => lock.claim_in_order(&item.claims),
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
                    holder.used.add(&item.claims);
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
        let Record { key, hash, lock, .. } = self;
        around.hot.note(now, *hash, key, call.op.method().name);
        let meets = |lock: &Lock| lock.is_held_by_another(owner.attempt.tx.session);
        if around.switches.ordering() == Ordered::Hot
            && call.op.is_total()
            && lock.as_deref().is_some_and(meets)
        {
            around.heat.note(now, around.limits, *hash);
        }
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
