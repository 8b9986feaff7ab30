//! Versions of the records in a shard's own memory (O10 of `docs/optimistic.md`).

use super::Shard;
use crate::versions::Versions;

impl Shard {
    /// Versions are of this epoch from now on, which no other shard has, and this one never had. The host makes sure of that: a shard
    /// that keeps its records knows only which incarnation it is.
    pub fn begin_versions(&mut self, epoch: u64) {
        self.table.begin_versions(Versions::new(epoch, self.limits.versions_bytes_max));
    }

    /// The versions that were asked for and are not over. External records have theirs at the host.
    pub fn versions(&self) -> &Versions {
        self.table.versions()
    }
}
