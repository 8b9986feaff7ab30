//! Chains (`docs/chains.md`).
