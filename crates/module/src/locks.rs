//! `CLARET.LOCKS` and `CLARET.RESOLVE`: for people who look at a stuck shard.

use claret_core::message::{Request, Status};
use claret_core::{AttemptId, Sequence, SessionId, Shard, TxId, Wait};

use crate::admission::Caller;
use crate::commands::Outcome;
use crate::ffi::{Arg, Ctx, Log};
use crate::host::{HOST, not_ready};
use crate::slots;

/// `CLARET.LOCKS [key]`
pub(crate) fn locks(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let key = match arguments {
        [_] => None,
        [_, key] => Some(key.to_bytes()),
        _ => return Err("ERR usage: CLARET.LOCKS [key]".to_owned()),
    };
    let caller = Caller::of(ctx);
    if let Some(key) = key.as_ref().filter(|key| !caller.may_run("TYPE", key)) {
        return Err(format!("NOPERM user '{}' may not run TYPE on '{key}'", caller.name()));
    }
    let shown = HOST.with(|host| {
        let shard = host.shard.as_ref().ok_or_else(not_ready)?;
        let wanted = |wait: &Wait| key.as_ref().is_none_or(|key| wait.key == *key);
        let mut waits: Vec<Wait> =
            shard.waits().filter(|wait| wanted(wait) && caller.may_run("TYPE", &wait.key)).collect();
        waits.sort_by(|a, b| a.key.cmp(&b.key));
        ctx.reply_array(waits.len());
        waits.iter_mut().for_each(|wait| show(ctx, shard, wait));
        Ok(())
    });
    shown.unwrap_or_else(|| Err(not_ready()))
}

/// The key; who holds it; who waits for it.
fn show(ctx: Ctx, shard: &Shard, wait: &mut Wait) {
    ctx.reply_array(3);
    ctx.reply_bytes(&wait.key);
    for attempts in [&mut wait.holders, &mut wait.waiters] {
        attempts.sort_unstable();
        ctx.reply_array(attempts.len());
        for attempt in attempts {
            let voted = shard.written(*attempt) == Some(Status::Prepared);
            ctx.reply_bytes(format!("{attempt} {}", if voted { "voted" } else { "open" }).as_bytes());
        }
    }
}

/// `CLARET.RESOLVE attempt COMMIT|ABORT`
pub(crate) fn resolve(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let usage = || {
        "ERR usage: CLARET.RESOLVE session.sequence/attempt COMMIT|ABORT, as CLARET.LOCKS shows it".to_owned()
    };
    let [_, attempt, decision] = arguments else { return Err(usage()) };
    let attempt = attempt.text().and_then(parse).ok_or_else(usage)?;
    let commits = match () {
        () if decision.is("COMMIT") => true,
        () if decision.is("ABORT") => false,
        () => return Err(usage()),
    };
    slots::may_write(ctx)?;
    let caller = Caller::of(ctx);
    let resolved = HOST.with(|host| {
        let now = host.now();
        host.refuse_late(now);
        let link = host.oneshots.link();
        let shard = host.shard.as_mut().ok_or_else(not_ready)?;
        if shard.written(attempt) != Some(Status::Prepared) {
            return Err(format!("ERR {attempt} is not in doubt here: it has not voted, or is decided"));
        }
        let foreign = |wait: &Wait| wait.holders.contains(&attempt) && !caller.may_run("DEL", &wait.key);
        let foreign = shard.waits().find(foreign);
        if let Some(Wait { key, .. }) = foreign {
            let user = caller.name();
            return Err(format!("NOPERM user '{user}' may not write key '{key}', which it holds"));
        }
        let word = if commits { "committed" } else { "aborted" };
        let text = format!("{attempt} is {word} by user '{}', whatever the others have", caller.name());
        ctx.log(Log::Warning, &text);
        let refused_by = Some(shard.id());
        let request =
            if commits { Request::Apply { attempt } } else { Request::Abort { attempt, refused_by } };
        shard.handle(now, link, request);
        host.counts.resolved += 1;
        host.carry_out(ctx, None);
        Ok(())
    });
    resolved.unwrap_or_else(|| Err(not_ready()))?;
    ctx.reply_ok();
    Ok(())
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
