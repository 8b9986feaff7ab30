//! `CLARET.LOCKS` and `CLARET.RESOLVE`: for operators who look into a stuck shard.

use claret_core::{AttemptId, Sequence, SessionId, TxId};
use claret_types::Access;

use super::{keyspace, with_node};
use crate::ffi::{Arg, Ctx};
use crate::node::{Shown, ShownAttempt};
use crate::parts::error::{Error, Outcome};
use crate::parts::owner::Name;

/// `CLARET.LOCKS [key]`
pub(super) fn locks(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let key = match arguments {
        [_] => None,
        [_, key] => Some(key.to_bytes()),
        _ => return Err(Error::Usage("CLARET.LOCKS [key]")),
    };
    let caller = keyspace().caller(ctx);
    if let Some(key) = key.as_ref().filter(|key| !caller.may_run("TYPE", key)) {
        return Err(caller.denied(ctx, "TYPE", key, Access::Read));
    }
    let shown = with_node(|node| node.locks(&caller, key.as_ref())).unwrap_or(Err(Error::NotReady))?;
    ctx.reply_array(shown.len());
    shown.iter().for_each(|shown| show(ctx, shown));
    Ok(())
}

/// The key; who holds it; who waits for it.
fn show(ctx: Ctx, Shown { key, attempts }: &Shown) {
    ctx.reply_array(3);
    ctx.reply_bytes(key);
    for attempts in attempts {
        ctx.reply_array(attempts.len());
        attempts.iter().for_each(|attempt| ctx.reply_bytes(shown(ctx, attempt).as_bytes()));
    }
}

/// An attempt, and whose it is.
pub(super) fn shown(ctx: Ctx, ShownAttempt { attempt, has_voted, owner }: &ShownAttempt) -> String {
    let stage = if *has_voted { "voted" } else { "open" };
    let user = owner.as_ref().map_or("-".to_owned(), |owner| owner.user.to_string());
    let client = owner.as_ref().and_then(|owner| owner.client);
    let (number, address) = match client.map(|client| (client, ctx.address_of(client))) {
        Some((client, Some(address))) => (client.to_string(), address),
        Some((_, None)) | None => ("-".to_owned(), "-".to_owned()),
    };
    format!("{attempt} {stage} user={user} client={number} addr={address}")
}

/// `CLARET.RESOLVE attempt COMMIT|ABORT` and `CLARET.RESOLVE USER name ABORT`
pub(super) fn resolve(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    const USAGE: Error = Error::Usage(
        "CLARET.RESOLVE session.sequence/attempt COMMIT|ABORT, as CLARET.LOCKS shows it, or USER name ABORT",
    );
    let commits = |word: &Arg<'_>| match () {
        () if word.is("COMMIT") => Some(true),
        () if word.is("ABORT") => Some(false),
        () => None,
    };
    keyspace().may_write(ctx)?;
    let caller = keyspace().caller(ctx);
    match arguments {
        [_, attempt, decision] => {
            let attempt = attempt.text().and_then(parse).ok_or(USAGE)?;
            let commits = commits(decision).ok_or(USAGE)?;
            with_node(|node| node.resolve(ctx, &caller, attempt, commits)).unwrap_or(Err(Error::NotReady))?;
            ctx.reply_ok();
        }
        [_, word, name, decision] if word.is("USER") && commits(decision) == Some(false) => {
            let name = Name::new(name.bytes());
            let ended =
                with_node(|node| node.resolve_all_of(ctx, &caller, &name)).unwrap_or(Err(Error::NotReady))?;
            ctx.reply_int(ended as i64);
        }
        _ => return Err(USAGE),
    }
    Ok(())
}

/// As attempts are shown: `session.sequence/attempt`.
pub(super) fn parse(text: &str) -> Option<AttemptId> {
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
