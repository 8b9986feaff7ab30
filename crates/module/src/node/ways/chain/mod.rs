//! Chains (docs/chains.md): whether this node takes them.

use claret_core::ways::chain::Switch;

use crate::node::settings::Setting;

pub(super) const SETTINGS: &[&Setting] = &[&CHAINS];

static CHAINS: Setting = Setting::of_words(
    "chains",
    &[c"no", c"yes"],
    "whether transactions may commit from node to node ([chains](chains.md)); otherwise they commit in two rounds, whatever a client \
     asks for. It needs a cluster and claret.peer-secret-file",
);

/// They are taken where the operator says so; without a secret anybody could forge a token (K9).
pub(super) fn switch(is_clustered: bool, has_secret: bool) -> Switch {
    match is_clustered && has_secret && CHAINS.get() == 1 {
        true => Switch::Always,
        false => Switch::Never,
    }
}
