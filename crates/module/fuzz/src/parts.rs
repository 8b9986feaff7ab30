//! What envelopes need of the module, by the paths that they use there.

#[path = "../../src/parts/seals.rs"]
pub(crate) mod seals;
