//! The address of a server.

use std::fmt;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// A host by its name or its number, and its port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Address { host: host.into(), port }
    }

    /// The host. An IPv6 address is without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| Address::new(host, port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_is_read_as_it_is_shown() {
        for host in ["10.0.0.1", "node-1.example", "::1"] {
            let address = Address::new(host, 7000);
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
        for wrong in ["", "host", ":7000", "host:", "host:0", "host:70000", "[]:1"] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }
}
