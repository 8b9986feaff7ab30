//! Reads the requests that come most, and writes the responses that are given most, byte by byte: through serde an operation costs
//! three times as much.
//!
//! What is read here is what serde reads (a test compares them). Everything else is not read at all: other requests, numbers that
//! are longer than they mostly are, and whatever is wrong. Then serde reads the request from its beginning, and says what is
//! wrong. What is written is what serde writes, and other responses are left to it. So nothing depends on this but the time it
//! takes.

use claret_types::{Bytes, Operation, Reply};
use serde::de::DeserializeOwned;
use smallvec::SmallVec;

use crate::ids::{
    AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, Timestamp, TxId,
};
use crate::message::{Asks, Call, KeyedCall, Listed, Members, Participants, Request, Response, UndoneCalls};

/// The numbers of requests: their places in [`Request`].
const PREPARE: u8 = 1;
const APPLY: u8 = 2;

/// The same of responses.
const VOTED: u8 = 3;
const COMMITTED: u8 = 4;
const APPLIED: u8 = 6;

/// A call takes no fewer bytes: each of its parts takes one.
const CALL_BYTES_MIN: usize = 7;

/// The first request of these bytes and what follows it, if it is one that is read here.
pub(super) fn request(bytes: &[u8]) -> Option<(Request, &[u8])> {
    let (&number, rest) = bytes.split_first()?;
    let mut reader = Reader(rest);
    let request = match number {
        PREPARE => reader.prepare()?,
        APPLY => Request::Apply { attempt: reader.attempt()? },
        _ => return None,
    };
    Some((request, reader.0))
}

/// Appends a response, if it is one that is written here.
pub(super) fn append(response: &Response, frame: &mut Vec<u8>) -> bool {
    let (number, attempt, shard, replies) = match response {
        Response::Voted { attempt, shard, replies } => (VOTED, attempt, Some(shard), Some(replies)),
        Response::Committed { attempt, replies } => (COMMITTED, attempt, None, Some(replies)),
        Response::Applied { attempt, shard } => (APPLIED, attempt, Some(shard), None),
        _ => return false,
    };
    let mut head = Head { bytes: [0; HEAD_MAX], length: 0 };
    head.push(&[number]);
    head.push(&attempt.tx.session.0.to_le_bytes());
    head.number(attempt.tx.sequence.0);
    head.number(attempt.attempt.into());
    if let Some(shard) = shard {
        head.number(shard.0.into());
    }
    if let Some(replies) = replies {
        head.number(replies.len() as u64);
    }
    frame.extend_from_slice(head.written());
    for (no, reply) in replies.into_iter().flatten() {
        let mut head = Head { bytes: [0; HEAD_MAX], length: 0 };
        head.number(no.0.into());
        match reply {
            Reply::Nil => head.push(&[0]),
            Reply::Ok => head.push(&[1]),
            Reply::Int(value) => {
                head.push(&[2]);
                head.number((value << 1 ^ value >> 63) as u64);
            }
            Reply::Float(_) | Reply::Bytes(_) | Reply::Array(_) | Reply::Failed(_) => {}
        }
        frame.extend_from_slice(head.written());
        if !matches!(reply, Reply::Nil | Reply::Ok | Reply::Int(_)) {
            super::append(reply, frame);
        }
    }
    true
}

/// The most that is written at a time: a number of one byte, a session, and four of at most ten bytes.
const HEAD_MAX: usize = 1 + 8 + 4 * 10;

/// A few numbers.
struct Head {
    bytes: [u8; HEAD_MAX],
    length: usize,
}

impl Head {
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Seven bits a byte, the last first.
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.push(&[number as u8]);
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// A number of 32 bits.
    #[inline]
    fn number(&mut self) -> Option<u32> {
        let first = self.byte()?;
        if first < 0x80 { Some(first.into()) } else { self.further(first) }
    }

    fn further(&mut self, first: u8) -> Option<u32> {
        let mut number = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return (shift < 28 || byte < 0x10).then_some(number);
            }
        }
        None
    }

    /// Bytes behind their number.
    #[inline]
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// What comes seldom, or once in a request.
    fn other<T: DeserializeOwned>(&mut self) -> Option<T> {
        let (value, rest) = postcard::take_from_bytes(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// A number of eight bytes.
    #[inline]
    fn large_number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn transaction(&mut self) -> Option<TxId> {
        let (session, sequence) = (SessionId(self.large_number()?), Sequence(self.number()?.into()));
        Some(TxId { session, sequence })
    }

    fn attempt(&mut self) -> Option<AttemptId> {
        Some(AttemptId { tx: self.transaction()?, attempt: self.number()? })
    }

    /// Each takes two bytes at least.
    fn participants(&mut self) -> Option<Participants> {
        let count = self.number()? as usize;
        if count > self.0.len() / 2 {
            return None;
        }
        let mut list: SmallVec<[Listed; 8]> = SmallVec::with_capacity(count);
        for _ in 0..count {
            let shard = ShardId(self.number()?);
            let incarnation = match self.byte()? {
                0 => None,
                1 => Some(Incarnation(self.large_number()?)),
                _ => return None,
            };
            list.push(Listed { shard, incarnation });
        }
        Some(Participants::from(&list[..]))
    }

    fn members(&mut self) -> Option<Members> {
        if self.0.first() == Some(&0) {
            self.byte()?;
            return Some(Members::All); // Mostly.
        }
        self.other()
    }

    fn asks(&mut self) -> Option<Asks> {
        Some(match self.byte()? {
            0 => Asks::Vote,
            1 => Asks::Decision,
            2 => Asks::Place(Timestamp(self.large_number()?)),
            3 => {
                let decides = match self.byte()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let (number, body) = (self.byte()?, self.bytes()?.to_vec().into());
                Asks::Way { decides, number, body }
            }
            _ => return None,
        })
    }

    fn undone(&mut self) -> Option<UndoneCalls> {
        match self.0.split_first() {
            Some((0, rest)) => self.0 = rest, // Mostly.
            _ => return None,
        }
        Some(UndoneCalls::default())
    }

    fn prepare(&mut self) -> Option<Request> {
        let attempt = self.attempt()?;
        let birth = Birth { time: Time(self.large_number()?), tx: self.transaction()? };
        let (participants, relies_on) = (self.participants()?, self.number()?);
        let count = self.number()? as usize;
        if count > self.0.len() / CALL_BYTES_MIN {
            return None;
        }
        let mut calls = Vec::with_capacity(count);
        for _ in 0..count {
            calls.push(self.keyed_call()?);
        }
        let (members, asks) = (self.members()?, self.asks()?);
        let undone = self.undone()?;
        Some(Request::Prepare { attempt, birth, participants, relies_on, calls, members, asks, undone })
    }

    #[inline]
    fn keyed_call(&mut self) -> Option<KeyedCall> {
        let key = Bytes::copy_from(self.bytes()?);
        let no = CallNo(self.number()?);
        let op = self.operation()?;
        let member = Member(self.number()?.try_into().ok()?);
        let reserve = match self.byte()? {
            0 => None,
            1 => Some(Box::new(self.other()?)),
            _ => return None,
        };
        Some(KeyedCall { key, call: Call { no, op, member, reserve } })
    }

    fn operation(&mut self) -> Option<Operation> {
        let (kind, method, count) = (self.byte()?, self.byte()?, self.number()? as usize);
        let mut arguments: SmallVec<[Bytes; 4]> = SmallVec::new();
        // Each takes a byte at least.
        arguments.try_reserve(count.min(self.0.len())).ok()?;
        for _ in 0..count {
            arguments.push(Bytes::copy_from(self.bytes()?));
        }
        Some(Operation::of_numbers(kind, method, &arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{append_request, encode_requests};
    use claret_types::{Claims, Mode};

    fn prepare(sequence: u64, count: u32) -> Request {
        let tx = TxId { session: SessionId(sequence << 40 | 0x81), sequence: Sequence(sequence) };
        let op = |no: u32| match no % 3 {
            0 => Operation::of_numbers(4, 0, &[Bytes::from("x"), Bytes::from(vec![b'y'; no as usize])]),
            1 => Operation::of_numbers(4, 5, &[]),
            _ => Operation::of_numbers(0, 1, &[Bytes::from("1")]),
        };
        let calls = (0..count).map(|no| {
            let reserve = (no % 5 == 4).then(|| Box::new(Claims::element(b"x", Mode::EXCLUSIVE)));
            let call = Call { no: CallNo(no * 150), op: op(no), member: Member(no as u16 * 90), reserve };
            KeyedCall { key: Bytes::from(vec![b'k'; no as usize * 7 + 1]), call }
        });
        Request::Prepare {
            attempt: AttemptId { tx, attempt: count + 1 },
            birth: Birth { time: Time(sequence), tx },
            participants: [1, 0x9000_0000 + count]
                .map(|no| Listed {
                    shard: ShardId(no),
                    incarnation: (no > count).then_some(Incarnation(sequence)),
                })
                .into(),
            relies_on: 300,
            calls: calls.collect(),
            members: if count.is_multiple_of(2) {
                Members::All
            } else {
                Members::Only([Member(1)].into_iter().collect())
            },
            asks: match count % 4 {
                0 => Asks::Vote,
                1 => Asks::Decision,
                2 => Asks::Place(Timestamp(sequence)),
                _ => {
                    let body = vec![b'w'; count as usize].into();
                    Asks::Way { decides: count.is_multiple_of(3), number: count as u8 * 9, body }
                }
            },
            undone: Default::default(),
        }
    }

    fn by_serde(bytes: &[u8]) -> Option<(Request, usize)> {
        postcard::take_from_bytes::<Request>(bytes).ok().map(|(request, rest)| (request, rest.len()))
    }

    /// What is read is what serde reads, whatever the bytes are.
    #[track_caller]
    fn compare(bytes: &[u8]) -> bool {
        let Some((request, rest)) = request(bytes) else { return false };
        assert_eq!(Some((request, rest.len())), by_serde(bytes), "{bytes:?}");
        true
    }

    #[test]
    fn the_requests_that_come_most_are_read() {
        for (sequence, count) in [(0, 0), (1, 1), (127, 2), (3, 3), (7, 7), (128, 20), (u32::MAX.into(), 40)]
        {
            let request = prepare(sequence, count);
            let Request::Prepare { attempt, .. } = request else { unreachable!("it is one") };
            let frame = encode_requests(&[request, Request::Apply { attempt }]);
            assert!(compare(&frame));
            let (_, rest) = super::request(&frame).expect("just read");
            assert!(compare(rest));
        }
        // Larger numbers are left to serde.
        assert!(!compare(&encode_requests(&[prepare(1 << 32, 1)])));
    }

    #[test]
    fn responses_are_written_as_serde_writes_them() {
        let tx = |sequence| TxId { session: SessionId(sequence ^ 0x8000), sequence: Sequence(sequence) };
        let values = [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN].map(Reply::Int);
        let others = [Reply::Nil, Reply::Ok, Reply::Float(-0.5), Reply::Bytes("x".into())];
        let nested = Reply::Array(vec![Reply::Int(-5), Reply::Nil]);
        let replies: Vec<(CallNo, Reply)> = values
            .into_iter()
            .chain(others)
            .chain([nested])
            .zip(0..)
            .map(|(it, no)| (CallNo(no * 77), it))
            .collect();
        for sequence in [0, 127, 128, u64::MAX] {
            let (attempt, shard) = (AttemptId { tx: tx(sequence), attempt: u32::MAX }, ShardId(u32::MAX));
            for response in [
                Response::Voted { attempt, shard, replies: replies.clone() },
                Response::Voted { attempt, shard: ShardId(0), replies: Vec::new() },
                Response::Committed { attempt, replies: replies.clone() },
                Response::Applied { attempt, shard },
            ] {
                let mut frame = vec![7];
                assert!(append(&response, &mut frame));
                assert_eq!(
                    frame[1..],
                    postcard::to_allocvec(&response).expect("it has a form"),
                    "{response:?}"
                );
            }
            assert!(!append(&Response::Queued { attempt, no: None }, &mut Vec::new()));
        }
    }

    #[test]
    fn whatever_the_bytes_are_it_reads_them_as_serde_does_or_not_at_all() {
        let mut state = 11_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut read, mut left) = (0, 0);
        for round in 0..20_000 {
            let mut frame = Vec::new();
            append_request(&prepare(round % 300, round as u32 % 7), &mut frame);
            for _ in 0..=random(2) {
                let at = random(frame.len());
                match random(4) {
                    0 => frame[at] = random(256) as u8,
                    1 => frame[at] ^= 1 << random(8),
                    2 => drop(frame.remove(at)),
                    _ => frame.truncate(at.max(1)),
                }
            }
            if compare(&frame) { read += 1 } else { left += 1 }
        }
        assert!(read > 1_000 && left > 1_000, "{read} were read, and {left} were not");
    }
}
