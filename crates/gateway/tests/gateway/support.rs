//! A cluster, a gateway before it, and a client that shows answers as text.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

use claret::Store;
use claret_gateway::{Behind, Door, Gateway, GatewayHandle, GatewayLimits};
use claret_rig::{Cluster, Module};

/// A gateway on a thread of its own, which ends with it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) handle: GatewayHandle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(gateway: Gateway) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens");
        let handle = GatewayHandle::default();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let its = handle.clone();
        let run = move || {
            let ran =
                gateway.run(vec![Door::Tcp(listener)], &its, || ready.send(()).expect("the test waits"));
            ran.expect("the gateway runs");
        };
        let thread = std::thread::spawn(run);
        is_ready.recv().expect("the gateway starts");
        Running { address, handle, thread: Some(thread) }
    }

    pub(crate) fn before(url: &str) -> Self {
        Running::start(Gateway::new(Behind::Servers(Box::new(Store::cluster(url)))))
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.address)
    }

    /// Waits for its end.
    pub(crate) fn join(mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the gateway ends well");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the gateway ended badly");
        }
    }
}

/// One cluster for the tests that do not hurt it: each has keys of its own. It never asks for timestamps: under the load of several tests it
/// might try to (P87), and what holds keys for a test, and may not run again, would fail.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let module = Module::of_sources().expect("the module");
        Cluster::options(3, 0).module(module).config("claret.ordering 0").start().expect("a cluster")
    })
}

/// A gateway before that.
pub(crate) fn gateway() -> Running {
    Running::before(&cluster().url())
}

/// A gateway before records in this process.
pub(crate) fn in_process() -> Running {
    Running::start(Gateway::new(Behind::Store(Store::in_memory())))
}

/// A gateway before the cluster, with these limits.
pub(crate) fn limited_before_cluster(limits: GatewayLimits) -> Running {
    Running::start(Gateway::new(Behind::Servers(Box::new(Store::cluster(cluster().url())))).limits(limits))
}

pub(crate) fn limited(limits: GatewayLimits) -> Running {
    Running::start(Gateway::new(Behind::Store(Store::in_memory())).limits(limits))
}

/// A client.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        stream.set_nodelay(true).expect("no delay");
        Client { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("it is read");
    }

    /// Sends a command as an array, however long it is.
    pub(crate) fn send_words(&mut self, words: &[&str]) {
        let mut bytes = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
        self.send(bytes.as_bytes());
    }

    /// Sends a line as a person types it.
    pub(crate) fn say(&mut self, line: &str) {
        self.send(format!("{line}\r\n").as_bytes());
    }

    /// What a command is answered, as text: `OK`, `7`, `"text"`, `nil`, `nil[]`, `["a", 1]`, `-ERR ...`.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    pub(crate) fn asks<const N: usize>(&mut self, lines: [&str; N]) -> [String; N] {
        lines.map(|line| self.ask(line))
    }

    /// Returns once the gateway has read this command of another connection of the same user.
    pub(crate) fn waits_until_read(&mut self, id: &str, command: &str) {
        let is_so =
            |line: &str| line.contains(&format!("id={id} ")) && line.contains(&format!("cmd={command}"));
        while !self.ask("CLIENT LIST").split("\\n").any(is_so) {}
    }

    /// A counter of the gateway.
    pub(crate) fn count(&mut self, name: &str) -> u64 {
        let info = self.ask("INFO gateway");
        let (_, rest) =
            info.split_once(&format!("gateway_{name}:")).unwrap_or_else(|| panic!("no {name} in {info}"));
        rest.split("\\r").next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// The next answer.
    pub(crate) fn hear(&mut self) -> String {
        self.try_hear().expect("an answer")
    }

    pub(crate) fn try_hear(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let (sign, rest) = line.split_at(1);
        Ok(match sign {
            "+" | ":" => rest.to_owned(),
            "," => format!("{rest}f"),
            "#" => rest.to_owned(),
            "-" => line,
            "_" => "nil".to_owned(),
            "$" | "=" => match rest.parse::<usize>() {
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes)?;
                    format!("\"{}\"", bytes[..length].escape_ascii())
                }
                Err(_) => "nil".to_owned(),
            },
            "*" | "~" | ">" | "%" => {
                let Ok(count) = rest.parse::<usize>() else { return Ok("nil[]".to_owned()) };
                let count = if sign == "%" { 2 * count } else { count };
                let all: Vec<String> = (0..count).map(|_| self.try_hear()).collect::<Result<_, _>>()?;
                let (open, close) = match sign {
                    "%" => ("{", "}"),
                    "~" => ("<", ">"),
                    ">" => ("push[", "]"),
                    _ => ("[", "]"),
                };
                format!("{open}{}{close}", all.join(", "))
            }
            _ => panic!("what is {line:?}"),
        })
    }

    /// Whether the other end has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

/// Keys of different slots on different nodes.
pub(crate) fn apart(prefix: &str) -> [String; 3] {
    [0, 1, 2].map(|master| cluster().key_at(master, prefix))
}
