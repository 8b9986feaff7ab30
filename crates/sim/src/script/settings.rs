//! The bounds and switches that a script may set, by name.

use claret_core::ways::WaySwitches;
use claret_core::{Delivery, Limits, Locks, Switches};

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

/// Sets switches. Ways that have all transactions of a client are its own.
pub(super) fn switches(switches: &mut Switches, pairs: &[(String, String)]) -> Result<(), String> {
    for (name, value) in pairs {
        match (name.as_str(), value.as_str()) {
            ("phasing", "on") => switches.phasing = true,
            ("phasing", "off") => switches.phasing = false,
            ("locks", "abstract") => switches.locks = Locks::Abstract,
            ("locks", "reader-writer") => switches.locks = Locks::ReaderWriter,
            ("delivery", "network") => switches.delivery = Delivery::Network,
            ("delivery", "direct") => switches.delivery = Delivery::Direct,
            ("commit", "rounds") => switches.ways = WaySwitches::ROUNDS,
            ("commit", way) if WaySwitches::named(way).is_some() => {
                switches.ways = WaySwitches::named(way).unwrap_or_default();
            }
            _ => {
                return Err(format!(
                    "'{name}={value}' is no switch; the switches are phasing=on|off, locks=abstract|reader-writer, \
                     delivery=network|direct, commit=rounds or the name of a way"
                ));
            }
        }
    }
    Ok(())
}
