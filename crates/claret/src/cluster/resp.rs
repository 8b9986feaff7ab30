//! RESP3: commands to bytes, and bytes to replies by `redis-protocol`. Payloads of frames are lent from the buffer
//! they were read into, never copied.

use std::fmt;

use bytes::BytesMut;
use claret_types::{Bytes, Reply};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp3::decode::complete::decode_range;
use redis_protocol::resp3::types::RangeFrame;

/// An error that a server answered, as it stands: `MOVED 3999 127.0.0.1:6381`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError(pub String);

impl ServerError {
    /// The first word: `MOVED`, `WRONGTYPE`, `ERR`.
    pub fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The words after the first.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').skip(1)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerError {}

/// One thing that a server said.
pub(super) enum Said<'a> {
    /// The reply to the first command that has none.
    Reply(Value<'a>),
    /// Something of its own accord.
    Push(Vec<Value<'a>>),
}

/// A value, still in the buffer it was read into.
pub(super) struct Value<'a> {
    input: &'a [u8],
    frame: RangeFrame,
}

/// The first thing in a buffer, and its length; `None` while it is not all there.
pub(super) fn decode(input: &[u8]) -> Result<Option<(Said<'_>, usize)>, RedisProtocolError> {
    let Some((frame, length)) = decode_range(input)? else { return Ok(None) };
    let said = match frame {
        RangeFrame::Push { data, .. } => {
            Said::Push(data.into_iter().map(|frame| Value { input, frame }).collect())
        }
        frame => Said::Reply(Value { input, frame }),
    };
    Ok(Some((said, length)))
}

impl<'a> Value<'a> {
    /// The bytes of a string.
    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        match &self.frame {
            RangeFrame::BlobString { data, .. } | RangeFrame::SimpleString { data, .. } => {
                Some(&self.input[data.0..data.1])
            }
            _ => None,
        }
    }

    /// As a [`Reply`]. Pairs lie flat, as everywhere in Claret; an error within an array is the answer.
    pub(super) fn reply(&self) -> Result<Reply, ServerError> {
        reply(self.input, &self.frame)
    }
}

fn reply(input: &[u8], frame: &RangeFrame) -> Result<Reply, ServerError> {
    let bytes = |(from, to): &(usize, usize)| &input[*from..*to];
    let all = |frames: &mut dyn Iterator<Item = &RangeFrame>| {
        frames.map(|frame| reply(input, frame)).collect::<Result<_, _>>().map(Reply::Array)
    };
    match frame {
        RangeFrame::SimpleString { data, .. } if bytes(data) == b"OK" => Ok(Reply::Ok),
        RangeFrame::BlobString { data, .. }
        | RangeFrame::SimpleString { data, .. }
        | RangeFrame::BigNumber { data, .. }
        | RangeFrame::VerbatimString { data, .. }
        | RangeFrame::ChunkedString(data) => Ok(Reply::Bytes(Bytes::copy_from(bytes(data)))),
        RangeFrame::BlobError { data, .. } | RangeFrame::SimpleError { data, .. } => {
            Err(ServerError(String::from_utf8_lossy(bytes(data)).into_owned()))
        }
        RangeFrame::Boolean { data, .. } => Ok(Reply::bool(*data)),
        RangeFrame::Null | RangeFrame::Hello { .. } => Ok(Reply::Nil),
        RangeFrame::Number { data, .. } => Ok(Reply::Int(*data)),
        RangeFrame::Double { data, .. } => Ok(Reply::Float(*data)),
        RangeFrame::Array { data, .. } | RangeFrame::Push { data, .. } => all(&mut data.iter()),
        RangeFrame::Set { data, .. } => all(&mut data.iter()),
        RangeFrame::Map { data, .. } => all(&mut data.iter().flat_map(|(key, value)| [key, value])),
    }
}

/// Appends a command: an array of strings.
pub(super) fn encode<W: AsRef<[u8]>>(out: &mut BytesMut, words: &[W]) {
    put_header(out, b'*', words.len());
    for word in words.iter().map(AsRef::as_ref) {
        put_header(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A sign, a number and the end of the line take no more.
const HEADER_BYTES_MAX: usize = 24;

fn put_header(out: &mut BytesMut, sign: u8, mut number: usize) {
    let mut header = [0; HEADER_BYTES_MAX];
    let mut at = HEADER_BYTES_MAX - 2;
    header[at..].copy_from_slice(b"\r\n");
    loop {
        at -= 1;
        header[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    at -= 1;
    header[at] = sign;
    out.extend_from_slice(&header[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(input: &[u8]) -> Result<Reply, ServerError> {
        match decode(input) {
            Ok(Some((Said::Reply(value), length))) => {
                assert_eq!(length, input.len());
                value.reply()
            }
            _ => panic!("no reply"),
        }
    }

    #[test]
    fn replies_are_what_claret_answers() {
        assert_eq!(told(b"+OK\r\n"), Ok(Reply::Ok));
        assert_eq!(told(b"_\r\n"), Ok(Reply::Nil));
        assert_eq!(
            told(b"%1\r\n+a\r\n,1.5\r\n"),
            Ok(Reply::Array(vec![Reply::Bytes("a".into()), Reply::Float(1.5)]))
        );
        let error = told(b"*2\r\n:1\r\n-WRONGTYPE it is a list\r\n").unwrap_err();
        assert_eq!(error.code(), "WRONGTYPE");
    }

    #[test]
    fn what_is_not_all_there_is_waited_for() {
        let whole = b">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nxy\r\n";
        for end in 0..whole.len() {
            assert!(matches!(decode(&whole[..end]), Ok(None)), "{end}");
        }
        let Ok(Some((Said::Push(values), _))) = decode(whole) else { panic!("a push") };
        assert_eq!(values[2].bytes(), Some(&b"xy"[..]));
    }

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut out = BytesMut::new();
        encode(&mut out, &["GET", "k"]);
        assert_eq!(&out[..], b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        let mut out = BytesMut::new();
        encode(&mut out, &[&[][..], &[b'x'; 1203]]);
        assert!(out.starts_with(b"*2\r\n$0\r\n\r\n$1203\r\nxx"));
        assert_eq!(out.len(), 4 + 4 + 2 + 7 + 1203 + 2);
    }
}
