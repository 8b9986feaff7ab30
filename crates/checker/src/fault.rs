//! The kinds of faults, by name.

use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A node stops in its tracks (SIGSTOP), and goes on.
    Stop,
    /// A process with clients is killed (SIGKILL), and another takes its place.
    Kill,
    /// A process with clients stops for longer than its lease, and goes on.
    Freeze,
    /// Connections are cut, in the midst of a frame or a reply, by proxies and by CLIENT KILL.
    Cut,
    /// Records in use expire (PEXPIRE).
    Expire,
    /// A node is flushed (FLUSHALL).
    Flush,
    /// Access lists change, and rights are withdrawn and given back.
    Rights,
    /// A slot with records in use moves to another node.
    Slots,
    /// A script runs without an end, until it is killed.
    Scripts,
    /// A node has no memory left (maxmemory).
    Memory,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 10] = [
        Fault::Stop,
        Fault::Kill,
        Fault::Freeze,
        Fault::Cut,
        Fault::Expire,
        Fault::Flush,
        Fault::Rights,
        Fault::Slots,
        Fault::Scripts,
        Fault::Memory,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Stop => "stop",
            Fault::Kill => "kill",
            Fault::Freeze => "freeze",
            Fault::Cut => "cut",
            Fault::Expire => "expire",
            Fault::Flush => "flush",
            Fault::Rights => "rights",
            Fault::Slots => "slots",
            Fault::Scripts => "scripts",
            Fault::Memory => "memory",
        }
    }

    /// The faults of a comma-separated list; `all` is all of them.
    ///
    /// # Errors
    /// A name that is none.
    pub fn parse_list(text: &str) -> Result<Vec<Fault>, String> {
        if text == "all" {
            return Ok(Fault::ALL.to_vec());
        }
        let parse = |name: &str| {
            Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| {
                let names = Fault::ALL.map(Fault::name);
                format!("there is no fault '{name}'; the faults are all, {}", names.join(", "))
            })
        };
        text.split(',').map(parse).collect()
    }

    /// Whether records end by it.
    pub(crate) fn ends_records(self) -> bool {
        matches!(self, Fault::Expire | Fault::Flush)
    }

    /// Whether it is of a process with clients: two such do not strike at once.
    pub fn is_of_clients(self) -> bool {
        matches!(self, Fault::Kill | Fault::Freeze)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_chosen_by_name() {
        assert_eq!(Fault::parse_list("all").map(|all| all.len()), Ok(10));
        assert_eq!(Fault::parse_list("cut,flush"), Ok(vec![Fault::Cut, Fault::Flush]));
        assert!(Fault::parse_list("cut,rain").is_err_and(|error| error.contains("'rain'")));
    }
}
