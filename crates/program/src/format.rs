//! `string.format` of Lua 5.1: what a format says, and how each of its parts is written.
//!
//! Parts are written as C's `printf` writes them on a machine of 64 bits. A byte 0 in a text ends it, as there.

mod writing;

pub(crate) use writing::{write_char, write_float, write_integer, write_quoted, write_text};

/// Flags that a part may have in front of its width; they may be given more than once.
const FLAGS_MAX: usize = 5;

/// How one argument is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    /// `-`: at the left of its width.
    pub is_left: bool,
    /// `+`: a sign in front of what is not negative, too.
    pub has_plus: bool,
    /// A space: one in front of what is not negative.
    pub has_space: bool,
    /// `#`: with `0x` or `0` in front, or a point behind.
    pub is_alternate: bool,
    /// `0`: zeros fill the width.
    pub has_zeros: bool,
    /// The least length, at most 99.
    pub width: usize,
    /// Digits, or bytes of a text; at most 99.
    pub precision: Option<usize>,
    /// The letter.
    pub conversion: u8,
}

/// A part of a format. All but the first take the next argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Directive {
    /// These bytes.
    Literal(Vec<u8>),
    /// `%c`: a byte, by its number.
    Char(Spec),
    /// `%d`, `%i`, `%o`, `%u`, `%x`, `%X`.
    Integer(Spec),
    /// `%e`, `%E`, `%f`, `%g`, `%G`.
    Float(Spec),
    /// `%q`: a text as Lua would read it again.
    Quoted,
    /// `%s`.
    Text(Spec),
}

/// The parts of a format. They take up to `size_of::<Directive>()` bytes for each byte of the format: [`next_directive`] takes them one by
/// one.
///
/// # Errors
/// As of [`next_directive`].
#[cfg(test)]
pub(crate) fn parse(format: &[u8]) -> Result<Vec<Directive>, String> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some((directive, behind)) = next_directive(rest)? {
        parts.push(directive);
        rest = behind;
    }
    Ok(parts)
}

/// The first part of a format, and the rest of it; `None` if it is empty. So what a script prints before a wrong part can be looked at
/// first, as Lua does. A literal is copied, and nothing else.
///
/// # Errors
/// What follows a `%` is no conversion, or has too many flags or digits; in Lua's words.
pub(crate) fn next_directive(format: &[u8]) -> Result<Option<(Directive, &[u8])>, String> {
    let mut literal = Vec::new();
    let mut rest = format;
    loop {
        let plain = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
        let (before, behind) = rest.split_at(plain);
        literal.extend_from_slice(before);
        rest = match behind {
            [b'%', b'%', behind @ ..] => {
                literal.push(b'%');
                behind
            }
            [b'%', behind @ ..] if literal.is_empty() => return directive(behind).map(Some),
            [] if literal.is_empty() => return Ok(None),
            _ => return Ok(Some((Directive::Literal(literal), behind))),
        };
    }
}

/// What follows a `%`.
fn directive(format: &[u8]) -> Result<(Directive, &[u8]), String> {
    let mut spec = Spec::default();
    let flags = format.iter().take_while(|byte| b"-+ #0".contains(byte)).count();
    if flags > FLAGS_MAX {
        return Err("invalid format (repeated flags)".to_owned());
    }
    let (flags, mut rest) = format.split_at(flags);
    for flag in flags {
        match flag {
            b'-' => spec.is_left = true,
            b'+' => spec.has_plus = true,
            b' ' => spec.has_space = true,
            b'#' => spec.is_alternate = true,
            _ => spec.has_zeros = true,
        }
    }
    (spec.width, rest) = number(rest);
    if let Some(behind) = rest.strip_prefix(b".") {
        let (precision, behind) = number(behind);
        spec.precision = Some(precision);
        rest = behind;
    }
    let (letter, rest) = rest.split_first().unwrap_or((&0, &[]));
    spec.conversion = *letter;
    let directive = match letter {
        b'0'..=b'9' => return Err("invalid format (width or precision too long)".to_owned()),
        b'c' => Directive::Char(spec),
        b'd' | b'i' | b'o' | b'u' | b'x' | b'X' => Directive::Integer(spec),
        b'e' | b'E' | b'f' | b'g' | b'G' => Directive::Float(spec),
        b'q' => Directive::Quoted,
        b's' => Directive::Text(spec),
        0 => return Err("invalid option '%' to 'format'".to_owned()),
        _ => return Err(format!("invalid option '%{}' to 'format'", char::from(*letter))),
    };
    Ok((directive, rest))
}

/// At most two digits.
fn number(text: &[u8]) -> (usize, &[u8]) {
    let digits = text.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let value = digits.iter().fold(0usize, |value, digit| {
        value.saturating_mul(10).saturating_add(usize::from(digit.saturating_sub(b'0')))
    });
    (value, rest)
}

#[cfg(test)]
mod tests;
