//! Chains (docs/chains.md), set by the builder.

use crate::cluster::builder::ClusterBuilder;
use crate::cluster::ways::Chains;

impl ClusterBuilder {
    /// Which transactions of this process over several nodes commit in chains (docs/chains.md): each node hands the commit on
    /// to the next one, and the last one decides. By default they commit in two rounds. The parameter `chains` of a URL says the same
    /// (`never`, `hot` or `always`). Nodes without a secret for each other (`claret.peer-secret-file`), or with
    /// `claret.durability strict`, take no chains: with them it is two rounds, too.
    #[doc(hidden)]
    pub fn chains(mut self, chains: Chains) -> Self {
        self.ways.chain = Some(chains);
        self
    }
}
