//! The bugs that can be planted there, and are not.

#[path = "../../src/parts/planted/replicas.rs"]
pub(crate) mod replicas;
