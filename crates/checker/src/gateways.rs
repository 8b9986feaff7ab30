//! Gateways before the store that is checked: each on a thread of this process, at a port of its own. One can end and begin again
//! at its port, as one that a supervisor restarts.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use claret_gateway::{Behind, Door, Gateway, GatewayHandle};
use serde::Serialize;

/// How long connections have after the end of their gateway: less than a transaction may take, so some are cut.
const DRAIN: Duration = Duration::from_millis(20);

/// How long a gateway may take to begin again: nodes may be stopped, without memory, or busy with a script meanwhile.
const START_TIME: Duration = Duration::from_secs(60);

/// What went through gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Through {
    /// Gateways.
    pub gateways: u64,
    /// Transactions and single commands that were acknowledged.
    pub committed: u64,
    /// Those of them that were a MULTI.
    pub multi: u64,
    /// Those of them that were a MULTI behind a WATCH.
    pub watch: u64,
    /// Those of them that were a script.
    pub scripts: u64,
    /// EXECs that answered nil, because what was watched had changed.
    pub nil: u64,
    /// Connections that their clients left in the midst of a WATCH, a MULTI or an EXEC.
    pub left: u64,
    /// How often a gateway ended and began again.
    pub restarts: u64,
}

/// The same while they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) committed: AtomicU64,
    pub(crate) multi: AtomicU64,
    pub(crate) watch: AtomicU64,
    pub(crate) scripts: AtomicU64,
    pub(crate) nil: AtomicU64,
    pub(crate) left: AtomicU64,
    restarts: AtomicU64,
}

/// One more.
pub(crate) fn count(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

/// A gateway that runs.
#[derive(Debug)]
struct Running {
    handle: GatewayHandle,
    thread: JoinHandle<Result<(), String>>,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Gateways {
    behind: Behind,
    ports: Vec<u16>,
    /// `None`: it has ended.
    running: Vec<Mutex<Option<Running>>>,
    pub(crate) counts: Counts,
}

impl Drop for Gateways {
    fn drop(&mut self) {
        self.end();
    }
}

impl Gateways {
    /// Starts so many of them.
    ///
    /// # Errors
    /// One cannot begin.
    pub(crate) fn start(behind: Behind, count: usize) -> Result<Self, String> {
        let mut gateways =
            Gateways { behind, ports: Vec::new(), running: Vec::new(), counts: Counts::default() };
        for _ in 0..count {
            let (listener, port) = listen(0)?;
            gateways.ports.push(port);
            gateways.running.push(Mutex::new(Some(run(gateways.behind.clone(), listener)?)));
        }
        Ok(gateways)
    }

    pub(crate) fn count(&self) -> usize {
        self.ports.len()
    }

    /// Where one of them listens. Numbers beyond the last begin again at the first.
    pub(crate) fn url(&self, number: usize) -> String {
        format!("redis://127.0.0.1:{}", self.ports[number % self.ports.len()])
    }

    /// Ends one of them, and starts it at the same port.
    ///
    /// # Errors
    /// It does not begin again in time, or ended badly.
    pub(crate) fn restart(&self, number: usize) -> Result<(), String> {
        let mut running = self.running(number);
        if let Some(running) = running.take() {
            stop(running)?;
        }
        let until = Instant::now() + START_TIME;
        *running = loop {
            let started =
                listen(self.ports[number]).and_then(|(listener, _)| run(self.behind.clone(), listener));
            match started {
                Ok(running) => break Some(running),
                Err(error) if Instant::now() > until => {
                    return Err(format!("a gateway did not begin again: {error}"));
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        count(&self.counts.restarts);
        Ok(())
    }

    /// Ends all of them.
    pub(crate) fn end(&self) {
        for number in 0..self.running.len() {
            let running = self.running(number).take();
            if let Some(Err(error)) = running.map(stop) {
                let _ = writeln!(std::io::stderr().lock(), "error: {error}");
            }
        }
    }

    fn running(&self, number: usize) -> MutexGuard<'_, Option<Running>> {
        self.running[number].lock().expect("nobody panics with it")
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> Through {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { committed, multi, watch, scripts, nil, left, restarts } = &self.counts;
        Through {
            gateways: self.ports.len() as u64,
            committed: of(committed),
            multi: of(multi),
            watch: of(watch),
            scripts: of(scripts),
            nil: of(nil),
            left: of(left),
            restarts: of(restarts),
        }
    }
}

/// Listens at a port of this machine; 0: at one that is free.
fn listen(port: u16) -> Result<(TcpListener, u16), String> {
    let failed = |error| format!("listening at port {port}: {error}");
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// Runs a gateway, once it takes clients.
fn run(behind: Behind, listener: TcpListener) -> Result<Running, String> {
    let handle = GatewayHandle::default();
    let (ready, is_ready) = mpsc::channel();
    let of_thread = handle.clone();
    let thread = thread::spawn(move || {
        // Its clients act as the user of the URL, as all others of the run do.
        let gateway = Gateway::new(behind).drain_time(DRAIN).open();
        let ran = gateway.run(vec![Door::Tcp(listener)], &of_thread, || {
            let _ = ready.send(());
        });
        ran.map_err(|error| error.to_string())
    });
    match is_ready.recv() {
        Ok(()) => Ok(Running { handle, thread }),
        // It ended without being ready.
        Err(_) => match thread.join() {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) => Err("a gateway ended before it began".to_owned()),
            Err(_) => Err("a gateway panicked".to_owned()),
        },
    }
}

fn stop(running: Running) -> Result<(), String> {
    running.handle.stop();
    match running.thread.join() {
        Ok(ended) => ended,
        Err(_) => Err("a gateway panicked".to_owned()),
    }
}
