//! A server in this process that says what a test wants: it accepts connections, reads commands, and answers those
//! that the test does not care about like a node that serves all slots.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What is said to a command.
#[derive(Clone, Debug)]
pub enum Say {
    /// What a node would say.
    Usual,
    /// A text in RESP.
    Text(String),
    /// The same as bytes.
    Bytes(Vec<u8>),
    /// These, and then these again and again, until nobody listens.
    Endless(Vec<u8>, Vec<u8>),
    /// It is silent.
    Nothing,
    /// The connection ends.
    End,
}

/// A command.
#[derive(Debug)]
pub struct Asked {
    /// In capitals.
    pub name: String,
    /// As they came.
    pub arguments: Vec<String>,
    /// Where the server is.
    pub port: u16,
}

type Answers = dyn Fn(&Asked) -> Say + Send + Sync;

/// A server whose answers a test gives. It goes on until the process ends.
#[derive(Debug)]
pub struct Fake {
    /// Where it listens.
    pub port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    /// Bytes that were said.
    said: Arc<AtomicU64>,
}

impl Fake {
    /// Starts it, with its answers.
    ///
    /// # Panics
    /// The system gives no port.
    pub fn start(answer: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (heard, said) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicU64>::default());
        let fake = Fake { port, heard: Arc::clone(&heard), said: Arc::clone(&said) };
        let answer: Arc<Answers> = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, heard, said) = (Arc::clone(&answer), Arc::clone(&heard), Arc::clone(&said));
                std::thread::spawn(move || {
                    // Whoever is at the other end may go whenever it likes.
                    let _ = stream.and_then(|stream| serve(stream, port, &*answer, &heard, &said));
                });
            }
        });
        fake
    }

    /// Its host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where a client connects.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The commands so far, in one line each, over all connections.
    ///
    /// # Panics
    /// One of its answers did.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no panic").clone()
    }

    /// What it said so far, over all connections.
    pub fn bytes_said(&self) -> u64 {
        self.said.load(Ordering::Relaxed)
    }
}

/// The reply to `CLUSTER SLOTS`. The shard of a node has the number of its port.
pub fn slots(ranges: &[(i64, i64, &str, i64)]) -> Say {
    slots_of(ranges, |port| port as u32)
}

/// The same; the shard of a node is that of its port.
pub fn slots_of(ranges: &[(i64, i64, &str, i64)], shard: impl Fn(i64) -> u32) -> Say {
    let mut text = format!("*{}\r\n", ranges.len());
    for (first, last, host, port) in ranges {
        text += &format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n${}\r\n{host}\r\n:{port}\r\n", host.len());
        text += &format!("$40\r\n{:08x}{:032x}\r\n", shard(*port), 1);
    }
    Say::Text(text)
}

fn usual(asked: &Asked) -> Say {
    let text = |text: &str| Say::Text(text.to_owned());
    match asked.name.as_str() {
        "HELLO" => text("%1\r\n+proto\r\n:3\r\n"),
        "CLUSTER" => slots(&[(0, 16383, "127.0.0.1", asked.port.into())]),
        "SSUBSCRIBE" => {
            let channel = &asked.arguments[0];
            Say::Text(format!(">3\r\n$10\r\nssubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len()))
        }
        "GET" => text("$1\r\nv\r\n"),
        // No response: a client sends what it has as soon as one node welcomed it.
        "CLARET.FRAME" => text("$0\r\n\r\n"),
        _ => text("+OK\r\n"),
    }
}

fn serve(
    mut stream: TcpStream,
    port: u16,
    answer: &Answers,
    heard: &Mutex<Vec<String>>,
    said: &AtomicU64,
) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut reading = stream.try_clone()?;
    let mut say = |bytes: &[u8]| {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = stream.write(rest)?;
            said.fetch_add(written as u64, Ordering::Relaxed);
            rest = &rest[written..];
        }
        Ok::<_, std::io::Error>(())
    };
    loop {
        while let Some((words, length)) = command(&input) {
            input.drain(..length);
            heard.lock().expect("no panic").push(words.join(" "));
            let name = words[0].to_uppercase();
            let asked = Asked { name, arguments: words[1..].to_vec(), port };
            let said = match answer(&asked) {
                Say::Usual => usual(&asked),
                other => other,
            };
            match said {
                Say::Usual | Say::Nothing => {}
                Say::End => return Ok(()),
                Say::Text(text) => say(text.as_bytes())?,
                Say::Bytes(bytes) => say(&bytes)?,
                Say::Endless(head, piece) => {
                    say(&head)?;
                    loop {
                        say(&piece)?;
                    }
                }
            }
        }
        let mut bytes = [0; 16 * 1024];
        match reading.read(&mut bytes)? {
            0 => return Ok(()),
            length => input.extend_from_slice(&bytes[..length]),
        }
    }
}

/// The first command, once it is all there, and its length. Clients are trusted here.
fn command(input: &[u8]) -> Option<(Vec<String>, usize)> {
    let (count, mut at) = number(input, 0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, begin) = number(input, at)?;
        words.push(String::from_utf8_lossy(input.get(begin..begin + length)?).into_owned());
        at = begin + length + 2;
        input.get(..at)?;
    }
    Some((words, at))
}

/// The number in the line that begins here, behind its sign, and where the next line begins.
fn number(input: &[u8], at: usize) -> Option<(usize, usize)> {
    let end = at + input.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
    let digits = std::str::from_utf8(&input[at + 1..end]).ok()?;
    Some((digits.parse().ok()?, end + 2))
}
