//! `table`.

use crate::fault::{Fatal, Raise};
use crate::machine::{Frame, Machine, NativeFrame, NativeState, Replied, Sort, Visit};
use crate::number;
use crate::value::{TableId, Value};

use super::Arguments;

/// A function of `table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TableFunction {
    Concat,
    Foreach,
    Foreachi,
    Getn,
    Insert,
    Maxn,
    Remove,
    Setn,
    Sort,
}

pub(super) const FUNCTIONS: &[(&str, TableFunction)] = &[
    ("concat", TableFunction::Concat),
    ("foreach", TableFunction::Foreach),
    ("foreachi", TableFunction::Foreachi),
    ("getn", TableFunction::Getn),
    ("insert", TableFunction::Insert),
    ("maxn", TableFunction::Maxn),
    ("remove", TableFunction::Remove),
    ("setn", TableFunction::Setn),
    ("sort", TableFunction::Sort),
];

pub(super) fn reply(
    machine: &mut Machine,
    function: TableFunction,
    given: Arguments,
) -> Result<Replied, Raise> {
    match function {
        TableFunction::Concat => concat(machine, given),
        TableFunction::Foreach | TableFunction::Foreachi => visit(machine, function, given),
        TableFunction::Getn => {
            let table = machine.table_given(given, 1)?;
            let length = machine.heap.of(table).border();
            machine.one_result(Value::Number(length as f64))
        }
        TableFunction::Insert => insert(machine, given),
        TableFunction::Maxn => {
            let table = machine.table_given(given, 1)?;
            machine.charge(machine.heap.of(table).places() as u64)?;
            let largest = machine.heap.of(table).largest();
            machine.one_result(Value::Number(largest))
        }
        TableFunction::Remove => remove(machine, given),
        TableFunction::Setn => {
            machine.table_given(given, 1)?;
            Err(Raise::called("'setn' is obsolete"))
        }
        TableFunction::Sort => sort(machine, given),
    }
}

fn element(index: i64) -> Value {
    Value::Number(index as f64)
}

fn concat(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let separator = match machine.given(given, 2) {
        Value::Nil => Vec::new(),
        _ => {
            let text = machine.text_given(given, 2)?;
            machine.heap.bytes(text).to_vec()
        }
    };
    let from = machine.integer_or(given, 3, 1)?;
    let to = match machine.given(given, 4) {
        Value::Nil => machine.heap.of(table).border() as i64,
        _ => machine.integer_given(given, 4)?,
    };
    let mut out = Vec::new();
    let mut index = from;
    while index <= to {
        let value = machine.heap.of(table).get(element(index));
        machine.looked(value)?;
        match value {
            Value::Text(text) => out.extend_from_slice(machine.heap.bytes(text)),
            Value::Number(number) => out.extend_from_slice(number::to_text(number).as_bytes()),
            other => {
                let message =
                    format!("invalid value ({}) at index {index} in table for 'concat'", other.type_name());
                return Err(Raise::called(message));
            }
        }
        if index < to {
            out.extend_from_slice(&separator);
        }
        machine.charge(2)?;
        if out.len() as u64 > machine.heap.left() / 2 {
            return Err(Raise::Fatal(Fatal::Memory));
        }
        index += 1;
    }
    machine.text_result(&out)
}

fn visit(machine: &mut Machine, function: TableFunction, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let callback = machine.function_given(given, 2)?;
    let visit = match function {
        TableFunction::Foreach => Visit::All(Value::Nil),
        _ => Visit::Elements(0, machine.heap.of(table).border()),
    };
    let place = machine.stack.len();
    let state = NativeState::Visit { table, function: callback, visit, is_first: true };
    machine.push_frame(Frame::Native(NativeFrame { state, place, deliver: given.deliver }))?;
    Ok(Replied::Later)
}

fn insert(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let end = machine.heap.of(table).border() as i64 + 1;
    let (position, value) = match given.count {
        2 => (end, machine.given(given, 2)),
        3 => {
            let position = machine.integer_given(given, 2)?;
            let mut to = end.max(position);
            machine.charge(to.saturating_sub(position).max(0) as u64)?;
            while to > position {
                let moved = machine.heap.of(table).get(element(to - 1));
                machine.set_raw(Value::Table(table), element(to), moved)?;
                to -= 1;
            }
            (position, machine.given(given, 3))
        }
        _ => return Err(Raise::called("wrong number of arguments to 'insert'")),
    };
    machine.set_raw(Value::Table(table), element(position), value)?;
    Ok(Replied::Now)
}

fn remove(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let end = machine.heap.of(table).border() as i64;
    let position = machine.integer_or(given, 2, end)?;
    if !(1 <= position && position <= end) {
        return Ok(Replied::Now);
    }
    machine.charge((end - position) as u64)?;
    let removed = machine.heap.of(table).get(element(position));
    for to in position..end {
        let moved = machine.heap.of(table).get(element(to + 1));
        machine.set_raw(Value::Table(table), element(to), moved)?;
    }
    machine.set_raw(Value::Table(table), element(end), Value::Nil)?;
    machine.one_result(removed)
}

fn sort(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let table = machine.table_given(given, 1)?;
    let function = match machine.given(given, 2) {
        Value::Nil => Value::Nil,
        _ => machine.function_given(given, 2)?,
    };
    let items = elements(machine, table)?;
    let place = machine.stack.len();
    let state = NativeState::Sort(Box::new(Sort::new(table, function, items)));
    machine.push_frame(Frame::Native(NativeFrame { state, place, deliver: given.deliver }))?;
    Ok(Replied::Later)
}

fn elements(machine: &mut Machine, table: TableId) -> Result<Vec<Value>, Raise> {
    let count = machine.heap.of(table).border();
    machine.charge(count as u64)?;
    machine.heap.take(Sort::bytes(count))?;
    Ok((1..=count).map(|index| machine.heap.of(table).at(index)).collect())
}
