//! A connection that sends commands by the hundred, and reads answers as strictly as RESP is written.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use claret_core::message::{Refusal, Response};
use claret_core::wire;
use claret_types::OpError;
use redis::Value;

/// How long the server may keep somebody waiting who waits for nobody. It shares the machine with others.
const ANSWER_TIME: Duration = Duration::from_secs(20);

const LATE: &str = "no answer in time";

/// How deep an answer may be nested.
const DEPTH_MAX: usize = 32;

/// Commands that leave together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) commands: usize,
}

impl Batch {
    pub(crate) fn add<T: AsRef<[u8]>>(&mut self, words: &[T]) {
        self.bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            let word = word.as_ref();
            self.bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.bytes.extend_from_slice(word);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.commands += 1;
    }

    /// A line of words.
    pub(crate) fn line(&mut self, line: &str) {
        self.add(&line.split(' ').collect::<Vec<_>>());
    }
}

/// See the module's text.
pub(crate) struct Link {
    stream: TcpStream,
    unread: Vec<u8>,
    at: usize,
    batches: u64,
}

/// What answered a batch: so many answers, and how errors among them begin.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    pub(crate) count: usize,
    pub(crate) errors: Vec<String>,
}

impl Link {
    pub(crate) fn to(port: u16) -> Result<Link, String> {
        let stream =
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| format!("connecting: {error}"))?;
        let set = stream.set_read_timeout(Some(ANSWER_TIME)).and(stream.set_nodelay(true));
        set.and(stream.set_write_timeout(Some(ANSWER_TIME))).map_err(|error| format!("a socket: {error}"))?;
        Ok(Link { stream, unread: Vec::new(), at: 0, batches: 0 })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("the server takes nothing: {error}"))
    }

    /// One command, and its answer.
    pub(crate) fn ask<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<Value, String> {
        let mut batch = Batch::default();
        batch.add(words);
        self.send(&batch.bytes)?;
        loop {
            let reply = self.reply()?;
            if reply[0] != b'>' {
                return redis::parse_redis_value(&reply).map_err(|error| format!("{error}"));
            }
        }
    }

    /// Sends a batch, and reads answers up to that of a last command that says something only it can say. Everything else in the batch
    /// is answered before.
    pub(crate) fn exchange(&mut self, mut batch: Batch) -> Result<Replies, String> {
        self.batches += 1;
        let token = format!("last-of-batch-{}", self.batches);
        // What was begun is not left open: there the last one would be queued.
        batch.line("DISCARD");
        batch.line(&format!("PING {token}"));
        self.send(&batch.bytes)?;
        let mut replies = Replies::default();
        loop {
            let reply = self.reply()?;
            let is_push = reply[0] == b'>';
            if !is_push && reply.ends_with(format!("{token}\r\n").as_bytes()) {
                return Ok(replies);
            }
            panicked(&reply)?;
            if reply[0] == b'-' {
                replies.errors.push(String::from_utf8_lossy(&reply[1..reply.len().min(30)]).into_owned());
            }
            replies.count += usize::from(!is_push);
        }
    }

    /// The same, where each command has one answer.
    pub(crate) fn exchange_counted(&mut self, batch: Batch) -> Result<Replies, String> {
        let expected = batch.commands + 1;
        let replies = self.exchange(batch)?;
        match replies.count == expected {
            true => Ok(replies),
            false => Err(format!("{expected} commands have {} answers", replies.count)),
        }
    }

    /// The next answer, or push.
    fn reply(&mut self) -> Result<Vec<u8>, String> {
        let until = Instant::now() + ANSWER_TIME;
        loop {
            if let Some(end) = end_of(&self.unread, self.at, 0)? {
                let reply = self.unread[self.at..end].to_vec();
                self.at = end;
                if self.at > 1 << 16 {
                    drop(self.unread.drain(..self.at));
                    self.at = 0;
                }
                return Ok(reply);
            }
            if Instant::now() > until {
                return Err(LATE.to_owned());
            }
            let mut piece = [0; 1 << 16];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(count) => self.unread.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(LATE.to_owned()),
                Err(error) => return Err(format!("the connection broke: {error}")),
            }
        }
    }
}

/// Where the value ends that begins here; `None`: it is not all there.
fn end_of(bytes: &[u8], at: usize, depth: usize) -> Result<Option<usize>, String> {
    let Some(line) = bytes[at..].windows(2).position(|two| two == b"\r\n").map(|end| &bytes[at..at + end])
    else {
        return match bytes.get(at) {
            Some(kind) if !b"+-:,#_($=!*~>%".contains(kind) => Err(odd("no kind of value", &bytes[at..])),
            _ => Ok(None),
        };
    };
    let Some((kind, said)) = line.split_first() else { return Err(odd("an empty line", &bytes[at..])) };
    let behind = at + line.len() + 2;
    let text = std::str::from_utf8(said);
    let number = || {
        let number = text.ok().and_then(|text| text.parse::<i64>().ok());
        number.filter(|number| *number >= -1).ok_or_else(|| odd("no length", line))
    };
    let is_right = match kind {
        b'+' | b'-' => !said.iter().any(|byte| matches!(byte, b'\r' | b'\n')),
        b':' => text.is_ok_and(|text| text.parse::<i64>().is_ok()),
        b',' => text.is_ok_and(|text| text.parse::<f64>().is_ok()),
        b'#' => matches!(said, b"t" | b"f"),
        b'_' => said.is_empty(),
        b'(' => said.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-'),
        b'$' | b'=' | b'!' => {
            let Ok(length) = usize::try_from(number()?) else { return Ok(Some(behind)) };
            return match bytes.get(behind + length..behind + length + 2) {
                Some(b"\r\n") => Ok(Some(behind + length + 2)),
                Some(_) => Err(odd("no end of a string", line)),
                None => Ok(None),
            };
        }
        b'*' | b'~' | b'>' | b'%' if depth < DEPTH_MAX => {
            let mut end = behind;
            for _ in 0..number()? * if *kind == b'%' { 2 } else { 1 } {
                match end_of(bytes, end, depth + 1)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            return Ok(Some(end));
        }
        _ => return Err(odd("no kind of value", line)),
    };
    if is_right { Ok(Some(behind)) } else { Err(odd("no value of its kind", line)) }
}

/// Whether an answer says that somewhere the module or an operation panicked, as an error or in a frame.
fn panicked(reply: &[u8]) -> Result<(), String> {
    if reply[0] == b'-' && reply.windows(8).any(|words| words == b"panicked") {
        return Err(format!("a panic is answered: {}", reply.escape_ascii()));
    }
    let Some(line) = reply.iter().position(|byte| *byte == b'\n').filter(|_| reply[0] == b'$') else {
        return Ok(());
    };
    let frame = reply.get(line + 1..reply.len() - 2).unwrap_or_default();
    for response in wire::decode_responses(frame).unwrap_or_default() {
        if let Response::Refused { refusal: Refusal::Operation { error, .. }, .. } = &response
            && matches!(**error, OpError::Panicked { .. })
        {
            return Err(format!("an operation panicked: {response:?}"));
        }
    }
    Ok(())
}

fn odd(what: &str, line: &[u8]) -> String {
    let shown = &line[..line.len().min(200)];
    format!("an answer is out of protocol, {what}: {}", shown.escape_ascii())
}
