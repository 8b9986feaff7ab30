//! Registers, counters, float counters and generators of unique numbers: Redis strings.

use claret_planted::{Bug, is_planted};
use claret_types::{
    Bytes, Counter, CounterEffect, CounterOp, DataType, Effect, FloatCounter, FloatCounterEffect,
    FloatCounterOp, Issued, OpError, Operation, Register, RegisterEffect, RegisterOp, State,
    Text as TextState, UidEffect, UidGenerator, no_number,
};

use super::{COMPACT_MAX, FLOAT_BYTES_MAX, INTEGER_BYTES_MAX, OnServer, OpenKey, Record, Server, Upcoming};
use crate::ffi::Kind;
use crate::parts::equivalent::Equivalent;

macro_rules! texts {
    ($($kind:ident),*) => {$(
        impl OnServer for $kind {
            const KIND: Option<Kind> = Some(Kind::String);

            fn partial_state(
                record: &Record<'_, impl Server>,
                op: &Operation,
                own: &[&Effect],
            ) -> Result<Option<State>, OpError> {
                partial_state(record, op, own)
            }

            fn partial_state_for_all(
                record: &Record<'_, impl Server>,
                ops: &[&Operation],
                own: &[&Effect],
            ) -> Result<(Option<State>, usize), OpError> {
                partial_state_for_all(record, ops, own)
            }

            fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
                whole(record)
            }

            fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
                apply(record, effects);
            }
        }
    )*};
}

texts!(Register, Counter, FloatCounter);

impl OnServer for UidGenerator {
    const KIND: Option<Kind> = None;

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        let Some(key) = record.open(Kind::String)? else { return Ok(None) };
        refuse_no_number(&key, INTEGER_BYTES_MAX, "a whole number from 0 to 2^62")?;
        let text = record.string(key, Upcoming::Nothing);
        let count = super::integer_of(&text).filter(|count| (0..=ISSUED_MAX).contains(count));
        let count = count
            .ok_or_else(|| OpError::NotNumeric(text.to_string(), "a whole number from 0 to 2^62".into()))?;
        let count = count.unsigned_abs();
        Ok(Some(State::new::<UidGenerator>(Issued(count))))
    }

    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        apply(record, effects);
    }

    fn equivalent(method: &'static str) -> Equivalent {
        match method {
            "UID.NEXT" => Equivalent::of("INCR"),
            "UID.ISSUED" => Equivalent::of("GET"),
            _ => Equivalent::named(method),
        }
    }
}

/// Mostly the value; where an operation asks for less of it, no more is copied.
fn partial_state(
    record: &Record<'_, impl Server>,
    op: &Operation,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let key = record.open(Kind::String)?;
    let length = key.as_ref().map_or(0, OpenKey::len);
    if let Some(RegisterOp::Append(tail)) = op.downcast::<Register>() {
        refuse_long(record, length, own, tail)?;
    }
    let Some(key) = key else { return Ok(None) };
    let fate = upcoming(length, [op].into_iter(), own);
    let text = match op.downcast::<Register>() {
        // Not what is there: only that something is, and how long it is, which was looked at.
        Some(RegisterOp::Append(_)) => TextState::Bytes(Bytes::default()),
        Some(op) if own.is_empty() => TextState::Bytes(match op {
            _ if asks_whether_it_is_there(op) => Bytes::default(),
            RegisterOp::Len => return Ok(Some(State::new::<Register>(TextState::Length(length)))),
            _ => record.string(key, fate),
        }),
        None if own.is_empty() => {
            match op.downcast::<Counter>() {
                Some(_) => refuse_no_number(&key, INTEGER_BYTES_MAX, "an integer")?,
                None => refuse_no_number(&key, FLOAT_BYTES_MAX, "a number")?,
            }
            TextState::Bytes(record.string(key, fate))
        }
        _ => TextState::Bytes(record.string(key, fate)),
    };
    Ok(Some(State::new::<Register>(text)))
}

/// Whether what a record has is of no matter to it.
fn asks_whether_it_is_there(op: &RegisterOp) -> bool {
    matches!(op, RegisterOp::Set(_) | RegisterOp::SetIfAbsent(_) | RegisterOp::SetIfAbsentReturning(_))
}

/// A string that is longer than any number is none, and is not read to see that.
fn refuse_no_number(key: &impl OpenKey, longest: usize, expected: &'static str) -> Result<(), OpError> {
    // One that is kept in a compact way is read as any other.
    match key.len() {
        length if length > longest.max(COMPACT_MAX) => Err(no_number(key.string(), length, expected)),
        _ => Ok(()),
    }
}

/// Whether a string of this length is written for certain by whoever calls these operations and has these effects.
fn upcoming<'a>(length: usize, mut ops: impl Iterator<Item = &'a Operation>, own: &[&Effect]) -> Upcoming {
    let writes = |op: &Operation| {
        if let Some(op) = op.downcast::<Counter>() {
            matches!(op, CounterOp::Add(by) | CounterOp::AddReturning(by) if *by != 0)
        } else if let Some(op) = op.downcast::<FloatCounter>() {
            matches!(op, FloatCounterOp::Add(by) | FloatCounterOp::AddReturning(by) if *by != 0.0)
        } else {
            // What is as long may be the same, and is not written then.
            matches!(op.downcast::<Register>(), Some(RegisterOp::GetSet(new)) if new.len() != length)
        }
    };
    if !own.is_empty() || ops.any(writes) { Upcoming::Write } else { Upcoming::Nothing }
}

/// For calls one after the other: the value.
fn partial_state_for_all(
    record: &Record<'_, impl Server>,
    ops: &[&Operation],
    own: &[&Effect],
) -> Result<(Option<State>, usize), OpError> {
    let registers = || ops.iter().filter_map(|op| op.downcast::<Register>());
    let tail = |op: &RegisterOp| match op {
        RegisterOp::Append(tail) => Some(tail.len()),
        _ => None,
    };
    let appended: usize = registers().filter_map(tail).sum();
    let held = record.open(Kind::String)?.map(|key| key.len());
    let fate = upcoming(held.unwrap_or(0), ops.iter().copied(), own);
    let only_length = || registers().all(|op| matches!(op, RegisterOp::Len));
    let only_presence = || registers().all(asks_whether_it_is_there);
    if own.is_empty() && (ops[0].downcast::<Register>().is_none() || only_length() || only_presence()) {
        return Ok((partial_state(record, ops[0], own)?, ops.len()));
    }
    if appended == 0 {
        return Ok((value(record, fate)?, ops.len()));
    }
    let long = length_after(held.unwrap_or(0), own);
    // Nothing is longer in between than the longest that is put there, with all tails behind it.
    let put = registers().map(|op| match op {
        RegisterOp::Set(text)
        | RegisterOp::SetIfAbsent(text)
        | RegisterOp::SetIfAbsentReturning(text)
        | RegisterOp::GetSet(text) => text.len(),
        RegisterOp::Append(_) | RegisterOp::Get | RegisterOp::Len => 0,
    });
    let most = put.max().unwrap_or(0).max(long) + appended;
    if most > LENGTH_OF_ALL && most > record.server.append_bytes_max().unwrap_or(usize::MAX) {
        return Ok((partial_state(record, ops[0], own)?, 1));
    }
    let only_appends = registers().filter_map(tail).count() == ops.len();
    match held {
        Some(_) if only_appends => {
            Ok((Some(State::new::<Register>(TextState::Bytes(Bytes::default()))), ops.len()))
        }
        _ => Ok((value(record, fate)?, ops.len())),
    }
}

/// Counted further by nobody in a lifetime; the server counts to 2^63.
const ISSUED_MAX: i64 = 1 << 62;

/// No shorter limit can be set.
const LENGTH_OF_ALL: usize = 1 << 20;

/// What the server would not append it has to be refused for before it is promised.
fn refuse_long(
    record: &Record<'_, impl Server>,
    held: usize,
    own: &[&Effect],
    tail: &Bytes,
) -> Result<(), OpError> {
    let size = length_after(held, own) + tail.len();
    if size <= LENGTH_OF_ALL {
        return Ok(());
    }
    match record.server.append_bytes_max() {
        Some(limit) if size > limit && !is_planted(Bug::LongAppendPromised) => {
            Err(OpError::TooLarge { what: "string".into(), size, limit })
        }
        _ => Ok(()),
    }
}

/// How long a string is once its owner's effects are added.
fn length_after(held: usize, own: &[&Effect]) -> usize {
    let effects = own.iter().filter_map(|effect| effect.downcast::<Register>());
    effects.fold(held, |length, effect| match effect {
        RegisterEffect::Replace(text) => text.to_bytes().map_or(0, |bytes| bytes.len()),
        RegisterEffect::Append(tail) => length + tail.len(),
        RegisterEffect::Truncate(length) => *length,
    })
}

pub(super) fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
    value(record, Upcoming::Nothing)
}

fn value(record: &Record<'_, impl Server>, fate: Upcoming) -> Result<Option<State>, OpError> {
    let Some(key) = record.open(Kind::String)? else { return Ok(None) };
    Ok(Some(State::new::<Register>(TextState::Bytes(record.string(key, fate)))))
}

/// What is added one after the other is added as one sum.
fn apply(record: &Record<'_, impl Server>, effects: &[&Effect]) {
    let mut sum: Option<i64> = None;
    for effect in effects {
        let amount = amount(effect);
        let joined = sum.zip(amount).and_then(|(sum, amount)| sum.checked_add(amount));
        if let Some(sum) = sum.filter(|_| joined.is_none()) {
            add(record, sum);
        }
        sum = joined.or(amount);
        if amount.is_none() {
            change(record, effect);
        }
    }
    if let Some(sum) = sum.filter(|_| !is_planted(Bug::LastSumUnwritten)) {
        add(record, sum);
    }
}

/// How much an effect adds, if that is all it does.
fn amount(effect: &Effect) -> Option<i64> {
    match (effect.downcast::<Counter>(), effect.downcast::<UidGenerator>()) {
        (Some(CounterEffect::Add(amount)), _) => Some(*amount),
        (_, Some(UidEffect::Take)) => Some(1),
        (_, Some(UidEffect::GiveBack)) => Some(-1),
        (Some(CounterEffect::Restore(_)) | None, None) => None,
    }
}

/// An effect that does more than to add.
fn change(record: &Record<'_, impl Server>, effect: &Effect) {
    if let Some(CounterEffect::Restore(text)) = effect.downcast::<Counter>() {
        put(record, text);
    } else if let Some(effect) = effect.downcast::<Register>() {
        match effect {
            RegisterEffect::Replace(text) => put(record, text),
            RegisterEffect::Append(tail) => record.write(c"APPEND", [&tail[..]]),
            RegisterEffect::Truncate(_) => unreachable!("undoes an append in memory; nothing is undone here"),
        }
    } else if let Some(effect) = effect.downcast::<FloatCounter>() {
        add_float(record, effect);
    }
}

fn add(record: &Record<'_, impl Server>, amount: i64) {
    record.write(c"INCRBY", [amount.to_string().as_bytes()]);
}

/// `SET` as anybody's: a time to live goes.
fn put(record: &Record<'_, impl Server>, text: &TextState) {
    match text.to_bytes() {
        Some(bytes) => record.write(c"SET", [&bytes[..]]),
        None => record.write(c"DEL", []),
    }
}

/// Redis adds floats in extended precision; the sum that was promised is that of 64-bit floats.
fn add_float(record: &Record<'_, impl Server>, effect: &FloatCounterEffect) {
    let held = record.open(Kind::String).ok().flatten();
    let mut text =
        held.map_or(TextState::Absent, |key| TextState::Bytes(record.string(key, Upcoming::Write)));
    FloatCounter::apply(&mut text, effect.clone());
    match text.to_bytes() {
        Some(bytes) if is_planted(Bug::FloatLosesEnd) => record.write_as_is(c"SET", [&bytes[..]]),
        Some(bytes) => record.write_as_is(c"SET", [&bytes[..], b"KEEPTTL"]),
        None => record.write(c"DEL", []),
    }
}
