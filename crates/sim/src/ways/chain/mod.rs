//! Chains in the simulator.

use claret_core::Client;
use claret_core::ways::WaySwitches;

use super::Way;
use crate::config::Config;
use crate::random::Random;
use crate::settings::Setting;

pub(super) type Level = ();

/// See the module's text.
pub(super) struct Chain;

impl Way for Chain {
    type Level = Level;

    fn draw(_random: &mut Random) {}

    fn setting((): &mut ()) -> Option<(&'static str, Setting<'_>)> {
        None
    }

    fn switch(_config: &Config, _ways: &mut WaySwitches) {}

    fn renumbers((): &()) -> bool {
        false
    }

    fn word() -> Option<(&'static str, WaySwitches)> {
        None
    }

    fn show(_client: &Client) -> Option<String> {
        None
    }
}
