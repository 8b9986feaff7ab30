//! Free ports. Between the look and the server's own bind somebody else may take one: whoever starts a server on
//! a port from here tries another one then.

use std::collections::HashSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::{BUS_OFFSET, RigError};

/// Where free ports are looked for: below those that the system gives to clients, with the bus ports too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 9_000;

/// How many ports are tried.
const TRIES: usize = 1_000;

/// Where this process looks next.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Whether nobody listens on this port of the loopback interface.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
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
