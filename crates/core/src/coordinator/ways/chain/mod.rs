//! Chains, on the side that commits.

use super::Way;

/// How an attempt goes on in a chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain;

impl Way for Chain {}
