//! How long things take, in nanoseconds, and where the figures come from.
//!
//! `docs/performance.md` says how we measured our own figures.

/// How long each step of the model takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The way from a process to a shard or back.
    pub delay: u64,
    /// The longest extra time that a frame may take on its way; drawn uniformly, order on a link is kept.
    pub jitter: u64,
    /// A shard's work for a frame that comes in, and for the answer to it.
    pub frame: u64,
    /// A shard's work for a frame to a process that did not ask: a grant, a vote that waited.
    pub push: u64,
    /// A shard's work for a frame to another shard, and as much for one from another.
    pub peer: u64,
    /// A shard's work for an operation.
    pub op: u64,
    /// A shard's work for looking at an operation's lock, granted or not, and giving it back.
    pub lock: u64,
    /// A shard's work for any other message: a prepare and its vote, an apply, an abort, a grant that waited.
    pub message: u64,
    /// A process's work for a frame, in or out.
    pub process_frame: u64,
    /// A process's work for an operation that it sends, and for any other message, in or out.
    pub process_message: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            delay: 75_000,
            jitter: 0,
            frame: 1_500,
            push: 3_000,
            peer: 3_000,
            op: 780,
            lock: 380,
            message: 220,
            process_frame: 1_500,
            process_message: 200,
        }
    }
}

/// One of them, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its name.
    pub name: &'static str,
    /// How long.
    pub ns: u64,
    /// Where the default is from.
    pub source: &'static str,
}

impl Costs {
    /// All of them, each with the source of its default.
    pub fn list(&self) -> [Cost; 10] {
        const OWN: &str = "our own state machines, timed in process (docs/performance.md)";
        let cost = |name, ns, source| Cost { name, ns, source };
        [
            cost("delay", self.delay, "half of the 150 us round trip of claret-2015 s.6"),
            cost("jitter", self.jitter, "none, so that what differs is the protocol"),
            cost("frame", self.frame, "a plain pipelined command on Redis 7.0"),
            cost("push", self.push, "a push on a RESP3 connection, 2 to 4 us on Redis 7.0"),
            cost("peer", self.peer, "taken to be as a push"),
            cost("op", self.op, "a marginal operation inside one module command on Redis 7.0"),
            cost("lock", self.lock, OWN),
            cost("message", self.message, OWN),
            cost("process_frame", self.process_frame, "taken to be as at the shard"),
            cost("process_message", self.process_message, OWN),
        ]
    }
}
