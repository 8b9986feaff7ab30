//! Chains (docs/chains.md): the modes `chain` and `hot-chain`.

use claret::cluster::ClusterBuilder;
use claret::lab::Chains;

fn chains(mode: &str) -> Option<Chains> {
    match mode {
        "chain" => Some(Chains::Always),
        "hot-chain" => Some(Chains::Hot),
        _ => None,
    }
}

/// With a secret for each other, which servers of all these modes have, and this, nodes take chains.
pub(super) fn server_settings(mode: &str) -> &'static [&'static str] {
    if chains(mode).is_some() { &["claret.chains yes"] } else { &[] }
}

pub(super) fn set(mode: &str, store: ClusterBuilder) -> ClusterBuilder {
    match chains(mode) {
        Some(chains) => store.chains(chains),
        None => store,
    }
}
