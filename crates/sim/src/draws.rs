//! What a run draws while it goes on, each purpose from a stream of its own.

use crate::clock::Clock;
use crate::config::Config;
use crate::random::{Random, Stream};

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Draws {
    pub(crate) seed: u64,
    /// What users do, and when connections are made and write.
    pub(crate) client: Random,
    /// What users do with runs that are over.
    pub(crate) stale: Random,
    /// When shards hear that a session is gone, and forget it.
    pub(crate) partings: Random,
    /// Which frames are refused.
    pub(crate) frames: Random,
    /// When replicas have what was sent to them, and who is promoted.
    pub(crate) replication: Random,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        let of = |stream| Random::new(seed, stream);
        Draws {
            seed,
            client: of(Stream::Client),
            stale: of(Stream::Stale),
            partings: of(Stream::Partings),
            frames: of(Stream::Frames),
            replication: of(Stream::Replicas),
        }
    }

    /// Another stream, from its start.
    pub(crate) fn stream(&self, stream: Stream) -> Random {
        Random::new(self.seed, stream)
    }

    /// The clock of an end.
    pub(crate) fn clock(&self, config: &Config, stream: Stream) -> Clock {
        match config.faults.clocks {
            true => Clock::random(&mut self.stream(stream), config.limits.lease_us),
            false => Clock::TRUE,
        }
    }
}
