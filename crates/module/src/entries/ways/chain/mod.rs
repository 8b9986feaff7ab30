//! Chains (docs/chains.md): what waits for them.

use claret_core::ways::chain::WaitingTokens;

use crate::entries::info::{Field, field};

pub(super) const FIELDS: &[Field] =
    &[field("tokens_waiting", "tokens of chains that wait for their prepares", |node, _| {
        node.shard.as_ref().map_or(0, |shard| shard.waiting_tokens() as u64)
    })];
