//! Zipf: picking from a fixed number of things by rank, in constant time.
//!
//! The rank `r` (from zero) is picked with a probability proportional to `1 / (r + 1)^alpha`; alpha 0 is
//! uniform. The table is made once and shared, because drawing from the distribution directly costs a
//! power for each draw, which would be measured along with the store.

use rand::Rng;
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

/// A Zipf distribution over ranks from zero.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    table: WeightedAliasIndex<f64>,
}

impl Zipf {
    /// Over `count` ranks. O(count).
    ///
    /// # Panics
    /// When `count` is zero or `alpha` is negative or not finite.
    pub(crate) fn new(count: usize, alpha: f64) -> Self {
        assert!(alpha >= 0.0 && alpha.is_finite(), "alpha is {alpha}; it must be zero or more");
        let weights = (1..=count).map(|rank| weight(rank, alpha)).collect();
        let table = WeightedAliasIndex::new(weights).expect("there are ranks, and their weights are finite");
        Zipf { table }
    }

    /// Picks a rank. O(1).
    pub(crate) fn pick(&self, rng: &mut impl Rng) -> usize {
        self.table.sample(rng)
    }

    /// The share of each rank, by the formula.
    pub(crate) fn shares(count: usize, alpha: f64) -> Vec<f64> {
        let sum: f64 = (1..=count).map(|rank| weight(rank, alpha)).sum();
        (1..=count).map(|rank| weight(rank, alpha) / sum).collect()
    }
}

fn weight(rank: usize, alpha: f64) -> f64 {
    (rank as f64).powf(-alpha)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    const KEYS: usize = 10_000;
    const DRAWS: usize = 400_000;

    fn counts(alpha: f64) -> Vec<usize> {
        let (zipf, mut rng) = (Zipf::new(KEYS, alpha), SmallRng::seed_from_u64(7));
        let mut counts = vec![0; KEYS];
        for _ in 0..DRAWS {
            counts[zipf.pick(&mut rng)] += 1;
        }
        counts
    }

    /// Ranks are grouped so that each group has enough draws for five standard deviations to mean something.
    #[test]
    fn shares_follow_the_formula() {
        for alpha in [0.0, 0.6, 1.0, 1.2] {
            let (counts, shares) = (counts(alpha), Zipf::shares(KEYS, alpha));
            for range in [0..1, 1..10, 10..100, 100..1_000, 1_000..KEYS] {
                let drawn = counts[range.clone()].iter().sum::<usize>() as f64;
                let share: f64 = shares[range.clone()].iter().sum();
                let expected = share * DRAWS as f64;
                let deviation = (expected * (1.0 - share)).sqrt();
                assert!(
                    (drawn - expected).abs() <= 5.0 * deviation,
                    "alpha {alpha}, ranks {range:?}: drawn {drawn}, expected {expected:.0} +- {deviation:.0}"
                );
            }
        }
    }

    #[test]
    fn known_shares_of_the_first_rank() {
        // 1 / H(10,000) and 1 / 10,000.
        assert!((Zipf::shares(KEYS, 1.0)[0] - 0.102_17).abs() < 1e-4);
        assert!((Zipf::shares(KEYS, 0.0)[0] - 0.000_1).abs() < 1e-12);
    }
}
