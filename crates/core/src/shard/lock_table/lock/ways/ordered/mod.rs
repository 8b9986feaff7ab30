//! Ordered by timestamp (P73 to P88), the records' side: the timestamp queue of a record (`line`) and what its lock does with it
//! (`locking`), the clocks of records (`clocks`) and what calls use of them (`used`).

pub(in crate::shard::lock_table) mod clocks;
pub(in crate::shard::lock_table) mod line;
pub(in crate::shard::lock_table) mod locking;
pub(in crate::shard::lock_table) mod used;
