//! Ordered by timestamp (P73 to P88), the shard's side: the clocks (`safe_time`), whether it asks for timestamps
//! (`adaptive`), what an attempt votes and does at its timestamp (`placing`),
//! and what a host asks and says (`ordering`). `lock/ways/ordered/` in the lock table has the records' side.

pub(in crate::shard) mod adaptive;
mod ordering;
mod placing;
pub(in crate::shard) mod safe_time;
