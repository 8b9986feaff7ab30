//! The clusters that these tests run on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use claret_rig::Cluster;

/// A cluster of one's own, to be broken.
pub(crate) fn fresh(masters: u16) -> Cluster {
    Cluster::options(masters, 0).start().expect("a cluster")
}

/// The cluster that all tests share that do it no harm. Its servers end with this process.
pub(crate) fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| fresh(4))
}

/// The beginning of keys that no other test uses.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Keys on different shards.
pub(crate) fn keys(cluster: &Cluster) -> Vec<String> {
    let prefix = prefix();
    (0..cluster.masters()).map(|shard| cluster.key_at(shard, &prefix)).collect()
}
