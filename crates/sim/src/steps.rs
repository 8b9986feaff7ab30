//! How a run goes on: event by event, each at a shard, a process, a connection or the whole, until nothing is left to wait for.

use claret_core::message::Refusal;
use claret_core::{ShardId, Time};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::outcome::Outcome;
use crate::process::Process;
use crate::world::World;

/// More steps than any run needs, or without phases from one transaction's end to the next one's: a storm of messages.
const STEPS_MAX: u64 = 800_000;

impl World {
    /// Runs until everything is done (in safety mode: until time is over), and checks the end.
    pub(crate) fn run(&mut self) -> Result<Outcome, Violation> {
        self.begin_replicas()?;
        while !self.is_quiet() {
            let Some((at, number, event)) = self.queue.pop() else {
                return Err(format!("nothing will happen any more\n{}", self.picture()));
            };
            if self.config.faults.endless && at.0 >= self.config.faults.until_us {
                break;
            }
            self.now = at;
            self.outcome.steps += 1;
            if self.is_late() {
                return Err(format!(
                    "not done after {} steps, {at}, faults stopped at {}us\n{}",
                    self.outcome.steps,
                    self.config.faults.until_us,
                    self.picture()
                ));
            }
            self.step(number, event)?;
        }
        // In the end all arrives: what shards have written counts, though nobody was told.
        (0..self.config.shards).try_for_each(|number| self.replicate_at_once(ShardId(number)))?;
        if !self.config.faults.endless {
            self.leave_nothing()?;
        }
        self.finish()?;
        Ok(self.outcome)
    }

    /// Whether everything should have been over by now. With phases everybody is the eldest in time. Without them nobody has a
    /// turn (P68): as long as others come to an end one after the other, who is unlucky may wait.
    fn is_late(&self) -> bool {
        let (at, steps) = if self.config.phasing { (Time(0), 0) } else { self.last_end };
        self.now > at.plus(self.config.deadline_us()) || self.outcome.steps - steps > STEPS_MAX
    }

    fn step(&mut self, number: u64, event: SimEvent) -> Result<(), Violation> {
        if let Some(end) = event.at()
            && let Some(until) = self.faults.paused_until(end, self.now)
        {
            self.queue.put_off(number, until, event);
            return Ok(());
        }
        if !event.is_without_words() {
            self.trace.note(self.now, &event.words(), || event.to_string());
        }
        match event {
            SimEvent::Move(slot, to) => self.begin_move(slot, to),
            SimEvent::Leave(shard) => self.leave_cluster(shard),
            SimEvent::Cut(a, b, until) => {
                self.lines.network.cut(a, b, until);
                self.break_between(a, b, until);
                Ok(())
            }
            SimEvent::Pause(end, until) => {
                self.outcome.faults += 1;
                self.faults.pause(end, until);
                Ok(())
            }
            SimEvent::Restart(id, until) if self.config.is_replicated() => self.fail_over(id, until),
            SimEvent::Restart(id, until) => self.restart_shard(id, until),
            SimEvent::Replicated(id, life, batch) => self.have_replicated(id, life, batch),
            SimEvent::EndStale(id, life) => {
                self.end_stale(id, life);
                Ok(())
            }
            SimEvent::Audit(session) => self.audit(session),
            of_shard => self.step_shard(of_shard),
        }
    }

    /// Carries out what happens at a shard.
    fn step_shard(&mut self, event: SimEvent) -> Result<(), Violation> {
        match event {
            SimEvent::Request { to: id, .. }
            | SimEvent::Peer { to: id, .. }
            | SimEvent::ShardTimer(id, _)
            | SimEvent::Frame { to: id, .. }
            | SimEvent::Refuse(id)
            | SimEvent::Desert(id, _)
                if !self.cluster.has_left(id) =>
            {
                self.expire_what_is_due(id)?
            }
            _ => {}
        }
        match event {
            SimEvent::Request { to, .. } if self.cluster.has_left(to) => Ok(()),
            SimEvent::Request { to, link, request } => {
                if let Some(at) = self.stale_of(to, link) {
                    self.hear_as_stale((to, at), link, vec![request], false);
                    return Ok(());
                }
                let now = self.shard_time(to);
                self.lines.note_heard(to, link);
                self.host(to).shard.handle(now, link, request);
                self.drain_shard(to)
            }
            SimEvent::Peer { from, to, message } if self.cluster.has_left(to) => {
                self.answer_for_removed(from, to, &message);
                Ok(())
            }
            SimEvent::Peer { from, to, message } => self.hear_peer(from, to, message),
            SimEvent::ShardTimer(id, due) => {
                let now = self.shard_time(id);
                let host = self.host(id);
                if host.timer != Some(due) {
                    return Ok(()); // It has asked for another time since.
                }
                host.timer = None;
                host.shard.handle_timeout(now);
                self.drain_shard(id)
            }
            SimEvent::Frame { to, link, requests } => self.handle_frame(to, link, requests),
            SimEvent::Handshake(session, shard, connection) => {
                self.shake_hands(session, shard, connection);
                Ok(())
            }
            SimEvent::Refuse(id) => {
                let now = self.shard_time(id);
                self.outcome.faults += 1;
                self.host(id).shard.refuse_unvoted(now, &Refusal::ReadOnly);
                self.drain_shard(id)
            }
            SimEvent::Expire(id, keys) => self.expire(id, keys),
            SimEvent::Flush(id) => self.flush(id),
            SimEvent::Desert(id, session) => {
                let now = self.shard_time(id);
                self.host(id).shard.deserted(now, session);
                self.drain_shard(id)
            }
            SimEvent::Forget(id, session) => {
                let now = self.shard_time(id);
                self.ledger.note_forgotten(id, session);
                self.host(id).shard.forget(now, session);
                self.drain_shard(id)
            }
            of_process => self.step_process(of_process),
        }
    }

    /// Whether nothing is left to wait for: every client is done, every shard knows it, no message is under way.
    fn is_quiet(&self) -> bool {
        self.queue.awaited() == 0 && self.processes.values().all(Process::is_done) && self.cluster.is_quiet()
    }
}
