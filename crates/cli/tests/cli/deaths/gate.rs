//! A proxy before each node of a cluster. It counts the messages of all connections in both directions, and after a
//! given number nothing passes any more.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// What the connections of a run share.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Messages that may still pass; `None` while nobody counts.
    left: Option<u32>,
    passed: u32,
    /// A message found the gate closed.
    is_shut: bool,
    /// How often the gate was opened again. Nothing passes of connections that are older than the last time.
    opened: u32,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// From now on so many messages pass.
    pub(crate) fn count(&self, messages: u32) {
        let mut state = self.state();
        (state.left, state.passed, state.is_shut) = (Some(messages), 0, false);
    }

    /// Waits until a message found the gate closed, so long at most. Returns whether one did.
    pub(crate) fn shut_within(&self, time: Duration) -> bool {
        let (state, _) =
            self.changed.wait_timeout_while(self.state(), time, |it| !it.is_shut).expect("sound");
        state.is_shut
    }

    /// How many messages passed since the count began.
    pub(crate) fn passed(&self) -> u32 {
        self.state().passed
    }

    /// Closes all connections. Later ones pass, and nobody counts.
    pub(crate) fn open(&self) {
        let mut state = self.state();
        (state.left, state.opened) = (None, state.opened + 1);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether one message of a connection may pass; waits at the gate if not.
    fn pass(&self, born: u32) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        if state.opened > born {
            return false;
        }
        match &mut state.left {
            None => return true,
            Some(0) => {}
            Some(left) => {
                *left -= 1;
                state.passed += 1;
                return true;
            }
        }
        state.is_shut = true;
        self.changed.notify_all();
        self.wait(guard, born);
        false
    }

    fn wait(&self, state: MutexGuard<'_, State>, born: u32) {
        drop(self.changed.wait_while(state, |it| it.is_shut && it.opened == born).expect("sound"));
    }

    /// A connection has ended. Behind a closed gate nobody hears of it.
    fn end(&self, ends: Ends, born: u32) {
        if ends == Ends::Unheard {
            self.wait(self.state(), born);
        }
    }
}

/// Whether those behind a closed gate hear that the others are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// As when a process dies: its kernel closes its connections.
    Heard,
    /// As when a host is cut off.
    Unheard,
}

/// Starts a proxy for a port of this host; answers its own.
pub(crate) fn proxy(port: u16, gate: &Arc<Gate>, ends: Ends) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let own = listener.local_addr().expect("bound").port();
    let gate = Arc::clone(gate);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let born = gate.state().opened;
            for (from, to) in [(&client, &server), (&server, &client)] {
                let copies = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                let (from, to) = copies.expect("a copy of a socket");
                from.set_nodelay(true).expect("set");
                let gate = Arc::clone(&gate);
                thread::spawn(move || carry(from, to, &gate, (ends, born)));
            }
        }
    });
    own
}

fn carry(mut from: TcpStream, mut to: TcpStream, gate: &Gate, (ends, born): (Ends, u32)) {
    let mut waiting = Vec::new();
    let mut room = vec![0; 64 * 1024];
    'open: while let Ok(read @ 1..) = from.read(&mut room) {
        waiting.extend_from_slice(&room[..read]);
        while let Some(length) = message(&waiting) {
            if !gate.pass(born) || to.write_all(&waiting[..length]).is_err() {
                break 'open;
            }
            waiting.drain(..length);
        }
    }
    gate.end(ends, born);
    for socket in [&from, &to] {
        // It may be closed already.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// The length of the first message: a command, a reply, or a push, in RESP.
fn message(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let count = || std::str::from_utf8(&bytes[1..line]).ok()?.parse::<i64>().ok();
    let items = match bytes[0] {
        b'$' | b'=' | b'!' => {
            let length = usize::try_from(count()?).map_or(line + 2, |length| line + 2 + length + 2);
            return (bytes.len() >= length).then_some(length);
        }
        b'*' | b'~' | b'>' => count()?,
        b'%' => 2 * count()?,
        _ => 0,
    };
    (0..items).try_fold(line + 2, |at, _| message(bytes.get(at..)?).map(|length| at + length))
}

#[test]
fn messages_end_where_they_end() {
    for whole in
        ["*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "%1\r\n+a\r\n:1\r\n", "$-1\r\n", "_\r\n", ">2\r\n+a\r\n*0\r\n"]
    {
        assert_eq!(message(format!("{whole}+more").as_bytes()), Some(whole.len()), "{whole:?}");
        assert_eq!(message(&whole.as_bytes()[..whole.len() - 1]), None, "{whole:?}");
    }
}
