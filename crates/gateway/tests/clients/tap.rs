//! A proxy between a client and a server: it notes what the client sends, in which pieces, and can lose one answer.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What has come of an answer that is lost when this is over.
const SWALLOW: Duration = Duration::from_millis(300);

/// What one connection has said and heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// For each piece that was read at once, its commands.
    pub(crate) pieces: Vec<Vec<String>>,
    /// Errors that were answered.
    pub(crate) errors: Vec<String>,
}

impl Said {
    /// What was said before the program's first own command, which is PING.
    pub(crate) fn handshake(&self) -> Vec<String> {
        self.pieces.iter().flatten().take_while(|command| *command != "PING").cloned().collect()
    }

    /// The pieces behind it, one bracket each.
    pub(crate) fn work(&self) -> String {
        let at = self.pieces.iter().position(|piece| piece.iter().any(|command| command == "PING"));
        let pieces = self.pieces.iter().skip(at.map_or(0, |at| at + 1));
        pieces.map(|piece| format!("[{}]", piece.join(" "))).collect::<Vec<_>>().join(" ")
    }
}

/// A proxy before one server, for one client.
pub(crate) struct Tap {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    /// What may be lost: the first answer to a piece that contains these bytes, in capitals.
    loses: Option<String>,
    has_lost: AtomicBool,
    /// By the number of the connection.
    said: Mutex<BTreeMap<usize, Said>>,
}

impl Tap {
    /// Before the server at a port. If it is to lose something: the answer to what contains this text.
    pub(crate) fn start(server: u16, loses: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let loses = loses.map(str::to_ascii_uppercase);
        let shared =
            Shared { server, loses, has_lost: AtomicBool::new(false), said: Mutex::new(BTreeMap::new()) };
        let shared = Arc::new(shared);
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let Ok(client) = client else { continue };
                let Ok(server) = TcpStream::connect(("127.0.0.1", own.server)) else { continue };
                own.carry(number, client, server);
            }
        });
        Tap { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What each connection has said, in the order of their beginnings.
    pub(crate) fn said(&self) -> Vec<Said> {
        self.shared.said.lock().expect("no thread of it panics").values().cloned().collect()
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.shared.has_lost.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn note(&self, number: usize, note: impl FnOnce(&mut Said)) {
        note(self.said.lock().expect("no thread of it panics").entry(number).or_default());
    }

    fn carry(self: &Arc<Self>, number: usize, client: TcpStream, server: TcpStream) {
        let losing = Arc::new(AtomicBool::new(false));
        let clone = |stream: &TcpStream| stream.try_clone().expect("a second handle");
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (up, from, to, lose) = (Arc::clone(self), clone(&client), clone(&server), Arc::clone(&losing));
        thread::spawn(move || up.requests(number, from, to, &lose));
        let down = Arc::clone(self);
        thread::spawn(move || down.answers(number, server, client, &losing));
    }

    fn requests(&self, number: usize, mut client: TcpStream, mut server: TcpStream, losing: &AtomicBool) {
        let mut bytes = vec![0; 64 * 1024];
        let mut unread = Vec::new();
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            unread.extend_from_slice(&bytes[..count]);
            let commands = commands(&mut unread);
            let text = String::from_utf8_lossy(&bytes[..count]).to_ascii_uppercase();
            if self.loses.as_ref().is_some_and(|what| text.contains(what))
                && !self.has_lost.swap(true, Ordering::SeqCst)
            {
                losing.store(true, Ordering::SeqCst);
            }
            self.note(number, |said| said.pieces.push(commands));
            if server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }

    fn answers(&self, number: usize, mut server: TcpStream, mut client: TcpStream, losing: &AtomicBool) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let errors = text.split("\r\n").filter_map(|line| line.strip_prefix('-')).map(str::to_owned);
            self.note(number, |said| said.errors.extend(errors));
            if losing.load(Ordering::SeqCst) {
                // All of it is to be done: what of it is answered later is not heard either.
                let _ = server.set_read_timeout(Some(SWALLOW));
                while let Ok(1..) = server.read(&mut bytes) {}
                break;
            }
            if client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }
}

/// Takes whole commands off the front of what was read: their names, with the next word where that tells more.
fn commands(unread: &mut Vec<u8>) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((words, length)) = command(unread) {
        unread.drain(..length);
        let mut words = words.into_iter();
        let name = words.next().unwrap_or_default().to_ascii_uppercase();
        let first = match name.as_str() {
            "HELLO" | "CLIENT" | "COMMAND" | "CONFIG" | "INFO" | "SELECT" => words.next(),
            _ => None,
        };
        let second = if name == "CLIENT" { words.next().map(|word| word.to_ascii_uppercase()) } else { None };
        names.push(
            [Some(name), first.map(|word| word.to_ascii_uppercase()), second]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
        );
    }
    names
}

/// The first command, if it is whole, and its length.
fn command(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |at: usize| -> Option<(i64, usize)> {
        let end = at + bytes.get(at..)?.windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(bytes.get(at + 1..end)?).ok()?.parse().ok()?;
        Some((number, end + 2))
    };
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, start) = line(at)?;
        let end = start + usize::try_from(length).ok()?;
        words.push(String::from_utf8_lossy(bytes.get(start..end)?).into_owned());
        at = end + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}
