//! Chains (`docs/chains.md`): what both sides know of them.
