//! Commands on strings.

mod bits;
mod lcs;
mod set;

use claret_types::{Bytes, FloatCounter, FloatCounterOp, KeyspaceOp, Operation, RegisterOp};

use crate::answer::Answer;
use crate::commands::Answered;
use crate::commands::direct::{Direct, Directly, Shape};
use crate::commands::steps::{Steps, any, expire, put_text, text, value_bytes_max};
use crate::commands::words::{arity, float, int, number};
use crate::fault::Fault;

/// What this file carries out.
pub(super) const NAMES: &[&str] = &[
    "SET",
    "GETEX",
    "MSETNX",
    "GETRANGE",
    "SUBSTR",
    "SETRANGE",
    "GETBIT",
    "SETBIT",
    "BITCOUNT",
    "BITPOS",
    "BITOP",
    "INCRBYFLOAT",
    "LCS",
];

pub(super) async fn run(steps: Steps<'_>, name: &str, words: &[Bytes]) -> Answered {
    match (name, words) {
        ("SET", [key, value, options @ ..]) => set::set(steps, key, value, options).await,
        ("GETEX", [key, options @ ..]) => set::getex(steps, key, options).await,
        ("MSETNX", [_, _, ..]) if words.len().is_multiple_of(2) => msetnx(steps, words).await,
        ("GETRANGE" | "SUBSTR", [key, start, end]) => {
            let (start, end) = (int(start)?, int(end)?);
            let value: Bytes =
                steps.read::<Option<Bytes>>(key, text(RegisterOp::Get)).await?.unwrap_or_default();
            let bytes = value.len();
            steps.work.take(bytes)?;
            let part = move || Answer::Bulk(part(&value, start, end));
            Ok(steps.work.aside(bytes, part).await)
        }
        ("SETRANGE", [key, offset, patch]) => setrange(steps, key, int(offset)?, patch).await,
        ("GETBIT", [key, offset]) => bits::getbit(steps, key, offset).await,
        ("SETBIT", [key, offset, bit]) => bits::setbit(steps, key, offset, bit).await,
        ("BITCOUNT", [key, range @ ..]) => bits::bitcount(steps, key, range).await,
        ("BITPOS", [key, bit, range @ ..]) => bits::bitpos(steps, key, bit, range).await,
        ("BITOP", [op, target, sources @ ..]) if !sources.is_empty() => {
            bits::bitop(steps, op, target, sources).await
        }
        // That cannot be added; what is said of the value comes first.
        ("INCRBYFLOAT", [key, by]) => {
            let _: f64 = steps.read(key, Operation::new::<FloatCounter>(FloatCounterOp::Get)).await?;
            float(by)?;
            Err(Fault::told("ERR increment would produce NaN or Infinity"))
        }
        ("LCS", [first, second, options @ ..]) => lcs::lcs(steps, first, second, options).await,
        _ => Err(arity(name)),
    }
}

/// Those that are operations known up front.
pub(super) fn direct(name: &str, words: &[Bytes]) -> Option<Directly> {
    Some(match (name, words) {
        ("GET", [key]) => Direct::one(key, text(RegisterOp::Get), Shape::First),
        ("SET", [key, value]) => put_text(value).map(|chain| Direct::chain(key, chain, Shape::Ok)),
        ("SETEX" | "PSETEX", [key, time, value]) => setex(name, key, time, value),
        // On a key of another type there is a value, too, and nothing is written.
        ("SETNX", [key, value]) => Direct::one(
            key,
            text(RegisterOp::SetIfAbsentReturning(value.clone())).tried(),
            Shape::ZeroOfOtherType,
        ),
        ("GETSET", [key, value]) => Direct::one(key, text(RegisterOp::GetSet(value.clone())), Shape::First),
        ("GETDEL", [key]) => {
            let chain = [text(RegisterOp::Get), any(KeyspaceOp::Delete { returning: false })];
            Ok(Direct::chain(key, chain.into_iter().collect(), Shape::First))
        }
        ("GETEX", [key]) => Direct::one(key, text(RegisterOp::Get), Shape::First),
        ("APPEND", [key, tail]) => {
            let chain = [text(RegisterOp::Append(tail.clone())), text(RegisterOp::Len)];
            Ok(Direct::chain(key, chain.into_iter().collect(), Shape::Last))
        }
        ("STRLEN", [key]) => Direct::one(key, text(RegisterOp::Len), Shape::First),
        ("INCR", [key]) => Direct::count(key, 1),
        ("DECR", [key]) => Direct::count(key, -1),
        ("INCRBY", [key, by]) => int(by).and_then(|by| Direct::count(key, by)),
        ("DECRBY", [key, by]) => int(by).and_then(|by| {
            let by = by.checked_neg().ok_or_else(|| Fault::told("ERR decrement would overflow"))?;
            Direct::count(key, by)
        }),
        ("INCRBYFLOAT", [key, by]) => {
            let by = number(by).filter(|by| by.is_finite())?;
            Direct::one(key, Operation::new::<FloatCounter>(FloatCounterOp::AddReturning(by)), Shape::Decimal)
        }
        ("MGET", keys @ [_, ..]) => {
            // Of another type: nil.
            let get = text(RegisterOp::Get).tried();
            Ok(Direct::each(keys, &get, Shape::NilOfOtherType))
        }
        ("MSET", [_, _, ..]) if words.len().is_multiple_of(2) => mset(words),
        _ => return None,
    })
}

fn setex(name: &str, key: &Bytes, time: &Bytes, value: &Bytes) -> Directly {
    let moment = set::moment(name, if name == "SETEX" { "EX" } else { "PX" }, time)?;
    let mut chain = put_text(value)?;
    chain.push(expire(moment));
    Ok(Direct::chain(key, chain, Shape::Ok))
}

fn mset(words: &[Bytes]) -> Directly {
    let mut direct = Direct::of(Shape::Ok);
    for pair in words.chunks_exact(2) {
        put_text(&pair[1])?.into_iter().for_each(|op| direct.call(&pair[0], op));
    }
    Ok(direct)
}

async fn msetnx(steps: Steps<'_>, words: &[Bytes]) -> Answered {
    let keys: Vec<Bytes> = words.iter().step_by(2).cloned().collect();
    for key in &keys {
        if steps.is_there(key).await? {
            return Ok(Answer::Int(0));
        }
    }
    words
        .chunks_exact(2)
        .try_for_each(|pair| steps.write(&pair[0], text(RegisterOp::Set(pair[1].clone()))))?;
    Ok(Answer::Int(1))
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

async fn setrange(steps: Steps<'_>, key: &Bytes, offset: i64, patch: &Bytes) -> Answered {
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
    steps.work.take(length)?;
    let make = move || {
        let mut made = Vec::from(value);
        made.resize(length, 0);
        change(&mut made);
        Bytes::from(made)
    };
    Ok(steps.work.aside(length, make).await)
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
