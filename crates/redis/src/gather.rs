//! Several commands that are waited for together.

use std::sync::Arc;
use std::task::Waker;

use bytes::BytesMut;
use claret_types::Reply;
use parking_lot::Mutex;

use crate::Wakers;
use crate::command::{Command, CommandError};
use crate::pool::{Receiver, Waiting};
use crate::resp;

/// See the module's text.
pub(crate) struct Gather {
    commands: Vec<Command>,
    inner: Mutex<Gathered>,
}

struct Gathered {
    replies: Vec<Option<Result<Reply, CommandError>>>,
    missing: usize,
    waker: Option<Waker>,
}

impl Gather {
    pub(crate) fn new(commands: Vec<Command>) -> Self {
        let missing = commands.len();
        let replies = std::iter::repeat_with(|| None).take(missing).collect();
        Gather { commands, inner: Mutex::new(Gathered { replies, missing, waker: None }) }
    }

    /// What is to be sent.
    pub(crate) fn waiting(self: &Arc<Self>) -> impl Iterator<Item = Waiting> {
        let to = |it: &Arc<Self>| Arc::clone(it) as Arc<dyn Receiver>;
        let numbered = self.commands.iter().zip(0..);
        numbered.map(move |(command, no)| Waiting::new(to(self), no, command.slot))
    }

    /// All replies, once they are there.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Vec<Result<Reply, CommandError>>> {
        let mut inner = self.inner.lock();
        if inner.missing > 0 {
            inner.waker = Some(waker.clone());
            return None;
        }
        Some(std::mem::take(&mut inner.replies).into_iter().flatten().collect())
    }
}

impl Receiver for Gather {
    fn encode(&self, no: u32, out: &mut BytesMut) {
        resp::encode(out, self.commands[no as usize].words());
    }

    fn receive(&self, no: u32, reply: Result<Reply, CommandError>, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        inner.replies[no as usize] = Some(reply);
        inner.missing -= 1;
        if inner.missing == 0 {
            woken.extend(inner.waker.take());
        }
    }
}
