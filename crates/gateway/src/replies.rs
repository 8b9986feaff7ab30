//! The answers of one connection, in the order of its commands, whoever brings them: nodes, which answer in any order, or the
//! gateway itself.

use std::collections::VecDeque;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use claret_commands::Answer;
use claret_redis::{CommandError, ConnectError, Forward};
use parking_lot::Mutex;

use crate::fault::no_connection;
use crate::memory::{Account, Charge};
use crate::metrics::{Metrics, Path};
use crate::resp::{Form, Protocol, write};

/// See the module's text. Shared with the connections to nodes.
pub(crate) struct Replies {
    inner: Mutex<Inner>,
    metrics: std::sync::Arc<Metrics>,
}

/// What is to be written is kept in pieces of this size: a large whole would be copied as it grows, and have twice the room.
const PIECE_BYTES: usize = 1 << 20;

/// What a command costs that waits, beside its bytes.
const WAITING_BYTES: usize = size_of::<Waiting>();

struct Inner {
    /// The number of the first that waits.
    first: u32,
    waiting: VecDeque<Waiting>,
    /// What is to be written first: whole pieces.
    pieces: VecDeque<BytesMut>,
    /// Their bytes.
    pieces_bytes: usize,
    /// What is to be written then.
    out: BytesMut,
    /// Answers that are there and wait for earlier ones, in bytes.
    early: usize,
    /// Commands that wait for their answers, in bytes.
    asked: usize,
    protocol: Protocol,
    waker: Option<Waker>,
    /// Nobody reads them any more.
    is_gone: bool,
    /// All of that.
    charge: Charge,
}

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Commands that wait for their answers.
    pub(crate) waiting: usize,
    /// Their bytes.
    pub(crate) asked_bytes: usize,
    /// Bytes of answers that are not written yet.
    pub(crate) unread_bytes: usize,
}

struct Waiting {
    /// What a node is asked, as long as it may have to be asked again.
    command: Bytes,
    answer: Option<Bytes>,
    is_read: bool,
    /// The client asked for no answer.
    is_muted: bool,
    since: Instant,
}

impl Inner {
    fn settle(&mut self) {
        while let Some(Waiting { answer: Some(_), .. }) = self.waiting.front() {
            let Some(Waiting { answer: Some(answer), is_muted, .. }) = self.waiting.pop_front() else {
                return;
            };
            self.first = self.first.wrapping_add(1);
            self.early -= answer.len();
            if !is_muted {
                self.add(&answer);
            }
        }
    }

    /// Something more is to be written.
    fn add(&mut self, bytes: &[u8]) {
        if self.is_gone {
            return;
        }
        self.begin_piece();
        self.out.extend_from_slice(bytes);
    }

    fn begin_piece(&mut self) {
        if self.out.len() >= PIECE_BYTES {
            self.pieces_bytes += self.out.len();
            self.pieces.push_back(std::mem::take(&mut self.out));
        }
    }

    fn unread_bytes(&self) -> usize {
        self.pieces_bytes + self.out.len() + self.early
    }

    fn note(&mut self) {
        self.charge.set(self.unread_bytes() + self.asked + self.waiting.len() * WAITING_BYTES);
    }
}

impl Replies {
    pub(crate) fn new(metrics: std::sync::Arc<Metrics>, account: &Account) -> Self {
        let inner = Inner {
            first: 0,
            waiting: VecDeque::new(),
            pieces: VecDeque::new(),
            pieces_bytes: 0,
            out: BytesMut::new(),
            early: 0,
            asked: 0,
            protocol: Protocol::default(),
            waker: None,
            is_gone: false,
            charge: account.charge(),
        };
        Replies { inner: Mutex::new(inner), metrics }
    }

    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.inner.lock().protocol = protocol;
    }

    /// A command waits for its answer from a node: its number.
    pub(crate) fn wait(&self, command: Bytes, is_read: bool, is_muted: bool, since: Instant) -> u32 {
        let mut inner = self.inner.lock();
        let no = inner.first.wrapping_add(inner.waiting.len() as u32);
        inner.asked += command.len();
        inner.waiting.push_back(Waiting { command, answer: None, is_read, is_muted, since });
        inner.note();
        no
    }

    /// An answer of the gateway's own, behind all that wait.
    pub(crate) fn answer(&self, answer: &Answer, form: impl Into<Form>, is_muted: bool) {
        if is_muted {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.waiting.is_empty() {
            inner.begin_piece();
            write(answer, &mut inner.out, form);
            return inner.note();
        }
        let mut bytes = BytesMut::new();
        write(answer, &mut bytes, form);
        inner.early += bytes.len();
        inner.waiting.push_back(Waiting {
            command: Bytes::new(),
            answer: Some(bytes.freeze()),
            is_read: true,
            is_muted: false,
            since: Instant::now(),
        });
        inner.note();
    }

    /// The same of a large one, as it is written. It is not copied if no command waits.
    pub(crate) fn answer_written(&self, bytes: BytesMut) {
        let mut inner = self.inner.lock();
        if !inner.waiting.is_empty() {
            drop(inner);
            return self.answer(&Answer::Raw(bytes.freeze()), Protocol::default(), false);
        }
        for piece in [std::mem::take(&mut inner.out), bytes] {
            if !piece.is_empty() {
                inner.pieces_bytes += piece.len();
                inner.pieces.push_back(piece);
            }
        }
        inner.note();
    }

    /// Commands that wait for a node since before `then` are answered that they have waited for `time`. What the node says of them is
    /// not heard any more. How many those were.
    pub(crate) fn expire(&self, then: Instant, time: Duration) -> usize {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut late = 0;
        for waiting in inner.waiting.iter_mut().take_while(|waiting| waiting.since < then) {
            if waiting.answer.is_some() {
                continue;
            }
            inner.asked -= std::mem::take(&mut waiting.command).len();
            let mut line = BytesMut::new();
            write(&Answer::Error(late_at_node(waiting.is_read, time)), &mut line, inner.protocol);
            inner.early += line.len();
            waiting.answer = Some(line.freeze());
            self.metrics.done(Path::Forwarded, waiting.since, true);
            late += 1;
        }
        if late > 0 {
            inner.settle();
            inner.note();
            if let Some(waker) = inner.waker.take() {
                waker.wake();
            }
        }
        late
    }

    /// Something that is no answer: a message that the client listens to.
    pub(crate) fn push(&self, message: &[u8]) {
        let mut inner = self.inner.lock();
        inner.add(message);
        inner.note();
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn load(&self) -> Load {
        let inner = self.inner.lock();
        Load { waiting: inner.waiting.len(), asked_bytes: inner.asked, unread_bytes: inner.unread_bytes() }
    }

    /// The task is woken once something is to be written, or a command waits no more.
    pub(crate) fn wake_later(&self, cx: &Context<'_>) {
        self.inner.lock().waker = Some(cx.waker().clone());
    }

    /// Takes what is to be written, or a piece of it, into an empty buffer. When nothing is, the task is woken once something is, or once
    /// no command waits.
    pub(crate) fn take(&self, out: &mut BytesMut, cx: &mut Context<'_>) {
        let mut inner = self.inner.lock();
        if let Some(piece) = inner.pieces.pop_front() {
            inner.pieces_bytes -= piece.len();
            *out = piece;
        } else if inner.out.is_empty() {
            inner.waker = Some(cx.waker().clone());
        } else {
            std::mem::swap(&mut inner.out, out);
        }
        inner.note();
    }

    /// Nobody reads answers any more.
    pub(crate) fn leave(&self) {
        let mut inner = self.inner.lock();
        inner.is_gone = true;
        for waiting in inner.waiting.iter_mut().filter(|waiting| waiting.answer.is_some()) {
            waiting.answer = Some(Bytes::new());
        }
        inner.early = 0;
        (inner.out, inner.pieces, inner.pieces_bytes) = (BytesMut::new(), VecDeque::new(), 0);
        inner.note();
    }
}

impl Forward for Replies {
    fn encode(&self, no: u32, out: &mut BytesMut) {
        let inner = self.inner.lock();
        let at = no.wrapping_sub(inner.first) as usize;
        if let Some(waiting) = inner.waiting.get(at) {
            out.extend_from_slice(&waiting.command);
        }
    }

    fn receive(&self, no: u32, reply: Result<&[u8], CommandError>) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let at = no.wrapping_sub(inner.first) as usize;
        let Some(waiting) = inner.waiting.get_mut(at) else { return };
        inner.asked -= std::mem::take(&mut waiting.command).len();
        let is_error = !matches!(reply, Ok([first, ..]) if !matches!(first, b'-' | b'!'));
        self.metrics.done(Path::Forwarded, waiting.since, is_error);
        let told;
        let bytes = match reply {
            Ok(bytes) => bytes,
            Err(error) => {
                let mut line = BytesMut::new();
                write(&Answer::Error(of_plain(&error, waiting.is_read)), &mut line, inner.protocol);
                told = line;
                &told[..]
            }
        };
        if inner.is_gone {
            waiting.answer = Some(Bytes::new());
            inner.settle();
            return inner.note();
        }
        if at == 0 {
            if !waiting.is_muted {
                inner.add(bytes);
            }
            inner.waiting.pop_front();
            inner.first = inner.first.wrapping_add(1);
            inner.settle();
        } else {
            inner.early += bytes.len();
            waiting.answer = Some(Bytes::copy_from_slice(bytes));
        }
        inner.note();
        // Whoever waits for fewer commands that wait is woken by each.
        if (!inner.out.is_empty() || at == 0)
            && let Some(waker) = inner.waker.take()
        {
            waker.wake();
        }
    }
}

/// The line for a command that a node has not answered in time.
pub(crate) fn late_at_node(is_read: bool, time: Duration) -> String {
    let why = format!("no answer within {time:?}: others hold the keys, or the node is busy or silent");
    match is_read {
        true => format!("TRYAGAIN nothing was changed: {why}"),
        false => format!("UNKNOWN it may have been done, look whether it was: {why}"),
    }
}

/// The line for a command that has no reply. What may have been done says so by a code of its own.
pub(crate) fn of_plain(error: &CommandError, is_read: bool) -> String {
    match error {
        // The error itself says that it may have been done.
        CommandError::Lost { node, reason } if is_read => {
            format!(
                "TRYAGAIN nothing was changed: the connection to {node} broke before the reply came ({reason})"
            )
        }
        CommandError::Lost { .. } => format!("UNKNOWN {error}; look whether it was"),
        CommandError::Server(said) => said.to_string(),
        CommandError::Away(error @ ConnectError::Denied { .. }) => no_connection(error),
        CommandError::Away(_) | CommandError::NoSuchNode(_) => format!("CLUSTERDOWN {error}"),
        other => format!("ERR {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::GatewayLimits;
    use crate::memory::Memory;
    use crate::registry::{Ends, Registry};

    /// Bug: answers that waited for an earlier one were kept for somebody who had gone, and counted for ever.
    #[test]
    fn nothing_is_kept_for_who_has_gone() {
        let registry = std::sync::Arc::<Registry>::default();
        let logger = std::sync::Arc::new(|_: &str| {});
        let limits = GatewayLimits::default();
        let memory =
            Memory::new(&limits, std::sync::Arc::clone(&registry), std::sync::Arc::default(), logger);
        let entry = registry.enter(Ends::in_memory("a:1"));
        let account = Account::new(std::sync::Arc::clone(&entry), std::sync::Arc::new(memory));
        let replies = Replies::new(std::sync::Arc::default(), &account);
        let wait = || replies.wait(Bytes::from_static(b"*1\r\n$4\r\nPING\r\n"), true, false, Instant::now());
        let (first, second, third) = (wait(), wait(), wait());
        let large = vec![b'x'; 1 << 20];
        replies.receive(second, Ok(&large));
        assert!(entry.kept() >= large.len());
        replies.leave();
        replies.receive(third, Ok(&large));
        replies.receive(first, Ok(b"+PONG\r\n"));
        replies.push(&large);
        assert_eq!(replies.load().unread_bytes, 0);
        assert!(entry.kept() < large.len() / 100, "{}", entry.kept());
    }
}
