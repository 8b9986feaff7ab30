//! A proxy in front of a port of a node. It cuts connections, at once or in the middle of a message; it delays what passes,
//! keeps it back while the network is cut, or holds it and delivers it late, also after whoever sent it is gone.
//!
//! Who connects is known by its address: each node may have one of its own on the loopback interface, and clients have another.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};

/// After how many bytes, at most, a connection is cut.
const BYTES_MAX: i64 = 400;

/// See the module's text. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// The state is another one.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    links: Vec<Weak<Link>>,
    /// How it stands with who has this address.
    ways: BTreeMap<IpAddr, Way>,
    is_closing: bool,
}

/// What is done to all connections of somebody, those that are and those that come.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// What passes in neither direction, in one, or in both.
    requests_cut: bool,
    answers_cut: bool,
    /// What passes waits for up to this long, in order.
    delay_max: Duration,
}

/// Of a connection, seen from whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directions {
    /// What it sends.
    Requests,
    /// What it gets.
    Answers,
    Both,
}

/// A connection of a client, and the one to the node that belongs to it.
#[derive(Debug)]
struct Link {
    who: IpAddr,
    client: TcpStream,
    server: TcpStream,
    /// How many bytes still pass, if it is to be cut.
    left: AtomicI64,
    /// What the client sends is delivered at this moment, though it may be gone by then.
    held_until: Mutex<Option<Instant>>,
}

impl Link {
    fn cut(&self) {
        for socket in [&self.client, &self.server] {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn held_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.held_until.lock().expect("nobody panics with it")
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// Changes how it stands, and whoever waits looks again.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits until something that this link has to carry may pass. Whether it ever may.
    fn wait(&self, link: &Link, is_request: bool) -> bool {
        let mut state = self.state();
        let delay_max = state.ways.get(&link.who).map_or(Duration::ZERO, |way| way.delay_max);
        let due = Instant::now() + delay_max.mul_f64(rand::rng().random());
        loop {
            if state.is_closing {
                return false;
            }
            let held = if is_request { *link.held_until() } else { None };
            let due = held.map_or(due, |held| held.max(due));
            let is_cut = |way: &Way| if is_request { way.requests_cut } else { way.answers_cut };
            let is_cut = state.ways.get(&link.who).is_some_and(is_cut);
            let left = due.saturating_duration_since(Instant::now());
            state = match (is_cut, left) {
                (false, Duration::ZERO) => return true,
                (true, _) => self.changed.wait(state).expect("nobody panics with it"),
                (false, _) => self.changed.wait_timeout(state, left).expect("nobody panics with it").0,
            };
        }
    }
}

impl Proxy {
    /// Starts one for a port of this host.
    pub(crate) fn start(node: u16) -> Result<Self, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| Ok((it.local_addr()?.port(), it)));
        let (port, listener) = listener.map_err(|error| format!("starting a proxy: {error}"))?;
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if its.state().is_closing {
                    break;
                }
                let Ok(who) = client.peer_addr() else { continue };
                let Ok(server) = TcpStream::connect(("127.0.0.1", node)) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (left, held_until) = (AtomicI64::new(i64::MAX), Mutex::default());
                let link = Arc::new(Link { who: who.ip(), client, server, left, held_until });
                let mut state = its.state();
                state.links.retain(|link| link.strong_count() > 0);
                state.links.push(Arc::downgrade(&link));
                drop(state);
                for is_request in [true, false] {
                    let (link, its) = (Arc::clone(&link), Arc::clone(&its));
                    thread::spawn(move || carry(&link, &its, is_request));
                }
            }
        });
        Ok(Proxy { port, shared })
    }

    /// Where clients connect.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The connections that are there, of one who connects or of all.
    fn links(&self, who: Option<IpAddr>) -> Vec<Arc<Link>> {
        let all: Vec<Arc<Link>> = self.shared.state().links.iter().filter_map(Weak::upgrade).collect();
        all.into_iter().filter(|link| who.is_none_or(|who| link.who == who)).collect()
    }

    /// Cuts connections that are there, about half of them at once, the others after some bytes.
    pub(crate) fn cut(&self, who: Option<IpAddr>, random: &mut impl Rng) {
        for link in self.links(who) {
            match random.random() {
                true => link.cut(),
                false => link.left.store(random.random_range(0..BYTES_MAX), Ordering::Relaxed),
            }
        }
    }

    /// From now on nothing passes between this one and the node in these directions, or it does again. Connections stay, as if a
    /// cable were pulled: what is sent meanwhile comes afterwards.
    pub(crate) fn pull(&self, who: IpAddr, directions: Directions, is_cut: bool) {
        self.shared.change(|state| {
            let way = state.ways.entry(who).or_default();
            match directions {
                Directions::Requests => way.requests_cut = is_cut,
                Directions::Answers => way.answers_cut = is_cut,
                Directions::Both => (way.requests_cut, way.answers_cut) = (is_cut, is_cut),
            }
        });
    }

    /// From now on what passes between this one and the node waits for up to so long.
    pub(crate) fn delay(&self, who: IpAddr, delay_max: Duration) {
        self.shared.change(|state| state.ways.entry(who).or_default().delay_max = delay_max);
    }

    /// What comes from now on over the connections that this one has is delivered at this moment, also if it is gone by then.
    /// Answers pass. How many connections these are.
    pub(crate) fn hold(&self, who: IpAddr, until: Instant) -> usize {
        let links = self.links(Some(who));
        self.shared.change(|_| links.iter().for_each(|link| *link.held_until() = Some(until)));
        links.len()
    }

    /// Delivers now what is held.
    pub(crate) fn release(&self) {
        let links = self.links(None);
        self.shared.change(|_| links.iter().for_each(|link| *link.held_until() = None));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.is_closing = true);
        self.links(None).iter().for_each(|link| link.cut());
        // Wakes the thread that listens.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn carry(link: &Link, shared: &Shared, is_request: bool) {
    let (mut from, mut to) =
        if is_request { (&link.client, &link.server) } else { (&link.server, &link.client) };
    let mut room = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut room) {
        if !shared.wait(link, is_request) {
            break;
        }
        let left = link.left.load(Ordering::Relaxed);
        let passes = read.min(usize::try_from(left.max(0)).unwrap_or(usize::MAX));
        if left < i64::MAX {
            link.left.fetch_sub(passes as i64, Ordering::Relaxed);
        }
        let is_written = to.write_all(&room[..passes]).is_ok();
        // Nobody is there to hear an answer, and what was sent before is still on its way.
        let is_deaf = !is_written && !is_request && link.held_until().is_some();
        if !(is_written || is_deaf) || passes < read {
            break;
        }
    }
    link.cut();
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rand::SeedableRng;

    use super::*;

    const CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A proxy, a client of it, and what the node has of that.
    fn connected() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let proxy = Proxy::start(listener.local_addr().expect("bound").port()).expect("a proxy");
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("connected");
        let (mut node, _) = listener.accept().expect("connected");
        client.write_all(b"ping").expect("sent");
        let mut heard = [0; 4];
        node.read_exact(&mut heard).expect("it passes");
        (proxy, client, node)
    }

    /// Nothing comes for a while.
    fn is_silent(node: &mut TcpStream) -> bool {
        node.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        let silent = node.read(&mut [0; 1]).is_err();
        node.set_read_timeout(None).expect("set");
        silent
    }

    #[test]
    fn what_is_cut_gets_some_bytes_at_most() {
        let (proxy, mut client, mut node) = connected();
        proxy.cut(None, &mut rand::rngs::SmallRng::seed_from_u64(1));
        // The kernel may still take it, and nobody hears it.
        let _ = client.write_all(&[0; 10_000]);
        let mut rest = Vec::new();
        let _ = node.read_to_end(&mut rest);
        assert!(rest.len() < BYTES_MAX as usize, "{}", rest.len());
    }

    #[test]
    fn what_is_held_is_delivered_after_its_sender_is_gone() {
        let (proxy, mut client, mut node) = connected();
        assert_eq!(proxy.hold(CLIENTS, Instant::now() + Duration::from_secs(600)), 1);
        client.write_all(b"late").expect("sent");
        drop(client);
        assert!(is_silent(&mut node));
        node.write_all(b"an answer").expect("sent");
        node.write_all(b"another one").expect("the connection stays");
        assert!(is_silent(&mut node));
        proxy.release();
        let mut rest = Vec::new();
        node.read_to_end(&mut rest).expect("it ends then");
        assert_eq!(rest, b"late");
    }

    #[test]
    fn what_is_sent_while_the_cable_is_pulled_comes_afterwards() {
        let (proxy, mut client, mut node) = connected();
        proxy.pull(CLIENTS, Directions::Both, true);
        client.write_all(b"later").expect("sent");
        assert!(is_silent(&mut node));
        proxy.delay(CLIENTS, Duration::from_millis(5));
        proxy.pull(CLIENTS, Directions::Both, false);
        let mut heard = [0; 5];
        node.read_exact(&mut heard).expect("it passes");
        assert_eq!(&heard, b"later");
    }

    #[test]
    fn a_way_may_be_cut_in_one_direction_alone() {
        let (proxy, mut client, mut node) = connected();
        proxy.pull(CLIENTS, Directions::Answers, true);
        client.write_all(b"again").expect("sent");
        node.read_exact(&mut [0; 5]).expect("it passes");
        node.write_all(b"an answer").expect("sent");
        assert!(is_silent(&mut client));
        proxy.pull(CLIENTS, Directions::Requests, true);
        proxy.pull(CLIENTS, Directions::Answers, false);
        client.read_exact(&mut [0; 9]).expect("it passes");
        client.write_all(b"later").expect("sent");
        assert!(is_silent(&mut node));
        proxy.pull(CLIENTS, Directions::Both, false);
        node.read_exact(&mut [0; 5]).expect("it passes");
    }
}
