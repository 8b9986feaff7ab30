//! Which files a store's folder may have.

use crate::folder::LOCK;
use crate::format::Kind;
use crate::manifest::{MANIFEST, MANIFEST_UNFINISHED};
use crate::snapshot::UNFINISHED;

/// Is in a backup until it is whole.
pub const BACKUP_UNFINISHED: &str = "backup.unfinished";

/// Files that are beside those of the log.
pub(crate) const BESIDE: &[&str] = &[LOCK, MANIFEST, MANIFEST_UNFINISHED, UNFINISHED, BACKUP_UNFINISHED];

/// Whether a file of this name may be one of a store's folder.
pub fn is_of_a_store(name: &str) -> bool {
    Kind::Log.position(name).or_else(|| Kind::Snapshot.position(name)).is_some() || BESIDE.contains(&name)
}
