//! Text as numbers, as C's `strtod` and `strtoul` read it.

/// Bits of a hexadecimal mantissa that are kept; of the others, only whether one is set.
const KEPT: u32 = 60;

/// Bits that a mantissa of `f64` has, with the hidden one.
const MANTISSA: i64 = 53;

/// The exponent of the lowest bit that an `f64` can have.
const LOWEST: i64 = -1074;

/// `tonumber` of text: spaces around it count nothing, and a byte 0 ends it. It may be hexadecimal, with a fraction and a power of two,
/// and `inf` or `nan` in any case.
pub(crate) fn from_text(text: &[u8]) -> Option<f64> {
    let (number, rest) = prefix(before_zero(text))?;
    skip_spaces(rest).is_empty().then_some(number)
}

/// `tonumber` of text in a base from 2 to 36: an integer of 64 bits without sign, from which a minus turns round. What is larger is
/// 2^64 - 1. In base 10 it is [`from_text`], as in Lua.
pub(crate) fn from_text_in_base(text: &[u8], base: u32) -> Option<f64> {
    if base == 10 {
        return from_text(text);
    }
    let (is_negative, mut rest) = sign(skip_spaces(before_zero(text)));
    if let [b'0', b'x' | b'X', digit, ..] = rest
        && base == 16
        && digit.is_ascii_hexdigit()
    {
        rest = rest.get(2..).unwrap_or_default();
    }
    let (digits, rest) = split(rest, |byte| char::from(byte).is_digit(base.clamp(2, 36)));
    if digits.is_empty() || !skip_spaces(rest).is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, byte| {
        let digit = char::from(*byte).to_digit(base.clamp(2, 36)).unwrap_or_default();
        number.checked_mul(base.into())?.checked_add(digit.into())
    });
    Some(match number {
        Some(number) if is_negative => number.wrapping_neg() as f64,
        Some(number) => number as f64,
        None => u64::MAX as f64,
    })
}

/// The number in front of a text, as `strtod` takes it, and what follows. Spaces before it are skipped.
pub(crate) fn prefix(text: &[u8]) -> Option<(f64, &[u8])> {
    let (is_negative, text) = sign(skip_spaces(text));
    let (number, rest) = match text {
        [b'0', b'x' | b'X', hex @ ..] => hexadecimal(hex).or_else(|| Some((0.0, text.get(1..)?)))?,
        [b'0'..=b'9' | b'.', ..] => decimal(text)?,
        _ => word(text)?,
    };
    Some((if is_negative { -number } else { number }, rest))
}

fn before_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    split(text, |byte| matches!(byte, b'\t'..=b'\r' | b' ')).1
}

/// The bytes in front that are so, and the others.
fn split(text: &[u8], is: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !is(*byte)).unwrap_or(text.len()))
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// `inf`, `infinity`, `nan` and `nan(...)`.
fn word(text: &[u8]) -> Option<(f64, &[u8])> {
    if starts_with(text, b"infinity") {
        return Some((f64::INFINITY, text.get(8..)?));
    }
    if starts_with(text, b"inf") {
        return Some((f64::INFINITY, text.get(3..)?));
    }
    if !starts_with(text, b"nan") {
        return None;
    }
    let rest = text.get(3..)?;
    let payload = rest.strip_prefix(b"(").and_then(|inner| {
        split(inner, |byte| byte.is_ascii_alphanumeric() || byte == b'_').1.strip_prefix(b")")
    });
    Some((f64::NAN, payload.unwrap_or(rest)))
}

fn decimal(text: &[u8]) -> Option<(f64, &[u8])> {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let (whole, mut rest) = split(text, is_digit);
    let mut digits = whole.len();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let (fraction, behind) = split(fraction, is_digit);
        digits = digits.saturating_add(fraction.len());
        rest = behind;
    }
    if digits == 0 {
        return None;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let (exponent, behind) = split(sign(exponent).1, is_digit);
        if !exponent.is_empty() {
            rest = behind;
        }
    }
    let taken = text.get(..text.len().checked_sub(rest.len())?)?;
    Some((std::str::from_utf8(taken).ok()?.parse().ok()?, rest))
}

/// A hexadecimal mantissa without `0x`, and its power of two.
fn hexadecimal(text: &[u8]) -> Option<(f64, &[u8])> {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    let (whole, mut rest) = split(text, is_digit);
    let mut fraction: &[u8] = &[];
    if let Some(behind) = rest.strip_prefix(b".") {
        (fraction, rest) = split(behind, is_digit);
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut mantissa, mut exponent) = (0u64, 0i64);
    for (place, byte) in whole.iter().chain(fraction).enumerate() {
        let digit = u64::from(char::from(*byte).to_digit(16).unwrap_or_default());
        let is_behind_point = place >= whole.len();
        if mantissa >> (KEPT - 4) == 0 {
            mantissa = mantissa << 4 | digit;
            exponent = exponent.saturating_sub(if is_behind_point { 4 } else { 0 });
        } else {
            mantissa |= u64::from(digit != 0);
            exponent = exponent.saturating_add(if is_behind_point { 0 } else { 4 });
        }
    }
    if let [b'p' | b'P', power @ ..] = rest {
        let (is_negative, digits) = sign(power);
        let (digits, behind) = split(digits, |byte| byte.is_ascii_digit());
        if !digits.is_empty() {
            let power = digits.iter().fold(0i64, |power, byte| {
                power.saturating_mul(10).saturating_add(i64::from(byte.saturating_sub(b'0')))
            });
            exponent =
                if is_negative { exponent.saturating_sub(power) } else { exponent.saturating_add(power) };
            rest = behind;
        }
    }
    Some((scaled(mantissa, exponent), rest))
}

/// `mantissa` times two to the power of `exponent`, rounded once, to the nearest.
fn scaled(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let length = i64::from(u64::BITS - mantissa.leading_zeros());
    let top = exponent.saturating_add(length);
    if top > 1024 {
        return f64::INFINITY;
    }
    // So many low bits have no place in the result.
    let excess = length.saturating_sub(MANTISSA).max(LOWEST.saturating_sub(exponent)).max(0);
    if excess > length {
        return 0.0;
    }
    let whole = mantissa.checked_shr(excess as u32).unwrap_or_default();
    let rest = u128::from(mantissa).saturating_sub(u128::from(whole) << excess);
    let half = (1u128 << excess) >> 1;
    let goes_up = excess > 0 && (rest > half || rest == half && whole & 1 == 1);
    let rounded = whole.saturating_add(u64::from(goes_up)) as f64;
    // Both factors are powers of two, and neither product rounds: the first is no smaller than the result.
    let power = exponent.saturating_add(excess);
    let first = power.clamp(-1000, 900);
    rounded * power_of_two(first) * power_of_two(power.saturating_sub(first))
}

/// Two to a power within what an `f64` can be.
fn power_of_two(power: i64) -> f64 {
    f64::from_bits((power.clamp(-1022, 1023).saturating_add(1023) as u64) << 52)
}
