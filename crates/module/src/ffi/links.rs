//! The links of the cluster bus that the server opened, made quick: it leaves them with Nagle's algorithm, so a small message waits
//! for the acknowledgement of the one before, which the other side puts off for tens of milliseconds. A message
//! by which a commit goes on that waits so long holds its records meanwhile.

use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{FromRawFd, RawFd};

/// Links that were made quick.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Their file descriptors. The server may have closed some since, and reused the numbers.
    quick: Vec<RawFd>,
}

impl Links {
    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.quick.len()
    }

    /// Whether there are as many as ports, and they are still what they were. O(ports).
    pub(crate) fn are_quick(&self, ports: &[u16]) -> bool {
        self.quick.len() >= ports.len() && self.quick.iter().all(|fd| is_quick(*fd, ports))
    }

    /// Makes links to these ports of the bus quick. Whether it could look. O(files that the server has open).
    pub(crate) fn quicken(&mut self, ports: &[u16]) -> bool {
        self.quick.clear();
        let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
        let all: Vec<RawFd> = open.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
        self.quick.extend(
            all.into_iter()
                .filter(|fd| with_link(*fd, ports, |link| link.set_nodelay(true).is_ok()).unwrap_or(false)),
        );
        true
    }
}

fn is_quick(fd: RawFd, ports: &[u16]) -> bool {
    with_link(fd, ports, |link| link.nodelay().unwrap_or(false)).unwrap_or(false)
}

/// Looks at a file descriptor, if it is a connection to one of these ports.
fn with_link<R>(fd: RawFd, ports: &[u16], look: impl FnOnce(&TcpStream) -> R) -> Option<R> {
    // SAFETY: nobody owns it here, so nobody closes it: what is made of it is never dropped. Where it is not open, or no
    // socket, the system says so.
    let stream = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
    let is_link = stream.peer_addr().is_ok_and(|address| ports.contains(&address.port()));
    is_link.then(|| look(&stream))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn links_to_these_ports_are_made_quick_and_others_are_left_alone() {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let (bus, other) = (listen(), listen());
        let port = |listener: &TcpListener| listener.local_addr().expect("bound").port();
        let connect = |listener| TcpStream::connect(("127.0.0.1", port(listener))).expect("it listens");
        let (link, stranger) = (connect(&bus), connect(&other));
        let mut links = Links::default();
        let ports = [port(&bus)];
        assert!(!links.are_quick(&ports));
        assert!(links.quicken(&ports));
        assert!(links.are_quick(&ports));
        assert_eq!(links.quick, [link.as_raw_fd()]);
        let is_quick = |stream: &TcpStream| stream.nodelay().expect("a socket");
        assert!(is_quick(&link) && !is_quick(&stranger));
        drop(link);
        assert!(!links.are_quick(&ports), "it is gone");
        let link = connect(&bus);
        assert!(!links.are_quick(&ports), "it is another one");
        assert!(links.quicken(&ports) && links.are_quick(&ports) && is_quick(&link));
    }
}
