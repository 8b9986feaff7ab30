//! Calls of mode `none` that are all known: their commands go out together, and their answers are gathered. Without locks
//! there is nothing to begin, to prepare or to commit, so there is no transaction behind it.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use bytes::BytesMut;
use claret_core::message::Refusal;
use claret_redis::pool::{Pool, Receiver, Waiting};
use claret_redis::{CommandError, Wakers, check_operation, encode_operation, reply_of, slot_of};
use claret_types::Reply;
use parking_lot::Mutex;

use super::refused::refusal_of;
use crate::backend::{Sent, SentOutcome};
use crate::call::Call;

/// See the module's text.
pub(super) struct Together {
    pool: Arc<Pool>,
    calls: Vec<Call>,
    inner: Mutex<Gathered>,
}

struct Gathered {
    /// In the order of the calls. What answers nothing is answered already.
    replies: Vec<Reply>,
    missing: usize,
    /// What it comes to instead of replies.
    failed: Option<SentOutcome>,
    waker: Option<Waker>,
}

impl Together {
    /// They are on their way when this returns.
    pub(super) fn send(pool: Arc<Pool>, calls: Vec<Call>) -> Arc<Self> {
        let missing = calls.len();
        let replies = std::iter::repeat_with(|| Reply::Ok).take(missing).collect();
        let inner = Gathered { replies, missing, failed: None, waker: None };
        let all = Arc::new(Together { pool, calls, inner: Mutex::new(inner) });
        let waiting = all.calls.iter().zip(0..).filter_map(|(call, no)| all.waiting(call, no));
        all.pool.send(waiting);
        all
    }

    /// A call as a command; `None`: there is no such command, which is noted.
    fn waiting(self: &Arc<Self>, call: &Call, no: u32) -> Option<Waiting> {
        match check_operation(&call.key, &call.op) {
            Ok(()) => {
                let to: Arc<dyn Receiver> = Arc::clone(self) as Arc<dyn Receiver>;
                Some(Waiting::new(to, no, Some(slot_of(&call.key))))
            }
            Err(error) => {
                let refusal = Refusal::Operation { key: call.key.clone(), error: error.into() };
                // Nobody waits yet who could be woken.
                self.inner.lock().fail(SentOutcome::Failed(refusal));
                None
            }
        }
    }
}

impl Gathered {
    fn fail(&mut self, outcome: SentOutcome) {
        self.failed = Some(outcome);
        self.missing -= 1;
    }
}

impl fmt::Debug for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Together").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Sent for Together {
    fn take(&self, waker: &Waker) -> Option<SentOutcome> {
        let mut inner = self.inner.lock();
        if inner.missing > 0 {
            if inner.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
                inner.waker = Some(waker.clone());
            }
            return None;
        }
        let failed = inner.failed.take();
        Some(failed.unwrap_or_else(|| SentOutcome::Done(std::mem::take(&mut inner.replies))))
    }

    fn again(&self) -> Arc<dyn Sent> {
        Together::send(Arc::clone(&self.pool), self.calls.clone())
    }
}

impl Receiver for Together {
    fn encode(&self, no: u32, out: &mut BytesMut) {
        let Call { key, op } = &self.calls[no as usize];
        encode_operation(key, op, out).expect("it was looked whether there is a command");
    }

    fn receive(&self, no: u32, reply: Result<Reply, CommandError>, woken: &mut Wakers) {
        let Call { key, op } = &self.calls[no as usize];
        let mut inner = self.inner.lock();
        match reply {
            Ok(reply) => {
                if op.returns() {
                    inner.replies[no as usize] = reply_of(op, reply);
                }
                inner.missing -= 1;
            }
            Err(CommandError::Lost { .. }) => inner.fail(SentOutcome::Unknown),
            Err(other) => inner.fail(SentOutcome::Failed(refusal_of(key.clone(), op, &other))),
        }
        if inner.missing == 0 {
            woken.extend(inner.waker.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use claret_redis::Builder;
    use claret_redis::net::Service;
    use claret_redis::topology::Topology;
    use claret_types::{BUILTIN, Operation, Set, SetOp};

    use super::*;

    fn sent(ops: impl IntoIterator<Item = Operation>) -> Arc<Together> {
        let settings = Builder::new("redis://h:1").settings().expect("a URL");
        let topology = Topology::alone(settings.seeds()[0].clone());
        let pool = Arc::new(Pool::new(settings));
        pool.adopt(&topology);
        Together::send(pool, ops.into_iter().map(|op| Call { key: "k".into(), op }).collect())
    }

    fn add_and_count() -> [Operation; 2] {
        [SetOp::Add(["a".into()].into_iter().collect()), SetOp::Len].map(Operation::new::<Set>)
    }

    fn lost() -> CommandError {
        CommandError::Lost { node: "h:1".into(), reason: "it broke".into() }
    }

    #[test]
    fn answers_are_in_the_order_of_the_calls() {
        let (all, mut woken) = (sent(add_and_count()), Wakers::new());
        assert!(all.take(Waker::noop()).is_none());
        all.receive(1, Ok(Reply::Int(7)), &mut woken);
        assert!(all.take(Waker::noop()).is_none() && woken.is_empty());
        all.receive(0, Ok(Reply::Int(1)), &mut woken);
        assert_eq!(woken.len(), 1, "who waits is woken once");
        let Some(SentOutcome::Done(replies)) = all.take(Waker::noop()) else { panic!("all are there") };
        assert_eq!(replies, [Reply::Ok, Reply::Int(7)]);
    }

    #[test]
    fn what_was_lost_may_have_been_carried_out() {
        let (all, mut woken) = (sent(add_and_count()), Wakers::new());
        all.receive(0, Err(lost()), &mut woken);
        all.receive(1, Ok(Reply::Int(7)), &mut woken);
        assert!(matches!(all.take(Waker::noop()), Some(SentOutcome::Unknown)));
        let again = all.again();
        assert!(again.take(Waker::noop()).is_none(), "the same calls are on their way");
    }

    #[test]
    fn what_has_no_command_is_refused_once_the_others_are_answered() {
        let keyspace = BUILTIN.iter().find(|kind| kind.name == "keyspace").expect("a type");
        let content = (keyspace.parse)("RECORD.CONTENT", &[]).expect("it takes no arguments");
        let [add, _] = add_and_count();
        let (all, mut woken) = (sent([content, add]), Wakers::new());
        assert!(all.take(Waker::noop()).is_none());
        all.receive(1, Ok(Reply::Int(1)), &mut woken);
        let outcome = all.take(Waker::noop());
        assert!(matches!(outcome, Some(SentOutcome::Failed(Refusal::Operation { .. }))), "{outcome:?}");
    }
}
