//! Commands on hashes.

use claret_types::{Bytes, DictOp, Few, OpError, Pairs, Reply, few};

use crate::answer::Answer;
use crate::commands::Answered;
use crate::commands::direct::{Direct, Directly, Shape};
use crate::commands::random::chosen;
use crate::commands::scan::{check_cursor, page};
use crate::commands::steps::{Steps, dict, few_of};
use crate::commands::words::{arity, decimal, float, int, is, number};
use crate::fault::Fault;

/// What this file carries out, beside what is direct.
pub(super) const NAMES: &[&str] = &["HSETNX", "HINCRBY", "HINCRBYFLOAT", "HRANDFIELD", "HSCAN"];

pub(super) async fn run(steps: Steps<'_>, name: &str, words: &[Bytes]) -> Answered {
    match (name, words) {
        ("HSETNX", [key, field, value]) => {
            if steps.lock(key, dict(DictOp::Contains(field.clone()))).await? {
                return Ok(Answer::Int(0));
            }
            steps.write(key, dict(DictOp::Set(few([(field.clone(), value.clone())]))))?;
            Ok(Answer::Int(1))
        }
        ("HINCRBY", [key, field, by]) => hincrby(steps, key, field, int(by)?).await,
        ("HINCRBYFLOAT", [key, field, by]) => hincrbyfloat(steps, key, field, float(by)?).await,
        ("HRANDFIELD", [key, options @ ..]) => hrandfield(steps, key, options).await,
        ("HSCAN", [key, cursor, options @ ..]) => {
            check_cursor(cursor)?;
            let Pairs(all) = steps.read::<Pairs<Bytes, Bytes>>(key, dict(DictOp::All)).await?;
            page(steps, name, all, |(field, value)| (field, Some(Answer::Bulk(value))), options).await
        }
        _ => Err(arity(name)),
    }
}

/// Those that are operations known up front.
pub(super) fn direct(name: &str, words: &[Bytes]) -> Option<Directly> {
    Some(match (name, words) {
        ("HSET", [key, pairs @ ..]) => pairs_of(name, pairs)
            .and_then(|pairs| Direct::one(key, dict(DictOp::SetReturning(pairs)), Shape::First)),
        ("HMSET", [key, pairs @ ..]) => {
            pairs_of(name, pairs).and_then(|pairs| Direct::one(key, dict(DictOp::Set(pairs)), Shape::Ok))
        }
        ("HINCRBY", [key, field, by]) => int(by)
            .and_then(|by| Direct::one(key, dict(DictOp::AddReturning(field.clone(), by)), Shape::First)),
        ("HGET", [key, field]) => Direct::one(key, dict(DictOp::Get(field.clone())), Shape::First),
        ("HMGET", [key, fields @ ..]) if !fields.is_empty() => {
            Direct::one(key, dict(DictOp::GetMany(few_of(fields))), Shape::First)
        }
        ("HDEL", [key, fields @ ..]) if !fields.is_empty() => {
            Direct::one(key, dict(DictOp::RemoveReturning(few_of(fields))), Shape::First)
        }
        ("HEXISTS", [key, field]) => Direct::one(key, dict(DictOp::Contains(field.clone())), Shape::First),
        ("HLEN", [key]) => Direct::one(key, dict(DictOp::Len), Shape::First),
        ("HKEYS", [key]) => Direct::one(key, dict(DictOp::Fields), Shape::First),
        ("HVALS", [key]) => Direct::one(key, dict(DictOp::All), Shape::Values),
        ("HGETALL", [key]) => Direct::one(key, dict(DictOp::All), Shape::Map),
        ("HSTRLEN", [key, field]) => Direct::one(key, dict(DictOp::Get(field.clone())), Shape::Length),
        _ => return None,
    })
}

fn pairs_of(name: &str, words: &[Bytes]) -> Result<Few<(Bytes, Bytes)>, Fault> {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(arity(name));
    }
    Ok(words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

async fn hincrby(steps: Steps<'_>, key: &Bytes, field: &Bytes, by: i64) -> Answered {
    let op = dict(DictOp::AddReturning(field.clone(), by));
    match steps.tx.execute(key.clone(), op).await {
        Ok(sum) => Ok(Answer::from(sum)),
        // In the words of servers for fields.
        Err(error) if matches!(error.op_error(), Some(OpError::NotNumeric(..))) => {
            Err(Fault::told("ERR hash value is not an integer"))
        }
        Err(error) => Err(error.into()),
    }
}

async fn hincrbyfloat(steps: Steps<'_>, key: &Bytes, field: &Bytes, by: f64) -> Answered {
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

async fn hrandfield(steps: Steps<'_>, key: &Bytes, options: &[Bytes]) -> Answered {
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
