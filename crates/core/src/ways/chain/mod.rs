//! Chains (K1 to K18 of `docs/chains.md`): what both sides know of them.

mod bugs;

pub(crate) use bugs::bugs;
use claret_types::carried::long_list;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, ShardId};
use crate::message::{Asks, PeerMessage, WayBody, WayWords};
use crate::ways::WaySwitches;

/// Of the words of chains.
pub const NUMBER: u8 = 1;

/// A shard, as its tokens see it.
pub trait WaitingTokens {
    /// Tokens that wait for their prepares.
    fn waiting_tokens(&self) -> usize;
}

/// Which transactions over several shards commit in chains. A shard that is switched to `Never` takes none (K9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// None.
    #[default]
    Never,
    /// Those that use a record for which many wait (P49).
    Hot,
    /// All that can.
    Always,
}

impl Switch {
    /// No transaction commits in a chain.
    pub const NEVER: Switch = Switch::Never;
    /// All that can do.
    pub const ALWAYS: Switch = Switch::Always;
}

/// See [`WaySwitches::all_named`].
pub(crate) const NAMED: &[(&str, WaySwitches)] =
    &[("chain", ways(Switch::Always)), ("hot-chain", ways(Switch::Hot))];

/// Commits go in no other way, and in chains as this says.
pub const fn ways(chain: Switch) -> WaySwitches {
    let mut ways = WaySwitches::ROUNDS;
    ways.chain = chain; // There may be other ways.
    ways
}

/// What a prepare of a chain bears: a vote when the token comes, which goes on to the next one on the list; of the last one on it the
/// decision (K3 to K6). The list says all.
pub fn words() -> WayWords {
    WayWords { number: NUMBER, body: WayBody::default() }
}

/// What a prepare of a chain asks for.
pub fn asks(decides: bool) -> Asks {
    let WayWords { number, body } = words();
    Asks::Way { decides, number, body }
}

/// All on the attempt's list up to the one that says so have written yes (K5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Whom the attempt follows there: these come before it, and are not decided (K17).
    #[serde(deserialize_with = "long_list")]
    pub follows: Vec<AttemptId>,
}

impl Token {
    /// As one shard hands it to the next one.
    pub fn of(self, attempt: AttemptId, from: ShardId) -> PeerMessage {
        let body = match self.follows.is_empty() {
            true => Vec::new(), // Mostly.
            false => postcard::to_allocvec(&self).expect("all that is sent has a form"),
        };
        PeerMessage::Way { attempt, from, words: WayWords { number: NUMBER, body: body.into() } }
    }

    /// `None`: it is no token.
    pub fn read(words: &WayWords) -> Option<Token> {
        if words.number != NUMBER {
            return None;
        }
        if words.body.is_empty() {
            return Some(Token::default());
        }
        let (token, rest) = postcard::take_from_bytes(&words.body).ok()?;
        rest.is_empty().then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Sequence, SessionId, TxId};

    fn attempt(sequence: u64) -> AttemptId {
        let tx = TxId { session: SessionId(3), sequence: Sequence(sequence) };
        AttemptId { tx, attempt: 1 }
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is_one() {
        for follows in [vec![], vec![attempt(1)], (0..300).map(attempt).collect()] {
            let token = Token { follows };
            let PeerMessage::Way { words, .. } = token.clone().of(attempt(7), ShardId(2)) else {
                unreachable!("it is one")
            };
            assert_eq!(Token::read(&words), Some(token));
            let longer = [&words.body[..], &[0, 0]].concat().into();
            assert_eq!(Token::read(&WayWords { body: longer, ..words.clone() }), None);
            for end in 1..words.body.len() {
                let cut = words.body[..end].to_vec().into();
                assert_eq!(Token::read(&WayWords { body: cut, ..words.clone() }), None);
            }
            assert_eq!(Token::read(&WayWords { number: NUMBER + 1, ..words }), None);
        }
        // It says that it has more than there are bytes for.
        let body = WayBody::from(vec![0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(Token::read(&WayWords { number: NUMBER, body }), None);
    }
}
