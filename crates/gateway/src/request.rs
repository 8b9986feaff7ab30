//! Requests as clients send them: arrays of strings, or lines. Whoever is at the other end may be hostile: what one request may cost
//! is bounded before any of it is kept, and a request that comes in many pieces is looked through once.

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;

use crate::limits::RequestLimits;
use crate::resp::number_line;

/// A command and its words.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// As it is sent to a node: an array of strings.
    pub(crate) raw: Bytes,
    /// The name, then the arguments. Never empty.
    pub(crate) words: Vec<Bytes>,
}

/// What is around a short word in an array.
const HEAD_BYTES: usize = 12;

/// Room for words that is kept between requests.
const WORDS_KEPT_MAX: usize = 64;

/// Why the connection cannot go on: what the client is told, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) String);

fn wrong<T>(what: &str) -> Result<T, ProtocolError> {
    Err(ProtocolError(format!("ERR Protocol error: {what}")))
}

/// Takes requests from the front of a buffer that grows behind.
#[derive(Debug, Default)]
pub(crate) struct RequestReader {
    /// Where the next string begins, in an array that is not all there.
    at: usize,
    /// How many strings are still to come; `None` between requests.
    left: Option<usize>,
    /// Where those that are there lie.
    words: Vec<(usize, usize)>,
    /// Up to here there is no end of the line.
    sought: usize,
}

impl RequestReader {
    /// The first request in the buffer, taken out of it; `None` while it is not all there. Until it is, the buffer is the same, or
    /// longer.
    ///
    /// # Errors
    /// It is none, or is over a bound. The connection cannot go on.
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        limits: &RequestLimits,
    ) -> Result<Option<Request>, ProtocolError> {
        loop {
            match input.first() {
                None => return Ok(None),
                Some(b'*') => match self.array(input, limits)? {
                    Some(false) => {}
                    Some(true) => return Ok(Some(self.take(input))),
                    None => return Ok(None),
                },
                Some(_) => match self.inline(input, limits)? {
                    Some(request) if request.words.is_empty() => {}
                    request => return Ok(request),
                },
            }
        }
    }

    /// Reads an array on: whether it holds a request, once it is all there. An empty one is none, and is skipped.
    fn array(&mut self, input: &mut BytesMut, limits: &RequestLimits) -> Result<Option<bool>, ProtocolError> {
        let left = match self.left {
            Some(left) => left,
            None => {
                let Some((line, behind)) = self.line(input, limits)? else { return Ok(None) };
                let Some(count) = number(line).filter(|count| *count <= limits.words_max as i64) else {
                    return wrong("invalid multibulk length");
                };
                if count <= 0 {
                    input.advance(behind);
                    (self.at, self.sought) = (0, 0);
                    return Ok(Some(false));
                }
                (self.at, self.sought) = (behind, 0);
                self.left = Some(count as usize);
                count as usize
            }
        };
        for still in (1..=left).rev() {
            self.left = Some(still);
            if !self.string(input, limits)? {
                return Ok(None);
            }
        }
        self.left = Some(0);
        Ok(Some(true))
    }

    /// Reads a string: whether it is all there.
    fn string(&mut self, input: &BytesMut, limits: &RequestLimits) -> Result<bool, ProtocolError> {
        let Some((line, behind)) = self.line(input, limits)? else { return Ok(false) };
        match input[self.at] {
            b'$' => {}
            other => {
                return wrong(&format!("expected '$', got '{}'", other.escape_ascii()));
            }
        }
        let length = number(line).filter(|length| (0..=limits.bytes_max as i64).contains(length));
        let Some(length) = length else { return wrong("invalid bulk length") };
        let end = behind + length as usize;
        if end > limits.bytes_max {
            return wrong("too big request");
        }
        if input.len() < end + 2 {
            return Ok(false);
        }
        if &input[end..end + 2] != b"\r\n" {
            return wrong("a bulk that does not end where it says");
        }
        self.words.push((behind, end));
        (self.at, self.sought) = (end + 2, 0);
        Ok(true)
    }

    /// The line that begins at `at`, without its first byte, and where the next begins.
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        limits: &RequestLimits,
    ) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
        let from = self.at.max(self.sought);
        let end = input.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\r'));
        let end = end.map(|end| from + end);
        if end.unwrap_or(input.len()) - self.at > limits.line_max {
            return wrong(if self.left.is_some() {
                "too big bulk count string"
            } else {
                "too big mbulk count string"
            });
        }
        let Some(end) = end else {
            self.sought = input.len();
            return Ok(None);
        };
        match input.get(end + 1) {
            None => {
                self.sought = end;
                Ok(None)
            }
            Some(b'\n') if end > self.at => Ok(Some((&input[self.at + 1..end], end + 2))),
            Some(_) => wrong("a line that does not end"),
        }
    }

    fn take(&mut self, input: &mut BytesMut) -> Request {
        let raw = input.split_to(self.at).freeze();
        let words = self.words.drain(..).map(|(from, to)| raw.slice(from..to)).collect();
        if self.words.capacity() > WORDS_KEPT_MAX {
            self.words = Vec::new();
        }
        (self.at, self.left, self.sought) = (0, None, 0);
        Request { raw, words }
    }

    /// A line of words, as a person types it.
    fn inline(
        &mut self,
        input: &mut BytesMut,
        limits: &RequestLimits,
    ) -> Result<Option<Request>, ProtocolError> {
        let Some(end) = input[self.sought..].iter().position(|byte| *byte == b'\n') else {
            self.sought = input.len();
            return if input.len() > limits.line_max { wrong("too big inline request") } else { Ok(None) };
        };
        let end = self.sought + end;
        if end > limits.line_max {
            return wrong("too big inline request");
        }
        self.sought = 0;
        let line = input.split_to(end + 1);
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        let Some(words) = split(line) else { return wrong("unbalanced quotes in request") };
        Ok(Some(Request::of(&words)))
    }
}

impl Request {
    /// Whether it is a line of HTTP: somebody has a browser send what it likes, and the next line could be a command.
    pub(crate) fn is_of_http(&self) -> bool {
        self.words[0].eq_ignore_ascii_case(b"POST") || self.words[0].eq_ignore_ascii_case(b"Host:")
    }

    /// The same with bytes of its own: it keeps nothing else that was read with it.
    pub(crate) fn detached(&self) -> Self {
        Request::of(&self.words)
    }

    /// A request of these words.
    pub(crate) fn of(words: &[Bytes]) -> Self {
        let mut raw = BytesMut::with_capacity(words.iter().map(|word| word.len() + HEAD_BYTES).sum());
        let mut places: SmallVec<[usize; 8]> = SmallVec::new();
        array(&mut raw, words.len());
        for word in words {
            string(&mut raw, word);
            places.push(raw.len() - 2);
        }
        let raw = raw.freeze();
        let its = |(end, word): (usize, &Bytes)| raw.slice(end - word.len()..end);
        let words = places.into_iter().zip(words).map(its).collect();
        Request { raw, words }
    }
}

/// Appends words as an array of strings.
pub(crate) fn write<W: AsRef<[u8]>>(out: &mut BytesMut, words: &[W]) {
    array(out, words.len());
    words.iter().for_each(|word| string(out, word.as_ref()));
}

fn array(out: &mut BytesMut, count: usize) {
    number_line(out, b'*', count as i64);
}

fn string(out: &mut BytesMut, word: &[u8]) {
    number_line(out, b'$', word.len() as i64);
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// A count or a length as servers read them: digits, perhaps behind a minus, without zeros before them. It is sent on as it is, so it
/// has to be what a server takes.
fn number(line: &[u8]) -> Option<i64> {
    let (minus, digits) = match line.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, line),
    };
    let is_one = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let is_one = is_one && (digits[0] != b'0' || line == b"0");
    let value = is_one.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))?;
    Some(if minus { -value } else { value })
}

/// The words of a line, which may be quoted as in `redis-cli`; `None` if a quote is not closed.
fn split(line: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.first() else { return Some(words) };
        let mut word = BytesMut::new();
        match first {
            quote @ (b'"' | b'\'') => {
                rest = quoted(&rest[1..], *quote, &mut word)?;
                if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return None;
                }
            }
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                // A quote may begin within a word.
                let quote = rest[..end].iter().position(|byte| matches!(byte, b'"' | b'\''));
                match quote {
                    None => {
                        word.extend_from_slice(&rest[..end]);
                        rest = &rest[end..];
                    }
                    Some(at) => {
                        word.extend_from_slice(&rest[..at]);
                        rest = quoted(&rest[at + 1..], rest[at], &mut word)?;
                        if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                            return None;
                        }
                    }
                }
            }
        }
        words.push(word.freeze());
    }
}

/// Reads to the closing quote: what is behind it.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut BytesMut) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        match byte {
            byte if *byte == quote => return Some(rest),
            b'\\' if quote == b'\'' => match rest.first()? {
                b'\'' => {
                    word.extend_from_slice(b"'");
                    rest = &rest[1..];
                }
                _ => word.extend_from_slice(b"\\"),
            },
            b'\\' => {
                let (escaped, behind) = rest.split_first()?;
                rest = behind;
                let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    b'x' if rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit) => {
                        let byte = hex(&rest[..2])?;
                        rest = &rest[2..];
                        byte
                    }
                    other => *other,
                };
                word.extend_from_slice(&[byte]);
            }
            byte => word.extend_from_slice(&[*byte]),
        }
    }
}

/// Words as the store takes them, without the name.
pub(crate) fn arguments(words: &[Bytes]) -> Vec<claret_types::Bytes> {
    words[1..].iter().map(|word| claret_types::Bytes::copy_from(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], piece: usize) -> Result<Vec<Vec<String>>, String> {
        let limits = RequestLimits { bytes_max: 64, words_max: 4, line_max: 32 };
        let (mut reader, mut buffer, mut all) = (RequestReader::default(), BytesMut::new(), Vec::new());
        for piece in input.chunks(piece) {
            buffer.extend_from_slice(piece);
            while let Some(request) = reader.next(&mut buffer, &limits).map_err(|error| error.0)? {
                assert!(!request.words.is_empty());
                let mut raw = BytesMut::new();
                write(&mut raw, &request.words);
                assert_eq!(raw, request.raw, "what is sent to a node has the same words");
                let text = |word: &Bytes| word.escape_ascii().to_string();
                all.push(request.words.iter().map(text).collect());
            }
        }
        Ok(all)
    }

    #[test]
    fn requests_are_read_in_whatever_pieces_they_come() {
        let input = b"*0\r\nPING\r\n*-9\r\n*1\r\n$1\r\nA\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING  \"a b\\x41\\n\" 'c\\'d'\r\n\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\nSET k\"v w\"\n";
        for piece in 1..input.len() {
            let all = read(input, piece).unwrap();
            assert_eq!(
                all,
                [
                    vec!["PING"],
                    vec!["A"],
                    vec!["GET", "k"],
                    vec!["PING", "a bA\\n", "c\\'d"],
                    vec![""],
                    vec!["SET", "kv w"]
                ],
                "{piece}"
            );
        }
    }

    #[test]
    fn what_is_none_is_refused_with_the_words_of_a_server() {
        for (input, error) in [
            ("*5\r\n", "invalid multibulk length"),
            ("*x\r\n", "invalid multibulk length"),
            ("*99999999999999999999\r\n", "invalid multibulk length"),
            ("*1\r\n$65\r\n", "invalid bulk length"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$999999999999\r\n", "invalid bulk length"),
            ("*1\r\n:1\r\n", "expected '$', got ':'"),
            ("*1\r\n$1\r\nab\r\n", "does not end where it says"),
            ("*2\r\n$40\r\n0123456789012345678901234567890123456789\r\n$40\r\n", "too big request"),
            ("*01\r\n", "invalid multibulk length"),
            ("*1\r\n$01\r\n", "invalid bulk length"),
            ("*1\r\n$-0\r\n", "invalid bulk length"),
            ("*1\r\n$000000000000000000000000000000000000", "too big bulk count string"),
            ("*000000000000000000000000000000000000000", "too big mbulk count string"),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "too big inline request"),
            ("SET \"k\r\n", "unbalanced quotes in request"),
            ("SET \"k\"v\r\n", "unbalanced quotes in request"),
        ] {
            for piece in [1, 7, 100] {
                let said = read(input.as_bytes(), piece).unwrap_err();
                assert!(said.starts_with("ERR Protocol error") && said.contains(error), "{input}: {said}");
            }
        }
    }
}
