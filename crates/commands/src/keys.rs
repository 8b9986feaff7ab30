//! Commands on keys, whatever they hold.

pub(crate) mod expiry;
pub(crate) mod sort;

use claret_types::{Bytes, Content, KeyspaceOp, Moment};

use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::steps::{Answered, Steps, any, expire};
use crate::words::{Words, int, is};

/// `DEL` and `UNLINK`.
pub(crate) fn delete(words: Words<'_>) -> Result<Calls, Fault> {
    let ([], keys) = words.split_before(1)?;
    Ok(Calls::each(keys, &any(KeyspaceOp::Delete { returning: true }), Shape::Sum))
}

/// `EXISTS` and `TOUCH`.
pub(crate) fn exists(words: Words<'_>) -> Result<Calls, Fault> {
    let ([], keys) = words.split_before(1)?;
    Ok(Calls::each(keys, &any(KeyspaceOp::Exists), Shape::Sum))
}

/// `TYPE`.
pub(crate) async fn type_of(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key] = words.exactly()?;
    Ok(match steps.kind(key, false).await? {
        Kind::None => Answer::Simple("none"),
        Kind::String => Answer::Simple("string"),
        Kind::List => Answer::Simple("list"),
        Kind::Set => Answer::Simple("set"),
        Kind::Zset => Answer::Simple("zset"),
        Kind::Hash => Answer::Simple("hash"),
        Kind::Other(word) if word == "stream" => Answer::Simple("stream"),
        Kind::Other(word) => Answer::Verbatim(word.into()),
    })
}

fn no_such_key() -> Fault {
    Fault::told("ERR no such key")
}

pub(crate) async fn rename(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [from, to] = words.exactly()?;
    if from == to {
        return if steps.read(from, any(KeyspaceOp::Exists)).await? {
            Ok(Answer::Ok)
        } else {
            Err(no_such_key())
        };
    }
    renamed(steps, from, to, Answer::Ok).await
}

/// Renames, and answers this.
async fn renamed(steps: Steps<'_>, from: &Bytes, to: &Bytes, answer: Answer) -> Answered {
    if steps.tx.rename(from.clone(), to.clone()).await? { Ok(answer) } else { Err(no_such_key()) }
}

pub(crate) async fn renamenx(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [from, to] = words.exactly()?;
    if !steps.is_there(from).await? {
        return Err(no_such_key());
    }
    if from == to || steps.is_there(to).await? {
        return Ok(Answer::Int(0));
    }
    renamed(steps, from, to, Answer::Int(1)).await
}

pub(crate) async fn copy(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([from, to], options) = words.split()?;
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
