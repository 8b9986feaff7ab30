//! Clocks of shards and client processes: each runs at its own rate, from its own start. They serve liveness only
//! (P69), so no rate may make a run unsafe.

use claret_core::Time;

use crate::random::Random;

/// See the module's text. It shows `start + world * ticks / per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    start: u64,
    ticks: u64,
    per: u64,
}

/// How much faster or slower than the world a clock may run.
pub(crate) const RATE_MAX: u64 = 2;

impl Clock {
    /// The world's own time.
    pub(crate) const TRUE: Clock = Clock { start: 0, ticks: 1, per: 1 };

    /// Between half and double speed, ahead by up to `ahead_us_max`.
    pub(crate) fn random(random: &mut Random, ahead_us_max: u64) -> Clock {
        let (ticks, per) = *random.pick(&[(1, 1), (1, 2), (9, 10), (11, 10), (2, 1)]);
        Clock { start: random.below(ahead_us_max + 1), ticks, per }
    }

    /// What it shows at a moment of the world.
    pub(crate) fn shows(self, world: Time) -> Time {
        Time(self.start + world.0 * self.ticks / self.per)
    }

    /// The first moment of the world at which it shows `local` or later.
    pub(crate) fn reaches(self, local: Time) -> Time {
        Time((local.0.saturating_sub(self.start) * self.per).div_ceil(self.ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn a_clock_reaches_what_it_shows() {
        let random = &mut Random::new(1, Stream::Setup);
        for _ in 0..200 {
            let clock = Clock::random(random, 5_000);
            let world = Time(random.below(1_000_000));
            let first = clock.reaches(clock.shows(world));
            assert!(first <= world && clock.shows(first) >= clock.shows(world), "{clock:?} at {world}");
            assert!(
                first.0 == 0 || clock.shows(Time(first.0 - 1)) < clock.shows(world),
                "{clock:?} at {world}"
            );
        }
    }
}
