//! How an interactive transaction goes: with locks, or looking without them. All ways are mixed on the same records.

use claret::{TxOptions, lab::TxLab};
use rand::{Rng, RngExt};

/// One that never locks gives up after so many attempts: on hot records something changes most of the time.
const PATIENCE: u32 = 10;

/// Half of them lock; a sixth never does.
pub(crate) fn drawn(options: TxOptions, random: &mut impl Rng) -> TxOptions {
    match random.random_range(0..6) {
        0..3 => options,
        3 | 4 => options.optimistic(),
        _ => options.optimistic_only().attempts(PATIENCE),
    }
}
