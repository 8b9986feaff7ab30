//! `struct`: values as bytes of a layout, as the module of Redis 7 writes and reads it on a machine of 64 bits.

mod layout;

use crate::data::{Budget, Data, NUMBER_STEPS, of_bytes};
use crate::number::{self, unsigned};
use layout::{Layout, Part};

/// Values that may be unpacked at once: as many as the stack of a server's Lua has place for.
const RESULTS_MAX: usize = 7997;

/// The values as bytes, one after the other. A text may be a number for another text, and a number may be said by a text.
///
/// # Errors
/// The format is wrong, or a value lacks or is of another type; in the words of the module. Or the budget is spent.
pub(crate) fn pack(format: &[u8], values: &[Data], budget: &mut Budget) -> Result<Vec<u8>, String> {
    let mut layout = Layout::new(format);
    let mut out = Vec::new();
    let mut argument = 0;
    while let Some(part) = layout.next(out.len())? {
        budget.write(part.padding.saturating_add(if part.option == b'c' { 0 } else { part.size }))?;
        out.resize(out.len().saturating_add(part.padding), 0);
        let value = values.get(argument);
        budget.spend(match value {
            Some(Data::Text(text)) => of_bytes(text.len()),
            Some(_) if part.option == b's' || part.option == b'c' => NUMBER_STEPS,
            _ => 0,
        })?;
        match part.option {
            b'x' => out.push(0),
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = number_of(value, argument)?;
                push_integer(unsigned(number), &part, &mut out);
            }
            b'f' => {
                let bits = narrow(number_of(value, argument)?).to_bits();
                push_integer(bits.into(), &part, &mut out);
            }
            b'd' => push_integer(number_of(value, argument)?.to_bits(), &part, &mut out),
            b'c' | b's' => push_text(&text_of(value, argument)?, argument, &part, &mut out, budget)?,
            option => {
                layout.control(option, "pack")?;
                continue;
            }
        }
        if part.option != b'x' {
            argument = argument.saturating_add(1);
        }
    }
    Ok(out)
}

/// The values at `position` (from 1) of a text, and the position behind the last one.
///
/// # Errors
/// The format is wrong, or the text is too short for it; in the words of the module. Or the budget is spent.
pub(crate) fn unpack(
    format: &[u8],
    text: &[u8],
    position: usize,
    budget: &mut Budget,
) -> Result<(Vec<Data>, usize), String> {
    let Some(mut place) = position.checked_sub(1) else {
        return Err(fault("unpack", 3, "offset must be 1 or greater"));
    };
    let mut layout = Layout::new(format);
    let mut values: Vec<Data> = Vec::new();
    while let Some(part) = layout.next(place)? {
        budget.spend(1)?;
        place = place.saturating_add(part.padding);
        let mut bytes = slice(text, place, part.size).ok_or_else(too_short)?;
        if part.is_control {
            layout.control(part.option, "unpack")?;
            continue;
        }
        if values.len() >= RESULTS_MAX {
            return Err("stack overflow (too many results)".to_owned());
        }
        budget.slot()?;
        place = place.saturating_add(part.size);
        match part.option {
            b'x' => {}
            b'f' => values.push(Data::Number(widen(f32::from_bits(integer(bytes, &part) as u32)))),
            b'd' => values.push(Data::Number(f64::from_bits(integer(bytes, &part)))),
            b'c' | b's' => {
                if part.option == b's' {
                    bytes = terminated(text, place, budget)?;
                    place = place.saturating_add(1);
                } else if part.size == 0 {
                    bytes = sized(text, place, values.pop(), budget)?;
                }
                if part.size == 0 {
                    place = place.saturating_add(bytes.len());
                }
                budget.copy(bytes.len())?;
                values.push(Data::Text(bytes.to_vec()));
            }
            option => {
                let value = integer(bytes, &part);
                let is_signed = option.is_ascii_lowercase();
                values.push(Data::Number(if is_signed {
                    extended(value, part.size) as f64
                } else {
                    value as f64
                }));
            }
        }
    }
    Ok((values, place.saturating_add(1)))
}

/// How many bytes a format makes.
///
/// # Errors
/// The format is wrong, or has a text of any length; in the words of the module.
pub(crate) fn size(format: &[u8]) -> Result<usize, String> {
    let mut layout = Layout::new(format);
    let mut total = 0usize;
    while let Some(part) = layout.next(total)? {
        if part.option == b's' {
            return Err(fault("size", 1, "option 's' has no fixed size"));
        }
        if part.option == b'c' && part.size == 0 {
            return Err(fault("size", 1, "option 'c0' has no fixed size"));
        }
        // A letter or digit that says nothing is passed over here, and only here.
        if part.is_control && !part.option.is_ascii_alphanumeric() {
            layout.control(part.option, "size")?;
        }
        total = total.saturating_add(part.padding).saturating_add(part.size);
    }
    Ok(total)
}

fn fault(function: &str, argument: usize, what: &str) -> String {
    format!("bad argument #{argument} to '{function}' ({what})")
}

fn expected(what: &str, value: Option<&Data>, argument: usize) -> String {
    let found = value.map_or("nil", Data::type_name);
    fault("pack", argument.saturating_add(2), &format!("{what} expected, got {found}"))
}

fn number_of(value: Option<&Data>, argument: usize) -> Result<f64, String> {
    match value {
        Some(Data::Number(number)) => Some(*number),
        Some(Data::Text(text)) => number::from_text(text),
        _ => None,
    }
    .ok_or_else(|| expected("number", value, argument))
}

fn text_of(value: Option<&Data>, argument: usize) -> Result<std::borrow::Cow<'_, [u8]>, String> {
    match value {
        Some(Data::Text(text)) => Ok(text.into()),
        Some(Data::Number(number)) => Ok(number::to_text(*number).into_bytes().into()),
        _ => Err(expected("string", value, argument)),
    }
}

/// The bytes before the next byte 0.
fn terminated<'a>(text: &'a [u8], place: usize, budget: &mut Budget) -> Result<&'a [u8], String> {
    let rest = text.get(place..).unwrap_or_default();
    let length = rest.iter().position(|byte| *byte == 0);
    budget.spend(of_bytes(length.unwrap_or(rest.len())))?;
    length.and_then(|length| rest.get(..length)).ok_or_else(|| "unfinished string in data".to_owned())
}

/// As many bytes as the value in front of `c0` says.
fn sized<'a>(
    text: &'a [u8],
    place: usize,
    size: Option<Data>,
    budget: &mut Budget,
) -> Result<&'a [u8], String> {
    let size = match size {
        Some(Data::Number(number)) => Some(number),
        Some(Data::Text(text)) => {
            budget.spend(of_bytes(text.len()))?;
            number::from_text(&text)
        }
        _ => None,
    };
    let size = size.map(unsigned).ok_or_else(|| "format 'c0' needs a previous size".to_owned())?;
    usize::try_from(size).ok().and_then(|size| slice(text, place, size)).ok_or_else(too_short)
}

fn too_short() -> String {
    fault("unpack", 2, "data string too short")
}

fn slice(text: &[u8], place: usize, size: usize) -> Option<&[u8]> {
    text.get(place..place.checked_add(size)?)
}

/// So many bytes of a text, or all of it.
fn push_text(
    text: &[u8],
    argument: usize,
    part: &Part,
    out: &mut Vec<u8>,
    budget: &mut Budget,
) -> Result<(), String> {
    let length = if part.size == 0 { text.len() } else { part.size };
    let Some(bytes) = text.get(..length) else {
        return Err(fault("pack", argument.saturating_add(3), "string too short"));
    };
    budget.write(length.saturating_add(1))?;
    out.extend_from_slice(bytes);
    if part.option == b's' {
        out.push(0);
    }
    Ok(())
}

/// The low bytes of a value. Those beyond 8 are 0, whatever its sign.
fn push_integer(value: u64, part: &Part, out: &mut Vec<u8>) {
    let bytes = value.to_le_bytes();
    let byte = |place: usize| bytes.get(place).copied().unwrap_or_default();
    if part.is_little {
        out.extend((0..part.size).map(byte));
    } else {
        out.extend((0..part.size).rev().map(byte));
    }
}

/// The low 64 bits of what bytes say.
fn integer(bytes: &[u8], part: &Part) -> u64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if part.is_little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
}

/// A value of so many bytes with its sign in all 64 bits. The place of the sign turns round beyond 8 bytes.
fn extended(value: u64, size: usize) -> i64 {
    let sign = size.saturating_mul(8).wrapping_sub(1) & 63;
    let mask = u64::MAX << sign;
    (if value & mask == 0 { value } else { value | mask }).cast_signed()
}

/// As `as`, but what is no number keeps its sign on any machine.
fn narrow(number: f64) -> f32 {
    if number.is_nan() {
        f32::NAN.copysign(if number.is_sign_negative() { -1.0 } else { 1.0 })
    } else {
        number as f32
    }
}

/// As `From`, but what is no number keeps its sign on any machine.
fn widen(number: f32) -> f64 {
    if number.is_nan() {
        f64::NAN.copysign(if number.is_sign_negative() { -1.0 } else { 1.0 })
    } else {
        f64::from(number)
    }
}

#[cfg(test)]
mod tests;
