//! Choosing elements by chance: `SRANDMEMBER`, `SPOP` and their like.

use claret_types::Bytes;

use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::Steps;

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

/// Something of an element, as an answer has it.
pub(crate) trait Chosen: Clone + Send + 'static {
    fn bytes(&self) -> usize;
}

impl Chosen for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Chosen for claret_types::Reply {
    fn bytes(&self) -> usize {
        self.size()
    }
}

/// So many elements by chance (see [`positions`]), each of which is `width` of these. What they come to is charged before it is made.
pub(crate) async fn chosen<T: Chosen>(
    steps: Steps<'_>,
    count: i64,
    width: usize,
    all: Vec<T>,
    answer: fn(T) -> Answer,
) -> Result<Vec<Answer>, Fault> {
    let out_of_range = || Fault::told("ERR value is out of range");
    let length = all.len() / width;
    let many = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let many = match (count, length) {
        (0.., _) => many.min(length),
        (_, 0) => 0,
        _ => many,
    };
    // Distinct ones are chosen among all.
    let looked_at = if count < 0 { many } else { length };
    if many as u64 > REPEATED_MAX.max(length as u64) {
        return Err(out_of_range());
    }
    let beside = looked_at.saturating_mul(size_of::<usize>());
    steps.runner.take(beside.saturating_add(many.saturating_mul(width * size_of::<Answer>())))?;
    let choose = move || {
        let places = positions(count, length);
        let of = |at: usize| &all[at * width..(at + 1) * width];
        let bytes = places.iter().flatten().flat_map(|at| of(*at)).map(Chosen::bytes).sum();
        (places, all, bytes)
    };
    let (places, all, bytes): (_, Vec<T>, usize) = steps.runner.over(looked_at, choose).await;
    let places = places.ok_or_else(out_of_range)?;
    // As it is written, too.
    steps.runner.take(bytes)?;
    let of = move |at: usize| all[at * width..(at + 1) * width].to_vec();
    let answers = move || places.into_iter().flat_map(of).map(answer).collect();
    Ok(steps.runner.over(many.saturating_mul(width), answers).await)
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
