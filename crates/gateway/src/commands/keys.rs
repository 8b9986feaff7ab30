//! Commands on keys, whatever they hold.

mod expiry;
mod sort;

use claret_types::{Bytes, Content, KeyspaceOp, Moment};

use crate::answer::Answer;
use crate::commands::Answered;
use crate::commands::direct::{Direct, Directly, Shape};
use crate::commands::steps::{Steps, any, expire};
use crate::commands::words::{arity, int, is};
use crate::fault::Fault;

/// What this file carries out, beside what is direct.
pub(super) const NAMES: &[&str] =
    &["TYPE", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "RENAME", "RENAMENX", "COPY", "SORT", "SORT_RO"];

pub(super) async fn run(steps: Steps<'_>, name: &str, words: &[Bytes]) -> Answered {
    match (name, words) {
        ("TYPE", [key]) => Ok(match steps.kind(key, false).await?.word() {
            "none" => Answer::Simple("none"),
            "string" => Answer::Simple("string"),
            "list" => Answer::Simple("list"),
            "set" => Answer::Simple("set"),
            "zset" => Answer::Simple("zset"),
            "hash" => Answer::Simple("hash"),
            "stream" => Answer::Simple("stream"),
            other => Answer::Verbatim(other.into()),
        }),
        ("EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT", [key, time, options @ ..]) => {
            expiry::expire_if(steps, name, key, time, options).await
        }
        ("RENAME", [from, to]) => rename(steps, from, to).await,
        ("RENAMENX", [from, to]) => renamenx(steps, from, to).await,
        ("COPY", [from, to, options @ ..]) => copy(steps, from, to, options).await,
        ("SORT" | "SORT_RO", [key, options @ ..]) => sort::sort(steps, name, key, options).await,
        _ => Err(arity(name)),
    }
}

/// Those that are operations known up front.
pub(super) fn direct(name: &str, words: &[Bytes]) -> Option<Directly> {
    let [key, rest @ ..] = words else { return None };
    let one = |op: KeyspaceOp, shape: Shape| Direct::one(key, any(op), shape);
    Some(match (name, rest) {
        ("DEL" | "UNLINK", _) => {
            Ok(Direct::each(words, &any(KeyspaceOp::Delete { returning: true }), Shape::Sum))
        }
        ("EXISTS" | "TOUCH", _) => Ok(Direct::each(words, &any(KeyspaceOp::Exists), Shape::Sum)),
        ("EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT", [time]) => expiry::expire(name, key, time, false),
        ("EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT", [time, option]) if is(option, "GT") => {
            expiry::expire(name, key, time, true)
        }
        ("TTL", []) => one(KeyspaceOp::TimeLeft { in_seconds: true, now: None }, Shape::First),
        ("PTTL", []) => one(KeyspaceOp::TimeLeft { in_seconds: false, now: None }, Shape::First),
        ("EXPIRETIME", []) => one(KeyspaceOp::ExpiryTime, Shape::Seconds),
        ("PEXPIRETIME", []) => one(KeyspaceOp::ExpiryTime, Shape::First),
        ("PERSIST", []) => one(KeyspaceOp::Persist { returning: true }, Shape::First),
        _ => return None,
    })
}

fn no_such_key() -> Fault {
    Fault::told("ERR no such key")
}

async fn rename(steps: Steps<'_>, from: &Bytes, to: &Bytes) -> Answered {
    if from == to {
        return if steps.read(from, any(KeyspaceOp::Exists)).await? {
            Ok(Answer::Ok)
        } else {
            Err(no_such_key())
        };
    }
    if steps.tx.rename(from.clone(), to.clone()).await? { Ok(Answer::Ok) } else { Err(no_such_key()) }
}

async fn renamenx(steps: Steps<'_>, from: &Bytes, to: &Bytes) -> Answered {
    if !steps.is_there(from).await? {
        return Err(no_such_key());
    }
    if from == to || steps.is_there(to).await? {
        return Ok(Answer::Int(0));
    }
    rename(steps, from, to).await?;
    Ok(Answer::Int(1))
}

async fn copy(steps: Steps<'_>, from: &Bytes, to: &Bytes, options: &[Bytes]) -> Answered {
    let mut replaces = false;
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        if is(option, "REPLACE") {
            replaces = true;
        } else if is(option, "DB") {
            if int(rest.next().ok_or_else(Fault::syntax)?)? != 0 {
                return Err(Fault::told("ERR DB index is out of range"));
            }
        } else {
            return Err(Fault::syntax());
        }
    }
    if from == to {
        return Err(Fault::told("ERR source and destination objects are the same"));
    }
    let content: Option<Content> = steps.read(from, any(KeyspaceOp::Content)).await?;
    let Some(content) = content else { return Ok(Answer::Int(0)) };
    if !replaces && steps.is_there(to).await? {
        return Ok(Answer::Int(0));
    }
    let ends: i64 = steps.read(from, any(KeyspaceOp::ExpiryTime)).await?;
    steps.write(to, any(KeyspaceOp::Put(content)))?;
    if let Ok(ms) = u64::try_from(ends) {
        steps.write(to, expire(Moment::At(ms)))?;
    }
    Ok(Answer::Int(1))
}
