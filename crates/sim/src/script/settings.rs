//! The bounds and switches that a script may set, by name.

use claret_core::ways::{ProcessWay, WaySwitches};
use claret_core::{Discipline, Limits, Ordered, Switches};

use crate::config::discipline;

/// Sets bounds, named as the fields of [`Limits`].
pub(super) fn limits(limits: &mut Limits, pairs: &[(String, u64)]) -> Result<(), String> {
    pairs.iter().try_for_each(|(name, value)| set_limit(limits, name, *value))
}

fn set_limit(limits: &mut Limits, name: &str, value: u64) -> Result<(), String> {
    let mut known = Vec::new();
    let mut done = None;
    macro_rules! settable {
        ($($field:ident),*) => {$(
            known.push(stringify!($field));
            if name == stringify!($field) {
                done = Some(value.try_into().map(|value| limits.$field = value).is_ok());
            }
        )*};
    }
    settable!(
        phase_joins_max,
        phase_us_max,
        waiters_max,
        settle_misses_max,
        lease_us,
        inquire_us,
        inquire_us_max,
        give_way_us,
        hot_waits_min,
        resend_us,
        backoff_us_min,
        backoff_us_max,
        lock_tries_max,
        group_members_max,
        combine_misses_max,
        group_wait_us_max
    );
    match done {
        Some(true) => Ok(()),
        Some(false) => Err(format!("{value} is too large for {name}")),
        None => Err(format!("'{name}' is no limit; the limits are {}", known.join(", "))),
    }
}

/// What a script switches. Ways that have all transactions of a client are its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switching {
    is_reader_writer: bool,
    is_unphased: bool,
    is_direct: bool,
    ways: WaySwitches,
}

impl Switching {
    /// Takes values by the names of what they are of.
    pub(super) fn set(&mut self, pairs: &[(String, String)]) -> Result<(), String> {
        for (name, value) in pairs {
            match (name.as_str(), value.as_str()) {
                ("phasing", "on") => self.is_unphased = false,
                ("phasing", "off") => self.is_unphased = true,
                ("locks", "abstract") => self.is_reader_writer = false,
                ("locks", "reader-writer") => self.is_reader_writer = true,
                ("delivery", "network") => self.is_direct = false,
                ("delivery", "direct") => self.is_direct = true,
                ("commit", "rounds") => self.ways = WaySwitches::ROUNDS,
                ("commit", way) if WaySwitches::named(way).is_some() => {
                    self.ways = WaySwitches::named(way).unwrap_or_default();
                }
                _ => {
                    return Err(format!(
                        "'{name}={value}' is no switch; the switches are phasing=on|off, locks=abstract|reader-writer, \
                         delivery=network|direct, commit=rounds or the name of a way"
                    ));
                }
            }
        }
        self.switches(None).map(drop)
    }

    /// The switches of shards, and of a client whose transactions this way has.
    pub(super) fn switches(self, way: Option<ProcessWay>) -> Result<Switches, String> {
        let discipline = discipline(self.is_reader_writer, !self.is_unphased);
        let in_rounds = self.ways == WaySwitches::ROUNDS;
        match (self.is_direct, discipline, way) {
            (true, Discipline::AbstractPhased, Some(way)) if in_rounds => Ok(Switches::in_process_by(way)),
            (true, discipline, None) if in_rounds => Ok(Switches::in_process(discipline)),
            (false, Discipline::AbstractPhased, Some(way)) => {
                Ok(Switches::over_network_by(way, Ordered::Never, self.ways))
            }
            (false, Discipline::AbstractPhased, None) => {
                Ok(Switches::claret(Ordered::Never, false, self.ways))
            }
            (false, discipline, None) if in_rounds => Ok(Switches::over_network(discipline)),
            _ => {
                Err("ways to commit go with abstract locks in phases, and those that `commit` names over a network"
                    .into())
            }
        }
    }
}
