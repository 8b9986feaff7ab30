//! The mailbox of a transaction: answers that shards give while others call them, and events of its client state
//! machine.

use std::task::Waker;

use claret_core::message::Response;
use claret_core::{Event, ShardId};
use parking_lot::Mutex;
use smallvec::SmallVec;

/// Whom to wake once no lock is held.
pub(crate) type Wakers = SmallVec<[Waker; 8]>;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inner: Mutex<MailboxInner>,
}

#[derive(Debug, Default)]
struct MailboxInner {
    responses: Vec<(ShardId, Response)>,
    /// Mostly one at a time.
    events: SmallVec<[Event; 1]>,
    wakers: SmallVec<[Waker; 1]>,
}

impl Mailbox {
    /// Takes what has come.
    pub(crate) fn take(&self) -> Vec<(ShardId, Response)> {
        std::mem::take(&mut self.inner.lock().responses)
    }

    /// Takes the events that have come.
    pub(crate) fn take_events(&self) -> SmallVec<[Event; 1]> {
        let mut inner = self.inner.lock();
        if inner.events.is_empty() { SmallVec::new() } else { std::mem::take(&mut inner.events) }
    }

    /// Wakes this task when something comes. Returns whether something is there already.
    pub(crate) fn watch(&self, waker: &Waker) -> bool {
        let mut inner = self.inner.lock();
        if !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        !(inner.responses.is_empty() && inner.events.is_empty())
    }

    /// Wakes everybody who watches: the transaction's state changed in another of its tasks.
    pub(crate) fn wake(&self) {
        let wakers = std::mem::take(&mut self.inner.lock().wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn put_event(&self, event: Event, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        inner.events.push(event);
        inner.wake_into(woken);
    }

    pub(crate) fn put(&self, from: ShardId, response: Response, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        inner.responses.push((from, response));
        inner.wake_into(woken);
    }
}

impl MailboxInner {
    fn wake_into(&mut self, woken: &mut Wakers) {
        for waker in self.wakers.drain(..) {
            woken.push(waker);
        }
    }
}
