//! Ids of sessions, transactions, attempts, shards and incarnations; and time.
//!
//! All are plain numbers given from outside; nothing here draws a random number or reads a clock. Large ones travel
//! as eight bytes, which is mostly shorter than a variable-length number, and faster to read.

use std::fmt;

use crate::planted::{Bug, is_planted};
use serde::{Deserialize, Serialize};

/// A number as its eight bytes, the lowest first, which are written and read in one piece. The form does that with floats
/// alone, and of an array it makes a step of each byte; so the number goes as the float that has these bits.
mod eight_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from_bits(*number))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        f64::deserialize(deserializer).map(f64::to_bits)
    }
}

/// Microseconds since whenever the host began to count. Serves liveness only, never safety (P69).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(#[serde(with = "eight_bytes")] pub u64);

impl Time {
    /// So many microseconds later.
    pub fn plus(self, micros: u64) -> Time {
        Time(self.0.saturating_add(micros))
    }

    /// Microseconds from `earlier` to here; 0 when it is later.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A place in the order of what is ordered (P73): microseconds of some shard's clock, or a number that a vote made of
/// them. Attempts break ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(#[serde(with = "eight_bytes")] pub u64);

impl Timestamp {
    /// Behind all others: of what nobody knows the place.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// The next larger one.
    #[must_use]
    pub fn next(self) -> Timestamp {
        Timestamp(self.0.saturating_add(1))
    }
}

/// One shard: one lock table, one serial order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u32);

/// Changes whenever a shard may have lost what it held in memory: restart, promotion, reset (P26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(#[serde(with = "eight_bytes")] pub u64);

impl Incarnation {
    /// The one as which a shard goes on after this: the one that its host names, and never one that it was before (P26).
    pub(crate) fn next(self, named: Incarnation) -> Incarnation {
        if is_planted(Bug::SilentRestart) { self } else { named.max(Incarnation(self.0 + 1)) }
    }
}

/// One client process, from its start to its end. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(#[serde(with = "eight_bytes")] pub u64);

/// The place of a transaction in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// A transaction, over all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TxId {
    /// Whose.
    pub session: SessionId,
    /// Which.
    pub sequence: Sequence,
}

/// One attempt of a transaction. Every message carries it, so that a vote for one attempt never counts for
/// another (trap 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The transaction.
    pub tx: TxId,
    /// From 1.
    pub attempt: u32,
}

/// When a transaction first began: the elder of two has the smaller birth. A restart keeps it, so every
/// transaction becomes the eldest in time (P22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Birth {
    /// The coordinator's clock at the first attempt. Skewed clocks harm fairness only.
    pub time: Time,
    /// Breaks ties.
    pub tx: TxId,
}

impl Birth {
    /// Nobody is elder.
    pub(crate) const FIRST: Self =
        Birth { time: Time(0), tx: TxId { session: SessionId(0), sequence: Sequence(0) } };
}

/// A question of a client process that no attempt is named in; each is given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LookNo(pub u64);

/// A transaction of a client process, over all its attempts. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxHandle(pub u64);

/// The place of a call within its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallNo(pub u32);

/// A member of a combined group (C2); a transaction on its own has just the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member(pub u16);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session.0, self.sequence.0)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tx, self.attempt)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also those whose bits are no number as a float: none is changed on its way.
    #[test]
    fn large_numbers_are_their_eight_bytes() {
        let signalling = [0x7ff0_0000_0000_0001, 0xfff4_0000_0000_0000, 0x7ff8_0000_0000_0000];
        let all = (0..64).map(|bit| 1 << bit).chain(signalling).chain([0, u64::MAX, u64::MAX - 1]);
        for number in all {
            let bytes = postcard::to_allocvec(&SessionId(number)).expect("it has a form");
            assert_eq!(bytes, number.to_le_bytes());
            assert_eq!(postcard::from_bytes(&bytes), Ok(SessionId(number)));
        }
    }
}
