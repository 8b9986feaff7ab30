//! Reading and writing on one client's connection: requests come out one by one, answers go in by [`Replies`].

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{GatewayLimits, RequestLimits};
use crate::metrics::Metrics;
use crate::replies::Replies;
use crate::request::{ProtocolError, Request, RequestReader};
use crate::stream::Stream;

/// Room for one read, shared by all connections of a thread: one that is idle keeps none.
const READ_BYTES: usize = 64 << 10;

/// Answers are written when so many bytes wait, also while more requests are there.
const WRITE_BYTES: usize = 64 << 10;

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

/// See the module's text.
pub(crate) struct Connection {
    stream: Stream,
    input: BytesMut,
    reader: RequestReader,
    out: BytesMut,
    replies: Arc<Replies>,
    metrics: Arc<Metrics>,
    is_at_end: bool,
}

impl Connection {
    pub(crate) fn new(stream: Stream, replies: Arc<Replies>, metrics: Arc<Metrics>) -> Self {
        let (input, out) = (BytesMut::new(), BytesMut::new());
        Connection {
            stream,
            input,
            reader: RequestReader::default(),
            out,
            replies,
            metrics,
            is_at_end: false,
        }
    }

    /// The next request that is there already.
    pub(crate) fn ready(&mut self, limits: &RequestLimits) -> Result<Option<Request>, ProtocolError> {
        self.reader.next(&mut self.input, limits)
    }

    /// Waits for the next request, and writes answers meanwhile. While too many answers are owed or unread none is taken: the client
    /// has to read first. `has_gathered`: answer at once when no request is there.
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
            let (waiting, unread) = self.replies.load();
            let is_full =
                waiting >= limits.pipelined_max || unread + self.out.len() >= limits.unread_bytes_max;
            if !is_full {
                match self.ready(of_request) {
                    Ok(Some(request)) => return Poll::Ready(Next::Request(request)),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Next::Wrong(error)),
                }
            }
            if has_gathered {
                return Poll::Ready(Next::Pause);
            }
            match self.poll_write(cx) {
                Ok(true) => {}
                // It cannot be written now, so nothing is read either.
                Ok(false) if is_full => return Poll::Pending,
                Ok(false) => {}
                Err(_) => return Poll::Ready(Next::Closed),
            }
            let (waiting, unread) = self.replies.load();
            if waiting >= limits.pipelined_max || unread + self.out.len() >= limits.unread_bytes_max {
                return Poll::Pending;
            }
            if is_full {
                continue;
            }
            if self.is_at_end {
                return Poll::Ready(Next::Closed);
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(Next::Closed),
                Poll::Pending => return Poll::Pending,
            }
        }
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
                    }
                    Poll::Pending
                }
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.metrics.bytes_in.fetch_add(buffer.filled().len() as u64, Ordering::Relaxed);
                    self.input.extend_from_slice(buffer.filled());
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
                match self.replies.load() {
                    (waiting, unread) if waiting <= but && unread < WRITE_BYTES => return Poll::Ready(true),
                    (waiting, _) => match self.poll_write(cx) {
                        Err(_) => return Poll::Ready(false),
                        Ok(_) if waiting <= but => return Poll::Ready(true),
                        Ok(_) if self.replies.load().0 <= but => {}
                        Ok(_) => return Poll::Pending,
                    },
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

    /// Waits until the other end is gone. What comes meanwhile is kept, up to a bound; messages are written.
    pub(crate) async fn gone(&mut self, limits: &GatewayLimits) {
        poll_fn(|cx| {
            if self.poll_write(cx).is_err() {
                return Poll::Ready(());
            }
            loop {
                // Whoever sends so much behind a command that waits is not waited for.
                if self.input.len() >= limits.request_bytes_max {
                    return Poll::Ready(());
                }
                match self.poll_read(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Says goodbye.
    pub(crate) async fn close(&mut self) {
        let _ = poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await;
    }
}
