//! Commands on strings.

pub(crate) mod bits;
pub(crate) mod lcs;
pub(crate) mod set;

use claret_types::{Bytes, FloatCounter, FloatCounterOp, KeyspaceOp, Operation, RegisterOp};

use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::steps::{Answered, Steps, any, expire, put_text, text, value_bytes_max};
use crate::words::{Words, float, int, number};

pub(crate) fn get(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, text(RegisterOp::Get), Shape::First))
}

/// `SET` without options.
pub(crate) fn set_at_once(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let [key, value] = words.exactly().ok()?;
    Some(put_text(value).map(|chain| Calls::chain(key, chain, Shape::Ok)))
}

/// `SETEX` and `PSETEX`.
pub(crate) fn setex(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, time, value] = words.exactly()?;
    let option = if words.name.starts_with('P') { "PX" } else { "EX" };
    let moment = set::moment(words.name, option, time)?;
    let mut chain = put_text(value)?;
    chain.push(expire(moment));
    Ok(Calls::chain(key, chain, Shape::Ok))
}

/// On a key of another type there is a value, too, and nothing is written.
pub(crate) fn setnx(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, value] = words.exactly()?;
    let op = text(RegisterOp::SetIfAbsentReturning(value.clone())).tried();
    Ok(Calls::one(key, op, Shape::ZeroOfOtherType))
}

pub(crate) fn getset(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, value] = words.exactly()?;
    Ok(Calls::one(key, text(RegisterOp::GetSet(value.clone())), Shape::First))
}

pub(crate) fn getdel(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    let chain = [text(RegisterOp::Get), any(KeyspaceOp::Delete { returning: false })];
    Ok(Calls::chain(key, chain.into_iter().collect(), Shape::First))
}

/// `GETEX` without options.
pub(crate) fn get_as_it_is(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let [key] = words.exactly().ok()?;
    Some(Ok(Calls::one(key, text(RegisterOp::Get), Shape::First)))
}

pub(crate) fn append(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, tail] = words.exactly()?;
    let chain = [text(RegisterOp::Append(tail.clone())), text(RegisterOp::Len)];
    Ok(Calls::chain(key, chain.into_iter().collect(), Shape::Last))
}

pub(crate) fn strlen(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, text(RegisterOp::Len), Shape::First))
}

pub(crate) fn incr(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::count(key, 1))
}

pub(crate) fn decr(words: Words<'_>) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::count(key, -1))
}

pub(crate) fn incrby(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, by] = words.exactly()?;
    Ok(Calls::count(key, int(by)?))
}

pub(crate) fn decrby(words: Words<'_>) -> Result<Calls, Fault> {
    let [key, by] = words.exactly()?;
    let by = int(by)?.checked_neg().ok_or_else(|| Fault::told("ERR decrement would overflow"))?;
    Ok(Calls::count(key, by))
}

/// `INCRBYFLOAT` of what can be added.
pub(crate) fn add_float(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let [key, by] = words.exactly().ok()?;
    let by = number(by).filter(|by| by.is_finite())?;
    let op = Operation::new::<FloatCounter>(FloatCounterOp::AddReturning(by));
    Some(Ok(Calls::one(key, op, Shape::Decimal)))
}

/// `INCRBYFLOAT` of what cannot be added; what is said of the value comes first.
pub(crate) async fn refuse_float(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, by] = words.exactly()?;
    let _: f64 = steps.read(key, Operation::new::<FloatCounter>(FloatCounterOp::Get)).await?;
    float(by)?;
    Err(Fault::told("ERR increment would produce NaN or Infinity"))
}

/// Of a key of another type: nil.
pub(crate) fn mget(words: Words<'_>) -> Result<Calls, Fault> {
    let ([], keys) = words.split_before(1)?;
    Ok(Calls::each(keys, &text(RegisterOp::Get).tried(), Shape::NilOfOtherType))
}

pub(crate) fn mset(words: Words<'_>) -> Result<Calls, Fault> {
    let mut calls = Calls::of(Shape::Ok);
    for (key, value) in words.pairs()? {
        put_text(value)?.into_iter().for_each(|op| calls.call(key, op));
    }
    Ok(calls)
}

pub(crate) async fn msetnx(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let mut pairs = words.pairs()?;
    for (key, _) in pairs.clone() {
        if steps.is_there(key).await? {
            return Ok(Answer::Int(0));
        }
    }
    pairs.try_for_each(|(key, value)| steps.write(key, text(RegisterOp::Set(value.clone()))))?;
    Ok(Answer::Int(1))
}

/// `GETRANGE` and `SUBSTR`.
pub(crate) async fn getrange(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, start, end] = words.exactly()?;
    let (start, end) = (int(start)?, int(end)?);
    let value: Bytes = steps.read::<Option<Bytes>>(key, text(RegisterOp::Get)).await?.unwrap_or_default();
    let bytes = value.len();
    steps.runner.take(bytes)?;
    let part = move || Answer::Bulk(part(&value, start, end));
    Ok(steps.runner.aside(bytes, part).await)
}

/// The bytes from `start` to `end`, as `GETRANGE` counts them: an end before the first byte is the first byte.
fn part(value: &Bytes, start: i64, end: i64) -> Bytes {
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return Bytes::default();
    }
    let from_front = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end { Bytes::default() } else { Bytes::copy_from(&value[start as usize..=end as usize]) }
}

pub(crate) async fn setrange(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, offset, patch] = words.exactly()?;
    let offset = int(offset)?;
    if offset < 0 {
        return Err(Fault::told("ERR offset is out of range"));
    }
    let (value, expires_at) = steps.text_to_change(key).await?;
    let value = value.unwrap_or_default();
    if patch.is_empty() {
        return Ok(Answer::count(value.len()));
    }
    let end = checked_length(offset as u64, patch.len())?;
    let patch = patch.clone();
    let made =
        grown(steps, value, end, move |value| value[end - patch.len()..end].copy_from_slice(&patch)).await?;
    let length = made.len();
    steps.set_text(key, made, expires_at)?;
    Ok(Answer::count(length))
}

/// A value with zeros up to this length, and then changed.
async fn grown(
    steps: Steps<'_>,
    value: Bytes,
    length: usize,
    change: impl FnOnce(&mut [u8]) + Send + 'static,
) -> Result<Bytes, Fault> {
    let length = value.len().max(length);
    steps.runner.take(length)?;
    let make = move || {
        let mut made = Vec::from(value);
        made.resize(length, 0);
        change(&mut made);
        Bytes::from(made)
    };
    Ok(steps.runner.aside(length, make).await)
}

/// The end of so many bytes there, if a value may be as long as that.
fn checked_length(offset: u64, length: usize) -> Result<usize, Fault> {
    let end = offset.saturating_add(length as u64);
    if end > value_bytes_max() as u64 {
        return Err(Fault::told("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(end as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_getrange() {
        let value = Bytes::from("hello");
        for (start, end, found) in
            [(0, -1, "hello"), (-3, -1, "llo"), (1, 2, "el"), (5, 9, ""), (-1, -3, ""), (0, -9, "h")]
        {
            assert_eq!(part(&value, start, end), Bytes::from(found), "{start} {end}");
        }
        assert_eq!(part(&Bytes::default(), 0, -1), Bytes::default());
    }
}
