//! The outcome of an attempt of which its process heard nothing (P89): what must be known to ask for it, what a shard says, and
//! what follows from that. Asking changes nothing: who has not voted may still vote.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use crate::ids::{AttemptId, Incarnation, Sequence, SessionId, ShardId, TxId};
use crate::message::{Listed, Participants};

/// An attempt and its participants: whoever has this can ask what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The attempt, under whose name the shards know it.
    pub attempt: AttemptId,
    /// All that its prepare listed.
    pub participants: Participants,
}

/// What a shard says to somebody who only wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Nothing is written: it may not have come yet, or waits.
    Nothing,
    /// Yes, and waiting for the decision.
    Prepared,
    /// Decided, and done or about to be.
    Applied,
    /// No.
    Refused,
    /// So long ago that it is forgotten.
    Forgotten,
    /// Memory was lost since, here or at another participant.
    Lost,
}

impl Written {
    const WORDS: [(Written, &'static str); 6] = [
        (Written::Nothing, "nothing"),
        (Written::Prepared, "prepared"),
        (Written::Applied, "applied"),
        (Written::Refused, "refused"),
        (Written::Forgotten, "forgotten"),
        (Written::Lost, "lost"),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(written, _)| *written == self).map_or("", |(_, word)| word)
    }

    /// What a word stands for.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(written, _)| *written)
    }
}

/// What a shard has told: which, what, and the first incarnation whose memory it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Who.
    pub shard: ShardId,
    /// What.
    pub written: Written,
    /// As in [`Response::Refused`](crate::message::Response::Refused).
    pub since: Incarnation,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// Committed, for good.
    Committed,
    /// Nothing of it was or will be applied.
    Aborted,
    /// It is not decided, or nobody who knows has answered: ask again.
    NotYet,
    /// It is over, and nobody knows any more how.
    Forgotten,
}

impl Asked {
    /// What follows from what shards told; of those that are missing nothing is known yet. What shards say that are not on the
    /// list counts for nothing.
    pub fn known(&self, told: &[Told]) -> Known {
        let of = |listed: &Listed| {
            let told = told.iter().find(|told| told.shard == listed.shard)?;
            // A no of this incarnation, or nothing, says nothing of what one wrote that is not remembered.
            let is_lost = listed.incarnation.is_some_and(|listed| listed < told.since);
            Some(match told.written {
                Written::Refused | Written::Nothing if is_lost => Written::Lost,
                written => written,
            })
        };
        let all: SmallVec<[Option<Written>; 8]> = self.participants.iter().map(of).collect();
        let any = |wanted| all.contains(&Some(wanted));
        let every = |wanted| all.iter().all(|written| *written == Some(wanted));
        match () {
            () if any(Written::Applied) => Known::Committed,
            () if any(Written::Refused) => Known::Aborted,
            () if all.is_empty() || any(Written::Forgotten) || every(Written::Lost) => Known::Forgotten,
            () if every(Written::Prepared) => Known::Committed,
            () => Known::NotYet,
        }
    }
}

/// `session.sequence/attempt@shard:incarnation,shard`.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.attempt)?;
        for (at, listed) in self.participants.iter().enumerate() {
            let before = if at == 0 { '@' } else { ',' };
            write!(f, "{before}{}", listed.shard.0)?;
            if let Some(Incarnation(incarnation)) = listed.incarnation {
                write!(f, ":{incarnation}")?;
            }
        }
        Ok(())
    }
}

/// A text that names no attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAsked;

impl FromStr for Asked {
    type Err = NotAsked;

    fn from_str(text: &str) -> Result<Self, NotAsked> {
        read(text).ok_or(NotAsked)
    }
}

fn read(text: &str) -> Option<Asked> {
    let (attempt, participants) = text.split_once('@')?;
    let (tx, number) = attempt.split_once('/')?;
    let (session, sequence) = tx.split_once('.')?;
    let tx = TxId { session: SessionId(session.parse().ok()?), sequence: Sequence(sequence.parse().ok()?) };
    let listed = |word: &str| {
        let (shard, incarnation) = match word.split_once(':') {
            Some((shard, incarnation)) => (shard, Some(Incarnation(incarnation.parse().ok()?))),
            None => (word, None),
        };
        Some(Listed { shard: ShardId(shard.parse().ok()?), incarnation })
    };
    let participants = participants.split(',').map(listed).collect::<Option<Vec<_>>>()?;
    Some(Asked {
        attempt: AttemptId { tx, attempt: number.parse().ok()? },
        participants: participants.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        "7.9/2@1:5,3".parse().expect("an attempt")
    }

    fn told(shard: u32, written: Written, since: u64) -> Told {
        Told { shard: ShardId(shard), written, since: Incarnation(since) }
    }

    #[test]
    fn what_is_asked_for_is_read_as_it_is_written() {
        assert_eq!(asked().to_string(), "7.9/2@1:5,3");
        let listed: Vec<_> = asked().participants.iter().map(|it| (it.shard.0, it.incarnation)).collect();
        assert_eq!(listed, [(1, Some(Incarnation(5))), (3, None)]);
        for wrong in ["", "7.9/2", "7.9/2@", "7.9@1", "7/2@1", "7.9/2@1:", "7.9/2@x", "7.9/2@1,"] {
            assert_eq!(wrong.parse::<Asked>(), Err(NotAsked), "{wrong}");
        }
    }

    #[test]
    fn what_shards_say_decides_as_their_own_questions_do_and_nothing_is_taken_for_no() {
        use Written::{Applied, Forgotten, Lost, Nothing, Prepared, Refused};
        for (one, other, known) in [
            (Prepared, Prepared, Known::Committed),
            (Applied, Prepared, Known::Committed),
            (Applied, Lost, Known::Committed),
            (Applied, Forgotten, Known::Committed),
            (Refused, Prepared, Known::Aborted),
            (Nothing, Refused, Known::Aborted),
            (Refused, Lost, Known::Aborted),
            (Nothing, Prepared, Known::NotYet),
            (Nothing, Nothing, Known::NotYet),
            (Prepared, Lost, Known::NotYet),
            (Nothing, Lost, Known::NotYet),
            (Forgotten, Prepared, Known::Forgotten),
            (Forgotten, Nothing, Known::Forgotten),
            (Lost, Lost, Known::Forgotten),
        ] {
            for (first, second) in [(one, other), (other, one)] {
                let all = [told(1, first, 5), told(3, second, 1)];
                assert_eq!(asked().known(&all), known, "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn who_does_not_answer_leaves_it_open_and_who_was_not_listed_says_nothing() {
        assert_eq!(asked().known(&[]), Known::NotYet);
        assert_eq!(asked().known(&[told(1, Written::Prepared, 5)]), Known::NotYet);
        assert_eq!(asked().known(&[told(1, Written::Applied, 5)]), Known::Committed);
        assert_eq!(asked().known(&[told(9, Written::Applied, 5)]), Known::NotYet);
    }

    #[test]
    fn a_no_of_a_later_memory_is_none() {
        let prepared = told(3, Written::Prepared, 1);
        assert_eq!(asked().known(&[told(1, Written::Refused, 5), prepared]), Known::Aborted);
        assert_eq!(asked().known(&[told(1, Written::Refused, 6), prepared]), Known::NotYet);
        let both = [told(1, Written::Nothing, 6), told(3, Written::Lost, 1)];
        assert_eq!(asked().known(&both), Known::Forgotten);
    }
}
