//! Functions without a library: `type`, `pairs`, `pcall` and the like.

use crate::fault::Raise;
use crate::machine::{Deliver, Event, Frame, Machine, NativeFrame, NativeState, Replied};
use crate::number;
use crate::value::Value;

use super::{Arguments, Native};

/// Results that `unpack` gives at most, as in Redis.
const UNPACKED_MAX: i64 = 7_990;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    Assert,
    Error,
    GetMetatable,
    Ipairs,
    Next,
    Pairs,
    Pcall,
    RawEqual,
    RawGet,
    RawSet,
    Select,
    SetMetatable,
    ToNumber,
    ToString,
    Type,
    Unpack,
    Xpcall,
}

pub(super) const FUNCTIONS: &[(&str, Base)] = &[
    ("assert", Base::Assert),
    ("error", Base::Error),
    ("getmetatable", Base::GetMetatable),
    ("ipairs", Base::Ipairs),
    ("next", Base::Next),
    ("pairs", Base::Pairs),
    ("pcall", Base::Pcall),
    ("rawequal", Base::RawEqual),
    ("rawget", Base::RawGet),
    ("rawset", Base::RawSet),
    ("select", Base::Select),
    ("setmetatable", Base::SetMetatable),
    ("tonumber", Base::ToNumber),
    ("tostring", Base::ToString),
    ("type", Base::Type),
    ("unpack", Base::Unpack),
    ("xpcall", Base::Xpcall),
];

pub(super) fn reply(machine: &mut Machine, function: Base, given: Arguments) -> Result<Replied, Raise> {
    match function {
        Base::Assert => assert(machine, given),
        Base::Error => error(machine, given),
        Base::GetMetatable => get_metatable(machine, given),
        Base::Ipairs => {
            let table = machine.table_given(given, 1)?;
            machine.results.extend([
                Value::Native(Native::NextElement),
                Value::Table(table),
                Value::Number(0.0),
            ]);
            Ok(Replied::Now)
        }
        Base::Next => next(machine, given),
        Base::Pairs => {
            let table = machine.table_given(given, 1)?;
            machine.results.extend([
                Value::Native(Native::Base(Base::Next)),
                Value::Table(table),
                Value::Nil,
            ]);
            Ok(Replied::Now)
        }
        Base::Pcall => pcall(machine, given),
        Base::RawEqual => {
            let (left, right) = (machine.any_given(given, 1)?, machine.any_given(given, 2)?);
            machine.looked(left)?;
            machine.looked(right)?;
            machine.one_result(Value::Bool(left == right))
        }
        Base::RawGet => {
            let table = machine.table_given(given, 1)?;
            let key = machine.any_given(given, 2)?;
            machine.looked(key)?;
            let value = machine.heap.of(table).get(key);
            machine.one_result(value)
        }
        Base::RawSet => {
            let table = machine.table_given(given, 1)?;
            let (key, value) = (machine.any_given(given, 2)?, machine.any_given(given, 3)?);
            machine.set_raw(Value::Table(table), key, value)?;
            machine.one_result(Value::Table(table))
        }
        Base::Select => select(machine, given),
        Base::SetMetatable => set_metatable(machine, given),
        Base::ToNumber => to_number(machine, given),
        Base::ToString => to_string(machine, given),
        Base::Type => {
            let value = machine.any_given(given, 1)?;
            machine.looked(value)?;
            machine.text_result(value.type_name().as_bytes())
        }
        Base::Unpack => unpack(machine, given),
        Base::Xpcall => {
            let handler = machine.given(given, 2);
            if given.count < 2 {
                return Err(Raise::argument(2, "value expected"));
            }
            let function = machine.given(given, 1);
            protect(machine, given, Some(handler))?;
            machine.call_values(function, &[], Deliver::Native)?;
            Ok(Replied::Later)
        }
    }
}

fn assert(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let value = machine.any_given(given, 1)?;
    if machine.truth(value)? {
        let all = machine.all_given(given, 1);
        machine.results.extend(all);
        return Ok(Replied::Now);
    }
    if machine.given(given, 2).is_nil() {
        return Err(Raise::called("assertion failed!"));
    }
    let text = machine.text_given(given, 2)?;
    Err(Raise::Said { text, level: 1 })
}

fn error(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let level = machine.integer_or(given, 2, 1)?;
    let value = machine.given(given, 1);
    machine.looked(value)?;
    match value {
        Value::Text(text) if level > 0 => {
            Err(Raise::Said { text, level: u32::try_from(level).unwrap_or(u32::MAX) })
        }
        value => Err(Raise::Value(value)),
    }
}

fn get_metatable(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let value = machine.any_given(given, 1)?;
    machine.looked(value)?;
    let protected = machine.metamethod(value, Event::Metatable);
    if !protected.is_nil() {
        return machine.one_result(protected);
    }
    let metatable = match value {
        Value::Table(table) => machine.heap.of(table).metatable,
        Value::Text(_) => machine.text_metatable,
        _ => None,
    };
    machine.one_result(metatable.map_or(Value::Nil, Value::Table))
}

fn set_metatable(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let metatable = match machine.given(given, 2) {
        Value::Nil if given.count >= 2 => None,
        Value::Table(metatable) => Some(metatable),
        Value::Later(_) => return Err(machine.wrong_type(given, 2, "table")),
        _ => return Err(Raise::argument(2, "nil or table expected")),
    };
    if !machine.metamethod(Value::Table(table), Event::Metatable).is_nil() {
        return Err(Raise::called("cannot change a protected metatable"));
    }
    if machine.heap.of(table).is_readonly {
        return Err(Raise::text("Attempt to modify a readonly table"));
    }
    machine.heap.of_mut(table).metatable = metatable;
    machine.one_result(Value::Table(table))
}

fn next(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let key = machine.given(given, 2);
    machine.looked(key)?;
    let Some((entry, looked)) = machine.heap.of(table).next(key) else {
        return Err(Raise::text("invalid key to 'next'"));
    };
    machine.charge(looked as u64)?;
    match entry {
        Some((key, value)) => machine.results.extend([key, value]),
        None => machine.results.push(Value::Nil),
    }
    Ok(Replied::Now)
}

/// The element behind an index, or nothing.
pub(super) fn next_element(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let index = machine.number_given(given, 2)? + 1.0;
    let value = machine.heap.of(table).get(Value::Number(index));
    if value.is_nil() {
        return machine.one_result(Value::Nil);
    }
    machine.results.extend([Value::Number(index), value]);
    Ok(Replied::Now)
}

/// What an index of a table answers, as a call.
pub(super) fn index(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let (mut object, key) = (machine.given(given, 1), machine.given(given, 2));
    loop {
        machine.charge(1)?;
        machine.looked(object)?;
        if let Value::Table(table) = object {
            let value = machine.heap.of(table).get(key);
            if !value.is_nil() {
                return machine.one_result(value);
            }
        }
        let handler = machine.metamethod(object, Event::Index);
        match handler {
            Value::Nil if matches!(object, Value::Table(_)) => return machine.one_result(Value::Nil),
            Value::Closure(_) | Value::Native(_) => {
                machine.call_values(handler, &[object, key], given.deliver)?;
                return Ok(Replied::Later);
            }
            Value::Nil => return Err(machine.wrong_operand("index", object, u8::MAX)),
            next => object = next,
        }
    }
}

fn protect(machine: &mut Machine, given: Arguments, handler: Option<Value>) -> Result<(), Raise> {
    let place = machine.stack.len();
    let state = NativeState::Try { handler, is_handling: false };
    machine.push_frame(Frame::Native(NativeFrame { state, place, deliver: given.deliver }))
}

fn pcall(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let function = machine.any_given(given, 1)?;
    machine.looked(function)?;
    let arguments = machine.all_given(given, 2);
    protect(machine, given, None)?;
    machine.call_values(function, &arguments, Deliver::Native)?;
    Ok(Replied::Later)
}

fn select(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if let Value::Text(text) = machine.given(given, 1)
        && machine.heap.bytes(text).first() == Some(&b'#')
    {
        return machine.one_result(Value::Number(given.count as f64 - 1.0));
    }
    let count = given.count as i64;
    let mut index = machine.integer_given(given, 1)?;
    if index < 0 {
        index = index.saturating_add(count);
    }
    if index < 1 {
        return Err(Raise::argument(1, "index out of range"));
    }
    let from = usize::try_from(index).unwrap_or(usize::MAX).min(given.count) + 1;
    machine.charge((given.count + 1).saturating_sub(from) as u64 / 8)?;
    let rest = machine.all_given(given, from);
    machine.results.extend(rest);
    Ok(Replied::Now)
}

fn to_number(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let base = machine.integer_or(given, 2, 10)?;
    if base == 10 {
        let value = machine.any_given(given, 1)?;
        machine.looked(value)?;
        let number = machine.number_in(value);
        return machine.one_result(number.map_or(Value::Nil, Value::Number));
    }
    let text = machine.text_given(given, 1)?;
    let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
    let Some(base) = base else { return Err(Raise::argument(2, "base out of range")) };
    let number = number::from_text_in_base(machine.heap.bytes(text), base);
    machine.one_result(number.map_or(Value::Nil, Value::Number))
}

fn to_string(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let value = machine.any_given(given, 1)?;
    machine.looked(value)?;
    let handler = machine.metamethod(value, Event::Text);
    if handler.is_nil() {
        if let Value::Text(_) = value {
            return machine.one_result(value);
        }
        let shown = machine.shown(value);
        return machine.text_result(&shown);
    }
    let place = machine.stack.len();
    let frame = NativeFrame { state: NativeState::Text, place, deliver: given.deliver };
    machine.push_frame(Frame::Native(frame))?;
    machine.call_values(handler, &[value], Deliver::Native)?;
    Ok(Replied::Later)
}

fn unpack(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let from = machine.integer_or(given, 2, 1)?;
    let to = if machine.given(given, 3).is_nil() {
        machine.heap.of(table).border() as i64
    } else {
        machine.integer_given(given, 3)?
    };
    if from > to {
        return Ok(Replied::Now);
    }
    let count = to.saturating_sub(from).saturating_add(1);
    if count > UNPACKED_MAX {
        return Err(Raise::called("too many results to unpack"));
    }
    machine.charge(count as u64 / 4)?;
    for index in from..=to {
        let value = machine.heap.of(table).get(Value::Number(index as f64));
        machine.results.push(value);
    }
    Ok(Replied::Now)
}
