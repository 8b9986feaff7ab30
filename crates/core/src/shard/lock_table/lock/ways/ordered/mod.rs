//! Ordered by timestamp (P73 to P88), the records' side: the timestamp queue of a record (`line`), the clocks of records (`clocks`), and
//! which records are ordered (`heat`).

pub(in crate::shard::lock_table) mod clocks;
pub(in crate::shard::lock_table) mod heat;
pub(in crate::shard::lock_table) mod line;
