//! Tells a group's members what happens: each hears its own answers, and all hear the outcome.
//!
//! A refusal, or giving way, ends the attempt for all. Each member then retries alone, so that an operation that
//! cannot be done dooms only the transaction that asked for it.

use claret_types::{Bytes, Reply};
use smallvec::SmallVec;

use super::Combined;
use crate::client::process::Process;
use crate::coordinator::{Cause, Event};
use crate::ids::{CallNo, Time, TxHandle};
use crate::planted::{Bug, is_planted};

impl Combined {
    /// Carries on with a group after something was put into it: hands on what it sends, hears what it tells.
    pub(super) fn settle(&mut self, process: &mut Process, now: Time, at: usize) {
        while let Some(event) = self.groups[at].coordinator.poll_event() {
            match event {
                Event::Answer { no, reply } => self.on_answer(process, now, at, no, reply),
                Event::Committed { replies } => self.on_committed(at, replies),
                Event::Behind { .. } | Event::Seen { .. } => {} // The client tells this by itself.
                ended @ (Event::Aborted | Event::Restart { .. } | Event::Failed { .. } | Event::Unknown) => {
                    self.on_ended(process, now, at, ended);
                }
            }
        }
        if self.groups[at].coordinator.awaits_safe_time().is_some() {
            self.close(at); // It is over, though its members hear of that later.
        }
        let group = &mut self.groups[at];
        while let Some(send) = group.coordinator.poll_send() {
            self.sends.push_back(send);
        }
        let due = [group.coordinator.poll_timeout(), group.patience_ends(process.limits())];
        self.groups.set_due(at, due.into_iter().flatten().min());
        self.ended.push(at);
        self.bury_ended(process);
    }

    /// A call was granted: its lock is the group's now, and a read may be shared.
    fn on_answer(&mut self, process: &mut Process, now: Time, at: usize, no: CallNo, reply: Reply) {
        let group = &mut self.groups[at];
        let Some(called) = group.calls.get_mut(no.0 as usize) else { return };
        let (member, no) = (called.member, called.no);
        if let Some((key, op)) = called.read.take()
            && group.coordinator.is_running()
            && self.reads.insert(at, &key, op, reply.clone())
        {
            group.read_keys.push(key);
        }
        let tx = group.tx_of(member);
        if let Some(tx) = tx {
            self.events.push_back((tx, Event::Answer { no, reply }));
        }
        self.wake_deferred(process, now, at);
    }

    /// Tries again what stood behind another member's call.
    fn wake_deferred(&mut self, process: &mut Process, now: Time, at: usize) {
        for call in std::mem::take(&mut self.groups[at].deferred) {
            let answers = match call.shareable {
                true => self.reads.answers(&call.key, &call.op, process.limits().combine_misses_max),
                false => SmallVec::new(),
            };
            match answers.into_iter().find(|(group, _)| *group == at) {
                Some((_, reply)) => {
                    process.note_shared_answer();
                    self.events.push_back((call.tx, Event::Answer { no: call.no, reply }));
                }
                None => self.send_or_defer(now, at, call),
            }
        }
    }

    fn on_committed(&mut self, at: usize, mut replies: Vec<(CallNo, Reply)>) {
        let group = &mut self.groups[at];
        let calls = std::mem::take(&mut group.calls);
        let members = std::mem::take(&mut group.present);
        self.stats.group_commits += u64::from(members.len() > 1);
        self.dissolve(at);
        for (member, tx) in members {
            // A shard may name calls that nobody made.
            let called = |no: CallNo| calls.get(no.0 as usize).filter(|called| called.member == member);
            let own = replies.extract_if(.., |(no, _)| called(*no).is_some());
            let replies = own.filter_map(|(no, reply)| Some((called(no)?.no, reply))).collect();
            self.events.push_back((tx, Event::Committed { replies }));
            self.end(tx);
        }
    }

    /// The attempt is over and nothing of it will be applied.
    fn on_ended(&mut self, process: &mut Process, now: Time, at: usize, ended: Event) {
        let group = &self.groups[at];
        let asked = group.coordinator.asked().filter(|_| ended == Event::Unknown);
        let combined = group.is_combined();
        let members: SmallVec<[(TxHandle, bool); 4]> =
            group.present.iter().map(|(member, tx)| (*tx, group.regretting.contains(member))).collect();
        self.dissolve(at);
        for (tx, regrets) in members {
            asked.iter().for_each(|asked| process.note_unknown(now, tx, asked.clone()));
            let event = match &ended {
                Event::Restart { .. } | Event::Failed { .. } if combined && regrets => Event::Aborted,
                // Whoever is to blame fails on its own.
                Event::Failed { refusal } if combined => {
                    Event::Restart { cause: Cause::Refused(refusal.clone()) }
                }
                other => other.clone(),
            };
            let restarts = matches!(event, Event::Restart { .. });
            self.events.push_back((tx, event));
            if !restarts {
                self.end(tx);
                continue;
            }
            if combined {
                self.keep_used(tx);
            }
            self.txs.get_mut(&tx).expect("it restarts").place = None;
        }
    }

    /// A group shares nothing any more: its prepare leaves, or it is over.
    pub(super) fn close(&mut self, at: usize) {
        let keys: Vec<Bytes> = std::mem::take(&mut self.groups[at].read_keys);
        self.reads.remove(at, &keys);
    }

    fn dissolve(&mut self, at: usize) {
        self.close(at);
        self.groups[at].dissolve();
    }

    /// A transaction is over; its id lives on until all participants know.
    pub(super) fn end(&mut self, tx: TxHandle) {
        let Some(it) = self.txs.remove(&tx) else { return };
        if let Some(home) = it.home {
            self.groups[home].owner = None;
            self.ended.push(home);
        }
    }

    /// Forgets the ids that nobody needs any more.
    pub(super) fn bury_ended(&mut self, process: &mut Process) {
        while let Some(at) = self.ended.pop() {
            self.bury(process, at);
        }
    }

    fn bury(&mut self, process: &mut Process, at: usize) {
        let Some(group) = self.groups.get(at) else { return };
        // Every participant knows the end of all its attempts (P28, C14).
        let is_over = || group.coordinator.is_over() || is_planted(Bug::BuriesEarly);
        if group.owner.is_some() || !group.present.is_empty() || !is_over() {
            return;
        }
        let id = self.groups.remove(at);
        process.end(id);
    }
}
