//! Letting waiters in after somebody left (P16 to P18).

use smallvec::SmallVec;

use super::asking::Verdict;
use super::{Owner, Pass};
use crate::ids::Time;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::outbox::Woken;
use crate::shard::lock_table::records::Record;
use crate::shard::phaser::{QueueId, Rank, Waiter};

/// What became of a waiter that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Granted,
    /// Found impossible, and out of the queue.
    Failed,
    Stays,
}

impl Record {
    /// Grants what can be granted after somebody left (P16). What leaves the queue may have been in the way of
    /// somebody who was looked at before, so it goes on until nothing moves.
    pub(in super::super) fn settle(&mut self, around: &mut Around<'_>, now: Time) {
        if self.lock.as_ref().is_none_or(|lock| lock.phaser.is_quiet()) {
            return;
        }
        let mut leading = true;
        // Once more if somebody moved, who may have been in another's way (P16).
        while self.settle_once(around, now, &mut leading) && !is_planted(Bug::SettlesOnce) {}
        if let Some(lock) = &mut self.lock {
            lock.phaser.tidy();
        }
    }

    /// Upgrades first, then the eldest waiter and with it its whole mode, then whoever overtakes nobody elder.
    /// `leading` until the eldest waiter was looked at. Returns whether anybody left the queue.
    fn settle_once(&mut self, around: &mut Around<'_>, now: Time, leading: &mut bool) -> bool {
        let Some(lock) = &mut self.lock else { return false };
        if lock.phaser.is_empty() {
            return false;
        }
        let upgrades: SmallVec<[Rank; 4]> = lock.phaser.upgrades().map(|(place, _)| *place).collect();
        let mut moved = false;
        for place in upgrades {
            moved |= self.settle_one(around, place, true) != Settled::Stays;
        }
        let mut tried: SmallVec<[QueueId; 4]> = SmallVec::new();
        while let Some(next) = self.lock.as_ref().and_then(|lock| lock.phaser.next_queue(&tried)) {
            tried.push(next);
            let (head, some) = self.settle_queue(around, next, *leading);
            moved |= some;
            if head == Settled::Granted && *leading {
                around.counts.begin_phase();
                if let Some(lock) = &mut self.lock {
                    lock.phaser.begin_phase(now);
                }
            }
            // Only the eldest of all begins a phase: another that gets in beside those who hold ends none.
            *leading &= head == Settled::Failed;
        }
        moved
    }

    /// Grants from one queue, eldest first; a leading queue is granted as a whole. Returns what became of its
    /// eldest (of those that are possible: the others leave), and whether anybody left the queue.
    fn settle_queue(&mut self, around: &mut Around<'_>, queue: QueueId, leading: bool) -> (Settled, bool) {
        let mut head = Settled::Failed;
        let mut moved = false;
        let mut misses = 0;
        let mut after = None;
        loop {
            let next = self.lock.as_ref().and_then(|lock| lock.phaser.next_in(queue, after));
            let Some((place, waiter)) = next else { return (head, moved) };
            let place = *place;
            let whole = waiter.footprint.list.iter().any(|c| c.scope == claret_types::Scope::Record);
            let may = leading && head == Settled::Granted || self.overtakes_nobody(place, waiter);
            let settled = if may { self.settle_one(around, place, false) } else { Settled::Stays };
            if head == Settled::Failed {
                head = settled;
            }
            moved |= settled != Settled::Stays;
            if settled == Settled::Stays {
                misses += 1;
                if whole || misses > around.limits.settle_misses_max {
                    return (head, moved);
                }
            }
            after = Some(place);
        }
    }

    fn overtakes_nobody(&self, place: Rank, waiter: &Waiter) -> bool {
        let Some(lock) = &self.lock else { return true };
        let eldest = lock.phaser.eldest_conflicting(waiter.kind, &waiter.footprint, true);
        eldest.is_none_or(|eldest| place.0 <= eldest)
    }

    /// Tries to grant one waiter.
    fn settle_one(&mut self, around: &mut Around<'_>, place: Rank, upgrade: bool) -> Settled {
        let Some(lock) = &self.lock else { return Settled::Stays };
        let Some(waiter) = lock.phaser.waiter(place, upgrade) else { return Settled::Stays };
        // Executing may be dear. A footprint of one claim is what the call will claim; if that is refused there
        // is no need to execute. (Only concurrency could be lost here, never correctness.)
        if !upgrade
            && waiter.pass == Pass::default()
            && waiter.footprint.list.len() == 1
            && let Some(modes) = lock.kind.and_then(|kind| kind.common_modes(waiter.kind))
            && !lock.held.admits_modes(modes, &waiter.footprint, std::iter::empty())
        {
            return Settled::Stays;
        }
        let (call, in_order) = (waiter.call.clone(), waiter.in_order);
        let owner = Owner { pass: waiter.pass, ..Owner::of(place.1, place.0) };
        // A call that waits to claim the record in order may not be able to any more: it may be of another type by now.
        let in_order = in_order && self.is_in_order(around.executor, owner, std::slice::from_ref(&call));
        let verdict = self.decide(around, owner, &call, in_order);
        if matches!(verdict, Verdict::Wait) {
            return Settled::Stays;
        }
        if let Some(lock) = &mut self.lock {
            lock.phaser.remove(place);
        }
        let result = match verdict {
            Verdict::Grant(mut grant) => {
                let reply = grant.reply.take();
                Ok((reply, self.grant(around, owner, &call, grant)))
            }
            Verdict::Fail(error) => Err(error),
            Verdict::Wait => unreachable!("just seen"),
        };
        let settled = if result.is_ok() { Settled::Granted } else { Settled::Failed };
        around.outbox.wake(Woken { attempt: owner.attempt, key: self.key.clone(), no: call.no, result });
        settled
    }
}
