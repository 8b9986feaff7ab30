//! Chains (`docs/chains.md`), as a seed draws them.

use claret_core::message::WayWords;
use claret_core::ways::chain::{Switch, Token};

use crate::random::Random;
use crate::setting::Setting;
use crate::ways::Others;

/// What a seed draws of chains.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Whether transactions over several shards commit in chains: 0 never, 1 where they can, 2 where records are hot.
    chains: u32,
}

impl Chain {
    /// It is drawn with the latest.
    pub(super) fn draw(_random: Random) -> Chain {
        Chain::default()
    }

    pub(super) fn draw_latest(&mut self, others: &mut Others<'_>, mut random: Random) {
        self.chains = *random.pick(&[0, 0, 0, 1, 2]);
        if random.chance(100) {
            self.devote(others);
        }
    }

    /// Chains over many shards, with words between shards that are lost.
    fn devote(&mut self, others: &mut Others<'_>) {
        self.chains = 1;
        (*others.direct, *others.phasing, *others.ordering) = (false, true, 0);
        (*others.shards, *others.keys) = ((*others.shards).max(3), (*others.keys).max(4));
        *others.steps_max = (*others.steps_max).max(4);
        *others.single_permille = 0;
        *others.interactive_permille = (*others.interactive_permille).min(300);
    }

    pub(super) fn switch(&self) -> Switch {
        match self.chains {
            0 => Switch::Never,
            1 => Switch::Always,
            _ => Switch::Hot,
        }
    }

    pub(super) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![("chains", Setting::Small(&mut self.chains))]
    }
}

/// A token says that its sender has written yes, where the client may not hear of that (K5).
pub(super) fn says_yes(words: &WayWords) -> bool {
    Token::read(words).is_some()
}
