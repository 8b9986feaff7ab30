//! Pauses between tries. They double up to a bound, and each is drawn evenly between zero and that length, so that clients
//! that met do not meet again (full jitter).

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Draws the pauses of one client.
#[derive(Debug)]
pub(crate) struct Backoff {
    rng: SmallRng,
    least_us: u64,
    most_us: u64,
}

impl Backoff {
    pub(crate) fn new(seed: u64, (least_us, most_us): (u64, u64)) -> Self {
        Backoff { rng: SmallRng::seed_from_u64(seed), least_us, most_us }
    }

    /// The pause after so many tries in vain, the first of them 1.
    pub(crate) fn after(&mut self, tries: u32) -> Duration {
        let longest = (self.least_us << tries.saturating_sub(1).min(32)).min(self.most_us);
        Duration::from_micros(self.rng.random_range(0..=longest))
    }

    /// A number that nobody else draws, but by a chance of 1 in 2^64.
    pub(super) fn token(&mut self) -> u64 {
        self.rng.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound() {
        let mut backoff = Backoff::new(1, (100, 1_000));
        let mut longest = |tries| (0..1_000).map(|_| backoff.after(tries)).max().expect("1,000");
        let us = Duration::from_micros;
        assert!(longest(1) <= us(100) && longest(2) > us(150) && longest(2) <= us(200));
        assert!(longest(9) > us(950) && longest(200) <= us(1_000));
    }
}
