//! Pauses between tries. They double, with jitter, so that the clients of a server that came back do not all connect
//! at once.

use std::time::Duration;

use claret_planted::{Bug, is_planted};

/// The first pause, at most.
const PAUSE_MS_MIN: u64 = 20;
/// Any pause, at most.
const PAUSE_MS_MAX: u64 = 2_000;

/// The pauses of one who tries again and again.
#[derive(Debug)]
pub struct Backoff {
    tries: u32,
    jitter: u64,
}

impl Backoff {
    /// A seed of its own for each connection.
    pub fn new(seed: u64) -> Self {
        Backoff { tries: 0, jitter: seed | 1 }
    }

    /// It worked: begins anew.
    pub fn reset(&mut self) {
        self.tries = if is_planted(Bug::PausesStayLong) { self.tries } else { 0 };
    }

    /// How long to pause now: between half of the doubled pause and all of it.
    pub fn pause(&mut self) -> Duration {
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let doubled =
            if is_planted(Bug::PausesStayShort) { PAUSE_MS_MIN } else { PAUSE_MS_MIN << self.tries.min(20) };
        let longest = doubled.min(PAUSE_MS_MAX) * 1_000;
        self.tries += 1;
        Duration::from_micros(longest / 2 + self.jitter % (longest / 2 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let (mut one, mut other) = (Backoff::new(1), Backoff::new(2));
        let pauses: Vec<Duration> = (0..40).map(|_| one.pause()).collect();
        assert!(pauses[0] <= Duration::from_millis(PAUSE_MS_MIN));
        assert!(pauses[..6].windows(2).all(|two| two[1] >= two[0]), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(PAUSE_MS_MAX)));
        assert!(pauses[30..].iter().all(|pause| *pause >= Duration::from_millis(PAUSE_MS_MAX / 2)));
        assert_ne!(pauses[0], other.pause());
        one.reset();
        assert!(one.pause() <= Duration::from_millis(PAUSE_MS_MIN));
    }
}
