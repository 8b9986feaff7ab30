//! The ports of a local cluster: one for each server, and one for its cluster bus, [`BUS_OFFSET`] above.
//!
//! None of them is one that the system gives to outgoing connections, where that can be had: such a port is taken by chance,
//! often by a connection between the cluster's own servers.

use std::ops::{Range, RangeInclusive};

use claret_rig::{BUS_OFFSET, PORT_MAX, ephemeral_ports, is_free};

/// Where ports begin, unless it is said otherwise: where the tutorials of Redis Cluster have theirs.
pub(super) const FIRST: u16 = 7000;

/// How far apart the ports are that are looked at when those are taken. All between are left alone if any is: another cluster may be
/// there, of which a server has died, and a server in its place would keep the others from seeing that.
pub(super) const STEP: u16 = 100;

/// The lowest port that a user may listen on who is not root.
const LEAST: u16 = 1024;

/// The ports that were asked for, else so many that are free, from `least` on.
///
/// # Errors
/// Those that were asked for cannot be had; what to say instead.
pub(super) fn choose(asked: Option<u16>, count: u16, least: u16) -> Result<Vec<u16>, String> {
    let ephemeral = ephemeral_ports();
    if let Some(first) = asked {
        check(first, count, &ephemeral)?;
        return match block(first, count).find(|&port| !is_free(port) || !is_free(port + BUS_OFFSET)) {
            None => Ok(block(first, count).collect()),
            Some(port) => Err(format!(
                "port {port} is in use (or {}, of its cluster bus); choose another --port",
                port + BUS_OFFSET
            )),
        };
    }
    let any_is_safe = has_safe(count, &ephemeral);
    let is_safe = |first: &u16| !any_is_safe || trouble(*first, count, &ephemeral).is_none();
    let free = first_free(least, count, is_safe, is_free);
    free.map(|first| block(first, count).collect())
        .ok_or_else(|| "no free ports were found; say --port P".into())
}

/// Where so many ports are free, with those of their buses, and nobody is beside them.
fn first_free(
    least: u16,
    count: u16,
    is_safe: impl Fn(&u16) -> bool,
    is_free: impl Fn(u16) -> bool,
) -> Option<u16> {
    let mut all = (least..PORT_MAX - count).step_by(usize::from(STEP)).filter(is_safe);
    let is_alone = |first: &u16| {
        block(*first, STEP.max(count)).all(&is_free)
            && block(*first, count).all(|port| is_free(port + BUS_OFFSET))
    };
    all.find(is_alone)
}

/// Whether so many ports from this one on may be used.
fn check(first: u16, count: u16, ephemeral: &RangeInclusive<u16>) -> Result<(), String> {
    if first == 0 || first > PORT_MAX - count {
        return Err(format!(
            "--port {first}: from 1 to {}, to leave room for the cluster bus",
            PORT_MAX - count
        ));
    }
    let Some(port) = trouble(first, count, ephemeral).filter(|_| has_safe(count, ephemeral)) else {
        return Ok(());
    };
    let (from, to) = (ephemeral.start(), ephemeral.end());
    Err(format!(
        "--port {first}: port {port} (of a server, or of its cluster bus, {BUS_OFFSET} above) is one of those that the system \
         gives to outgoing connections, {from} to {to}; choose a --port such that neither is, for example {FIRST}"
    ))
}

fn block(first: u16, count: u16) -> Range<u16> {
    first..first + count
}

/// A port of these, or of their buses, that an outgoing connection may have.
fn trouble(first: u16, count: u16, ephemeral: &RangeInclusive<u16>) -> Option<u16> {
    let both = block(first, count).flat_map(|port| [port, port + BUS_OFFSET]);
    both.into_iter().find(|port| ephemeral.contains(port))
}

/// Whether so many ports in a row are free of that anywhere. Some systems give nearly all ports to outgoing connections.
fn has_safe(count: u16, ephemeral: &RangeInclusive<u16>) -> bool {
    (LEAST..PORT_MAX - count).any(|first| trouble(first, count, ephemeral).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: the port of a bus could be one that the system gives to outgoing connections. Consequence: a cluster did not
    /// start, or did not start again, because a connection had its port. Mend: such ports are neither chosen nor taken.
    #[test]
    fn no_port_is_one_of_outgoing_connections() {
        let linux = 32_768..=60_999;
        for (first, named) in [(40_000, "40000"), (25_000, "35000"), (22_766, "32768"), (32_766, "32768")] {
            let error = check(first, 4, &linux).expect_err("refused");
            assert!(error.contains(named) && error.contains("32768 to 60999"), "{first}: {error}");
        }
        for first in [7_000, 22_764, 1] {
            check(first, 4, &linux).unwrap_or_else(|error| panic!("{first}: {error}"));
        }
        // Below the range with its bus above it.
        check(30_000, 4, &(35_000..=39_000)).expect("neither is in the range");
        // Where nearly all are of this kind there is nothing better.
        check(7_000, 4, &(LEAST..=u16::MAX)).expect("taken");
    }

    #[test]
    fn there_is_room_for_the_bus() {
        for first in [0, 55_532, 60_000] {
            assert!(check(first, 4, &(1..=2)).expect_err("refused").contains("cluster bus"), "{first}");
        }
    }

    /// Bug: the first server of a cluster had died, and another cluster was started at its port. The servers of the first met a
    /// stranger there, took the dead one for one without an address, and no replica ever took over.
    #[test]
    fn ports_beside_those_of_others_are_left_alone() {
        let chosen = |taken: u16| first_free(FIRST, 2, |_| true, |port| port != taken);
        assert_eq!(chosen(1), Some(FIRST));
        for taken in [FIRST, FIRST + 1, FIRST + 5, FIRST + BUS_OFFSET] {
            assert_eq!(chosen(taken), Some(FIRST + STEP), "{taken}");
        }
    }

    #[test]
    fn what_is_chosen_is_safe() {
        let ephemeral = ephemeral_ports();
        let ports = choose(None, 4, FIRST).expect("free ports");
        assert!(!has_safe(4, &ephemeral) || trouble(ports[0], 4, &ephemeral).is_none());
    }
}
