//! Channels that a client listens to: on a connection to a node of its own, which is carried through, or of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes as Word, BytesMut};
use claret_commands::Command;
use claret_redis::Raw;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::channels::ListeningHere;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::registry::Entry;
use crate::replies::Replies;
use crate::request;

/// Commands that wait for the connection.
const COMMANDS_MAX: usize = 64;

/// Where a client listens.
pub(crate) enum Listening {
    AtNode(ListeningAtNode),
    Here(ListeningHere),
}

impl Listening {
    /// What a client that speaks RESP2 may say while it listens.
    pub(crate) fn allows(command: &Command) -> bool {
        command.name.ends_with("SUBSCRIBE") || matches!(command.name, "PING" | "QUIT" | "RESET")
    }
}

/// On a connection to a node. Dropping it ends the connection.
pub(crate) struct ListeningAtNode {
    pub(crate) node: String,
    commands: mpsc::Sender<Sent>,
    task: JoinHandle<()>,
    metrics: Arc<Metrics>,
}

/// A command, and who waits until it is done.
struct Sent {
    bytes: BytesMut,
    done: oneshot::Sender<i64>,
}

/// Sent behind each command: the node's answer says that all confirmations have come, however many there are.
const MARK: &[u8] = b"claret-gateway-mark";

impl Drop for ListeningAtNode {
    fn drop(&mut self) {
        self.task.abort();
        self.metrics.subscribed.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ListeningAtNode {
    /// Carries through what comes on a connection to a node.
    pub(crate) fn begin(
        raw: Raw,
        replies: Arc<Replies>,
        entry: Arc<Entry>,
        memory: Arc<Memory>,
        unread_max: usize,
    ) -> Self {
        let metrics = Arc::clone(memory.metrics());
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let node = raw.node();
        let carry = Carry { raw, replies, unread_max, memory, entry };
        let task = tokio::task::spawn_local(carry.run(receiver));
        metrics.subscribed.fetch_add(1, Ordering::Relaxed);
        ListeningAtNode { node, commands, task, metrics }
    }

    /// Sends a command and waits until all of it is confirmed: how many channels and patterns there are then; `None` if the node is
    /// gone.
    pub(crate) fn say(&self, words: &[Word]) -> impl Future<Output = Option<i64>> + use<> {
        let mut bytes = BytesMut::new();
        request::write(&mut bytes, words);
        request::write(&mut bytes, &[&b"PING"[..], MARK]);
        let (done, confirmed) = oneshot::channel();
        let commands = self.commands.clone();
        async move {
            commands.send(Sent { bytes, done }).await.ok()?;
            confirmed.await.ok()
        }
    }
}

/// Carries what a node says to a client.
struct Carry {
    raw: Raw,
    replies: Arc<Replies>,
    unread_max: usize,
    memory: Arc<Memory>,
    entry: Arc<Entry>,
}

impl Carry {
    async fn run(mut self, mut commands: mpsc::Receiver<Sent>) {
        let mut waiting: Option<Sent> = None;
        // Of channels and patterns, and of channels of slots, which a node counts by themselves.
        let mut counts = [0, 0];
        loop {
            tokio::select! {
                sent = commands.recv(), if waiting.is_none() => {
                    let Some(sent) = sent else { return };
                    if self.raw.send(&sent.bytes).await.is_err() {
                        break;
                    }
                    waiting = Some(sent);
                }
                said = self.raw.next() => {
                    let Ok(said) = said.map(|said| said.bytes) else { break };
                    if is_mark(&said) {
                        if let Some(sent) = waiting.take() {
                            let _ = sent.done.send(counts.iter().sum());
                        }
                        continue;
                    }
                    if let Some((is_of_slots, count)) = confirmation(&said) {
                        counts[usize::from(is_of_slots)] = count;
                        self.entry.note_listens(counts);
                    }
                    self.replies.push(&said);
                    // A client that reads too slowly is dropped, as a server drops it.
                    if self.replies.load().unread_bytes > self.unread_max {
                        let why = format!("over {} bytes of messages wait for it: read them sooner", self.unread_max);
                        return self.memory.close(&self.entry, why);
                    }
                }
            }
        }
        // What was listened to is lost: the client has to know.
        self.entry.kill();
    }
}

/// Whether it is the answer to the mark: a string, or in RESP2 while something is listened to an array with it.
fn is_mark(said: &[u8]) -> bool {
    let Some(before) = said.strip_suffix(b"\r\n").and_then(|said| said.strip_suffix(MARK)) else {
        return false;
    };
    matches!(before, b"$19\r\n" | b"*2\r\n$4\r\npong\r\n$19\r\n")
}

/// How many channels are left, if this confirms SUBSCRIBE or UNSUBSCRIBE; and whether they are those of slots.
fn confirmation(said: &[u8]) -> Option<(bool, i64)> {
    if !matches!(said.first(), Some(b'*' | b'>')) {
        return None;
    }
    let line_end = said.windows(2).position(|two| two == b"\r\n")?;
    let rest = &said[line_end + 2..];
    let kind_end = rest.windows(2).position(|two| two == b"\r\n")?;
    let kind = &rest[kind_end + 2..];
    let is_one =
        [&b"subscribe"[..], b"unsubscribe", b"psubscribe", b"punsubscribe", b"ssubscribe", b"sunsubscribe"]
            .iter()
            .any(|name| kind.starts_with(name) && kind.get(name.len()) == Some(&b'\r'));
    if !is_one {
        return None;
    }
    let count = said.strip_suffix(b"\r\n")?;
    let at = count.iter().rposition(|byte| *byte == b':')?;
    let is_of_slots = kind.starts_with(b"ss") || kind.starts_with(b"sun");
    Some((is_of_slots, std::str::from_utf8(&count[at + 1..]).ok()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_known_in_its_forms_alone() {
        let mark = String::from_utf8(MARK.to_vec()).unwrap();
        assert_eq!(mark.len(), 19);
        assert!(is_mark(format!("$19\r\n{mark}\r\n").as_bytes()));
        assert!(is_mark(format!("*2\r\n$4\r\npong\r\n$19\r\n{mark}\r\n").as_bytes()));
        assert!(!is_mark(format!("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$19\r\n{mark}\r\n").as_bytes()));
    }

    #[test]
    fn confirmations_are_told_from_messages() {
        let confirmed = |said: &str| confirmation(said.as_bytes());
        let cases = [
            ("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:2\r\n", Some((false, 2))),
            ("*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:2\r\n", Some((true, 2))),
            ("*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:1\r\n", Some((true, 1))),
            (">3\r\n$12\r\npunsubscribe\r\n$1\r\na\r\n:0\r\n", Some((false, 0))),
            ("*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", Some((false, 0))),
            ("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n:7\r\n", None),
            ("+PONG\r\n", None),
        ];
        for (said, count) in cases {
            assert_eq!(confirmed(said), count, "{said:?}");
        }
    }
}
