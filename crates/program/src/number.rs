//! Numbers as text, and text as numbers: what C's `printf` and `strtod` do, as Lua's `tostring` and `tonumber` show it.

mod reading;

pub(crate) use reading::{from_text, from_text_in_base, prefix};

/// Digits that `tostring` shows.
const DIGITS: usize = 14;

/// Integers below it have at most [`DIGITS`] digits.
const SHORT: f64 = 1e14;

/// The number as `tostring` shows it: `%.14g`.
pub(crate) fn to_text(number: f64) -> String {
    // Most numbers of scripts are integers. A negative zero is shown with its sign.
    if number.abs() < SHORT && number.trunc() == number && (number != 0.0 || number.is_sign_positive()) {
        return (number as i64).to_string();
    }
    general(number, DIGITS)
}

/// The number as C's `%.{digits}g` shows it.
pub(crate) fn general(number: f64, digits: usize) -> String {
    let mut text = if number.is_sign_negative() { "-".to_owned() } else { String::new() };
    match named(number) {
        Some(name) => text.push_str(name),
        None => text.push_str(&general_of(number.abs(), digits, false)),
    }
    text
}

/// The name of what is no finite number, without a sign.
pub(crate) fn named(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        Some("nan")
    } else if number.is_infinite() {
        Some("inf")
    } else {
        None
    }
}

/// `%e` of a finite number that is not negative, with so many digits behind the point.
pub(crate) fn scientific_of(number: f64, digits: usize) -> String {
    let (mantissa, exponent) = scientific_parts(number, digits);
    format!("{mantissa}{}", exponent_text(exponent))
}

/// `%g` of a finite number that is not negative. With `keeps_zeros` (the flag `#`), zeros at the end and the point stay.
pub(crate) fn general_of(number: f64, digits: usize, keeps_zeros: bool) -> String {
    let digits = digits.max(1);
    let (mantissa, exponent) = scientific_parts(number, digits.saturating_sub(1));
    let is_plain = exponent >= -4 && usize::try_from(exponent).map_or(true, |exponent| exponent < digits);
    let (shown, behind) = if is_plain {
        let places =
            i64::try_from(digits).unwrap_or(i64::MAX).saturating_sub(1).saturating_sub(exponent.into());
        (format!("{number:.*}", usize::try_from(places).unwrap_or_default()), String::new())
    } else {
        (mantissa, exponent_text(exponent))
    };
    let shown = match (keeps_zeros, shown.contains('.')) {
        (false, true) => shown.trim_end_matches('0').trim_end_matches('.').to_owned(),
        (true, false) => format!("{shown}."),
        _ => shown,
    };
    shown + &behind
}

fn scientific_parts(number: f64, digits: usize) -> (String, i32) {
    let text = format!("{number:.digits$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa.to_owned(), exponent.parse().unwrap_or_default()),
        None => (text, 0),
    }
}

/// C shows at least two digits of an exponent, and always its sign.
fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.unsigned_abs())
}

/// The number without its fraction in 64 bits. What is out of range, or no number, is the least one.
pub(crate) fn signed(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// The number without its fraction in 64 bits without sign. What is too large is 0. Negative numbers turn round, and what is too small,
/// or no number, is 2^63.
pub(crate) fn unsigned(number: f64) -> u64 {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if number >= LIMIT {
        0
    } else if number > 0.0 {
        number as u64
    } else {
        signed(number).cast_unsigned()
    }
}

#[cfg(test)]
mod tests;
