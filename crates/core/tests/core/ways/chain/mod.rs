//! Chains (`docs/chains.md`): their traps, and their bounds.

mod batons;
mod bounds;
mod following;

use claret_core::ways::chain::{self, Baton, Switch};
use claret_core::{AttemptId, Limits, Ordered, ShardId, Switches, message::PeerMessage};

use crate::harness::World;

/// All that can commits in chains.
const CHAIN: Switches = Switches::claret(Ordered::Never, false, chain::ways(Switch::Always));

fn chained(shards: u32) -> World {
    World::with(shards, CHAIN, Limits::default())
}

/// A baton that names nobody.
fn baton(attempt: AttemptId, from: ShardId) -> PeerMessage {
    Baton::default().of(attempt, from)
}
