//! For operators who look into a stuck shard: who holds what, and how to end attempts (`CLARET.LOCKS`,
//! `CLARET.RESOLVE`).

use std::collections::BTreeSet;

use claret_core::message::{Refusal, Request, Status};
use claret_core::{AttemptId, Shard, Told, Wait};
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes};

use super::{Caller, Node, settings};
use crate::ffi::{Blocked, Ctx, Log};
use crate::parts::error::{Error, Outcome};
use crate::parts::owner::{Name, Owner};
use crate::parts::questions::{Answer, Owed};
use crate::parts::queue::OWN;

/// A key that is held, for people.
pub(crate) struct Shown {
    pub(crate) key: Bytes,
    /// Who holds it, and who waits for it.
    pub(crate) attempts: [Vec<ShownAttempt>; 2],
}

/// An attempt, for people.
pub(crate) struct ShownAttempt {
    pub(crate) attempt: AttemptId,
    pub(crate) has_voted: bool,
    /// `None`: of a session that is forgotten, or of keys that are kept for a client whom the server did not name.
    pub(crate) owner: Option<Owner>,
}

/// What somebody hears who asks what is written.
pub(crate) enum Asked {
    /// At once.
    Told(Told),
    /// When the replicas have it: its client is to wait, with [`Node::question_waits`].
    Waits(u64),
}

impl Node {
    /// The keys that are held and that the caller may look at, in order; or this one alone.
    pub(crate) fn locks(&self, caller: &Caller, key: Option<&Bytes>) -> Result<Vec<Shown>, Error> {
        let shard = self.shard.as_ref().ok_or(Error::NotReady)?;
        let wanted = |wait: &Wait| key.is_none_or(|key| wait.key == *key);
        let mut waits: Vec<Wait> =
            shard.waits().filter(|wait| wanted(wait) && caller.may_run("TYPE", &wait.key)).collect();
        waits.sort_by(|a, b| a.key.cmp(&b.key));
        let show = |mut attempts: Vec<AttemptId>| {
            attempts.sort_unstable();
            attempts.into_iter().map(|attempt| self.shown(shard, attempt)).collect()
        };
        let shown = |Wait { key, holders, waiters }| Shown { key, attempts: [show(holders), show(waiters)] };
        Ok(waits.into_iter().map(shown).collect())
    }

    /// What is written for an attempt, for somebody who only wants to know.
    ///
    /// Others build on it, and it may be that nobody but this node has it: where the shard has replicas, who asks is told when those
    /// have it, too (S2).
    pub(crate) fn tell_written(
        &mut self,
        ctx: Ctx,
        attempt: AttemptId,
        may_wait: bool,
    ) -> Result<Asked, Error> {
        self.are_replicas_there()?;
        let until = self.now().plus(settings::REPLICA_MS.get() * 1_000);
        let shard = self.shard.as_mut().ok_or(Error::NotReady)?;
        let told = shard.tell_written(attempt, true);
        let Some(batch) = shard.ask_replicas() else { return Ok(Asked::Told(told)) };
        if !may_wait {
            return Err(Error::WaitsForAnswer);
        }
        let number = self.strict.questions.ask(batch, Owed::Told(told), until);
        self.come_back(ctx, 0);
        Ok(Asked::Waits(number))
    }

    /// The client of a question waits from now on.
    pub(crate) fn question_waits(&mut self, number: u64, client: Blocked) {
        self.strict.questions.wait(number, client);
        self.release_questions();
    }

    /// What is said to a client that waited.
    pub(crate) fn question_answered(&mut self, number: u64) -> Answer {
        self.strict.questions.take(number)
    }

    /// A client that asked is gone. Whether it still waited.
    pub(crate) fn question_left(&mut self, client: Blocked) -> bool {
        self.strict.questions.left(client)
    }

    pub(super) fn release_questions(&mut self) {
        while let Some((client, number)) = self.strict.questions.poll_released() {
            client.release(number);
        }
    }

    pub(super) fn shown(&self, shard: &Shard, attempt: AttemptId) -> ShownAttempt {
        let has_voted = shard.written(attempt) == Some(Status::Prepared);
        ShownAttempt { attempt, has_voted, owner: self.owner_of(attempt) }
    }

    fn owner_of(&self, attempt: AttemptId) -> Option<Owner> {
        match attempt.tx.session {
            OWN => self.plain.queue.owner_of(attempt.tx.sequence.0),
            session if session == self.one_shots.session() => self.one_shots.owner_of(attempt),
            session => self.sessions.owner_of(session),
        }
    }

    /// Ends one by its name: what has voted either way, what is open by abort.
    pub(crate) fn resolve(
        &mut self,
        ctx: Ctx,
        caller: &Caller,
        attempt: AttemptId,
        commits: bool,
    ) -> Outcome {
        if !is_planted(Bug::OperatorOvertakesEnds) {
            self.tell_shard(ctx);
        }
        let now = self.now();
        let link = self.one_shots.link();
        let shard = self.shard.as_mut().ok_or(Error::NotReady)?;
        let has_voted = shard.written(attempt) == Some(Status::Prepared);
        if !has_voted && (commits || !shard.is_open(attempt)) {
            return Err(Error::NotInDoubt(attempt));
        }
        may_end(ctx, shard, caller, |it| it == attempt)?;
        let word = if commits { "committed" } else { "aborted" };
        let others = if has_voted { ", whatever the others have" } else { "" };
        ctx.log(Log::Warning, &format!("{attempt} is {word} by user '{}'{others}", caller.name()));
        let refused_by = Some(shard.id());
        match has_voted {
            true if commits => shard.handle(now, link, Request::Apply { attempt }),
            true => shard.handle(now, link, Request::Abort { attempt, refused_by }),
            false => shard.refuse_these(now, &[attempt], &Refusal::Resolved),
        }
        self.counts.resolved += 1;
        self.carry_out(ctx, None);
        Ok(())
    }

    /// Ends all of a user that have not voted: how many.
    pub(crate) fn resolve_all_of(&mut self, ctx: Ctx, caller: &Caller, user: &Name) -> Result<u64, Error> {
        self.tell_shard(ctx);
        let now = self.now();
        let shard = self.shard.as_ref().ok_or(Error::NotReady)?;
        let is_of = |attempt: &AttemptId| self.owner_of(*attempt).is_some_and(|owner| owner.user == *user);
        let in_locks = shard.waits().flat_map(|wait| wait.holders.into_iter().chain(wait.waiters));
        let unvoted = in_locks.filter(|attempt| shard.written(*attempt) != Some(Status::Prepared));
        let all: BTreeSet<AttemptId> = unvoted.filter(is_of).collect();
        may_end(ctx, shard, caller, |attempt| all.contains(&attempt))?;
        let (by, count) = (caller.name(), all.len() as u64);
        ctx.log(Log::Warning, &format!("{count} attempts of user '{user}' are aborted by user '{by}'"));
        let all: Vec<AttemptId> = all.into_iter().collect();
        if let Some(shard) = &mut self.shard {
            shard.refuse_these(now, &all, &Refusal::Resolved);
        }
        self.counts.resolved += count;
        self.carry_out(ctx, None);
        Ok(count)
    }
}

/// Whoever decides what becomes of keys may change them.
fn may_end(ctx: Ctx, shard: &Shard, caller: &Caller, is_meant: impl Fn(AttemptId) -> bool) -> Outcome {
    let foreign = |wait: &Wait| {
        wait.holders.iter().any(|attempt| is_meant(*attempt))
            && !(caller.may_run("DEL", &wait.key) || is_planted(Bug::EndsForeignKeys))
    };
    match shard.waits().find(foreign) {
        None => Ok(()),
        Some(Wait { key, .. }) => Err(caller.denied(ctx, "DEL", &key, Access::Write)),
    }
}
