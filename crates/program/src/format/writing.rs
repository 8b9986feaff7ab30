//! One argument of a format, written.

use super::Spec;
use crate::number::{general_of, named, scientific_of, signed, unsigned};

/// Texts of this length or more are written whole unless a precision shortens them.
const LONG: usize = 100;

/// Digits behind the point if no precision is given.
const DIGITS: usize = 6;

/// `%c`: the byte of the number's low 8 bits. A byte 0 ends what is written, and so it is left out.
pub(crate) fn write_char(spec: &Spec, number: f64, out: &mut Vec<u8>) {
    let whole = number.trunc();
    let byte = if (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&whole) {
        (whole as i32 & 0xff) as u8
    } else {
        0
    };
    let fill = spec.width.saturating_sub(1);
    if !spec.is_left {
        push_many(b' ', fill, out);
    }
    if byte == 0 {
        return;
    }
    out.push(byte);
    if spec.is_left {
        push_many(b' ', fill, out);
    }
}

/// `%d` and its like: the number without its fraction, as 64 bits. Out of range, it is what a processor of the family x86 makes of it.
pub(crate) fn write_integer(spec: &Spec, number: f64, out: &mut Vec<u8>) {
    let is_signed = matches!(spec.conversion, b'd' | b'i');
    let (is_negative, value) = if is_signed {
        let value = signed(number);
        (value < 0, value.unsigned_abs())
    } else {
        (false, unsigned(number))
    };
    let mut digits = match spec.conversion {
        b'o' => format!("{value:o}"),
        b'x' => format!("{value:x}"),
        b'X' => format!("{value:X}"),
        _ => value.to_string(),
    };
    if value == 0 && spec.precision == Some(0) {
        digits.clear();
    }
    let lacking = spec.precision.unwrap_or_default().saturating_sub(digits.len());
    digits.insert_str(0, &"0".repeat(lacking));
    let mut front = if is_signed { sign(spec, is_negative) } else { "" };
    match spec.conversion {
        b'o' if spec.is_alternate && !digits.starts_with('0') => front = "0",
        b'x' if spec.is_alternate && value != 0 => front = "0x",
        b'X' if spec.is_alternate && value != 0 => front = "0X",
        _ => {}
    }
    write_filled(spec, front, &digits, spec.precision.is_none(), out);
}

/// `%e`, `%f`, `%g` and their upper case.
pub(crate) fn write_float(spec: &Spec, number: f64, out: &mut Vec<u8>) {
    let front = sign(spec, number.is_sign_negative());
    let precision = spec.precision.unwrap_or(DIGITS);
    let value = number.abs();
    let name = named(value);
    let mut digits = match (name, spec.conversion.to_ascii_lowercase()) {
        (Some(name), _) => name.to_owned(),
        (None, b'e') => pointed(scientific_of(value, precision), spec, precision),
        (None, b'f') => pointed(format!("{value:.precision$}"), spec, precision),
        (None, _) => general_of(value, precision, spec.is_alternate),
    };
    if spec.conversion.is_ascii_uppercase() {
        digits.make_ascii_uppercase();
    }
    write_filled(spec, front, &digits, name.is_none(), out);
}

/// `%s`.
pub(crate) fn write_text(spec: &Spec, text: &[u8], out: &mut Vec<u8>) {
    if spec.precision.is_none() && text.len() >= LONG {
        return out.extend_from_slice(text);
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = text.get(..spec.precision.unwrap_or(text.len())).unwrap_or(text);
    let fill = spec.width.saturating_sub(text.len());
    if !spec.is_left {
        push_many(b' ', fill, out);
    }
    out.extend_from_slice(text);
    if spec.is_left {
        push_many(b' ', fill, out);
    }
}

/// `%q`. At most four times as long as the text, with two bytes more.
pub(crate) fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' | b'\n' => out.extend_from_slice(&[b'\\', *byte]),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\000"),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// With `#`, a point stays that has no digits behind it.
fn pointed(mut digits: String, spec: &Spec, precision: usize) -> String {
    if spec.is_alternate && precision == 0 {
        digits.insert(digits.find('e').unwrap_or(digits.len()), '.');
    }
    digits
}

fn sign(spec: &Spec, is_negative: bool) -> &'static str {
    match spec {
        _ if is_negative => "-",
        Spec { has_plus: true, .. } => "+",
        Spec { has_space: true, .. } => " ",
        _ => "",
    }
}

fn write_filled(spec: &Spec, front: &str, digits: &str, may_have_zeros: bool, out: &mut Vec<u8>) {
    let fill = spec.width.saturating_sub(front.len()).saturating_sub(digits.len());
    let has_zeros = spec.has_zeros && may_have_zeros && !spec.is_left;
    if !has_zeros && !spec.is_left {
        push_many(b' ', fill, out);
    }
    out.extend_from_slice(front.as_bytes());
    if has_zeros {
        push_many(b'0', fill, out);
    }
    out.extend_from_slice(digits.as_bytes());
    if spec.is_left {
        push_many(b' ', fill, out);
    }
}

fn push_many(byte: u8, count: usize, out: &mut Vec<u8>) {
    out.resize(out.len().saturating_add(count), byte);
}
