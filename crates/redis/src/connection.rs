//! One connection to one server: how it is made, and how one task reads and writes on it at the same time.
//!
//! A [`Handler`] decides what is written and handles what is read. The task never waits for a reply before it writes.
//! After a read it yields, so that the requests of the tasks that the read woke go into the same write. What nobody waits for lets
//! all that are about to run speak first.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use claret_planted::{Bug, is_planted};
use claret_types::Reply;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::bounds::Bounds;
use crate::error::ConnectError;
use crate::resp::{self, Message, Reader, ServerError};
use crate::settings::Settings;

/// Room for one read.
const READ_BYTES: usize = 64 * 1024;

/// Reads in one go, before other tasks get their turn.
const READS_MAX: u32 = 8;

/// Room for what was read that is kept, at most, when all of it is taken.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What is done on a connection.
pub trait Handler {
    /// Puts what may be written now into `out`, which is empty, and wakes this task when there may be more. Returns
    /// whether everything is said, so that the connection may be closed.
    fn fill(&mut self, waker: &Waker, out: &mut BytesMut) -> bool;

    /// Whether what may be written now lets those speak first who are about to run: it is asked again after them, and does not
    /// answer yes twice in a row.
    fn lingers(&mut self) -> bool {
        false
    }

    /// Takes what was read, as far as it is complete: the number of bytes taken.
    ///
    /// # Errors
    /// When the connection cannot go on.
    fn take(&mut self, input: &[u8], reader: &mut Reader) -> Result<usize, ConnectError>;

    /// The connection breaks, for this reason, and is served no more.
    fn give_up(&mut self, _reason: &ConnectError) {}

    /// For how long the other side has owed an answer.
    fn waits(&self) -> Option<Duration>;
}

/// What carries the bytes.
#[derive(Debug)]
enum Carrier {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Carrier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Carrier::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Carrier::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Carrier::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Carrier::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Carrier::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Carrier::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Carrier::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Carrier::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A connection to one node, logged in.
#[derive(Debug)]
pub struct Connection {
    node: Address,
    carrier: Carrier,
    input: BytesMut,
    /// For one read, in bytes.
    room: usize,
    reader: Reader,
    output: BytesMut,
}

impl Connection {
    /// Connects, with TLS if so set, and logs in.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn open(settings: &Settings, node: &Address) -> Result<Self, ConnectError> {
        let opening = Self::begin(settings, node);
        let late = || unreachable_at(node, format!("no answer within {:?}", settings.connect_timeout));
        tokio::time::timeout(settings.connect_timeout, opening).await.map_err(|_| late())?
    }

    async fn begin(settings: &Settings, node: &Address) -> Result<Self, ConnectError> {
        let broken = |error: io::Error| unreachable_at(node, error.to_string());
        let stream = TcpStream::connect((node.host(), node.port())).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let carrier = match &settings.tls {
            None => Carrier::Tcp(stream),
            Some(tls) => {
                let name = tls.name_of(node.host()).map_err(|reason| unreachable_at(node, reason))?;
                let stream = tls.connector.connect(name, stream).await;
                Carrier::Tls(Box::new(stream.map_err(|error| unreachable_at(node, format!("TLS: {error}")))?))
            }
        };
        let (input, output) = (BytesMut::with_capacity(READ_BYTES), BytesMut::new());
        let reader = Reader::of(settings.protocol, settings.limits.of_login());
        let room = READ_BYTES;
        let mut connection = Connection { node: node.clone(), carrier, input, room, reader, output };
        let version = settings.protocol.number();
        let hello = match &settings.password {
            None => connection.ask(&["HELLO", version]).await?,
            Some(password) => {
                let user = settings.user().as_bytes();
                connection.ask(&[&b"HELLO"[..], version.as_bytes(), b"AUTH", user, &password[..]]).await?
            }
        };
        match hello {
            Ok(_) => Ok(connection),
            Err(error) => Err(refusal(node, error)),
        }
    }

    /// The node at the other end.
    pub fn node(&self) -> &Address {
        &self.node
    }

    /// What is taken from the server from now on, at most. Until this is called it is little.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.reader.set_bounds(bounds);
    }

    /// Room for one read from now on, in bytes.
    pub(crate) fn set_room(&mut self, bytes: usize) {
        self.room = bytes;
        if self.input.is_empty() {
            self.input = BytesMut::with_capacity(bytes);
        }
    }

    /// Sends one command and waits for its reply. What the server says of its own accord meanwhile is dropped.
    ///
    /// # Errors
    /// The connection broke. An error that the server answers is a reply.
    pub async fn ask<W: AsRef<[u8]>>(
        &mut self,
        words: &[W],
    ) -> Result<Result<Reply, ServerError>, ConnectError> {
        self.send(words).await?;
        loop {
            match self.receive().await? {
                Received::Reply(reply) => return Ok(reply),
                Received::Push(_) => self.note_push()?,
            }
        }
    }

    /// A push came that nobody asked for.
    ///
    /// # Errors
    /// They are too many.
    pub fn note_push(&mut self) -> Result<(), ConnectError> {
        self.reader.note_push().map_err(|error| error.at(&self.node))
    }

    /// Sends commands in one piece and waits for all replies.
    pub(crate) async fn ask_all<'a, W: AsRef<[u8]> + 'a>(
        &mut self,
        commands: impl Iterator<Item = &'a [W]>,
    ) -> Result<Vec<Result<Reply, ServerError>>, ConnectError> {
        let mut count = 0;
        for words in commands {
            resp::encode(&mut self.output, words);
            count += 1;
        }
        let sent = poll_fn(|cx| self.poll_output(cx)).await;
        sent.map_err(|error| unreachable_at(&self.node, error.to_string()))?;
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            match self.receive().await? {
                Received::Reply(reply) => replies.push(reply),
                Received::Push(_) => self.note_push()?,
            }
        }
        Ok(replies)
    }

    /// Sends one command.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<(), ConnectError> {
        resp::encode(&mut self.output, words);
        let sent = poll_fn(|cx| self.poll_output(cx)).await;
        sent.map_err(|error| unreachable_at(&self.node, error.to_string()))
    }

    /// Waits for the next thing that the server says.
    ///
    /// # Errors
    /// The connection broke, or what the server says cannot be read.
    pub async fn receive(&mut self) -> Result<Received, ConnectError> {
        loop {
            let said = self.reader.next(&self.input).map_err(|error| error.at(&self.node))?;
            let heard = said.map(|(said, length)| {
                let heard = match said {
                    Message::Reply(value) => Received::Reply(value.reply()),
                    Message::Push(values) => {
                        Received::Push(values.iter().filter_map(|it| it.reply().ok()).collect())
                    }
                };
                (heard, length)
            });
            if let Some((heard, length)) = heard {
                self.advance(length);
                return Ok(heard);
            }
            let read = poll_fn(|cx| self.poll_input(cx)).await;
            if read.map_err(|error| unreachable_at(&self.node, error.to_string()))? == 0 {
                return Err(unreachable_at(&self.node, "the server closed the connection".into()));
            }
        }
    }

    /// Has bytes sent by the next [`flush`](Self::flush), or while the next [`receive_raw`](Self::receive_raw) waits.
    pub(crate) fn queue(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// How many bytes are not sent yet.
    pub(crate) fn queued(&self) -> usize {
        self.output.len()
    }

    /// Sends all that is queued. If it is cancelled, the rest stays queued.
    pub(crate) async fn flush(&mut self) -> Result<(), ConnectError> {
        let sent = poll_fn(|cx| self.poll_output(cx)).await;
        sent.map_err(|error| unreachable_at(&self.node, error.to_string()))
    }

    /// Waits for the next thing that the server says, as it came, and whether that is a push; sends meanwhile what is queued. If it
    /// is cancelled, nothing is lost.
    pub(crate) async fn receive_raw(&mut self) -> Result<(bytes::Bytes, bool), ConnectError> {
        loop {
            let raw = self.reader.next_raw(&self.input).map_err(|error| error.at(&self.node))?;
            if let Some(raw) = raw {
                let said = self.input.split_to(raw.length).freeze();
                if self.input.is_empty() && raw.length > self.room {
                    self.input = BytesMut::with_capacity(self.room);
                }
                return Ok((said, raw.is_push));
            }
            let read = poll_fn(|cx| match self.poll_output(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => self.poll_input(cx),
            });
            if read.await.map_err(|error| unreachable_at(&self.node, error.to_string()))? == 0 {
                return Err(unreachable_at(&self.node, "the server closed the connection".into()));
            }
        }
    }

    /// What is in front was taken. Room that one large reply needed is not kept.
    fn advance(&mut self, taken: usize) {
        self.input.advance(taken);
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES_MAX {
            self.input = BytesMut::with_capacity(READ_BYTES);
        }
    }

    /// Reads and writes until the handler is done, `Ok`, or the connection breaks.
    pub(crate) async fn serve(
        &mut self,
        handler: &mut impl Handler,
        patience: Duration,
    ) -> Result<(), ConnectError> {
        let mut check = tokio::time::interval(patience / 4);
        let served = poll_fn(|cx| {
            while check.poll_tick(cx).is_ready() {
                if handler.waits().is_some_and(|waited| waited > patience && !is_planted(Bug::SilenceIgnored))
                {
                    let reason = format!("no answer for {patience:?}");
                    return Poll::Ready(Err(unreachable_at(&self.node, reason)));
                }
            }
            self.poll_serve(cx, handler)
        })
        .await;
        served.inspect_err(|error| handler.give_up(error))
    }

    fn poll_serve(
        &mut self,
        cx: &mut Context<'_>,
        handler: &mut impl Handler,
    ) -> Poll<Result<(), ConnectError>> {
        let broken = |node: &Address, error: io::Error| unreachable_at(node, error.to_string());
        let mut has_read = false;
        for _ in 0..READS_MAX {
            match self.poll_input(cx) {
                Poll::Ready(Ok(0)) => {
                    let reason = "the server closed the connection".to_owned();
                    return Poll::Ready(Err(unreachable_at(&self.node, reason)));
                }
                Poll::Ready(Ok(_)) => has_read = true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(&self.node, error))),
                Poll::Pending => break,
            }
        }
        if has_read {
            let taken = handler.take(&self.input, &mut self.reader)?;
            self.advance(taken);
            // Those whom this woke speak first; what they say leaves together with what there is now.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if self.output.is_empty() && handler.lingers() {
                // Unlike a task that wakes itself it comes after the future of `block_on`, too, and after what can be read by then.
                let _ = pin!(tokio::task::yield_now()).poll(cx);
                return Poll::Pending;
            }
            let is_done = self.output.is_empty() && handler.fill(cx.waker(), &mut self.output);
            if self.output.is_empty() {
                return if is_done { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            match self.poll_output(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(&self.node, error))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads once: the number of bytes, 0 at the end.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.input.capacity() - self.input.len() < self.room / 2 {
            // A reply that does not fit gets twice the room each time, so that it is not looked through too often.
            self.input.reserve(self.room.max(self.input.len()));
        }
        pin!(self.carrier.read_buf(&mut self.input)).poll(cx)
    }

    /// Writes all there is.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            match Pin::new(&mut self.carrier).poll_write(cx, &self.output) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.output.advance(if is_planted(Bug::RestUnwritten) {
                    self.output.len()
                } else {
                    written
                }),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Pin::new(&mut self.carrier).poll_flush(cx)
    }
}

/// What [`Connection::receive`] hears.
#[derive(Debug)]
pub enum Received {
    /// The reply to the first command that has none.
    Reply(Result<Reply, ServerError>),
    /// What it says of its own accord.
    Push(Vec<Reply>),
}

/// Nobody answers there, or the connection broke.
pub fn unreachable_at(node: &Address, reason: String) -> ConnectError {
    ConnectError::Unreachable { node: node.to_string(), reason }
}

/// What an error of the server means for the connection.
pub fn refusal(node: &Address, error: ServerError) -> ConnectError {
    let reason = error.to_string();
    let node = node.to_string();
    match error.code() {
        "WRONGPASS" | "NOAUTH" | "NOPERM" => ConnectError::Denied { node, reason },
        "LOADING" | "NOTREADY" | "NOSESSION" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY" | "TRYAGAIN"
        | "MOVED" | "READONLY" => ConnectError::Unreachable { node, reason },
        // To a password where none is set.
        _ if reason.contains("AUTH") && reason.contains("password") => ConnectError::Denied { node, reason },
        _ => ConnectError::NotUnderstood { node, reason },
    }
}
