//! What knows no global: state machines and plain data, which are given whatever they need to know.

pub(crate) mod error;
