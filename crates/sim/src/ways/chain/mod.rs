//! Chains (`docs/chains.md`), as a seed draws them.

use claret_core::message::WayWords;
use claret_core::ways::chain::{Token, Switch};

use crate::config::Config;
use crate::random::Random;
use crate::settings::Setting;

/// What a seed draws of chains.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Whether transactions over several shards commit in chains: 0 never, 1 where they can, 2 where records are hot.
    chains: u32,
}

impl Chain {
    /// It is drawn with the latest.
    pub(super) fn draw(_random: &mut Random) -> Chain {
        Chain::default()
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

pub(super) fn draw_latest(config: &mut Config, random: &mut Random) {
    config.ways.chain.chains = *random.pick(&[0, 0, 0, 1, 2]);
    if random.chance(100) {
        devote(config);
    }
}

/// Chains over many shards, with words between shards that are lost.
fn devote(config: &mut Config) {
    config.ways.chain.chains = 1;
    (config.direct, config.phasing, config.ordering) = (false, true, 0);
    (config.shards, config.keys) = (config.shards.max(3), config.keys.max(4));
    config.programs.steps_max = config.programs.steps_max.max(4);
    config.programs.single_permille = 0;
    config.programs.interactive_permille = config.programs.interactive_permille.min(300);
}

/// A token says that its sender has written yes, where the client may not hear of that (K5).
pub(super) fn says_yes(words: &WayWords) -> bool {
    Token::read(words).is_some()
}
