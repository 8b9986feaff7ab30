//! Ordered by timestamp (P73 to P88), the shard's side: the clocks (`horizon`), what an attempt votes and does at its timestamp (`placing`),
//! and what a host asks and says (`ordering`). `lock/ways/ordered/` in the lock table has the records' side.

pub(in crate::shard) mod horizon;
mod ordering;
mod placing;
