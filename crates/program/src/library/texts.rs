//! `string`, but for what searches.

use crate::fault::{Fatal, Raise};
use crate::format::{self, Directive, Spec};
use crate::machine::{Machine, Replied};
use crate::value::Value;

use super::Arguments;

/// A function of `string`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TextFunction {
    Byte,
    Char,
    Format,
    Len,
    Lower,
    Rep,
    Reverse,
    Sub,
    Upper,
}

pub(super) const FUNCTIONS: &[(&str, TextFunction)] = &[
    ("byte", TextFunction::Byte),
    ("char", TextFunction::Char),
    ("format", TextFunction::Format),
    ("len", TextFunction::Len),
    ("lower", TextFunction::Lower),
    ("rep", TextFunction::Rep),
    ("reverse", TextFunction::Reverse),
    ("sub", TextFunction::Sub),
    ("upper", TextFunction::Upper),
];

/// A place in a text from its beginning, from 1, or from its end, from -1.
pub(super) fn place(position: i64, length: usize) -> i64 {
    if position < 0 { position.saturating_add(length as i64).saturating_add(1).max(0) } else { position }
}

pub(super) fn reply(
    machine: &mut Machine,
    function: TextFunction,
    given: Arguments,
) -> Result<Replied, Raise> {
    match function {
        TextFunction::Byte => byte(machine, given),
        TextFunction::Char => char(machine, given),
        TextFunction::Format => formatted(machine, given),
        TextFunction::Len => {
            let text = machine.text_given(given, 1)?;
            let length = machine.heap.bytes(text).len();
            machine.one_result(Value::Number(length as f64))
        }
        TextFunction::Lower => changed(machine, given, |bytes| bytes.to_ascii_lowercase()),
        TextFunction::Upper => changed(machine, given, |bytes| bytes.to_ascii_uppercase()),
        TextFunction::Reverse => changed(machine, given, |bytes| bytes.iter().rev().copied().collect()),
        TextFunction::Rep => repeated(machine, given),
        TextFunction::Sub => sub(machine, given),
    }
}

fn changed(machine: &mut Machine, given: Arguments, change: fn(&[u8]) -> Vec<u8>) -> Result<Replied, Raise> {
    let text = machine.text_given(given, 1)?;
    let length = machine.heap.bytes(text).len();
    machine.charge_bytes(length)?;
    let bytes = change(machine.heap.bytes(text));
    machine.text_result(&bytes)
}

fn byte(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let text = machine.text_given(given, 1)?;
    let length = machine.heap.bytes(text).len();
    let from = place(machine.integer_or(given, 2, 1)?, length).max(1);
    let asked = machine.integer_or(given, 2, 1)?;
    let to = place(machine.integer_or(given, 3, place(asked, length))?, length).min(length as i64);
    if from > to {
        return Ok(Replied::Now);
    }
    machine.charge((to - from) as u64)?;
    if to - from >= 7_990 {
        return Err(Raise::called("string slice too long"));
    }
    let range = from as usize - 1..to as usize;
    let bytes = machine.heap.bytes(text).get(range).unwrap_or_default().to_vec();
    machine.results.extend(bytes.into_iter().map(|byte| Value::Number(f64::from(byte))));
    Ok(Replied::Now)
}

fn char(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let mut bytes = Vec::with_capacity(given.count);
    for index in 1..=given.count {
        let code = machine.integer_given(given, index)?;
        bytes.push(u8::try_from(code).map_err(|_| Raise::argument(index, "invalid value"))?);
    }
    machine.text_result(&bytes)
}

fn repeated(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let text = machine.text_given(given, 1)?;
    let times = usize::try_from(machine.integer_given(given, 2)?).unwrap_or_default();
    let length = machine.heap.bytes(text).len().saturating_mul(times);
    if (length as u64).saturating_mul(2) > machine.heap.left() {
        return Err(Raise::Fatal(Fatal::Memory));
    }
    machine.charge_bytes(length)?;
    let bytes = if length == 0 { Vec::new() } else { machine.heap.bytes(text).repeat(times) };
    machine.text_result(&bytes)
}

fn sub(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let text = machine.text_given(given, 1)?;
    let length = machine.heap.bytes(text).len();
    let from = place(machine.integer_given(given, 2)?, length).max(1);
    let to = place(machine.integer_or(given, 3, -1)?, length).min(length as i64);
    if from > to {
        return machine.text_result(b"");
    }
    let part = machine.heap.bytes(text).get(from as usize - 1..to as usize).unwrap_or_default().to_vec();
    machine.text_result(&part)
}

fn formatted(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let text = machine.text_given(given, 1)?;
    let pattern = machine.heap.bytes(text).to_vec();
    machine.charge_bytes(pattern.len())?;
    let mut rest = pattern.as_slice();
    let mut out = Vec::new();
    let mut index = 1;
    while let Some((directive, behind)) = format::next_directive(rest).map_err(Raise::called)? {
        rest = behind;
        if !matches!(directive, Directive::Literal(_)) {
            index += 1;
        }
        one(machine, given, index, directive, &mut out)?;
        machine.charge(8)?;
        if out.len() as u64 > machine.heap.left() / 2 {
            return Err(Raise::Fatal(Fatal::Memory));
        }
    }
    machine.text_result(&out)
}

fn one(
    machine: &mut Machine,
    given: Arguments,
    index: usize,
    directive: Directive,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    let number = |machine: &mut Machine| machine.number_given(given, index);
    match directive {
        Directive::Literal(text) => out.extend_from_slice(&text),
        Directive::Char(spec) => format::write_char(&spec, number(machine)?, out),
        Directive::Integer(spec) => format::write_integer(&spec, number(machine)?, out),
        Directive::Float(spec) => format::write_float(&spec, number(machine)?, out),
        Directive::Quoted => {
            let text = machine.text_given(given, index)?;
            machine.charge_bytes(machine.heap.bytes(text).len())?;
            format::write_quoted(machine.heap.bytes(text), out);
        }
        Directive::Text(spec) => text(machine, given, index, &spec, out)?,
    }
    Ok(())
}

fn text(
    machine: &mut Machine,
    given: Arguments,
    index: usize,
    spec: &Spec,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    if index > given.count {
        return Err(Raise::argument(index, "string expected, got no value"));
    }
    let text = machine.text_given(given, index)?;
    machine.charge_bytes(machine.heap.bytes(text).len())?;
    format::write_text(spec, machine.heap.bytes(text), out);
    Ok(())
}
