//! Ranges of positions as Redis counts them: inclusive, negative ones from the end, clamped to what is
//! there.

use std::ops::Range;

/// The positions `start..=stop` of a sequence of `len`, half open; empty if there are none.
pub(crate) fn span(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_front = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let start = from_front(start).max(0);
    let stop = from_front(stop).min(len - 1);
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// The part `inner` of an answer that holds the positions `outer`, both inclusive and counted from the
/// front (`-1` as a stop is the end). Half open, and not clamped to what the answer holds.
///
/// `None` if the answer cannot contain it.
pub(crate) fn within(outer: (i64, i64), inner: (i64, i64)) -> Option<Range<usize>> {
    let end = |stop: i64| match stop {
        -1 => Some(i64::MAX),
        0.. => Some(stop),
        _ => None,
    };
    let (outer_stop, inner_stop) = (end(outer.1)?, end(inner.1)?);
    if outer.0 < 0 || inner.0 < outer.0 || inner_stop > outer_stop {
        return None;
    }
    let start = (inner.0 - outer.0) as usize;
    let stop = inner_stop.saturating_add(1).saturating_sub(outer.0).max(0) as usize;
    Some(start..stop.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_redis() {
        let cases = [
            ((0, -1), 0..3),
            ((0, 1), 0..2),
            ((1, 1), 1..2),
            ((-2, -1), 1..3),
            ((-100, 100), 0..3),
            ((2, 1), 0..0),
            ((3, 5), 0..0),
            ((0, -4), 0..0),
            ((-5, -3), 0..1),
            ((i64::MIN, i64::MAX), 0..3),
        ];
        for ((start, stop), expected) in cases {
            assert_eq!(span(start, stop, 3), expected, "{start} {stop}");
        }
        assert_eq!(span(0, -1, 0), 0..0);
    }

    #[test]
    fn a_part_lies_within_the_whole() {
        assert_eq!(within((0, 9), (2, 4)), Some(2..5));
        assert_eq!(within((2, 9), (2, 9)), Some(0..8));
        assert_eq!(within((2, -1), (3, 4)), Some(1..3));
        assert_eq!(within((1, -1), (4, -1)).map(|part| part.start), Some(3));
        assert_eq!(within((0, 9), (5, 3)), Some(5..5));
        assert_eq!(within((2, 9), (1, 4)), None);
        assert_eq!(within((2, 9), (3, 10)), None);
        assert_eq!(within((2, 9), (3, -1)), None);
        assert_eq!(within((-3, -1), (0, 1)), None);
        assert_eq!(within((0, 9), (0, -2)), None);
    }
}
