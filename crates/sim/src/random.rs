//! Random numbers, all from the seed of a run.
//!
//! ChaCha8 has a fixed definition, and ranges are drawn here by plain arithmetic, so that a seed means the
//! same run in every version of the libraries. Each purpose draws from a stream of its own: one more draw for
//! the network does not change what the programs do.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a stream is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Config,
    Setup,
    Network,
    Client,
    /// The clock of one end.
    Clock {
        end: u64,
    },
    /// The program of one transaction.
    Program {
        session: u64,
        sequence: u64,
    },
    /// The savepoints of one transaction.
    Savepoints {
        session: u64,
        sequence: u64,
    },
    /// What the operations of one transaction demand.
    Demands {
        session: u64,
        sequence: u64,
    },
    /// Which operations of one transaction become commands.
    Commands {
        session: u64,
        sequence: u64,
    },
    /// Which transactions first wait for something.
    Sleeping {
        session: u64,
        sequence: u64,
    },
    /// What users do with runs that are over.
    Stale,
    /// Which records expire, and when.
    Expiries,
    /// Which shards are flushed, and when.
    Flushes,
    /// When shards hear that a session is gone, and forget it.
    Partings,
    /// Which frames are refused.
    Frames,
    /// Which slots move, and when.
    Moves,
    /// When replicas have what was sent to them, and who is promoted.
    Replicas,
    /// Which keys are of types that were added later.
    Added,
    /// A client process of the performance model.
    Model(u64),
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(match stream {
            Stream::Config => 0,
            Stream::Setup => 1,
            Stream::Network => 2,
            Stream::Client => 3,
            Stream::Stale => 4,
            Stream::Expiries => 5,
            Stream::Flushes => 6,
            Stream::Partings => 7,
            Stream::Frames => 8,
            Stream::Moves => 9,
            Stream::Replicas => 10,
            Stream::Added => 11,
            Stream::Clock { end } => 1 << 60 | end,
            Stream::Program { session, sequence } => (session + 1) << 32 | sequence,
            Stream::Savepoints { session, sequence } => 1 << 61 | (session + 1) << 32 | sequence,
            Stream::Demands { session, sequence } => 1 << 62 | (session + 1) << 32 | sequence,
            Stream::Commands { session, sequence } => 1 << 62 | 1 << 61 | (session + 1) << 32 | sequence,
            Stream::Sleeping { session, sequence } => 1 << 63 | 1 << 61 | (session + 1) << 32 | sequence,
            Stream::Model(process) => 1 << 63 | process,
        });
        Random(generator)
    }

    /// The next so many numbers, for somebody who need not take them all, or be there at all: what is drawn after them is the same.
    pub(crate) fn apart(&mut self, numbers: u32) -> Random {
        let apart = self.clone();
        for _ in 0..numbers {
            self.number();
        }
        apart
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Less than `bound`, which is not 0. The bias of the remainder does not matter here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in so many of a thousand cases.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}
