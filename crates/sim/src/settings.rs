//! Every setting of a configuration by its name: so that one line tells how a run differs from what its seed gives,
//! and that line replays it.

use claret_core::Limits;

use crate::config::Config;
use crate::setting::Setting;

/// All of them, in the order in which shrinking tries them.
pub(crate) fn settings(config: &mut Config) -> Vec<(&'static str, Setting<'_>)> {
    use Setting::{Flag, List, Number, Small};
    let Config { limits, network, faults, programs, .. } = config;
    let of_runs = vec![
        ("sessions", Small(&mut config.sessions)),
        ("workers", Small(&mut config.workers)),
        ("transactions", Small(&mut config.transactions)),
        ("shards", Small(&mut config.shards)),
        ("skip", List(&mut config.skip)),
        ("keys", Small(&mut config.keys)),
        ("families", Small(&mut config.families)),
        ("added_permille", Number(&mut config.added_permille)),
        ("commands_permille", Number(&mut config.commands_permille)),
        ("sleeping_permille", Number(&mut config.sleeping_permille)),
        ("probes_permille", Number(&mut config.probes_permille)),
        ("restarts", Small(&mut faults.restarts)),
        ("survives", Small(&mut faults.survives)),
        ("replicated", Flag(&mut config.replicated)),
        ("deaths", List(&mut faults.deaths)),
        ("asks_permille", Number(&mut faults.asks_permille)),
        ("outages", Small(&mut faults.outages)),
        ("reconnects", Small(&mut faults.reconnects)),
        ("pauses", Small(&mut faults.pauses)),
        ("clocks", Flag(&mut faults.clocks)),
        ("refusals", Small(&mut faults.refusals)),
        ("expiries", Small(&mut faults.expiries)),
        ("flushes", Small(&mut faults.flushes)),
        ("moves", Small(&mut faults.moves)),
        ("leaves", Flag(&mut faults.leaves)),
        ("refused_frames_permille", Number(&mut faults.refused_frames_permille)),
        ("endless", Flag(&mut faults.endless)),
        ("until_us", Number(&mut faults.until_us)),
        ("span_us_max", Number(&mut faults.span_us_max)),
        ("held", Small(&mut network.held)),
        ("held_us", Number(&mut network.held_us)),
        ("lost_permille", Number(&mut network.lost_permille)),
        ("doubled_permille", Number(&mut network.doubled_permille)),
        ("slow_permille", Number(&mut network.slow_permille)),
        ("slow_us_max", Number(&mut network.slow_us_max)),
        ("delay_us_min", Number(&mut network.delay_us_min)),
        ("delay_us_max", Number(&mut network.delay_us_max)),
        ("ordered", Flag(&mut network.ordered)),
        ("framed", Flag(&mut network.framed)),
        ("pacing", Small(&mut config.pacing)),
        ("steps_max", Number(&mut programs.steps_max)),
        ("single_permille", Number(&mut programs.single_permille)),
        ("interactive_permille", Number(&mut programs.interactive_permille)),
        ("abort_permille", Number(&mut programs.abort_permille)),
        ("reserve_permille", Number(&mut programs.reserve_permille)),
        ("mistaken_permille", Number(&mut programs.mistaken_permille)),
        ("think_us_max", Number(&mut programs.think_us_max)),
        ("pause_us_max", Number(&mut programs.pause_us_max)),
        ("stale_permille", Number(&mut programs.stale_permille)),
        ("abandon_permille", Number(&mut programs.abandon_permille)),
        ("unreadable_permille", Number(&mut programs.unreadable_permille)),
        ("keyspace_permille", Number(&mut programs.keyspace_permille)),
        ("optimistic_permille", Number(&mut programs.optimistic_permille)),
        ("savepoints_permille", Number(&mut programs.savepoints_permille)),
        ("demands_permille", Number(&mut programs.demands_permille)),
        ("batching", Flag(&mut config.batching)),
        ("reader_writer", Flag(&mut config.reader_writer)),
        ("phasing", Flag(&mut config.phasing)),
        ("direct", Flag(&mut config.direct)),
        ("external", Flag(&mut config.external)),
        ("ordering", Small(&mut config.ordering)),
    ];
    let last = [("finish_us_max", Number(&mut config.finish_us_max))];
    of_runs.into_iter().chain(config.ways.settings()).chain(last).chain(of_limits(limits)).collect()
}

/// Those of the protocol's bounds.
fn of_limits(limits: &mut Limits) -> Vec<(&'static str, Setting<'_>)> {
    use Setting::{Number, Size, Small};
    vec![
        ("phase_joins_max", Small(&mut limits.phase_joins_max)),
        ("phase_us_max", Number(&mut limits.phase_us_max)),
        ("settle_misses_max", Small(&mut limits.settle_misses_max)),
        ("lease_us", Number(&mut limits.lease_us)),
        ("inquire_us", Number(&mut limits.inquire_us)),
        ("inquire_us_max", Number(&mut limits.inquire_us_max)),
        ("give_way_us", Number(&mut limits.give_way_us)),
        ("hot_waits_min", Small(&mut limits.hot_waits_min)),
        ("skew_us_max", Number(&mut limits.skew_us_max)),
        ("passed_us", Number(&mut limits.passed_us)),
        ("told_ahead_us", Number(&mut limits.told_ahead_us)),
        ("order_trial_us", Number(&mut limits.order_trial_us)),
        ("order_trial_calls_min", Number(&mut limits.order_trial_calls_min)),
        ("resend_us", Number(&mut limits.resend_us)),
        ("lock_tries_max", Small(&mut limits.lock_tries_max)),
        ("answers_bytes_max", Size(&mut limits.answers_bytes_max)),
        ("again_bytes_max", Size(&mut limits.again_bytes_max)),
        ("combine_misses_max", Small(&mut limits.combine_misses_max)),
        ("group_wait_us_max", Number(&mut limits.group_wait_us_max)),
    ]
}

impl Config {
    /// Changes settings, given as `name=value,name=value`; lists are written `1+2+3`.
    ///
    /// # Errors
    /// When a name or a value is none, with what would be.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let mut all = settings(self);
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            let Some((_, setting)) = all.iter_mut().find(|(known, _)| *known == name) else {
                return Err(format!("there is no setting '{name}'; the settings are {}", names.join(", ")));
            };
            if !setting.read(value) {
                return Err(format!("'{value}' is no value of {name}, which is {}", setting.show()));
            }
        }
        // Whether the two fit depends on what the seed drew.
        self.network.delay_us_min = self.network.delay_us_min.min(self.network.delay_us_max);
        self.check()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let counts = [self.shards, self.sessions, self.workers, self.keys, self.families];
        if counts.contains(&0) {
            return Err("shards, sessions, workers, keys and families are at least 1".to_owned());
        }
        // Time must pass between two tries, or they never end.
        let Config { limits, faults, network, programs, .. } = self;
        let never_0 = [
            ("until_us", faults.until_us),
            ("span_us_max", faults.span_us_max),
            ("slow_us_max", network.slow_us_max),
            ("steps_max", programs.steps_max),
            ("lease_us", limits.lease_us),
            ("inquire_us", limits.inquire_us),
            ("inquire_us_max", limits.inquire_us_max),
            ("resend_us", limits.resend_us),
            ("again_bytes_max", limits.again_bytes_max as u64),
        ];
        if let Some((name, _)) = never_0.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} is at least 1"));
        }
        Ok(())
    }

    /// Every setting, as [`Config::set`] reads it.
    pub fn all(&self) -> String {
        let mut config = self.clone();
        let shown =
            settings(&mut config).into_iter().map(|(name, setting)| format!("{name}={}", setting.show()));
        shown.collect::<Vec<_>>().join(",")
    }

    /// In what it differs from another, as [`Config::set`] reads it.
    pub fn differences(&self, from: &Config) -> String {
        let (mut one, mut other) = (self.clone(), from.clone());
        let pairs = settings(&mut one).into_iter().zip(settings(&mut other));
        let shown = pairs.map(|((name, setting), (_, before))| (name, setting.show(), before.show()));
        shown
            .filter(|(_, now, before)| now != before)
            .map(|(name, now, _)| format!("{name}={now}"))
            .collect::<Vec<_>>()
            .join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_read_back() {
        for seed in 0..50 {
            let (mut one, other) = (Config::random(seed), Config::random(seed + 1));
            let text = other.differences(&one);
            one.set(&text).expect("a configuration");
            assert_eq!(other.differences(&one), "", "seed {seed}: {text}");
        }
    }

    #[test]
    fn what_is_no_setting_is_named() {
        let config = || Config::random(1);
        let error = config().set("shard=2").expect_err("no setting");
        assert!(error.starts_with("there is no setting 'shard'; the settings are sessions, "), "{error}");
        let error = config().set("shards=two").expect_err("no number");
        assert!(error.starts_with("'two' is no value of shards, which is "), "{error}");
        assert!(config().set("shards=0").is_err() && config().set("inquire_us=0").is_err());
    }
}
