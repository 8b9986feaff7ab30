//! Chains, on the side that takes part.

use super::Way;

/// The chains of a shard.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain;

impl Way for Chain {}
