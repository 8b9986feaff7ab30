//! Commands on sets.

use std::collections::HashSet;

use claret_types::{Bytes, SetOp, few};

use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::random::{chosen, distinct};
use crate::scan::{check_cursor, page};
use crate::steps::{Answered, Steps, delete, few_of, set};
use crate::words::{Words, int, is, key_count, positive};

pub(crate) fn sadd(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], members) = words.split_before(1)?;
    Ok(Calls::one(key, set(SetOp::AddReturning(few_of(members))), Shape::First))
}

pub(crate) fn srem(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], members) = words.split_before(1)?;
    Ok(Calls::one(key, set(SetOp::RemoveReturning(few_of(members))), Shape::First))
}

pub(crate) fn sismember(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, member] = words.exactly()?;
    Ok(Calls::one(key, set(SetOp::Contains(member.clone())), Shape::First))
}

pub(crate) fn smismember(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], members) = words.split_before(1)?;
    let ops = members.iter().map(|member| set(SetOp::Contains(member.clone())));
    Ok(Calls::chain(key, ops.collect(), Shape::Each))
}

pub(crate) fn scard(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, set(SetOp::Len), Shape::First))
}

pub(crate) fn smembers(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, set(SetOp::Members), Shape::Set))
}

/// `SINTER`, `SUNION` and `SDIFF`.
pub(crate) async fn combined(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([], keys) = words.split_before(1)?;
    let members = combination(steps, words.name, read_all(steps, keys, None).await?).await;
    let count = members.len();
    let answer = || Answer::Set(members.into_iter().map(Answer::Bulk).collect());
    Ok(steps.runner.over(count, answer).await)
}

/// `SINTERSTORE`, `SUNIONSTORE` and `SDIFFSTORE`.
pub(crate) async fn store_combined(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([target], keys) = words.split_before(1)?;
    let members = combination(steps, words.name, read_all(steps, keys, Some(target)).await?).await;
    let count = members.len();
    let made = move || (count > 0).then(|| set(SetOp::Add(members.into_iter().collect())));
    let made = steps.runner.over(count, made).await;
    steps.replace(target, made)?;
    Ok(Answer::count(count))
}

pub(crate) async fn sscan(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, cursor], options) = words.split()?;
    check_cursor(cursor)?;
    let members: Vec<Bytes> = steps.read(key, set(SetOp::Members)).await?;
    page(steps, words.name, members, |member| (member, None), options).await
}

pub(crate) async fn spop(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], count) = words.split()?;
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
    let (write, answer) = steps.runner.over(length, choose).await;
    if let Some(op) = write {
        steps.write(key, op)?;
    }
    Ok(answer)
}

pub(crate) async fn srandmember(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], count) = words.split()?;
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

pub(crate) async fn smove(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [from, to, member] = words.exactly()?;
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
async fn combination(steps: Steps<'_>, name: &str, sets: Vec<Vec<Bytes>>) -> Vec<Bytes> {
    let (unites, intersects) = (name.starts_with("SUNION"), name.starts_with("SINTER"));
    let elements = sets.iter().map(Vec::len).sum();
    steps.runner.over(elements, move || combine(unites, intersects, sets)).await
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

pub(crate) async fn sintercard(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([count], rest) = words.split()?;
    let count = key_count(count, "ERR numkeys should be greater than 0")?;
    if count > rest.len() {
        return Err(Fault::told("ERR Number of keys can't be greater than number of args"));
    }
    let (keys, options) = rest.split_at(count);
    let mut limit = 0;
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        match rest.next() {
            Some(word) if is(option, "LIMIT") => limit = limit_of(word)?,
            _ => return Err(Fault::syntax()),
        }
    }
    let members = combination(steps, words.name, read_all(steps, keys, None).await?).await;
    Ok(Answer::count(if limit == 0 { members.len() } else { members.len().min(limit) }))
}

/// What follows `LIMIT`; 0: all.
pub(crate) fn limit_of(word: &Bytes) -> Result<usize, Fault> {
    let limit = int(word).ok().and_then(|limit| usize::try_from(limit).ok());
    limit.ok_or_else(|| Fault::told("ERR LIMIT can't be negative"))
}
