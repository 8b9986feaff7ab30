//! Chains (docs/chains.md): what waits for them.

use claret_core::ways::chain::waiting_batons;

use crate::entries::info::{Field, field};

pub(super) const FIELDS: &[Field] =
    &[field("batons_waiting", "batons of chains that wait for their prepares", |node, _| {
        node.shard.as_ref().map_or(0, |shard| waiting_batons(shard) as u64)
    })];
