//! The log of a durable store (`docs/durability.md`, D1 to D16).
//!
//! All shards of a store write to one log: committed transactions, in the order in which they took effect. [`Tail`] gathers them,
//! [`Writer`] writes what was gathered as one group, with one sync, and [`recover`] reads all of it again. A snapshot
//! ([`SnapshotWriter`]) lets what is older than it be removed. [`back_up`] copies
//! a store that is in use.
//!
//! Nothing here starts a thread, reads a clock or waits. Files are on a [`Disk`]: a [`Folder`], or one that a test makes up.

mod backup;
mod disk;
mod entry;
mod error;
mod folder;
mod format;
mod frames;
mod lives;
mod manifest;
mod names;
mod recovery;
mod snapshot;
mod tail;
mod writer;

pub use backup::{back_up, back_up_folder};
pub use disk::{Disk, Folder};
pub use error::LogError;
pub use folder::{FolderLock, create_folder};
pub use format::{SEGMENT_BYTES_MAX, VERSION};
pub use lives::{LeftOf, Lives};
pub use names::{BACKUP_UNFINISHED, is_of_a_store};
pub use recovery::{Progress, Recovered, Salvaged, Torn, recover, recover_until_damage};
pub use snapshot::{SnapshotWriter, UNFINISHED};
pub use tail::{Gathered, Tail};
pub use writer::Writer;
