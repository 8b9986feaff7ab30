//! Letters between a home and the shards of its errands (docs/errands.md, E3 and E4): frames of a client process and what is answered,
//! each with the connection that it is of.

use claret_core::message::{Link, Response};
use claret_core::wire::{self, WireError};
use claret_core::{Incarnation, SessionId, ShardId};

use crate::parts::owner::Name;

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Letter {
    /// The helper's session, and the number of its connection to this shard.
    pub(crate) link: Link,
    pub(crate) says: Says,
}

/// What a letter says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Says {
    /// To a shard: a connection of this user's helper begins.
    Hello { user: Name },
    /// To a helper: it does, at this shard, and its lease is so long.
    Welcome { shard: ShardId, incarnation: Incarnation, lease_us: u64 },
    /// To a shard: the frame of requests of this number.
    Asks { number: u32, frame: Vec<u8> },
    /// To a helper: so many frames are answered by now.
    Answers { answered: u32, responses: Vec<Response> },
    /// To a helper: the frame of this number cannot be read, and this is why.
    Refuses { number: u32, reason: String },
    /// To a helper: there is no such connection. To a shard: the session ends.
    Over,
    /// To a helper: the user is not known there, or is off.
    NoUser,
}

impl Letter {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let kind = match &self.says {
            Says::Hello { .. } => 0,
            Says::Welcome { .. } => 1,
            Says::Asks { .. } => 2,
            Says::Answers { .. } => 3,
            Says::Over => 4,
            Says::NoUser => 5,
            Says::Refuses { .. } => 6,
        };
        out.push(kind);
        out.extend_from_slice(&self.link.session.0.to_le_bytes());
        out.extend_from_slice(&self.link.connection.to_le_bytes());
        match &self.says {
            Says::Hello { user } => out.extend_from_slice(user.bytes()),
            Says::Welcome { shard, incarnation, lease_us } => {
                out.extend_from_slice(&shard.0.to_le_bytes());
                out.extend_from_slice(&incarnation.0.to_le_bytes());
                out.extend_from_slice(&lease_us.to_le_bytes());
            }
            Says::Asks { number, frame } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(frame);
            }
            Says::Refuses { number, reason } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(reason.as_bytes());
            }
            Says::Answers { answered, responses } => {
                out.extend_from_slice(&answered.to_le_bytes());
                responses.iter().for_each(|response| wire::append_response(response, out));
            }
            Says::Over | Says::NoUser => {}
        }
    }

    /// # Errors
    /// It is none.
    pub(crate) fn read(bytes: &[u8]) -> Result<Letter, NoLetter> {
        let (&kind, mut rest) = bytes.split_first().ok_or(NoLetter)?;
        let link = Link { session: SessionId(u64_of(&mut rest)?), connection: u32_of(&mut rest)? };
        let says = match kind {
            0 => Says::Hello { user: Name::new(rest) },
            1 => {
                let (shard, incarnation) = (ShardId(u32_of(&mut rest)?), Incarnation(u64_of(&mut rest)?));
                Says::Welcome { shard, incarnation, lease_us: u64_of(&mut rest)? }
            }
            2 => {
                let number = u32_of(&mut rest)?;
                Says::Asks { number, frame: rest.to_vec() }
            }
            3 => {
                let answered = u32_of(&mut rest)?;
                Says::Answers { answered, responses: wire::decode_responses(rest)? }
            }
            4 => Says::Over,
            5 => Says::NoUser,
            6 => {
                let number = u32_of(&mut rest)?;
                Says::Refuses { number, reason: String::from_utf8_lossy(rest).into_owned() }
            }
            _ => return Err(NoLetter),
        };
        Ok(Letter { link, says })
    }
}

/// What came is no letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoLetter;

impl From<WireError> for NoLetter {
    fn from(_: WireError) -> Self {
        NoLetter
    }
}

fn u32_of(rest: &mut &[u8]) -> Result<u32, NoLetter> {
    let (number, behind) = rest.split_first_chunk().ok_or(NoLetter)?;
    *rest = behind;
    Ok(u32::from_le_bytes(*number))
}

fn u64_of(rest: &mut &[u8]) -> Result<u64, NoLetter> {
    let (number, behind) = rest.split_first_chunk().ok_or(NoLetter)?;
    *rest = behind;
    Ok(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use claret_core::{AttemptId, Sequence, Time, TxId};

    use super::*;

    fn letters() -> Vec<Letter> {
        let link = Link { session: SessionId(7), connection: 3 };
        let tx = TxId { session: link.session, sequence: Sequence(9) };
        let attempt = AttemptId { tx, attempt: 1 };
        let says = [
            Says::Hello { user: Name::new(b"ada") },
            Says::Welcome { shard: ShardId(1), incarnation: Incarnation(2), lease_us: 3 },
            Says::Asks { number: 4, frame: b"requests".to_vec() },
            Says::Refuses { number: 4, reason: "too much".to_owned() },
            Says::Answers {
                answered: 5,
                responses: vec![Response::Elder { attempt, shard: ShardId(1), birth: Time(8) }],
            },
            Says::Answers { answered: 6, responses: vec![] },
            Says::Over,
            Says::NoUser,
        ];
        says.into_iter().map(|says| Letter { link, says }).collect()
    }

    fn written(letter: &Letter) -> Vec<u8> {
        let mut bytes = Vec::new();
        letter.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_letter_is_the_same_when_it_is_read() {
        for letter in letters() {
            assert_eq!(Letter::read(&written(&letter)), Ok(letter));
        }
    }

    #[test]
    fn what_is_cut_off_or_of_another_kind_is_no_letter() {
        for letter in letters() {
            let bytes = written(&letter);
            let least =
                if matches!(letter.says, Says::Hello { .. } | Says::Over | Says::NoUser) { 13 } else { 17 };
            for length in 0..least.min(bytes.len()) {
                assert_eq!(Letter::read(&bytes[..length]), Err(NoLetter), "{letter:?} to {length}");
            }
        }
        assert_eq!(Letter::read(&[9; 20]), Err(NoLetter));
    }
}
