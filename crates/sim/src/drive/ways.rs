//! What users of a way to commit do, where it is more than to commit.

mod check_only;
