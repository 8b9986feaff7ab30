//! How answers are written in RESP2 and RESP3.

use bytes::BytesMut;
use claret_commands::Answer;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// What every connection begins with.
    #[default]
    Resp2,
    /// From `HELLO 3` on.
    Resp3,
}

/// How floats are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Floats {
    /// With the fewest digits that read back the same.
    Shortest,
    /// With 17 digits, as servers before 7.2 do: so that they are the same whether a node writes them or the gateway.
    Digits17,
}

/// How answers are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) protocol: Protocol,
    pub(crate) floats: Floats,
}

impl From<Protocol> for Form {
    fn from(protocol: Protocol) -> Self {
        Form { protocol, floats: Floats::Shortest }
    }
}

impl Floats {
    fn text(self, value: f64) -> String {
        match self {
            Floats::Shortest => float(value),
            Floats::Digits17 => digits_17(value),
        }
    }
}

/// Appends an answer. What RESP2 has no form for is written as servers write it there: a map as an array, a double as a string.
pub(crate) fn write(answer: &Answer, out: &mut BytesMut, form: impl Into<Form>) {
    let form @ Form { protocol, floats } = form.into();
    let is_new = protocol == Protocol::Resp3;
    let many = |out: &mut BytesMut, sign, count: usize, all: &[Answer]| {
        number_line(out, sign, count as i64);
        all.iter().for_each(|answer| write(answer, out, form));
    };
    match answer {
        Answer::Ok => out.extend_from_slice(b"+OK\r\n"),
        Answer::Simple(text) => line(out, b'+', text.as_bytes()),
        Answer::Status(text) => line(out, b'+', text.as_bytes()),
        Answer::Bool(value) if is_new => line(out, b'#', if *value { b"t" } else { b"f" }),
        Answer::Bool(true) => number_line(out, b':', 1),
        Answer::Bool(false) => out.extend_from_slice(b"$-1\r\n"),
        Answer::Int(number) => number_line(out, b':', *number),
        Answer::Bulk(bytes) => bulk(out, bytes),
        Answer::Nil | Answer::NilArray if is_new => out.extend_from_slice(b"_\r\n"),
        Answer::Nil => out.extend_from_slice(b"$-1\r\n"),
        Answer::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Answer::Array(all) => many(out, b'*', all.len(), all),
        Answer::Map(all) if is_new => many(out, b'%', all.len() / 2, all),
        Answer::Set(all) if is_new => many(out, b'~', all.len(), all),
        Answer::Pairs(all) if is_new => {
            number_line(out, b'*', all.len() as i64 / 2);
            all.chunks(2).for_each(|pair| many(out, b'*', pair.len(), pair));
        }
        Answer::Map(all) | Answer::Set(all) | Answer::Pairs(all) => many(out, b'*', all.len(), all),
        Answer::Double(value) if is_new => line(out, b',', floats.text(*value).as_bytes()),
        Answer::Double(value) | Answer::Score(value) => bulk(out, floats.text(*value).as_bytes()),
        Answer::Verbatim(text) if is_new => {
            number_line(out, b'=', text.len() as i64 + 4);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Answer::Verbatim(text) => bulk(out, text),
        Answer::Error(text) => {
            // A line: what would end it early is a space.
            let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            line(out, b'-', text.as_bytes());
        }
        Answer::Raw(bytes) => out.extend_from_slice(bytes),
    }
}

fn line(out: &mut BytesMut, sign: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.extend_from_slice(&[sign]);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// A line of a sign and a number.
pub(crate) fn number_line(out: &mut BytesMut, sign: u8, number: i64) {
    let mut text = [0; 24];
    let end = text.len() - 2;
    text[end..].copy_from_slice(b"\r\n");
    let (mut at, mut rest) = (end, number.unsigned_abs());
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    at -= 1;
    text[at] = sign;
    out.extend_from_slice(&text[at..]);
}

fn bulk(out: &mut BytesMut, bytes: &[u8]) {
    number_line(out, b'$', bytes.len() as i64);
    out.reserve(bytes.len() + 2);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Whole numbers up to here are written as integers: 2^52.
const WHOLE_MAX: f64 = 4_503_599_627_370_496.0;

/// A float as servers write scores (their `d2string`): with the fewest digits that read back the same, and with an exponent where
/// it would be long.
fn float(value: f64) -> String {
    match value {
        _ if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.to_owned(),
        _ if value.is_nan() => "nan".to_owned(),
        _ if value == 0.0 => if value.is_sign_negative() { "-0" } else { "0" }.to_owned(),
        _ if value.fract() == 0.0 && value.abs() <= WHOLE_MAX => format!("{}", value as i64),
        _ => {
            let text = format!("{value:e}");
            let (digits, exponent) = text.split_once('e').expect("it was asked for");
            let exponent: i32 = exponent.parse().expect("a number");
            let count = digits.bytes().filter(u8::is_ascii_digit).count() as i32;
            // How many zeros follow the digits, or, below zero, how many of them are behind the point.
            let zeros = exponent - (count - 1);
            let is_plain =
                zeros >= 0 && exponent < count + 7 || zeros < 0 && (zeros > -7 || exponent.abs() < 4);
            let sign = if exponent < 0 { '-' } else { '+' };
            if is_plain { format!("{value}") } else { format!("{digits}e{sign}{}", exponent.abs()) }
        }
    }
}

/// A float as `%.17g` of C writes it.
fn digits_17(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return float(value);
    }
    let text = format!("{value:.16e}");
    let (digits, exponent) = text.split_once('e').expect("it was asked for");
    let exponent: i32 = exponent.parse().expect("a number");
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..17).contains(&exponent) {
        return without_zeros(&format!("{value:.*}", (16 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(answer: &Answer, protocol: Protocol) -> String {
        let mut out = BytesMut::new();
        write(answer, &mut out, protocol);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn each_protocol_has_its_form() {
        let cases = [
            (Answer::Nil, "$-1\r\n", "_\r\n"),
            (Answer::NilArray, "*-1\r\n", "_\r\n"),
            (
                Answer::Map(vec![Answer::Int(1), Answer::text("b")]),
                "*2\r\n:1\r\n$1\r\nb\r\n",
                "%1\r\n:1\r\n$1\r\nb\r\n",
            ),
            (Answer::Set(vec![Answer::Int(-7)]), "*1\r\n:-7\r\n", "~1\r\n:-7\r\n"),
            (
                Answer::Pairs(vec![Answer::text("a"), Answer::Int(1)]),
                "*2\r\n$1\r\na\r\n:1\r\n",
                "*1\r\n*2\r\n$1\r\na\r\n:1\r\n",
            ),
            (Answer::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (Answer::Verbatim("hi".into()), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (Answer::error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Answer::Int(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        ];
        for (answer, old, new) in cases {
            assert_eq!(written(&answer, Protocol::Resp2), old);
            assert_eq!(written(&answer, Protocol::Resp3), new);
        }
    }

    /// Before 7.2 a server answers 0.10000000000000001, and the gateway answered 0.1 to the same command in a MULTI.
    #[test]
    fn floats_are_written_as_older_servers_do() {
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.1e20, "1.1e+20"),
            (0.00012, "0.00012"),
            (1e-5, "1.0000000000000001e-05"),
            (1.5e300, "1.5000000000000001e+300"),
            (f64::NEG_INFINITY, "-inf"),
            (0.0, "0"),
        ] {
            assert_eq!(digits_17(value), text);
        }
        let answer = Answer::Array(vec![
            Answer::Pairs(vec![Answer::text("a"), Answer::Double(0.1)]),
            Answer::Score(0.1),
        ]);
        let written = |answer: &Answer, protocol| {
            let mut out = BytesMut::new();
            write(answer, &mut out, Form { protocol, floats: Floats::Digits17 });
            String::from_utf8(out.to_vec()).unwrap()
        };
        let tail = "$19\r\n0.10000000000000001\r\n";
        assert_eq!(written(&answer, Protocol::Resp2), format!("*2\r\n*2\r\n$1\r\na\r\n{tail}{tail}"));
        let new = format!("*2\r\n*1\r\n*2\r\n$1\r\na\r\n,0.10000000000000001\r\n{tail}");
        assert_eq!(written(&answer, Protocol::Resp3), new);
    }

    #[test]
    fn floats_are_written_as_servers_do() {
        let cases = [
            (3.0, "3"),
            (-0.5, "-0.5"),
            (0.1, "0.1"),
            (1e15, "1000000000000000"),
            (1e20, "1e+20"),
            (1e16, "1e+16"),
            (123456789012345680.0, "123456789012345680"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (1e-7, "1e-7"),
            (0.00012, "0.00012"),
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5e300, "1.5e+300"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }
}
