//! How an attempt goes on from record to record: at once with its prepare, and when it has what it waited for.
//!
//! A prepare locks its records in the order of its calls, and stops at the first for which it has to wait (P19a).

use std::vec;

use super::{Blocked, Bug, Bytes, Calls, Owner, Ran, Refusal, Response, Shard, Stage, Time, Woken, key_hash};
use crate::ids::AttemptId;

impl Shard {
    /// Locks and executes, record after record. Later ones are not held while it waits for an earlier one.
    pub(super) fn run_in_order(
        &mut self,
        now: Time,
        owner: Owner,
        mut groups: vec::IntoIter<(Bytes, Calls)>,
    ) -> Ran {
        let mut ran = Ran::All;
        while let Some((key, mut calls)) = groups.next() {
            self.table.reserve_for_all(&mut calls);
            let record = self.table.ensure(key_hash(&key), &key);
            match self.run(now, owner, &key, record, calls) {
                Ran::All => {}
                Ran::Busy => ran = Ran::Busy,
                Ran::Waits => {
                    self.participant(owner.attempt).behind = groups;
                    return Ran::Waits;
                }
                failed @ Ran::Failed(_) => return failed,
            }
        }
        ran
    }

    /// Carries on with everybody whom the last input let in. What a grant or an error was decided on may not change
    /// before it is written, so all of these come first, and then those who go on to further records.
    pub(super) fn drain(&mut self, now: Time) {
        loop {
            if let Some(woken) = self.table.woken.pop_front() {
                self.wake(now, woken);
            } else if let Some(attempt) = self.going_on.pop_front() {
                self.go_on(now, attempt);
            } else {
                break;
            }
        }
        if self.table.notices.is_empty() {
            return;
        }
        for notice in std::mem::take(&mut self.table.notices) {
            let undecided = self.attempts.get(&notice.attempt).is_some();
            if undecided {
                let (attempt, birth) = (notice.attempt, notice.elder.time);
                self.respond(attempt, Response::Elder { attempt, shard: self.id, birth });
            }
        }
    }

    fn wake(&mut self, now: Time, woken: Woken) {
        let Some(participant) = self.attempts.get_mut(&woken.attempt) else { return };
        let owner = participant.owner;
        let Some(at) = participant.blocked.iter().position(|it| it.record == woken.record) else {
            unreachable!("{} was woken and did not wait", woken.attempt)
        };
        let Blocked { key, record, calls } = participant.blocked.swap_remove(at);
        let mut calls = calls.into_iter();
        let call = calls.next().expect("it waited for a call");
        debug_assert_eq!(call.no, woken.no);
        let ran = match woken.result {
            Ok((reply, first)) => {
                self.note_grant(owner.attempt, record, first, call.no, call.op.returns(), reply);
                self.run(now, owner, &key, record, calls)
            }
            Err(error) => Ran::Failed(Refusal::Operation { key, error }),
        };
        if let Ran::Failed(refusal) = ran {
            return self.refuse(now, owner.attempt, refusal);
        }
        let early = self.planted.is(Bug::VoteBeforeLastGrant);
        let participant = self.participant(owner.attempt);
        if !matches!(participant.stage, Stage::Preparing(_)) || !participant.blocked.is_empty() && !early {
            return;
        }
        match participant.behind.len() == 0 || early {
            true => self.vote(now, owner.attempt),
            false => self.going_on.push_back(owner.attempt),
        }
    }

    /// Locks the records that stood behind the one for which it waited.
    fn go_on(&mut self, now: Time, attempt: AttemptId) {
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        let (owner, behind) = (participant.owner, std::mem::take(&mut participant.behind));
        match self.run_in_order(now, owner, behind) {
            Ran::All => self.vote(now, attempt),
            Ran::Waits | Ran::Busy => {}
            Ran::Failed(refusal) => self.refuse(now, attempt, refusal),
        }
    }
}
