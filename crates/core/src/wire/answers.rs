//! Reads in one go the responses that nearly all are: grants, votes and acknowledgements, with the answers that most
//! operations have. Everything else, and whatever looks strange, is read at length by postcard.

use claret_types::{Bytes, Reply};

use crate::ids::{AttemptId, CallNo, Incarnation, Sequence, SessionId, ShardId, TxId};
use crate::message::Response;

/// Room for so many answers is taken before they are read.
const AWAITED_MAX: usize = 64;

/// The first message of a frame, and what stands behind it. `None`: it is to be read at length.
pub(super) fn response(bytes: &[u8]) -> Option<(Response, &[u8])> {
    let mut rest = Rest(bytes);
    // The places of the variants in `Response`.
    let response = match rest.byte()? {
        0 => Response::Granted {
            attempt: rest.attempt()?,
            no: rest.call()?,
            reply: rest.reply()?,
            granted: rest.short_number()?,
            incarnation: Incarnation(rest.eight_bytes()?),
        },
        3 => Response::Voted { attempt: rest.attempt()?, shard: rest.shard()?, replies: rest.replies()? },
        4 => Response::Committed { attempt: rest.attempt()?, replies: rest.replies()? },
        6 => Response::Applied { attempt: rest.attempt()?, shard: rest.shard()? },
        _ => return None,
    };
    Some((response, rest.0))
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (byte, behind) = self.0.split_first()?;
        self.0 = behind;
        Some(*byte)
    }

    #[inline(always)]
    fn eight_bytes(&mut self) -> Option<u64> {
        let (bytes, behind) = self.0.split_first_chunk()?;
        self.0 = behind;
        Some(u64::from_le_bytes(*bytes))
    }

    /// A number of variable length. One of more than eight bytes is read at length.
    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        match self.0 {
            [byte @ 0..0x80, behind @ ..] => {
                let number = u64::from(*byte);
                self.0 = behind;
                Some(number)
            }
            _ => self.long_number(),
        }
    }

    #[inline(never)]
    fn long_number(&mut self) -> Option<u64> {
        let eight = match self.0.first_chunk() {
            Some(eight) => *eight,
            // Near the end of the frame. What is behind it ends no number.
            None => std::array::from_fn(|at| self.0.get(at).copied().unwrap_or(0x80)),
        };
        let word = u64::from_le_bytes(eight);
        let ends = !word & 0x8080_8080_8080_8080;
        let length = (ends.trailing_zeros() / 8 + 1) as usize;
        if ends == 0 {
            return None;
        }
        self.0 = &self.0[length..];
        // Its bytes without the bits that say whether another one follows, pushed together.
        let bytes = word & (u64::MAX >> (64 - 8 * length)) & 0x7f7f_7f7f_7f7f_7f7f;
        let pairs = bytes & 0x007f_007f_007f_007f | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
        let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
        Some(fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4)
    }

    /// One of 32 bits. A larger one is none, and that is for others to say.
    #[inline(always)]
    fn short_number(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    #[inline(always)]
    fn attempt(&mut self) -> Option<AttemptId> {
        let session = SessionId(self.eight_bytes()?);
        let sequence = Sequence(self.number()?);
        Some(AttemptId { tx: TxId { session, sequence }, attempt: self.short_number()? })
    }

    #[inline(always)]
    fn shard(&mut self) -> Option<ShardId> {
        self.short_number().map(ShardId)
    }

    #[inline(always)]
    fn call(&mut self) -> Option<CallNo> {
        self.short_number().map(CallNo)
    }

    fn replies(&mut self) -> Option<Vec<(CallNo, Reply)>> {
        let count = self.short_number()? as usize;
        let mut replies = Vec::with_capacity(count.min(AWAITED_MAX));
        for _ in 0..count {
            replies.push((self.call()?, self.reply()?));
        }
        Some(replies)
    }

    #[inline(always)]
    fn reply(&mut self) -> Option<Reply> {
        // The places of the variants in `Reply`.
        Some(match self.byte()? {
            0 => Reply::Nil,
            1 => Reply::Ok,
            2 => {
                let number = self.number()?;
                Reply::Int((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
            }
            4 => {
                let length = self.short_number()? as usize;
                let (bytes, behind) = self.0.split_at_checked(length)?;
                self.0 = behind;
                Reply::Bytes(Bytes::copy_from(bytes))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::append_response;

    fn attempt(sequence: u64, attempt: u32) -> AttemptId {
        AttemptId { tx: TxId { session: SessionId(u64::MAX - 7), sequence: Sequence(sequence) }, attempt }
    }

    /// What there is of numbers at the edges of their lengths.
    fn edges() -> impl Iterator<Item = u64> {
        let powers = (0..64).map(|bit| 1_u64 << bit);
        powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX])
    }

    fn all() -> Vec<Response> {
        let replies = |number: u64| {
            let text = Bytes::from(vec![number as u8; (number % 300) as usize]);
            let ints = [number as i64, -(number as i64 / 2)].map(Reply::Int);
            let others = [
                Reply::Nil,
                Reply::Ok,
                Reply::Bytes(text),
                Reply::Float(0.5),
                Reply::Array(vec![Reply::Nil]),
            ];
            let all = ints.into_iter().chain(others);
            all.enumerate().map(|(at, reply)| (CallNo(at as u32 * 100), reply)).collect::<Vec<_>>()
        };
        let each = edges().flat_map(|number| {
            let (attempt, shard) = (attempt(number, number as u32), ShardId(number as u32));
            let no = CallNo(number as u32);
            let votes = (0..=7).flat_map(move |count| {
                let replies: Vec<_> = replies(number).into_iter().take(count).collect();
                [
                    Response::Voted { attempt, shard, replies: replies.clone() },
                    Response::Committed { attempt, replies },
                ]
            });
            let grants = replies(number).into_iter().map(move |(_, reply)| {
                let (granted, incarnation) = (number as u32, Incarnation(number));
                Response::Granted { attempt, no, reply, granted, incarnation }
            });
            votes
                .chain(grants)
                .chain([Response::Applied { attempt, shard }, Response::Queued { attempt, no: None }])
        });
        each.collect()
    }

    #[test]
    fn what_is_read_in_one_go_is_what_postcard_reads() {
        let (mut read, mut others) = (0, 0);
        for sent in all() {
            let mut bytes = Vec::new();
            append_response(&sent, &mut bytes);
            bytes.push(9);
            match response(&bytes) {
                Some((came, behind)) => {
                    assert_eq!((came, behind), (sent, &[9][..]));
                    read += 1;
                }
                None => others += 1,
            }
        }
        assert!(read > 500 && others > 500, "{read} and {others}");
    }

    /// Of whatever bytes, it says what postcard says, or nothing.
    #[test]
    fn what_is_cut_off_or_changed_is_read_as_postcard_reads_it() {
        let sent = Response::Voted {
            attempt: attempt(300, 1),
            shard: ShardId(2),
            replies: vec![(CallNo(1), Reply::Int(-3)), (CallNo(2), Reply::Bytes("text".into()))],
        };
        let mut bytes = Vec::new();
        append_response(&sent, &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(response(&bytes[..length]), None);
        }
        for at in 0..bytes.len() {
            for byte in 0..=u8::MAX {
                let mut changed = bytes.clone();
                changed[at] = byte;
                if let Some(came) = response(&changed) {
                    assert_eq!(postcard::take_from_bytes(&changed), Ok(came), "{changed:?}");
                }
            }
        }
    }
}
