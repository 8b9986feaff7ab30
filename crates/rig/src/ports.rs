//! Free ports. Between the look and the server's own bind somebody else may take one: whoever starts a server on
//! a port from here tries another one then.

use std::collections::HashSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::{BUS_OFFSET, RigError};

/// Where free ports are looked for: below those that the system gives to clients, with the bus ports too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 9_000;

/// How many ports are tried.
const TRIES: usize = 1_000;

/// What Linux says of the ports that it gives to outgoing connections.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Those of systems that do not say (RFC 6335, section 6).
const DYNAMIC_PORTS: RangeInclusive<u16> = 49_152..=u16::MAX;

/// Where this process looks next.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Whether nobody listens on this port of the loopback interface.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The ports that the system gives to outgoing connections. A server that listens on one of them finds it taken now and
/// then, by a connection that has nothing to do with it.
pub fn ephemeral_ports() -> RangeInclusive<u16> {
    fs::read_to_string(EPHEMERAL).ok().and_then(|text| parse_range(&text)).unwrap_or(DYNAMIC_PORTS)
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_whitespace().map(str::parse);
    let (Some(Ok(first)), Some(Ok(last)), None) = (words.next(), words.next(), words.next()) else {
        return None;
    };
    Some(first..=last)
}

/// A port that is free, with that of its cluster bus, and is none of these.
pub(crate) fn free(taken: &HashSet<u16>) -> Result<u16, RigError> {
    for _ in 0..TRIES {
        // Processes begin at different places and go different ways.
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (u32::from(step) * 7 + std::process::id() * 131) as u16 % COUNT;
        if !taken.contains(&port) && is_free(port) && is_free(port + BUS_OFFSET) {
            return Ok(port);
        }
    }
    Err(RigError::NoPort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_outgoing_connections_is_read() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32_768..=60_999));
        for wrong in ["", "32768", "32768 70000", "1 2 3", "a b"] {
            assert_eq!(parse_range(wrong), None, "{wrong}");
        }
    }
}
