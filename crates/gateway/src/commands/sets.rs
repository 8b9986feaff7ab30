//! Commands on sets.

use std::collections::HashSet;

use claret_types::{Bytes, SetOp, few};

use crate::answer::Answer;
use crate::commands::Answered;
use crate::commands::direct::{Direct, Directly, Shape};
use crate::commands::random::{chosen, distinct};
use crate::commands::scan::{check_cursor, page};
use crate::commands::steps::{Steps, delete, few_of, set};
use crate::commands::words::{arity, int, is, key_count, positive};
use crate::fault::Fault;

/// What this file carries out, beside what is direct.
pub(super) const NAMES: &[&str] = &[
    "SPOP",
    "SRANDMEMBER",
    "SMOVE",
    "SINTER",
    "SUNION",
    "SDIFF",
    "SINTERSTORE",
    "SUNIONSTORE",
    "SDIFFSTORE",
    "SINTERCARD",
    "SSCAN",
];

pub(super) async fn run(steps: Steps<'_>, name: &str, words: &[Bytes]) -> Answered {
    match (name, words) {
        ("SPOP", [key, count @ ..]) => spop(steps, key, count).await,
        ("SRANDMEMBER", [key, count @ ..]) => srandmember(steps, key, count).await,
        ("SMOVE", [from, to, member]) => smove(steps, from, to, member).await,
        ("SINTER" | "SUNION" | "SDIFF", keys @ [_, ..]) => {
            let members = combined(steps, name, read_all(steps, keys, None).await?).await;
            Ok(steps
                .work
                .over(members.len(), || Answer::Set(members.into_iter().map(Answer::Bulk).collect()))
                .await)
        }
        ("SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE", [target, keys @ ..]) if !keys.is_empty() => {
            let members = combined(steps, name, read_all(steps, keys, Some(target)).await?).await;
            let count = members.len();
            let made = move || (count > 0).then(|| set(SetOp::Add(members.into_iter().collect())));
            let made = steps.work.over(count, made).await;
            steps.replace(target, made)?;
            Ok(Answer::count(count))
        }
        ("SINTERCARD", [count, rest @ ..]) => sintercard(steps, count, rest).await,
        ("SSCAN", [key, cursor, options @ ..]) => {
            check_cursor(cursor)?;
            let members: Vec<Bytes> = steps.read(key, set(SetOp::Members)).await?;
            page(steps, name, members, |member| (member, None), options).await
        }
        _ => Err(arity(name)),
    }
}

/// Those that are operations known up front.
pub(super) fn direct(name: &str, words: &[Bytes]) -> Option<Directly> {
    Some(match (name, words) {
        ("SADD", [key, members @ ..]) if !members.is_empty() => {
            Direct::one(key, set(SetOp::AddReturning(few_of(members))), Shape::First)
        }
        ("SREM", [key, members @ ..]) if !members.is_empty() => {
            Direct::one(key, set(SetOp::RemoveReturning(few_of(members))), Shape::First)
        }
        ("SISMEMBER", [key, member]) => Direct::one(key, set(SetOp::Contains(member.clone())), Shape::First),
        ("SMISMEMBER", [key, members @ ..]) if !members.is_empty() => {
            let ops = members.iter().map(|member| set(SetOp::Contains(member.clone())));
            Ok(Direct::chain(key, ops.collect(), Shape::Each))
        }
        ("SCARD", [key]) => Direct::one(key, set(SetOp::Len), Shape::First),
        ("SMEMBERS", [key]) => Direct::one(key, set(SetOp::Members), Shape::Set),
        _ => return None,
    })
}

async fn spop(steps: Steps<'_>, key: &Bytes, count: &[Bytes]) -> Answered {
    let count = match count {
        [] => None,
        [count] => Some(usize::try_from(positive(count)?).unwrap_or(usize::MAX)),
        _ => return Err(Fault::syntax()),
    };
    let members: Vec<Bytes> = steps.lock(key, set(SetOp::Members)).await?;
    let length = members.len();
    let choose = move || {
        let chosen: Vec<Bytes> =
            distinct(count.unwrap_or(1), members.len()).into_iter().map(|at| members[at].clone()).collect();
        let write = match chosen.len() {
            0 => None,
            all if all == members.len() => Some(delete()),
            _ => Some(set(SetOp::Remove(few_of(&chosen)))),
        };
        let mut chosen = chosen.into_iter().map(Answer::Bulk);
        let answer = match count {
            None => chosen.next().unwrap_or(Answer::Nil),
            Some(_) => Answer::Set(chosen.collect()),
        };
        (write, answer)
    };
    let (write, answer) = steps.work.over(length, choose).await;
    if let Some(op) = write {
        steps.write(key, op)?;
    }
    Ok(answer)
}

async fn srandmember(steps: Steps<'_>, key: &Bytes, count: &[Bytes]) -> Answered {
    let count = match count {
        [] => None,
        [count] => match int(count)? {
            i64::MIN => {
                let (min, max) = (-i64::MAX, i64::MAX);
                return Err(Fault::Told(format!(
                    "ERR value is out of range, value must between {min} and {max}"
                )));
            }
            count => Some(count),
        },
        _ => return Err(Fault::syntax()),
    };
    let members: Vec<Bytes> = steps.read(key, set(SetOp::Members)).await?;
    let mut chosen = chosen(steps, count.unwrap_or(1), 1, members, Answer::Bulk).await?;
    Ok(match count {
        None => chosen.pop().unwrap_or(Answer::Nil),
        Some(_) => Answer::Array(chosen),
    })
}

async fn smove(steps: Steps<'_>, from: &Bytes, to: &Bytes, member: &Bytes) -> Answered {
    let size: i64 = steps.lock(from, set(SetOp::Len)).await?;
    if size == 0 {
        return Ok(Answer::Int(0));
    }
    let is_in: bool = steps.read(from, set(SetOp::Contains(member.clone()))).await?;
    // It says also whether a set is there.
    let _: bool = steps.lock(to, set(SetOp::Contains(member.clone()))).await?;
    if is_in && from != to {
        steps.write(from, set(SetOp::Remove(few([member.clone()]))))?;
        steps.write(to, set(SetOp::Add(few([member.clone()]))))?;
    }
    Ok(Answer::bool(is_in))
}

/// The members of each set.
async fn read_all(
    steps: Steps<'_>,
    keys: &[Bytes],
    written: Option<&Bytes>,
) -> Result<Vec<Vec<Bytes>>, Fault> {
    let mut all = Vec::with_capacity(keys.len());
    for reply in steps.read_each(keys, &set(SetOp::Members), written).await? {
        all.push(steps.taken(reply).await?);
    }
    Ok(all)
}

/// By the name of the command. In the order of the first set that has each.
async fn combined(steps: Steps<'_>, name: &str, sets: Vec<Vec<Bytes>>) -> Vec<Bytes> {
    let (unites, intersects) = (name.starts_with("SUNION"), name.starts_with("SINTER"));
    let elements = sets.iter().map(Vec::len).sum();
    steps.work.over(elements, move || combine(unites, intersects, sets)).await
}

fn combine(unites: bool, intersects: bool, sets: Vec<Vec<Bytes>>) -> Vec<Bytes> {
    let mut sets = sets.into_iter();
    let first = sets.next().unwrap_or_default();
    if unites {
        let mut seen = HashSet::new();
        return first
            .into_iter()
            .chain(sets.flatten())
            .filter(|member| seen.insert(member.clone()))
            .collect();
    }
    sets.fold(first, |left, other| {
        let other: HashSet<Bytes> = other.into_iter().collect();
        left.into_iter().filter(|member| other.contains(member) == intersects).collect()
    })
}

async fn sintercard(steps: Steps<'_>, count: &Bytes, words: &[Bytes]) -> Answered {
    let count = key_count(count, "ERR numkeys should be greater than 0")?;
    if count > words.len() {
        return Err(Fault::told("ERR Number of keys can't be greater than number of args"));
    }
    let (keys, options) = words.split_at(count);
    let mut limit = 0;
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        match rest.next() {
            Some(word) if is(option, "LIMIT") => limit = limit_of(word)?,
            _ => return Err(Fault::syntax()),
        }
    }
    let members = combined(steps, "SINTER", read_all(steps, keys, None).await?).await;
    Ok(Answer::count(if limit == 0 { members.len() } else { members.len().min(limit) }))
}

/// What follows `LIMIT`; 0: all.
pub(super) fn limit_of(word: &Bytes) -> Result<usize, Fault> {
    let limit = int(word).ok().and_then(|limit| usize::try_from(limit).ok());
    limit.ok_or_else(|| Fault::told("ERR LIMIT can't be negative"))
}
