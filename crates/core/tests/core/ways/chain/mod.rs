//! Chains (`docs/chains.md`): their traps, and their bounds.

mod bounds;
mod following;
mod tokens;

use claret_core::ways::chain::{self, Switch, Token};
use claret_core::{AttemptId, Limits, Ordered, ShardId, Switches, message::PeerMessage};

use crate::harness::World;

/// All that can commits in chains.
const CHAIN: Switches = Switches::claret(Ordered::Never, false, chain::ways(Switch::Always));

fn chained(shards: u32) -> World {
    World::with(shards, CHAIN, Limits::default())
}

/// A token that names nobody.
fn token(attempt: AttemptId, from: ShardId) -> PeerMessage {
    Token::default().of(attempt, from)
}
