//! Strings as a script writes them.

use full_moon::tokenizer::{StringLiteralQuoteType, Token, TokenType};

use crate::text;

/// The bytes of a string literal.
///
/// # Errors
///
/// An escape that names no byte.
pub(crate) fn string(token: &Token) -> Result<Box<[u8]>, String> {
    let TokenType::StringLiteral { literal, quote_type, .. } = token.token_type() else {
        return Err("a string is expected".into());
    };
    let raw = text::bytes(literal.as_str());
    if *quote_type == StringLiteralQuoteType::Brackets {
        return Ok(long(&raw).into());
    }
    quoted(&raw).map(Into::into)
}

/// A line break of a text, in any of its forms, is one byte of the string.
fn line_break(raw: &[u8]) -> Option<usize> {
    match raw {
        [b'\r', b'\n', ..] | [b'\n', b'\r', ..] => Some(2),
        [b'\r' | b'\n', ..] => Some(1),
        _ => None,
    }
}

fn long(raw: &[u8]) -> Vec<u8> {
    let mut rest = raw.get(line_break(raw).unwrap_or_default()..).unwrap_or_default();
    let mut out = Vec::with_capacity(rest.len());
    while let [byte, behind @ ..] = rest {
        if let Some(length) = line_break(rest) {
            out.push(b'\n');
            rest = rest.get(length..).unwrap_or_default();
        } else {
            out.push(*byte);
            rest = behind;
        }
    }
    out
}

fn quoted(raw: &[u8]) -> Result<Vec<u8>, String> {
    let mut rest = raw;
    let mut out = Vec::with_capacity(rest.len());
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        if let Some(length) = line_break(rest) {
            out.push(b'\n');
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        let [escaped, behind @ ..] = rest else { break };
        if escaped.is_ascii_digit() {
            let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
            let code = rest.iter().take(digits).fold(0u32, |code, digit| code * 10 + u32::from(digit - b'0'));
            out.push(u8::try_from(code).map_err(|_| "escape sequence too large")?);
            rest = rest.get(digits..).unwrap_or_default();
            continue;
        }
        out.push(match escaped {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            other => *other,
        });
        rest = behind;
    }
    Ok(out)
}
