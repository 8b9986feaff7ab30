//! RESP3: encodes commands, and decodes replies with `redis-protocol`. Payloads of frames are borrowed from the read
//! buffer, never copied.
//!
//! Before decoding, a [`Reader`] checks that what a server sent is complete and within the bounds. The library gets
//! nothing else, because it would follow a server wherever that leads.

use std::fmt;

use bytes::BytesMut;
use claret_types::{Bytes, Reply};
use redis_protocol::resp3::decode::complete::decode_range;
use redis_protocol::resp3::types::RangeFrame;

use super::address::Address;
use super::bounds::{Bound, Bounds, ERROR_BYTES_MAX};
use super::error::ConnectError;
use super::planted;

/// An error that a server answered: `MOVED 3999 127.0.0.1:6381`. What a terminal would obey in it stands escaped, and
/// what is very long is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError(String);

impl ServerError {
    pub(super) fn new(said: &[u8]) -> Self {
        ServerError(shown(said, ERROR_BYTES_MAX))
    }

    /// The first word: `MOVED`, `WRONGTYPE`, `ERR`.
    pub fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The words after the first.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').skip(1)
    }
}

/// Bytes of a server as text that may be shown: control characters are escaped, and what is longer than this is cut.
pub(super) fn shown(said: &[u8], bytes_max: usize) -> String {
    let cut = &said[..said.len().min(bytes_max)];
    let mut text = String::with_capacity(cut.len());
    for character in String::from_utf8_lossy(cut).chars() {
        match planted::is_escaped(character.is_control()) {
            true => text.extend(character.escape_default()),
            false => text.push(character),
        }
    }
    if cut.len() < said.len() {
        text.push_str(&format!("... ({} bytes)", said.len()));
    }
    text
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

/// Why what a server said cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Malformed(String),
    Over(Bound),
}

impl Unreadable {
    /// As the error of the connection to this node.
    pub(super) fn at(self, node: &Address) -> ConnectError {
        let node = node.to_string();
        match self {
            Unreadable::Malformed(reason) => ConnectError::NotUnderstood { node, reason },
            Unreadable::Over(Bound { name, limit }) => ConnectError::OverBound { node, bound: name, limit },
        }
    }
}

impl From<Bound> for Unreadable {
    fn from(bound: Bound) -> Self {
        Unreadable::Over(bound)
    }
}

fn malformed(what: &str) -> Unreadable {
    Unreadable::Malformed(what.to_owned())
}

/// Takes what a server says one by one from the front of a buffer that grows behind. What comes in many pieces is looked
/// through once: the reader remembers how far it came in the first thing that is not all there.
#[derive(Debug)]
pub(super) struct Reader {
    bounds: Bounds,
    /// How many values are still to come, in each array that is not all there.
    open: Vec<usize>,
    /// Where the next value begins.
    at: usize,
    /// Up to here there is no end of its line.
    sought: usize,
    /// Values so far.
    elements: usize,
    /// Pushes since the last reply that nobody asked for.
    pushes: usize,
}

impl Reader {
    pub(super) fn new(bounds: Bounds) -> Self {
        Reader { bounds, open: Vec::new(), at: 0, sought: 0, elements: 0, pushes: 0 }
    }

    /// From now on these bounds hold.
    pub(super) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The first thing in a buffer, and its length; `None` while it is not all there. Until it is, the buffer is the
    /// same, or longer.
    pub(super) fn next<'a>(&mut self, input: &'a [u8]) -> Result<Option<(Said<'a>, usize)>, Unreadable> {
        if self.at == 0
            && self.sought == 0
            && let Some((frame, length)) = short(input)
            && length <= self.bounds.line.limit.min(self.bounds.bytes.limit)
        {
            self.pushes = 0;
            return Ok(Some((Said::Reply(Value { input, frame }), length)));
        }
        let Some(length) = self.measure(input)? else { return Ok(None) };
        let decoded = decode_range(&input[..length]);
        let Some((frame, read)) = decoded.map_err(|error| Unreadable::Malformed(error.to_string()))? else {
            return Err(malformed("its parts do not add up"));
        };
        if read != length {
            return Err(malformed("its parts do not add up"));
        }
        let said = match frame {
            RangeFrame::Push { data, .. } => {
                Said::Push(data.into_iter().map(|frame| Value { input, frame }).collect())
            }
            frame => {
                self.pushes = 0;
                Said::Reply(Value { input, frame })
            }
        };
        Ok(Some((said, length)))
    }

    /// A push came that nobody asked for.
    pub(super) fn note_push(&mut self) -> Result<(), Unreadable> {
        self.pushes += 1;
        match planted::are_too_many(self.pushes > self.bounds.pushes.limit) {
            true => Err(self.bounds.pushes.into()),
            false => Ok(()),
        }
    }

    /// The length of the first thing in the buffer.
    fn measure(&mut self, input: &[u8]) -> Result<Option<usize>, Unreadable> {
        if input.is_empty() {
            return Ok(None);
        }
        if self.at == 0 {
            self.open.clear();
            self.open.push(1);
            self.elements = 0;
        }
        loop {
            while self.open.last() == Some(&0) {
                self.open.pop();
            }
            if self.open.is_empty() {
                (self.sought, self.elements) = (0, 0);
                return Ok(Some(std::mem::take(&mut self.at)));
            }
            if !self.step(input)? {
                return Ok(None);
            }
        }
    }

    /// Looks at one value, or at the head of an array: whether it is there.
    fn step(&mut self, input: &[u8]) -> Result<bool, Unreadable> {
        let from = self.at.max(self.sought);
        let found = input[from..].windows(2).position(|two| two == b"\r\n");
        let line_end = found.map_or(input.len(), |found| from + found);
        if line_end - self.at > self.bounds.line.limit {
            return Err(self.bounds.line.into());
        }
        if found.is_none() {
            // The last byte may be the first half of the end.
            self.sought = line_end.saturating_sub(1);
            return self.within(line_end).map(|()| false);
        }
        let Some((sign, number)) = input[self.at..line_end].split_first() else {
            return Err(malformed("an empty line"));
        };
        let behind = line_end + 2;
        let end = match sign {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => behind,
            b'$' | b'!' | b'=' => {
                let end = behind.checked_add(length(number)?).and_then(|end| end.checked_add(2));
                let end = end.ok_or(self.bounds.bytes)?;
                self.within(end)?;
                match input.get(end - 2..end) {
                    None => return Ok(false),
                    Some(b"\r\n") => end,
                    Some(_) => return Err(malformed("a text that does not end where it says")),
                }
            }
            b'*' | b'~' | b'%' | b'>' | b'|' => {
                return self.enter(*sign, length(number)?, behind).map(|()| true);
            }
            other => {
                return Err(Unreadable::Malformed(format!("nothing begins with '{}'", other.escape_ascii())));
            }
        };
        self.within(end)?;
        self.count(1)?;
        self.at = end;
        self.pass();
        Ok(true)
    }

    /// An array begins, whose values begin here.
    fn enter(&mut self, sign: u8, count: usize, values: usize) -> Result<(), Unreadable> {
        self.within(values)?;
        if sign == b'>' && self.at > 0 {
            return Err(malformed("a push within something else"));
        }
        let count = match sign {
            b'%' | b'|' => count.checked_mul(2).ok_or(self.bounds.elements)?,
            _ => count,
        };
        self.count(1)?;
        self.count(count)?;
        // The values are counted when they come.
        self.elements -= count;
        self.at = values;
        // Attributes stand before a value, and are none.
        if sign != b'|' {
            self.pass();
        }
        if planted::is_too_deep(self.open.len() > self.bounds.depth.limit) {
            return Err(self.bounds.depth.into());
        }
        self.open.push(count);
        Ok(())
    }

    /// One value less is to come.
    fn pass(&mut self) {
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        }
    }

    fn count(&mut self, more: usize) -> Result<(), Unreadable> {
        self.elements = self.elements.saturating_add(more);
        match planted::has_too_many(self.elements > self.bounds.elements.limit) {
            true => Err(self.bounds.elements.into()),
            false => Ok(()),
        }
    }

    fn within(&self, bytes: usize) -> Result<(), Unreadable> {
        match planted::is_too_long(bytes > self.bounds.bytes.limit) {
            true => Err(self.bounds.bytes.into()),
            false => Ok(()),
        }
    }
}

/// The longest line that [`short`] reads: as many digits as no number overflows with.
const SHORT_LINE_MAX: usize = 18;

/// What most replies are, a number or a text, read in one go if it is all there. Everything else is read at length.
fn short(input: &[u8]) -> Option<(RangeFrame, usize)> {
    let (sign, behind) = input.split_first()?;
    let end = behind.iter().take(SHORT_LINE_MAX + 1).position(|byte| *byte == b'\r')?;
    if behind.get(end + 1) != Some(&b'\n') {
        return None;
    }
    let (line, next) = (&behind[..end], 1 + end + 2);
    match sign {
        b':' => Some((RangeFrame::Number { data: short_number(line)?, attributes: None }, next)),
        b'+' => Some((RangeFrame::SimpleString { data: (1, 1 + end), attributes: None }, next)),
        b'_' if line.is_empty() => Some((RangeFrame::Null, next)),
        b'$' => {
            let last = next.checked_add(usize::try_from(short_number(line)?).ok()?)?;
            let data = RangeFrame::BlobString { data: (next, last), attributes: None };
            (input.get(last..last.checked_add(2)?)? == b"\r\n").then_some((data, last + 2))
        }
        _ => None,
    }
}

/// Digits alone, no more than fit.
fn short_number(digits: &[u8]) -> Option<i64> {
    let add = |number: i64, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'));
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add)).flatten()
}

/// A length or a count. None has more digits than a number of 64 bits.
fn length(digits: &[u8]) -> Result<usize, Unreadable> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let malformed = || Unreadable::Malformed(format!("'{}' is no length", Bytes::copy_from(digits)));
    match text {
        // One that is too large is over every bound.
        Some(text) if !text.is_empty() => Ok(text.parse().unwrap_or(usize::MAX)),
        _ => Err(malformed()),
    }
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
            Err(ServerError::new(bytes(data)))
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
    encode_words(out, words.len(), std::iter::empty(), words);
}

/// The same of `count` words that are kept in two places.
pub(super) fn encode_words<'a, W: AsRef<[u8]>>(
    out: &mut BytesMut,
    count: usize,
    first: impl Iterator<Item = &'a [u8]>,
    further: &[W],
) {
    put_header(out, b'*', count);
    first.for_each(|word| put_word(out, word));
    further.iter().for_each(|word| put_word(out, word.as_ref()));
}

fn put_word(out: &mut BytesMut, word: &[u8]) {
    match word.len() <= SHORT_WORD_MAX {
        true => put_short_word(out, word),
        false => put_long_word(out, word),
    }
}

/// Words up to this length are put together with what stands around them, and appended in one piece.
const SHORT_WORD_MAX: usize = 40;

fn put_short_word(out: &mut BytesMut, word: &[u8]) {
    let mut text = [0; SHORT_WORD_MAX + 7];
    let (ten, one) = (b'0' + (word.len() / 10) as u8, b'0' + (word.len() % 10) as u8);
    let begin = match ten {
        b'0' => {
            text[..4].copy_from_slice(&[b'$', one, b'\r', b'\n']);
            4
        }
        _ => {
            text[..5].copy_from_slice(&[b'$', ten, one, b'\r', b'\n']);
            5
        }
    };
    let end = begin + word.len();
    text[begin..end].copy_from_slice(word);
    text[end..end + 2].copy_from_slice(b"\r\n");
    out.extend_from_slice(&text[..end + 2]);
}

fn put_long_word(out: &mut BytesMut, word: &[u8]) {
    out.reserve(word.len() + HEADER_BYTES_MAX + 2);
    put_header(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// A sign, a number and the end of the line take no more.
const HEADER_BYTES_MAX: usize = 24;

fn put_header(out: &mut BytesMut, sign: u8, number: usize) {
    match number {
        // Nearly all.
        0..10 => out.extend_from_slice(&[sign, b'0' + number as u8, b'\r', b'\n']),
        10..100 => {
            let (ten, one) = (b'0' + (number / 10) as u8, b'0' + (number % 10) as u8);
            out.extend_from_slice(&[sign, ten, one, b'\r', b'\n']);
        }
        _ => put_long_header(out, sign, number),
    }
}

fn put_long_header(out: &mut BytesMut, sign: u8, mut number: usize) {
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
    use super::super::bounds::ReplyLimits;
    use super::*;

    fn reader() -> Reader {
        Reader::new(ReplyLimits::default().of_work())
    }

    fn told(input: &[u8]) -> Result<Reply, ServerError> {
        match reader().next(input) {
            Ok(Some((Said::Reply(value), length))) => {
                assert_eq!(length, input.len());
                value.reply()
            }
            _ => panic!("no reply"),
        }
    }

    /// The bound that this is over.
    fn over(limits: ReplyLimits, input: &[u8]) -> &'static str {
        match Reader::new(limits.of_work()).next(input) {
            Err(Unreadable::Over(bound)) => bound.name,
            Err(other) => panic!("{other:?}"),
            Ok(read) => panic!("taken: {}", read.is_some()),
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
        assert_eq!(
            told(b"|1\r\n+ttl\r\n:9\r\n*1\r\n*0\r\n"),
            Ok(Reply::Array(vec![Reply::Array(Vec::new())]))
        );
        assert_eq!(told(b"=5\r\ntxt:x\r\n"), Ok(Reply::Bytes("x".into())));
        let error = told(b"*2\r\n:1\r\n-WRONGTYPE it is a list\r\n").unwrap_err();
        assert_eq!(error.code(), "WRONGTYPE");
    }

    /// In one go or at length, the same is read.
    #[test]
    fn short_replies_are_what_they_are_at_length() {
        for said in [
            ":0\r\n",
            ":007\r\n",
            ":999999999999999999\r\n",
            ":-1\r\n",
            ":9223372036854775807\r\n",
            "+OK\r\n",
            "+\r\n",
            "+a\rb\r\n",
            "_\r\n",
            "$0\r\n\r\n",
            "$3\r\na\r\n\r\n",
            "$12\r\nabcdefghijkl\r\n",
        ] {
            let input = said.as_bytes();
            let (frame, length) = decode_range(input).expect("well formed").expect("whole");
            assert_eq!(length, input.len());
            if let Some((quick, taken)) = short(input) {
                assert_eq!((quick, taken), (frame.clone(), length), "{said:?}");
            }
            assert_eq!(told(input), Value { input, frame }.reply(), "{said:?}");
            for end in 0..input.len() {
                assert!(matches!(reader().next(&input[..end]), Ok(None)), "{:?}", &said[..end]);
            }
        }
        for said in [":\r\n", ":1x\r\n", "_x\r\n", "$-1\r\n", "$3\r\nabcde\r\n", "-ERR x\r\n", "*0\r\n"] {
            assert!(short(said.as_bytes()).is_none(), "{said:?}");
        }
    }

    #[test]
    fn what_is_not_all_there_is_waited_for() {
        let whole = b">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nxy\r\n";
        let mut reader = reader();
        for end in 0..whole.len() {
            assert!(matches!(reader.next(&whole[..end]), Ok(None)), "{end}");
        }
        let Ok(Some((Said::Push(values), _))) = reader.next(whole) else { panic!("a push") };
        assert_eq!(values[2].bytes(), Some(&b"xy"[..]));
    }

    #[test]
    fn a_large_array_that_comes_byte_by_byte_is_looked_through_once() {
        const COUNT: usize = 20_000;
        let mut whole = format!("*{COUNT}\r\n").into_bytes();
        (0..COUNT).for_each(|_| whole.extend_from_slice(b"+x\r\n"));
        let mut reader = reader();
        let mut steps = 0;
        for end in 1..whole.len() {
            let before = reader.at;
            assert!(matches!(reader.next(&whole[..end]), Ok(None)));
            steps += reader.at - before;
            assert!(end - reader.at <= 8, "it stands where the array goes on");
        }
        assert!(steps < whole.len());
        assert!(matches!(reader.next(&whole), Ok(Some((Said::Reply(_), length))) if length == whole.len()));
    }

    #[test]
    fn nested_arrays_are_refused_before_they_cost_stack() {
        for levels in [33, 2_000, 1_000_000] {
            assert_eq!(over(ReplyLimits::default(), &b"*1\r\n".repeat(levels)), "reply_depth_max");
        }
        let attributes = b"|1\r\n+a\r\n*1\r\n".repeat(100);
        assert_eq!(over(ReplyLimits::default(), &attributes), "reply_depth_max");
        let mut deep = b"*1\r\n".repeat(32);
        deep.extend_from_slice(b":1\r\n");
        assert!(told(&deep).is_ok());
        let endless = ReplyLimits { reply_depth_max: usize::MAX, ..ReplyLimits::default() };
        assert_eq!(over(endless, &b"*1\r\n".repeat(1_000_000)), "reply_depth_max");
    }

    #[test]
    fn what_announces_too_much_is_refused_before_it_comes() {
        let limits = ReplyLimits::default();
        for (said, bound) in [
            ("$9000000000\r\n", "reply_bytes_max"),
            ("$18446744073709551610\r\nabc\r\n", "reply_bytes_max"),
            ("$99999999999999999999999999\r\n", "reply_bytes_max"),
            ("*1\r\n!1073741824\r\n", "reply_bytes_max"),
            ("*2147483647\r\n", "reply_elements_max"),
            ("*18446744073709551615\r\n", "reply_elements_max"),
            ("%4611686018427387904\r\n", "reply_elements_max"),
            ("%9223372036854775808\r\n", "reply_elements_max"),
            ("~4194304\r\n", "reply_elements_max"),
        ] {
            assert_eq!(over(limits, said.as_bytes()), bound, "{said}");
        }
        assert_eq!(over(limits, &[&b"+"[..], &[b'x'; 70_000]].concat()), "line_bytes_max");
        assert_eq!(over(limits, &b"|0\r\n".repeat(5_000_000)), "reply_elements_max");
        let small = ReplyLimits { reply_bytes_max: 100, ..limits };
        assert_eq!(over(small, &[&b"*100\r\n"[..], &b"+abc\r\n".repeat(20)].concat()), "reply_bytes_max");
    }

    #[test]
    fn what_is_no_resp_is_malformed() {
        for said in [
            "HTTP/1.1 400\r\n",
            "\r\n",
            "$-1\r\n",
            "*?\r\n",
            "$?\r\n",
            "*\r\n",
            "$+3\r\nabc\r\n",
            "*1\r\n>0\r\n",
            "$3\r\nabcde\r\n",
            ";1\r\nx\r\n",
            ".\r\n",
            ":x\r\n",
            "#q\r\n",
            "HELLO 3\r\n",
            "=1\r\nx\r\n",
        ] {
            let read = reader().next(said.as_bytes());
            assert!(matches!(read, Err(Unreadable::Malformed(_))), "{said:?}");
        }
    }

    #[test]
    fn pushes_that_nobody_asked_for_are_counted_from_reply_to_reply() {
        let limits = ReplyLimits { pushes_max: 2, ..ReplyLimits::default() };
        let mut reader = Reader::new(limits.of_work());
        assert!(reader.note_push().is_ok() && reader.note_push().is_ok());
        assert!(matches!(reader.next(b"+OK\r\n"), Ok(Some(_))));
        assert!(reader.note_push().is_ok() && reader.note_push().is_ok());
        assert_eq!(reader.note_push(), Err(Unreadable::Over(Bound { name: "pushes_max", limit: 2 })));
    }

    #[test]
    fn errors_of_servers_neither_command_a_terminal_nor_fill_it() {
        let error = told(b"-ERR \x1b[31m\x1b]0;owned\x07 \xc2\x9b2J evil\r\n").unwrap_err();
        assert_eq!(error.to_string(), "ERR \\u{1b}[31m\\u{1b}]0;owned\\u{7} \\u{9b}2J evil");
        let long = [&b"!1000000\r\n"[..], &[b'x'; 1_000_000], b"\r\n"].concat();
        assert!(told(&long).unwrap_err().to_string().len() < 1_100);
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

    #[test]
    fn words_of_all_lengths_are_written_alike() {
        for length in 0..300 {
            let (mut out, word) = (BytesMut::new(), "x".repeat(length));
            encode(&mut out, &[&word]);
            assert_eq!(out, format!("*1\r\n${length}\r\n{word}\r\n"));
        }
    }
}
