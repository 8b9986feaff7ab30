//! Choosing elements by chance: `SRANDMEMBER`, `SPOP` and their like.

/// The most elements that an answer repeats: a larger count would be an answer without end.
const REPEATED_MAX: u64 = 1 << 24;

/// Positions below `len` for a count as these commands have it: at most so many distinct ones, or, below zero, exactly so many
/// with repetitions. `None`: more than an answer has.
pub(crate) fn positions(count: i64, len: usize) -> Option<Vec<usize>> {
    if len == 0 {
        return Some(Vec::new());
    }
    if count < 0 {
        let many = count.unsigned_abs();
        return (many <= REPEATED_MAX).then(|| (0..many).map(|_| rand::random_range(0..len)).collect());
    }
    Some(distinct(usize::try_from(count).unwrap_or(usize::MAX), len))
}

/// At most so many distinct positions, each choice as likely as any other.
pub(crate) fn distinct(count: usize, len: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..len).collect();
    let count = count.min(len);
    for at in 0..count {
        all.swap(at, rand::random_range(at..len));
    }
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_were_asked_for() {
        assert_eq!(positions(-5, 2).unwrap().len(), 5);
        assert_eq!(positions(i64::MIN, 2), None);
        assert_eq!(positions(5, 0).unwrap().len(), 0);
        let mut all = positions(i64::MAX, 4).unwrap();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        let seen: std::collections::BTreeSet<_> = (0..200).flat_map(|_| distinct(1, 3)).collect();
        assert_eq!(seen.len(), 3, "each is chosen once in a while");
    }
}
