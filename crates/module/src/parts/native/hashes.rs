//! Dicts, bounded counters and bags of numbers: Redis hashes.

use claret_planted::{Bug, is_planted};
use claret_types::{
    Bounded, BoundedCounter, BoundedCounterEffect, Bytes, DataType, Dict, DictEffect, DictOp, DictState,
    DictValue, Effect, OpError, Operation, State, Summary, SummaryBag, SummaryBagEffect,
};

use super::{OnServer, OpenKey, Record, Server};
use crate::ffi::Kind;
use crate::parts::equivalent::Equivalent;

// --- dict ---

impl OnServer for Dict {
    const KIND: Option<Kind> = Some(Kind::Hash);

    fn partial_state(
        record: &Record<'_, impl Server>,
        op: &Operation,
        own: &[&Effect],
    ) -> Result<Option<State>, OpError> {
        Ok(Self::partial_state_for_all(record, &[op], own)?.0)
    }

    /// For calls one after the other: all fields that they name.
    fn partial_state_for_all(
        record: &Record<'_, impl Server>,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        let mut fields: Vec<&Bytes> = Vec::new();
        for op in ops.iter().map(|op| op.downcast::<Dict>().expect("a dict's")) {
            match op {
                DictOp::Set(list) | DictOp::SetReturning(list) => {
                    fields.extend(list.iter().map(|(field, _)| field));
                }
                DictOp::Remove(list) | DictOp::RemoveReturning(list) | DictOp::GetMany(list) => {
                    fields.extend(list)
                }
                DictOp::Add(field, _)
                | DictOp::AddReturning(field, _)
                | DictOp::Get(field)
                | DictOp::Contains(field) => fields.push(field),
                DictOp::Len => {}
                DictOp::Fields | DictOp::All => return Ok((Self::whole(record)?, ops.len())),
            }
        }
        let Some(key) = record.open(Kind::Hash)? else { return Ok((None, ops.len())) };
        for effect in own.iter().filter_map(|effect| effect.downcast::<Dict>()) {
            match effect {
                DictEffect::Change { put, removed } => {
                    fields.extend(put.iter().map(|(field, _)| field));
                    fields.extend(removed);
                }
                DictEffect::Add(field, _) => fields.push(field),
            }
        }
        fields.sort_unstable();
        fields.dedup();
        let value = |field: &Bytes| record.field(&key, field).map(|value| DictValue::from(value.as_ref()));
        let found: Vec<(Bytes, DictValue)> =
            fields.into_iter().filter_map(|field| Some((field.clone(), value(field)?))).collect();
        let elsewhere = if is_planted(Bug::FieldsUncounted) { 0 } else { key.len() - found.len() };
        Ok((Some(State::new::<Dict>(DictState::partial(found, elsewhere))), ops.len()))
    }

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        if record.open(Kind::Hash)?.is_none() {
            return Ok(None);
        }
        let flat: Vec<Bytes> = record.read(c"HGETALL", []).list().collect();
        let pairs = flat.chunks_exact(2).map(|pair| (pair[0].clone(), DictValue::Bytes(pair[1].clone())));
        Ok(Some(State::new::<Dict>(DictState::partial(pairs, 0))))
    }

    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        let effects: Vec<_> = effects.iter().map(|it| it.downcast::<Dict>().expect("a dict's")).collect();
        apply_dict(record, &effects);
    }

    fn removes(effect: &DictEffect) -> usize {
        match effect {
            DictEffect::Change { removed, .. } => removed.len(),
            DictEffect::Add(..) => 0,
        }
    }
}

// --- bounded counter ---

impl OnServer for BoundedCounter {
    const KIND: Option<Kind> = None;

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        let Some(key) = record.open(Kind::Hash)? else { return Ok(None) };
        let Some(Bounded { value, min, max }) = bounded(&key) else {
            return Err(record.wrong_type("hash without value, min and max", "bounded-counter"));
        };
        if (value < min || value > max) && !is_planted(Bug::OutOfBoundsTaken) {
            return Err(OpError::Mismatch(format!(
                "the hash holds the value {value}, which is out of its bounds {min} to {max}; correct it with HSET"
            )));
        }
        Ok(Some(State::new::<BoundedCounter>(Some(Bounded { value, min, max }))))
    }

    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        let effects =
            effects.iter().map(|effect| effect.downcast::<BoundedCounter>().expect("a bounded counter's"));
        effects.for_each(|effect| apply_bounded(record, effect));
    }

    fn equivalent(method: &'static str) -> Equivalent {
        match method {
            "BCREATE" | "BRESIZE" | "BDECRBY.WRAP" => Equivalent::of("HSET"),
            "BINCRBY" | "BINCRBY.RETURNING" | "BDECRBY" | "BDECRBY.RETURNING" => Equivalent::of("HINCRBY"),
            "BGET" => Equivalent::of("HGET"),
            "BBOUNDS" => Equivalent::of("HMGET"),
            _ => Equivalent::named(method),
        }
    }
}

/// The three fields, if they are there; in bounds or not.
fn bounded(key: &impl OpenKey) -> Option<Bounded> {
    let [value, min, max] = ["value", "min", "max"].map(|name| integer(key, name));
    Some(Bounded { value: value?, min: min?, max: max? })
}

fn apply_bounded(record: &Record<'_, impl Server>, effect: &BoundedCounterEffect) {
    match effect {
        BoundedCounterEffect::Move(amount) => {
            record.write(c"HINCRBY", [b"value", amount.to_string().as_bytes()]);
        }
        BoundedCounterEffect::Turn(amount) => {
            let key = record.open(Kind::Hash).ok().flatten().expect("held since it was there");
            let turned = bounded(&key).expect("held since it was one").turned(*amount);
            drop(key);
            record.write(c"HSET", [b"value", turned.value.to_string().as_bytes()]);
        }
        BoundedCounterEffect::Replace(Some(bounded)) => {
            let [value, min, max] =
                [bounded.value, bounded.min, bounded.max].map(|number| number.to_string());
            let (value, min, max) = (value.as_bytes(), min.as_bytes(), max.as_bytes());
            record.write(c"HSET", [&b"value"[..], value, b"min", min, b"max", max]);
        }
        BoundedCounterEffect::Replace(None) => record.write(c"DEL", []),
    }
}

// --- bag ---

impl OnServer for SummaryBag {
    const KIND: Option<Kind> = None;

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        let Some(key) = record.open(Kind::Hash)? else { return Ok(None) };
        Ok(Some(State::new::<SummaryBag>(bag(record, &key)?)))
    }

    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        let effects = effects.iter().map(|effect| effect.downcast::<SummaryBag>().expect("a bag's"));
        effects.for_each(|effect| apply_bag(record, effect));
    }

    fn equivalent(method: &'static str) -> Equivalent {
        Equivalent::of(if method == "BAG.ADD" { "HSET" } else { "HMGET" })
    }
}

fn bag(record: &Record<'_, impl Server>, key: &impl OpenKey) -> Result<Summary, OpError> {
    let count = integer(key, "count").and_then(|count| u64::try_from(count).ok());
    let [sum, min, max] = ["sum", "min", "max"].map(|name| number(key, name).filter(|it| it.is_finite()));
    match (count, sum, min, max) {
        (Some(count), Some(sum), Some(min), Some(max)) => Ok(Summary { count, sum, min, max }),
        _ => Err(record.wrong_type("hash without count, sum, min and max", "summary-bag")),
    }
}

fn apply_bag(record: &Record<'_, impl Server>, effect: &SummaryBagEffect) {
    let key = record.open(Kind::Hash).ok().flatten();
    let mut summary = key.as_ref().and_then(|key| bag(record, key).ok()).unwrap_or_default();
    drop(key);
    SummaryBag::apply(&mut summary, effect.clone());
    put_bag(record, &summary);
}

fn put_bag(record: &Record<'_, impl Server>, summary: &Summary) {
    let count = summary.count.to_string();
    let [sum, min, max] = [summary.sum, summary.min, summary.max].map(|number| number.to_string());
    let fields = [&b"count"[..], count.as_bytes(), b"sum", sum.as_bytes()];
    record.write(c"HSET", fields.into_iter().chain([&b"min"[..], min.as_bytes(), b"max", max.as_bytes()]));
}

// --- all ---

/// Effects that only write fields, or only remove them, go together.
fn apply_dict(record: &Record<'_, impl Server>, effects: &[&DictEffect]) {
    let alike = |one: &&DictEffect, next: &&DictEffect| match (one, next) {
        (DictEffect::Change { put: a, removed: b }, DictEffect::Change { put: c, removed: d }) => {
            a.is_empty() == c.is_empty() && b.is_empty() == d.is_empty() && a.is_empty() != b.is_empty()
        }
        (DictEffect::Add(..), _) | (_, DictEffect::Add(..)) => false,
    };
    for effects in effects.chunk_by(alike) {
        let mut gone: Vec<&[u8]> = Vec::new();
        let mut written: Vec<(&Bytes, Bytes)> = Vec::new();
        for effect in effects {
            match effect {
                DictEffect::Add(field, amount) => {
                    record.write(c"HINCRBY", [&field[..], amount.to_string().as_bytes()]);
                }
                DictEffect::Change { put, removed } => {
                    gone.extend(removed.iter().map(|field| &field[..]));
                    written.extend(put.iter().map(|(field, value)| (field, value.to_bytes())));
                }
            }
        }
        record.write_all(c"HDEL", 1, &gone);
        let pairs: Vec<&[u8]> = written.iter().flat_map(|(field, value)| [&field[..], &value[..]]).collect();
        record.write_all(c"HSET", 2, &pairs);
    }
}

/// As the server writes one: it does not add to others.
fn integer(key: &impl OpenKey, field: &str) -> Option<i64> {
    let value = key.field(field.as_bytes())?;
    super::integer_of(value.as_ref())
}

fn number(key: &impl OpenKey, field: &str) -> Option<f64> {
    let value = key.field(field.as_bytes())?;
    let value = Some(value).filter(|value| value.as_ref().len() <= super::FLOAT_BYTES_MAX)?;
    std::str::from_utf8(value.as_ref()).ok()?.parse().ok()
}
