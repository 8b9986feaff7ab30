//! Mode `none` on a cluster: the operations of a transaction, sent as plain commands.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::BytesMut;
use claret_core::message::Refusal;
use claret_core::{CallNo, Closed, Event, Limits, Time};
use claret_redis::pool::{Pool, Receiver, Waiting};
use claret_redis::{
    Cluster as Connections, CommandError, check_operation, encode_operation, reply_of, slot_of,
};
use claret_types::{Bytes, Claims, OpError, Operation, Reply, Schema, SchemaDigest};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::backend::{GRACE, instant, knows, listing, pause_after, too_late};
use super::refused::refusal_of;
use super::timers::Timers;
use super::together::Together;
use crate::backend::{Backend, Closing, Driver, InstantOutcome, Sent as SentCalls, Task};
use crate::call::Call;
use crate::error::Error;
use crate::mailbox::{Mailbox, Wakers};
use crate::mode::Mode;
use crate::pages::Pages;
use crate::stats::{Counts, Measured, Stats};

/// See the module's text. A backend that promises nothing.
#[derive(Debug)]
pub(crate) struct Unlocked {
    connections: Connections,
    limits: Limits,
    counts: Counts,
    is_closed: AtomicBool,
    began: std::time::Instant,
    timers: Timers,
    schema: Option<Arc<(Schema, SchemaDigest)>>,
}

impl Unlocked {
    pub(crate) fn new(
        connections: Connections,
        limits: Limits,
        schema: Option<Arc<(Schema, SchemaDigest)>>,
    ) -> Self {
        let timers = Timers::start(connections.net().runtime().clone(), std::future::pending());
        let (counts, is_closed) = (Counts::new(Measured::All), AtomicBool::new(false));
        Unlocked { connections, limits, counts, is_closed, began: std::time::Instant::now(), timers, schema }
    }
}

impl Backend for Unlocked {
    fn mode(&self) -> Mode {
        Mode::None
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn describe(&self, out: &mut fmt::DebugStruct<'_, '_>) {
        out.field("nodes", &self.connections.nodes());
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn stats(&self) -> Stats {
        self.counts.stats()
    }

    fn check_invariants(&self) {}

    fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref().map(|schema| &schema.0)
    }

    fn knows(&self, op: &Operation) -> Result<(), OpError> {
        if op.expects() || op.is_command() {
            // It would be carried out first, and its answer looked at then.
            return Err(OpError::NoPlainCommand { method: op.method().name.into() });
        }
        knows(op, || self.connections.net().nodes().iter().map(ToString::to_string).collect())
    }

    fn checks_answers(&self) -> bool {
        true
    }

    fn keys(self: Arc<Self>, pattern: Bytes) -> Box<dyn Pages> {
        listing(self.connections.net(), pattern)
    }

    fn instant(&self, calls: &[Call]) -> InstantOutcome {
        instant(calls)
    }

    fn send(&self, calls: Vec<Call>) -> Result<Arc<dyn SentCalls>, Vec<Call>> {
        Ok(Together::send(Arc::clone(self.connections.pool()), calls))
    }

    fn begin(self: Arc<Self>, mailbox: &Arc<Mailbox>, _since: Option<Time>) -> Box<dyn Driver> {
        let (pool, mailbox) = (Arc::clone(self.connections.pool()), Arc::clone(mailbox));
        Box::new(CommandDriver(Arc::new(Commands { pool, mailbox, inner: Mutex::default() })))
    }

    fn pause_after(&self, refusal: &Refusal) -> Option<(u64, u64)> {
        pause_after(refusal)
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_micros() as u64)
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.connections.net().settings().response_timeout())
    }

    fn too_late(&self, after: Duration) -> Error {
        too_late(after, self.is_closed(), || self.connections.net().away())
    }

    fn join_tick(&self, time: Duration, waker: &Waker) -> Option<u64> {
        self.timers.join_tick(time, waker)
    }

    fn timer(&self, after: Duration) -> Option<Task<'static>> {
        Some(Box::pin(self.timers.after(after)))
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) || self.timers.are_over()
    }

    /// What is under way is answered, or told that it was not sent.
    fn close(&self) -> Closing<'_> {
        self.is_closed.store(true, Ordering::Release);
        self.timers.stop();
        let net = Arc::clone(self.connections.net());
        net.close();
        self.connections.pool().farewell();
        let patience = net.settings().response_timeout();
        let closed = self.timers.run(patience + GRACE, async move { net.closed(patience).await });
        Box::pin(async move {
            closed.await;
            Ok(())
        })
    }
}

/// The driver of a transaction: sends its commands.
#[derive(Debug)]
struct CommandDriver(Arc<Commands>);

/// The commands of one transaction, which hear their replies. They know the pool and not the store: what waits in a
/// queue must not keep the store alive.
#[derive(Debug)]
struct Commands {
    pool: Arc<Pool>,
    mailbox: Arc<Mailbox>,
    inner: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    calls: Vec<Sent>,
    /// Those of them that go with the commit.
    later: Vec<CallNo>,
    /// Replies that the commit waits for.
    missing: usize,
    is_committing: bool,
    replies: Vec<(CallNo, Reply)>,
    failed: Option<Event>,
}

#[derive(Debug)]
struct Sent {
    key: Bytes,
    slot: u16,
    op: Operation,
}

impl Driver for CommandDriver {
    fn execute(
        &mut self,
        _attempt: u32,
        buffered: &mut Vec<Call>,
        call: Call,
        _reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        self.0.buffer(buffered);
        let no = self.0.inner.lock().add(call);
        self.0.send(&[no]);
        Ok(no)
    }

    /// There are no locks.
    fn conflicts_with(&self, _key: &Bytes, _op: &Operation) -> bool {
        false
    }

    fn commit(&mut self, _attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed> {
        self.0.buffer(buffered);
        let later = {
            let mut inner = self.0.inner.lock();
            inner.is_committing = true;
            inner.missing = inner.later.len();
            std::mem::take(&mut inner.later)
        };
        match later.is_empty() {
            true => self.0.tell(Event::Committed { replies: Vec::new() }),
            false => self.0.send(&later),
        }
        Ok(())
    }

    /// They are numbered as those that follow, and leave with the commit all the same.
    fn settle(&mut self, _attempt: u32, buffered: &mut Vec<Call>) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        self.0.buffer(buffered);
        Ok(Vec::new())
    }

    /// What is under way cannot be taken back.
    fn abort(&mut self) {
        self.0.tell(Event::Aborted);
    }

    /// Plain commands are sent once.
    fn restart(&mut self, _ended: u32) -> Result<(), Closed> {
        Err(Closed)
    }

    fn end(&mut self, _is_over: bool) {}
}

impl Commands {
    fn buffer(&self, calls: &mut Vec<Call>) {
        let mut inner = self.inner.lock();
        for call in calls.drain(..) {
            let no = inner.add(call);
            inner.later.push(no);
        }
    }

    fn tell(&self, event: Event) {
        let mut woken = Wakers::new();
        self.mailbox.put_event(event, &mut woken);
        woken.into_iter().for_each(std::task::Waker::wake);
    }

    fn send(self: &Arc<Self>, numbers: &[CallNo]) {
        let mut commands = SmallVec::<[Waiting; 4]>::with_capacity(numbers.len());
        let mut refused = Vec::new();
        {
            let inner = self.inner.lock();
            for no in numbers {
                let Sent { key, slot, op } = &inner.calls[no.0 as usize];
                match check_operation(key, op) {
                    Ok(()) => {
                        let to: Arc<dyn Receiver> = Arc::clone(self) as Arc<dyn Receiver>;
                        commands.push(Waiting::new(to, no.0, Some(*slot)));
                    }
                    Err(error) => refused.push((no.0, error)),
                }
            }
        }
        self.pool.send(commands);
        let mut woken = Wakers::new();
        for (no, error) in refused {
            self.note(no, Err(error_at(self.key_of(no), error)), &mut woken);
        }
        woken.into_iter().for_each(std::task::Waker::wake);
    }

    fn key_of(&self, no: u32) -> Bytes {
        self.inner.lock().calls[no as usize].key.clone()
    }

    fn note(&self, no: u32, reply: Result<Reply, Event>, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        let event = if inner.is_committing { inner.on_commit(no, reply) } else { inner.on_answer(no, reply) };
        if let Some(event) = event {
            self.mailbox.put_event(event, woken);
        }
    }
}

impl Progress {
    fn add(&mut self, call: Call) -> CallNo {
        let slot = slot_of(&call.key);
        self.calls.push(Sent { key: call.key, slot, op: call.op });
        CallNo(self.calls.len() as u32 - 1)
    }

    fn on_answer(&self, no: u32, reply: Result<Reply, Event>) -> Option<Event> {
        let answer = |reply| Event::Answer { no: CallNo(no), reply };
        Some(reply.map_or_else(|event| event, |reply| answer(reply_of(&self.calls[no as usize].op, reply))))
    }

    fn on_commit(&mut self, no: u32, reply: Result<Reply, Event>) -> Option<Event> {
        self.missing = self.missing.saturating_sub(1);
        match reply {
            Ok(reply) => {
                let op = &self.calls[no as usize].op;
                if op.returns() {
                    let reply = reply_of(op, reply);
                    self.replies.push((CallNo(no), reply));
                }
            }
            Err(event) => self.failed = Some(event),
        }
        if self.missing > 0 {
            return None;
        }
        let replies = std::mem::take(&mut self.replies);
        Some(self.failed.take().unwrap_or(Event::Committed { replies }))
    }
}

impl Receiver for Commands {
    fn encode(&self, no: u32, out: &mut BytesMut) {
        let Sent { key, op, .. } = &self.inner.lock().calls[no as usize];
        encode_operation(key, op, out).expect("it was looked whether there is a command");
    }

    fn receive(&self, no: u32, reply: Result<Reply, CommandError>, woken: &mut Wakers) {
        let reply = reply.map_err(|error| match error {
            CommandError::Lost { .. } => Event::Unknown,
            other => {
                let inner = self.inner.lock();
                let Sent { key, op, .. } = &inner.calls[no as usize];
                Event::Failed { refusal: refusal_of(key.clone(), op, &other) }
            }
        });
        self.note(no, reply, woken);
    }
}

fn error_at(key: Bytes, error: OpError) -> Event {
    Event::Failed { refusal: Refusal::Operation { key, error: error.into() } }
}
