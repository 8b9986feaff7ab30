//! For tests of the parts: a shard over an empty keyspace whose clients hold keys, beside the queue of plain
//! commands.

use claret_core::message::{Call, Link, Output, Refusal, Request};
use claret_core::{
    Applied, AttemptId, Birth, CallNo, Incarnation, Limits, Member, Records, Sequence, SessionId, Shard,
    ShardId, Switches, Time, TxId,
};
use claret_types::{Access, Bytes, Effect, OpError, Operation, Set, SetOp, State, TypeInfo};

use crate::ffi::Blocked;
use crate::parts::blocked_clients::BlockedClients;
use crate::parts::plain::{Plain, whole};
use crate::parts::queue::{Asking, OWN, Queue, Want};

/// See the module's text.
pub(crate) struct Beside {
    pub(crate) shard: Shard,
    pub(crate) queue: Queue,
    pub(crate) blocked_clients: BlockedClients,
    pub(crate) now: Time,
    transactions: u64,
}

/// Records that are not there; of one no operation can be done, and of another nothing at all.
struct Absent;

/// Holds something else than any operation works on.
pub(crate) const WRONG: &str = "wrong";

/// The same, and cannot even be used as a whole.
pub(crate) const HOPELESS: &str = "hopeless";

impl Records for Absent {
    fn tag(&self) -> u16 {
        0
    }

    fn admit(&self, _: &Bytes, _: &Operation) -> Result<(), Refusal> {
        Ok(())
    }

    fn partial_state(&self, key: &Bytes, op: &Operation, _: &[&Effect]) -> Result<Option<State>, OpError> {
        let is_plain = op.type_info().id == TypeInfo::of::<Plain>().id;
        match **key == *HOPELESS.as_bytes() || **key == *WRONG.as_bytes() && !is_plain {
            true => Err(OpError::WrongType {
                found: "stream".into(),
                expected: "any".into(),
                method: op.method().name.into(),
            }),
            false => Ok(None),
        }
    }

    fn apply(&self, _: &Bytes, _: &[&Effect]) -> Applied {
        Applied::Done
    }
}

/// The session of those who hold keys.
const SESSION: SessionId = SessionId(7);
const LINK: Link = Link { session: SESSION, connection: 1 };

/// A handle of a client that waits, of which nothing but its number is known.
pub(crate) fn client(number: usize) -> Blocked {
    Blocked::from_raw(std::ptr::without_provenance_mut(8 * number))
}

/// What a command wants that uses the whole of a key.
pub(crate) fn want(key: &str, access: Access) -> Want {
    Want { key: Bytes::from(key), op: whole(access), access }
}

/// `SADD key member`, whose answer is seen.
pub(crate) fn add(member: &str) -> Operation {
    Operation::new::<Set>(SetOp::AddReturning([Bytes::from(member)].into_iter().collect()))
}

impl Beside {
    pub(crate) fn new() -> Self {
        Beside {
            shard: Shard::over(&Absent, ShardId(0), Incarnation(1), Switches::CLARET, Limits::default()),
            queue: Queue::default(),
            blocked_clients: BlockedClients::default(),
            now: Time(1),
            transactions: 0,
        }
    }

    fn begin(&mut self, op: Operation) -> (AttemptId, Birth, Call) {
        self.transactions += 1;
        let tx = TxId { session: SESSION, sequence: Sequence(self.transactions) };
        let birth = Birth { time: Time(self.transactions), tx };
        (
            AttemptId { tx, attempt: 1 },
            birth,
            Call { no: CallNo(1), op, member: Member::default(), reserve: None },
        )
    }

    fn handle(&mut self, request: Request) {
        self.shard.handle(self.now, LINK, request);
        self.settle();
    }

    /// A transaction does this, and has the key until it ends, or waits for it.
    pub(crate) fn uses(&mut self, key: &str, op: Operation) -> AttemptId {
        let (attempt, birth, call) = self.begin(op);
        let calls = std::iter::once(call).collect();
        self.handle(Request::Execute {
            attempt,
            birth,
            incarnation: None,
            key: Bytes::from(key),
            calls,
            undone: Default::default(),
        });
        attempt
    }

    /// The same, and has it now.
    pub(crate) fn holds(&mut self, key: &str, op: Operation) -> AttemptId {
        let attempt = self.uses(key, op);
        assert!(self.shard.is_held(key.as_bytes()), "{key}");
        attempt
    }

    pub(crate) fn aborts(&mut self, attempt: AttemptId) {
        self.handle(Request::Abort { attempt, refused_by: None });
    }

    /// A plain command asks for these; the number it goes by.
    pub(crate) fn asks(&mut self, wants: Vec<Want>, rest: &[(&str, Access)]) -> u64 {
        let rest = rest.iter().map(|(key, access)| (Bytes::from(*key), *access)).collect();
        let asking = Asking { wants, rest, owner: None };
        let birth = Time(1_000 + self.now.0);
        let number = self.queue.begin(self.now, birth, Limits::default(), &mut self.shard, asking);
        self.settle();
        number
    }

    /// A plain command is over.
    pub(crate) fn ends(&mut self, number: u64) {
        self.queue.end(self.now, &mut self.shard, number);
        self.settle();
    }

    /// The queue hears what the shard has for it.
    pub(crate) fn settle(&mut self) {
        while let Some(output) = self.shard.poll_output() {
            if let Output::Respond { session: OWN, response } = output {
                self.queue.hear(self.now, &mut self.shard, response);
            }
        }
    }

    /// Time passes, and what is due is done.
    pub(crate) fn passes(&mut self, micros: u64) {
        self.now = self.now.plus(micros);
        self.shard.handle_timeout(self.now);
        self.settle();
        self.queue.tick(self.now, &mut self.shard);
        self.settle();
    }

    /// Who is let go, by the numbers of their commands.
    pub(crate) fn released(&mut self) -> Vec<(Blocked, u64)> {
        std::iter::from_fn(|| self.queue.poll_released()).collect()
    }
}
