//! A proxy in front of a node. It cuts connections, at once or after some more bytes, in the middle of a message.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;

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
    links: Mutex<Vec<Weak<Link>>>,
    is_closing: AtomicBool,
}

/// A connection of a client, and the one to the node that belongs to it.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// How many bytes still pass, if it is to be cut.
    left: AtomicI64,
}

impl Link {
    fn cut(&self) {
        for socket in [&self.client, &self.server] {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn links(&self) -> MutexGuard<'_, Vec<Weak<Link>>> {
        self.links.lock().expect("nobody panics with it")
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
                if its.is_closing.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", node)) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let link = Arc::new(Link { client, server, left: AtomicI64::new(i64::MAX) });
                its.links().retain(|link| link.strong_count() > 0);
                its.links().push(Arc::downgrade(&link));
                for is_request in [true, false] {
                    let link = Arc::clone(&link);
                    thread::spawn(move || carry(&link, is_request));
                }
            }
        });
        Ok(Proxy { port, shared })
    }

    /// Where clients connect.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections that are there, about half of them at once, the others after some bytes.
    pub(crate) fn cut(&self, random: &mut impl Rng) {
        for link in self.shared.links().iter().filter_map(Weak::upgrade) {
            match random.random() {
                true => link.cut(),
                false => link.left.store(random.random_range(0..BYTES_MAX), Ordering::Relaxed),
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Relaxed);
        self.shared.links().iter().filter_map(Weak::upgrade).for_each(|link| link.cut());
        // Wakes the thread that listens.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn carry(link: &Link, is_request: bool) {
    let (mut from, mut to) =
        if is_request { (&link.client, &link.server) } else { (&link.server, &link.client) };
    let mut room = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut room) {
        let left = link.left.load(Ordering::Relaxed);
        let passes = read.min(usize::try_from(left.max(0)).unwrap_or(usize::MAX));
        if left < i64::MAX {
            link.left.fetch_sub(passes as i64, Ordering::Relaxed);
        }
        if to.write_all(&room[..passes]).is_err() || passes < read {
            break;
        }
    }
    link.cut();
}

#[test]
fn what_is_cut_gets_some_bytes_at_most() {
    use rand::SeedableRng;
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let proxy = Proxy::start(listener.local_addr().expect("bound").port()).expect("a proxy");
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("connected");
    let (mut node, _) = listener.accept().expect("connected");
    client.write_all(b"ping").expect("sent");
    let mut heard = [0; 4];
    node.read_exact(&mut heard).expect("it passes");
    proxy.cut(&mut rand::rngs::SmallRng::seed_from_u64(1));
    // The kernel may still take it, and nobody hears it.
    let _ = client.write_all(&[0; 10_000]);
    let mut rest = Vec::new();
    let _ = node.read_to_end(&mut rest);
    assert!(rest.len() < BYTES_MAX as usize, "{}", rest.len());
}
