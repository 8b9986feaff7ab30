//! `bit`.

use crate::bits;
use crate::fault::Raise;
use crate::machine::{Machine, Replied};
use crate::value::Value;

use super::Arguments;

/// A function of `bit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bit {
    And,
    Or,
    Xor,
    Not,
    Swap,
    Wrap,
    ToHex,
    ShiftLeft,
    ShiftRight,
    ShiftSigned,
    RotateLeft,
    RotateRight,
}

pub(super) const FUNCTIONS: &[(&str, Bit)] = &[
    ("band", Bit::And),
    ("bor", Bit::Or),
    ("bxor", Bit::Xor),
    ("bnot", Bit::Not),
    ("bswap", Bit::Swap),
    ("tobit", Bit::Wrap),
    ("tohex", Bit::ToHex),
    ("lshift", Bit::ShiftLeft),
    ("rshift", Bit::ShiftRight),
    ("arshift", Bit::ShiftSigned),
    ("rol", Bit::RotateLeft),
    ("ror", Bit::RotateRight),
];

pub(super) fn reply(machine: &mut Machine, function: Bit, given: Arguments) -> Result<Replied, Raise> {
    let first = machine.number_given(given, 1)?;
    let number = match function {
        Bit::And | Bit::Or | Bit::Xor => {
            let numbers: Result<Vec<f64>, Raise> =
                (1..=given.count).map(|index| machine.number_given(given, index)).collect();
            let numbers = numbers?;
            match function {
                Bit::And => bits::band(&numbers),
                Bit::Or => bits::bor(&numbers),
                _ => bits::bxor(&numbers),
            }
        }
        Bit::Not => bits::bnot(first),
        Bit::Swap => bits::bswap(first),
        Bit::Wrap => bits::tobit(first),
        Bit::ToHex => {
            let digits =
                if machine.given(given, 2).is_nil() { 8.0 } else { machine.number_given(given, 2)? };
            return machine.text_result(bits::tohex(first, digits).as_bytes());
        }
        _ => {
            let by = machine.number_given(given, 2)?;
            match function {
                Bit::ShiftLeft => bits::lshift(first, by),
                Bit::ShiftRight => bits::rshift(first, by),
                Bit::ShiftSigned => bits::arshift(first, by),
                Bit::RotateLeft => bits::rol(first, by),
                _ => bits::ror(first, by),
            }
        }
    };
    machine.one_result(Value::Number(f64::from(number)))
}
