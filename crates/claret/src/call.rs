//! A call: an operation and its record.

use claret_types::{Bytes, Operation};

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: Bytes,
    pub(crate) op: Operation,
}
