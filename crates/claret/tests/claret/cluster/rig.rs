//! The clusters that these tests run on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use claret_rig::{Cluster, Module};

/// A cluster of one's own, to be broken.
pub(crate) fn fresh(masters: u16) -> Cluster {
    let module = Module::of_sources().expect("the module");
    Cluster::options(masters, 0).module(module).start().expect("a cluster")
}

/// The cluster that all tests share that do it no harm. Its servers end with this process. It never asks for timestamps: under the load
/// of several tests it might try to (P87), what is open then runs again, and these tests know how often their closures run.
pub(crate) fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| with_ordering(0))
}

/// The same, where all is ordered that can be: for tests that do not mind how often a closure runs.
pub(crate) fn all_ordered() -> &'static Cluster {
    static ALL_ORDERED: OnceLock<Cluster> = OnceLock::new();
    ALL_ORDERED.get_or_init(|| with_ordering(2))
}

fn with_ordering(ordering: u8) -> Cluster {
    let module = Module::of_sources().expect("the module");
    let options = Cluster::options(4, 0).module(module).config(&format!("claret.ordering {ordering}"));
    options.start().expect("a cluster")
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

/// Changes an access control list: that of the user whom the tests are, to what it never was before. It may do all that it might.
pub(crate) fn change_rights(cluster: &Cluster, master: usize) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let more = format!("(~{} +get)", NEXT.fetch_add(1, Ordering::Relaxed));
    cluster.query::<()>(master, &["ACL", "SETUSER", "default", "clearselectors", &more]).expect("changed");
}
