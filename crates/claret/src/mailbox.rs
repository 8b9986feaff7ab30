//! The mailbox of a transaction: answers that shards give while others call them, and events of its client state
//! machine.

use std::task::{Poll, Waker};

use claret_core::message::{Response, Seen};
use claret_core::{CallNo, Event, ShardId};
use claret_types::Reply;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::by_call::ByCall;

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
    /// Tasks that wait for whatever comes.
    wakers: SmallVec<[Waker; 1]>,
    /// Tasks that wait for one answer each.
    waiting: ByCall<Waker>,
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

    /// Takes the answers of a commit, if that has come; `None`: something else has, and stays here. Until then this task is
    /// woken when anything comes.
    pub(crate) fn poll_committed(&self, waker: &Waker) -> Poll<Option<Vec<(CallNo, Reply)>>> {
        let mut inner = self.inner.lock();
        match inner.events.as_mut_slice() {
            [] => {}
            [Event::Committed { replies }] => {
                let replies = std::mem::take(replies);
                inner.events.clear();
                return Poll::Ready(Some(replies));
            }
            _ => return Poll::Ready(None),
        }
        inner.watch(waker);
        Poll::Pending
    }

    /// Wakes this task when something comes; if it waits for an answer, when that may have come. Returns whether something
    /// is there already.
    pub(crate) fn watch(&self, waker: &Waker, answer: Option<CallNo>) -> bool {
        let mut inner = self.inner.lock();
        match answer {
            Some(no) => inner.waiting.put(no, waker.clone()),
            None => inner.watch(waker),
        }
        !(inner.responses.is_empty() && inner.events.is_empty())
    }

    /// Wakes everybody who watches: the transaction's state changed in another of its tasks.
    pub(crate) fn wake(&self) {
        let mut woken = Wakers::new();
        self.wake_into(&mut woken);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The same, later.
    pub(crate) fn wake_into(&self, woken: &mut Wakers) {
        self.inner.lock().wake_into(woken);
    }

    /// The same where nothing but these answers came: of those who wait for others, nobody is woken.
    pub(crate) fn wake_for(&self, answers: &[CallNo]) {
        let mut woken = Wakers::new();
        {
            let mut inner = self.inner.lock();
            inner.wake_general_into(&mut woken);
            woken.extend(answers.iter().filter_map(|no| inner.waiting.take(*no)));
        }
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn put_event(&self, event: Event, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        match event {
            Event::Answer { no, .. } | Event::Seen { no, seen: Seen::Answer { .. } } => {
                inner.wake_general_into(woken);
                woken.extend(inner.waiting.take(no));
            }
            _ => inner.wake_into(woken),
        }
        inner.events.push(event);
    }

    pub(crate) fn put(&self, from: ShardId, response: Response, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        inner.responses.push((from, response));
        inner.wake_into(woken);
    }
}

impl MailboxInner {
    /// Wakes this task when anything comes.
    fn watch(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    fn wake_into(&mut self, woken: &mut Wakers) {
        self.wake_general_into(woken);
        self.waiting.take_all(|waker| woken.push(waker));
    }

    /// Those who wait for whatever comes.
    fn wake_general_into(&mut self, woken: &mut Wakers) {
        while let Some(waker) = self.wakers.pop() {
            woken.push(waker);
        }
    }
}
