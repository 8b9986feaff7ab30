//! Float sums that do not depend on the order of their terms.
//!
//! Float additions are exact, and so commute, while every partial sum is an integer of at most 2^53. If a record's
//! sum is an integer of at most 2^52 and its pending additions draw at most 2^52 either way, that holds whatever
//! subset of them is applied. So the room is a constant and costs nothing to compute.

use crate::{Draw, Room};

/// The largest sum, and the largest total of pending additions, that is treated as exact: 2^52.
const EXACT_MAX: u64 = 1 << 52;

/// What exact additions draw against.
pub(crate) const EXACT_ROOM: Room = Room { down: EXACT_MAX, up: EXACT_MAX };

/// The whole room: a term claims it to exclude every other term.
pub(crate) const EXACT_DRAW: Draw = Draw { down: EXACT_MAX, up: EXACT_MAX };

/// Whether a sum or a term is an integer within the bound.
pub(crate) fn is_exact(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() <= EXACT_MAX as f64
}

/// What an exact term draws.
pub(crate) fn exact_draw(term: f64) -> Draw {
    debug_assert!(is_exact(term), "only exact terms draw");
    let amount = term.abs() as u64;
    if term < 0.0 { Draw { down: amount, up: 0 } } else { Draw { down: 0, up: amount } }
}

/// The same number with one zero instead of two, so that equal numbers have equal bits.
pub(crate) fn one_zero(value: f64) -> f64 {
    value + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_ends_at_the_bound() {
        let bound = EXACT_MAX as f64;
        assert!(is_exact(bound) && is_exact(-bound) && is_exact(0.0));
        assert!(!is_exact(bound + 1.0) && !is_exact(-bound - 1.0));
        assert!(!is_exact(0.5) && !is_exact(f64::INFINITY) && !is_exact(f64::NAN));
    }

    #[test]
    fn a_term_draws_its_size_in_its_direction() {
        assert_eq!(exact_draw(3.0), Draw { down: 0, up: 3 });
        assert_eq!(exact_draw(-3.0), Draw { down: 3, up: 0 });
    }

    #[test]
    fn there_is_one_zero() {
        assert_eq!(one_zero(-0.0).to_bits(), 0.0_f64.to_bits());
    }
}
