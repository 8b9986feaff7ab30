//! What one byte is compared with: itself, any, a class as `%a`, or a set as `[%a_0-9]`.

use super::{PatternError, malformed};

/// Where the byte, class or set at `start` ends.
///
/// # Errors
/// It does not.
pub(super) fn class_end(pattern: &[u8], start: usize) -> Result<usize, PatternError> {
    let byte = |place: usize| pattern.get(place).copied().unwrap_or_default();
    let next = start.saturating_add(1);
    match byte(start) {
        b'%' if byte(next) == 0 => malformed("malformed pattern (ends with '%')"),
        b'%' => Ok(next.saturating_add(1)),
        b'[' => {
            let mut place = if byte(next) == b'^' { next.saturating_add(1) } else { next };
            // The first byte belongs to the set even if it is `]`.
            loop {
                let first = byte(place);
                if first == 0 {
                    return malformed("malformed pattern (missing ']')");
                }
                place = place.saturating_add(1);
                if first == b'%' && byte(place) != 0 {
                    place = place.saturating_add(1);
                }
                if byte(place) == b']' {
                    return Ok(place.saturating_add(1));
                }
            }
        }
        _ => Ok(next),
    }
}

/// Whether `item`, as far as [`class_end`], takes the byte.
pub(super) fn is_single(byte: u8, item: &[u8]) -> bool {
    match item {
        [b'.'] => true,
        [b'%', class] => is_of_class(byte, *class),
        [b'[', b'^', set @ .., b']'] => !is_in_set(byte, set),
        [b'[', set @ .., b']'] => is_in_set(byte, set),
        [own] => *own == byte,
        _ => false,
    }
}

fn is_in_set(byte: u8, mut set: &[u8]) -> bool {
    loop {
        set = match set {
            [] => return false,
            [b'%', class, rest @ ..] => {
                if is_of_class(byte, *class) {
                    return true;
                }
                rest
            }
            [from, b'-', to, rest @ ..] => {
                if (*from..=*to).contains(&byte) {
                    return true;
                }
                rest
            }
            [own, rest @ ..] => {
                if *own == byte {
                    return true;
                }
                rest
            }
        };
    }
}

/// Letters are classes, and others of the class are upper case. What is no class is itself.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b'\t'..=b'\r' | b' '),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}
