//! RESP3, and RESP2 where a connection asks for it: encodes commands, and decodes replies with `redis-protocol`. Payloads of
//! frames are borrowed from the read buffer, never copied.
//!
//! Before decoding, a [`Reader`] checks that what a server sent is complete and within the bounds. The library gets
//! nothing else, because it would follow a server wherever that leads.

use std::fmt;

use bytes::BytesMut;
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Reply};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2;
use redis_protocol::resp3::decode::complete::decode_range;
use redis_protocol::resp3::types::RangeFrame;

use crate::address::Address;
use crate::bounds::{Bound, Bounds, ERROR_BYTES_MAX};
use crate::error::ConnectError;

/// The form of replies, which a connection asks for when it logs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Of servers before 6.0, and of connections that never said `HELLO 3`.
    Resp2,
    /// With maps, doubles and pushes.
    #[default]
    Resp3,
}

impl Protocol {
    /// As `HELLO` names it.
    pub(crate) fn number(self) -> &'static str {
        match self {
            Protocol::Resp2 => "2",
            Protocol::Resp3 => "3",
        }
    }
}

/// An error that a server answered: `MOVED 3999 127.0.0.1:6381`. What a terminal would obey in it stands escaped, and
/// what is very long is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError(String);

impl ServerError {
    /// What a server said, without the sign in front.
    pub fn new(said: &[u8]) -> Self {
        ServerError(shown(said, ERROR_BYTES_MAX))
    }

    /// The first word: `MOVED`, `WRONGTYPE`, `ERR`.
    pub fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The words after the first.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').skip(1)
    }
}

/// Bytes of a server as text that may be shown: control characters are escaped, and what is longer than this is cut.
pub fn shown(said: &[u8], bytes_max: usize) -> String {
    let cut = &said[..said.len().min(bytes_max)];
    let mut text = String::with_capacity(cut.len());
    for character in String::from_utf8_lossy(cut).chars() {
        match character.is_control() && !is_planted(Bug::ControlsShown) {
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
pub enum Message<'a> {
    /// The reply to the first command that has none.
    Reply(Value<'a>),
    /// Something of its own accord.
    Push(Vec<Value<'a>>),
}

/// One whole thing that a server said, as it came: the bytes in front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    pub(crate) length: usize,
    pub(crate) is_push: bool,
}

/// A value, still in the buffer it was read into.
pub struct Value<'a> {
    input: &'a [u8],
    frame: RangeFrame,
}

/// Why what a server said cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is no RESP.
    Malformed(String),
    /// It is more than a bound allows.
    Over(Bound),
}

impl Unreadable {
    /// As the error of the connection to this node.
    pub fn at(self, node: &Address) -> ConnectError {
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
pub struct Reader {
    bounds: Bounds,
    protocol: Protocol,
    /// How many values are still to come, in each array that is not all there.
    open: Vec<usize>,
    /// Where the next value begins.
    at: usize,
    /// Up to here there is no end of its line.
    sought: usize,
    /// Values so far, where they are counted: not of what is passed on as it came, which costs what its bytes do.
    elements: usize,
    is_counted: bool,
    /// Pushes since the last reply that nobody asked for.
    pushes: usize,
}

impl Reader {
    /// Of RESP3.
    pub fn new(bounds: Bounds) -> Self {
        Reader::of(Protocol::Resp3, bounds)
    }

    /// Of a protocol, within these bounds.
    pub fn of(protocol: Protocol, bounds: Bounds) -> Self {
        let (open, is_counted) = (Vec::new(), true);
        Reader { bounds, protocol, open, at: 0, sought: 0, elements: 0, is_counted, pushes: 0 }
    }

    /// From now on these bounds hold.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The first thing in a buffer, and its length; `None` while it is not all there. Until it is, the buffer is the
    /// same, or longer.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Option<(Message<'a>, usize)>, Unreadable> {
        if let Some((frame, length)) =
            short(input, self.protocol).filter(|(_, length)| self.takes_short(*length))
        {
            self.pushes = 0;
            return Ok(Some((Message::Reply(Value { input, frame }), length)));
        }
        self.is_counted = true;
        let Some(length) = self.measure(input)? else { return Ok(None) };
        let decoded = decode(&input[..length], self.protocol);
        let Some((frame, read)) = decoded.map_err(|error| Unreadable::Malformed(error.to_string()))? else {
            return Err(malformed("its parts do not add up"));
        };
        if read != length {
            return Err(malformed("its parts do not add up"));
        }
        let said = match frame {
            RangeFrame::Push { data, .. } => {
                Message::Push(data.into_iter().map(|frame| Value { input, frame }).collect())
            }
            frame => {
                self.pushes = 0;
                Message::Reply(Value { input, frame })
            }
        };
        Ok(Some((said, length)))
    }

    /// The same, as it came: measured and within the bounds but that of values, and not decoded, so that what stands in its lines may be
    /// no number where one belongs.
    pub(crate) fn next_raw(&mut self, input: &[u8]) -> Result<Option<Measured>, Unreadable> {
        if let Some(length) = short_length(input, self.protocol).filter(|length| self.takes_short(*length)) {
            self.pushes = 0;
            return Ok(Some(Measured { length, is_push: false }));
        }
        self.is_counted = false;
        let Some(length) = self.measure(input)? else { return Ok(None) };
        // Nothing stands before a push.
        let is_push = input[0] == b'>';
        if !is_push {
            self.pushes = 0;
        }
        Ok(Some(Measured { length, is_push }))
    }

    /// Whether a short reply may be taken in one go: nothing was looked through yet, and no bound is below it.
    fn takes_short(&self, length: usize) -> bool {
        self.at == 0 && self.sought == 0 && length <= self.bounds.line.limit.min(self.bounds.bytes.limit)
    }

    /// A push came that nobody asked for.
    pub fn note_push(&mut self) -> Result<(), Unreadable> {
        self.pushes += 1;
        match self.pushes > self.bounds.pushes.limit && !is_planted(Bug::PushesUncounted) {
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
        if self.protocol == Protocol::Resp2 && !b"+-:$*".contains(sign) {
            return Err(nothing_begins_with(*sign));
        }
        let end = match sign {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => behind,
            b'$' | b'*' if self.protocol == Protocol::Resp2 && number == NONE => behind,
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
            other => return Err(nothing_begins_with(*other)),
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
        self.within(count.saturating_mul(VALUE_BYTES_MIN).saturating_add(values))?;
        self.at = values;
        // Attributes stand before a value, and are none.
        if sign != b'|' {
            self.pass();
        }
        if self.open.len() > self.bounds.depth.limit && !is_planted(Bug::DepthUnbounded) {
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
        match self.is_counted
            && self.elements > self.bounds.elements.limit
            && !is_planted(Bug::ElementsUnbounded)
        {
            true => Err(self.bounds.elements.into()),
            false => Ok(()),
        }
    }

    fn within(&self, bytes: usize) -> Result<(), Unreadable> {
        match bytes > self.bounds.bytes.limit && !is_planted(Bug::BytesUnbounded) {
            true => Err(self.bounds.bytes.into()),
            false => Ok(()),
        }
    }
}

/// The shortest value: `_` and the end of its line.
const VALUE_BYTES_MIN: usize = 3;

/// The longest line that [`short`] reads: as many digits as no number overflows with.
const SHORT_LINE_MAX: usize = 18;

/// What most replies are, a number or a text, read in one go if it is all there. Everything else is read at length.
fn short(input: &[u8], protocol: Protocol) -> Option<(RangeFrame, usize)> {
    let (sign, line, next) = short_line(input)?;
    match sign {
        b':' => Some((RangeFrame::Number { data: short_number(line)?, attributes: None }, next)),
        b'+' => Some((RangeFrame::SimpleString { data: (1, next - 2), attributes: None }, next)),
        b'_' if line.is_empty() && protocol == Protocol::Resp3 => Some((RangeFrame::Null, next)),
        b'$' => {
            let last = short_text_end(input, line, next)?;
            Some((RangeFrame::BlobString { data: (next, last), attributes: None }, last + 2))
        }
        _ => None,
    }
}

/// The length of such a reply.
fn short_length(input: &[u8], protocol: Protocol) -> Option<usize> {
    let (sign, line, next) = short_line(input)?;
    match sign {
        b':' | b'+' => Some(next),
        b'_' if protocol == Protocol::Resp3 => Some(next),
        b'$' if line == NONE && protocol == Protocol::Resp2 => Some(next),
        b'$' => short_text_end(input, line, next).map(|last| last + 2),
        _ => None,
    }
}

/// The line in front, if it is short and all there: its sign, what follows that, and where the next one begins.
fn short_line(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (sign, behind) = input.split_first()?;
    let end = behind.iter().take(SHORT_LINE_MAX + 1).position(|byte| *byte == b'\r')?;
    (behind.get(end + 1) == Some(&b'\n')).then(|| (*sign, &behind[..end], 1 + end + 2))
}

/// Where a text ends that begins there and is as long as its line says, if it is all there.
fn short_text_end(input: &[u8], line: &[u8], begin: usize) -> Option<usize> {
    let last = begin.checked_add(usize::try_from(short_number(line)?).ok()?)?;
    (input.get(last..last.checked_add(2)?)? == b"\r\n").then_some(last)
}

/// Digits alone, no more than fit.
fn short_number(digits: &[u8]) -> Option<i64> {
    let add = |number: i64, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'));
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add)).flatten()
}

/// The length, in RESP2, of what is not there.
const NONE: &[u8] = b"-1";

fn nothing_begins_with(sign: u8) -> Unreadable {
    Unreadable::Malformed(format!("nothing begins with '{}'", sign.escape_ascii()))
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

fn decode(input: &[u8], protocol: Protocol) -> Result<Option<(RangeFrame, usize)>, RedisProtocolError> {
    match protocol {
        Protocol::Resp3 => decode_range(input),
        Protocol::Resp2 => {
            let decoded = resp2::decode::decode_range(input)?;
            Ok(decoded.map(|(frame, length)| (of_resp2(frame), length)))
        }
    }
}

/// What RESP3 has for a value of RESP2.
fn of_resp2(frame: resp2::types::RangeFrame) -> RangeFrame {
    use resp2::types::RangeFrame as Resp2;
    let attributes = None;
    match frame {
        Resp2::SimpleString(data) => RangeFrame::SimpleString { data, attributes },
        Resp2::Error(data) => RangeFrame::SimpleError { data, attributes },
        Resp2::Integer(data) => RangeFrame::Number { data, attributes },
        Resp2::BulkString(data) => RangeFrame::BlobString { data, attributes },
        Resp2::Array(frames) => {
            RangeFrame::Array { data: frames.into_iter().map(of_resp2).collect(), attributes }
        }
        Resp2::Null => RangeFrame::Null,
    }
}

/// What servers say first where a command is to go elsewhere, or to come again later.
const REDIRECTIONS: [&str; 5] = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING"];

/// Whether an error of this code says so.
pub(crate) fn is_redirection(code: &str) -> bool {
    REDIRECTIONS.contains(&code)
}

/// The error in a reply as it came that says so. Any other reply is not looked into.
pub(crate) fn redirection_in(reply: &[u8]) -> Option<ServerError> {
    let said = reply.strip_prefix(b"-")?.strip_suffix(b"\r\n")?;
    let code = said.split(|byte| *byte == b' ').next()?;
    let is = REDIRECTIONS.iter().any(|known| known.as_bytes() == code);
    is.then(|| ServerError::new(said))
}

impl<'a> Value<'a> {
    /// The bytes of a string.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match &self.frame {
            RangeFrame::BlobString { data, .. } | RangeFrame::SimpleString { data, .. } => {
                Some(&self.input[data.0..data.1])
            }
            _ => None,
        }
    }

    /// As a [`Reply`]. Pairs lie flat, as everywhere in Claret; an error within an array is the answer.
    pub fn reply(&self) -> Result<Reply, ServerError> {
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
pub fn encode<W: AsRef<[u8]>>(out: &mut BytesMut, words: &[W]) {
    encode_words(out, words.len(), std::iter::empty(), words);
}

/// The same of `count` words that are kept in two places.
pub(crate) fn encode_words<'a, W: AsRef<[u8]>>(
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
mod tests;
