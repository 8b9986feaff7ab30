//! What a check says.

/// What is wrong, in a sentence.
pub(crate) type Violation = String;
