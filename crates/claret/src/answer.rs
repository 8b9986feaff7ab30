//! Answers of operations that are awaited.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use claret_core::CallNo;
use claret_types::Reply;
use futures_timer::Delay;

use crate::decode::{Decode, Keys};
use crate::error::Error;
use crate::tx::{Tx, strange};

/// A transaction of its own, under way when polled.
type Own = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

/// An operation that was called.
pub(crate) enum Started {
    Ready(Result<Reply, Error>),
    Waits {
        tx: Tx,
        no: CallNo,
        timer: Option<Delay>,
    },
    /// Several calls: those that are not answered, and the answers so far.
    Many {
        parts: std::vec::IntoIter<Started>,
        replies: Vec<Reply>,
    },
    Own {
        future: Own,
        writes: bool,
    },
    Taken,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Started::Ready(_) => "Ready",
            Started::Waits { .. } => "Waits",
            Started::Many { .. } => "Many",
            Started::Own { .. } => "Own",
            Started::Taken => "Taken",
        })
    }
}

/// The answer of an operation: a future.
///
/// In a transaction the operation is under way from the moment it was called, so awaiting two answers together (`join!`)
/// costs one wait. On a store it is a transaction of one, which begins when its answer is first polled.
#[derive(Debug)]
#[must_use = "a store does nothing until it is awaited; in a transaction use the void variant, or `issue`"]
pub struct Answer<R> {
    pub(crate) started: Started,
    pub(crate) read: Decode<R>,
    pub(crate) keys: Keys,
}

impl<R> Answer<R> {
    /// A transaction of its own. `writes`: whether it may change a record.
    pub(crate) fn own(
        future: impl Future<Output = Result<Reply, Error>> + Send + 'static,
        writes: bool,
        read: Decode<R>,
        keys: Keys,
    ) -> Self {
        Answer { started: Started::Own { future: Box::pin(future), writes }, read, keys }
    }

    /// An operation that was not issued.
    pub(crate) fn refused(error: Error) -> Self {
        Answer { started: Started::Ready(Err(error)), read: Decode::nothing(), keys: Keys::None }
    }
}

impl<R> Future for Answer<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Of a transaction of its own, it has committed by now.
        let has_written = matches!(self.started, Started::Own { writes: true, .. });
        let Poll::Ready(result) = self.started.poll(cx) else { return Poll::Pending };
        // A mistake of the type's author, or of a server.
        Poll::Ready(result.and_then(|reply| self.read.read(&self.keys, reply, || strange(has_written))))
    }
}

impl Started {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, Error>> {
        let result = match self {
            Started::Ready(_) => {
                let Started::Ready(result) = std::mem::replace(self, Started::Taken) else {
                    unreachable!("just matched")
                };
                return Poll::Ready(result);
            }
            Started::Waits { tx, no, timer } => tx.poll_answer(cx, timer, *no),
            Started::Many { parts, replies } => poll_all(cx, parts, replies),
            Started::Own { future, .. } => future.as_mut().poll(cx),
            Started::Taken => panic!("an answer is awaited once"),
        };
        if result.is_ready() {
            *self = Started::Taken;
        }
        result
    }
}

/// One after the other: they are all under way.
fn poll_all(
    cx: &mut Context<'_>,
    parts: &mut std::vec::IntoIter<Started>,
    replies: &mut Vec<Reply>,
) -> Poll<Result<Reply, Error>> {
    loop {
        let Some(part) = parts.as_mut_slice().first_mut() else {
            return Poll::Ready(Ok(Reply::Array(std::mem::take(replies))));
        };
        match part.poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(reply)) => replies.push(reply),
        }
        drop(parts.next());
    }
}
