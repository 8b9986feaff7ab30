//! Commands on hashes.

use claret_types::{Bytes, DictOp, Few, Pairs, Reply, few};

use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::random::chosen;
use crate::scan::{check_cursor, page};
use crate::steps::{Answered, Steps, dict, few_of};
use crate::words::{Words, decimal, float, int, is, number, pairs_of};

pub(crate) fn hset(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], rest) = words.split()?;
    Ok(Calls::one(key, dict(DictOp::SetReturning(fields(words, rest)?)), Shape::First))
}

pub(crate) fn hmset(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], rest) = words.split()?;
    Ok(Calls::one(key, dict(DictOp::Set(fields(words, rest)?)), Shape::Ok))
}

pub(crate) fn hincrby(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, field, by] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::AddReturning(field.clone(), int(by)?)), Shape::Field))
}

pub(crate) fn hget(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, field] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::Get(field.clone())), Shape::First))
}

pub(crate) fn hmget(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], fields) = words.split_before(1)?;
    Ok(Calls::one(key, dict(DictOp::GetMany(few_of(fields))), Shape::First))
}

pub(crate) fn hdel(words: Words<'_>) -> Result<Calls, Fault> {
    let ([key], fields) = words.split_before(1)?;
    Ok(Calls::one(key, dict(DictOp::RemoveReturning(few_of(fields))), Shape::First))
}

pub(crate) fn hexists(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, field] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::Contains(field.clone())), Shape::First))
}

pub(crate) fn hlen(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::Len), Shape::First))
}

pub(crate) fn hkeys(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::Fields), Shape::First))
}

pub(crate) fn hvals(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::All), Shape::Values))
}

pub(crate) fn hgetall(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::All), Shape::Map))
}

pub(crate) fn hstrlen(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, field] = words.exactly()?;
    Ok(Calls::one(key, dict(DictOp::Get(field.clone())), Shape::Length))
}

/// Fields with their values, from the words behind the key.
fn fields(words: Words<'_>, rest: &[Bytes]) -> Result<Few<(Bytes, Bytes)>, Fault> {
    let pairs = pairs_of(rest).ok_or_else(|| words.wrong_number())?;
    Ok(pairs.map(|(field, value)| (field.clone(), value.clone())).collect())
}

pub(crate) async fn hsetnx(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, field, value] = words.exactly()?;
    if steps.lock(key, dict(DictOp::Contains(field.clone()))).await? {
        return Ok(Answer::Int(0));
    }
    steps.write(key, dict(DictOp::Set(few([(field.clone(), value.clone())]))))?;
    Ok(Answer::Int(1))
}

pub(crate) async fn hscan(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, cursor], options) = words.split()?;
    check_cursor(cursor)?;
    let Pairs(all) = steps.read::<Pairs<Bytes, Bytes>>(key, dict(DictOp::All)).await?;
    page(steps, words.name, all, |(field, value)| (field, Some(Answer::Bulk(value))), options).await
}

pub(crate) async fn hincrbyfloat(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, field, by] = words.exactly()?;
    let by = float(by)?;
    if by.is_infinite() {
        return Err(Fault::told("ERR value is NaN or Infinity"));
    }
    let value: Option<Bytes> = steps.lock(key, dict(DictOp::Get(field.clone()))).await?;
    let value = match &value {
        None => 0.0,
        Some(text) => number(text).ok_or_else(|| Fault::told("ERR hash value is not a float"))?,
    };
    let sum = value + by;
    if !sum.is_finite() {
        return Err(Fault::told("ERR increment would produce NaN or Infinity"));
    }
    let sum = decimal(sum);
    steps.write(key, dict(DictOp::Set(few([(field.clone(), sum.clone())]))))?;
    Ok(Answer::Bulk(sum))
}

pub(crate) async fn hrandfield(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], options) = words.split()?;
    let [count, rest @ ..] = options else {
        let fields: Vec<Bytes> = steps.read(key, dict(DictOp::Fields)).await?;
        return Ok(chosen(steps, 1, 1, fields, Answer::Bulk).await?.pop().unwrap_or(Answer::Nil));
    };
    let count = match int(count)? {
        i64::MIN => {
            let (min, max) = (-i64::MAX, i64::MAX);
            let text = format!("ERR value is out of range, value must between {min} and {max}");
            return Err(Fault::Told(text));
        }
        count => count,
    };
    let with_values = match rest {
        [] => false,
        [option] if is(option, "WITHVALUES") => true,
        _ => return Err(Fault::syntax()),
    };
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Fault::told("ERR value is out of range"));
    }
    let op = if with_values { dict(DictOp::All) } else { dict(DictOp::Fields) };
    let all: Vec<Reply> = steps.read(key, op).await?;
    let width = if with_values { 2 } else { 1 };
    let words = chosen(steps, count, width, all, Answer::from).await?;
    Ok(if with_values { Answer::Pairs(words) } else { Answer::Array(words) })
}
