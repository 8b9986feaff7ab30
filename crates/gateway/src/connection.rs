//! Reading and writing on one client's connection: requests come out one by one, answers go in by [`Replies`].

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::limits::{GatewayLimits, RequestLimits};
use crate::memory::{Account, Charge};
use crate::metrics::Metrics;
use crate::replies::Replies;
use crate::request::{ProtocolError, Request, RequestReader};
use crate::stream::Stream;

/// Room for one read, shared by all connections of a thread: one that is idle keeps none.
const READ_BYTES: usize = 64 << 10;

/// Answers are written when so many bytes wait, also while more requests are there.
const WRITE_BYTES: usize = 64 << 10;

/// A client that reads nothing for so long is read from though much is unread: many clients write a whole pipeline before they read.
const STALL: Duration = Duration::from_millis(20);

/// For so long answers wait for that of a command that is carried out, so that all leave at once.
const TOGETHER: Duration = Duration::from_millis(10);

thread_local! {
    static ROOM: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// What comes next on a connection.
pub(crate) enum Next {
    Request(Request),
    /// No whole request is there: what was gathered is to leave now.
    Pause,
    /// The other end closed it, or it broke.
    Closed,
    /// What came is no request.
    Wrong(ProtocolError),
}

/// Whether a client reads what it is written.
enum Stall {
    None,
    /// It cannot be written to, until this is over.
    Since(Pin<Box<Sleep>>),
    Stuck,
}

/// See the module's text.
pub(crate) struct Connection {
    stream: Stream,
    input: BytesMut,
    reader: RequestReader,
    out: BytesMut,
    replies: Arc<Replies>,
    metrics: Arc<Metrics>,
    is_at_end: bool,
    stall: Stall,
    /// Until when answers wait for another's. It stays in the runtime's wheel from one to the next: to take it out costs more than that it
    /// fires now and then for nobody.
    rest: Option<Pin<Box<Sleep>>>,
    /// What was read and not taken, and what is being written.
    charge: Charge,
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        replies: Arc<Replies>,
        metrics: Arc<Metrics>,
        account: &Account,
    ) -> Self {
        let (input, out) = (BytesMut::new(), BytesMut::new());
        Connection {
            stream,
            input,
            reader: RequestReader::default(),
            out,
            replies,
            metrics,
            is_at_end: false,
            stall: Stall::None,
            rest: None,
            charge: account.charge(),
        }
    }

    /// The next request that is there already.
    pub(crate) fn ready(&mut self, limits: &RequestLimits) -> Result<Option<Request>, ProtocolError> {
        self.reader.next(&mut self.input, limits)
    }

    /// Waits for the next request, and writes answers meanwhile. None is taken while too many of the earlier ones are at nodes, nor while
    /// too much is unread by a client that reads. One that reads nothing is read from: it may read once it has written everything.
    /// `has_gathered`: answer at once when no request is there.
    pub(crate) async fn next(
        &mut self,
        limits: &GatewayLimits,
        of_request: &RequestLimits,
        has_gathered: bool,
    ) -> Next {
        poll_fn(|cx| self.poll_next(cx, limits, of_request, has_gathered)).await
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        limits: &GatewayLimits,
        of_request: &RequestLimits,
        has_gathered: bool,
    ) -> Poll<Next> {
        loop {
            if self.may_take(limits) {
                match self.ready(of_request) {
                    Ok(Some(request)) => return Poll::Ready(Next::Request(request)),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Next::Wrong(error)),
                }
            } else if !has_gathered {
                let Ok(is_written) = self.poll_write(cx) else { return Poll::Ready(Next::Closed) };
                // Before it is looked at again: an answer may come in between.
                self.replies.wake_later(cx);
                if !self.may_take(limits) && (is_written || !self.is_stuck(cx, limits)) {
                    return Poll::Pending;
                }
                continue;
            }
            if has_gathered {
                return Poll::Ready(Next::Pause);
            }
            if self.poll_write(cx).is_err() || self.is_at_end {
                return Poll::Ready(Next::Closed);
            }
            if self.may_take(limits) {
                match self.poll_read(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(Next::Closed),
                    Poll::Pending => return Poll::Pending,
                }
            }
        }
    }

    /// Whether one more command is taken.
    pub(crate) fn may_take(&self, limits: &GatewayLimits) -> bool {
        let load = self.replies.load();
        let is_asked = load.waiting >= limits.pipelined_max || load.asked_bytes >= limits.unread_bytes_max;
        let is_unread = load.unread_bytes + self.out.len() >= limits.unread_bytes_max;
        !is_asked && (!is_unread || matches!(self.stall, Stall::Stuck))
    }

    /// Whether the client reads nothing, so that one more command is taken though much is unread.
    fn is_stuck(&mut self, cx: &mut Context<'_>, limits: &GatewayLimits) -> bool {
        if matches!(self.stall, Stall::None) {
            self.stall = Stall::Since(Box::pin(tokio::time::sleep(STALL)));
        }
        if let Stall::Since(sleep) = &mut self.stall {
            match sleep.as_mut().poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(()) => self.stall = Stall::Stuck,
            }
        }
        self.may_take(limits)
    }

    /// Reads once: whether the connection goes on.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        ROOM.with_borrow_mut(|room| {
            let mut buffer = ReadBuf::new(room);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => {
                    if self.input.is_empty() {
                        // An idle connection keeps no room.
                        self.input = BytesMut::new();
                        self.charge.set(self.out.len());
                    }
                    Poll::Pending
                }
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.metrics.bytes_in.fetch_add(buffer.filled().len() as u64, Ordering::Relaxed);
                    self.input.extend_from_slice(buffer.filled());
                    self.charge.set(self.input.capacity() + self.out.len());
                    Poll::Ready(true)
                }
                Poll::Ready(_) => {
                    self.is_at_end = true;
                    Poll::Ready(false)
                }
            }
        })
    }

    /// Writes what can be written: whether all of it was.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let written = self.poll_write_all(cx);
        self.charge.set(self.input.capacity() + self.out.len());
        written
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.out.is_empty() {
                self.replies.take(&mut self.out, cx);
            }
            if self.out.is_empty() {
                self.out = BytesMut::new();
                return match Pin::new(&mut self.stream).poll_flush(cx) {
                    Poll::Ready(done) => done.map(|()| true),
                    Poll::Pending => Ok(true),
                };
            }
            match Pin::new(&mut self.stream).poll_write(cx, &self.out) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => {
                    self.metrics.bytes_out.fetch_add(written as u64, Ordering::Relaxed);
                    self.out.advance(written);
                    self.stall = Stall::None;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Waits until no more than these commands wait for their answers, and writes meanwhile: whether the connection still stands.
    pub(crate) async fn drained(&mut self, but: usize) -> bool {
        poll_fn(|cx| {
            loop {
                let load = self.replies.load();
                if load.waiting <= but && load.asked_bytes + load.unread_bytes < WRITE_BYTES {
                    return Poll::Ready(true);
                }
                match self.poll_write(cx) {
                    Err(_) => return Poll::Ready(false),
                    Ok(_) if load.waiting <= but => return Poll::Ready(true),
                    Ok(_) => {}
                }
                // Also where nothing can be written: before it is looked at again, as an answer may come in between.
                self.replies.wake_later(cx);
                if self.replies.load().waiting > but {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Writes all answers that are there: whether the connection still stands.
    pub(crate) async fn flushed(&mut self) -> bool {
        poll_fn(|cx| match self.poll_write(cx) {
            Ok(true) => Poll::Ready(true),
            Ok(false) => Poll::Pending,
            Err(_) => Poll::Ready(false),
        })
        .await
    }

    /// Waits until the other end is gone. What comes meanwhile is kept, and charged to the connection; messages are written. Answers that
    /// are there leave with that of what is carried out, if it comes soon: a write costs more than most transactions.
    pub(crate) async fn gone(&mut self) {
        if self.replies.load().unread_bytes + self.out.len() > 0 {
            let until = Instant::now() + TOGETHER;
            match &mut self.rest {
                Some(rest) => rest.as_mut().reset(until),
                rest => *rest = Some(Box::pin(tokio::time::sleep_until(until))),
            }
            let is_gone = poll_fn(|cx| match self.rest.as_mut().map(|rest| rest.as_mut().poll(cx)) {
                Some(Poll::Pending) => self.poll_gone(cx).map(|()| true),
                _ => Poll::Ready(false),
            });
            if is_gone.await {
                return;
            }
        }
        poll_fn(|cx| match self.poll_write(cx) {
            Ok(_) => self.poll_gone(cx),
            Err(_) => Poll::Ready(()),
        })
        .await
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Says why it is closed, if that does not come in the midst of an answer and can be written now.
    pub(crate) async fn say_last(&mut self, line: &[u8]) {
        if self.out.is_empty() && self.replies.load().unread_bytes == 0 {
            let write = |cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut self.stream).poll_write(cx, line));
            let _ = poll_fn(write).await;
        }
    }

    /// Says goodbye.
    pub(crate) async fn close(&mut self) {
        let _ = poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await;
    }
}
