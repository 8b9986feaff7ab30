//! The address of a server.

use std::fmt;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// Reads what [`Display`](fmt::Display) writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| Address { host: host.to_owned(), port })
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
            let address = Address { host: host.into(), port: 7000 };
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
        for wrong in ["", "host", ":7000", "host:", "host:0", "host:70000", "[]:1"] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }
}
