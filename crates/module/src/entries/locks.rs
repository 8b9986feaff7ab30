//! `CLARET.LOCKS` and `CLARET.RESOLVE`: for people who look at a stuck shard.

use std::collections::BTreeSet;

use claret_core::message::{Refusal, Request, Status};
use claret_core::{AttemptId, Sequence, SessionId, Shard, TxId, Wait};
use claret_types::Access;

use crate::entries::plain::OWN;
use crate::ffi::{Arg, Ctx, Log};
use crate::node::admission::{Caller, Name};
use crate::node::{HOST, Host};
use crate::parts::error::{Error, Outcome};
use crate::parts::slots;

/// `CLARET.LOCKS [key]`
pub(crate) fn locks(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let key = match arguments {
        [_] => None,
        [_, key] => Some(key.to_bytes()),
        _ => return Err(Error::Usage("CLARET.LOCKS [key]")),
    };
    let caller = Caller::of(ctx);
    if let Some(key) = key.as_ref().filter(|key| !caller.may_run("TYPE", key)) {
        return Err(caller.denied("TYPE", key, Access::Read));
    }
    let shown = HOST.with(|host| {
        let shard = host.shard.as_ref().ok_or(Error::NotReady)?;
        let wanted = |wait: &Wait| key.as_ref().is_none_or(|key| wait.key == *key);
        let mut waits: Vec<Wait> =
            shard.waits().filter(|wait| wanted(wait) && caller.may_run("TYPE", &wait.key)).collect();
        waits.sort_by(|a, b| a.key.cmp(&b.key));
        ctx.reply_array(waits.len());
        waits.iter_mut().for_each(|wait| show(ctx, host, shard, wait));
        Ok(())
    });
    shown.unwrap_or(Err(Error::NotReady))
}

/// The key; who holds it; who waits for it.
fn show(ctx: Ctx, host: &Host, shard: &Shard, wait: &mut Wait) {
    ctx.reply_array(3);
    ctx.reply_bytes(&wait.key);
    for attempts in [&mut wait.holders, &mut wait.waiters] {
        attempts.sort_unstable();
        ctx.reply_array(attempts.len());
        for attempt in attempts {
            let stage = if shard.written(*attempt) == Some(Status::Prepared) { "voted" } else { "open" };
            let owner = host.owner_of(*attempt);
            let user = owner.as_ref().map_or("-".to_owned(), |owner| owner.user.to_string());
            let client = owner.and_then(|owner| owner.client);
            let (number, address) = match client.map(|client| (client, ctx.address_of(client))) {
                Some((client, Some(address))) => (client.to_string(), address),
                Some((_, None)) | None => ("-".to_owned(), "-".to_owned()),
            };
            let shown = format!("{attempt} {stage} user={user} client={number} addr={address}");
            ctx.reply_bytes(shown.as_bytes());
        }
    }
}

/// Whose an attempt is.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) user: Name,
    /// The server's number of its newest connection, which may be closed.
    pub(crate) client: Option<u64>,
}

impl Owner {
    /// Whoever sent the command that runs.
    pub(crate) fn of(ctx: Ctx) -> Owner {
        Owner { user: Name::new(ctx.user().bytes()), client: Some(ctx.client()) }
    }
}

impl Host {
    /// `None`: of a session that is forgotten, or of keys that are kept for a client whom the server did not name.
    fn owner_of(&self, attempt: AttemptId) -> Option<Owner> {
        match attempt.tx.session {
            OWN => self.guard.owner_of(attempt.tx.sequence.0),
            session if session == self.oneshots.session() => self.oneshots.owner_of(attempt),
            session => self.sessions.owner_of(session),
        }
    }
}

/// `CLARET.RESOLVE attempt COMMIT|ABORT` and `CLARET.RESOLVE USER name ABORT`
pub(crate) fn resolve(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    const USAGE: Error = Error::Usage(
        "CLARET.RESOLVE session.sequence/attempt COMMIT|ABORT, as CLARET.LOCKS shows it, or USER name ABORT",
    );
    let commits = |word: &Arg<'_>| match () {
        () if word.is("COMMIT") => Some(true),
        () if word.is("ABORT") => Some(false),
        () => None,
    };
    slots::may_write(ctx)?;
    match arguments {
        [_, attempt, decision] => {
            let attempt = attempt.text().and_then(parse).ok_or(USAGE)?;
            resolve_one(ctx, attempt, commits(decision).ok_or(USAGE)?)?;
            ctx.reply_ok();
        }
        [_, word, name, decision] if word.is("USER") && commits(decision) == Some(false) => {
            let ended = end_all_of(ctx, &Name::new(name.bytes()))?;
            ctx.reply_int(ended as i64);
        }
        _ => return Err(USAGE),
    }
    Ok(())
}

/// One by its name: what has voted either way, what is open by abort.
fn resolve_one(ctx: Ctx, attempt: AttemptId, commits: bool) -> Outcome {
    let caller = Caller::of(ctx);
    let resolved = HOST.with(|host| {
        let now = host.now();
        host.refuse_late(now);
        let link = host.oneshots.link();
        let shard = host.shard.as_mut().ok_or(Error::NotReady)?;
        let has_voted = shard.written(attempt) == Some(Status::Prepared);
        if !has_voted && (commits || !shard.is_open(attempt)) {
            return Err(Error::NotInDoubt(attempt));
        }
        may_end(shard, &caller, |it| it == attempt)?;
        let word = if commits { "committed" } else { "aborted" };
        let others = if has_voted { ", whatever the others have" } else { "" };
        ctx.log(Log::Warning, &format!("{attempt} is {word} by user '{}'{others}", caller.name()));
        let refused_by = Some(shard.id());
        match has_voted {
            true if commits => shard.handle(now, link, Request::Apply { attempt }),
            true => shard.handle(now, link, Request::Abort { attempt, refused_by }),
            false => shard.refuse_these(now, &[attempt], &Refusal::Resolved),
        }
        host.counts.resolved += 1;
        host.carry_out(ctx, None);
        Ok(())
    });
    resolved.unwrap_or(Err(Error::NotReady))
}

/// All of a user that have not voted: how many.
fn end_all_of(ctx: Ctx, user: &Name) -> Result<u64, Error> {
    let caller = Caller::of(ctx);
    let ended = HOST.with(|host| {
        let now = host.now();
        let shard = host.shard.as_ref().ok_or(Error::NotReady)?;
        let is_of = |attempt: &AttemptId| host.owner_of(*attempt).is_some_and(|owner| owner.user == *user);
        let in_locks = shard.waits().flat_map(|wait| wait.holders.into_iter().chain(wait.waiters));
        let unvoted = in_locks.filter(|attempt| shard.written(*attempt) != Some(Status::Prepared));
        let all: BTreeSet<AttemptId> = unvoted.filter(is_of).collect();
        may_end(shard, &caller, |attempt| all.contains(&attempt))?;
        let (by, count) = (caller.name(), all.len() as u64);
        ctx.log(Log::Warning, &format!("{count} attempts of user '{user}' are aborted by user '{by}'"));
        let all: Vec<AttemptId> = all.into_iter().collect();
        if let Some(shard) = &mut host.shard {
            shard.refuse_these(now, &all, &Refusal::Resolved);
        }
        host.counts.resolved += count;
        host.carry_out(ctx, None);
        Ok(count)
    });
    ended.unwrap_or(Err(Error::NotReady))
}

/// Whoever decides what becomes of keys may change them.
fn may_end(shard: &Shard, caller: &Caller, is_meant: impl Fn(AttemptId) -> bool) -> Outcome {
    let foreign = |wait: &Wait| {
        wait.holders.iter().any(|attempt| is_meant(*attempt)) && !caller.may_run("DEL", &wait.key)
    };
    match shard.waits().find(foreign) {
        None => Ok(()),
        Some(Wait { key, .. }) => Err(caller.denied("DEL", &key, Access::Write)),
    }
}

/// As attempts are shown: `session.sequence/attempt`.
fn parse(text: &str) -> Option<AttemptId> {
    let (tx, attempt) = text.split_once('/')?;
    let (session, sequence) = tx.split_once('.')?;
    let tx = TxId { session: SessionId(session.parse().ok()?), sequence: Sequence(sequence.parse().ok()?) };
    Some(AttemptId { tx, attempt: attempt.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn attempts_are_read_as_they_are_shown() {
        let attempt = parse("18446744073709551615.7/2").expect("one");
        assert_eq!(parse(&attempt.to_string()), Some(attempt));
        for wrong in ["", "1", "1.2", "1/2", "a.b/c", "1.2/3/4", "1.2/-3"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
